# Two commands: `make serve` and `make test`. Both install what they need, into
# build/, sdk/ts/node_modules and web/node_modules; outside these only Debian's packages that tests start.
# `make help` lists the rest.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

BUILD := build
BIN   := $(BUILD)/bin

# Tools that are no Go module of ours; the others are pinned by go.mod.
BUF_VERSION         := 1.75.0
STATICCHECK_VERSION := v0.8.0
OPENAPI_VERSION     := v0.18.0
K6_VERSION          := v1.4.2

BUF         := $(BUILD)/buf-$(BUF_VERSION)/node_modules/.bin/buf
STATICCHECK := $(BIN)/staticcheck-$(STATICCHECK_VERSION)
OPENAPI     := $(BIN)/protoc-gen-connect-openapi-$(OPENAPI_VERSION)
K6          := $(BIN)/k6-$(K6_VERSION)
PLUGINS     := $(BIN)/protoc-gen-go $(BIN)/protoc-gen-go-vtproto $(BIN)/protoc-gen-connect-go $(OPENAPI)
PYTHON      := $(BUILD)/venv/.installed
NODE        := $(BUILD)/node/.installed
JAVA        := $(BUILD)/java/.installed
TS          := sdk/ts/node_modules/.installed
WEB         := web/node_modules/.installed
EMBED       := web/embed/dist/petrel-chat.js
POSTGRES    := $(BUILD)/.postgresql
CHROMIUM    := $(BUILD)/.chromium-shell
FONTS       := $(BUILD)/.fonts
PROXIES     := $(BUILD)/.proxies

# Packages compiled in one folder serve another one with the same sources. Our packages
# are compiled without the data for debuggers, which are a tenth of that work; a person who
# needs them calls go build without make.
export GOFLAGS := -trimpath -gcflags=github.com/petrel-im/petrel/...=-dwarf=false $(GOFLAGS)

# The hooks of zstd for tracing are weak symbols, which Go's own linker does not know.
export CGO_CFLAGS := -g -O2 -DZSTD_TRACE=0

# Where Debian keeps nft, ip and nats-server.
export PATH := $(PATH):/usr/sbin

# The commit stands in the binary when there is one.
VCS := $(if $(shell git rev-parse --verify HEAD 2>/dev/null),auto,false)

# Folders with Go code.
GO_DIRS := bench cmd examples internal proto sdk/go test

.PHONY: help serve build web shots test rules walks gateways openapi pages check format vet types lint fresh gen bench long crash chaos-cluster flood fuzz autobahn k6 wrk clients hosts stress clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 16

serve: build ## build and run the server; ARGS="--data DIR" and others go to it
	@exec $(BIN)/petrel serve $(ARGS)

build: ## build the binary, build/bin/petrel
	@mkdir -p $(BIN)
	go build -buildvcs=$(VCS) -o $(BIN)/petrel ./cmd/petrel

