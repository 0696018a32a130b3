"""The FlexTCN: the CKCNN's blocks with FlexConvs, for sequences.

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


class FlexTCN(AbstractPostNormNet):
    """A residual network of causal FlexConvs for sequences.

    Each block is twice FlexConv, BatchNorm, ReLU and dropout; the last position is read. With
    six blocks, ``flextcn_6``, 373,324 parameters for one channel and 375,364 for three, as
    published.

    Parameters
    ----------
    in_channels, out_channels, size, dropout, dropout_in, head, embedding, band
        As for `CCNN`; ``size`` has one axis. ``head="last"`` is the published one.
    kernel_channels, kernel_layers, omega_0, mask_sigma, kernel_size
        As for `CCNN`.
    blocks, channels
        6 and 30 in the paper.
    init
        ``"energy"`` (the initial kernels keep the variance), ``"authors"`` (as the published
        code starts) or ``"none"`` (as drawn).

    Shapes
    ------
    x : (B, C_in, S), or (B, S) integers with an embedding
    result : (B, C_out), or (B, C_out, S) with ``head="none"``
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        size: Sequence[int],
        *,
        blocks: int = 6,
        channels: int = 30,
        kernel_channels: int = 32,
        kernel_layers: int = 3,
        omega_0: Omega = "auto",
        mask_sigma: float | Sequence[float] | None = None,
        kernel_size: KernelSize = "same",
        dropout: float = 0.0,
        dropout_in: float = 0.0,
        head: Head = "last",
        embedding: int | None = None,
        band: float = 1.0,
        init: Init = "energy",
    ) -> None:
        # Everything needed to build this network again.
        arguments = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        length = check_ancestor("FlexTCN", arguments, sequences_only=True)
        super().__init__(
            arguments,
            widths=[channels] * blocks,
            conv=lambda before, after: flex_conv(before, after, length, arguments, causal=True),
            norm=BatchNorm,
        )
