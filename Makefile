# Two commands for a newcomer: `make demo` and `make test`. Each does its own set-up in .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready
# Where the sample data for data tests and benchmarks may lie; tests skip with a reason where it is absent.
export QUERYVEIL_DATA ?= $(abspath ../shared/data)
# Some machines forbid bytecode. Then each of the hundreds of processes that the tests start compiles every library anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint site wheel bench soak lock clean help

help:  ## what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

# Everything comes from requirements.lock, pinned and checked by hash; `uv` only makes the installation fast.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "QueryVeil needs Python 3.11 or newer; found $$($(PYTHON) --version). Try: make PYTHON=/path/to/python3.11"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.7
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@

demo: $(READY)  ## the whole tour on a synthetic log
	$(BIN)/queryveil demo

# Two workers have the cores; a thread of OpenBLAS that waits for another's core spins.
test soak: export OPENBLAS_NUM_THREADS = 1
test: $(READY)  ## all tests that finish within minutes
	$(BIN)/python -m pytest -n 2 --dist worksteal $(PYTEST_ARGS)

LINTED := src tests benchmarks docs/notebooks docs/site .ci
lint: $(READY)  ## style, types and the layers of the package
	$(BIN)/ruff check $(LINTED)
	$(BIN)/ruff format --check $(LINTED)
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site has an environment of its own, so that the daily one stays small.
SITE_READY := .venv-docs/.ready
$(SITE_READY): docs/requirements.lock $(READY)
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-docs
	$(BIN)/uv pip install --quiet --python .venv-docs/bin/python --require-hashes -r docs/requirements.lock
	@touch $@

site: $(SITE_READY)  ## this documentation with an API reference, strictly, into build/docs/site
	$(BIN)/python docs/site/rules_page.py
	.venv-docs/bin/python docs/site/build.py

wheel: $(READY)  ## build sdist and wheel, install the wheel alone and use it
	$(BIN)/python .ci/try_wheel.py

bench: $(READY)  ## every benchmark; writes benchmarks/RESULTS.md
	@for script in benchmarks/[a-z]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

soak: $(READY)  ## long kill tests
	QUERYVEIL_SOAK=1 $(BIN)/python -m pytest -n 2 -m soak $(PYTEST_ARGS)

lock: $(READY)  ## pin every dependency anew, with hashes
	$(BIN)/uv pip compile pyproject.toml --extra test --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-annotate --upgrade --quiet -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra redis --extra nats --extra kafka --constraint requirements.lock \
	  --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --quiet -o deploy/requirements.lock
	$(BIN)/uv pip compile --group pyproject.toml:docs --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-annotate --upgrade --quiet -o docs/requirements.lock

clean:  ## forget the environment and all caches
	rm -rf .venv .venv-docs build .mypy_cache .ruff_cache .pytest_cache .hypothesis demo
