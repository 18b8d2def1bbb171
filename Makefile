# `make help` lists the targets.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL: # what is built needs the tools first

# Tests find in the cache what was compiled for the programs, and the reverse.
export GOFLAGS := $(strip $(filter-out -trimpath,$(shell go env GOFLAGS)) -trimpath)

VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
BUILD    := go build -ldflags '-s -w -X main.version=$(VERSION)'
BIN      := bin
ARCHS    ?= amd64 arm64
MODULES  := cmd/sallyport-iceberg e2e/issuer

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: static ## Build bin/sallyport (with cgo, for DuckDB), and bin/sallyport-agent, bin/sallyport-node and bin/sallyport-cni (static).
	CGO_ENABLED=1 go build -ldflags '-s -w -X main.version=$(VERSION) -extldflags "-Wl,--no-export-dynamic"' -o $(BIN)/sallyport ./cmd/sallyport

.PHONY: static
static:
	CGO_ENABLED=0 $(BUILD) -tags grpcnotrace -o $(BIN)/sallyport-agent ./cmd/sallyport-agent
	CGO_ENABLED=0 $(BUILD) -tags grpcnotrace -o $(BIN)/sallyport-node ./cmd/sallyport-node
	CGO_ENABLED=0 $(BUILD) -o $(BIN)/sallyport-cni ./cmd/sallyport-cni

.PHONY: iceberg
iceberg: ## Build bin/sallyport-iceberg, which keeps a table of the lake: a module of its own, with much in it.
	cd cmd/sallyport-iceberg && CGO_ENABLED=0 $(BUILD) -o $(abspath $(BIN))/sallyport-iceberg .

.PHONY: images
images: tools build iceberg ## Write the chart's images as OCI archives, with SBOMs, into dist/images. ARCHS='amd64 arm64'
	@for arch in $(ARCHS); do e2e/tools/cross $$arch; done
	@go run ./e2e/cluster/images/cmd -archs '$(ARCHS)'

.PHONY: envoy
envoy: ## Fetch the pinned stock Envoy to bin/envoy.
	@e2e/tools/envoy

.PHONY: tools
tools: ## Install what is missing: Debian packages (as root), Envoy, axe-core, and OCSF's schema for tests.
	@e2e/tools/packages
	@e2e/tools/envoy
	@e2e/tools/ocsf
	@e2e/tools/axe

.PHONY: cluster-tools
cluster-tools: ## Build what a Kubernetes node consists of, and servers for tests, once: about twelve minutes.
	@e2e/tools/packages
	@e2e/tools/axe
	@e2e/tools/kubernetes
	@e2e/tools/coredns
	@e2e/tools/helm
	@e2e/tools/versitygw
	@e2e/tools/istioecho
	@e2e/tools/iceberg

.PHONY: cluster
cluster: cluster-tools envoy build iceberg ## Bring up a Kubernetes of one node with Sallyport's images, as root; see e2e/cluster.
	@$(AGAIN) cluster-up

.PHONY: cluster-up
cluster-up:
	@go run ./e2e/cluster/cmd up
	@go run ./e2e/cluster/cmd load

.PHONY: cluster-down
cluster-down: ## Remove that cluster; nothing of it stays.
	@go run ./e2e/cluster/cmd down

.PHONY: chart
chart: ## Package the Helm chart with its CRDs into dist/.
	@chart/package $(VERSION)

.PHONY: lint
lint: ## go vet, golangci-lint, and whether generated code is what its source says.
	go vet ./...
	for module in $(MODULES); do (cd $$module && go vet ./...); done
	e2e/tools/golangci-lint run
	e2e/tools/proto --check

# What starts no goroutine (a test holds it to that) is tried without the race detector, which would find nothing there and takes
# several times as long; of the rest, the tests that try random things try more of them without it, too (a test holds RANDOM to that).
PURE      := ./serviceentry/... ./xds/translate/...
# Neither do these, nor do their tests: there is nothing for the race detector to watch.
ALONE     := ./cmd/sallyport/check ./cmd/sallyport/judge ./config ./config/admission ./config/decode ./config/decode/strict ./config/fields \
             ./config/host ./config/inside ./config/machine ./config/mesh ./config/source/feed ./config/source/kube/clientlog \
             ./config/source/kube/condition ./dnsproxy/limit ./dnsproxy/name ./dnsproxy/packet ./egress/audit/durable ./egress/audit/envoylog \
             ./egress/audit/lake/place ./egress/audit/ocsf ./egress/audit/ocsf/ocsftest ./egress/audit/protobuf ./egress/audit/record \
             ./egress/audit/schema ./egress/seen ./egress/simulate/report ./egress/suggest ./sidecar/gateway ./sidecar/inject/manifest \
             ./sidecar/nodeguard ./sidecar/redirect ./sidecar/relay/state ./xds/compress ./xds/digest ./xds/identity/workload \
             ./xds/netcap ./xds/wire
