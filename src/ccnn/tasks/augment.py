"""Random changes of training images, as in the authors' commands.

Their random numbers are torch's own, on the CPU, so that a seeded run repeats bit for bit.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def crop_and_flip(x: Tensor, *, margin: int = 4) -> Tensor:
    """Shift each image by up to `margin` pixels, mirrored at its border, and flip every second.

    Shapes
    ------
    x : (B, C, H, W)
    result : (B, C, H, W)
    """
    batch, _, height, width = x.shape
    shifts = torch.randint(-margin, margin + 1, (2, batch, 1))
    flips = torch.rand(batch, 1) < 0.5
    rows = _mirror(torch.arange(height) + shifts[0], height)  # (B, H)
    columns = _mirror(torch.arange(width) + shifts[1], width)
    columns = torch.where(flips, columns.flip(-1), columns)
    each = torch.arange(batch)[:, None, None]
    index = (each.to(x.device), rows[:, :, None].to(x.device), columns[:, None, :].to(x.device))
    return x.movedim(1, -1)[index].movedim(-1, 1).contiguous()


def crop_and_flip_sequence(x: Tensor) -> Tensor:
    """Do the same to square images that are sequences of pixels, (B, C, S)."""
    side = math.isqrt(x.shape[-1])
    return crop_and_flip(x.reshape(*x.shape[:-1], side, side)).flatten(-2)


def turn_crop_and_flip(x: Tensor, *, outside: Tensor | float = 0.0) -> Tensor:
    """Enlarge by 272/256, turn by up to 15°, crop to the old size anywhere and flip every second.

    Images of 256 pixels a side become 272 on the way, those of 96 become 102. All is one
    resampling, between the nearest four pixels.

    Parameters
    ----------
    x
        Square images.
    outside
        The colour of what a turned image does not cover, for each channel.

    Shapes
    ------
    x : (B, C, N, N)
    outside : (C, 1, 1), or a number
    result : (B, C, N, N)
    """
    batch, side = len(x), x.shape[-1]
    large = round(side * 272 / 256)
    angle = (2 * torch.rand(batch) - 1) * math.radians(15)
    shift = torch.randint(0, large - side + 1, (batch, 2))
    flip = torch.where(torch.rand(batch) < 0.5, -1.0, 1.0)
    # Where a pixel of the result comes from: unflipped, in the crop of the large image, turned.
    crop = torch.zeros(batch, 2, 3)
    crop[:, 0, 0], crop[:, 1, 1] = flip * side / large, side / large
    crop[:, :, 2] = (2 * shift - (large - side)) / large
    turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], dim=-1)
    maps = (turn.view(batch, 2, 2) @ crop).to(x)  # (B, 2, 3)
    grid = F.affine_grid(maps, list(x.shape), align_corners=False)
    colour = torch.as_tensor(outside).to(x)
    return F.grid_sample(x - colour, grid, align_corners=False) + colour


def _mirror(index: Tensor, n: int) -> Tensor:
    """Reflect positions outside 0 … n-1 at the border, the border pixel counting twice."""
    index = torch.where(index < 0, -index - 1, index)
    return torch.where(index >= n, 2 * n - 1 - index, index)
