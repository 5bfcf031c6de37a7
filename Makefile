# Python 3.11 or newer and make are enough; everything else comes into .venv when a target first needs it.
# Another Python: make PYTHON=/path/to/python3.13 …

PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

VENV := .venv/.installed
FUZZ := .venv/.fuzz
RELEASE := .venv/.release
ACTIONLINT := .venv/.actionlint
TYPESCRIPT := tests/typescript/node_modules/.installed
AXE := tests/axe/node_modules/.installed
# Real agents, where they lie beside the checkout.
AGENTS := ../shared/agents

MAKEFLAGS += --no-print-directory
.NOTPARALLEL:
.PHONY: demo test test-windows check coverage format lock docs pictures agents adopting editors bench bench-quick peers torture fuzz simulate golden test-s3 release conductor clean real-agents browser

demo: $(VENV)
	@.venv/bin/acp-proxy demo

test: $(VENV) $(TYPESCRIPT) $(AXE) real-agents browser
	@.venv/bin/python -m compileall -q -j 0 acp_proxy simulation tests torture || true  # hundreds of processes start from these files
	@find tests -name 'test_*.py' | PYTHONDONTWRITEBYTECODE= xargs -P 2 -n 180 \
		.venv/bin/pytest -q --collect-only >/dev/null || true  # else each worker compiles all of them for itself
	@PYTHONDONTWRITEBYTECODE= .venv/bin/pytest --dist worksteal \
		-n $$(.venv/bin/python -c 'import os; print((os.cpu_count() or 1) * 2)')  # some tests mostly wait

# Tests, the demo and a short torture on Windows' own Python, under Wine; installs them as root: make test-windows [TESTS=tests/relay]
test-windows: $(VENV) $(TYPESCRIPT)
	@.venv/bin/python -m scripts.windows $(TESTS)

check: $(VENV) $(ACTIONLINT)
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/pytest -q tests/test_layers.py
	@if [ -x .venv/bin/actionlint ]; then echo .venv/bin/actionlint; .venv/bin/actionlint; else \
		echo 'notice: actionlint could not be installed (.venv/actionlint.log); the workflows are not checked' >&2; fi
	scripts/check-wheel .venv/bin/python

# Which lines the tests run, also in child processes: make coverage [TESTS=tests/cli]
# A few tests of imports and of time fail while this measures.
coverage: $(VENV)
	@rm -rf .coverage && mkdir .coverage
	@.venv/bin/coverage run -m pytest -q $(TESTS) || true
	@.venv/bin/coverage combine -q && .venv/bin/coverage report --skip-covered --show-missing

format: $(VENV)
	.venv/bin/ruff check --fix --exit-zero
	.venv/bin/ruff format

# Takes the newest versions of what pyproject.toml allows into constraints.txt, with uv, for every system and Python.
lock: $(VENV)
	@{ sed '/^[^#]/,$$d' constraints.txt && .venv/bin/uv pip compile --quiet --upgrade --universal --extra dev \
		--no-emit-index-url --no-header --no-annotate pyproject.toml; } >.venv/constraints.txt
	@mv .venv/constraints.txt constraints.txt

docs: $(VENV)
	.venv/bin/python -m scripts.cli_docs
	.venv/bin/python -m scripts.redaction_docs

# Makes the pictures of the README and of docs/: the demo as it runs, commands on a terminal, an exported page in both
# colour schemes and on a phone.
pictures: $(VENV) browser
	@.venv/bin/python -m scripts.pictures

# Measures for minutes, and makes docs/performance-figures.md: make bench [CASE=relay] [ROUNDS=3]
bench: $(VENV) $(TYPESCRIPT) $(if $(filter peers,$(or $(CASE),peers)),peers)
	@.venv/bin/python -m benchmarks $(CASE) $(if $(ROUNDS),--rounds $(ROUNDS))

# Builds what the group peers needs, if cargo is there; without it, the others are measured.
peers: | $(VENV)
	@[ -d .venv/conductor ] || echo 'building the official conductor, once, for minutes (.venv/conductor.log)' >&2
	@$(MAKE) conductor >.venv/conductor.log 2>&1 || \
		echo 'notice: there is no conductor (.venv/conductor.log); the others are measured without it' >&2

# The main ratios beside those that were kept last, in under a minute.
bench-quick: $(VENV)
	@.venv/bin/python -m benchmarks --quick $(CASE)

# Breaks things for minutes, and makes docs/reliability-figures.md: make torture [CASE=crash] [SHORT=1] [SEED=7]
# The soak lasts two minutes, or as long as you say: make torture CASE=soak MINUTES=60
torture: $(VENV)
	@.venv/bin/python -m torture $(CASE) $(if $(SHORT),--short) $(if $(SEED),--seed $(SEED))

# Feeds everything that reads foreign bytes with inputs that look for trouble: make fuzz [TARGET=message] [SECONDS=60]
fuzz: $(FUZZ)
	@.venv/bin/python -m fuzz $(TARGET) $(if $(SECONDS),--seconds $(SECONDS))

# Holds conversations with and without acp-proxy side by side, and makes what fails small: make simulate [SEED=7] [PLANS=2000]
# Again, with everything that happened: make simulate PLAN=simulation/plans/new/seed-7.json
# With agents that add user messages of their own to their replays: make simulate CONTEXT=1
# With real processes, which are really killed (each plan takes seconds): make simulate PLANS=20 PROCESSES=1
simulate: $(VENV)
	@.venv/bin/python -m simulation $(if $(SEED),--seed $(SEED)) $(if $(PLANS),--plans $(PLANS)) $(if $(PLAN),--plan $(PLAN)) \
		$(if $(CONTEXT),--context) $(if $(PROCESSES),--processes)

