# The two commands that matter: make demo, make test. Both set up what they need.
#
# Set-up is kept in stamps, so that a second call only checks Python and Java. Settings (DWH_..., JAVA_HOME) come from the
# environment; PYTHON=... chooses another Python 3.11.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

IS_3_11 := -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null
BIN := .venv/bin
FIND_PYTHON = $(shell for p in python3.11 python3; do $$p $(IS_3_11) && { echo $$p; break; }; done)
PYTHON ?= $(if $(wildcard $(BIN)/pip),$(BIN)/python,$(FIND_PYTHON))
PIP := .venv/bin/pip install --quiet --disable-pip-version-check --no-deps
PACKAGES := .venv/.packages-done
SPARK := .jars/.spark-done

# A copy of the project in a temporary folder is there to be tried, so its lake may be there too.
RUN := DWH_ALLOW_TEMPORARY=1
# dg wants the project's environment to be the active one; the warning is about a class of dagster-spark that we do not use.
DG := VIRTUAL_ENV="$(CURDIR)/.venv" PYTHONWARNINGS='ignore:Class `SparkDeclarativePipeline' $(BIN)/dg

.PHONY: help setup demo test kills ui check lock clean python java

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s%s\n", $$1, $$2}' Makefile

setup: $(SPARK) ## .venv from requirements.lock, the Delta jars, the self-test of Spark

demo: setup ## load data/landing into .lake, print what the loads did and the revenue
	@$(RUN) DWH_FAST_START=1 $(BIN)/dwh run --timings

test: setup check ## linters, types, import rules, definitions, all tests
	@DAGSTER_DISABLE_TELEMETRY=1 $(DG) check defs
	@$(BIN)/pytest

kills: setup ## kill ten real runs at random points, then compare with a clean one (some minutes)
	@$(BIN)/pytest -m slow

check: setup ## linters, types and import rules alone
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

ui: setup ## Dagster's web page on the same lake; end it with Ctrl-C
	@mkdir -p .dagster && printf '%s\n' 'telemetry: {enabled: false}' 'nux: {enabled: false}' \
		'python_logs: {python_log_level: INFO, managed_python_loggers: [dwh_pipeline]}' > .dagster/dagster.yaml
	@$(RUN) DAGSTER_HOME="$(CURDIR)/.dagster" $(DG) dev

lock: | python ## write requirements.lock anew from pyproject.toml, keeping versions that still fit
	@$(PYTHON) -m venv .lock && .lock/bin/pip install --quiet --disable-pip-version-check uv
	@.lock/bin/uv pip compile --quiet --no-strip-extras --generate-hashes --no-header --no-annotate --extra dev \
		--python .lock/bin/python --output-file requirements.lock pyproject.toml
	@rm -rf .lock

clean: ## remove all that these targets made, the lake too
	@rm -rf .venv .jars .lake .dagster .lock .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(PACKAGES): requirements.lock pyproject.toml | python java
	@echo "Python packages: installing (some minutes the first time)"
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	@$(PIP) --require-hashes -r requirements.lock
	@$(PIP) --no-build-isolation -e .
	@touch $@

$(SPARK): $(PACKAGES) dwh_pipeline/lake/jars.py dwh_pipeline/lake/setup.py | python java
	@echo "Spark: fetching the Delta jars, then a self-test (about a minute)"
	@$(BIN)/python -m dwh_pipeline.lake.setup
	@mkdir -p $(@D) && touch $@

python:
	@$(or $(PYTHON),false) $(IS_3_11) || { \
		echo "Python 3.11 is needed, but $(if $(PYTHON),$(PYTHON) is not,neither python3.11 nor python3 on PATH is) one;" \
			"install it or run: make PYTHON=<path of python3.11>" >&2; exit 1; }

java:
	@found=$$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -nE 's/.*version "(1\.)?([0-9]+).*/\2/p'); \
	case "$$found" in \
		17 | 21) ;; \
		'') echo "Java was not found$${JAVA_HOME:+ in JAVA_HOME=$$JAVA_HOME}; install Java 17 or 21 and put it on PATH" \
			"or set JAVA_HOME to it" >&2; exit 1 ;; \
		*) echo "Java is version $$found, but Spark needs 17 or 21; install it or set JAVA_HOME to it" >&2; exit 1 ;; \
	esac
