"""What a module remembers inside `ccnn.cached`."""

import threading
from collections.abc import Callable, Hashable
from typing import Any

# A server that meets many lengths must not collect kernels for ever.
_MOST = 16


class Cache:
    """A few results by key, the oldest dropped first; threads may share it.

    A copied or unpickled module remembers nothing: what stands for its cache is None.
    """

    def __init__(self) -> None:
        self.users = 0  # how many `ccnn.cached` blocks are open
        self._results: dict[Hashable, Any] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the result for a key, making it where it is not known."""
        with self._lock:
            if key in self._results:
                return self._results[key]
        result = make()  # outside of the lock; two threads may do it twice, with equal results
        with self._lock:
            while len(self._results) >= _MOST:
                del self._results[next(iter(self._results))]
            self._results[key] = result
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def refuse_training(training: bool) -> None:
    """Raise where a module is trained while its kernels are kept."""
    if training:
        raise RuntimeError(
            "inside ccnn.cached the kernels are kept and would not follow the weights; "
            "train outside of the block, and call model.eval() before it"
        )