# The race detector watches each path once. Without it runs what only repeats paths: the
# scenarios that go paths of others, the rights of all methods, the simulation, the stores that
# are damaged and read again (REPLAYS) and the schedules of the streams in full numbers; and
# what has its servers in processes of their own, which are built without it. `make long` has it
# watch the commands, the load generator and the calls of the API as well; the scenarios have
# watched these paths.
# Five packages run at a time, for two cores: most of them wait for disks and processes. The
# runs of BUSY, which use a core by themselves, come one after the other beside four of the
# others. LONG ones begin first, so that nothing runs alone at the end. UNRACED names those that
# take longest and those about nodes first. APART are `make walks`, `make rules` and a part of
# `make check`. All share one PostgreSQL server, which ends when the shell closes its input. -vet=off because `make vet` finds more,
# -ldflags because the symbols are half of what it takes to link sixty test programs, and because
# Go's own linker alone takes a fifth less than with the linker of gcc.
LINKER   := $(if $(filter Linux-x86_64,$(shell uname -sm | tr ' ' -)),-linkmode=internal)
GO_TEST  := GOGC=300 go test -json -vet=off -ldflags='-s -w $(LINKER)' -timeout 60m
# GORACE because a program that the race detector watches waits for a second before it
# ends. RACE_MOD because Pebble under the race detector keeps the stack of whoever opens
# an iterator, which was up to half of the CPU of its users; its other checks stay.
RACE     := -race -modfile=$(BUILD)/race/go.mod
GO_RACE  := GORACE=atexit_sleep_ms=100 $(GO_TEST) $(RACE)
# The race detector of Go 1.26 crashes now and then when timers of a bubble of testing/synctest
# fire on two processors at once (golang.org/issue/78156). It finds races on one as well.
BUBBLES  := GOMAXPROCS=1
RACE_MOD := $(BUILD)/race/.made
BUSY     := test/scenario internal/store/pebblestore
LONG     := internal/store/pgstore internal/cluster test/sdk internal/gateway internal/app internal/bus/stream
WAITING  := test/ts test/passenger test/console
UNRACED  := test/bench test/chaos cmd/petrel bench test/proxy test/foreign test/web test/simulation test/authz test/crash test/flood internal/api internal/bus/stream internal/proxycheck test/api test/verdict test/requests
APART    := test/walk test/sabotage test/way internal/lint
# The tests with generators of others for the API need a JVM and compilers: `make openapi`.
OPENAPI_TESTS := ^Test(GeneratedClientsCallTheServer|SchemathesisFindsNothing)$$
REPLAYS  := ^Test(ABit|BadBlock|BackupThatIsCut|Chained|CompactionThat|CutOff|Damage|Dropped|Every|Examine|F15|Flipped|Folder|Inventory|Lost|Log|MendIs|Missing|Older|PowerCuts|Repair|Restore|Rewrite|Salvage|Second|StoreOnDisk|TableIs|Unknown|Unreadable|Verify)
# WIDE take paths that other tests of their packages take as well with all there may be of
# something: each partition, thousands of groups, hours of schedules. The race detector makes these
# seven to fourteen times as expensive.
WIDE     := ^Test(SlowNodeGivesItsFeedsUp|NobodyIsSlowBesideOthersThatAre|SlowReadNowAndThenMovesNothing|FlappingNodeCausesNoThrashing|F19OutageOfTheDatabaseMovesNothing|NodeThatIsApartGivesItsFeedsUp|CutBusMovesNothing|RandomRevocations|F11LoginBetweenTheStepsOfAnotherOne|F17GatewayCutFromTheBusAsksTheStore|RechecksAreBounded|StoredListIsThatOfTheInbox|ManyChangesReachTheInboxes|RoomOfAChangeIsThatOfAllSettings|ConnectionsOfAUserShareTheBoundOfAnswers|F21NeverBuffersWithoutBound|MovesOfThousandsOfMembers|GroupOfTenThousand)$$
WIDE_OF  := internal/cluster internal/session internal/inbox internal/gateway internal/conv
packages  = $(addprefix ./,$(1))

# Collecting garbage is an eighth of the time of compiling.
COMPILE := GOGC=off GOMEMLIMIT=2GiB go

# Temporary files are in memory if there are 8 GiB for them: a fifth of the time of tests
# there is the file system of a disk, which also searches long for a place once many files are gone.
MEMORY := $(shell [ "$$(df --output=avail /dev/shm 2>/dev/null | tail -1)" -ge 8388608 ] 2>/dev/null && echo /dev/shm || echo "$${TMPDIR:-/tmp}")

# Clients of other languages are installed while the tests are compiled.
INSTALL = make --no-print-directory $(PYTHON) $(NODE) $(JAVA) $(TS) $(WEB) $(CHROMIUM) $(PROXIES)

# The packages of the second part are compiled from the beginning: nice, so that this takes
# only the time that the first part leaves. It ends with the first part, for on a busy machine
# it gets nothing; the second part itself compiles the rest.
AHEAD = exec nice -n 19 setsid env $(COMPILE) list -export -test -deps $(call packages,$(BUSY) $(WAITING) $(WIDE_OF) $(UNRACED)) >$(BUILD)/ahead.log 2>&1

