"""STL-10: 13,000 photographs of ten classes (App. A)."""

from ccnn.tasks.augment import turn_crop_and_flip
from ccnn.tasks.task import Task

STL10 = Task(
    name="stl10",
    title="STL-10",
    size=(96, 96),
    in_channels=3,
    classes=10,
    counts=(4_500, 500, 8_000),
    source="STL-10, cs.stanford.edu/~acoates/stl10, binary files",
    paper={"ccnn_4_140": 81.80, "ccnn_6_380": 83.00},
    augment=turn_crop_and_flip,
)
