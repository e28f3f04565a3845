# `make build`, `make test`, `make test-all` and `make demo` do all set-up themselves: a Rust toolchain and a C compiler
# are enough.

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=
CARGO_TARGET_DIR ?= target
export CARGO_TARGET_DIR
# Building from nothing takes a sixth less time. cargo without make builds incrementally, into files of its own.
CARGO_INCREMENTAL ?= 0
export CARGO_INCREMENTAL

# The Python that .ci/setup installs modules into.
export NFSRDMA_PYTHON = $(abspath $(CARGO_TARGET_DIR))/python/bin/python

# libclang alone does not have the headers of a compiler, such as stddef.h; those of the C compiler serve as well.
ifeq ($(wildcard /usr/lib/llvm-*/lib/clang/*/include/stddef.h /usr/lib*/clang/*/include/stddef.h),)
export BINDGEN_EXTRA_CLANG_ARGS ?= -idirafter $(shell cc -print-file-name=include 2>/dev/null)
endif

NAME = nfsrdma-inspect
PROGRAM = $(CARGO_TARGET_DIR)/release/$(NAME)
CAPTURE = captures/rxe-v42.pcap
LAB_SCRIPTS = $(addprefix tests/lab/,captures inside place.sh ready replays run smoke transports image/build image/mirror image/*.sh guest/init guest/*.sh scenarios/*.sh afterwards/*.sh)

.DEFAULT_GOAL := build

.PHONY: help
help: ## List the targets
	@sed -n 's/^\([a-z-]*\): .*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

define BUILD
@.ci/setup build
$(CARGO) build --release --locked
@touch $(PROGRAM)
endef

.PHONY: build
build: ## Build target/release/nfsrdma-inspect
	$(BUILD)

.PHONY: dist
dist: ## Build target/dist/nfsrdma-inspect, for packages: slower to build, faster to run
	@.ci/setup build
	$(CARGO) build --profile dist --locked

# Where sudo finds no cargo, `sudo make install` installs what is built.
$(PROGRAM): Cargo.toml Cargo.lock dissectors/Cargo.toml $(wildcard crates/*/Cargo.toml) $(shell find src crates/*/src dissectors/src -type f)
	$(BUILD)

.PHONY: test
test: ## Run the tests that need a Rust toolchain and a C compiler only
	@.ci/setup demo
	@tests/run quick

.PHONY: test-all
test-all: ## Run all tests: install tshark, nfs-ganesha, Kerberos and others (README.md)
	@.ci/setup build test
	@tests/run all

.PHONY: demo
demo: ## Show a real capture, with the analyzer and the terminal interface only, not optimized
	@.ci/setup demo
	$(CARGO) build --locked --no-default-features --features tui
	@show() { printf '\n%s\n$$ %s\n' "$$1" "$(NAME) $$2"; $(CARGO_TARGET_DIR)/debug/$(NAME) $$2; }; \
	set -e; \
	show "A real mount of NFSv4.2 over RoCE: one line per transaction, with its chunks, then a summary." \
	    "$(CAPTURE)"; \
	show "The same as JSON Lines, for jq and for scripts; here the first transaction." \
	    "-T json --summary none -c 1 $(CAPTURE)"; \
	show "A transaction in full, from the frame to the last NFS field." \
	    "-V --summary none -c 1 $(CAPTURE)"; \
	show "The frames, each with its meaning, date and time." \
	    "--view frames -t ad --summary none -c 12 $(CAPTURE)"; \
	printf '\nNow build the program in full, optimized, and try it on a capture of yours: make build && %s --help\n' $(PROGRAM)

.PHONY: install
install: $(PROGRAM) ## Install the program, its manual and completions (PREFIX, DESTDIR)
	install -Dm755 $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/$(NAME)
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	install -m644 man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	install -Dm644 completions/$(NAME).bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/$(NAME)
	install -Dm644 completions/_$(NAME) $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_$(NAME)
	install -Dm644 completions/$(NAME).fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/$(NAME).fish

.PHONY: bench
bench: ## Measure
	@.ci/setup build
	$(CARGO) bench --locked -p benches

.PHONY: adversarial
adversarial: build ## Feed the release build adversarial input in full size, at x1, x2, x4 and x8: time and peak memory
	ADVERSARIAL=full PROGRAM=$(abspath $(PROGRAM)) \
	    $(CARGO) test --release --locked --test it adversarial:: -- --nocapture --test-threads 1

.PHONY: damage
damage: ## Damage each capture at each packet: lost, exchanged and first packets break no rule of lint
	@.ci/setup build
	NFSRDMA_FULL=1 $(CARGO) test --release --locked -p nfsrdma-conformance --test captures

.PHONY: replaytests
replaytests: ## Test replay in full size: edited traces, faults of the proxy, killed runs, statuses of the set-up
	@.ci/setup build
	NFSRDMA_EDITED_TRACES=100000 NFSRDMA_INSPECT_PROXY=full NFSRDMA_KILLED_RUNS=100 \
	    NFSRDMA_CLIENT_STATUSES=full \
	    $(CARGO) test --profile tests --locked --test it -- --nocapture --test-threads 1 \
	    transport::edited_traces transport::proxy_faults transport::killed_runs transport::client_statuses
	NFSRDMA_HOLES=full $(CARGO) test --profile tests --locked -p nfsrdma-mock-server --test captures_with_holes -- \
	    --nocapture

.PHONY: fmt
fmt: ## Format the code
	@.ci/setup lint
	$(CARGO) fmt --all

.PHONY: lint
lint: ## Check formatting, clippy and the documentation
	@.ci/setup lint
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features --locked -- -D warnings
	if command -v shellcheck >/dev/null; then shellcheck -x .ci/run .ci/setup tests/counts tests/fresh tests/run tests/skips $(LAB_SCRIPTS); fi
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items --all-features --locked

# docs/laboratory.md
.PHONY: lab
lab: build ## Run NFS over RoCE and iWARP between two virtual machines, with the program in one (root, Debian packages)
	@.ci/setup lab
	tests/lab/smoke $(PROGRAM)

.PHONY: captures
captures: build ## Make the captures of captures/ again, into target/lab/captures, and compare them
	@.ci/setup lab
	$(CARGO) build --release --locked -p nfsrdma-rpc --features verbs --example transport_exercise
	tests/lab/captures $(PROGRAM)

.PHONY: transports
transports: build ## Hold the RDMA transport to the kernel's server, over RoCE and iWARP, on two kernels (14 GiB of memory)
	@.ci/setup lab
	$(CARGO) build --release --locked -p nfsrdma-rpc --features verbs --example transport_exercise
	tests/lab/transports $(PROGRAM) $(dir $(PROGRAM))examples/transport_exercise

.PHONY: replays
replays: build ## Drive the captures of captures/ again against the kernel's server, over RoCE and iWARP, and compare
	@.ci/setup lab
	tests/lab/replays $(PROGRAM)

.PHONY: clean
clean: ## Remove what was built
	$(CARGO) clean