RANDOM    := TestCheckLooksAtEnough|TestCorpus
RANDOM_IN := ./cmd/sallyport/controlplane ./egress/detect
# Of PURE, what asks a running Envoy, and so waits (a test holds them to that, too).
ASKING    := TestEnvoyAppliesRoutesOfClaims|TestEnvoyMatches|TestEnvoyRoutesByClaims|TestEnvoyTakesRegexes|TestEnvoyTakesVariables|TestIngressFollowsClaims|TestNodePoliciesOutliveListeners
ASKING_IN := ./xds/translate ./xds/translate/httproute
RACED     := go list ./... | grep -vxFf <(go list $(PURE) $(ALONE) ./e2e/...)
# What needs more than an API server of the cluster's tools.
TOOLED    := ./e2e/howto ./e2e/cluster/images
COMPILE   := -test -export -deps -f '{{with .Export}}{{end}}'
AGAIN     := $(MAKE) --no-print-directory
AS_ROOT   := $(filter 0,$(shell id -u))

# Tests with real proxies and those on a real Kubernetes mostly wait, and do so beside each other. What only computes, and asks no clock, is
# done in what they leave of the processors; see docs/adr/0123-what-computes-is-done-meanwhile.md. One `go vet` is enough: go test would do a
# part of it once more for each way to compile.
.PHONY: test
test: tools build iceberg ## All tests, with real Envoys and a real Kubernetes; as root in network namespaces too.
	@e2e/tools/kubernetes kube-apiserver
	@e2e/tools/meanwhile '$(AGAIN) cluster-tools test-computed' $(if $(AS_ROOT),'$(AGAIN) cluster-tools cluster-up test-cluster') \
	  '$(AGAIN) test-envoys cluster-tools test-tooled test-raced'

.PHONY: test-code
test-code: tools build iceberg ## Of these, all that needs no Kubernetes.
	@e2e/tools/meanwhile '$(AGAIN) test-computed' '$(AGAIN) test-envoys test-tooled test-raced'

.PHONY: test-envoys
test-envoys:
	go test -vet=off -timeout 25m -run '^($(ASKING))$$' $(ASKING_IN)
	go test -vet=off -p 1 -parallel 4 -timeout 60m $$(go list ./e2e/... | grep -vE '/e2e/(incluster|cluster|conformance)$$' | grep -vxFf <(go list $(TOOLED)))

.PHONY: test-tooled
test-tooled:
	go test -vet=off -p 1 -parallel 4 -timeout 40m $(TOOLED)

# The limits are for what hangs: this has the processors only where nobody else wants them. Collecting garbage was a seventh of the pure tests'
# time, and less of it is done (GOGC). `go list -export` compiles what is tried later.
.PHONY: test-computed
test-computed:
	go vet ./...
	GOGC=400 go test -vet=off -timeout 120m -skip '^($(ASKING))$$' $(PURE) $(ALONE)
	go test -vet=off -timeout 120m -run '^($(RANDOM))$$' $(RANDOM_IN)
	go list -race $(COMPILE) $$($(RACED)) >/dev/null
	for module in $(MODULES); do (cd $$module && go vet ./... && go list $(COMPILE) ./... >/dev/null); done

# Some of these wait, too: three at once.
.PHONY: test-raced
test-raced:
	go test -race -vet=off -p 3 -timeout 40m $$($(RACED))
	for module in $(MODULES); do (cd $$module && go test -vet=off -timeout 10m ./...); done

