"""Where the samples of a signal lie.

A domain is handed along with the values: ``model(x, Grid(spacing=2.0))``, ``model(x, Points(t))``.
Everything about resolution, unequal lengths, missing and irregular samples is in here and in
nothing else.
"""

from ccnn.domain.grid import Grid
from ccnn.domain.observed import with_observed
from ccnn.domain.points import Points, as_positions

__all__ = ["Domain", "Grid", "Points", "as_domain", "as_positions", "with_observed"]

Domain = Grid | Points


def as_domain(domain: Domain | None) -> Domain:
    """Return the domain a signal was given, the training grid where it was given none."""
    if domain is None:
        return Grid()
    if not isinstance(domain, Grid | Points):
        raise TypeError(
            f"the domain of a signal must be a ccnn.Grid, such as Grid(spacing=2.0), or "
            f"ccnn.Points(positions), got {type(domain).__name__}"
        )
    return domain
