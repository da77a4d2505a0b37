# Every target sets up what it needs: only Python 3.11+ and make are required.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUNS := $(VENV)/.runs
SITE_TOOLS := $(VENV)/.site-tools
RELEASE_TOOLS := $(VENV)/.release-tools
COMPILED := $(VENV)/.compiled
QUIETLY := --quiet --disable-pip-version-check --no-compile
# with it set, each process would compile all its imports again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup test quick quick-unit coverage coverage-unit coverage-conformance house lint types contracts unit browser redis derive docs dist screenshots test-kills test-long test-zones test-pgbouncer chaos sim attack mutants lock audit licences run story peers bench soak bench-scale clean help

help: ## show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(READY) ## create .venv with the package and its development tools

NEW_ENOUGH = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "Duebook needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }

$(READY): pyproject.toml constraints.txt requirements-dev.txt
	@$(NEW_ENOUGH)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(QUIETLY) --require-hashes --no-deps -r requirements-dev.txt
	$(BIN)/python -m pip install $(QUIETLY) --no-build-isolation --no-deps -e .
	$(BIN)/python -m compileall -q src
	@touch $@

# the runtime dependencies install in a few seconds; make setup adds the test tools
$(RUNS): pyproject.toml constraints.txt requirements.txt
	@$(NEW_ENOUGH)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(QUIETLY) --require-hashes --no-deps -r requirements.txt
	$(BIN)/python -m pip install $(QUIETLY) --no-build-isolation --no-deps -e .
	@touch $@

# types and contracts are checked in parallel with the tests, many of which wait
test: lint ## everything: lint, types, contracts, the whole test suite
	@$(MAKE) --no-print-directory -j3 types contracts unit

quick: lint ## for every save: lint, types, contracts and the unit tests
	@$(MAKE) --no-print-directory -j2 types contracts quick-unit

quick-unit: $(READY)
	$(BIN)/python -m pytest -n 2 -q --dist worksteal tests/unit -m "not lengthy and not long and not zones"

# one process each; timing tests may fail under a tracer, so only make test decides on failures
coverage: $(READY) ## which lines the unit and conformance tests run; fails below the floor in pyproject.toml
	$(BIN)/coverage erase
	-@$(MAKE) --no-print-directory -j2 coverage-unit coverage-conformance
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered

coverage-unit coverage-conformance: coverage-%:
	-$(BIN)/coverage run -m pytest -q -p no:xdist tests/$* -m "not lengthy and not long and not zones"

house: $(READY) ## how large the code is, and what exceeds its limits
	$(BIN)/python -m tools.house

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

contracts: $(READY)
	$(BIN)/lint-imports

# make runs targets in parallel, and one apt-get does not wait for another
APT_INSTALL := flock Makefile sh -c 'apt-get update --quiet; RUNLEVEL=1 apt-get install --quiet --yes -o DPkg::Lock::Timeout=120 "$$@"' apt

# the chromium without a window needs half the processor time
HEADLESS := chromium-headless-shell
browser:
	@[ "$$DUEBOOK_NO_BROWSER" = 1 ] || command -v $(HEADLESS) >/dev/null || command -v chromium >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && { $(APT_INSTALL) $(HEADLESS) || $(APT_INSTALL) chromium; }; } || \
		{ echo "chromium is not installed; on Debian: sudo apt-get install $(HEADLESS), or DUEBOOK_NO_BROWSER=1"; exit 1; }

redis:
	@[ "$$DUEBOOK_NO_REDIS" = 1 ] || command -v redis-server >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && $(APT_INSTALL) redis-server; } || \
		{ echo "redis-server is not installed; on Debian: sudo apt-get install redis-server, or DUEBOOK_NO_REDIS=1"; exit 1; }

derive: $(READY) ## regenerate what is derived from the code: types, tables in docs/, docs/reference
	$(BIN)/python -m tools.derive

$(SITE_TOOLS): $(READY)
	$(BIN)/python -m pip install $(QUIETLY) --no-build-isolation -c constraints.txt -e '.[docs]'
	@touch $@

docs: $(SITE_TOOLS) ## build the documentation site into site/
	@$(BIN)/python -m tools.build_site

$(RELEASE_TOOLS): $(READY)
	$(BIN)/python -m pip install $(QUIETLY) --no-build-isolation -c constraints.txt -e '.[release]'
	@touch $@

dist: $(RELEASE_TOOLS) ## build wheel, sdist, SBOM and checksums into dist/, and try the wheel in a clean environment
	@$(BIN)/python -m tools.build_release

