"""Ctrl-C and SIGTERM as a request: finish the step, save, stop."""

import signal
import threading
from types import FrameType
from typing import Any

# SIGUSR1 is what SLURM is usually asked to send before the time is up.
_SIGNALS = [signal.SIGINT, signal.SIGTERM]
if hasattr(signal, "SIGUSR1"):
    _SIGNALS.append(signal.SIGUSR1)


class Interrupted(Exception):  # noqa: N818 (nothing went wrong)
    """A run that was asked to stop, and has saved itself.

    ``signum`` is the signal; a process that ends because of it returns 128 + signum.
    """

    def __init__(self, message: str, signum: int) -> None:
        super().__init__(message)
        self.signum = signum


class StopRequest:
    """Collects signals while installed; the handlers before it come back afterwards.

    A second Ctrl-C does not wait for the step.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self._before: dict[int, Any] = {}

    def install(self) -> None:
        """Take over the signals; only the main thread may."""
        if threading.current_thread() is not threading.main_thread():
            return
        for s in _SIGNALS:
            if s not in self._before:
                self._before[s] = signal.getsignal(s)
            signal.signal(s, self._handle)

    def restore(self) -> None:
        """Put the handlers back that were there at the first `install`."""
        for s, handler in self._before.items():
            signal.signal(s, signal.SIG_DFL if handler is None else handler)
        self._before.clear()

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self.signum is not None and signum == signal.SIGINT:
            raise KeyboardInterrupt
        self.signum = signum
