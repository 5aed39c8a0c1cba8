# SPDX-License-Identifier: Apache-2.0
# `make demo` and `make test` do their own set-up. Servers are fetched into Wringer's cache, never installed.
.PHONY: demo check test test-guest test-recipes bench lint static dist setup

demo: setup
	cargo build --profile demo -p wringer
	target/demo/wringer run experiments/one-read-or-two.toml --to wringer-demo --force

# After each change: format, clippy, and the tests that need no server, no mount and no guest.
check:
	cargo run -q -p xtask -- check

test:
	@tests/setup.sh test
	cargo run -q -p xtask -- test

# A Debian kernel under QEMU, with the program in it: docs/testing.md.
test-guest:
	@tests/setup.sh test
	cargo run -q -p xtask -- test-guest

# Each page of docs/recipes, followed to the letter: docs/testing.md. In a minimal Debian: tests/fresh-machine.sh test-recipes root
test-recipes: setup
	tests/recipes/run.sh

bench: setup
	cargo build --release -p wringer
	benches/run.sh

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features wringer/failpoints -- -D warnings

# One static binary that runs on any Linux of this architecture.
static: setup
	tests/build-static.sh

# A release below target/dist: docs/release.md. Says first what this machine lacks for it.
dist:
	packaging/dist.sh

setup:
	@tests/setup.sh
