"""Signals that are symbols: integers in, a learned vector for each of them out."""

import torch
from torch import Tensor, nn

from ccnn.domain import Domain


def embed(x: Tensor, embedding: nn.Embedding, domain: Domain, axes: int) -> Tensor:
    """Return the vectors of symbols; what padding holds is no symbol and may be anything.

    Shapes
    ------
    x : (B, *S), with so many axes S, integers
    result : (B, C, *S)
    """
    if x.is_floating_point() or x.is_complex() or x.dtype == torch.bool:
        raise TypeError(
            f"x is {x.dtype}, but a network with an embedding reads symbols: expected int64 or "
            "smaller integers"
        )
    x = x if x.dtype in (torch.int32, torch.int64) else x.int()  # bytes save memory until here
    if x.ndim != axes + 1:
        raise ValueError(
            f"x must have shape (B, *S) with {axes} axis/axes S of symbols, got {tuple(x.shape)}"
        )
    mask = domain.on(x.unsqueeze(1)).mask
    if mask is not None:
        x = torch.where(mask.squeeze(1), x, 0)
    if x.device.type == "cpu" and not torch.compiler.is_compiling():
        low, high = int(x.min()), int(x.max())
        if low < 0 or high >= embedding.num_embeddings:
            raise ValueError(
                f"x holds symbols from {low} to {high}; the embedding has "
                f"{embedding.num_embeddings}, from 0 to {embedding.num_embeddings - 1}"
            )
    vectors: Tensor = embedding(x)
    return vectors.movedim(-1, 1)
