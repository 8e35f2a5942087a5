# Everything runs in a virtual environment of its own: nothing else need be installed but Python 3.10+.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.PHONY: help demo test lint types check bench bench-scale reproduce sample-data clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# Bytecode is compiled here because some machines forbid writing it at run time.
$(VENV)/demo: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
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

test: $(VENV)/test  ## install, then run the tests
	$(BIN)/python -m pytest -n auto

lint: $(VENV)/dev  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev  ## mypy --strict
	$(BIN)/mypy

check: lint types test  ## lint, types and tests

bench: $(VENV)/dev  ## speed, side by side in one run (minutes)
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/calibrator_speed.py

bench-scale: $(VENV)/dev  ## peers, growth, summaries, many files (long; DATA=folder of real files)
	cd benchmarks && ../$(BIN)/python scale.py $(if $(DATA),--data $(abspath $(DATA)))

reproduce: $(VENV)/test  ## the paper's simulated tables and figures, into reproduction/
	$(BIN)/python benchmarks/reproduce.py reproduction --jobs 0

sample-data: $(VENV)/dev  ## make sample_data anew
	$(BIN)/python sample_data/make_sample_data.py

clean:  ## remove what was made
	rm -rf $(VENV) build dist reproduction *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
