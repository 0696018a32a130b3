"""ListOps of the Long Range Arena: nested lists of digits to be evaluated (App. A)."""

from ccnn.tasks.task import Task

LISTOPS = Task(
    name="listops",
    title="LRA ListOps",
    size=(2048,),
    in_channels=1,
    classes=10,
    vocabulary=18,  # padding, unknown, end; ten digits, four operators, the closing bracket
    counts=(96_000, 2_000, 2_000),
    source="Long Range Arena release, listops-1000/basic_{train,val,test}.tsv",
    paper={"ccnn_4_140": 44.85, "ccnn_6_380": 43.60},
)
