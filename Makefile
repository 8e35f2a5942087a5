# Everything runs in a virtual environment of its own; only Python 3.10 or newer must be installed.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.PHONY: help demo test coverage fuzz lint types check sdist-check audit bench bench-scale reproduce man sample-data clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# Bytecode is compiled here because some machines forbid writing it at run time.
$(VENV)/demo: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[plot,report]'
	$(BIN)/python -m compileall -q bpmcli
	@touch $@

$(VENV)/test: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[test,plot]'
	$(BIN)/python -m compileall -q bpmcli
	@touch $@ $(VENV)/demo

$(VENV)/dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/test $(VENV)/demo

demo: $(VENV)/demo  ## install, then fit, apply, metrics, simulate, compare on sample_data
	@PATH="$(abspath $(BIN)):$$PATH" sh sample_data/demo.sh

# PYTHONDONTWRITEBYTECODE is emptied so that the bytecode of the tests is kept: otherwise pytest rewrites their
# assertions in every process, which takes 4 s.
test: $(VENV)/test  ## install, then run the tests (COVERAGE=1: with branch coverage, floor 95 %)
ifdef COVERAGE
	$(BIN)/python -m coverage erase
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m coverage run -m pytest -n auto --dist worksteal
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report
else
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal
endif

coverage:  ## run the tests with branch coverage, as CI does
	$(MAKE) test COVERAGE=1

fuzz: $(VENV)/test  ## fuzz every command with hostile input, then faults of the machine (CASES=1000 SEED=0; ARGS='--replay 0:123')
	PYTHONPATH=tests $(BIN)/python -m fuzz --cases $(or $(CASES),1000) --seed $(or $(SEED),0) $(ARGS)
	$(if $(ARGS),,PYTHONPATH=tests $(BIN)/python -m fuzz.faults)

lint: $(VENV)/dev  ## run ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev  ## run mypy --strict
	$(BIN)/mypy

check: lint types test  ## run lint, types and tests

sdist-check: $(VENV)/dev  ## build the sdist, unpack it elsewhere and run its tests there
	rm -rf dist && $(BIN)/python -m hatchling build
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && tar xf dist/bpmcli-*.tar.gz -C "$$folder" && \
	  $(MAKE) -C "$$folder"/bpmcli-* test PYTHON=$(abspath $(BIN)/python)

# Without --strict, packages that the service does not know would be skipped and the audit would pass.
audit: $(VENV)/dev  ## list known vulnerabilities of the installed packages (needs the network)
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/python -m pip freeze --exclude-editable > $(VENV)/audited.txt
	$(BIN)/pip-audit --strict --no-deps --disable-pip -r $(VENV)/audited.txt

bench: $(VENV)/dev  ## measure speed beside other packages (minutes)
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/calibrator_speed.py

bench-scale: $(VENV)/dev  ## measure speed on many rows and files (long; DATA=folder of real files)
	cd benchmarks && ../$(BIN)/python scale.py $(if $(DATA),--data $(abspath $(DATA)))

reproduce: $(VENV)/test  ## make the paper's simulated tables and figures, in reproduction/
	$(BIN)/python benchmarks/reproduce.py reproduction --jobs 0

man: $(VENV)/demo  ## make manual pages from the help, in build/man/man1 (MANPATH=build/man man bpmcli)
	$(BIN)/python -m bpmcli.cli.man_pages build/man/man1

sample-data: $(VENV)/dev  ## rebuild sample_data
	$(BIN)/python sample_data/make_sample_data.py

clean:  ## remove everything that the other targets make
	rm -rf $(VENV) build dist reproduction *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.*
	find . -name __pycache__ -prune -exec rm -rf {} +
