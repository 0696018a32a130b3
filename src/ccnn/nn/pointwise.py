"""Mixing channels at every position, whatever the dimension."""

import torch
from torch import Tensor, nn

from ccnn.ops.branch import mix


class Pointwise(nn.Module):
    """A linear map of the channels: y = W x + b at every position, a 1×…×1 convolution.

    Kaiming-normal weights with gain √2, zero bias.

    Shapes
    ------
    x : (B, C_in, *S)
    result : (B, C_out, *S)
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """(B, C_in, *S) -> (B, C_out, *S)."""
        return mix(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the settings shown by ``print``."""
        return f"{self.weight.shape[1]}, {self.weight.shape[0]}"