test: $(RACE_MOD) hosts ## run the tests: race detector, clients of other languages
	@rm -f $(BUILD)/postgres.port; \
	TMPDIR=$$(mktemp -d $(MEMORY)/petrel.XXXX) && export TMPDIR && chmod 755 "$$TMPDIR" && trap 'rm -rf "$$TMPDIR"' EXIT; \
	exec 3> >(go run ./test/postgres >$(BUILD)/postgres.port 2>$(BUILD)/postgres.log || echo 0 >$(BUILD)/postgres.port); \
	raced=$$(go list ./... | grep -vE '/($(subst $() ,|,$(filter-out $(LONG),$(UNRACED)) $(WAITING) $(APART) $(BUSY)))$$'); \
	{ exec 3>&-; $(AHEAD) & ahead=$$!; \
	  $(INSTALL) >$(BUILD)/install.log 2>&1 & install=$$!; \
	  $(COMPILE) list -export -test -deps $(RACE) $(call packages,$(BUSY)) $$raced >$(BUILD)/raced.log 2>&1 || :; \
	  wait $$install || :; $(INSTALL) >&2; \
	  until [ -s $(BUILD)/postgres.port ]; do sleep 0.1; done; export PETREL_TEST_POSTGRES=$$(cat $(BUILD)/postgres.port); \
	  { $(GO_RACE) ./test/scenario && a=0 || a=1; \
	    $(GO_TEST) -count=1 -p 3 $(call packages,$(WAITING)) >$(BUILD)/waiting.json & waiting=$$!; \
	    $(BUBBLES) $(GO_RACE) -skip '$(REPLAYS)' ./internal/store/pebblestore || a=1; \
	    PETREL_SCENARIOS=rest $(GO_TEST) -count=1 ./test/scenario || a=1; \
	    $(GO_TEST) -count=1 -run '$(REPLAYS)' ./internal/store/pebblestore || a=1; \
	    wait $$waiting || a=1; cat $(BUILD)/waiting.json; [ $$a = 0 ]; \
	  } >$(BUILD)/busy.json & busy=$$!; \
	  nice -n 2 env $(BUBBLES) $(GO_RACE) -p 4 -parallel 2 -skip '$(WIDE)' $(call packages,$(LONG)) $$raced && a=0 || a=1; \
	  kill -- -$$ahead 2>/dev/null || :; wait $$ahead || :; \
	  nice -n 2 env $(GO_TEST) -count=1 -p 5 -run '$(WIDE)' $(call packages,$(WIDE_OF)) || a=1; \
	  nice -n 2 env $(GO_TEST) -count=1 -p 5 -skip '$(OPENAPI_TESTS)' $(call packages,$(UNRACED)) && b=0 || b=1; \
	  wait $$busy && c=0 || c=1; cat $(BUILD)/busy.json; \
	  [ $$a$$b$$c = 000 ]; \
	} | go run ./test/report -show 'seed [0-9]|kills=|played anew' 3>&-

# A right test passes on a machine that is busy and stands still now and then. New tests go
# through this before they land.
N   ?= 50
RUN ?= .
stress: $(RACE_MOD) ## the tests of one package, raced, N times beside busy loops and while all its processes are stopped at random moments; PKG=internal/conv RUN=TestName N=50
	@[ -n "$(PKG)" ] || { echo "name a package: make stress PKG=internal/conv"; exit 2; }
	go build -o $(BUILD)/stress ./test/stress
	go test -c $(RACE) -o $(BUILD)/stress.test ./$(PKG)
	cd $(PKG) && $(BUBBLES) $(CURDIR)/$(BUILD)/stress -busy -stop -n $(N) -- $(CURDIR)/$(BUILD)/stress.test -test.count=1 -test.timeout=20m -test.run '$(RUN)'

walks: build $(TS) ## random walks of both SDKs against the server, ten seeds of 2,000 steps each
	go test -count=1 -vet=off -v ./test/walk -args -steps=2000
	cd sdk/ts && node scripts/walks.mjs 1 10 2000

# A rule is broken again when its packages have changed since `make rules ALL=1`, a part of `make long`.
rules: build $(TS) hosts ## break rules of the server and of the TypeScript SDK on purpose: a test must notice; ALL=1 for all rules
	$(GO_TEST) -count=1 -timeout 60m ./test/sabotage $(if $(ALL),-args -all) | go run ./test/report -show 'rules'
	cd sdk/ts && node scripts/test.mjs broken

gateways: $(TS) hosts ## clients of both SDKs go on when their gateway goes, once for each way, when a node is slow and when clocks step; `make chaos-cluster` judges how long they wait
	go test -count=1 -vet=off -v -run '^TestChaos$$/^(gateways|slow-node|clock-steps)$$' ./test/chaos -args -times=1

openapi: $(PYTHON) $(NODE) $(JAVA) ## clients that generators of others make of the API, in Python, TypeScript and Java, call the server, and schemathesis looks for faults
	go test -count=1 -vet=off -v -run '$(OPENAPI_TESTS)' ./test/foreign

