"""What the demo needs besides digits: generated solids, and a plain network to compare with."""

import torch
from torch import Tensor, nn

from ccnn.domain import Grid
from ccnn.tasks import Samples, Splits

SOLIDS = ("ball", "rod", "plate", "ring")


def make_solids(count: int, *, edge: int = 8, seed: int = 0) -> Splits:
    """Return noisy volumes that hold one solid each, turned, moved and scaled at random.

    Parameters
    ----------
    count
        How many, in equal shares of each solid; 60 % are for training, 15 % for validation.
    edge
        Samples per axis.
    seed
        Of everything random.

    Shapes
    ------
    x : (n, 1, edge, edge, edge)
    y : (n,), a position in `SOLIDS`
    """
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % len(SOLIDS)
    axis = torch.arange(edge) - (edge - 1) / 2
    grid = torch.cartesian_prod(axis, axis, axis)  # (edge³, 3)
    shift = torch.rand(count, 1, 3, generator=generator) - 0.5
    scale = (0.85 + 0.3 * torch.rand(count, 1, 1, generator=generator)) * edge / 12
    points = (grid - shift) @ _rotations(count, generator) / scale  # (n, edge³, 3)
    inside = torch.sigmoid(3 * _depth(points)[y, torch.arange(count)])
    volumes = inside + 0.2 * torch.randn(inside.shape, generator=generator)
    x = ((volumes - volumes.mean()) / volumes.std()).view(count, 1, edge, edge, edge)
    order = torch.randperm(count, generator=generator)
    samples = Samples(x[order], y[order])
    first, second = round(0.6 * count), round(0.75 * count)
    parts = (slice(first), slice(first, second), slice(second, None))
    return Splits(*(samples.take(part) for part in parts))


def _depth(points: Tensor) -> Tensor:
    """Return how deep points lie inside of each solid, negative outside: (solids, n, points)."""
    z = points[..., 2]
    radius = points[..., :2].norm(dim=-1)
    ball = 3.2 - points.norm(dim=-1)
    rod = torch.minimum(1.5 - radius, 5.0 - z.abs())
    plate = torch.minimum(4.5 - radius, 1.3 - z.abs())
    ring = 1.3 - torch.hypot(radius - 3.6, z)
    return torch.stack([ball, rod, plate, ring])


def _rotations(count: int, generator: torch.Generator) -> Tensor:
    """Return rotations, all equally likely: (n, 3, 3)."""
    q, r = torch.linalg.qr(torch.randn(count, 3, 3, generator=generator))
    turns: Tensor = q * torch.diagonal(r, dim1=-2, dim2=-1).sign()[:, None, :]
    return turns


class PlainCNN(nn.Module):
    """Convolutions of 3 × 3 pixels, normalised, and the mean over all positions: no spacing."""

    def __init__(self, classes: int, *, channels: int = 32, layers: int = 3) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        for i in range(layers):
            parts += [
                nn.Conv2d(channels if i else 1, channels, 3, padding=1),
                nn.BatchNorm2d(channels),
                nn.GELU(),
            ]
        self.features = nn.Sequential(*parts)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        """Return logits, (B, classes); a plain network has no use for the grid."""
        logits: Tensor = self.head(self.features(x).mean(dim=(-2, -1)))
        return logits
