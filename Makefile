# What there is to do with Denyut. `make test` is what CI runs.
#
#   make test     lint, types and every test
#   make lint     ruff: rules and format
#   make types    mypy, strict: the package, and user code against it
#   make model    the model of the protocol, for long: MINUTES=5, SEED=N for the same examples again
#   make demo     the flights demonstration (KEEP=1 leaves it running)
#   make conformance   Celery's own integration suite, with stock tasks and with jobs (over an hour)
#   make bench    throughput and latency, measured here
#   make campaign 10,000 jobs whose processes are killed, counted in PostgreSQL (ARGS="--jobs 1000 --seed 2")
#   make soak     1,000,000 jobs with short retention: memory and keys must stay flat
#   make clean    remove what these made
#
# Everything is installed into .venv; nothing is needed but python3 (3.11 or newer) with venv.
# TESTS="tests/unit/test_keys.py -k tag" narrows `make test` down.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
TESTS  ?=
MINUTES ?= 5
SUITE  := .conformance
ARGS   ?=

.PHONY: model test lint types demo bench conformance campaign soak clean

test: lint types $(SUITE)/newest/prepared
	$(BIN)/python -m pytest $(TESTS)

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test.stamp
	$(BIN)/mypy
	$(BIN)/mypy --strict tests/typing

model: $(VENV)/test.stamp
	$(BIN)/python tests/model/run.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

demo: $(VENV)/demo.stamp
	$(BIN)/python examples/flights/demo.py $(if $(filter 1,$(KEEP)),--keep)

conformance: $(VENV)/test.stamp
	$(BIN)/python tests/conformance/run.py

# A selection of Celery's suite is part of the tests; it runs in an environment of its own.
$(SUITE)/newest/prepared: pyproject.toml | $(VENV)/test.stamp
	$(BIN)/python tests/conformance/run.py --prepare --celery newest
	@touch $@

bench: $(VENV)/test.stamp
	$(BIN)/python tests/bench/run.py

campaign: $(VENV)/test.stamp
	$(BIN)/python tests/campaign/run.py $(ARGS)

soak: $(VENV)/test.stamp
	$(BIN)/python tests/bench/soak.py $(ARGS)

# One stamp for each set of extras: installed again when pyproject.toml has changed since.
$(VENV)/%.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	@touch $@

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) $(SUITE) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