pages: build $(TS) $(WEB) $(EMBED) $(POSTGRES) $(CHROMIUM) ## all tests of the web chat and the console, in Chromium against the server
	cd web && node scripts/test.mjs

check: format vet lint fresh types ## everything that can be said of the sources, and whether docs/architecture.md says the way of a message

format:
	@out=$$(gofmt -l $(GO_DIRS)); [ -z "$$out" ] || { echo "gofmt these files:"; echo "$$out"; exit 1; }

vet: $(STATICCHECK)
	go vet ./...
	$(STATICCHECK) ./...

types: $(TS) $(WEB) # of the TypeScript SDK and the web chat
	cd sdk/ts && npm run --silent check
	cd web && npm run --silent check

lint: $(BUF)
	$(BUF) lint
	go test -count=1 ./internal/lint ./proto ./test/way
	go test -count=1 -run '^Test(Patch|Rules)' ./test/sabotage

# Generates everything into the folder $(1).
define generate
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BUF) generate -o $(1)
	mkdir -p $(1)/internal/im $(1)/internal/api $(1)/sdk/go $(1)/sdk/ts/src/wire $(1)/docs/reference
	cd $(1) && { [ -e proto ] || { ln -s ../../proto proto; trap 'rm proto' EXIT; }; go run $(CURDIR)/internal/im/gencodes; }
	go run ./internal/api/genopenapi $(1)/build/openapi.json $(1)/internal/api/openapi.json
	rm $(1)/build/openapi.json
	go run ./cmd/petrel docs $(1)/docs/reference
	go run ./bench/genschema $(1)/docs/reference/bench-report.schema.json
	rm $(1)/sdk/go/petrelv1/{account,admin,console,contact,operator}_vtproto.pb.go # what passes on HTTP only
endef

gen: $(BUF) $(PLUGINS) ## write the generated code and reference pages
	$(call generate,.)

web: $(WEB) ## build the web chat into internal/web/dist, and the page of benchmark reports; the binary takes them from there
	cd web && npm run --silent build && npm run --silent report

shots: build $(WEB) $(FONTS) ## pictures of all views of the web chat: build/shots/index.html; ARGS="mixed phone" for some
	cd web && npm run --silent shots -- ../$(BUILD)/shots $(ARGS)

# Generates into a folder of its own and compares, so that a stale file is named
# and nothing is changed.
fresh: $(BUF) $(PLUGINS) $(WEB)
	@rm -rf $(BUILD)/.fresh && mkdir -p $(BUILD)/.fresh
	$(call generate,$(BUILD)/.fresh)
	@cd $(BUILD)/.fresh && find . -type f | sort | while read -r f; do \
		cmp -s "$$f" "../../$$f" || { echo "$$f is stale: run make gen"; touch stale; }; done; [ ! -e stale ]
	@git ls-files -co --exclude-standard '*.pb.go' '*.connect.go' '*_gen.go' '*_gen.ts' | while read -r f; do \
		[ -e "$(BUILD)/.fresh/$$f" ] || { echo "$$f is generated by nothing: delete it"; touch $(BUILD)/.fresh/stale; }; done; [ ! -e $(BUILD)/.fresh/stale ]
	cd web && npm run --silent fresh

bench: build ## measure this machine: build/bench/*.json
	@mkdir -p $(BUILD)/bench
	$(BIN)/petrel bench direct --json $(BUILD)/bench/direct.json
	$(BIN)/petrel bench direct --window 1 --json $(BUILD)/bench/direct-window-1.json
	$(BIN)/petrel bench direct --rate 20000 --json $(BUILD)/bench/direct-rate-20000.json
	$(BIN)/petrel bench group --json $(BUILD)/bench/group.json
	$(BIN)/petrel bench connections --json $(BUILD)/bench/connections.json
	$(BIN)/petrel bench direct --postgres auto --json $(BUILD)/bench/postgres-direct.json
	$(BIN)/petrel bench direct --postgres auto --senders 1 --receivers 1 --window 1 --json $(BUILD)/bench/postgres-direct-window-1.json
	$(BIN)/petrel bench direct --postgres auto --nodes 3 --json $(BUILD)/bench/postgres-3-nodes.json
	$(BIN)/petrel bench direct --postgres auto --nodes 3 --rate 5000 --json $(BUILD)/bench/postgres-3-nodes-rate-5000.json
	$(BIN)/petrel bench cluster --json $(BUILD)/bench/cluster.json

