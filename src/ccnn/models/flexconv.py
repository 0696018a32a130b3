"""FlexConvs as the FlexTCN and the FlexNet have them.

Romero et al. 2022, FlexConv (https://openreview.net/forum?id=3jooF27-0Wy).
"""

import math
from collections.abc import Sequence
from typing import Any

from torch import nn

from ccnn.nn.conv import FlexConv
from ccnn.nn.init import gabor_spread
from ccnn.nn.kernels import MAGNet
from ccnn.nn.kernels.base import per_axis
from ccnn.nn.kernels.mfn import GaborFilter
from ccnn.nn.masks import GaussianMask, default_sigma
from ccnn.ops.grids import resolve_kernel_size


def flex_conv(
    before: int, after: int, size: Sequence[int], arguments: dict[str, Any], *, causal: bool
) -> FlexConv:
    """Return a FlexConv whose window may move as well as widen.

    Parameters
    ----------
    before, after
        The channels.
    size
        The training size of the signal.
    arguments
        Of the network: kernel_size, kernel_channels, kernel_layers, omega_0, band, mask_sigma
        and init.
    causal
        As in `FlexConv`.
    """
    kernel_size, sigma = arguments["kernel_size"], arguments["mask_sigma"]
    taps = resolve_kernel_size(size, kernel_size, causal=causal)
    sigmas = [default_sigma(k) for k in taps]
    if sigma is not None:
        sigmas = list(per_axis(sigma, len(size), "mask_sigma"))
    kernel = MAGNet(
        len(size),
        before * after,
        hidden=arguments["kernel_channels"],
        layers=arguments["kernel_layers"],
        omega_0=arguments["omega_0"],
        band=arguments["band"],
        spread=gabor_spread(sigmas),
        causal=causal,
    )
    if arguments["init"] == "authors":
        start_like_flexconv_(kernel)
    return FlexConv(
        before,
        after,
        size=size,
        kernel_size=kernel_size,
        kernel=kernel,
        mask=GaussianMask(len(size), sigma=sigmas, learn_mean=True),
        causal=causal,
        init="energy" if arguments["init"] == "energy" else "none",
    )


def start_like_flexconv_(net: MAGNet) -> None:
    """Give a MAGNet the phases, centres and linear layers with which FlexConv's starts.

    Phases U(±π), centres U(±1) whether causal or not, and torch's own linear layers. Its sine
    weights are those of a MAGNet with 2π ω₀ = 25.6/√(M + 1), that is ω₀ = 2.037.
    """
    for g in net.filters:
        assert isinstance(g, GaborFilter)
        nn.init.uniform_(g.bias, -math.pi, math.pi)
        nn.init.uniform_(g.centre, -1.0, 1.0)
    for layer in (*net.hidden, net.output):
        bound = layer.in_features**-0.5
        nn.init.uniform_(layer.weight, -bound, bound)
        nn.init.uniform_(layer.bias, -bound, bound)
