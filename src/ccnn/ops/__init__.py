"""Pure functions on tensors: coordinates and convolutions. No parameters, no state."""

from ccnn.ops.conv import convolve, good_size
from ccnn.ops.grids import coordinate_grid

__all__ = ["convolve", "coordinate_grid", "good_size"]
