# Every target does its own set-up: the first call creates .venv and installs into it.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo studio test lint docs bench package audit pins exact load fuzz clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/installed ## learn a x8 mask on the built-in brain and compare it with other masks
	@$(BIN)/promask demo

studio: .venv/installed ## learn and compare masks in the browser
	@$(BIN)/promask studio

test: .venv/developer ## the whole test suite
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

lint: .venv/developer ## ruff, mypy and the order of the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/developer ## the documentation as a site: site/index.html
	$(BIN)/python -m sphinx -W --keep-going --quiet --fresh-env --builder html --doctree-dir build/doctrees docs site
	@echo "The site is in site/: open site/index.html"

bench: .venv/developer ## speed, as ratios to the literal algorithm and to the bare Fourier transforms
	$(BIN)/python -m benchmarks

package: .venv/developer ## the wheel and the source archive, in dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist

audit: .venv/developer ## known vulnerabilities of the pinned packages, as the registry tells them
	@$(INSTALL) pip-audit
	$(BIN)/pip-audit --strict --disable-pip --no-deps --requirement constraints.txt

pins: .venv/developer ## write requirements-ci.txt anew, from pyproject.toml and constraints.txt
	@$(INSTALL) uv
	@$(BIN)/python .ci/pins.py

exact: .venv/bin/pip ## install exactly what requirements-ci.txt lists, verified by hash, as CI does
	@echo "Installing the packages of requirements-ci.txt into .venv (a few minutes, once)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: --requirement requirements-ci.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch .venv/installed .venv/developer

load: .venv/developer ## memory over 35,000 slices, and 100,000 steps: a quarter of an hour
	$(BIN)/python -m benchmarks.load

SECONDS ?= 600
fuzz: .venv/developer ## damaged files for everything that is read, each kind for SECONDS=600
	@$(INSTALL) --editable '.[fuzz]'
	@status=0; for name in $$($(BIN)/python -m fuzz --list); do \
	  $(BIN)/python -m fuzz $$name --seconds $(SECONDS) || status=1; done; exit $$status

clean: ## remove .venv and everything that tools left behind
	rm -rf .venv site .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist

.venv/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "promask needs Python 3.11 or newer; choose one with: make PYTHON=python3.11 ...")'
	@echo "Creating .venv"
	@$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/pip pyproject.toml constraints.txt
	@echo "Installing promask into .venv (a few minutes, once)"
	@$(INSTALL) --editable '.[brain,radial,studio]'
	@touch $@

.venv/developer: .venv/installed
	@echo "Installing the test and lint tools into .venv (once)"
	@$(INSTALL) --editable '.[dev]'
	@touch $@
