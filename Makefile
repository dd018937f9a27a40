# Ringfence. The same targets serve people and CI.

GOLANGCI_VERSION := v2.15.0
GOLANGCI := .tools/golangci-lint-$(GOLANGCI_VERSION)
NESTED := $(filter-out ./go.mod,$(shell find . -name go.mod -not -path './.tools/*'))
BENCHTIME ?= 2s

.DEFAULT_GOAL := help
.PHONY: help test lint bench services

help: ## show this
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The lock's tests run by themselves: what must happen in time can't be seen on a machine that is busy.
test: services ## all tests, with real servers (installs redis-server and postgresql if missing)
	.ci/gotest -race -shuffle=on $$(go list ./... | grep -v '/lock\($$\|/\)')
	.ci/gotest -race -shuffle=on -p 1 ./lock/...
	internal/lanes/pgx510.sh test
	@for mod in $(NESTED); do echo "cd $$(dirname $$mod)"; (root=$$PWD; cd $$(dirname $$mod) && $$root/.ci/gotest -race -shuffle=on ./...) || exit 1; done

lint: $(GOLANGCI) ## golangci-lint on every module; the pgxmock lane is up to date
	$(GOLANGCI) run ./...
	internal/lanes/pgx510.sh check
	@for mod in $(NESTED); do (root=$$PWD; cd $$(dirname $$mod) && $$root/$(GOLANGCI) run ./...) || exit 1; done

bench: services ## benchmarks, each beside its baseline, and the lock beside its peers; 10 minutes (BENCHTIME=2s)
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...
	cd internal/bench && go run .

services: ## install the servers that the tests start, if they are missing
	@.ci/services

$(GOLANGCI):
	@echo "building golangci-lint $(GOLANGCI_VERSION) once, some minutes"
	GOBIN=$(CURDIR)/.tools go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv .tools/golangci-lint $@
