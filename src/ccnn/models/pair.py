"""A network that judges two signals together, as in the Retrieval task of the Long Range Arena."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ccnn.domain import Domain, Grid, as_domain
from ccnn.models.ccnn import CCNN
from ccnn.nn.conv import SeparableFlexConv
from ccnn.nn.signal import signal_axes


class PairCCNN(nn.Module):
    """One CCNN reads both signals, a linear map judges what it found in them.

    y = W [a, b, a ⊙ b, a − b] + β,  a and b the encoder's outputs

    The paper has no network for this task; comparing features in this way is the usual one for it.

    Parameters
    ----------
    out_channels
        Classes, or targets.
    encoder
        The arguments of the `CCNN` that reads each signal; its ``out_channels`` is the number of
        features, its head must give one vector per signal.

    Shapes
    ------
    x : (B, 2, C_in, *S), or (B, 2, *S) integers with an embedding
    lengths : in the domain, (B, 2) where D = 1, or those of x.flatten(0, 1)
    result : (B, C_out)
    """

    def __init__(self, out_channels: int, encoder: Mapping[str, Any]) -> None:
        super().__init__()
        if encoder.get("head", "pool") == "none":
            raise ValueError('head="none" gives no vector per signal to compare: use "pool"')
        if not isinstance(out_channels, int) or out_channels < 1:
            raise ValueError(f"out_channels must be a positive integer, got {out_channels!r}")
        self.arguments = {"out_channels": out_channels, "encoder": dict(encoder)}
        self.encoder = CCNN(**encoder)
        self.size = self.encoder.size
        self.out_channels = out_channels
        self.output = nn.Linear(4 * self.encoder.out_channels, out_channels)

    def forward(self, x: Tensor, domain: Domain | None = None) -> Tensor:
        """(B, 2, …) -> (B, C_out); a mask in the domain is that of x.flatten(0, 1)."""
        axes = signal_axes(as_domain(domain), len(self.size))
        axes += 2 if self.encoder.embedding is not None else 3
        if x.ndim != axes or x.shape[1] != 2:
            kind = "(B, 2, *S)" if self.encoder.embedding is not None else "(B, 2, C, *S)"
            raise ValueError(f"x must have shape {kind}, got {tuple(x.shape)}")
        # Both in one batch, so that normalisation sees all of them.
        features = self.encoder(x.flatten(0, 1), _flat(domain, len(x)))  # (2B, F)
        a, b = features[0::2], features[1::2]
        y: Tensor = self.output(torch.cat([a, b, a * b, a - b], dim=-1))
        return y

    def convolutions(self) -> list[SeparableFlexConv]:
        """Return the encoder's convolutions, in order."""
        return self.encoder.convolutions()


def _flat(domain: Domain | None, pairs: int) -> Domain | None:
    """Return the domain of both signals of every pair, where lengths may be given by pair."""
    if not isinstance(domain, Grid):
        return domain
    lengths = domain.lengths
    if not isinstance(lengths, Tensor) or lengths.shape != (pairs, 2):
        return domain
    return Grid(domain.spacing, lengths=lengths.flatten(), weights=domain.weights)
