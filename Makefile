# Everything a developer types. `make` alone shows the list.

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  = -s -w -X main.version=$(VERSION)
ARGS    ?=
SECONDS ?= 30

.DEFAULT_GOAL := help
.PHONY: help run build test quick long lint format fuzz bench docs docker release clean

help: ## show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## start the server: make run ARGS='--port 7000'
	go run ./cmd/limitdb $(ARGS)

build: ## build ./limitdb, static
	CGO_ENABLED=0 go build -trimpath -ldflags "$(LDFLAGS)" -o limitdb ./cmd/limitdb

test: ## every check there is, as CI runs it (installs what it needs)
	scripts/test

quick: ## the tests without the race detector, clients and fuzzing
	go test $$(go list ./... | grep -v '^limitdb/e2e')

long: ## every check, with fuzzing for 10 minutes each and long soak tests
	scripts/test -long

lint: ## formatting, vet and staticcheck
	scripts/lint

format: ## format all Go files
	go tool gofumpt -w $$(git ls-files '*.go')

fuzz: ## each fuzz target: make fuzz SECONDS=600
	scripts/fuzz $(SECONDS)s

bench: ## compare with the peers that are installed, in one table
	bench/compare.sh

docs: ## write the generated pages again
	scripts/docs

docker: ## build the image limitdb
	docker build --build-arg VERSION=$(VERSION) -t limitdb .

release: ## archives, packages, images in dist/: make release VERSION=1.2.3
	scripts/release $(VERSION)

clean: ## remove what was built
	rm -rf limitdb dist
	rm -rf e2e/clients/node/node_modules
