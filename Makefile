# make run: train and compare on built-in data. make test: tests, types, lint, docs. Both set up .venv first.
PYTHON ?= python3
IN := .venv/bin/python -m

.PHONY: run test check docs clean

run: .venv/ready
	$(IN) turbosvm compare fedavg fedavgm turbosvm

test: .venv/ready check
	@# Two workers with one thread each: with two threads each they would wait for one another.
	OMP_NUM_THREADS=1 $(IN) pytest -n 2

check: .venv/ready
	$(IN) ruff check .
	$(IN) ruff format --check .
	$(IN) mypy
	.venv/bin/python -c "from importlinter.cli import lint_imports_command as lint; lint()"
	NO_MKDOCS_2_WARNING=1 $(IN) mkdocs build --strict

docs: .venv/ready
	NO_MKDOCS_2_WARNING=1 $(IN) mkdocs serve

# Made once, and again when the dependencies change. The package itself is installed in place, so edits need no step.
.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(v < (3, 11) and f"Python 3.11 or newer is needed, this is {v[0]}.{v[1]}; try: make PYTHON=python3.11")'
	@echo 'Setting up .venv: this takes some minutes, once.'
	$(PYTHON) -m venv .venv
	$(IN) pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	@touch $@

clean:
	rm -rf .venv site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
