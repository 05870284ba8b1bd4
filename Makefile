# Every target makes the environment it needs: all that must be there is Python 3.11 or newer, and make.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Other libraries, which pin versions that flatpc doesn't, have an environment of their own.
PEERS ?= .venv-peers
# BLAS threads of several test processes would fight for the cores.
export OMP_NUM_THREADS ?= 1

.PHONY: help demo test adapters hostile sanitize lint bench docs dist clean

help:
	@echo "make demo    learn with and without sharpness-aware learning, compare, write demo/report.html"
	@echo "make test    run all tests"
	@echo "make adapters run the tests that need PyJuice, optuna, curvlinops, libcirkit and spflow, in $(PEERS)"
	@echo "make hostile try 20,000 and more damaged files, odd tables, wrong options, kills; write the counts into docs; then sanitize"
	@echo "make sanitize run all tests with every index of the kernels checked; compiles for minutes the first time"
	@echo "make lint    ruff, formatting, mypy --strict"
	@echo "make bench   measure speed ratios, keep them in benchmarks/results.json, write them into README and docs"
	@echo "make docs    build the documentation into docs/_build"
	@echo "make dist    build the archives of a release into dist, and try the wheel in an empty environment"
	@echo "make clean   remove what these commands made, except the environments $(VENV) and $(PEERS)"

demo: $(VENV)/installed
	$(BIN)/python examples/demo.py

test: $(VENV)/installed-dev
	$(BIN)/python -m flatpc.compile_kernels
	$(BIN)/python -m pytest -n auto

adapters: $(PEERS)/installed
	$(PEERS)/bin/python -m pytest tests/adapters tests/engine/test_pyjuice.py tests/curvature/test_curvlinops.py

hostile: $(VENV)/installed-dev
	$(BIN)/python -m flatpc.compile_kernels
	rm -rf .hostile && mkdir .hostile
	FLATPC_HOSTILE=long FLATPC_HOSTILE_LOG=$(CURDIR)/.hostile $(BIN)/python -m pytest tests/hostile tests/structures/test_scale.py -n 2 --durations 10
	$(BIN)/python docs/write_reliability.py .hostile
	$(MAKE) sanitize

# Kernels with checked indices are kept in a folder of their own.
sanitize: $(VENV)/installed-dev
	NUMBA_BOUNDSCHECK=1 $(BIN)/python -m flatpc.compile_kernels
	NUMBA_BOUNDSCHECK=1 $(BIN)/python -m pytest -n auto

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

dist: $(VENV)/installed
	rm -rf dist build/try
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build twine
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv build/try
	build/try/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd build/try && bin/flatpc --version && bin/flatpc --help > /dev/null && bin/python $(CURDIR)/.ci/try_wheel.py

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

# Without dependencies, or pip would replace torch and scipy by what the peers would rather have.
$(PEERS)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[torch,plots,search]' pytest hypothesis \
		curvlinops-for-pytorch einops opt_einsum graphviz fast_pytorch_kmeans pydot psutil tqdm
	$(PEERS)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --no-deps pyjuice==2.6.3 triton==3.9.0 \
		libcirkit==0.3.1 spflow==1.1.0
	@touch $@
