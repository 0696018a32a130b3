"""Searching a recipe: Optuna over what the paper searched, in one process or in many.

The study lives in a database, SQLite unless another is named: every process that names the same
one works on it, and a search that was stopped goes on where it stood.
"""

from ccnn.tune.outcome import Outcome
from ccnn.tune.search import Search, search
from ccnn.tune.trial import SPACE

__all__ = ["SPACE", "Outcome", "Search", "search"]
