"""What every test shares: a seed, a hypothesis profile, and the place of real data."""

import os
from pathlib import Path

import hypothesis
import pytest
import torch

os.environ.setdefault("MPLBACKEND", "Agg")  # no test opens a window
# Costs that somebody stored on this machine must not change what is tested.
os.environ["CCNN_CACHE"] = str(Path(__file__).parent / "no-such-folder")

REPO = Path(__file__).resolve().parent.parent


class TorchRandom:
    """Torch's generator as hypothesis wants it, so that each example starts from the same state."""

    seed = staticmethod(torch.manual_seed)
    getstate = staticmethod(torch.get_rng_state)
    setstate = staticmethod(torch.set_rng_state)


TORCH_RANDOM = TorchRandom()  # hypothesis holds it by a weak reference
hypothesis.register_random(TORCH_RANDOM)
hypothesis.settings.register_profile("ccnn", deadline=None, derandomize=True, max_examples=40)
hypothesis.settings.load_profile("ccnn")


@pytest.fixture(autouse=True)
def seed_torch():
    """Start every test from the same random numbers, in whatever order they run."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real data: `CCNN_TEST_DATA`, or `shared/data` beside the checkout."""
    root = Path(os.environ.get("CCNN_TEST_DATA", REPO.parent / "shared" / "data"))
    if not root.is_dir():
        pytest.skip(f"no data at {root}: set CCNN_TEST_DATA to a folder that holds it")
    return root
