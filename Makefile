# Commands for working on lm_datafusion; `make help` lists them.
#
# The first command that needs Python packages makes a virtual environment in .venv. It is
# brought up to date, and kernels are compiled again, when pyproject.toml, setup.py or a source of
# the kernels changes. PYTHON= names another Python to make it with, CC= another C compiler.

PYTHON ?= python3
WORKERS ?= 2
ROWS ?= 500000
CASES ?= 20000
MINUTES ?= 30
SEED ?=
ARGS ?=

VENV := .venv
RUN := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
KERNELS := $(wildcard $(addprefix lm_datafusion/kernels/,*.pyx *.pxd *.pxi *.h))
DEMO := data/demo_$(ROWS)
BENCHMARKS := $(subst /,.,$(basename $(sort $(wildcard tests/benchmark/bench_*.py))))

.DEFAULT_GOAL := help
.PHONY: help demo test check fuzz mutate soak sanitize suites bench wheel clean
.DELETE_ON_ERROR:

help: ## List these commands
	@echo "Usage: make COMMAND [NAME=value]"
	@sed -n 's/^\([a-z][a-z]*\):.*## \(.*\)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) \
		| while IFS='|' read -r name text; do printf '  %-8s %s\n' "$$name" "$$text"; done

demo: $(INSTALLED) ## Make ClickBench data, run its 43 queries, report (ROWS=1m, ARGS="--repeat 9 --fresh")
	@$(RUN) -m clickbench generate --rows $(ROWS) --out $(DEMO)
	@$(RUN) -m clickbench run --data $(DEMO) --out $(DEMO).json --engines datafusion,lm $(ARGS)
	@$(RUN) -m clickbench report $(DEMO).json --html $(DEMO).html

test: $(INSTALLED) ## Run the tests (ARGS="-k bloom", WORKERS=4)
	@$(RUN) -m pytest -n $(WORKERS) $(ARGS)

check: $(INSTALLED) ## Lint, formatting and types
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy

fuzz: $(INSTALLED) ## Compare random queries on random files with DataFusion (CASES=20000 SEED=1)
	@$(RUN) -m tests.property.fuzz --cases $(CASES) $(if $(SEED),--seed $(SEED)) $(ARGS)

mutate: $(INSTALLED) ## Scan damaged files, beside three other readers (CASES=100000 SEED=1)
	@$(RUN) -m tests.property.damage --cases $(CASES) $(if $(SEED),--seed $(SEED)) \
		--workers $(WORKERS) $(ARGS)

soak: $(INSTALLED) ## Statements from many threads while files change (MINUTES=30 SEED=1)
	@$(RUN) -m tests.soak.run --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

# The kernels with sanitizers, and a copy of the package around them. Arrow, Python and numpy have to
# ask the C library for memory, or nobody sees who leaves it.
SANITIZED := build/sanitize
CC ?= cc
PRELOAD = $(foreach name,asan ubsan stdc++,$(shell $(CC) -print-file-name=lib$(name).so))

sanitize: $(INSTALLED) ## Damaged pages for kernels built with sanitizers (CASES=100000 SEED=1)
	@LM_DATAFUSION_SANITIZE=address,undefined LM_DATAFUSION_BUILD_DIR=$(SANITIZED)/c \
		$(RUN) setup.py --quiet build --build-base $(SANITIZED) --build-lib $(SANITIZED)/lib
	@LD_PRELOAD="$(PRELOAD)" ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
		UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
		ARROW_DEFAULT_MEMORY_POOL=system PYTHONMALLOC=malloc PYTHONPATH=$(SANITIZED)/lib:. \
		$(RUN) -P -m tests.property.mutations --sanitized --cases $(CASES) \
		$(if $(SEED),--seed $(SEED)) $(ARGS)

suites: $(INSTALLED) ## Run SLT_FILES, and SUITE_QUERIES over SUITE_DATA, beside DataFusion (WORKERS=2)
	@test -n "$(SLT_FILES)$(SUITE_QUERIES)" || { echo "SLT_FILES=, or SUITE_DATA= and SUITE_QUERIES=, name folders" >&2; exit 2; }
	@test -z "$(SLT_FILES)" || $(RUN) -m tests.suites.slt --files "$(SLT_FILES)" \
		$(if $(SLT_ROOT),--root "$(SLT_ROOT)") --workers $(WORKERS) $(ARGS)
	@test -z "$(SUITE_QUERIES)" || $(RUN) -m tests.suites.queries --data "$(SUITE_DATA)" \
		--queries "$(SUITE_QUERIES)" $(ARGS)

bench: $(INSTALLED) ## Run every script of tests/benchmark
	@set -e; for name in $(BENCHMARKS); do echo "== $$name"; $(RUN) -m $$name; done

wheel: $(INSTALLED) ## Build dist/: a source distribution, and from it a wheel
	@rm -rf dist
	@$(RUN) -m build --outdir dist . >$(VENV)/build.log 2>&1 \
		|| { tail -n 15 $(VENV)/build.log >&2; exit 1; }
	@ls dist/*
	@$(RUN) -m zipfile -l dist/*.whl | grep -q '\.so\b\|\.pyd\b' \
		|| echo "The wheel holds no compiled kernels; $(VENV)/build.log says why."

clean: ## Remove the virtual environment, caches, compiled kernels and built packages
	@rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@rm -f $(foreach suffix,so pyd c html,lm_datafusion/kernels/*.$(suffix))
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml setup.py .ci/setup $(KERNELS)
	@PYTHON=$(PYTHON) .ci/setup $(VENV) test,bench,spark,lint,build
	@touch $@
