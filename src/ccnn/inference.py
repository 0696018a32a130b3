"""Using a network many times: what depends on its weights alone is computed once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from ccnn.nn.block import ResidualBlock
from ccnn.nn.cache import Cache
from ccnn.nn.conv import AbstractContinuousConv

# Blocks may be nested, and opened by several threads; the last one out drops everything.
_DOOR = threading.Lock()


@contextmanager
def cached(model: nn.Module) -> Iterator[nn.Module]:
    """Keep sampled kernels and their spectra while the block lasts, for inference.

    Every continuous convolution in ``model`` samples its kernel once per size, spacing, dtype
    and device, transforms it once, and folds the normalisation before it into it. Outputs carry
    no gradient. Everything is dropped at the end, so weights may change before and after, but
    not inside. Threads may share the model.

    Parameters
    ----------
    model
        Any module, in evaluation mode (``model.eval()``).
    """
    if model.training:
        raise RuntimeError(
            "ccnn.cached is for inference, but the model is in training mode; "
            "call model.eval() before, and train outside of the block"
        )
    parts = [m for m in model.modules() if isinstance(m, AbstractContinuousConv | ResidualBlock)]
    with _DOOR:
        for part in parts:
            part.cache = Cache() if part.cache is None else part.cache
            part.cache.users += 1
    try:
        yield model
    finally:
        with _DOOR:
            for part in parts:
                if part.cache is not None:
                    part.cache.users -= 1
                    part.cache = part.cache if part.cache.users > 0 else None
