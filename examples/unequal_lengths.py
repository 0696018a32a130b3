"""Unequal lengths and missing samples: recordings of two sensors, with gaps.

python examples/unequal_lengths.py [epochs]
"""

import sys

import numpy as np

from ccnn import CCNNClassifier, CCNNRegressor

max_epochs = int(sys.argv[1]) if len(sys.argv) > 1 else None
rng = np.random.default_rng(0)


def make(count, missing):
    """Return a list of recordings (2, length_i) and the frequency of each, in cycles per sample.

    The second sensor hears the same sine a quarter of a period later. `missing` is the share of
    samples that are lost, with both sensors: they are NaN.
    """
    recordings, frequencies = [], rng.uniform(0.02, 0.1, size=count)
    for frequency in frequencies:
        t = np.arange(rng.integers(50, 120))
        phase = 2 * np.pi * (frequency * t + rng.random())
        signal = np.stack([np.sin(phase), np.sin(phase - np.pi / 2)])
        signal += 0.2 * rng.standard_normal(signal.shape)
        signal[:, rng.random(len(t)) < missing] = np.nan
        recordings.append(signal)
    return recordings, frequencies


X, frequencies = make(300, missing=0.2)
y = np.where(frequencies < 0.06, "slow", "fast")
print("lengths:", sorted({x.shape[1] for x in X})[:3], "…", max(x.shape[1] for x in X))
print(f"missing: {np.mean([np.isnan(x).mean() for x in X]):.0%}")

clf = CCNNClassifier(max_epochs=max_epochs, random_state=0).fit(X, y)
for missing in (0.0, 0.2, 0.5):
    X_test, frequencies_test = make(200, missing)
    y_test = np.where(frequencies_test < 0.06, "slow", "fast")
    print(f"{missing:.0%} missing: accuracy {clf.score(X_test, y_test):.3f}")

# The frequency itself is a number: the same data, a regressor.
reg = CCNNRegressor(max_epochs=max_epochs, random_state=0).fit(X, frequencies)
X_test, frequencies_test = make(200, missing=0.2)
error = np.sqrt(np.mean((reg.predict(X_test) - frequencies_test) ** 2))
print(f"frequency: error {error:.4f}, spread {frequencies_test.std():.4f} cycles per sample")
