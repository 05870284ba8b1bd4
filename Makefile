# Every target makes the environment it needs: all that must be there is Python 3.11 or newer, and make.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# BLAS threads of several test processes would fight for the cores.
export OMP_NUM_THREADS ?= 1

.PHONY: help demo test hostile sanitize lint bench docs clean

help:
	@echo "make demo    learn with and without sharpness-aware learning, compare, write demo/report.html"
	@echo "make test    run all tests"
	@echo "make hostile try 20,000 and more damaged files, odd tables, wrong options, kills; write the counts into docs"
	@echo "make sanitize run the tests of the kernels with every index checked; compiles for minutes the first time"
	@echo "make lint    ruff, formatting, mypy --strict"
	@echo "make bench   measure speed ratios, keep them in benchmarks/results.json, write them into README and docs"
	@echo "make docs    build the documentation into docs/_build"
	@echo "make clean   remove what these commands made, except the environment $(VENV)"

demo: $(VENV)/installed
	$(BIN)/python examples/demo.py

test: $(VENV)/installed-dev
	$(BIN)/python -m flatpc.compile_kernels
	$(BIN)/python -m pytest -n auto

hostile: $(VENV)/installed-dev
	$(BIN)/python -m flatpc.compile_kernels
	rm -rf .hostile && mkdir .hostile
	FLATPC_HOSTILE=long FLATPC_HOSTILE_LOG=$(CURDIR)/.hostile $(BIN)/python -m pytest tests/hostile -n 2 --durations 10
	$(BIN)/python docs/write_reliability.py .hostile

# Kernels with checked indices are kept in a folder of their own.
sanitize: $(VENV)/installed-dev
	NUMBA_BOUNDSCHECK=1 $(BIN)/python -m pytest -n auto tests/engine tests/queries tests/curvature tests/learning tests/search

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src

bench: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks --record
	$(BIN)/python docs/write_results.py

docs: $(VENV)/installed-docs
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

clean:
	rm -rf .hostile docs/_build demo dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find src tests examples -name __pycache__ -type d -exec rm -rf {} +

$(VENV)/installed: pyproject.toml constraints.txt
	@command -v $(PYTHON) > /dev/null || { echo "There is no $(PYTHON). Install Python 3.11 or newer, or name one: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "flatpc needs Python 3.11 or newer, and $(PYTHON) is `$(PYTHON) --version`. Name another: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[paper]'
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(VENV)/installed-docs: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@