# The long counts of what is random in `make test`.
long: $(RACE_MOD) crash chaos-cluster build $(POSTGRES) $(TS) $(WEB) $(CHROMIUM) ## the long counts of what `make test` does in short ones; hours
	$(MAKE) rules ALL=1
	PETREL_SCHEDULES=20000 go test -count=1 -timeout 0 -v -run '^TestRandomSchedules' ./internal/fanout
	go test -count=1 -timeout 0 -v -run '^TestRandomSchedules$$' ./internal/cluster -args -seeds 200
	go test -count=1 -timeout 0 -v -run '^TestSimulation$$' ./test/simulation -args -seeds 20000
	PETREL_PLANTED=all go test -count=1 -timeout 0 -v -run '^TestSimulationFinds' ./test/sabotage
	PETREL_NETWORK_CUTS=20 go test -count=1 -timeout 0 -v -run '^TestF9CutNetworksHeal$$' ./internal/bus/natsbus
	PETREL_SCENARIOS=all go test -count=1 -timeout 0 -v ./test/scenario
	$(BUBBLES) go test $(RACE) -vet=off -count=1 -timeout 0 -v ./bench ./cmd/petrel ./internal/api
	$(BUBBLES) go test $(RACE) -vet=off -count=1 -timeout 0 -v -run '$(WIDE)' $(call packages,$(WIDE_OF))
	PETREL_EXISTENCE_N=2000 go test -count=1 -timeout 0 -v -run '^TestNoTimeTells' ./test/authz
	PETREL_EXAMPLES=200 go test -count=1 -timeout 0 -v -run '^TestSchemathesis' ./test/foreign
	PETREL_TIMES=1 go test -count=1 -timeout 0 -v -run '^TestForeign' ./test/foreign
	PETREL_SEEDS=100 go test -count=1 -timeout 0 -v -run '^TestTheClientOfThePage' ./test/foreign
	PETREL_SLOW_SENDS=10 PETREL_IDLE_SECONDS=600 go test -count=1 -timeout 0 -v ./test/passenger
	go test -count=1 -timeout 0 -v ./test/walk -args -seeds 1000
	cd sdk/ts && node scripts/walks.mjs 1 1000
	cd sdk/ts && PETREL_TABS=100 PETREL_IDLE_SECONDS=600 npm run --silent test chromium tabs.server
	cd web && PETREL_TIMES=1 node scripts/test.mjs src/ embed console timeline
	cd web && npm run --silent broken

crash: $(PYTHON) ## the long crash suites: power cuts, corruptions, kill -9, stores put back, backups
	PETREL_CUTS=10000 PETREL_CORRUPTIONS=500 PETREL_KILLS=1000 PETREL_COPIES=50 PETREL_BACKUPS=20 PETREL_BACKUP_RATE=5000 PETREL_BACKUP_KILLS=500 \
		go test -count=1 -timeout 0 -v -run 'Cut|Crash|Kill|Damage|Mend|Salvage|Backup|Rollback' ./internal/store/... ./test/crash

chaos-cluster: $(PYTHON) $(TS) hosts ## the long chaos suite of a cluster, its cuts as root only; ARGS="-run TestChaos/kill-node" for one fault
	command -v nats-server >/dev/null || \
		{ sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; $$sudo apt-get update -qq && $$sudo apt-get install -y -qq --no-install-recommends nats-server; }
	go test -count=1 -timeout 0 -v $(or $(ARGS),-run 'TestChaos|TestRollback') ./test/chaos -args -times=-1

flood: ## what thousands of strangers, and of reactions, cost those who are logged in; nine minutes
	PETREL_FLOOD_CONNECTIONS=10000 PETREL_FLOOD_SECONDS=60 PETREL_FLOOD_MEMBERS=10000 go test -count=1 -timeout 0 -v ./test/flood

# Load by programs of others, each against a server of its own. SHORT=1 for a few seconds of each
# script, as CI does; PETREL_URL and PETREL_ADMIN_KEY for a running server.
k6: build $(K6) ## load over WebSocket and HTTP by k6; ARGS="direct -e PAIRS=500" for one script and its settings
	K6=$(K6) bench/k6/run $(ARGS)

wrk: build ## load on the HTTP API by wrk; ARGS="-t 2 -c 100 -d 10s" for its own options
	bench/wrk/run $(ARGS)

clients: build $(TS) ## what a message costs clients of the Go and the TypeScript SDK; ARGS="50 2000" for 50 pairs with 2,000 messages each
	bench/clients/run $(ARGS)

