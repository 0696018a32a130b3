"""The FlexNet: a residual network for images with FlexConvs.

Romero et al. 2022, FlexConv (https://openreview.net/forum?id=3jooF27-0Wy).
"""

from collections.abc import Sequence

from ccnn.models.arguments import Head
from ccnn.models.flexconv import flex_conv
from ccnn.models.post_norm import AbstractPostNormNet, check_ancestor
from ccnn.nn.init import Init
from ccnn.nn.kernels.base import Omega
from ccnn.nn.norm import BatchNorm
from ccnn.ops.grids import KernelSize


class FlexNet(AbstractPostNormNet):
    """A residual network of centred FlexConvs, whose width grows with depth.

    A stem (FlexConv, BatchNorm, ReLU), blocks of FlexConv, BatchNorm, ReLU, dropout, FlexConv and
    BatchNorm, the mean over positions, a linear map. A third of the blocks have ``channels``
    channels, a third half as many again, a third twice as many. The published network for
    images of three channels and ten classes has seven and 671,650 parameters; it is defined for
    signals of any dimension here.

    Parameters
    ----------
    in_channels, out_channels, size, dropout, dropout_in, head, embedding, band
        As for `CCNN`.
    kernel_channels, kernel_layers, omega_0, mask_sigma, kernel_size
        As for `CCNN`.
    blocks, channels
        7 and 24, or 5 and 22, in the paper.
    init
        ``"energy"`` (the initial kernels keep the variance), ``"authors"`` (as the published
        code starts) or ``"none"`` (as drawn).

    Shapes
    ------
    x : (B, C_in, *S), or (B, *S) integers with an embedding
    result : (B, C_out), or (B, C_out, *S) with ``head="none"``
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        size: Sequence[int],
        *,
        blocks: int = 7,
        channels: int = 24,
        kernel_channels: int = 32,
        kernel_layers: int = 3,
        omega_0: Omega = "auto",
        mask_sigma: float | Sequence[float] | None = None,
        kernel_size: KernelSize = "same",
        dropout: float = 0.0,
        dropout_in: float = 0.0,
        head: Head = "pool",
        embedding: int | None = None,
        band: float = 1.0,
        init: Init = "energy",
    ) -> None:
        # Everything needed to build this network again.
        arguments = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        sizes = check_ancestor("FlexNet", arguments, sequences_only=False)
        super().__init__(
            arguments,
            widths=block_widths(blocks, channels),
            conv=lambda before, after: flex_conv(before, after, sizes, arguments, causal=False),
            norm=BatchNorm,
            stem=True,
            open_end=True,
        )


def block_widths(blocks: int, channels: int) -> list[int]:
    """Return the width of each block: 1, 1.5 and 2 times the channels, a third of them each.

    Of blocks left over the middle third gets the first and the last third the second, which gives
    the published 2, 3, 2 of seven and 1, 2, 2 of five.
    """
    third, left = divmod(blocks, 3)
    counts = (third, third + (left > 0), third + (left > 1))
    factors = (1.0, 1.5, 2.0)
    return [int(f * channels) for f, n in zip(factors, counts, strict=True) for _ in range(n)]
