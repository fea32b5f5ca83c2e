# Every command anyone needs. `make demo` and `make test` set up their own virtual environment.
SHELL := /bin/bash
VENV ?= .venv
PYTHON ?= python3
PORT ?= 9186
RUN := $(VENV)/bin

.PHONY: help demo test check format bench simulate docs clean
help:
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/.installed: pyproject.toml
	@test -x $(RUN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Setting up $(VENV) (once; about a minute) ..."
	@$(RUN)/pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(RUN)/pip install --quiet --disable-pip-version-check -e . --group dev --group demo
	@touch $@

demo: $(VENV)/.installed ## set up, start the platform, run a real distributed training job
	@$(RUN)/python examples/demo.py --port $(PORT)

test: $(VENV)/.installed ## the whole test suite
	$(RUN)/python -m pytest

check: $(VENV)/.installed ## format, lint, types, import contracts, unit tests
	$(RUN)/ruff format --check .
	$(RUN)/ruff check .
	$(RUN)/mypy
	$(RUN)/lint-imports --no-cache
	$(RUN)/python -m pytest -q tests/unit tests/properties tests/architecture -m "not slow"

docs: $(VENV)/.installed ## write the pages of docs/ that are made from the tables
	$(RUN)/python -m openpai.app.pages docs

format: $(VENV)/.installed ## put the code in its form
	$(RUN)/ruff format .
	$(RUN)/ruff check --fix .
