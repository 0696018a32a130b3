"""Initialisation of kernel networks for their purpose: being a convolution kernel.

§3 "Proper initialization": a convolution keeps the variance of white noise, Var(y) = Var(x),
when the energy Σk² of the kernel of each output channel is 1.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from ccnn.nn.kernels.base import AbstractKernelNet
from ccnn.nn.kernels.weight_norm import set_weight_, weight_of
from ccnn.nn.masks import GaussianMask
from ccnn.nn.pointwise import Pointwise
from ccnn.ops.grids import nyquist

Init = Literal["energy", "authors", "none"]
INITS = ("energy", "authors", "none")

# The reference implementation's value.
_SPREAD_IN_SIGMA = 1.667

# Far below the energy of any kernel that has a tap away from lag zero.
_SILENT = 1e-6


def gabor_spread(sigma: Sequence[float]) -> list[float]:
    """Return how far from lag zero a fresh network's Gabor centres lie, for a window's σ."""
    return [_SPREAD_IN_SIGMA * abs(s) for s in sigma]


def initialise_(
    net: AbstractKernelNet,
    mask: GaussianMask | None,
    kernel_size: Sequence[int],
    *,
    sample: Callable[[], Tensor],
    init: Init,
    gain: float,
    fan_in: int,
    causal: bool,
) -> None:
    """Fit the kernel network of a layer to its grid, as ``init`` of `AbstractContinuousConv` says.

    ``sample`` returns the layer's kernel as it is now, ``fan_in`` is the number of input channels
    that it sums over.
    """
    if init not in INITS:
        raise ValueError(f"init is {init!r}; expected one of {', '.join(INITS)}")
    if net.omega_0 == "auto":
        limit_band_(net, kernel_size)
    if init == "energy":
        match_energy_(net, sample, gain=gain)
    elif init == "authors":
        reweight_like_authors_(net, mask, kernel_size, fan_in=fan_in, causal=causal)


@torch.no_grad()
def limit_band_(net: AbstractKernelNet, kernel_size: Sequence[int]) -> None:
    """Scale the initial frequencies so that they sum to ``band`` times Nyquist on every axis.

    Above Nyquist a kernel is white noise on the training grid and has unrelated values on any
    other. |w| summed ≤ band · π (K - 1)/2.
    """
    highest = net.frequencies()
    limit = torch.tensor([net.band * nyquist(k) for k in kernel_size], dtype=highest.dtype)
    if (highest > 0).all():
        net.scale_frequencies_(limit.to(highest.device) / highest)


@torch.no_grad()
def match_energy_(
    net: AbstractKernelNet, sample: Callable[[], Tensor], *, gain: float = 1.0
) -> None:
    """Re-weight the last layer so that each output channel's kernel has Σk² = gain².

    Exact for any window, any cropping and any network, because the kernel is measured.

    Parameters
    ----------
    net
        The network that makes the kernel.
    sample
        Returns what it makes now: (C, *K) or (C_out, C_in, *K).
    gain
        1 keeps the variance.
    """
    energy = _energies(sample(), net.out_channels)
    # A network of sines is zero at lag zero, so where a window leaves no other tap the kernel
    # can only be a constant.
    silent = energy < _SILENT
    if silent.any():
        net.last.bias[silent] = 1.0
        energy = _energies(sample(), net.out_channels)
    factor = (gain / energy.sqrt()).to(net.last.weight.dtype)
    set_weight_(net.last, weight_of(net.last) * factor[:, None])
    net.last.bias.mul_(factor)


def _energies(kernel: Tensor, count: int) -> Tensor:
    """Return Σk² of each output channel, repeated for each of the network's outputs: (count,)."""
    energy = kernel.flatten(start_dim=1).double().square().sum(dim=1)
    return energy.repeat_interleave(count // len(energy))


@torch.no_grad()
def scale_branches_(last_maps: Sequence[Pointwise]) -> None:
    """Divide the last map of each of B residual branches by B.

    Smooth kernels, fed with each other's output, amplify what they have in common, and so their
    amplitudes add up rather than their variances; B of them then give as much as one.
    """
    for linear in last_maps:
        linear.weight.div_(len(last_maps))


@torch.no_grad()
def reweight_like_authors_(
    net: AbstractKernelNet,
    mask: GaussianMask | None,
    kernel_size: Sequence[int],
    *,
    fan_in: int,
    causal: bool,
) -> None:
    """Divide the last layer by √(in_channels · kernel_size), as the reference implementation.

    It counts the taps that its cropping leaves and neglects the window's attenuation, so that
    Σk² is about 0.35 in 1-D and 0.12 in 2-D instead of 1.
    """
    taps = 1
    for d, k in enumerate(kernel_size):
        taps *= k if mask is None else authors_taps(k, float(mask.radius()[d]), causal=causal)
    set_weight_(net.last, weight_of(net.last) / math.sqrt(fan_in * taps))


def authors_taps(kernel_size: int, radius: float, *, causal: bool) -> int:
    """Return how many taps the reference implementation keeps for a window of a given radius."""
    if radius >= (2 if causal else 1):
        return kernel_size
    step = 2 / max(kernel_size - 1, 1)
    if causal:
        return kernel_size - math.floor((2 - radius) / step)
    return 2 * math.ceil(radius / step + 1e-8) - 1
