# Every target sets up what it needs: .venv is created and filled on first use and again when
# pyproject.toml or constraints.txt change. Another interpreter: make test PYTHON=python3.12
PYTHON ?= python3
JOBS ?= 3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help benchmark test soak lint bench docs clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

# One setting of Hopular and ten of each booster, 25 seconds a search: minutes on two cores.
benchmark: $(READY)  ## Run the demo suite through the pipeline (ARGS="--splits 2" for more)
	$(BIN)/hopular benchmark demo --grid-trials 1 --trials 10 --seconds 25 $(ARGS)

# One thread per test process: processes that each use all cores slow one another down many times over. A third
# process on two cores fills the time in which the others wait for servers. Files go in the order of tests/conftest.py, which
# begins with the longest.
test: $(READY)  ## Run the tests (ARGS="tests/model -k masking" for some of them, JOBS=n processes)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

soak: $(READY)  ## Break things on purpose, for an hour or more (ARGS="-k kill" for some of it)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m soak $(ARGS)

lint: $(READY)  ## Check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)  ## Measure the model's speed and memory, and what search, tracking, pipeline and loading cost
	$(BIN)/python -m benchmarks.speed $(ARGS)
	$(BIN)/python -m benchmarks.search
	$(BIN)/python -m benchmarks.tracking
	$(BIN)/python -m benchmarks.pipeline
	$(BIN)/python -m benchmarks.data

# The variable silences Material's notice about the next version of MkDocs.
docs: $(READY)  ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict $(ARGS)

clean:  ## Remove caches and build output (keeps .venv and mlruns)
	rm -rf build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path ./$(VENV) -prune -o -type d -name __pycache__ -exec rm -rf {} +

# Building the package itself needs setuptools alone, so the constraints need not reach the isolated build. Bytecode is
# made on all cores, where pip would use one; a file that does not compile is for another Python and never imported.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --no-compile -c constraints.txt -e '.[test,dev,docs]'
	$(BIN)/python -m compileall -qq -j 0 -x /tests/ $(VENV)/lib || true
	@touch $@
