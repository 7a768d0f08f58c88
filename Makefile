# make help lists the targets.
GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
BUILD   := CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w -buildid= -X main.version=$(VERSION)'
NIGHT   ?=
PEERS   := conformance/interop/peers
S3      := conformance/s3server
PEERED  = dir=$$(sh $(PEERS)/install.sh) && s3=$$(sh $(S3)/install.sh) && NCZARR_VERSITYGW="$$s3" NCZARR_PEERS_DIR="$$dir" NCZARR_PEERS_PYTHON="$$dir/venv/bin/python"
# Vet runs in lint. A test binary without debug tables links faster. Many tests wait
# rather than compute, so three packages run concurrently. With madvdontneed=0, the
# runtime keeps the pages that it frees until memory is short, and need not fault them in again.
TEST    := GODEBUG=madvdontneed=0 $(GO) test -vet=off -ldflags='-s -w' -timeout=2h -p 3
# FORMATS are the packages that test formats. NOSTORE lists those of their tests that take long and use no store, or only memory or files,
# and MANY those that write thousands of objects, which make nightly also runs in a bucket.
FORMATS := ./core/dataset ./core/cdl
NOSTORE := HostileHeader|Mutations|ReadAllocatesNothingPerChunk|NcMLDifferential|ParseMemory|PeakMemory
MANY    := MaskOfSparseArray|MaskOfUnlistedArray|UselessPrefetch|WriteRectilinear
# RACES are the packages that every run checks with the race detector: those that start goroutines, and those that share state between them.
RACES   := ./core/dataset ./core/array ./core/manifest ./core/codec ./core/zmap/... ./core/plugin/internal/... ./drivers/file ./drivers/internal/...
# HOSTRACES are the tests of core/plugin/host that every run checks with the race detector; the others take too long.
HOSTRACES := Arena Spill Pipeline OneStart ManyReads Closed OthersOpening OpenCanceled LatePut Flood FloodedStream SameCodecs SameStores PlaneInput Quarantine Crash RetireStarting ManyLenders SinkCalls

.PHONY: help build demo demo-s3 test test-s3 race nightly lint gen bench bench-open bench-plane bench-remote bench-shards docs clean

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

build: ## build bin/nczctl, a static binary
	$(BUILD) -o bin/nczctl ./cmd/nczctl

demo: build ## create, copy and dump a small ocean dataset, with explanations
	sh docs/examples/ocean/demo.sh bin/nczctl

demo-s3: build ## the same in a bucket of a local S3 server, which it builds and starts
	sh docs/examples/ocean/demo-s3.sh bin/nczctl "$$(sh $(S3)/install.sh)"

test: ## run all tests, including format tests on S3; installs peers and an S3 server outside the tree
	@$(PEERED) $(TEST) -count=1 $(TESTFLAGS) $$(.ci/packages untracked)
	@$(PEERED) $(TEST) $(TESTFLAGS) $$(.ci/packages tracked)
	@$(MAKE) --no-print-directory test-s3

test-s3: ## run the format tests with their datasets in a bucket of a local S3 server
	@$(PEERED) NCZARR_TEST_STORE=s3 $(TEST) -count=1 -skip='^Test($(NOSTORE)$(if $(filter 1,$(NCZARR_FULL)),,|$(MANY)))$$' $(TESTFLAGS) $(FORMATS)

race: ## run the tests of concurrent code under the race detector; make nightly runs all tests
	$(GO) test -race -short -timeout=2h $(RACES)
	$(GO) test -race -short -timeout=2h -run "^Test($$(echo $(HOSTRACES) | tr ' ' '|'))$$" ./core/plugin/host

nightly: ## run the long test campaigns, two hours in total, and report (NIGHT='-minutes 30 -only fuzz,kills -seed 7', NIGHT=-help)
	@$(PEERED) NCZARR_REQUIRE_PEERS=1 $(GO) run ./conformance/nightly $(NIGHT)

lint: ## check with vet and the linter (formatting, allowed imports), and check the rows of .ci/defences
	.ci/defences --check
	@for t in $(HOSTRACES); do grep -q "^func Test$$t(" core/plugin/host/*_test.go || { echo "HOSTRACES: there is no test Test$$t"; exit 1; }; done
	@for t in $$(echo '$(NOSTORE)|$(MANY)' | tr '|' ' '); do grep -q "^func Test$$t(" $(addsuffix /*_test.go,$(FORMATS)) || { echo "NOSTORE, MANY: there is no test Test$$t"; exit 1; }; done
	$(GO) vet ./...
	$(GO) tool -modfile=lint.mod golangci-lint run --allow-parallel-runners ./...
	GOOS=darwin GOARCH=arm64 $(GO) vet ./... && GOOS=windows $(GO) vet . ./cmd/... ./core/... ./drivers/... ./filters/...
	GOARCH=arm64 $(GO) vet . ./core/... ./drivers/... ./filters/...

gen: ## generate code and reference pages
	$(GO) generate ./...

bench: ## measure reading and writing, with zarr-python in the same run
	@dir=$$(sh $(PEERS)/install.sh) && NCZARR_PEERS_DIR="$$dir" $(GO) run ./conformance/bench

bench-open: ## measure opening a dataset of 1,000 variables, with zarr-python and netCDF4
	@dir=$$(sh $(PEERS)/install.sh) && NCZARR_PEERS_DIR="$$dir" $(GO) run ./conformance/openbench

bench-plane: ## measure the cost of the process boundary, in pairs
	$(GO) run ./conformance/planebench

bench-remote: ## measure an S3 server with latency, with plain requests, zarr-python with obstore, and tensorstore
	@dir=$$(sh $(PEERS)/install.sh) && NCZARR_PEERS_DIR="$$dir" $(GO) run ./conformance/remotebench

bench-shards: ## measure Zarr v3 arrays and shards, with zarrs, tensorstore and zarr-python; builds zarrs outside the tree, which takes long
	@dir=$$(sh $(PEERS)/install.sh) && zarrs=$$(sh $(PEERS)/install-zarrs.sh) && NCZARR_PEERS_DIR="$$dir" NCZARR_ZARRS_DIR="$$zarrs" $(GO) run ./conformance/shardbench

docs: gen ## generate the reference pages
clean: ## remove build results
	rm -rf bin dist
