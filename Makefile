# One command each; everything they need is installed into .venv from the package registry.
PYTHON ?= python3
BIN := .venv/bin
.DEFAULT_GOAL := help
# The tests start hundreds of processes, and each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest --numprocesses=logical --dist=loadfile --no-loadscope-reorder
# All that is wrong with the pages, not only the first; what did not change is not read again.
SPHINX := $(BIN)/python -m sphinx --quiet --fail-on-warning --jobs 2 --doctree-dir build/doctrees
.PHONY: help setup demo test test-all explore check generate verify bench site dist release-check clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

.venv/.package: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pgsluice needs Python 3.11 or later; name one: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable '.[all]'
	@touch $@

.venv/.dev: .venv/.package
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@

setup: .venv/.dev ## create .venv with everything for development

demo: .venv/.package ## run the whole system on real work and check every row
	$(BIN)/pgsluice demo $(ARGS)

test: .venv/.dev ## run the tests but those marked slow or long, on every PostgreSQL at hand
	$(PYTEST) $(ARGS)

test-all: .venv/.dev ## run every test on every version: hours
	$(PYTEST) -m '' --every-version $(ARGS)

explore: .venv/.dev ## run randomized tests with new seeds for 20 minutes; ARGS="--minutes 60 tests/property"
	$(BIN)/python tools/explore.py $(ARGS)

check: .venv/.dev ## format, lint, types, layers, language, generated files
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/structure.py
	$(BIN)/python -m pytest -q --numprocesses=0 tests/tidy/test_language.py
	$(SPHINX) -b dummy docs build/site-check
	@$(MAKE) --no-print-directory verify

generate: .venv/.dev ## write what is generated: the clients, docs/reference, tests/fixtures/schema.txt
	$(BIN)/python tools/clients_from_calls.py
	$(BIN)/python tools/sync_from_async.py
	$(BIN)/python tools/schema_dump.py
	$(BIN)/python tools/reference_docs.py

verify: .venv/.dev ## fail when something generated is out of date
	$(BIN)/python tools/clients_from_calls.py --check
	$(BIN)/python tools/sync_from_async.py --check
	$(BIN)/python tools/schema_dump.py --check
	$(BIN)/python tools/reference_docs.py --check

.venv/.bench: .venv/.dev
	$(BIN)/python -m pip install --quiet --group bench
	@touch $@

bench: .venv/.bench ## measure against a peer in the same server
	$(BIN)/python -m bench $(ARGS)

site: .venv/.dev ## write the pages of docs to build/site, to be hosted anywhere; a broken link is an error
	@rm -rf build/site
	$(SPHINX) -b html docs build/site
	@echo "build/site/index.html"

.venv/.release: pyproject.toml
	@test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --group release
	@touch $@

dist: .venv/.release ## build the wheel and the sdist into dist
	rm -rf dist
	$(BIN)/python -m build --outdir dist

release-check: .venv/.dev ## check what a release publishes: contents, licences, each extra on each Python; ARGS="--slow" runs Spark
	$(BIN)/python tools/release_check.py $(ARGS)

clean: ## remove .venv and caches
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
