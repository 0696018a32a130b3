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


def turn_crop_and_flip(x: Tensor) -> Tensor:
    """Enlarge by 272/256, turn by up to 15°, crop to the old size anywhere and flip every second.

    Shapes
    ------
    x : (B, C, H, W)
    result : (B, C, H, W)
    """
    batch = len(x)
    angle = (2 * torch.rand(batch) - 1) * math.radians(15)
    corner = (2 * torch.rand(batch, 2) - 1) * (1 - 256 / 272)
    flip = torch.where(torch.rand(batch) < 0.5, -1.0, 1.0)
    cos, sin = angle.cos() * 256 / 272, angle.sin() * 256 / 272
    first = torch.stack([cos * flip, -sin, corner[:, 0]], dim=-1)
    second = torch.stack([sin * flip, cos, corner[:, 1]], dim=-1)
    maps = torch.stack([first, second], dim=1).to(x)  # (B, 2, 3): where each pixel comes from
    grid = F.affine_grid(maps, list(x.shape), align_corners=False)
    # Outside is zero, which is the mean colour of standardised images.
    return F.grid_sample(x, grid, align_corners=False)


def _mirror(index: Tensor, n: int) -> Tensor:
    """Reflect positions outside 0 … n-1 at the border, the border pixel counting twice."""
    index = torch.where(index < 0, -index - 1, index)
    return torch.where(index >= n, 2 * n - 1 - index, index)
