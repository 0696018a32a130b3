"""Normalisation in any dimension, of batches or of signals, which sees only samples that exist."""

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from ccnn.ops.affine import Affine
from ccnn.ops.branch import is_fast
from ccnn.ops.moments import moments


class BatchNorm(nn.Module):
    """Normalise every channel over the batch and all its valid positions.

    The same as ``nn.BatchNorm1d/2d/3d`` for a batch without a mask in one process, with the
    same parameters and buffers. With a mask, samples that do not exist are not counted. In
    distributed training the sums run over all processes.

    Parameters
    ----------
    channels
        C.
    eps, momentum
        As in torch.

    Shapes
    ------
    x : (B, C, *S)
    mask : (B, 1, *S), bool, or None
    result : (B, C, *S)
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, channels: int, *, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps = eps
        self.momentum = momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.long))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, C, *S) -> (B, C, *S)."""
        if mask is not None:
            x = torch.where(mask, x, 0.0)  # 0 · NaN would reach the gradients
        if not self.training:
            return F.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
        scale, shift = self.affine(x, mask)
        return Affine(scale, shift)(x).to(x.dtype)

    def affine(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the scale and the shift, (C,) each, that normalise x.

        In training they come from x, through which gradients flow, and the running statistics
        are updated; otherwise they come from the running statistics.
        """
        mean, var = self.running_mean, self.running_var
        if self.training:
            mean, var, count = masked_statistics(x, mask)
            self._track(mean, var, count)
        scale = self.weight * torch.rsqrt(var + self.eps)
        return scale, self.bias - mean * scale

    @torch.no_grad()
    def _track(self, mean: Tensor, var: Tensor, count: Tensor) -> None:
        self.num_batches_tracked.add_(1)
        unbiased = var * (count / (count - 1).clamp(min=1))
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), self.momentum)

    def extra_repr(self) -> str:
        """Return the settings shown by ``print``."""
        return f"{len(self.weight)}, eps={self.eps}, momentum={self.momentum}"


class LayerNorm(nn.Module):
    """Normalise every signal over all its channels and valid positions.

    The same as ``nn.GroupNorm(1, channels)`` for signals without a mask, with the same
    parameters. With a mask, samples that do not exist are not counted. The statistics look at
    the whole signal, so that nothing behind this layer is causal.

    Parameters
    ----------
    channels
        C.
    eps
        What is added to the variance.

    Shapes
    ------
    x : (B, C, *S)
    mask : (B, 1, *S), bool, or None
    result : (B, C, *S)
    """

    def __init__(self, channels: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, C, *S) -> (B, C, *S)."""
        if mask is None:
            return F.group_norm(x, 1, self.weight, self.bias, self.eps)
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        axes = tuple(range(1, x.ndim))
        count = mask.sum(axes, keepdim=True) * len(self.weight)  # (B, 1, …)
        mean = torch.where(mask, wide, 0.0).sum(axes, keepdim=True) / count
        centred = torch.where(mask, wide - mean, 0.0)
        var = centred.square().sum(axes, keepdim=True) / count
        return Affine(self.weight, self.bias)(centred * torch.rsqrt(var + self.eps)).to(x.dtype)

    def extra_repr(self) -> str:
        """Return the settings shown by ``print``."""
        return f"{len(self.weight)}, eps={self.eps}"


def masked_statistics(x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean (C,), variance (C,) and count () over valid samples of all processes."""
    x = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    if mask is None and is_fast(x) and not _is_distributed():
        mean, var = moments(x)
        return mean, var, x.new_tensor(x.numel() / x.shape[1])
    axes = [0, *range(2, x.ndim)]
    if mask is None:
        count = x.new_tensor(x.numel() / x.shape[1])
    else:
        count = mask.sum().to(x.dtype)
        x = torch.where(mask, x, 0.0)
    sums = _sum_over_processes(torch.cat([x.sum(axes), count[None]]))
    mean, count = sums[:-1] / sums[-1], sums[-1].detach()
    # A second pass, since E[x²] - E[x]² cancels where the mean is large.
    centred = x - mean.view(1, -1, *(1,) * (x.ndim - 2))
    if mask is not None:
        centred = torch.where(mask, centred, 0.0)
    var = _sum_over_processes(centred.square().sum(axes)) / count
    return mean, var, count


def _is_distributed() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _sum_over_processes(x: Tensor) -> Tensor:
    if not _is_distributed():
        return x
    total: Tensor = _AllReduceSum.apply(x)  # type: ignore[no-untyped-call]  # torch's own gap
    return total


class _AllReduceSum(torch.autograd.Function):
    """y = Σ_p x_p on every process; so the gradient of x_p is Σ_p of the gradients of y."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        total = grad.clone()
        dist.all_reduce(total)
        return total
