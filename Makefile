# Two commands do everything, each with its own set-up in .venv:
#   make demo   answers questions about a passage with the shipped reader (no torch, nothing to download)
#   make test   style, types, layers and the whole test suite
# and for those who work on it:
#   make quick  the fast tests
#   make coverage  every test once more, and which lines they ran (nearly twice as slow)
#   make plugs  the plugs against Haystack, the MCP SDK, Jupyter and older transformers, installed for it
#   make site   the guide as a site, in build/site
#   make guide  run the commands of the guide and write what they print into its pages (after new readers)
#   make newest, make oldest  the tests on the newest of everything that it stands on, and on the oldest allowed
#   make measure  tokens, density, branches and width of the code, and the files that exceed the measures
#   make ratchet  lower the limits in .ci/density.txt to what is measured now
#   make wheel  dist/rmreader-VERSION-py3-none-PLATFORM.whl
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
C := $(wildcard src/rmreader/reading/engine/c/*.[ch])
# Python compiles what it imports and keeps it; compiling all that is installed takes longer than installing it.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
QUICK := $(addprefix tests/,core text scoring data reading test_house.py) \
	$(patsubst %,tests/model/test_%.py,equations mistakes spans)

.PHONY: demo test quick coverage plugs site guide newest oldest lint style types measure ratchet collect wheel clean

demo: $(VENV)/.installed
	@$(BIN)/rmreader ask --passage examples/passage.txt \
		"Who designed the lighthouse?" \
		"When was the lamp first lit?" \
		"Why was the tower moved?" \
		"How many visitors climb the steps every year?" \
		"Who paid for the museum?"

test: style
	@$(MAKE) --no-print-directory --jobs 2 types collect
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 6  # for two processors: some tests wait, and others' work has its share

quick: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 2 -m "not slow and not data and not browser" $(OPTIONS) $(QUICK)

coverage: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 2 --cov

plugs: $(VENV)/.installed-dev
	.ci/plugs

site: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

guide: $(VENV)/.installed-dev
	$(BIN)/python scripts/build_api.py
	$(BIN)/python scripts/build_guide.py --write

newest oldest:  # in an environment of its own under .versions/
	.ci/versions $@

lint: style types

style: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

measure: $(VENV)/.installed-dev
	@$(BIN)/python .ci/density.py

ratchet: $(VENV)/.installed-dev
	@$(BIN)/python .ci/density.py --ratchet

types: $(VENV)/.installed-dev
	$(BIN)/mypy

collect: $(VENV)/.installed-dev  # which compiles the tests and all that they import, once for all workers
	-@$(BIN)/python -m pytest --collect-only -qq >/dev/null

wheel:  # for this machine; what auditwheel says of it is the tag it may be published under
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	-@$(BIN)/python -m pip install --quiet --no-compile --upgrade pip  # older ones read an index three times as long

$(VENV)/.installed: pyproject.toml setup.py constraints.txt $(C) | $(VENV)/bin/python
	$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml setup.py constraints.txt $(C) | $(VENV)/bin/python
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) .versions build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*
