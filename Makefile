# make help lists the targets.
GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
BUILD   := CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w -buildid= -X main.version=$(VERSION)'
FUZZ    ?= 20000x
SOAK    ?= 30m
KILLS   ?= 1000
PEERS   := conformance/interop/peers
S3      := conformance/s3server
PEERED  = dir=$$(sh $(PEERS)/install.sh) && s3=$$(sh $(S3)/install.sh) && NCZARR_VERSITYGW="$$s3" NCZARR_PEERS_DIR="$$dir" NCZARR_PEERS_PYTHON="$$dir/venv/bin/python"
# The packages whose tests say what datasets are like, and those of their tests that take long and use no store, or memory only.
FORMATS := ./core/nczarr ./core/cdl
NOSTORE := ^Test(Mutations|ReadAllocatesNothingPerChunk|NcMLDifferential|ParseMemory)$$

.PHONY: help build demo demo-s3 test test-s3 kill-test race lint gen fuzz bench bench-open bench-plane bench-remote soak docs clean cross

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

build: ## build bin/nczctl, a static binary
	$(BUILD) -o bin/nczctl ./cmd/nczctl

demo: build ## make, copy and dump a small ocean dataset, saying what happens
	sh docs/examples/ocean/demo.sh bin/nczctl

demo-s3: build ## the same in a bucket of a local S3 server, which is built and started for it
	sh docs/examples/ocean/demo-s3.sh bin/nczctl "$$(sh $(S3)/install.sh)"

test: ## run all tests, those of formats on S3 too; installs the peers of the interop tests and an S3 server outside the tree
	@$(PEERED) $(GO) test -count=1 -timeout=2h $(TESTFLAGS) ./...
	@$(MAKE) --no-print-directory test-s3

test-s3: ## run the tests of formats with their datasets in a bucket of a local S3 server
	@$(PEERED) NCZARR_TEST_STORE=s3 $(GO) test -count=1 -timeout=2h -skip='$(NOSTORE)' $(TESTFLAGS) $(FORMATS)

kill-test: ## kill nczctl, its plugins or both 1,000 times (KILLS=1000) while they copy
	NCZARR_KILLS=$(KILLS) $(GO) test -count=1 -timeout=120m -run '^TestKills$$' -v ./cmd/nczctl

race: ## run the tests of the library under the race detector
	$(GO) test -race -short -count=1 -timeout=2h ./core/... ./drivers/... ./filters/... ./conformance

lint: ## vet, formatting, import arrows, rows of .ci/defences that no longer fit
	.ci/defences --check
	$(GO) vet ./...
	$(GO) tool -modfile=lint.mod golangci-lint run ./...
	GOOS=darwin $(GO) vet ./... && GOOS=windows $(GO) vet ./cmd/... ./core/... ./drivers/... ./filters/...

gen: ## generate code and reference pages
	$(GO) generate ./...

fuzz: ## run every fuzz target for a fixed number of inputs (FUZZ=20000x)
	sh .ci/fuzz $(FUZZ)

bench: ## measure beside zarr-python in the same run
	@dir=$$(sh $(PEERS)/install.sh) && NCZARR_PEERS_DIR="$$dir" $(GO) run ./conformance/bench

bench-open: ## measure opening a dataset of 1,000 variables beside zarr-python and netCDF4
	@dir=$$(sh $(PEERS)/install.sh) && NCZARR_PEERS_DIR="$$dir" $(GO) run ./conformance/openbench

bench-plane: ## measure what the process boundary costs, in pairs
	$(GO) run ./conformance/planebench

bench-remote: ## measure beside plain requests, zarr-python with obstore and tensorstore on an S3 server with latency
	@dir=$$(sh $(PEERS)/install.sh) && NCZARR_PEERS_DIR="$$dir" $(GO) run ./conformance/remotebench

soak: ## read, write and delete through a proxy that spoils answers, 30 minutes on S3 and 30 on a web server (SOAK=30m)
	NCZARR_SOAK=$(SOAK) NCZARR_REQUIRE_PEERS=1 $(GO) test -count=1 -v -timeout=24h -run='^TestSoak' ./conformance/remote

docs: gen ## the reference pages are generated
clean: ## remove what was built
	rm -rf bin dist
