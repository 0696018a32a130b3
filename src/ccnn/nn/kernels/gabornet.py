"""GaborNet: a multiplicative filter network with isotropic Gabor filters (Fathony et al. 2021)."""

from collections.abc import Sequence

from ccnn.nn.kernels import mfn
from ccnn.nn.kernels.base import Omega, check_at_least, initial_omega, linear, per_axis


class GaborNet(mfn.AbstractFilterNet):
    """A product of Gabor filters, each with one width for all axes.

    As `MAGNet`, with γ ~ Gamma(6/(M+1), 1) for every filter and u ~ U(±1/D).

    Parameters
    ----------
    dim, out_channels, hidden, layers, omega_0, band, spread, causal
        As for `MAGNet`.

    Shapes
    ------
    coords : (*K, D)
    result : (*K, C)

    Notes
    -----
    The reference implementation moves the centres to coordinate 1 whenever D = 1, causal or
    not; here only a causal network has them there.
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
        for _ in range(layers + 1):
            gamma = mfn.gamma_sample((hidden, 1), 6.0 / (layers + 1))
            weight = mfn.uniform((hidden, dim), 1 / dim) * scale * gamma
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
