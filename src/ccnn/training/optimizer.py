"""AdamW and its groups: what decays, what does not, and the windows with their own rate."""

from typing import Any

import torch
from torch import nn

from ccnn.nn.kernels import AbstractKernelNet
from ccnn.nn.masks import GaussianMask
from ccnn.nn.norm import BatchNorm
from ccnn.training.settings import Optim

_NORMS = (BatchNorm, nn.LayerNorm, nn.GroupNorm, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def parameter_groups(model: nn.Module, optim: Optim) -> list[dict[str, Any]]:
    """Return the groups ``decay``, ``plain`` and ``masks`` for an optimiser.

    Weights of linear maps, convolutions and embeddings decay. Biases, norms, kernel networks
    and windows do not: pulling a σ or the frequency of a kernel to zero is another prior.
    """
    masks = _parameters_of(model, (GaussianMask,))
    spared = masks | _parameters_of(model, (*_NORMS, AbstractKernelNet))
    groups: dict[str, list[nn.Parameter]] = {"decay": [], "plain": [], "masks": []}
    for p in model.parameters():
        if p.requires_grad:
            in_masks, decays = id(p) in masks, p.ndim >= 2 and id(p) not in spared
            groups["masks" if in_masks else "decay" if decays else "plain"].append(p)
    decay = optim.weight_decay if optim.decay == "decoupled" else 0.0
    return [
        {
            "name": name,
            "params": parameters,
            "peak": optim.lr * (optim.mask_lr_ratio if name == "masks" else 1.0),
            "weight_decay": decay if name == "decay" else 0.0,
        }
        for name, parameters in groups.items()
        if parameters
    ]


def make_optimizer(model: nn.Module, optim: Optim) -> torch.optim.AdamW:
    """Return AdamW over `parameter_groups`; each group's ``peak`` is its largest rate."""
    # One loop over all tensors instead of several small operations on each; on other devices
    # torch has a fast way of its own.
    fused = True if all(p.device.type == "cpu" for p in model.parameters()) else None
    return torch.optim.AdamW(parameter_groups(model, optim), lr=optim.lr, fused=fused)


def set_rate(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set every group's learning rate to its peak times a factor."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * factor


def _parameters_of(model: nn.Module, classes: tuple[type[nn.Module], ...]) -> set[int]:
    return {id(p) for m in model.modules() if isinstance(m, classes) for p in m.parameters()}
