"""Separable convolutions as the CCNN has them."""

from collections.abc import Mapping, Sequence
from typing import Any

from ccnn.models.names import pick
from ccnn.nn.conv import SeparableFlexConv
from ccnn.nn.init import gabor_spread
from ccnn.nn.kernels import KERNELS, MLP, AbstractKernelNet, GaborNet, MAGNet
from ccnn.nn.kernels.base import per_axis
from ccnn.nn.masks import GaussianMask, default_sigma
from ccnn.ops.grids import resolve_kernel_size


def separable_conv(
    before: int, after: int, size: Sequence[int], arguments: Mapping[str, Any]
) -> SeparableFlexConv:
    """Return a separable convolution with a kernel network and a window of its own.

    Parameters
    ----------
    before, after
        The channels.
    size
        The training size of the signal.
    arguments
        Of the network: kernel, kernel_size, kernel_channels, kernel_layers, omega_0, band,
        mask_sigma, window, causal, init and lowpass.
    """
    kernel_size, causal = arguments["kernel_size"], arguments["causal"]
    sigma = [default_sigma(k) for k in resolve_kernel_size(size, kernel_size, causal=causal)]
    if arguments["mask_sigma"] is not None:
        sigma = list(per_axis(arguments["mask_sigma"], len(size), "mask_sigma"))
    mask = GaussianMask(len(size), sigma=sigma, window=arguments["window"])
    return SeparableFlexConv(
        before,
        after,
        size=size,
        kernel_size=kernel_size,
        kernel=_kernel_network(before, mask.sigma.tolist(), arguments),
        mask=mask,
        causal=causal,
        init=arguments["init"],
        lowpass=arguments["lowpass"],
    )


def _kernel_network(
    out_channels: int, sigma: list[float], arguments: Mapping[str, Any]
) -> AbstractKernelNet:
    """Build a kernel network of the kind that is named, with the arguments that kind knows."""
    kind = pick(arguments["kernel"], KERNELS, "kernel")
    hidden, layers = arguments["kernel_channels"], arguments["kernel_layers"]
    dim = len(sigma)
    if issubclass(kind, MLP):
        return kind(dim, out_channels, hidden=hidden, layers=layers)
    settings: dict[str, Any] = {
        "hidden": hidden,
        "layers": layers,
        "omega_0": arguments["omega_0"],
        "band": arguments["band"],
    }
    if issubclass(kind, MAGNet | GaborNet):
        settings |= {"spread": gabor_spread(sigma), "causal": arguments["causal"]}
    return kind(dim, out_channels, **settings)
