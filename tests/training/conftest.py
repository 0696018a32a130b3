"""The toy task for tests of this folder."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def toy() -> ModuleType:
    spec = importlib.util.spec_from_file_location("toy", Path(__file__).with_name("toy.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
