# `make help` lists what there is.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
FUZZ_SECONDS ?= 600
BIN = $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test crash proofs processes load peers fuzz bench docs lint format clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.runs ## Watch four nodes being deployed, the service killed and started again
	$(BIN)/deploysteps demo

test: $(VENV)/.tests ## Run the test suite and measure its coverage
	$(BIN)/pytest -n $(WORKERS) -m "not crash and not load and not docs and not proof and not peers and not process" --cov --cov-report=term

crash: $(VENV)/.tests ## Kill a real process between every two SQL statements, on every database
	$(BIN)/pytest -n $(WORKERS) -m crash tests/crash

proofs: $(VENV)/.tests ## Walk all states, race, and upgrade with two real processes
	$(BIN)/pytest -n $(WORKERS) -m proof

processes: $(VENV)/.tests ## Run the service as a process: kill it, stream, send webhooks, use its commands
	$(BIN)/pytest -n $(WORKERS) -m process tests/service tests/agent

load: $(VENV)/.tests ## Put fifty agents and four polled machines on one service with SQLite
	$(BIN)/pytest -m load -s tests/load

peers: $(VENV)/.tests ## Let the real openstack command, openstacksdk and agents work against it
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -m peers tests/peers

fuzz: $(VENV)/.tests ## Let schemathesis look for undeclared answers, for FUZZ_SECONDS
	DEPLOYSTEPS_FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/pytest -s -m peers tests/peers/test_schemathesis.py

bench: $(VENV)/.tests ## Measure engines (Ironic, DBOS, TaskFlow, the floor) and services over HTTP
	$(BIN)/python -m benchmarks

docs: $(VENV)/.tests ## Build the documentation into doc/_build/html and run its examples
	$(BIN)/sphinx-build -W -n --keep-going -q -b html doc doc/_build/html
	$(BIN)/pytest -n $(WORKERS) -m docs tests/docs

lint: $(VENV)/.tests ## Check style, types and which room imports which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.tests ## Put the code in the house's form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove what make and the tests made
	rm -rf $(VENV) .peers build dist doc/_build *.egg-info examples/rackserver/*.egg-info .coverage .coverage.* \
		.hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

# A stamp is older than what it was made from, or the environment is as it was.
$(VENV)/.runs: setup.cfg pyproject.toml examples/rackserver/pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e . -e examples/rackserver
	touch $@

$(VENV)/.tests: $(VENV)/.runs
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@
