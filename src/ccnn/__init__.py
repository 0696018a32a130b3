"""One convolutional network for signals of any length, resolution and dimension."""

from ccnn import models, nn, ops
from ccnn.domain import Grid, Points, with_observed
from ccnn.inference import cached
from ccnn.models import CCNN, create_model, list_models
from ccnn.saving import load, save

__version__ = "0.1.0"

__all__ = [
    "CCNN",
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
