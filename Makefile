# What CI runs, and what you run: the same commands.

CARGO ?= cargo

.PHONY: all test lint fmt bench bench-peers bench-instructions docs

all: lint test

## Everything that can fail: unit, integration, documentation tests; the small build too.
test:
	$(CARGO) test
	$(CARGO) test --no-default-features --lib --test it
	$(CARGO) test --no-default-features --doc

lint:
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets -- -D warnings
	$(CARGO) clippy --no-default-features --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps
	$(CARGO) run --quiet -- list coarseners --markdown | diff - docs/coarseners-table.md
	$(CARGO) run --quiet -- list formats --markdown | diff - docs/formats-table.md
	$(CARGO) run --quiet -- list backbones --markdown | diff - docs/backbones-table.md
	$(CARGO) run --quiet -- data list --markdown | diff - docs/sets-table.md
	$(CARGO) run --quiet -- config explain --markdown | diff - docs/config-table.md
	! $(CARGO) tree --edges features | grep 'burn.* feature "rayon"'

fmt:
	$(CARGO) fmt

## Criterion benches of the core; writes docs/benchmarks.md.
bench:
	$(CARGO) bench

## This crate beside other software (own virtual environment); writes its section of docs/benchmarks.md.
bench-peers:
	python3 bench/peers/run.py

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
