# Every command anyone needs. `make demo` and `make test` set up their own virtual environment.
SHELL := /bin/bash
VENV ?= .venv
# Where compiled modules may not be kept, every process that the tests start spends seconds on compiling the same.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
PORT ?= 9186
PY ?= /usr/bin/python3
# Most tests wait for servers and processes of their own, so two of them share a processor.
WORKERS ?= $(shell echo $$((2 * $$(nproc))))
RUN := $(VENV)/bin
# $(call install,environment,packages): uv takes a third of pip's time, where it is there and can. Groups of dependencies
# need a pip that is younger than many a system's.
install = uv pip install --quiet --compile-bytecode --python $(1)/bin/python $(2) 2>/dev/null || { \
	$(1)/bin/python -m pip install --quiet --disable-pip-version-check "pip>=25.1" && \
	$(1)/bin/python -m pip install --quiet --disable-pip-version-check $(2); }

# A test of real processes may fail on a machine that is busy; it runs once more, and the summary names it to be mended.
AGAIN := --reruns 1 -raR

# What differs between versions of Python: parsing, asyncio, databases, processes, and faults of each; not what SQL
# answers, and not arithmetic.
CORE := tests/unit tests/properties/test_protocol.py tests/contracts tests/integration/test_kill.py \
	tests/e2e/test_bad_starts.py tests/e2e/test_several_servers.py
SAME := tests/contracts/test_listing.py tests/contracts/test_account.py tests/contracts/test_usage.py tests/unit/simulator

.PHONY: help demo test test-full test-python test-core lint check check-tests format bench simulate docs clean
help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# A Debian python3 comes without what makes a virtual environment; root gets it installed, others are told how.
$(RUN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "openpai needs Python 3.11 or newer; say which one with: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { rm -rf $(VENV); \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "Installing python3-venv ..."; apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null; \
		else echo "Python cannot make a virtual environment here; install it with: sudo apt install python3-venv"; exit 1; fi; \
		$(PYTHON) -m venv $(VENV); }

$(VENV)/.demo: pyproject.toml | $(RUN)/python
	@echo "Setting up $(VENV) (once, under a minute) ..."
	@$(call install,$(VENV),-e . --group demo)
	@touch $@

$(VENV)/.installed: pyproject.toml | $(RUN)/python
	@echo "Setting up $(VENV) for development (once, about a minute) ..."
	@$(call install,$(VENV),-e . --group dev --group demo)
	@touch $@ $(VENV)/.demo

# Its tests skip where it cannot be had.
$(VENV)/generator/.installed: pyproject.toml | $(VENV)/.installed
	@$(RUN)/python -m venv $(VENV)/generator && touch $@
	@{ $(call install,$(VENV)/generator,--group generator); } || \
		echo "no openapi-python-client: the test of generated clients will skip"

# The portal's own sources, and what describes the API: without a change of these it is not built again.
PORTAL := $(shell find portal -path portal/node_modules -prune -o -path portal/.build -prune -o -type f -print 2>/dev/null) \
	$(wildcard src/openpai/wire/*.py src/openpai/api/routes/*.py src/openpai/protocol/schema*.py)
src/openpai/portal/index.html: $(PORTAL)
	@$(RUN)/python portal/build.py && touch $@

$(VENV)/.portal: pyproject.toml | $(RUN)/python
	@$(call install,$(VENV),--group portal)
	@touch $@

.PHONY: portal portal-if-possible
portal: $(VENV)/.demo $(VENV)/.portal src/openpai/portal/index.html ## build the web portal (once, under a minute)

portal-if-possible:
	@$(MAKE) --no-print-directory portal || echo "going on without the web portal; \`make portal\` says what is missing"

demo: $(VENV)/.demo portal-if-possible ## set up, start the platform with its portal, run a real distributed training job
	@$(RUN)/python examples/demo.py --port $(PORT)

test: $(VENV)/.installed portal-if-possible ## all tests but the longest sweeps
	$(RUN)/python -m pytest -q -n $(WORKERS) --dist loadscope --durations=30 -m "not full"

test-full: $(VENV)/.installed $(VENV)/generator/.installed portal-if-possible ## every test, with long sweeps and many more random examples
	$(RUN)/python -m pytest -q -n $(WORKERS) --dist loadscope --durations=30 $(AGAIN) --hypothesis-profile=full

test-python: ## the core of the suite on another Python: make test-python PY=/usr/bin/python3.13
	@$(MAKE) --no-print-directory test-core PYTHON=$(PY) VENV=.venv/python-$(shell $(PY) -c "import sys; print(sys.version.split()[0])")

test-core: $(VENV)/.installed
	PAI_KILLS=$(or $(PAI_KILLS),2) $(RUN)/python -m pytest -q -n $(WORKERS) --dist loadscope $(AGAIN) $(SAME:%=--ignore=%) $(CORE)

lint: $(VENV)/.installed ## format, lint, types, import contracts
	$(RUN)/ruff format --check .
	$(RUN)/ruff check .
	$(RUN)/mypy
	$(RUN)/lint-imports --no-cache
	@if [ -f portal/.build/types.done ]; then $(RUN)/python portal/build.py --check; else \
		echo "the portal's types are checked once \`make portal\` has built it"; fi

# Side by side, because mypy uses one processor only.
check: $(VENV)/.installed ## lint, and the quick tests of the cores, in under a minute
	@$(MAKE) --no-print-directory -j2 lint check-tests

check-tests: $(VENV)/.installed
	$(RUN)/python -m pytest -q -n auto tests/unit tests/properties tests/architecture -m "not slow and not full"

docs: $(VENV)/.installed ## write the pages of docs/ that are made from the tables
	$(RUN)/python -m openpai.app.pages docs

simulate: $(VENV)/.installed ## live through seeds of faults: SEED=7 one again, SEEDS=5000 many, FIRST=0, ON=kubernetes
	$(RUN)/python -m tests.simulation.run $(if $(ON),--on $(ON)) $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),200) --first $(or $(FIRST),0))

format: $(VENV)/.installed ## put the code in its form
	$(RUN)/ruff format .
	$(RUN)/ruff check --fix .

bench: $(VENV)/.installed ## measure everything; one JSON document
	@$(RUN)/python -m bench

clean: ## remove what the other commands made
	rm -rf $(VENV) .demo portal/node_modules portal/.build src/openpai/portal .mypy_cache .ruff_cache .pytest_cache .hypothesis
