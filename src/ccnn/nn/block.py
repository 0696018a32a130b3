"""The residual block of the CCNN."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ccnn.domain import Domain, Grid, Points
from ccnn.nn.cache import Cache, refuse_training
from ccnn.nn.conv import SeparableFlexConv
from ccnn.nn.dropout import Dropout
from ccnn.nn.norm import BatchNorm
from ccnn.nn.pointwise import Pointwise
from ccnn.nn.reach import Reach
from ccnn.nn.signal import weights_of
from ccnn.ops.affine import Affine
from ccnn.ops.branch import frozen_branch, is_fast, residual_branch
from ccnn.ops.conv import Engine, prepare


class ResidualBlock(nn.Module):
    """The pre-norm residual block: y = x + GELU(W · Dropout(GELU(Conv(Norm(x)))) + b).

    §3 "An improved residual block", Fig. 2: pre-norm, one convolution, no activation on the
    shortcut.

    Parameters
    ----------
    conv
        The convolution, from C to C channels.
    dropout
        What is dropped after the first activation; it never sees the domain.

    Shapes
    ------
    x : (B, C, *S)
    result : (B, C, *S)
    """

    def __init__(self, conv: SeparableFlexConv, dropout: Dropout) -> None:
        super().__init__()
        self.norm = BatchNorm(conv.in_channels)
        self.conv = conv
        self.dropout = dropout
        self.linear = Pointwise(conv.out_channels, conv.in_channels)
        self.cache: Cache | None = None

    def forward(
        self,
        x: Tensor,
        domain: Domain | None = None,
        *,
        query: Tensor | None = None,
        reach: Reach | None = None,
        lean: bool = False,
    ) -> Tensor:
        """(B, C, *S) -> (B, C, *S).

        ``domain`` already laid under x; ``lean`` keeps only x for the gradient, on grids. With
        ``query``, (B, M, D), x holds the values at M places of which the samples are the first.
        """
        grid = Grid() if domain is None else domain
        cache = self.cache
        if cache is not None:
            refuse_training(self.training)
        if isinstance(grid, Points):
            return self._at_points(x, grid, query, reach)
        if torch.is_autocast_enabled(x.device.type) or (cache is not None and not is_fast(x)):
            h = F.gelu(self.conv(self.norm(x, grid.mask), grid, reach=reach))
            return x + F.gelu(self.linear(self.dropout(h)))
        if cache is not None:
            return self._frozen(x, grid, cache)
        scale, shift = self.norm.affine(x, grid.mask)
        return residual_branch(
            x,
            self._kernel(grid.spacings(self.conv.dim), reach, lean),
            scale,
            shift,
            *self._maps(),
            factor=self.dropout.factor(x),
            mask=grid.mask,
            weights=weights_of(grid),
            causal=self.conv.causal,
            lean=lean,
        )

    def _at_points(
        self, x: Tensor, points: Points, query: Tensor | None, reach: Reach | None
    ) -> Tensor:
        # The network is a function of position: it can be followed at any place, but only samples
        # are seen, by the convolution and by the statistics.
        samples = x[..., : points.positions.shape[1]]
        n = Affine(*self.norm.affine(samples, points.mask))(samples).to(x.dtype)
        h = F.gelu(self.conv(n, points, query=query, reach=reach))
        return x + F.gelu(self.linear(self.dropout(h)))

    def _kernel(self, spacings: Sequence[float], reach: Reach | None, lean: bool) -> Tensor:
        if not lean:
            return self.conv.sampled_kernel(spacings, reach=reach)
        # The network's activations at every tap are many times the kernel.
        kernel: Tensor = checkpoint(
            self.conv.sampled_kernel, spacings, reach=reach, use_reentrant=False
        )
        return kernel

    def _maps(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        mix = self.conv.mix
        assert mix is not None
        # The convolution's bias goes through the mixing: W (y + b') + b = W y + (W b' + b).
        bias = mix.bias + mix.weight @ self.conv.bias
        return mix.weight, bias, self.linear.weight, self.linear.bias

    @torch.no_grad()
    def _frozen(self, x: Tensor, grid: Grid, cache: Cache) -> Tensor:
        spacings = grid.spacings(self.conv.dim)
        weight_1, bias_1, weight_2, bias_2 = self._maps()
        scale, shift = self.norm.affine(x)
        weights = weights_of(grid)
        if grid.mask is not None or weights is not None:
            return frozen_branch(
                x,
                self.conv.engine(x, spacings, cache),
                weight_1,
                bias_1,
                weight_2,
                bias_2,
                before=Affine(scale, shift, grid.mask, weights),
            )

        def make() -> tuple[Engine, Tensor]:
            # K ⋆ (s x + t) = (s K) ⋆ x + t (K ⋆ 1), where K ⋆ 1 is less near the borders.
            kernel = self.conv.sampled_kernel(spacings)
            plain = prepare(kernel, x, causal=self.conv.causal)
            ones = plain.apply(torch.ones_like(x[:1]))[0].flatten(1)  # (C, P)
            scaled = kernel * scale.view(-1, *(1,) * self.conv.dim)
            bias = weight_1 @ (ones * shift[:, None]) + bias_1[:, None]
            return prepare(scaled, x, causal=self.conv.causal), bias

        engine, bias = cache.get((spacings, tuple(x.shape[2:]), x.dtype, "folded"), make)
        return frozen_branch(x, engine, weight_1, bias, weight_2, bias_2)