# Writes anew what tests/golden expects, after a change that is meant to be seen
golden: $(VENV)
	@.venv/bin/python -m tests.golden

# Has sync exchange sessions through a real S3 server, which is killed in the middle; builds that with Go (1.25 or newer),
# once, in about six minutes.
test-s3: $(VENV) .venv/s3/versitygw
	@S3_SERVER=$(CURDIR)/.venv/s3/versitygw .venv/bin/pytest -q tests/tools/sync/on_s3.py tests/tools/sync/test_engines.py \
		tests/tools/sync/test_two_machines.py tests/cli/test_sync.py tests/end_to_end/test_sync.py

.venv/s3/versitygw: | $(VENV)
	@command -v go >/dev/null || { echo 'Go is needed (1.25 or newer)' >&2; exit 1; }
	@GOBIN=$(CURDIR)/.venv/s3 nice -n 19 go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

# Asks every real agent we know, for half an hour, and makes docs/agents.md; installs what is missing (2 GB).
# Only some agents, or only some checks of them, and no page: make agents [ONLY=gemini,vibe] [CHECKS=loads,fork]
agents: $(VENV)
	@PATH="$$PATH:$(CURDIR)/.venv/bin" .venv/bin/python -m scripts.agents_table \
		$(if $(ONLY),--only $(ONLY)) $(if $(CHECKS),--checks $(CHECKS))

# Makes what a release publishes, in dist/ and build/packages/, and tries it on every Python of this machine.
release: $(VENV) $(RELEASE)
	@PATH="$(CURDIR)/.venv/bin:$$PATH" .venv/bin/python -m scripts.release

# Has real agents make sessions alone, adopts those for half an hour, and makes the table in docs/adopt.md.
adopting: $(VENV)
	@PATH="$$PATH:$(CURDIR)/.venv/bin" .venv/bin/python -m scripts.adopting $(if $(ONLY),--only $(ONLY))

# Builds the official conductor of proxy chains with cargo, once, for tests/end_to_end/test_chain.py and `make bench`: minutes.
conductor: .venv/conductor/bin/agent-client-protocol-conductor

.venv/conductor/bin/agent-client-protocol-conductor: | $(VENV)
	@command -v cargo >/dev/null || { echo 'cargo is needed (Rust 1.88 or newer)' >&2; exit 1; }
	@CARGO_TARGET_DIR=.venv/conductor-build nice -n 19 cargo install agent-client-protocol-conductor --version 5.0.0 --locked \
		--root .venv/conductor
	@rm -rf .venv/conductor-build

# Drives real editors in front of real agents, for a quarter of an hour, and makes the table in docs/editors.md. Needs
# root; makes a Debian tree for the editors (560 MB). Only some, and no table: make editors [ONLY=toad] [ON=gemini,vibe]
editors: $(VENV)
	@command -v tmux >/dev/null && command -v mmdebstrap >/dev/null || { [ "$$(id -u)" = 0 ] && { apt-get update && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends tmux mmdebstrap; } \
		>.venv/editors.log 2>&1; } || true
	@PATH="$$PATH:$(CURDIR)/.venv/bin" .venv/bin/python -m scripts.editors \
		$(if $(ONLY),--only $(ONLY)) $(if $(ON),--agents $(ON))

clean:
	rm -rf .venv .coverage .fuzz build dist simulation/plans/new tests/typescript/node_modules tests/axe/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find acp_proxy benchmarks fuzz scripts simulation tests torture -name __pycache__ -prune -exec rm -rf {} +

$(VENV): pyproject.toml constraints.txt
	@$(or $(PYTHON),false) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Python 3.11 or newer is needed$(if $(PYTHON),; $(PYTHON) is not). Name one: make PYTHON=/path/to/python3.11' >&2; exit 1; }
	@echo 'Setting up .venv with $(PYTHON)'
	@$(PYTHON) -m venv .venv
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(FUZZ): pyproject.toml | $(VENV)
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	@touch $@

$(RELEASE): pyproject.toml | $(VENV)
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[release]'
	@touch $@

# Tried once: its installation downloads a program, which not every network allows.
$(ACTIONLINT): pyproject.toml | $(VENV)
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[workflows]' \
		>.venv/actionlint.log 2>&1 || true
	@touch $@

# What only some tests need. They skip themselves, and say so, where it is missing: here a failure is a notice.

$(TYPESCRIPT) $(AXE): %/node_modules/.installed: %/package.json | $(VENV)
	@cd $(<D) && PATH="$(CURDIR)/.venv/bin:$$PATH" npm install --no-package-lock --ignore-scripts --no-audit --no-fund \
		--fetch-retries=1 >"$(CURDIR)/.venv/npm-$(*F).log" 2>&1 && touch node_modules/.installed || \
		echo 'notice: $(*F) could not be installed (.venv/npm-$(*F).log); the tests with it will be skipped' >&2

# For exported pages: a Chromium that is there, or Debian's. Installing a package takes root.
browser: | $(VENV)
	@.venv/bin/python -m scripts.browser || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium; } \
		>.venv/browser.log 2>&1; } || \
		echo 'notice: there is no Chromium, and it could not be installed (.venv/browser.log); tests of exported pages will be skipped' >&2

real-agents: | $(VENV)
	@if [ -x $(AGENTS)/setup ]; then \
		PATH="$$PATH:$(CURDIR)/.venv/bin" $(AGENTS)/setup copilot deepagents opencode pydanticacp pysdk >.venv/agents.log 2>&1 || \
		echo 'notice: not every real agent could be installed (.venv/agents.log); tests with them will be skipped' >&2; fi
