# Everything a contributor or a newcomer does here is one of these verbs; `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help setup check fix test campaigns demo bench proofs simulate torture durability fuzz audit clean

VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.stamp-run
DEV_STAMP := $(VENV)/.stamp-dev
BENCH_STAMP := $(VENV)/.stamp-bench
FUZZ_STAMP := $(VENV)/.stamp-fuzz
CHECKED := $(wildcard src tests tools benchmarks examples proofs fuzz)

# The first interpreter that is new enough and can make a virtual environment.
PROBE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
FIND_PYTHON = $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,\
	$(shell $(name) -c '$(PROBE)' >/dev/null 2>&1 && echo $(name))))
PIP = $(BIN)/python -m pip install -qq --disable-pip-version-check

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(DEV_STAMP) ## Make .venv with the package and all development tools

check: $(DEV_STAMP) ## Lint, format, types, import direction, house rules
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy $(CHECKED)
	@$(BIN)/pyright --pythonpath $(BIN)/python
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python tools/check_house.py

fix: $(DEV_STAMP) ## Format, and repair what can be repaired by machine
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

# Half of the time tests wait, for a lease or for a server that is away: three keep two cores busy.
test: $(DEV_STAMP) ## Run all tests but campaigns; ARGS="tests/model -x" for some
	@$(BIN)/pytest -q -n 3 --dist worksteal -m "not campaign" $(ARGS)

campaigns: $(DEV_STAMP) ## Run a short torture campaign on each store, about a minute each; ARGS="-k sqlite" for one
	@$(BIN)/pytest -q -m campaign tests/torture $(ARGS)

demo: $(RUN_STAMP) ## Watch workers crash and the work get done (about 30 s, SQLite, no server)
	@$(BIN)/holdfast demo $(ARGS)

bench: $(BENCH_STAMP) ## Measure throughput and latency against peers and the raw engine
	@$(BIN)/python -m benchmarks $(ARGS)

proofs: $(DEV_STAMP) ## Search the models of the protocols whole (needs spin and gcc)
	@$(BIN)/python -m proofs

simulate: $(DEV_STAMP) ## Look for a seed that breaks a promise; ARGS="--seeds 5000"
	@$(BIN)/python -m holdfast.testing.simulation $(ARGS)

torture: $(DEV_STAMP) ## Kill, freeze and cut off processes at work for two minutes; ARGS="--store postgresql:"
	@$(BIN)/holdfast torture --jobs 30000 --seconds 120 $(ARGS)

durability: $(DEV_STAMP) ## Measure what each store keeps when power or its server is lost (about ten minutes)
	@$(BIN)/python -m tests.durability $(ARGS)

fuzz: $(FUZZ_STAMP) ## Throw bytes at every parser; ARGS="--seconds 600 requests" for one, longer
	@$(BIN)/python -m fuzz $(ARGS)

# URLs with user and password, and settings called so, are what examples and tests are about.
audit: $(DEV_STAMP) ## Look for unsafe calls (bandit) and for secrets that were committed (detect-secrets)
	@$(BIN)/bandit --quiet --recursive --configfile pyproject.toml src
	@git ls-files -z | xargs -0 $(BIN)/detect-secrets-hook \
		--disable-plugin BasicAuthDetector --disable-plugin KeywordDetector

clean: ## Delete .venv, caches and build results
	@rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUN_STAMP): pyproject.toml
	@echo "Setting up Holdfast in $(VENV) (half a minute, once) ..."
	@$(MAKE) --silent --no-print-directory $(BIN)/python
	@$(PIP) --editable .
	@touch $@

$(DEV_STAMP): pyproject.toml
	@echo "Setting up Holdfast and its development tools in $(VENV) (about a minute, once) ..."
	@$(MAKE) --silent --no-print-directory $(BIN)/python
	@$(PIP) --editable '.[dev]'
	@touch $(RUN_STAMP) $@

$(BENCH_STAMP): $(DEV_STAMP)
	@$(PIP) --editable '.[bench]'
	@touch $@

$(FUZZ_STAMP): $(DEV_STAMP)
	@$(PIP) --editable '.[fuzz]'
	@touch $@

$(BIN)/python:
	@python='$(FIND_PYTHON)'; \
	if [ -z "$$python" ]; then \
		echo "Holdfast needs Python 3.11 or newer with the venv module; none of python3, python3.11 ... python3.14 is." >&2; \
		exit 1; \
	fi; \
	"$$python" -m venv $(VENV)
