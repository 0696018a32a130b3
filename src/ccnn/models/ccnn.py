"""The Continuous CNN: one network for signals of any length, resolution and dimension."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ccnn.domain import Domain, Grid, Points, as_domain
from ccnn.models.arguments import Head, check_arguments
from ccnn.models.separable import separable_conv
from ccnn.models.symbols import embed
from ccnn.nn.block import ResidualBlock
from ccnn.nn.conv import SeparableFlexConv
from ccnn.nn.dropout import Dropout, DropoutKind
from ccnn.nn.init import Init, scale_branches_
from ccnn.nn.kernels.base import Omega
from ccnn.nn.masks import Window
from ccnn.nn.norm import BatchNorm
from ccnn.nn.pointwise import Pointwise
from ccnn.nn.pool import last_position, latest_points, mean_over_points, mean_over_positions
from ccnn.nn.reach import Reach, read_radii, read_reaches
from ccnn.nn.scattered import as_query
from ccnn.nn.signal import check_signal, check_size, lay, signal_axes, weights_of
from ccnn.ops.affine import Affine
from ccnn.ops.grids import KernelSize


class CCNN(nn.Module):
    """A residual network of depthwise-separable continuous convolutions (§3, Fig. 2).

    Parameters
    ----------
    in_channels, out_channels
        Channels of the signal; classes, or targets.
    size
        The training size of the signal, one number per axis; its length is D.
    blocks, channels
        The number of residual blocks and their width; 4 and 140, or 6 and 380, in the paper.
    kernel_channels, kernel_layers
        Width and depth of the kernel networks.
    omega_0
        Prior on the kernels' frequencies; ``"auto"`` fits them to the grid (see ``band``).
    mask_sigma
        Initial width of the windows, one number or one per axis; None is
        max(0.075, 2/(K-1)).
    kernel_size
        ``"same"``, ``"full"``, or odd integers.
    causal
        Whether output t sees inputs up to and including t only. D = 1.
    dropout, dropout_in
        Dropout rates in the blocks and on the input.
    head
        ``"pool"`` (mean over valid positions), ``"last"`` (the last valid position, D = 1) or
        ``"none"`` (an output at every position; zero where there is no sample).
    embedding
        The number of symbols where x holds integers instead of channels; each becomes a
        learned vector of ``in_channels`` numbers.
    dropout_kind
        Whether dropout in the blocks zeroes whole channels or elements.
    kernel
        The name of the kernel network in ``ccnn.nn.KERNELS``.
    band
        With ``omega_0="auto"``, the fraction of Nyquist that the initial kernels may reach.
    init
        How kernel networks are initialised: ``"energy"``, ``"authors"`` or ``"none"``.
    checkpoint
        Keep only the input of each block for the gradient and compute the rest again: less
        memory for more time, for very long signals. On grids; at points it changes nothing.
    window
        How the windows end: ``"cut"`` to zero at a tenth of their height, as in the paper, or
        ``"smooth"``, without a jump (see `ccnn.nn.GaussianMask`).
    lowpass
        On a grid coarser than the training grid, take from the kernels what that grid cannot
        hold. At points it changes nothing.

    Shapes
    ------
    x : (B, C_in, *S), or (B, *S) integers with an embedding; S is N at `ccnn.Points`
    result : (B, C_out), or (B, C_out, *S) with ``head="none"``
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        size: Sequence[int],
        *,
        blocks: int = 4,
        channels: int = 140,
        kernel_channels: int = 32,
        kernel_layers: int = 3,
        omega_0: Omega = "auto",
        mask_sigma: float | Sequence[float] | None = None,
        kernel_size: KernelSize = "same",
        causal: bool = False,
        dropout: float = 0.0,
        dropout_in: float = 0.0,
        head: Head = "pool",
        embedding: int | None = None,
        dropout_kind: DropoutKind = "channel",
        kernel: str = "MAGNet",
        band: float = 1.0,
        init: Init = "energy",
        checkpoint: bool = False,
        window: Window = "cut",
        lowpass: bool = False,
    ) -> None:
        # Everything needed to build this network again, ready for JSON (`ccnn.save`).
        arguments = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        super().__init__()
        self.arguments = arguments
        self.size = check_size(size)
        check_arguments(arguments, len(self.size))
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.head = head
        self.checkpoint = checkpoint
        self.embedding = None if embedding is None else nn.Embedding(embedding, in_channels)
        self.dropout_in = nn.Dropout(dropout_in)
        self.stem = separable_conv(in_channels, channels, self.size, arguments)
        self.stem_norm = BatchNorm(channels)
        self.blocks = nn.ModuleList(
            ResidualBlock(
                separable_conv(channels, channels, self.size, arguments),
                Dropout(dropout, kind=dropout_kind),
            )
            for _ in range(blocks)
        )
        self.norm = BatchNorm(channels)
        self.output = Pointwise(channels, out_channels)
        if init == "energy":
            scale_branches_([block.linear for block in self._residual_blocks()])

    def forward(
        self, x: Tensor, domain: Domain | None = None, *, query: Tensor | None = None
    ) -> Tensor:
        """(B, C_in, *S) -> (B, C_out), or (B, C_out, *S) with ``head="none"``.

        With ``query``, positions (B, M, D) or (B, M), and `ccnn.Points`, the output is at those
        positions instead: (B, C_out, M).
        """
        domain = as_domain(domain)
        if self.embedding is not None:
            x = embed(x, self.embedding, domain, signal_axes(domain, len(self.size)))
        dim = len(self.size)
        check_signal(x, self.in_channels, signal_axes(domain, dim), self.output.weight)
        domain = lay(domain, x, dim, causal=self.stem.causal)
        if query is not None:
            query = self._checked_query(query, domain)
        if self.stem.cache is not None:  # inside ccnn.cached
            with torch.no_grad():
                return self._run(x, domain, query, [None] * (1 + len(self.blocks)))
        # The windows of all layers in one host read, before any of the work.
        layers = self.convolutions()
        if isinstance(domain, Points):
            return self._run(x, domain, query, read_radii(layers))
        return self._run(x, domain, None, read_reaches(layers, domain.spacings(dim)))

    def _checked_query(self, query: Tensor, domain: Domain) -> Tensor:
        if self.head != "none":
            raise ValueError(
                f'query asks for outputs at positions, but head="{self.head}" gives one vector per '
                'signal; build the network with head="none"'
            )
        return as_query(query, domain)

    def _run(
        self,
        x: Tensor,
        domain: Domain,
        query: Tensor | None,
        reaches: Sequence[Reach | None],
    ) -> Tensor:
        if domain.mask is not None:
            x = torch.where(domain.mask, x, 0.0)
        x = self.dropout_in(x)
        if isinstance(domain, Points):
            return self._run_at_points(x, domain, query, reaches)
        if self.training:
            x = self.stem_norm(self.stem(x, domain, reach=reaches[0]), domain.mask)
        else:
            x = self.stem(x, domain, reach=reaches[0], then=self.stem_norm.affine(x))
        x = F.gelu(x)
        for block, reach in zip(self.blocks, reaches[1:], strict=True):
            x = block(x, domain, reach=reach, lean=self.checkpoint)
        return self._head(x, domain)

    def _run_at_points(
        self, x: Tensor, points: Points, query: Tensor | None, reaches: Sequence[Reach | None]
    ) -> Tensor:
        """Follow the network at the samples and, behind them, at the places asked for."""
        count = points.positions.shape[1]
        places = None if query is None else torch.cat([points.positions, query], dim=1)
        x = self.stem(x, points, query=places, reach=reaches[0])
        x = F.gelu(_normalised(self.stem_norm, x, points))
        for block, reach in zip(self.blocks, reaches[1:], strict=True):
            x = block(x, points, query=places, reach=reach)
        if self.head == "none":
            y: Tensor = self.output(_normalised(self.norm, x, points))
            if query is not None:
                return y[..., count:]
            return y if points.mask is None else torch.where(points.mask, y, 0.0)
        scale, shift = self.norm.affine(x, points.mask)
        assert isinstance(points.weights, Tensor)
        if self.head == "pool":
            pooled = mean_over_points(x, points.weights)
        else:
            pooled = latest_points(x, points.positions[..., 0], points.mask)
        return F.linear(pooled * scale + shift, self.output.weight, self.output.bias)

    def convolutions(self) -> list[SeparableFlexConv]:
        """Return the stem's convolution and those of the blocks, in order."""
        return [self.stem, *(block.conv for block in self._residual_blocks())]

    def _residual_blocks(self) -> list[ResidualBlock]:
        return [block for block in self.blocks if isinstance(block, ResidualBlock)]

    def _head(self, x: Tensor, grid: Grid) -> Tensor:
        mask = grid.mask
        if self.head == "none":
            y: Tensor = self.output(self.norm(x, mask))
            return y if mask is None else torch.where(mask, y, 0.0)
        # The normalisation is affine in each channel, so it may follow the pooling.
        scale, shift = self.norm.affine(x, mask)
        if self.head == "pool":
            pooled = mean_over_positions(x, mask, weights_of(grid))
        else:
            pooled = last_position(x, mask)
        return F.linear(pooled * scale + shift, self.output.weight, self.output.bias)


def _normalised(norm: BatchNorm, x: Tensor, points: Points) -> Tensor:
    """Normalise x (B, C, M), of which the first N are the samples, by the samples' statistics."""
    samples = x[..., : points.positions.shape[1]]
    return Affine(*norm.affine(samples, points.mask))(x).to(x.dtype)
