"""MAGNet, the kernel network of the paper: Multiplicative Anisotropic Gabor Network.

Romero et al. 2022, FlexConv (https://openreview.net/forum?id=3jooF27-0Wy).
"""

from collections.abc import Sequence

from ccnn.nn.kernels import mfn
from ccnn.nn.kernels.base import Omega, check_at_least, initial_omega, linear, per_axis


class MAGNet(mfn.AbstractFilterNet):
    """A product of anisotropic Gabor filters.

    h₀ = g₀(c), h_i = g_i(c) ⊙ (W_i h_{i-1} + b_i), G(c) = W_out h_M + b_out, with
    g(c) = exp(-½ Σ_d [γ_d (c_d - μ_d)]²) · sin(Σ_d w_d c_d + b).

    App. B.1 "The kernel generator network". The initial sine weights are w = 2π ω₀ γ u with
    u ~ U(±1/√D) and γ ~ Gamma(6/(i+1), 1) for filter i.

    Parameters
    ----------
    dim, out_channels, omega_0, band
        As for every kernel network (`AbstractKernelNet`).
    hidden
        H, the number of units of each filter; 32 and 64 in the paper.
    layers
        M, the number of hidden linear layers; M + 1 filters. 3 in the paper.
    spread
        How far from lag zero the centres μ lie at the start, one number or one per axis.
    causal
        Whether lag zero is the coordinate 1, with nothing after it, or 0.

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
        spread: float | Sequence[float] = 1.0,
        causal: bool = False,
    ) -> None:
        check_at_least(1, dim=dim, hidden=hidden)
        spreads = per_axis(spread, dim, "spread")
        scale = mfn.TWO_PI * initial_omega(omega_0)
        filters = []
        for i in range(layers + 1):
            gamma = mfn.gamma_sample((hidden, dim), 6.0 / (i + 1))
            weight = mfn.uniform((hidden, dim), dim**-0.5) * scale * gamma
            centre = mfn.centre_sample(hidden, spreads, causal=causal)
            filters.append(mfn.GaborFilter(weight, gamma, centre))
        super().__init__(
            dim,
            out_channels,
            filters=filters,
            hidden=[linear(hidden, hidden, bias=1.0) for _ in range(layers)],
            omega_0=omega_0,
            band=band,
        )