screenshots: $(READY) browser ## retake the screenshots of the dashboard in docs/images
	$(BIN)/python -m tests.browser.screenshots

# compiles changed files first, which otherwise each of the test processes would compile
$(COMPILED): $(READY) $(shell find src tests examples -name '*.py')
	@$(BIN)/python -m pytest --collect-only -q >/dev/null || true
	@touch $@

unit: $(READY) browser redis $(COMPILED)
	$(BIN)/python -m pytest -n 6 --dist worksteal

test-kills: $(READY) redis ## kill 200 workers that transfer money, and nodes at every point of their work
	$(BIN)/python -m pytest -n 2 -m kills tests/examples tests/chaos tests/celery_workers

test-long: $(READY) browser redis ## what is too slow for make test: all random examples, long storms, pages without script
	DUEBOOK_TEST_EXAMPLES=all $(BIN)/python -m pytest -n 2 tests \
		-m "(long or hypothesis) and not kills and not pgbouncer and not zones"

test-zones: $(READY) ## the long proof: all IANA zones, 2000 to 2050
	$(BIN)/python -m pytest -n 2 -m zones tests/zones

test-pgbouncer: $(READY) ## the stores and nodes through PgBouncer, which is installed with apt if run as root
	@PATH="$$PATH:/usr/sbin" command -v pgbouncer >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && $(APT_INSTALL) pgbouncer; } || \
		{ echo "PgBouncer is not installed; on Debian: sudo apt-get install pgbouncer"; exit 1; }
	DUEBOOK_TEST_PGBOUNCER=1 $(BIN)/python -m pytest -n 2 -m "not zones" tests/pgbouncer tests/conformance

chaos: $(READY) ## a long storm of faults over a fleet on PostgreSQL: SEED=… repeats one, MINUTES=10 or HOURS=2
	-@PATH="$$PATH:/usr/sbin" command -v pgbouncer >/dev/null || [ "$$(id -u)" != 0 ] || $(APT_INSTALL) pgbouncer
	@SEED="$(SEED)" MINUTES="$(MINUTES)" HOURS="$(HOURS)" $(BIN)/python -m tests.chaos

sim: $(READY) ## simulate nodes, clocks and faults from seeds, and check invariants: HOURS=1 or CLUSTER_DAYS=1, SEED=1
	@HOURS="$(HOURS)" CLUSTER_DAYS="$(CLUSTER_DAYS)" SEED="$(SEED)" PYTHONHASHSEED=0 $(BIN)/python -m tests.sim

attack: $(READY) ## run every attack in its long form on both databases, and print counts: SECONDS_EACH=20
	@SECONDS_EACH="$(SECONDS_EACH)" $(BIN)/python -m tests.attack

mutants: $(READY) ## insert deliberate faults one at a time in a copy, and list those that tests miss: NAMES=… picks some
	@$(BIN)/python -m tools.mutants $(NAMES)

lock: $(READY) ## regenerate requirements*.txt: the pins of constraints.txt with their hashes
	$(BIN)/python -m tools.lock

audit: $(READY) ## check the pinned versions for known vulnerabilities, if advisories can be reached
	@$(BIN)/python -m tools.audit

licences: $(READY) ## regenerate docs/licences.md
	$(BIN)/python -m tools.licences

run: $(if $(wildcard $(READY)),$(READY),$(RUNS)) ## start a node with the samples of examples/; Ctrl-C stops it
	@PATH="$(CURDIR)/$(BIN):$$PATH" examples/add_samples.sh
	@$(BIN)/duebook up

story: $(READY) ## three nodes write events and one is killed; Kafka and a table receive every event
	@$(BIN)/python -m examples.event_story

# peers that cannot be installed are skipped
peers: $(READY)
	@$(BIN)/python -m bench.environments

bench: peers ## compare with peers, store bench/results, write docs/benchmarks.md: ONLY="due speeds", QUICK=1
	-@$(MAKE) --no-print-directory redis
	@$(BIN)/python -m bench $(if $(QUICK),--quick) $(ONLY)

soak: $(READY) ## nodes under a steady load on PostgreSQL; fails if anything grows: MINUTES=30 RATE=1000
	@$(BIN)/python -m bench.soak $(if $(MINUTES),--minutes $(MINUTES)) $(if $(RATE),--rate $(RATE))

bench-scale: $(READY) ## time a tick with 10 million schedules, and a claim with 50 million runs: SCHEDULES=… FINISHED=…
	@$(BIN)/python -m bench.scale $(if $(SCHEDULES),--schedules $(SCHEDULES)) \
		$(if $(FINISHED),--finished $(FINISHED))

clean: ## remove .venv and caches
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
