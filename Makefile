# All development tasks. Needs python3 (3.10+) with venv and pip; targets that use Spark need Java 17+.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# Four processes run the suites in parallel. Tests that start programs spend half of their time waiting, so that two processes
# would leave cores idle. Tests that must not run in parallel form a group (tests/conftest.py): two groups share the Spark session
# of their process, others start programs or servers, run the documentation pages, or use a browser.
SIDE_BY_SIDE := -n 4
FAST_SUITES := tests/unit tests/semantics tests/contract tests/simulation tests/corpus
ALL_SUITES  := $(FAST_SUITES) tests/browser tests/spark tests/integration tests/docs

# Folders that contain Python files (mypy rejects a folder without any).
TYPED := $(foreach d,src tests bench chaos examples tools,$(if $(wildcard $(d)/*.py $(d)/*/*.py),$(d)))

# The web page. Its scripts declare types in comments, which the TypeScript compiler in Deno checks.
PAGE := src/tidemill/ops/web

# Arguments passed on to pytest or to the benchmark: `make test ARGS="-k timers"`.
ARGS ?=

# If the environment disables bytecode caching, each process would compile all Python code again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup lock lint format test test-fast test-python thorough demo screenshots bench chaos docs dist clean check-java

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Create .venv and install the exact versions of requirements.lock

lint: $(STAMP) ## Check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(TYPED)
	DENO_DIR=.cache/deno DENO_NO_UPDATE_CHECK=1 $(BIN)/deno check --quiet --config tools/page-check.json $(PAGE)/static

format: $(STAMP) ## Reformat the code and apply automatic fixes
	$(BIN)/ruff check --fix-only --exit-zero .
	$(BIN)/ruff format .

test: check-java $(STAMP) ## Run every test suite
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(wildcard $(ALL_SUITES)) $(ARGS)

test-fast: $(STAMP) ## Run the suites that need no Spark (and no Java)
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(wildcard $(FAST_SUITES)) $(ARGS)

# Long tests on Spark: drivers, workers and executors killed at every point, brokers, databases, memory over 2 000 epochs.
# Each module here and in FAST_SUITES may run additional cases in thorough mode (tests/thorough.py).
LONG := tests/spark/test_driver_kills.py tests/spark/test_high_availability.py tests/spark/test_worker_kills.py \
    tests/spark/test_worker_lifecycle.py tests/spark/test_semantics.py tests/spark/test_kubernetes.py \
    tests/spark/test_command_line.py tests/spark/test_dataframes.py tests/spark/test_task_attempts.py \
    tests/spark/test_watched_files.py tests/spark/test_power_failure.py tests/spark/test_dependencies.py \
    tests/spark/test_streams_in_object_stores.py tests/spark/test_web_page.py tests/spark/test_standalone_cluster.py \
    tests/spark/test_windows.py tests/docs/test_examples.py \
    tests/integration/test_chaos.py tests/integration/test_chaos_files.py tests/integration/test_chaos_kafka.py \
    tests/integration/test_chaos_postgres.py tests/integration/test_jdbc_contract.py tests/integration/test_jdbc_mariadb.py \
    tests/integration/test_kafka_cluster.py tests/integration/test_kafka_sink.py tests/integration/test_quick_start.py \
    tests/integration/test_elasticsearch_node.py tests/integration/test_rabbitmq.py

# The suites without Spark run all their examples, seeds and schedules: hundreds of random sequences of kills, rescales,
# restarts and savepoints, and random programs compared with a model, for TIDEMILL_FUZZ_SECONDS (600).
thorough: check-java $(STAMP) ## Run the extended tests: every example and seed, processes killed at every point, memory over time
	TIDEMILL_THOROUGH=1 $(BIN)/python -m pytest $(LONG) $(ARGS)
	TIDEMILL_THOROUGH=1 $(BIN)/python -m pytest $(SIDE_BY_SIDE) $(wildcard $(FAST_SUITES)) $(ARGS)

# Another version of Python has an environment of its own, with the packages that requirements.lock names for it.
ENVIRONMENT = .cache/python-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
OTHER_SUITES := tests/unit tests/contract tests/semantics tests/corpus tests/docs/test_examples.py tests/spark/test_examples.py

test-python: check-java ## Run the suites without Spark, and the examples on it, on another Python: PYTHON=python3.12
	@$(MAKE) --no-print-directory setup VENV=$(ENVIRONMENT)
	$(ENVIRONMENT)/bin/python -m pytest $(SIDE_BY_SIDE) $(OTHER_SUITES) $(ARGS)

demo: check-java $(STAMP) ## Watch a fraud detection job survive a killed worker
	$(BIN)/python -m examples.fraud_detection $(ARGS)

screenshots: $(STAMP) ## Retake the screenshots of the web page
	$(BIN)/python -m tools.screenshots

bench: check-java $(STAMP) ## Compare Tidemill with hand-written PySpark (10 000 epochs: python -m bench.soak)
	$(BIN)/python -m bench $(ARGS)

# How long to inject faults, and the seed that determines them.
MINUTES ?= 20
SEED    ?= 1

chaos: check-java $(STAMP) ## Inject random faults into a running job, and compare its results with the expected ones
	$(BIN)/python -m chaos --minutes $(MINUTES) --seed $(SEED) $(ARGS)

lock: $(STAMP) ## Resolve the dependencies again and rewrite requirements.lock
	$(BIN)/uv pip compile pyproject.toml --group dev --all-extras --upgrade \
	    --universal --python-version 3.10 --fork-strategy requires-python \
	    --generate-hashes --no-emit-index-url --no-emit-find-links \
	    --custom-compile-command "make lock" --quiet --output-file requirements.lock

docs: $(STAMP) ## Build the documentation as a site into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet $(ARGS)

dist: $(STAMP) ## Build the wheel and the source distribution into dist/
	$(BIN)/python -m build --no-isolation

clean: ## Remove caches and everything generated, but not .venv
	rm -rf .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist src/*.egg-info spark-warehouse metastore_db derby.log
	find src tests bench chaos examples tools -name __pycache__ -type d -prune -exec rm -rf {} +

# A usable .venv is kept and updated. A missing or broken one, or one with an old Python version, is recreated.
# The build backend is installed first, at its locked version, so that packages published as source are built with it and
# nothing is downloaded that is not in the lock file.
$(STAMP): requirements.lock pyproject.toml
	@: $(if $(PYTHON_PROBLEM),$(error $(PYTHON_PROBLEM)))
	@$(BIN)/python -c '$(SUPPORTED)' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip
	@sed -n '/^setuptools==/,/^    # via/p' requirements.lock > $(VENV)/build.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/build.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-build-isolation -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# Both checks end make with one line that states what to install. Unlike a failing recipe, $(error) prints nothing after it.
SUPPORTED := import sys; sys.exit(sys.version_info < (3, 10))

check-java:
	@: $(if $(JAVA_PROBLEM),$(error $(JAVA_PROBLEM)))

JAVA_PROBLEM   = $(shell tools/check_java.sh 2>&1)
PYTHON_PROBLEM = $(shell $(PYTHON) -c '$(SUPPORTED)' 2>/dev/null || echo "Tidemill needs Python 3.10 or newer, and '$(PYTHON)' is not: install one, or name it with make PYTHON=/path/to/python3")
