"""Imports point one way, libraries stay in their room, and nothing is looked up by a computed name.

The rules are tables. `violations` reads one file's source and says which of them it breaks.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parent.parent / "src" / "ccnn"

# A layer is a folder or a file of src/ccnn. It may import itself and what stands here.
MAY_IMPORT: dict[str, set[str]] = {
    "ops": set(),
    "domain": set(),
    "tasks": set(),
    "conf": set(),
    "nn": {"ops", "domain"},
    "models": {"nn", "ops", "domain"},
    "training": {"domain", "nn"},
    "saving": {"models"},
    "hub": {"saving"},
    "inference": {"nn"},
    "data": {"models", "tasks"},
    "allocator": set(),
    "bench": {"ops"},
    "plots": {"nn", "ops", "models", "domain"},
    "report": {"plots", "saving", "domain", "nn", "models", "tasks"},
    "fitting": {"inference", "models", "saving", "training"},
    "importing": {"conf", "models", "saving", "tasks", "training"},
    "run": {
        *(
            "conf",
            "data",
            "domain",
            "fitting",
            "inference",
            "models",
            "saving",
            "tasks",
            "training",
        ),
    },
    "tune": {"conf", "plots", "run", "tasks", "training"},
    "estimator": {
        *("domain", "fitting", "inference", "models", "nn", "plots", "saving", "tasks", "training"),
    },
    "__main__": {"cli"},
}
MAY_IMPORT_ANYTHING = {"cli", "__init__"}

# The layers in which a library may be imported; anywhere else it may not.
ROOMS: dict[str, set[str]] = {
    "sklearn": {"estimator", "tasks"},
    "aeon": {"estimator"},
    "sktime": {"estimator"},
    "pandas": {"estimator"},
    "matplotlib": {"plots", "report"},
    "hydra": {"cli", "run", "conf"},
    "omegaconf": {"cli", "run", "conf", "data", "importing", "tune"},
    "optuna": {"cli", "tune"},
    "lightning": {"training", "run", "estimator"},
    "huggingface_hub": {"hub"},
    "pooch": {"tasks"},
    "scipy": {"tasks"},
    "PIL": {"tasks"},
    "safetensors": {"saving"},
    "pytorch_lightning": set(),  # the old name of lightning
    "torchaudio": set(),  # these two do not load beside the CPU build of torch
    "torchvision": set(),
}
PICKLES = {"pickle", "cloudpickle", "dill", "joblib", "shelve"}
# The one file that may import pickle: it reads published files, and of them arrays only.
MAY_UNPICKLE = {"tasks/unpickle.py"}
MAY_PRINT = {"cli"}


def layer_of(path: Path) -> str:
    """Return `nn` for `nn/kernels/siren.py`, `cli` for `cli.py`; path is relative to src/ccnn."""
    return path.parts[0].removesuffix(".py")


def imported_modules(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of all that is imported, wherever in the file, names included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and called(node) in {"import_module", "__import__"}:
            yield node.lineno, text_of(node.args[0]) if node.args else ""


def called(node: ast.Call) -> str:
    """Return the last name of what is called: `load` for `torch.load(...)`."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def text_of(node: ast.expr) -> str:
    """Return the text of a literal string, and nothing for an expression that computes one."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def says_true(node: ast.Call, keyword: str) -> bool:
    """Tell whether the call has `keyword=True`, literally."""
    return any(
        k.arg == keyword and isinstance(k.value, ast.Constant) and k.value.value is True
        for k in node.keywords
    )


def import_violations(layer: str, name: str) -> Iterator[str]:
    """Say which rule the import of the dotted `name` in `layer` breaks."""
    if not name:
        yield "imports a computed name"
        return
    if name.startswith("."):
        yield f"relative import {name}"
        return
    root, *rest = name.split(".")
    if root == "ccnn":
        known = MAY_IMPORT.keys() | MAY_IMPORT_ANYTHING | existing_layers()
        target = rest[0] if rest and rest[0] in known else "__init__"
        if layer not in MAY_IMPORT_ANYTHING and target not in MAY_IMPORT[layer] | {layer}:
            yield f"{layer} may not import ccnn's {target} ({name})"
    if layer not in ROOMS.get(root, {layer}):
        yield f"{root} belongs to {sorted(ROOMS[root])}, not to {layer}"
    if root in PICKLES:
        yield f"{root}: pickles are neither read nor written"
    if name in {"torch.load", "torch.serialization.load"}:
        yield f"call it as torch.load(..., weights_only=True): {name}"


def call_violations(layer: str, node: ast.Call) -> Iterator[str]:
    """Say which rule the call breaks."""
    match called(node), node.func:
        case "getattr", ast.Name() if len(node.args) < 2 or not text_of(node.args[1]):
            yield "getattr with a computed name"
        case "globals", ast.Name():
            yield "globals()"
        case "print", ast.Name() if layer not in MAY_PRINT:
            yield "print outside cli.py"
        case "load", ast.Attribute(value=owner) if not says_true(node, "weights_only"):
            if ast.unparse(owner) in {"torch", "torch.serialization"}:
                yield "torch.load without weights_only=True"
    if says_true(node, "allow_pickle"):
        yield "allow_pickle=True: pickles are neither read nor written"


def existing_layers() -> set[str]:
    """Return every folder and file of src/ccnn that holds Python."""
    return {layer_of(path.relative_to(SRC)) for path in SRC.glob("**/*.py")}


def violations(source: str, path: Path) -> list[str]:
    """Return one line for each rule that the source breaks; path is relative to src/ccnn."""
    tree, layer = ast.parse(source), layer_of(path)
    if layer not in MAY_IMPORT.keys() | MAY_IMPORT_ANYTHING:
        return [f"{path}: {layer} has no row in MAY_IMPORT"]
    found = [
        (line, message)
        for line, name in imported_modules(tree)
        if not (name == "pickle" and path.as_posix() in MAY_UNPICKLE)
        for message in import_violations(layer, name)
    ]
    found += [
        (node.lineno, message)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for message in call_violations(layer, node)
    ]
    return [f"{path}:{line}: {message}" for line, message in sorted(found)]


def test_source_keeps_the_rules():
    found = [
        line
        for path in sorted(SRC.glob("**/*.py"))
        for line in violations(path.read_text(encoding="utf-8"), path.relative_to(SRC))
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("ops/conv.py", "from ccnn.domain import Grid"),
        ("ops/conv.py", "import ccnn.nn.masks"),
        ("domain.py", "def f():\n    from ccnn import ops"),
        ("nn/conv.py", "from ccnn import CCNN"),
        ("nn/conv.py", "import ccnn"),
        ("nn/conv.py", "from ccnn.models.ccnn import CCNN"),
        ("nn/conv.py", "from ..ops.conv import convolve"),
        ("nn/conv.py", "from . import masks"),
        ("nn/conv.py", "import importlib\nimportlib.import_module('ccnn.models')"),
        ("nn/conv.py", "import importlib\nimportlib.import_module(name)"),
        ("training/loop.py", "from ccnn.models import CCNN"),
        ("saving.py", "from ccnn.hub import push"),
        ("models/ccnn.py", "from ccnn.saving import save"),
        ("plots.py", "from ccnn.training import loop"),
        ("newcomer.py", "import math"),
        ("models/ccnn.py", "from sklearn.base import BaseEstimator"),
        ("estimator.py", "import matplotlib.pyplot as plt"),
        ("training/loop.py", "import hydra"),
        ("cli.py", "import lightning as L"),
        ("saving.py", "from huggingface_hub import snapshot_download"),
        ("hub.py", "from safetensors.torch import load_file"),
        ("run.py", "import pooch"),
        ("ops/conv.py", "import scipy.signal"),
        ("plots.py", "from PIL import Image"),
        ("tasks/cifar.py", "import torchvision"),
        ("nn/masks.py", "getattr(nn, f'Linear{dim}d')"),
        ("nn/masks.py", "getattr(nn, name, None)"),
        ("nn/masks.py", "globals()['mask']"),
        ("nn/masks.py", "print('here')"),
        ("tasks/cifar.py", "import pickle"),
        ("tasks/cifar.py", "from pickle import loads"),
        ("tasks/unpickle.py", "import dill"),
        ("tasks/unpickle.py", "from pickle import loads"),
        ("tasks/cifar.py", "import numpy as np\nnp.load(path, allow_pickle=True)"),
        ("models/ckconv.py", "import torch\ntorch.load(path)"),
        ("models/ckconv.py", "import torch\ntorch.load(path, weights_only=False)"),
        ("models/ckconv.py", "from torch import load"),
    ],
)
def test_checker_finds_the_violation(path, source):
    assert len(violations(source, Path(path))) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("ops/conv.py", "import torch\nfrom ccnn.ops.grids import coordinate_grid"),
        ("nn/conv.py", "from ccnn import ops\nfrom ccnn.domain import Grid"),
        ("nn/kernels/siren.py", "from ccnn.nn.kernels.base import AbstractKernelNet"),
        ("models/ckconv.py", "import torch\ntorch.load(path, weights_only=True)"),
        ("saving.py", "from safetensors.torch import load_file\nload_file(path)"),
        ("plots.py", "from matplotlib.axes import Axes"),
        ("cli.py", "from ccnn.run import train\nprint('done')"),
        ("tasks/unpickle.py", "import pickle"),
        ("__init__.py", "from ccnn.models.ccnn import CCNN"),
        ("nn/masks.py", "getattr(module, 'bias', None)"),
        ("nn/masks.py", '"""print(x), globals() and import pickle are words here."""'),
    ],
)
def test_checker_leaves_the_allowed_alone(path, source):
    assert violations(source, Path(path)) == []


def test_import_ccnn_loads_no_optional_library():
    optional = sorted(ROOMS.keys() - {"safetensors"})
    code = f"import sys, ccnn; print(*[name for name in {optional} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []
