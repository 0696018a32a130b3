"""What is added to the loss by name: the authors' norms, FlexConv's anti-aliasing."""

import math

import torch
from torch import Tensor, nn

from ccnn.nn.conv import AbstractContinuousConv
from ccnn.nn.kernels import AbstractKernelNet
from ccnn.nn.kernels.mfn import AbstractFilterNet, FourierFilter, GaborFilter
from ccnn.nn.reach import read_reaches

# FlexConv counts a Gaussian's spectrum up to two standard deviations.
_DEVIATIONS = 2.0


def convolutions(model: nn.Module) -> list[AbstractContinuousConv]:
    """Return the continuous convolutions of a network, in order."""
    return [m for m in model.modules() if isinstance(m, AbstractContinuousConv)]


def authors_norms(model: nn.Module) -> Tensor:
    """Return Σ_p ‖p‖₂ + Σ_layers ‖K‖₂, the reference implementation's "weight decay".

    Unsquared norms, one per tensor: of every parameter outside of the kernel networks (biases,
    norms and σ included), and of every sampled, windowed kernel in place of its network.
    """
    spared = {
        id(p) for m in model.modules() if isinstance(m, AbstractKernelNet) for p in m.parameters()
    }
    tensors: list[Tensor] = [p for p in model.parameters() if id(p) not in spared]
    layers = convolutions(model)
    if layers:
        reaches = read_reaches(layers, (1.0,) * layers[0].dim)
        pairs = zip(layers, reaches, strict=True)
        tensors += [layer.sampled_kernel(reach=reach) for layer, reach in pairs]
    return torch.stack([torch.linalg.vector_norm(t) for t in tensors]).sum()


def aliasing(model: nn.Module) -> Tensor:
    """Return Σ_layers Σ_filters max(0, f - f_N/n)², FlexConv's anti-aliasing penalty.

    f = max_{j,d} (|w_jd| + 2|γ_jd| + 2/(n σ_d)) / 2π is how high a filter and its share of the
    window reach, f_N = (K_d - 1)/4 the grid's Nyquist frequency, and n the number of filters of
    the kernel network: frequencies of a product add up.

    Romero et al. 2022, FlexConv. Kernel networks without filters (SIREN, MLP, …) count nothing.
    """
    terms = [_excess(layer) for layer in convolutions(model)]
    found = [term for term in terms if term is not None]
    if not found:
        return torch.zeros((), device=next(model.parameters()).device)
    return torch.stack(found).sum()


def _excess(layer: AbstractContinuousConv) -> Tensor | None:
    if not isinstance(layer.kernel, AbstractFilterNet):
        return None
    filters = list(layer.kernel.filters)
    nyquist = layer.bias.new_tensor([(k - 1) / 4 for k in layer.kernel_size])  # (D,)
    limit = nyquist / len(filters)
    if layer.mask is not None:
        width = layer.mask.sigma.abs().clamp(min=1e-6)
        limit = limit - _DEVIATIONS / width / (2 * math.pi * len(filters))
    excesses = []
    for g in filters:
        assert isinstance(g, GaborFilter | FourierFilter)
        reach = g.weight.abs()  # (H, D)
        if isinstance(g, GaborFilter):
            reach = reach + _DEVIATIONS * g.gamma.abs()
        excesses.append((reach / (2 * math.pi) - limit).amax().clamp(min=0).square())
    return torch.stack(excesses).sum()
