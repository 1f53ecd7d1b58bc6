# Every target works as the first command on a fresh clone: it makes .venv and installs what it needs.
#   make demo     train an agent on generated household games and show the result
#   make test     run the tests          make check   lint, format, types, layers
#   make test-slow   the tests that take minutes
#   make bench    the benchmarks         GPU=1        let pip choose a CUDA build of torch

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SEED   ?= 0
ifndef GPU
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
endif

.PHONY: demo test test-slow check install links bench clean

install: $(STAMP) links

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"turnwise needs Python 3.11 or newer, {sys.executable} is {sys.version.split()[0]}; try make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@

# Editable installs of renamed folders work through an import hook that type checkers do not run.
links:
	@mkdir -p .links/turnwise
	@for file in package/*; do ln -sfn ../../$$file .links/turnwise/; done
	@for folder in agents cli credit envs tools training; do ln -sfn ../../$$folder .links/turnwise/$$folder; done

demo: install
	$(BIN)/turnwise demo --seed $(SEED)

test: install
	$(BIN)/python -m pytest -q -n 2 -m "not slow"

test-slow: install
	$(BIN)/python -m pytest -q -n 2 -m slow

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p turnwise
	$(BIN)/python -m pytest -q tests/test_layers.py

bench: install
	for script in household credit rollout merge; do $(BIN)/python benchmarks/$$script.py || exit 1; done

clean:
	rm -rf $(VENV) .links .pytest_cache .mypy_cache .ruff_cache build *.egg-info
