"""The states of all random generators, as tensors and plain numbers."""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor


def seed_all(seed: int, rank: int = 0) -> None:
    """Seed torch, NumPy and Python; every process draws its own numbers."""
    words = np.random.SeedSequence([seed, rank]).generate_state(3, np.uint32)
    torch.manual_seed(int(words[0]))
    np.random.seed(int(words[1]))
    random.seed(int(words[2]))


def random_state() -> dict[str, Any]:
    """Return the state of every generator that training may draw from."""
    name, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
    version, words, gauss_next = random.getstate()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": [str(name), torch.from_numpy(np.array(keys, dtype=np.int64))],
        "numpy_rest": [int(position), int(has_gauss), float(gauss)],
        "python": [version, torch.tensor(words, dtype=torch.int64), gauss_next],
    }


def restore_random_state(state: Mapping[str, Any]) -> None:
    """Put every generator back where `random_state` found it."""
    torch.set_rng_state(state["torch"])
    if len(state["cuda"]) == torch.cuda.device_count() and state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])
    name, keys = state["numpy"]
    np.random.set_state((name, _words(keys).astype(np.uint32), *state["numpy_rest"]))
    version, words, gauss_next = state["python"]
    random.setstate((version, tuple(words.tolist()), gauss_next))


@contextmanager
def kept_random_state() -> Iterator[None]:
    """Leave the caller's generators as they were, whatever happens inside."""
    state = random_state()
    try:
        yield
    finally:
        restore_random_state(state)


def _words(keys: Tensor) -> Any:
    return keys.numpy()
