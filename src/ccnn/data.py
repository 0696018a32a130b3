"""The data that a configuration asks for: its task, and its samples as the network is fed."""

from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from ccnn.models.names import pick
from ccnn.tasks import OWN, TASKS
from ccnn.tasks.feeding import feed
from ccnn.tasks.scaling import Scaling
from ccnn.tasks.task import Splits, Task


def find_task(
    config: DictConfig, *, root: Path | str | None = None, scaling: Scaling | None = None
) -> Task:
    """Return the task of a configuration, of which the facts of a user's own data are read.

    Parameters
    ----------
    config
        What `ccnn.conf.compose` returns.
    root
        Where the data are; None is where the configuration says.
    scaling
        How a user's own data are prepared; None is by their own training part.
    """
    name = config.task.name
    if name in OWN:
        task = OWN[name](Path(config.data.root if root is None else root).expanduser(), scaling)
    else:
        task = pick(name, TASKS, "task")
    # Runs of older versions have neither.
    return task.at(config.data.get("size")).with_points(config.data.get("points"))


def load_splits(config: DictConfig, task: Task, *, root: Path | str | None = None) -> Splits:
    """Return a task's samples as the configuration feeds them to the network."""
    return feed(
        task.load(
            Path(config.data.root if root is None else root),
            fetch=bool(config.data.get("fetch", False)),
        ),
        len(task.size),
        embedded=config.model.embedding is not None,
        limit=config.data.limit,
        balance=bool(config.data.get("balance", False)),
    )


def finer_task(config: DictConfig, task: Task, spacing: float | Sequence[float]) -> Task | None:
    """Return the task at the size of its data, if that is what a spacing below 1 asks for.

    Where training made the data coarser than they are (``data.size``), a finer grid need not be
    drawn from the coarse one.
    """
    side, whole = config.data.get("size"), TASKS.get(task.name)
    if side is None or whole is None or not isinstance(spacing, int | float):
        return None
    return whole if spacing < 1 and set(whole.size) == {side / spacing} else None
