"""Volumes: balls, shells and rods in noise, in a grid search of scikit-learn's.

python examples/volumes.py [epochs]
"""

import sys

import numpy as np
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import GridSearchCV

from ccnn import CCNNClassifier

max_epochs = int(sys.argv[1]) if len(sys.argv) > 1 else None
rng = np.random.default_rng(0)
SIDE = 8


def make(count):
    """Return volumes (n, 1, 8, 8, 8) and what is in each."""
    axis = np.arange(SIDE)
    grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"))
    y = rng.choice(["ball", "shell", "rod"], size=count)
    volumes = []
    for kind in y:
        offset = grid - rng.uniform(2.5, SIDE - 3.5, size=(3, 1, 1, 1))
        distance = np.sqrt((offset**2).sum(axis=0))
        if kind == "rod":  # along an axis drawn at random
            distance = np.sqrt((np.delete(offset, rng.integers(3), axis=0) ** 2).sum(axis=0))
            inside = distance < 1.2
        elif kind == "shell":
            inside = np.abs(distance - 2.2) < 0.6
        else:
            inside = distance < 2.2
        volumes.append(inside + 0.5 * rng.standard_normal(inside.shape))
    return np.stack(volumes)[:, None], y


X, y = make(90)
X_test, y_test = make(30)

search = GridSearchCV(
    CCNNClassifier(max_epochs=max_epochs, random_state=0),
    {"channels": [8, 16]},
    cv=2,
)
search.fit(X, y)
print("best:", search.best_params_, f"with {search.best_score_:.3f} in cross-validation")
print(f"accuracy on new volumes: {search.score(X_test, y_test):.3f}")
print(search.classes_)
print(confusion_matrix(y_test, search.predict(X_test), labels=search.classes_))
