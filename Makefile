# Every target works from a clean clone and prints what it runs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
T ?= tests
K ?=

.PHONY: help dev take test lint fix bench bench-launch bench-import bench-store bench-kill bench-incidents compat-age
.PHONY: golden docs docs-check startup dist clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(STAMP): pyproject.toml envsnap/_version.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable .
	$(BIN)/python -m pip install --quiet --group dev
	$(BIN)/python -m compileall -q envsnap
	touch $(STAMP)

dev: $(STAMP) ## Make the virtual environment with everything in it

take: $(STAMP) ## Take a snapshot of this machine into snapshots/
	$(BIN)/envsnap take

test: $(STAMP) ## Run the tests (T=path, K=expression)
	$(BIN)/python -m pytest -n auto $(T) $(if $(K),-k "$(K)")

lint: $(STAMP) ## Formatter, linter, types, layers, spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/typos

fix: $(STAMP) ## Let the formatter and the linter mend what they can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## Compare speed with peers in the same run (docs/performance.md says how)
	$(BIN)/python benchmarks/speed.py $(BENCH)

bench-incidents: $(STAMP) ## How often the likely cause is the true one (DIR=path, SEEDS=n)
	$(BIN)/python benchmarks/incidents.py $(if $(DIR),--dir $(DIR)) $(if $(SEEDS),--seeds $(SEEDS))

compat-age: $(STAMP) ## List rows of the compatibility tables that were checked long ago
	$(BIN)/python -m envsnap.compat.age

bench-launch: $(STAMP) ## Throughput of a command under `envsnap run`, beside the bare command
	$(BIN)/python benchmarks/launch_speed.py

bench-import: $(STAMP) ## Speed and memory of reading long logs and hostile texts (SIZE_MB=300)
	$(BIN)/python benchmarks/import_speed.py

bench-store: $(STAMP) ## What log, diff and completion cost in a store of 100,000 snapshots (2 GB)
	$(BIN)/python benchmarks/store_speed.py $(BENCH)

bench-kill: $(STAMP) ## Kill envsnap or the command 500 times and look what was lost
	$(BIN)/python benchmarks/kill_launches.py

startup: $(STAMP) ## Gate instruction counts of the hot commands (callgrind, where valgrind is there)
	$(BIN)/python benchmarks/startup.py

golden: $(STAMP) ## Write the expected outputs of the tests anew and show what changed
	UPDATE_GOLDEN=1 $(BIN)/python -m pytest -q tests/golden
	git --no-pager diff --stat -- tests/golden

docs: $(STAMP) ## Write the generated pages anew: schema, JSON Schema, command line
	$(BIN)/python docs/generate.py

docs-check: $(STAMP) ## Fail where a generated page is stale
	$(BIN)/python docs/generate.py --check

dist: $(STAMP) ## Build wheel, sdist and a zipapp into dist/
	$(BIN)/python -m pip install --quiet build shiv
	$(BIN)/python -m build --outdir dist .
	$(BIN)/shiv --quiet --compressed --console-script envsnap --python "/usr/bin/env python3" --output-file dist/envsnap.pyz .

clean: ## Remove what the targets made
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
