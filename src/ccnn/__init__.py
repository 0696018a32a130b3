"""One convolutional network for signals of any length, resolution and dimension."""

from typing import TYPE_CHECKING, Any

from ccnn import models, nn, ops
from ccnn.domain import Grid, Points, with_observed
from ccnn.inference import cached
from ccnn.models import CCNN, create_model, list_models
from ccnn.saving import load, save

if TYPE_CHECKING:
    from ccnn.estimator import CCNNClassifier, CCNNRegressor

__version__ = "0.1.0"

__all__ = [
    "CCNN",
    "CCNNClassifier",
    "CCNNRegressor",
    "Grid",
    "Points",
    "cached",
    "create_model",
    "list_models",
    "load",
    "models",
    "nn",
    "ops",
    "save",
    "with_observed",
]


def __getattr__(name: str) -> Any:
    # They need scikit-learn and Lightning, which `import ccnn` does not wait for.
    if name not in ("CCNNClassifier", "CCNNRegressor"):
        raise AttributeError(f"module 'ccnn' has no attribute {name!r}")
    try:
        from ccnn.estimator import CCNNClassifier, CCNNRegressor
    except ModuleNotFoundError as error:
        raise ImportError(
            f"ccnn.{name} needs {error.name}, which is not installed: pip install 'ccnn[sklearn]'"
        ) from error
    return {"CCNNClassifier": CCNNClassifier, "CCNNRegressor": CCNNRegressor}[name]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
