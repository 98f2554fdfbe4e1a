# What CI runs, and what you run: the same commands.

CARGO ?= cargo

PYTHON ?= python3

# Outside the checkout, so that the next run starts warm.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/hdse
VENV := $(CACHE)/venv
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
# The native module is checked without an interpreter, as the stable ABI allows; maturin finds one.
export PYO3_BUILD_EXTENSION_MODULE = 1

.PHONY: all test test-python test-torch wheel sdist lint fmt bench bench-python bench-peers bench-step bench-nodes bench-instructions docs

all: lint test

## Everything that can fail: unit, integration, documentation tests; the small build too; then Python.
test:
	$(CARGO) test
	$(CARGO) test --no-default-features --lib --test it
	$(CARGO) test --no-default-features --doc
	$(MAKE) test-python

## The Python package, built as the command is for tests and installed into an environment that is kept.
test-python: $(VENV)/installed.txt
	$(MAKE) $(TARGET)/wheel
	$(VENV)/bin/pip install --quiet --no-deps --force-reinstall $(TARGET)/wheel/*.whl
	$(VENV)/bin/python -m pytest python/tests

## The same with torch and PyTorch Geometric, which take some 6 GB once.
test-torch: $(VENV)/installed.txt
	$(MAKE) $(TARGET)/wheel
	python/tests/torch.sh $(PYTHON) $(CACHE)/torch-venv $(TARGET)/wheel/*.whl

## The wheel and the source archive, to be shipped: dist/.
wheel: $(VENV)/installed.txt
	$(VENV)/bin/maturin build --manifest-path python/Cargo.toml --profile dist --out dist
sdist: $(VENV)/installed.txt
	$(VENV)/bin/maturin sdist --manifest-path python/Cargo.toml --out dist

.PHONY: $(TARGET)/wheel
$(TARGET)/wheel:
	rm -rf $@
	$(VENV)/bin/maturin build --quiet --manifest-path python/Cargo.toml --profile dev --out $@

$(VENV)/installed.txt: python/tests/requirements.txt
	@$(PYTHON) -c 'import sys, venv, ensurepip; assert sys.version_info >= (3, 10)' || { \
	echo "the Python package needs Python 3.10 or newer with venv and pip (Debian, Ubuntu: apt install python3-venv);"; \
	echo "PYTHON=... names another interpreter"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet -r $<
	cp $< $@

lint:
	$(CARGO) fmt --all --check
	PYO3_NO_PYTHON=1 $(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy --no-default-features --all-targets -- -D warnings
	$(CARGO) clippy --no-default-features --features cli -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps
	# Together, so that they share their dependencies.
	PYO3_NO_PYTHON=1 $(CARGO) build --package hdse --package hdse-python
	$(TARGET)/debug/hdse list coarseners --markdown | diff - docs/coarseners-table.md
	$(TARGET)/debug/hdse list formats --markdown | diff - docs/formats-table.md
	$(TARGET)/debug/hdse list backbones --markdown | diff - docs/backbones-table.md
	$(TARGET)/debug/hdse data list --markdown | diff - docs/sets-table.md
	$(TARGET)/debug/hdse config explain --markdown | diff - docs/config-table.md
	! $(CARGO) tree --edges features | grep 'burn.* feature "rayon"'

fmt:
	$(CARGO) fmt --all

## Criterion benches of the core; writes docs/benchmarks.md.
bench:
	$(CARGO) bench

## The Python package on ZINC: encode_many, the cost of a call, and AddHDSE where test-torch has been run.
bench-python: $(VENV)/installed.txt
	rm -rf $(TARGET)/wheel-release
	$(VENV)/bin/maturin build --quiet --manifest-path python/Cargo.toml --release --out $(TARGET)/wheel-release
	$(BENCH_PYTHON) -m pip install --quiet --no-deps --force-reinstall $(TARGET)/wheel-release/*.whl
	$(BENCH_PYTHON) python/benches/zinc.py

BENCH_PYTHON = $(firstword $(wildcard $(CACHE)/torch-venv/bin/python) $(VENV)/bin/python)

## This crate beside other software (own virtual environment); writes its section of docs/benchmarks.md.
bench-peers:
	python3 bench/peers/run.py

## Our training steps beside PyTorch's (environment of test-torch); writes its section of docs/benchmarks.md.
bench-step:
	python3 bench/peers/step.py

## Our epochs on one large graph beside PyTorch's (same environment); writes its section of docs/benchmarks.md.
bench-nodes:
	python3 bench/peers/nodes.py

## Instructions of the hot kernels, by valgrind; writes its section of docs/benchmarks.md.
bench-instructions:
	python3 bench/peers/instructions.py

## The tables in docs/ that are made from the lists in the code, then the library's documentation.
docs:
	$(CARGO) run --quiet -- list coarseners --markdown > docs/coarseners-table.md
	$(CARGO) run --quiet -- list formats --markdown > docs/formats-table.md
	$(CARGO) run --quiet -- list backbones --markdown > docs/backbones-table.md
	$(CARGO) run --quiet -- data list --markdown > docs/sets-table.md
	$(CARGO) run --quiet -- config explain --markdown > docs/config-table.md
	$(CARGO) doc --no-deps
