"""What our network is compared with: a GRU and a plain CNN, called as ours: ``model(x, domain)``.

Both are trained by `ccnn.fitting.fit` like any network of ours, so that data, schedule and scores
are the same.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ccnn.domain import Domain, Points, as_domain
from ccnn.nn import BatchNorm

CONV: dict[int, type[nn.Conv1d] | type[nn.Conv2d] | type[nn.Conv3d]] = {
    1: nn.Conv1d,
    2: nn.Conv2d,
    3: nn.Conv3d,
}


class PlainCNN(nn.Module):
    """A residual network of ordinary convolutions, with BatchNorm and a mean over all positions.

    Its kernels are weights at fixed taps: of a domain it uses the mask, a spacing means nothing to
    it. Samples that do not exist are zeros, in every layer.

    Parameters
    ----------
    in_channels, classes
        Channels of the signal; outputs.
    dim
        D, the number of axes.
    channels, blocks
        The width, and how many blocks of two convolutions.
    kernel_size
        Taps on each axis, odd.
    stride
        Every block keeps one of so many positions on each axis; for long signals.
    dropout
        Between the two convolutions of a block, of whole channels.

    Shapes
    ------
    x : (B, C_in, *S)
    result : (B, classes)
    """

    def __init__(
        self,
        in_channels: int,
        classes: int,
        dim: int,
        channels: int,
        blocks: int,
        *,
        kernel_size: int = 3,
        stride: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if kernel_size % 2 == 0:
            raise ValueError(f"kernel_size is {kernel_size}; expected an odd number")
        self.stem = CONV[dim](in_channels, channels, kernel_size, padding=kernel_size // 2)
        self.blocks = nn.ModuleList(
            PlainBlock(dim, channels, kernel_size, stride, dropout) for _ in range(blocks)
        )
        self.norm = BatchNorm(channels)
        self.output = nn.Linear(channels, classes)

    def forward(self, x: Tensor, domain: Domain | None = None) -> Tensor:
        domain = as_domain(domain)
        if isinstance(domain, Points):
            raise TypeError("a plain CNN has no kernel between its taps: it needs a ccnn.Grid")
        mask = domain.on(x).mask
        x = self.stem(_only(x, mask))
        for block in self.blocks:
            x, mask = block(x, mask)
        x = F.relu(self.norm(x, mask))
        if mask is None:
            return self.output(x.flatten(2).mean(dim=-1))
        total = _only(x, mask).flatten(2).sum(dim=-1)
        return self.output(total / mask.flatten(2).sum(dim=-1).clamp(min=1))


class PlainBlock(nn.Module):
    """x + conv(relu(norm(conv(relu(norm(x)))))), the first convolution with the stride."""

    def __init__(self, dim: int, channels: int, kernel_size: int, stride: int, dropout: float):
        super().__init__()
        conv, padding = CONV[dim], kernel_size // 2
        self.stride = stride
        self.first = conv(channels, channels, kernel_size, stride=stride, padding=padding)
        self.second = conv(channels, channels, kernel_size, padding=padding)
        self.norms = nn.ModuleList([BatchNorm(channels), BatchNorm(channels)])
        self.dropout = nn.Dropout1d(dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        h = self.first(_only(F.relu(self.norms[0](x, mask)), mask))
        every = (..., *[slice(None, None, self.stride)] * (x.ndim - 2))
        x, mask = x[every], None if mask is None else mask[every]
        h = F.relu(self.norms[1](h, mask))
        h = self.dropout(h.flatten(2)).view_as(h)
        return x + self.second(_only(h, mask)), mask


class GRUClassifier(nn.Module):
    """A GRU over samples in the order of time, each told with its gap to the one before.

    What it reads at a step: the values (zero where there is none, the mean of standardised data),
    whether the sample was observed, and log(1 + time since the last observed one). On a
    ``Grid`` with holes it steps through the holes; at ``Points`` it meets existing samples only.

    Parameters
    ----------
    in_channels, classes
        Channels of the signal; outputs.
    channels, layers
        Of the GRU, in each direction.
    bidirectional
        Whether a second GRU reads backwards.
    dropout
        On what it reads out, and between layers.

    Shapes
    ------
    x : (B, C_in, S)
    result : (B, classes)
    """

    def __init__(
        self,
        in_channels: int,
        classes: int,
        channels: int,
        *,
        layers: int = 1,
        bidirectional: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        between = dropout if layers > 1 else 0.0  # torch warns of one that has no place
        self.gru = nn.GRU(
            in_channels + 2,
            channels,
            layers,
            batch_first=True,
            bidirectional=bidirectional,
            dropout=between,
        )
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(channels * (2 if bidirectional else 1), classes)

    def forward(self, x: Tensor, domain: Domain | None = None) -> Tensor:
        values, times, exists = in_order(x, as_domain(domain))
        steps = torch.cat(
            [
                values,
                exists[..., None].to(x.dtype),
                time_gaps(times, exists).to(x.dtype)[..., None],
            ],
            dim=-1,
        )
        lengths = _last(exists) + 1
        packed = pack_padded_sequence(steps, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(
            self.gru(packed)[0], batch_first=True, total_length=x.shape[-1]
        )
        seen = exists[..., None].to(x.dtype)  # (B, S, 1)
        mean = (states * seen).sum(dim=1) / seen.sum(dim=1)
        return self.output(self.dropout(mean))


def in_order(x: Tensor, domain: Domain) -> tuple[Tensor, Tensor, Tensor]:
    """Return values, times and which samples exist, by time: (B, S, C), (B, S), (B, S).

    At points those that do not exist come last; on a grid they are holes between the others.
    """
    if isinstance(domain, Points):
        times = domain.on(x).positions[..., 0]
        exists = torch.ones_like(times, dtype=torch.bool)
        exists = exists if domain.mask is None else domain.mask[:, 0]
        order = torch.where(exists, times, torch.inf).argsort(dim=1, stable=True)
        values = x.mT.gather(1, order[..., None].expand(-1, -1, x.shape[1]))
        times, exists = times.gather(1, order), exists.gather(1, order)
    else:
        grid = domain.on(x)
        values, exists = x.mT, torch.ones_like(x[:, 0], dtype=torch.bool)
        exists = exists if grid.mask is None else grid.mask[:, 0]
        times = torch.arange(x.shape[-1], dtype=torch.float64, device=x.device)
        times = (times * grid.spacings(1)[0]).expand(exists.shape)
    return torch.where(exists[..., None], values, 0.0), times, exists


def time_gaps(times: Tensor, exists: Tensor) -> Tensor:
    """Return log(1 + time since the last sample before that exists), 0 for the first: (B, S)."""
    known = torch.where(exists, times, -torch.inf).cummax(dim=1).values
    before = F.pad(known[:, :-1], (1, 0), value=-torch.inf)
    gap = torch.where(before.isfinite(), times - before, 0.0)
    return gap.clamp(min=0.0).log1p()


def _last(exists: Tensor) -> Tensor:
    """Return the index of the last sample of each signal that exists, (B, S) -> (B,)."""
    place = torch.arange(exists.shape[1], device=exists.device)
    return torch.where(exists, place, 0).amax(dim=1)


def _only(x: Tensor, mask: Tensor | None) -> Tensor:
    return x if mask is None else torch.where(mask, x, 0.0)
