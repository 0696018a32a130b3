"""The CKCNN, first of the line: dense kernels as long as the signal, made by a SIREN.

Romero et al. 2022, CKConv (https://arxiv.org/abs/2102.02611).
"""

from collections.abc import Sequence

import torch
from torch import nn

from ccnn.models.arguments import Head
from ccnn.models.post_norm import AbstractPostNormNet, check_ancestor
from ccnn.nn.conv import CKConv
from ccnn.nn.init import Init
from ccnn.nn.kernels import SIREN
from ccnn.nn.kernels.base import Omega
from ccnn.nn.kernels.weight_norm import set_weight_
from ccnn.nn.norm import LayerNorm

# The published networks' value.
_EPS = 1e-12


class CKCNN(AbstractPostNormNet):
    """A residual network of causal CKConvs for sequences.

    Two blocks, each twice CKConv, LayerNorm, ReLU and dropout; the last position is read. A
    kernel is as long as the training sequence and made by a SIREN with weight normalisation.
    98,286 parameters for sMNIST, as published.

    Parameters
    ----------
    in_channels, out_channels, size, dropout, dropout_in, head, embedding, band
        As for `CCNN`; ``size`` has one axis. ``head="last"`` is the published one.
    blocks, channels
        2 and 30 in the small networks of the paper, 2 and 100 in the large ones.
    kernel_channels, kernel_layers
        Width of the SIRENs, and their linear layers in all.
    omega_0
        ω₀ of the SIRENs, 4 to 43 in the published networks; ``"auto"`` fits the frequencies of
        the initial kernels to the grid.
    init
        ``"energy"`` (the initial kernels keep the variance), ``"authors"`` (as the published
        code starts, whose SIREN initialisation is undone by the weight normalisation) or
        ``"none"`` (SIREN's own).

    Shapes
    ------
    x : (B, C_in, S), or (B, S) integers with an embedding
    result : (B, C_out), or (B, C_out, S) with ``head="none"``

    Notes
    -----
    The norms look at the whole sequence, so the network is not causal although its convolutions
    are.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        size: Sequence[int],
        *,
        blocks: int = 2,
        channels: int = 30,
        kernel_channels: int = 32,
        kernel_layers: int = 3,
        omega_0: Omega = "auto",
        dropout: float = 0.0,
        dropout_in: float = 0.0,
        head: Head = "last",
        embedding: int | None = None,
        band: float = 1.0,
        init: Init = "energy",
    ) -> None:
        # Everything needed to build this network again.
        arguments = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        length = check_ancestor("CKCNN", arguments, sequences_only=True)

        def conv(before: int, after: int) -> CKConv:
            kernel = SIREN(
                1,
                before * after,
                hidden=kernel_channels,
                layers=kernel_layers,
                omega_0=omega_0,
                band=band,
                weight_norm=True,
            )
            if init == "authors":
                start_like_ckconv_(kernel)
            own: Init = "energy" if init == "energy" else "none"
            return CKConv(before, after, size=length, kernel=kernel, causal=True, init=own)

        super().__init__(
            arguments,
            widths=[channels] * blocks,
            conv=conv,
            norm=lambda width: LayerNorm(width, eps=_EPS),
        )


def start_like_ckconv_(net: SIREN) -> None:
    """Give a SIREN the weights with which the published code starts.

    It writes SIREN's initial weights where the weight normalisation overwrites them, so that
    torch's remain, W ~ U(±1/√n) for n inputs; its biases, U(±1), stay.
    """
    for layer in net.modules():
        if isinstance(layer, nn.Linear):
            bound = layer.in_features**-0.5
            set_weight_(layer, torch.empty_like(layer.weight).uniform_(-bound, bound))
            nn.init.uniform_(layer.bias, -1.0, 1.0)
