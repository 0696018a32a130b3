"""Memory that stays with the process, for the command line and the benchmarks."""

import ctypes

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # glibc's names: M_TRIM_THRESHOLD, M_MMAP_MAX


def keep_freed_memory() -> bool:
    """Ask glibc to keep what is freed for the next tensor; tell whether it could be asked.

    Usually every large tensor is mapped anew, and the system clears it page by page: a third of
    the time of a step on long signals. The price is that memory is given back only when the
    process ends, which is why nothing but a program of its own should call this. Where the C
    library is not glibc, nothing happens.
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    largest = (1 << 31) - 1  # of a C int
    return bool(mallopt(_MMAP_MAX, 0) and mallopt(_TRIM_THRESHOLD, largest))
