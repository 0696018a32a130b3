"""Speech Commands, ten words: the sound itself, and its MFCCs (App. A)."""

from ccnn.tasks.task import Task

COUNTS = (24_482, 5_246, 5_247)
SOURCE = "Speech Commands v0.02, download.tensorflow.org, ten of its 35 words"

SPEECH_RAW = Task(
    name="speech_raw",
    title="Speech Commands, raw",
    size=(16_000,),
    in_channels=1,
    classes=10,
    counts=COUNTS,
    source=SOURCE,
    paper={"ccnn_4_140": 98.34, "ccnn_6_380": 98.44},
)
SPEECH_MFCC = Task(
    name="speech_mfcc",
    title="Speech Commands, MFCC",
    size=(161,),
    in_channels=20,
    classes=10,
    counts=COUNTS,
    source=SOURCE,
    paper={"ccnn_4_140": 95.01, "ccnn_6_380": 97.98},
)
