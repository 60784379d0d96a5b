# Headway's commands for people who work on it. `make` prints them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# What was built in one folder is used again in another one, such as a fresh clone.
export GOFLAGS := -trimpath $(GOFLAGS)
.PHONY: help demo test nightly test-short fleets bench bench-report bench-go fuzz test-hostile test-browser vuln lint prose fmt release release-dry-run services-up services-down compiler

GOLANGCI_VERSION := 2.15.0
TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/headway-tools
# The linter from PATH where it is the very version, else our own.
GOLANGCI := $(or $(shell golangci-lint version 2>/dev/null | grep -q 'version v\?$(GOLANGCI_VERSION) ' && command -v golangci-lint),$(TOOLS)/golangci-lint-$(GOLANGCI_VERSION))

VALE_VERSION := 3.7.1
VALE := $(TOOLS)/vale-$(VALE_VERSION)

GORELEASER_VERSION := 2.14.3
GORELEASER := $(TOOLS)/goreleaser-$(GORELEASER_VERSION)

# goreleaser calls syft by its name.
SYFT_VERSION := 1.27.1
SYFT := $(TOOLS)/syft-$(SYFT_VERSION)
RELEASE = ln -sf $(SYFT) $(TOOLS)/bin/syft && PATH="$(TOOLS)/bin:$$PATH" $(GORELEASER)

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## a fleet of workers against a limited provider, on this machine alone (no services)
	go run ./cmd/headway demo

test: ## the gate: the tests that must never break, ten minutes; starts Redis and MongoDB, and stops them
	@scripts/services run scripts/test

nightly: compiler ## every test in full, and what takes hours, with one report in nightly/; ONLY=names
	@scripts/services run go run ./internal/test/nightly $(if $(ONLY),--only $(ONLY))

test-short: ## the tests that need no services
	@scripts/test pure

# The trace of one seed is in TRACE.
FLEETS_FLAGS = $(if $(SEED),-seed '$(SEED)' -trace '$(or $(TRACE),$(or $(TMPDIR),/tmp)/fleets-$(SEED).trace)') \
	$(if $(SEEDS),-seeds '$(SEEDS)') $(if $(ONLY),-run '$(ONLY)')
fleets: ## whole fleets in virtual time, by a seed that decides every order; SEED=42 or SEEDS=1-200, ONLY=TestName
	@scripts/fleets $(FLEETS_FLAGS)

# REPS and PEERS: how often Headway, and the others, do each work.
BENCH_FLAGS = $(if $(ONLY),--only $(ONLY)) $(if $(REPS),--reps $(REPS)) $(if $(PEERS),--peers $(PEERS)) $(if $(QUICK),--quick)
bench: ## Headway beside what people would use instead, an hour; ONLY=names, REPS=5, PEERS=1, QUICK=1
	@scripts/services run go -C bench run . run $(BENCH_FLAGS)

bench-report: ## write docs/benchmarks.md again from the stored results
	@go -C bench run . report

bench-go: ## Go's own benchmarks, the stores' on real services
	@scripts/services run go test -run '^$$' -bench . -benchmem \
		$$(grep -rl --include='*_test.go' '^func Benchmark' . | xargs -r -n1 dirname | sort -u)

FUZZTIME ?= 20s
fuzz: ## each fuzz test for FUZZTIME (20s)
	@grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | while IFS=: read -r file name; do \
		name=$${name#func }; \
		echo "$$name in $$(dirname "$$file")"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" </dev/null; \
	done

test-hostile: compiler ## hostile tasks, services, documents and files, and the seeds of all fuzz tests, with counts
	@scripts/services run scripts/test-hostile

test-browser: ## the page in a real Chromium, which it installs; pictures in screenshots/
	@scripts/services run bash -c 'found=$$(scripts/browser) && eval "$$found" && go -C browser test -count=1 ./...'

vuln: ## known vulnerabilities of what the binaries call; passes where their database can't be reached
	@scripts/vuln || [ $$? = 77 ]

lint: $(GOLANGCI) prose ## golangci-lint with .golangci.yaml, and the prose linter
	@$(GOLANGCI) run ./...
	@cd bench && $(GOLANGCI) run ./...
	@cd browser && $(GOLANGCI) run ./...
	@cd deploy/tests && $(GOLANGCI) run ./...

prose: $(VALE) ## comments and documents are plain technical English: .vale.ini
	@git ls-files '*.go' '*.md' | xargs $(VALE) --output line

fmt: $(GOLANGCI) ## format as lint wants it
	@$(GOLANGCI) fmt ./...
	@cd bench && $(GOLANGCI) fmt ./...
	@cd browser && $(GOLANGCI) fmt ./...
	@cd deploy/tests && $(GOLANGCI) fmt ./...

release-dry-run: $(GORELEASER) $(SYFT) ## build a release into dist/ (binaries, checksums, SBOMs), and publish nothing
	@$(RELEASE) check
	@$(RELEASE) release --snapshot --clean

release: $(GORELEASER) $(SYFT) # .github/workflows/release.yml
	@$(RELEASE) release --clean

# tool NAME,VERSION,PACKAGE: a Go tool of its own, built once.
define tool
$(TOOLS)/$1-$2:
	@echo "installing $1 $2 (some minutes, once)" >&2
	@mkdir -p $(TOOLS)/bin
	@for try in 1 2 3; do GOBIN=$(TOOLS)/bin GOFLAGS= go install $3@v$2 && break; done
	@mv $(TOOLS)/bin/$1 $$@
endef
$(eval $(call tool,golangci-lint,$(GOLANGCI_VERSION),github.com/golangci/golangci-lint/v2/cmd/golangci-lint))
$(eval $(call tool,vale,$(VALE_VERSION),github.com/errata-ai/vale/v3/cmd/vale))
$(eval $(call tool,goreleaser,$(GORELEASER_VERSION),github.com/goreleaser/goreleaser/v2))
$(eval $(call tool,syft,$(SYFT_VERSION),github.com/anchore/syft/cmd/syft))

services-up: ## start Redis and MongoDB for tests; then: eval "$(scripts/services env)"
	@scripts/services up

services-down: ## stop them
	@scripts/services down

# The race detector needs a C compiler.
compiler:
	@command -v "$${CC:-gcc}" >/dev/null || scripts/services package gcc libc6-dev