# Autobahn's suite is written for Python 2.7, which comes with pyenv or as PYTHON2.
AUTOBAHN_VERSION := 0.8.2
AUTOBAHN         := $(BUILD)/autobahn-$(AUTOBAHN_VERSION)
autobahn: $(AUTOBAHN)/bin/wstest ## the WebSocket cases of Autobahn's suite, against an echo on our framing; ARGS=-update writes bench/results/autobahn.json
	PYTHONUSERBASE=$(CURDIR)/$(AUTOBAHN) go test -count=1 -vet=off -v -run '^Test(Autobahn|EchoIsWebSocket)$$' ./internal/gateway -args -autobahn $(CURDIR)/$< $(ARGS)

# Go fuzzes one function at a time, so as many as there are cores run side by side.
# Their findings are in testdata/ of the package: commit them with the fix. A run whose
# last input was cut off by the end of its time says "context deadline exceeded" and
# fails, though it has found nothing (golang.org/issue/75804, until Go 1.27): that is no
# failure here.
FUZZTIME ?= 5m
FUZZ     ?= Fuzz
fuzz: ## random input for every decoder and for sessions; FUZZTIME=1h for each, FUZZ=FuzzSession for one
	@grep -rlE '^func $(FUZZ)\w*\(f ' --include='*_test.go' $(GO_DIRS) | xargs -n1 dirname | sort -u | while read -r p; do \
		grep -hoE '^func $(FUZZ)\w*\(f ' $$p/*_test.go | sed -E "s|^func (\w+).*|$$p \1|"; done | \
		xargs -P "$$(getconf _NPROCESSORS_ONLN)" -n 2 sh -c ' \
			out=$$(go test -vet=off -ldflags=-w -run "^$$" -fuzz "^$$2$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s -parallel 1 ./$$1 2>&1) && ok=1 || ok=; \
			echo "$$out"; \
			[ $$ok ] || { echo "$$out" | grep -q "^    context deadline exceeded$$" && ! echo "$$out" | grep -qE "Failing input|panic:|_test.go:"; }' sh

clean: ## remove what was built and installed
	rm -rf $(BUILD) sdk/ts/node_modules sdk/ts/dist web/node_modules

# The modules, with a copy of Pebble that keeps no stacks.
PEBBLE := github.com/cockroachdb/pebble/v2
$(RACE_MOD): go.mod go.sum
	@rm -rf $(BUILD)/race && mkdir -p $(BUILD)/race
	go mod download $(PEBBLE)
	cp -r "$$(go list -m -f '{{.Dir}}' $(PEBBLE))" $(BUILD)/race/pebble && chmod -R u+w $(BUILD)/race/pebble
	@cd $(BUILD)/race/pebble && grep -q '= debug.Stack()$$' file_cache.go && \
		sed -i.before -e '/"runtime\/debug"/d' -e 's/= debug.Stack()$$/= []byte("no stack is kept")/' file_cache.go
	cp go.mod go.sum $(BUILD)/race/ && go mod edit -replace=$(PEBBLE)=$(CURDIR)/$(BUILD)/race/pebble $(BUILD)/race/go.mod
	@touch $@

# --- tools ---------------------------------------------------------------------

$(BUF):
	npm install --prefix $(BUILD)/buf-$(BUF_VERSION) --no-save --no-audit --no-fund --loglevel=error @bufbuild/buf@$(BUF_VERSION)

$(BIN)/protoc-gen-go: go.mod
	go build -o $@ google.golang.org/protobuf/cmd/protoc-gen-go

$(BIN)/protoc-gen-go-vtproto: go.mod
	go build -o $@ github.com/planetscale/vtprotobuf/cmd/protoc-gen-go-vtproto

$(BIN)/protoc-gen-connect-go: go.mod
	go build -o $@ connectrpc.com/connect/cmd/protoc-gen-connect-go

# Not by go install, which asks for a list of versions. The name has the
# version because buf.gen.yaml names it.
$(OPENAPI):
	@mkdir -p $(BUILD)/openapi
	cd $(BUILD)/openapi && printf 'module openapi\n' > go.mod && go get github.com/sudorandom/protoc-gen-connect-openapi@$(OPENAPI_VERSION) && \
		go build -o $(CURDIR)/$@ github.com/sudorandom/protoc-gen-connect-openapi

$(STATICCHECK):
	GOBIN=$(CURDIR)/$(BIN) go install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)
	mv $(BIN)/staticcheck $@

$(K6):
	GOBIN=$(CURDIR)/$(BIN) go install go.k6.io/k6@$(K6_VERSION)
	mv $(BIN)/k6 $@

$(PYTHON): test/foreign/python/requirements.txt
	python3 -m venv $(BUILD)/venv
	$(BUILD)/venv/bin/pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# The server's programs, for tests that start one of their own. Where there is
# no apt-get, install PostgreSQL 15 or newer, or name its folder in PETREL_PG_BIN.
$(POSTGRES):
	@mkdir -p $(BUILD)
	@[ -n "$${PETREL_PG_BIN:-}" ] || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || \
		{ sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; $$sudo apt-get update -qq && $$sudo apt-get install -y -qq --no-install-recommends postgresql; }
	@touch $@

# The browser in which the TypeScript SDK is tested. Where there is no apt-get, name one in
# PETREL_CHROMIUM.
$(CHROMIUM): $(POSTGRES)
	@[ -n "$${PETREL_CHROMIUM:-}" ] || { [ -x /usr/bin/chromium ] && [ -x /usr/bin/chromium-headless-shell ]; } || \
		{ sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; $$sudo apt-get update -qq && $$sudo apt-get install -y -qq --no-install-recommends chromium chromium-headless-shell; }
	@touch $@

# The proxies whose recipes are in docs/guide/proxies.md. RUNLEVEL=1 has Debian start none of them.
# Each has its turn with apt-get, which runs once at a time.
$(PROXIES): $(CHROMIUM)
	@{ command -v nginx && command -v haproxy && command -v caddy; } >/dev/null || \
		{ sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; $$sudo apt-get update -qq && $$sudo env RUNLEVEL=1 apt-get install -y -qq --no-install-recommends nginx haproxy caddy; }
	@touch $@

# For pictures: letters like those of users' systems, signs of all languages, and emojis.
$(FONTS): $(CHROMIUM)
	@[ -e /usr/share/fonts/opentype/inter/Inter-Regular.otf ] && [ -e /usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc ] && [ -e /usr/share/fonts/truetype/noto/NotoColorEmoji.ttf ] || \
		{ sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; $$sudo apt-get update -qq && $$sudo apt-get install -y -qq --no-install-recommends fonts-inter fonts-noto-cjk fonts-noto-color-emoji; }
	@touch $@

# The tools that give the nodes of a test hosts of their own, which only root can. Behind
# the other that calls apt-get, which runs once at a time.
hosts: $(POSTGRES)
	@[ "$$(id -u)" != 0 ] || { command -v ip && command -v nft; } >/dev/null || \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends iproute2 nftables; }

# In a folder of its own, as if it were a user's.
PYTHON2 ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/2.7*/bin/python2.7) python2.7)
$(AUTOBAHN)/bin/wstest:
	PYTHONUSERBASE=$(CURDIR)/$(AUTOBAHN) $(PYTHON2) -m pip install --quiet --disable-pip-version-check --no-warn-script-location --user autobahntestsuite==$(AUTOBAHN_VERSION)

