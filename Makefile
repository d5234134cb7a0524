PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check

PART ?= 1/1
N ?= 100
SEED ?=
CHAOS ?= # further options of the campaign: --first 1000, --jobs 4, --json FILE, --shrink
FIRST ?=
ONLY ?=
TESTS ?=
ACTORS := --set 'executor={clients_per_actor: 1}' # an actor for each client
ENTRIES ?= oldest:3.11 newest:3.11 newest:3.12 newest:3.13 newest:3.14 \
	newest:3.14:torch,privacy,dashboard,metrics

# Otherwise every process compiles all sources again, and pytest rewrites all tests again.
unexport PYTHONDONTWRITEBYTECODE

# One process more than there are cores: browsers and processes that tests start are waited for.
# The quick ones start none, and each process collects all tests before it runs its own.
CORES := $(shell $(PYTHON) -c "import os; print(min(4, len(os.sched_getaffinity(0))))")
JOBS ?= $(shell expr $(CORES) + 1)
PYTEST = $(BIN)/pytest --numprocesses=$(JOBS)

.PHONY: help demo quick test slow flower jax durations kernels digests chaos lint docs bench matrix release clean

help:
	@echo "make demo   run the quickstart in one process, then on 20 client actors, in an environment"
	@echo "make quick  tests without Ray and browser that take less than 0.03 s of a processor each"
	@echo "make test   every test but the slow ones"
	@echo "make slow   the slow ones: wheels, whole studies, what takes over 0.1 s; PART=1/3 for a third"
	@echo "make flower  the tests of Flower apps, in an environment of their own"
	@echo "make jax    the tests of JAX, which is installed in a folder of its own"
	@echo "make durations  measure which tests are long; TESTS=tests/numerics: those alone"
	@echo "make kernels  the tests once under each way of computing; ONLY=Haswell,lowest TESTS=tests/numerics"
	@echo "make digests  write down anew what small scenarios record, bit for bit"
	@echo "make chaos  N=100 random scenarios with random faults, fresh ones each time; SEED=123 repeats one"
	@echo "make lint   ruff, mypy --strict and the layers of the tree"
	@echo "make docs   the documentation site, in docs/_build"
	@echo "make bench  speed and memory against a bare NumPy loop"
	@echo "make matrix  the quick tests with the oldest and newest versions that pyproject.toml promises; ENTRIES=newest:3.14"
	@echo "make release  wheel and source distribution in dist/, reproducible, checked by twine"
	@echo "make clean  remove the environment"

demo: $(VENV)/installed
	$(BIN)/rayfed run scenarios/quickstart.yaml
	$(BIN)/rayfed run scenarios/quickstart.yaml $(ACTORS) --out results/quickstart-actors

quick: JOBS = $(CORES)
quick: $(VENV)/installed-dev
	$(PYTEST) --quick

test: $(VENV)/installed-dev
	sh scripts/browser.sh
	$(PYTEST) -m "not slow"

slow: $(VENV)/installed-dev
	sh scripts/browser.sh
	$(PYTEST) -m slow --part $(PART)

flower: $(VENV)/installed-dev
	BIN=$(BIN) sh scripts/flower.sh

jax: $(VENV)/installed-dev
	BIN=$(BIN) sh scripts/jax.sh

durations: $(VENV)/installed-dev # tests that `make quick` and `make test` leave out
	$(BIN)/pytest $(TESTS) -m "not slow and not ray and not browser" --record-durations

kernels: $(VENV)/installed-dev
	$(BIN)/python -m scripts.kernels $(if $(ONLY),--only "$(ONLY)") $(if $(FIRST),--first $(FIRST)) \
		$(if $(TESTS),-- $(TESTS))

digests: $(VENV)/installed-dev
	$(BIN)/python -m scripts.golden --write

chaos: $(VENV)/installed-dev
	$(BIN)/python -m tests.chaos $(if $(SEED),--seed $(SEED),--number $(N)) $(CHAOS)

lint: $(VENV)/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

docs: $(VENV)/installed-dev
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build
	@echo "site: docs/_build/index.html"

bench: $(VENV)/installed
	$(BIN)/python -m benchmarks

matrix: $(VENV)/installed-dev
	BIN=$(BIN) JOBS=$(JOBS) TESTS="$(or $(TESTS),tests)" sh scripts/matrix.sh $(ENTRIES)

release: $(VENV)/installed-dev # dated by the commit, so that everybody builds the same bytes
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m hatchling build
	$(BIN)/uv tool run twine@7.0.0 check --strict dist/*
	sha256sum dist/*

$(VENV)/installed: requirements.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rayfed needs Python 3.11 or newer; set PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV)"
	$(PIP) -r requirements.txt
	$(PIP) --no-deps --editable .
	touch $@

$(VENV)/installed-dev: requirements-dev.txt $(VENV)/installed
	$(PIP) -r requirements-dev.txt
	$(PIP) --no-deps byzfl==0.0.11 # its rules alone are imported; with all that it needs it takes 5 GB
	touch $@

clean:
	rm -rf $(VENV)
