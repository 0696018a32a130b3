"""Series: find a bump, a dip or a step in noise, and ask where the network looked.

python examples/series.py [epochs]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from ccnn import CCNNClassifier

max_epochs = int(sys.argv[1]) if len(sys.argv) > 1 else None
rng = np.random.default_rng(0)


def make(count):
    """Return noise with one shape in each: series (n, 80), names (n,), places (n,)."""
    t = np.arange(80)
    y = rng.choice(["bump", "dip", "step"], size=count)
    place = rng.integers(15, 65, size=count)
    lag = t - place[:, None]
    bump = np.exp(-((lag / 4) ** 2))
    step = np.tanh(lag / 3) * np.exp(-((lag / 12) ** 2))
    shape = np.select([(y == "bump")[:, None], (y == "dip")[:, None]], [bump, -bump], step)
    return 2 * shape + 0.5 * rng.standard_normal((count, len(t))), y, place


X, y, _ = make(200)
X_test, y_test, place = make(60)

clf = CCNNClassifier(max_epochs=max_epochs, random_state=0).fit(X, y)
print(f"accuracy {clf.score(X_test, y_test):.3f}")
for series, name in zip(clf.predict_proba(X_test[:3]), y_test[:3], strict=True):
    print(f"a {name}:", dict(zip(clf.classes_.tolist(), series.round(3).tolist(), strict=True)))

# Where did it look? What each sample adds to the score of the class that was predicted.
saliency = clf.saliency(X_test[:20])
found = np.abs(saliency).argmax(axis=1)
print(f"median distance to the shape: {np.median(np.abs(found - place[:20])):.0f} samples")

with tempfile.TemporaryDirectory() as folder:
    clf.save(Path(folder) / "shapes")
    again = CCNNClassifier.load(Path(folder) / "shapes")
    print("the same after loading:", np.array_equal(again.predict(X_test), clf.predict(X_test)))