.PHONY: test-long
test-long: tools ## Tests that take minutes, and hundreds of megabytes in the cache: another engine reads the lake, and its table; Kafka's own broker.
	@e2e/tools/spark
	@e2e/tools/icebergspark
	@e2e/tools/kafka
	go test -timeout 20m -count=1 -v -run TestAnotherEngine ./egress/audit/lake
	cd cmd/sallyport-iceberg && go test -timeout 20m -count=1 -v -run TestSpark ./table
	go test -timeout 20m -count=1 -v -run 'TestKafkasOwnBroker|TestKafkaTakesAll' ./egress/detect/send ./cmd/sallyport

# What it runs, and how else it may be called, is said in the script; it builds the older programs in the user's cache.
.PHONY: test-skew
test-skew: tools build ## Tests with programs of two releases, these and those of a revision OLD, both ways round; as root. MIX=agents for one of the ways.
	@e2e/tools/skew $(or $(OLD),$(error OLD=REVISION says which the older programs are)) $(MIX)

.PHONY: e2e
e2e: cluster ## Install the chart on that cluster and hold it to its promises, as root. KEEP=1 leaves the cluster.
	@$(AGAIN) test-cluster

.PHONY: test-cluster
test-cluster:
	go test -vet=off -p 1 -timeout 60m -count=1 -v ./e2e/cluster ./e2e/incluster
	SALLYPORT_CONFORMANCE=all go test -vet=off -timeout 40m -count=1 ./e2e/conformance
	@if [[ -z "$(KEEP)" ]]; then go run ./e2e/cluster/cmd down; fi

.PHONY: conformance
conformance: cluster ## Run the Gateway API's conformance suite on that cluster, as root; the report is in docs/conformance. RUN=NAME for one test.
	SALLYPORT_CONFORMANCE=$(or $(RUN),all) SALLYPORT_CONFORMANCE_REPORT=$(if $(RUN),,$(CURDIR)/docs/conformance/v1.6.3-report.yaml) \
	  go test -timeout 60m -count=1 -v ./e2e/conformance
	@if [[ -z "$(KEEP)" ]]; then go run ./e2e/cluster/cmd down; fi

.PHONY: bench
bench: tools build ## What a mesh costs its control plane and its traffic, into docs/performance.md; all Go benchmarks.
	go run ./e2e/load/cmd -runs 3 -doc docs/performance.md
	timeout 40m go run ./e2e/load/cmd -shape fetched -entries 10000,100000 -streams 1000 -crowd 0 -changes 12 -doc docs/performance.md
	go run ./e2e/load/cmd -shape policies -entries 1000 -streams 4 -crowd 0 -doc docs/performance.md
	go run ./e2e/dataplane -rounds 7 -doc docs/performance.md
	go run ./e2e/dataplane -policies 1000 -rounds 7 -doc docs/performance.md
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: bench-ambient
bench-ambient: tools build ## A node's proxy for pods without sidecars, beside sidecars, into docs/performance.md; a quarter of an hour, as root.
	go run ./e2e/dataplane -ambient -hosts 1000 -rounds 5 -doc docs/performance.md $(ARGS)

.PHONY: bench-dns
bench-dns: tools build ## The resolver beside unbound, dnsmasq and CoreDNS, into docs/performance-dns.md.
	@e2e/dnsbench/packages
	@e2e/tools/coredns
	go build -o bin/dnsbench ./e2e/dnsbench
	bin/dnsbench -coredns "$${XDG_CACHE_HOME:-$$HOME/.cache}/sallyport/coredns-$$(. e2e/tools/versions.env && echo "$$COREDNS_VERSION")/coredns" \
	  $$( ((EUID == 0)) && echo -realtime || echo -nice 0) -doc docs/performance-dns.md $(ARGS)

.PHONY: bench-audit
bench-audit: build ## The audit server with a log of RECORDS (3000000) over DAYS (30), into docs/performance.md, and its store beside DuckDB's appender.
	go test -run '^$$' -bench 'Store|BareAppender' -benchtime 25x ./egress/audit/store
	go run ./egress/audit/bench -program $(BIN)/sallyport -records $(or $(RECORDS),3000000) -days $(or $(DAYS),30) -doc docs/performance.md $(ARGS)

.PHONY: demo
demo: tools build ## Tell the story on this machine, step by step. ARGS=-ambient: without sidecars; ARGS=-keep: to look around.
	@go build -o bin/demo ./e2e/demo
	@exec bin/demo $(ARGS)

.PHONY: clean
clean: ## Remove bin/. What was fetched stays in the user's cache.
	rm -rf bin
