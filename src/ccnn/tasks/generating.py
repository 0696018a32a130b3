"""What is made once and kept: over several processes, in files that are whole or not there."""

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def cache_folder() -> Path:
    """Return where what can be made again is kept: CCNN_CACHE, or ours in the usual folder."""
    chosen = os.environ.get("CCNN_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ccnn"


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    *,
    title: str,
    processes: int | None = None,
) -> Iterator[Result]:
    """Yield ``function(job)`` of every job, in the order of the jobs, with a progress bar.

    Parameters
    ----------
    function
        A function of a module, so that another process finds it by its name.
    jobs
        What it is called with.
    title
        What stands before the bar on standard error, where that is a terminal.
    processes
        How many work at once; None is one for each usable core. It never changes a result.
    """
    # Optional libraries load when used, not with `import ccnn.tasks`.
    from rich.console import Console
    from rich.progress import Progress

    processes = min(len(jobs), usable_cores() if processes is None else processes)
    results = map(function, jobs) if processes <= 1 else _in_parallel(function, jobs, processes)
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as bar:
        yield from bar.track(results, total=len(jobs), description=title)


def _in_parallel(
    function: Callable[[Job], Result], jobs: Sequence[Job], processes: int
) -> Iterator[Result]:
    # Spawned, not forked: a fork copies the locks of torch's threads as they are.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for job in jobs:
                waiting.append(pool.submit(function, job))
                if len(waiting) > 2 * processes:  # bounds the results that lie in memory
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary name in the same folder; rename it to `path` if all went well.

    A file with the final name is complete, whenever the machine stops.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def make_file(path: Path, write: Callable[[Path], None]) -> None:
    """Have a file written, unless it is there; of several processes that want it, one writes."""
    from filelock import FileLock  # comes with torch

    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.parent / ".fetch.lock"):
        if not path.exists():
            with whole_file(path) as temporary:
                write(temporary)
