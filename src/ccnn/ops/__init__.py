"""Pure functions on tensors: coordinates and convolutions. No parameters, no state."""

from ccnn.ops.conv import convolve
from ccnn.ops.grids import coordinate_grid
from ccnn.ops.holes import hole_weights
from ccnn.ops.plan import plan
from ccnn.ops.points import convolve_points
from ccnn.ops.quadrature import density_weights, gap_weights
from ccnn.ops.spectral import good_size

__all__ = [
    "convolve",
    "convolve_points",
    "coordinate_grid",
    "density_weights",
    "gap_weights",
    "good_size",
    "hole_weights",
    "plan",
]
