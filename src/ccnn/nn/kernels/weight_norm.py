"""Weight normalisation: the length of each row of a linear map, apart from its direction.

Salimans and Kingma 2016 (https://arxiv.org/abs/1602.07868); CKConv's kernel networks have it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class NormedLinear(nn.Linear):
    """A linear layer y = W x + b with W = g v/‖v‖, row by row.

    ``weight`` is v and ``length`` is g, one number per output.

    torch's own weight normalisation is a parametrisation, and modules with one cannot be pickled.

    Shapes
    ------
    x : (..., in_features)
    result : (..., out_features)
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features)
        self.length = nn.Parameter(torch.linalg.vector_norm(self.weight.detach(), dim=1))

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) -> (..., out_features)."""
        return F.linear(x, self.normed(), self.bias)

    def normed(self) -> Tensor:
        """Return W, (out_features, in_features)."""
        norms: Tensor = torch.linalg.vector_norm(self.weight, dim=1)
        return self.weight * (self.length / norms)[:, None]


def weight_of(layer: nn.Linear) -> Tensor:
    """Return the W that a linear layer multiplies with, normed or not."""
    return layer.normed() if isinstance(layer, NormedLinear) else layer.weight


@torch.no_grad()
def set_weight_(layer: nn.Linear, weight: Tensor) -> None:
    """Set the W that a linear layer multiplies with, normed or not."""
    layer.weight.copy_(weight)
    if isinstance(layer, NormedLinear):
        layer.length.copy_(torch.linalg.vector_norm(weight, dim=1))
