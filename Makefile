# Two commands for a newcomer: `make demo` and `make test`. Each does its own set-up: the core in .venv, which is what a
# user installs; everything for tests, style and benchmarks in .venv-test.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
READY := .venv/.ready
BIN := .venv-test/bin
TEST_READY := .venv-test/.ready
# Where the sample data for data tests and benchmarks may lie; tests skip with a reason where it is absent.
export QUERYVEIL_DATA ?= $(abspath ../shared/data)
# Some machines forbid bytecode. Then each of the hundreds of processes that the tests start compiles every library anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint site wheel bench soak lock clean help

help:  ## what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

# Environment $(1) from the lock $(2), pinned and checked by hash; `uv` only makes the installation fast. The last step
# fetches the data that comes with the package (build_data.py).
define set_up
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
  || { echo "QueryVeil needs Python 3.11 or newer; found $$($(PYTHON) --version). Try: make PYTHON=/path/to/python3.11"; exit 2; }
$(PYTHON) -m venv $(1)
$(1)/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.7
$(1)/bin/uv pip install --quiet --python $(1)/bin/python --require-hashes -r $(2)
$(1)/bin/uv pip install --quiet --python $(1)/bin/python --no-deps --editable .
endef

# The tools of the set-up weigh 80 MB and go again.
$(READY): requirements-core.lock pyproject.toml build_data.py data.lock
	$(call set_up,.venv,requirements-core.lock)
	.venv/bin/uv pip uninstall --quiet --python .venv/bin/python uv setuptools pip
	@touch $@

$(TEST_READY): requirements.lock pyproject.toml build_data.py data.lock
	$(call set_up,.venv-test,requirements.lock)
	@touch $@

demo: $(READY)  ## the whole tour on a synthetic log
	.venv/bin/queryveil demo

# Four workers for two cores: some wait for servers. A thread of OpenBLAS that waits for another's core spins.
test soak: export OPENBLAS_NUM_THREADS = 1
test: $(TEST_READY)  ## all tests that finish within minutes
	$(BIN)/python -m pytest -n 4 --dist loadscope $(PYTEST_ARGS)

LINTED := src tests benchmarks docs/notebooks docs/site .ci build_data.py sbom.py
lint: $(TEST_READY)  ## style, types and the layers of the package
	$(BIN)/ruff check $(LINTED)
	$(BIN)/ruff format --check $(LINTED)
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site has an environment of its own, so that the daily one stays small.
SITE_READY := .venv-docs/.ready
$(SITE_READY): docs/requirements.lock $(TEST_READY)
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-docs
	$(BIN)/uv pip install --quiet --python .venv-docs/bin/python --require-hashes -r docs/requirements.lock
	@touch $@

RULES_USERS ?= 5000
site: $(SITE_READY)  ## this documentation with an API reference, strictly, into build/docs/site
	$(BIN)/python docs/site/rules_page.py --users $(RULES_USERS)
	.venv-docs/bin/python docs/site/build.py

wheel: $(TEST_READY)  ## build sdist and wheel, install the wheel alone and use it
	$(BIN)/python .ci/try_wheel.py

bench: $(TEST_READY)  ## every benchmark; writes benchmarks/RESULTS.md
	@for script in benchmarks/[a-z]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

soak: $(TEST_READY)  ## long tests: many kills, the law of all nouns, a whole cluster, every example of a property
	QUERYVEIL_SOAK=1 $(BIN)/python -m pytest -n 2 -m "soak or longer" $(PYTEST_ARGS)

COMPILE := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --quiet
lock: $(TEST_READY)  ## pin every dependency anew, with hashes
	$(COMPILE) --upgrade pyproject.toml -o requirements-core.lock
	$(COMPILE) --upgrade pyproject.toml --extra test --constraint requirements-core.lock -o requirements.lock
	$(COMPILE) pyproject.toml --extra redis --extra nats --extra kafka --constraint requirements.lock \
	  -o deploy/requirements.lock
	$(COMPILE) --upgrade --group pyproject.toml:docs -o docs/requirements.lock

clean:  ## forget the environments, the fetched data and all caches
	rm -rf .venv .venv-test .venv-docs src/queryveil/data build .mypy_cache .ruff_cache .pytest_cache .hypothesis demo