$(NODE): test/foreign/node/package.json test/foreign/node/package-lock.json
	@mkdir -p $(BUILD)/node
	cp $^ $(BUILD)/node/
	npm ci --prefix $(BUILD)/node --no-audit --no-fund --loglevel=error
	@touch $@

# The generator of Java clients and the libraries that these need. Where there is no apt-get,
# install Maven and a JDK 17 or newer.
$(JAVA): test/foreign/generated/java/pom.xml | $(POSTGRES)
	@{ command -v javac && command -v mvn; } >/dev/null || \
		{ sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; $$sudo apt-get update -qq && $$sudo apt-get install -y -qq --no-install-recommends openjdk-17-jdk-headless maven; }
	@rm -rf $(BUILD)/java
	mvn --quiet --batch-mode -f $< dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(BUILD)/java
	@touch $@

$(TS): sdk/ts/package.json sdk/ts/package-lock.json
	npm ci --prefix sdk/ts --no-audit --no-fund --loglevel=error
	@touch $@

# The package of <petrel-chat> for other people's builds, which a test uses.
$(EMBED): | $(TS) $(WEB)
	cd web && npm run --silent fresh

$(WEB): web/package.json web/package-lock.json
	npm ci --prefix web --no-audit --no-fund --loglevel=error
	@touch $@
