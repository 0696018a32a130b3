PYTHON ?= python3

VENV := .venv
BIN := $(VENV)/bin
DEV := $(VENV)/.dev-installed
DOCS := $(VENV)/.docs-installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check docs bench wheel clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DEV)  ## one network on sequences, images and volumes, and at another resolution
	$(BIN)/ccnn demo

# A process per core with one thread each; files stay whole, because their fixtures train networks.
test: $(DEV)  ## run the default tests: offline, on the CPU
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

check: $(DEV)  ## lint, format and type checks; changes nothing
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy

docs: $(DOCS)  ## build the documentation into docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

bench: $(DEV)  ## measure speed, the short way
	$(BIN)/python benchmarks/speed.py --short

wheel: $(DEV)  ## build dist/*.whl, install only that in an empty environment and predict with it
	rm -f dist/*.whl
	$(BIN)/python -m build --wheel --outdir dist
	@set -eu; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	$(BIN)/python -m venv "$$tmp/venv"; \
	"$$tmp/venv/bin/python" -m pip install --quiet --constraint constraints.txt dist/*.whl; \
	cd "$$tmp"; \
	venv/bin/python -I -c "$$PREDICT"

clean:  ## remove the environment and everything that was built
	rm -rf $(VENV) dist build docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests docs -name __pycache__ -type d -prune -exec rm -rf {} +

# Run with -I, outside the repository: neither the folder nor PYTHONPATH can lend its own ccnn.
define PREDICT
import pathlib, sys
import ccnn, torch

home = pathlib.Path(ccnn.__file__)
assert home.is_relative_to(sys.prefix), f"not the wheel: {home}"
assert home.with_name("py.typed").exists(), "py.typed is missing from the wheel"
m = ccnn.create_model("ccnn_4_110", in_channels=1, out_channels=10, size=(64,))
shape = tuple(m.eval()(torch.randn(2, 1, 64)).shape)
assert shape == (2, 10), shape
print(f"ccnn {ccnn.__version__} from the wheel: (2, 1, 64) -> {shape}")
endef
export PREDICT

$(DEV): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "ccnn needs Python 3.11 or newer, and '$(PYTHON)' is not: $$($(PYTHON) --version 2>&1)."; \
	  echo "Name another one, for example: make PYTHON=python3.12 $(MAKECMDGOALS)"; \
	  exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(DOCS): $(DEV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@
