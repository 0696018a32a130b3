"""FourierNet: a multiplicative filter network with plain sine filters (Fathony et al. 2021)."""

import torch
from torch import nn

from ccnn.nn.kernels import mfn
from ccnn.nn.kernels.base import Omega, check_at_least, initial_omega


class FourierNet(mfn.AbstractFilterNet):
    """A product of sines.

    h₀ = g₀(c), h_i = g_i(c) ⊙ (W_i h_{i-1} + b_i), G(c) = W_out h_M + b_out, g(c) = sin(W c),
    with initial W ~ 2π ω₀ U(±1/D) and orthogonal W_i.

    Parameters
    ----------
    dim, out_channels, hidden, layers, omega_0, band
        As for `MAGNet`.

    Shapes
    ------
    coords : (*K, D)
    result : (*K, C)
    """

    def __init__(
        self,
        dim: int,
        out_channels: int,
        *,
        hidden: int = 32,
        layers: int = 3,
        omega_0: Omega = "auto",
        band: float = 1.0,
    ) -> None:
        check_at_least(1, dim=dim, hidden=hidden)
        scale = mfn.TWO_PI * initial_omega(omega_0)
        super().__init__(
            dim,
            out_channels,
            filters=[
                mfn.FourierFilter(mfn.uniform((hidden, dim), 1 / dim) * scale)
                for _ in range(layers + 1)
            ],
            hidden=_orthogonal(hidden, layers),
            omega_0=omega_0,
            band=band,
        )


def _orthogonal(hidden: int, layers: int) -> list[nn.Linear]:
    """Return W_i = √2 · orthogonal, b_i = row sums of W_i ⋯ W_1, over H · 2^i."""
    result, product = [], torch.eye(hidden)
    for i in range(1, layers + 1):
        layer = nn.Linear(hidden, hidden)
        nn.init.orthogonal_(layer.weight, gain=2**0.5)
        with torch.no_grad():
            product = layer.weight @ product
            layer.bias.copy_(product.sum(dim=1) / (hidden * 2**i))
        result.append(layer)
    return result
