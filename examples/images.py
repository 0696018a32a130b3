"""Images at two resolutions: train on small digits, read larger ones with the same network.

python examples/images.py [epochs]
"""

import sys

import numpy as np
from scipy.ndimage import zoom
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from ccnn import CCNNClassifier

max_epochs = int(sys.argv[1]) if len(sys.argv) > 1 else None

digits = load_digits()
images = digits.images[:, None].astype(np.float32)  # (1797, 1, 8, 8)
X, X_test, y, y_test = train_test_split(
    images, digits.target, test_size=200, random_state=0, stratify=digits.target
)

# "auto": kernels with no more detail than the pixels show, so that they are smooth between them.
clf = CCNNClassifier(omega_0="auto", max_epochs=max_epochs, random_state=0).fit(X, y)
print(f"8 × 8, as in training: accuracy {clf.score(X_test, y_test):.3f}")

# The same images with a pixel between every two: 15 × 15, half a training pixel apart.
finer = zoom(X_test, (1, 1, 15 / 8, 15 / 8), order=1)
told = np.mean(clf.predict(finer, spacing=0.5) == y_test)
print(f"15 × 15, told that pixels are half as far apart: accuracy {told:.3f}")
untold = np.mean(clf.predict(finer) == y_test)
print(f"15 × 15, not told: accuracy {untold:.3f}")

# What speaks for the digit that was recognised, and what against it.
saliency = clf.saliency(X_test[:1], method="integrated")[0, 0]
print(f"a {clf.predict(X_test[:1])[0]}; + speaks for it, - against it:")
limit = 0.2 * np.abs(saliency).max()
for row in saliency:
    print("  " + "".join("+" if v > limit else "-" if v < -limit else "·" for v in row))
