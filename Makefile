# chronotile: `make demo` shows it, `make test` proves it; both set everything up themselves.

PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
BUILD   := ksy/_build
READY   := $(VENV)/.ready
READYJS := $(BUILD)/node_modules/.ready
LIGHT   := $(VENV)/.light
NODE     = $(shell .ci/find-node $(BIN))
COMPILE  = $(NODE) $(BUILD)/compile.mjs
RUN      = PYTHONPATH=tests $(BIN)/python -m
# Two cores: tests wait for half of their time, for Spark, for servers, for what is killed.
WORKERS ?= 5
# Tests sync every file that they write, which takes a disk as long as all the rest: memory, where 4 GB of it are free.
SCRATCH  = $(shell [ "$$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 4000000 ] 2>/dev/null \
  && echo /dev/shm || echo "$${TMPDIR:-/tmp}")
# A version of Spark beside the one that is installed.
SPARK    = ([ -d build/spark-$(1)/pyspark ] || $(BIN)/pip install -q --target build/spark-$(1) --no-deps "pyspark==$(1).*")

# Some machines forbid Python to keep what it compiles: then each of hundreds of processes compiles anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo test ksy check-ksy languages sample corpus lint type unit attack fuzz oracle walk-back compact-oracle erase-oracle replicate-race gcs upstream-tests soma bench bench-spark connect spark-versions jars clean

##@ Start
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY) $(READYJS) ## Make .venv with all extras and tools, and the Kaitai compiler

demo: $(LIGHT) ## Put a sample array and dataset into demo/ and walk through the commands on it
	@$(BIN)/chronotile demo

test: install ## Run every check that CI runs
	@$(MAKE) --no-print-directory -j2 --output-sync check-ksy lint type
	@$(MAKE) --no-print-directory unit

##@ Specs
ksy: install ## Compile ksy/ into generated/
	@rm -rf generated/chronotile_ksy && $(COMPILE) python generated/chronotile_ksy && \
	  $(COMPILE) python generated/chronotile_ksy/traced --debug

check-ksy: install ## Fail if generated/ is not what ksy/ compiles to, or a spec is off style or refused by a language
	@$(NODE) $(BUILD)/style.mjs && out=$$(mktemp -d) && $(COMPILE) python $$out && $(COMPILE) python $$out/traced --debug && \
	  diff -ru --exclude=__pycache__ generated/chronotile_ksy $$out && \
	  echo "generated/ is what ksy/ compiles to" && $(NODE) $(BUILD)/targets.mjs $$out/every && rm -rf $$out

languages: install ## Read the corpus in Java, JavaScript and C++ (CPP_RUNTIME=a copy of its runtime)
	@mvn -q dependency:copy -Dartifact=io.kaitai:kaitai-struct-runtime:0.11 \
	  -DoutputDirectory=$(abspath build/languages)
	@CHRONOTILE_NODE="$(NODE)" $(RUN) bench.languages build/languages \
	  $(if $(CPP_RUNTIME),--cpp-runtime $(CPP_RUNTIME))

sample: install ## Rebuild the sample that the package ships, with the engine
	@$(RUN) bench.make_sample

corpus: install ## Rebuild tests/corpus with the engines from PyPI
	@$(BIN)/python tests/corpus/make.py && $(BIN)/python tests/corpus/make_groups.py

##@ Checks
lint: install ## Lint and check the format
	@$(BIN)/ruff check src tests && $(BIN)/ruff format --check src tests

type: install ## Check the types
	@$(BIN)/mypy

unit: install ## Run the tests
	@scratch=$$(mktemp -d -p $(SCRATCH)) && trap 'rm -rf "$$scratch"' EXIT && \
	  TMPDIR=$$scratch CHRONOTILE_NODE="$(NODE)" $(BIN)/pytest -q -n $(WORKERS) --no-loadscope-reorder --max-worker-restart 0

bench-spark: install ## Time the pipeline against the engine on 2,000 arrays (8 GB of disk, 10 minutes)
	@$(RUN) bench.bench_spark
	@$(RUN) bench.bench_spark --commits 20
	@$(RUN) bench.bench_stream
	@$(RUN) bench.bench_fleet_plan
	@$(RUN) bench.bench_large

connect: install ## Run the pipeline on a server of Spark Connect, whose client comes into build/connect
	@$(BIN)/pip install -q --target build/connect --upgrade --no-deps 'pandas<3' pytz tzdata \
	  grpcio grpcio-status googleapis-common-protos protobuf zstandard
	@PYTHONPATH=tests:build/connect $(BIN)/python -m bench.connect

spark-versions: install ## Run the tests on Spark with Spark 4.0, 4.1 and 4.2 (VERSIONS=4.0), which come into build/
	@for version in $(or $(VERSIONS),4.0 4.1 4.2); do $(call SPARK,$$version) && echo "Spark $$version" && \
	  PYTHONPATH=build/spark-$$version $(BIN)/pytest -q -p no:cacheprovider -p no:unraisableexception tests/spark || exit 1; done

jars: install ## Hold the tables to the jars of Delta, Iceberg and hadoop-aws, from Maven Central (1 GB)
	@$(call SPARK,4.1) && PYTHONPATH=tests:build/spark-4.1 $(BIN)/python -m bench.jars build/jars

oracle: install ## Compare 20,000 windows of random histories with the engine, and 20,000 of restored ones
	@$(RUN) bench.oracle --windows 20000
	@$(RUN) bench.restore_oracle --windows 20000

replicate-race: install ## Race the engine and a killed replicator, on a disk and on S3, for SECONDS (60) each
	@$(RUN) bench.replicate_race --seconds $(or $(SECONDS),60)

gcs: install ## Hold the storage of Google to the checks of Azure's, by fake-gcs-server from Go modules
	@[ -x build/gcs/fake-gcs-server ] || \
	  GOBIN=$(abspath build/gcs) go install github.com/fsouza/fake-gcs-server@v1.56.1
	@CHRONOTILE_NODE="$(NODE)" CHRONOTILE_GCS=build/gcs/fake-gcs-server \
	  $(BIN)/pytest -q -p no:cacheprovider tests/unit/storage/test_clouds.py

walk-back: install ## Undo 2,000 random sequences of changes all the way, some of them killed (SEQUENCES=n)
	@$(RUN) bench.walk_back --sequences $(or $(SEQUENCES),2000)

compact-oracle: install ## Compact 300 random arrays and the corpus, judged by the engine; kill it at every step (SEED=n)
	@$(RUN) bench.compact_oracle --histories 300 --seed $(or $(SEED),0)
	@CHRONOTILE_KILLS=1000 $(BIN)/pytest -q -p no:cacheprovider tests/faults/test_compact_crash.py

erase-oracle: install ## Erase a text from 200 random arrays, and look for it; kill it at every step (SEQUENCES=n)
	@$(RUN) bench.erase_oracle --sequences $(or $(SEQUENCES),200)
	@$(RUN) bench.erase_oracle --sequences 10 --s3
	@CHRONOTILE_KILLS=1000 $(BIN)/pytest -q -p no:cacheprovider tests/faults/test_erase_crash.py

upstream-tests: install ## Run the tests of TileDB-Py, with a change and its undo before each read
	@$(BIN)/python -m pip install -q --disable-pip-version-check --group upstream
	@$(RUN) bench.upstream_tests

soma: install ## Break off a load of tiledbsoma, take it back and repeat it (tiledbsoma comes into build/soma)
	@[ -d build/soma ] || $(BIN)/python -m venv build/soma
	@build/soma/bin/pip install -q --disable-pip-version-check -e . 'tiledbsoma==2.3.0' 'tiledb==0.36.1'
	@PYTHONPATH=tests build/soma/bin/python -W ignore -m bench.soma_load

attack: install ## Damage 2,000 arrays in random ways, and hold check, repair and vacuum to the engine
	@$(RUN) bench.attack --arrays 2000

fuzz: install ## Fuzz every decoder for five minutes, guided by coverage
	@$(BIN)/python -m pip install -q --disable-pip-version-check --group fuzz
	@$(RUN) bench.fuzz -max_total_time=300 -print_final_stats=1

##@ Figures
bench: install ## Measure speed and memory side by side with the engine; PART=first-hour is one part
	@$(RUN) bench.bench $(if $(PART),--part $(PART),&& $(RUN) bench.bench_groups)

##@ End
clean: ## Remove what the targets made
	@rm -rf $(VENV) $(BUILD)/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis dist demo
	@find src tests generated -name __pycache__ -prune -exec rm -rf {} +

# What the demo needs and no more; a whole installation has it too.
$(LIGHT): pyproject.toml .ci/constraints.txt .ci/install
	@[ -e $(READY) ] || .ci/install $(PYTHON) $(VENV) light
	@touch $@

$(READY): pyproject.toml .ci/constraints.txt .ci/install
	@.ci/install $(PYTHON) $(VENV)
	@touch $@

$(READYJS): $(BUILD)/package.json $(READY)
	@cd $(BUILD) && PATH="$(abspath $(BIN)):$$PATH" npm install --no-package-lock --no-audit --no-fund --silent
	@touch $@
