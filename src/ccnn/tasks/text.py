"""Text and Retrieval of the Long Range Arena: documents letter by letter (App. A)."""

from ccnn.tasks.task import Task

TEXT = Task(
    name="text",
    title="LRA Text, IMDb reviews",
    size=(4096,),
    in_channels=1,
    classes=2,
    vocabulary=135,  # padding, unknown, end, and the 132 most frequent characters
    # The published runs choose their best epoch on the test set. Here a tenth is held out.
    counts=(22_500, 2_500, 25_000),
    source="Large Movie Review Dataset, ai.stanford.edu/~amaas/data/sentiment",
    paper={"ccnn_4_140": 83.59, "ccnn_6_380": 84.08},
)
RETRIEVAL = Task(
    name="retrieval",
    title="LRA Retrieval, AAN citations",
    size=(4000,),
    in_channels=1,
    classes=2,
    vocabulary=98,
    pair=True,
    counts=(147_086, 18_090, 17_437),
    source="Long Range Arena release, new_aan_pairs.{train,eval,test}.tsv",
)
