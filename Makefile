# Needs only make and a python3 (3.11 or newer) with its venv module. Everything else goes into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VLLM_VENV := .venv-vllm
VLLM_INSTALL_S := 900
VLLM_TEST = $(abspath $(VLLM_VENV))/bin/python -m pytest -q --confcutdir=.
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help test test-vllm demo lint fmt bench-quick soak lock clean

help:
	@echo "make test         create .venv if needed, then check everything"
	@echo "make test-vllm    the tests of the plug-in for vLLM, in .venv-vllm, where vLLM can be installed"
	@echo "make demo         create .venv if needed, then run headway demo"
	@echo "make lint         the quick checks: format, lint, imports, types, tidiness, unit tests"
	@echo "make fmt          format the code and mend what ruff can mend"
	@echo "make bench-quick  the benchmarks in their short form"
	@echo "make soak         a server under everything at once for half an hour"
	@echo "make lock         pin anew every package in constraints.txt"
	@echo "make clean        remove the environments and all that the tools leave behind"

test: $(VENV)/.stamp-dev
	$(BIN)/python tools/check.py all

# vLLM for CPUs wants one exact build of torch, which is not to be had everywhere. Where it cannot be installed the tests
# are skipped, and say so; where it can they must pass. What fails is run once more, as tools/check.py does.
test-vllm:
	@if timeout $(VLLM_INSTALL_S) $(MAKE) --no-print-directory $(VLLM_VENV)/.stamp; then \
	  cd tests/vllm && { $(VLLM_TEST) || { [ $$? = 1 ] && $(VLLM_TEST) --last-failed; }; }; \
	else \
	  echo "skipped: vLLM for CPUs could not be installed within $(VLLM_INSTALL_S) s; its tests were not run"; \
	fi

demo: $(VENV)/.stamp-demo
	$(BIN)/headway demo

lint: $(VENV)/.stamp-dev
	$(BIN)/python tools/check.py fast

fmt: $(VENV)/.stamp-dev
	$(BIN)/python -m ruff format .
	$(BIN)/python -m ruff check --fix .

bench-quick: $(VENV)/.stamp-dev
	@for name in values kernel simulator memory executor_roundtrip overload; do \
	  echo "== $$name"; $(BIN)/python benchmarks/$$name.py --quick || exit 1; \
	done

soak: $(VENV)/.stamp-dev
	$(BIN)/python benchmarks/soak.py

# A stamp says: .venv holds this extra, as pyproject.toml and constraints.txt ask for it today.
$(VENV)/.stamp-%: pyproject.toml constraints.txt
	@$(call ensure_venv,$(VENV))
	@echo "installing headway[$*] into $(VENV)"
	@$(PIP) install --no-compile -c constraints.txt -e '.[$*]'
	@touch $@

# torchvision and its like are built for CUDA and keep vLLM from being imported; triton is a gigabyte that CPUs do not use.
$(VLLM_VENV)/.stamp: tests/vllm/requirements.txt
	@$(call ensure_venv,$(VLLM_VENV))
	@echo "installing vLLM into $(VLLM_VENV), which takes minutes"
	@$(VLLM_VENV)/bin/python -m pip --disable-pip-version-check --quiet install --no-compile -r $<
	@$(VLLM_VENV)/bin/python -m pip --quiet uninstall -y torchvision torchaudio torchcodec triton
	@VLLM_NO_USAGE_STATS=1 $(VLLM_VENV)/bin/python -c "import vllm.v1.core.sched.scheduler"
	@touch $@

# Kept between runs, although make sees it as a step on the way.
.PRECIOUS: $(VENV)/.stamp-%

# The environment is resolved from nothing, so that the pins are what a newcomer would get today.
lock:
	@rm -rf $(VENV)/lock
	@$(call ensure_venv,$(VENV)/lock)
	@$(VENV)/lock/bin/python -m pip --disable-pip-version-check --quiet install -e '.[dev,demo,browser]'
	@{ \
	  echo "# Exact versions of all that the dev, demo and browser environments hold. Regenerate with: make lock"; \
	  echo "# torch is absent on purpose: which build is right depends on the machine's accelerator."; \
	  $(VENV)/lock/bin/python -m pip --disable-pip-version-check freeze --exclude-editable; \
	} > constraints.txt.new
	@mv constraints.txt.new constraints.txt
	@rm -rf $(VENV)/lock
	@echo "constraints.txt written"

clean:
	rm -rf $(VENV) $(VLLM_VENV) build dist htmlcov .coverage coverage-report.json .hypothesis .import_linter_cache
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find src tests tools benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# $(1) is the environment's folder. An environment with a working pip is taken as it is.
define ensure_venv
if ! $(1)/bin/python -m pip --version >/dev/null 2>&1; then \
  command -v $(PYTHON) >/dev/null 2>&1 || { \
    echo "error: \`$(PYTHON)\` was not found; hint: install Python 3.11 or newer, or make PYTHON=/path/to/python" >&2; \
    exit 1; }; \
  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
    echo "error: headway needs Python 3.11 or newer, \`$(PYTHON)\` is" \
      "$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])');" \
      "hint: make PYTHON=python3.12" >&2; \
    exit 1; }; \
  echo "creating $(1)"; \
  $(PYTHON) -m venv $(1) || { \
    echo "error: \`$(PYTHON) -m venv\` failed; hint: on Debian and Ubuntu, apt install python3-venv" >&2; \
    exit 1; }; \
fi
endef
