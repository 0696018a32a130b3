"""The network as a textbook would write it: the yardstick of the speed benchmarks.

The same mathematics and the same parameters as `ccnn.CCNN`, without anything clever: FFTs of
length L + K - 1, K odd, with torch's own gradients, 1×1 convolutions by ``ConvNd``, direct
convolution in 2-D and 3-D and for short kernels, every coordinate of the cropped kernel through
the network. It does what the reference implementation does, so that its time stands for the time
of that code.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ccnn import CCNN
from ccnn.nn import BatchNorm, MAGNet, Pointwise, SeparableFlexConv
from ccnn.ops.grids import coordinate_grid, lag_zero, relative_axis, step_in_coordinates

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
# The reference implementation uses an FFT in 1-D when the kernel is longer than this.
FFT_ABOVE = 50


class Textbook(nn.Module):
    """A CCNN computed the plain way, on the parameters of a given one."""

    def __init__(self, model: CCNN) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        model = self.model
        x = F.gelu(_norm(model.stem_norm, _conv(model.stem, x)))
        for block in model.blocks:
            h = F.gelu(_conv(block.conv, _norm(block.norm, x)))
            x = x + F.gelu(_pointwise(block.linear, block.dropout(h)))
        x = _norm(model.norm, x)
        return F.linear(x.flatten(2).mean(-1), model.output.weight, model.output.bias)


def _norm(norm: BatchNorm, x: Tensor) -> Tensor:
    return F.batch_norm(
        x, norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.training
    )


def _pointwise(layer: Pointwise, x: Tensor) -> Tensor:
    dim = x.ndim - 2
    return CONV[dim](x, layer.weight.view(*layer.weight.shape, *(1,) * dim), layer.bias)


def _kernel(conv: SeparableFlexConv) -> Tensor:
    reach = [
        min(int(r / step_in_coordinates(k)), k - 1 if conv.causal else k // 2)
        for r, k in zip(conv.mask.radius().tolist(), conv.kernel_size, strict=True)
    ]
    axes = [
        relative_axis(n, k, 1.0, causal=conv.causal)
        for n, k in zip(reach, conv.kernel_size, strict=True)
    ]
    relative = coordinate_grid(axes).float()
    values = _network(conv.kernel, relative + lag_zero(causal=conv.causal)) * conv.mask(relative)
    return values.movedim(-1, 0)


def _network(net: MAGNet, coords: Tensor) -> Tensor:
    h = _gabor(net.filters[0], coords)
    for layer, filter_ in zip(net.hidden, net.filters[1:], strict=True):
        h = _gabor(filter_, coords) * layer(h)
    return net.output(h)


def _gabor(filter_: nn.Module, coords: Tensor) -> Tensor:
    distance = filter_.gamma * (coords.unsqueeze(-2) - filter_.centre)
    window = torch.exp(-0.5 * distance.square().sum(dim=-1))
    return window * torch.sin(F.linear(coords, filter_.weight, filter_.bias))


def _conv(conv: SeparableFlexConv, x: Tensor) -> Tensor:
    kernel = _kernel(conv)
    if conv.dim == 1:
        y = _conv_1d(x, kernel, causal=conv.causal) + conv.bias[:, None]
    else:
        padding = [k // 2 for k in kernel.shape[1:]]
        y = CONV[conv.dim](x, kernel.unsqueeze(1), conv.bias, padding=padding, groups=len(kernel))
    return _pointwise(conv.mix, y)


def _conv_1d(x: Tensor, kernel: Tensor, *, causal: bool) -> Tensor:
    if kernel.shape[-1] % 2 == 0:  # the reference implementation wants an odd number of taps
        kernel = F.pad(kernel, (1, 0))
    length, taps = x.shape[-1], kernel.shape[-1]
    padded = F.pad(x, (taps - 1, 0) if causal else (taps // 2, taps // 2))
    if taps <= FFT_ABOVE:
        return F.conv1d(padded, kernel.unsqueeze(1), groups=len(kernel))
    n = padded.shape[-1]
    spectrum = torch.fft.rfft(padded) * torch.fft.rfft(kernel, n=n).conj()
    return torch.fft.irfft(spectrum, n=n)[..., :length]
