"""Pathfinder and Path-X of the Long Range Arena: are two points connected? (App. A)."""

from typing import Any

from ccnn.tasks.task import Task

_SHARED: dict[str, Any] = {
    "in_channels": 1,
    "classes": 2,
    "counts": (160_000, 20_000, 20_000),
}
PATHFINDER = Task(
    name="pathfinder",
    title="LRA Pathfinder, 32 x 32 pixel by pixel",
    size=(1024,),
    source="Long Range Arena release, pathfinder32/curv_contour_length_14",
    paper={"ccnn_4_140": 91.36, "ccnn_6_380": 91.51},
    **_SHARED,
)
PATHFINDER2D = Task(
    name="pathfinder2d",
    title="LRA Pathfinder in 2-D",
    size=(32, 32),
    source="Long Range Arena release, pathfinder32/curv_contour_length_14",
    paper={"ccnn_4_140": 94.80, "ccnn_6_380": 96.00},
    **_SHARED,
)
PATHX = Task(
    name="pathx",
    title="LRA Path-X, 128 x 128 pixel by pixel",
    size=(16_384,),
    source="Long Range Arena release, pathfinder128/curv_contour_length_14",
    **_SHARED,
)
