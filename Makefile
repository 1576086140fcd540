# Two commands do everything, each with its own set-up in .venv:
#   make demo   answers questions about a passage with the shipped reader (no torch, nothing to download)
#   make test   style, types, layers and the whole test suite
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
C := $(wildcard src/rmreader/reading/running/c/*.[ch])
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint clean

demo: $(VENV)/.installed
	@$(BIN)/rmreader ask --passage examples/passage.txt \
		"Who designed the lighthouse?" \
		"When was the lamp first lit?" \
		"Why was the tower moved?" \
		"How many visitors climb the stairs every year?"

test: lint
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check src tests benchmarks scripts
	$(BIN)/ruff format --check src tests benchmarks scripts
	$(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt $(C) | $(VENV)/bin/python
	$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt $(C) | $(VENV)/bin/python
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
