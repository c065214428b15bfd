package lint

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// imports is the table of allowed arrows, which point down: a package and the
// packages of this module it may import. A new arrow needs a line here and a
// reason in the commit. Tests may import what they like. The app is the only
// composition root.
//
// A package brings its generated part with it: a package that may import wire may import
// the schema, and one that may import store may import store/storepb. The schema lives in
// the Go SDK, which the server shares with its users; the SDK imports nothing of the
// server.
var imports = map[string][]string{
	"cmd/petrel":       {"bench", "bench/compare", "bench/page", "internal/app", "internal/bus/natsbus", "internal/checker", "internal/cluster", "internal/config", "internal/console", "internal/im", "internal/proxycheck", "internal/logbuffer", "internal/regular", "internal/repeats", "internal/store/pebblestore", "internal/store/pgstore", "internal/terminal", "internal/wire", "sdk/go"},
	"bench/page":       {"bench", "bench/compare"},
	"bench/compare":    {"bench"},
	"bench/clients":    {"sdk/go"},
	"bench/guest/init": {},
	"bench/genschema":  {"bench", "internal/checker"},
	"bench":            {"internal/checker", "internal/im", "internal/process", "internal/store/pgserver", "internal/wire", "sdk/go"},

	"examples/first-app": {}, // it shows what others write

	"internal/app":         {anything},
	"internal/api":         {"internal/audit", "internal/conv", "internal/fanout", "internal/im", "internal/inbox", "internal/measure", "internal/operator", "internal/rate", "internal/report", "internal/route", "internal/share", "internal/store", "internal/user", "internal/wire"},
	"internal/console":     {"internal/bus", "internal/cluster", "internal/fanout", "internal/im", "internal/inbox", "internal/measure", "internal/policy", "internal/store", "internal/user", "internal/wire"},
	"internal/gateway":     {"internal/fanout", "internal/im", "internal/measure", "internal/rate", "internal/session", "internal/share", "internal/wake", "internal/wire"},
	"internal/session":     {"internal/bus", "internal/bus/stream", "internal/cluster", "internal/conv", "internal/fanout", "internal/im", "internal/inbox", "internal/measure", "internal/policy", "internal/presence", "internal/rate", "internal/route", "internal/session/sessionpb", "internal/share", "internal/user", "internal/wake", "internal/wire"},
	"internal/inbox":       {"internal/conv", "internal/fanout", "internal/feed", "internal/im", "internal/policy", "internal/route", "internal/store", "internal/user", "internal/wire"},
	"internal/route":       {"internal/bus", "internal/bus/stream", "internal/cluster", "internal/conv", "internal/fanout", "internal/im", "internal/route/routepb", "internal/store", "internal/wake", "internal/wire"},
	"internal/conv":        {"internal/fanout", "internal/im", "internal/measure", "internal/note", "internal/policy", "internal/rate", "internal/store", "internal/wake", "internal/wire"},
	"internal/note":        {"internal/fanout", "internal/im", "internal/store", "internal/wake", "internal/wire"}, // the schema of wire
	"internal/fanout":      {"internal/bus", "internal/bus/stream", "internal/cluster", "internal/im", "internal/measure", "internal/policy", "internal/wake", "internal/wire"},
	"internal/presence":    {"internal/fanout", "internal/im", "internal/rate", "internal/store", "internal/user", "internal/wake", "internal/wire"},
	"internal/feed":        {"internal/im", "internal/wake", "internal/store"},
	"internal/cluster":     {"internal/bus", "internal/im", "internal/store", "internal/wake"},
	"internal/operator":    {"internal/im", "internal/password", "internal/rate", "internal/store", "internal/transaction", "internal/user"},
	"internal/report":      {"internal/im", "internal/store", "internal/transaction"},
	"internal/password":    {"internal/im", "internal/rate", "internal/regular", "internal/store"},
	"internal/idp":         {"internal/im"},
	"internal/transaction": {"internal/im", "internal/store"},
	"internal/user":        {"internal/idp", "internal/im", "internal/password", "internal/rate", "internal/store", "internal/transaction"},
	"internal/audit":       {"internal/im", "internal/rate", "internal/store", "internal/wake"},
	"internal/policy":      {"internal/im", "internal/wire"}, // the schema of wire
	"internal/wire":        {"internal/im"},
	"internal/rate":        {"internal/im"},
	"internal/share":       {"internal/im"},
	"internal/maintenance": {"internal/bus", "internal/cluster", "internal/im", "internal/store", "internal/store/pgstore", "internal/wire"},

	"internal/bus":               {"internal/im"},
	"internal/bus/localbus":      {"internal/bus", "internal/im"},
	"internal/bus/natsbus":       {"internal/bus", "internal/bus/localbus", "internal/im"},
	"internal/bus/stream":        {"internal/bus", "internal/im", "internal/wake"},
	"internal/store":             {"internal/im"},
	"internal/store/markfile":    {},
	"internal/store/pebblestore": {"internal/im", "internal/wake", "internal/store", "internal/store/markfile", "internal/wire"},
	"internal/store/pgserver":    {"internal/process"},
	"internal/store/pgstore":     {"internal/im", "internal/wake", "internal/store", "internal/store/markfile"},

	"internal/checker":     {"internal/wire"},
	"internal/config":      {"internal/regular"},
	"internal/im":          {},
	"internal/im/gencodes": {},

	"internal/wire/genjson":   {},
	"internal/wire/gents":     {},
	"internal/api/genopenapi": {"internal/api", "internal/im"},
	"internal/lint":           {},
	"internal/logbuffer":      {"internal/wake"},
	"internal/measure":        {},
	"internal/metrics":        {"internal/measure"},
	"internal/process":        {},
	"internal/proxycheck":     {"internal/im"},
	"internal/regular":        {},
	"internal/repeats":        {},
	"internal/wake":           {},
	"internal/terminal":       {},
	"internal/web":            {},
}

// schema is the generated code of proto/petrel/v1.
const schema = "sdk/go/petrelv1"

// anything stands for every package.
const anything = "*"

// stdOnly are packages that import nothing but the standard library.
var stdOnly = []string{"internal/im", "internal/terminal"}

// sdk is the Go SDK. A program that uses it links sdkModules and nothing of the
// server. Its tests keep to that too, so that they run from the SDK alone.
const sdk = "sdk/go/"

var sdkModules = []string{module + "/" + sdk, "connectrpc.com/connect/", "github.com/coder/websocket/", "google.golang.org/protobuf/"}

func importTable(files []file) []string {
	var found []string
	for _, f := range goFiles(files) {
		inSDK := strings.HasPrefix(f.path, sdk)
		if f.isTest() && !inSDK {
			continue
		}
		allowed, listed := imports[f.dir()]
		set, a := f.parse()
		if !listed && !inSDK {
			found = append(found, fmt.Sprintf("%s: package %s has no line in the table of imports", f.path, f.dir()))
			continue
		}
		for _, spec := range a.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue
			}
			at := set.Position(spec.Pos())
			to, ours := strings.CutPrefix(name, module+"/")
			switch {
			case inSDK:
				if !isStandard(name) && !slices.ContainsFunc(sdkModules, func(m string) bool { return strings.HasPrefix(name+"/", m) }) {
					found = append(found, fmt.Sprintf("%s: the SDK may not import %s", at, name))
				}
			case ours && !slices.Contains(allowed, anything) && !slices.Contains(allowed, owner(to)) && owner(to) != f.dir():
				found = append(found, fmt.Sprintf("%s: %s may not import %s", at, f.dir(), to))
			case !ours && slices.Contains(stdOnly, f.dir()) && !isStandard(name):
				found = append(found, fmt.Sprintf("%s: %s imports only the standard library, not %s", at, f.dir(), name))
			}
		}
	}
	return found
}

// isStandard tells whether a package is of the standard library.
func isStandard(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !strings.Contains(first, ".")
}

// oneModule finds what would build here and not by go install at a version,
// which ignores workspaces and refuses replacements.
func oneModule(files []file) []string {
	var found []string
	for _, f := range files {
		switch path.Base(f.path) {
		case "go.work":
			found = append(found, f.path+": a workspace; everything is one module")
		case "go.mod":
			if f.path != "go.mod" {
				found = append(found, f.path+": a second module")
			}
			for n, line := range strings.Split(f.text, "\n") {
				if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); word == "replace" || word == "exclude" {
					found = append(found, fmt.Sprintf("%s:%d: go install at a version refuses it", f.path, n+1))
				}
			}
		}
	}
	return found
}

// owner is the package that a generated package is part of.
func owner(pkg string) string {
	switch {
	case strings.HasPrefix(pkg, schema):
		return "internal/wire"
	case pkg == "internal/store/storepb":
		return "internal/store"
	case pkg == "internal/bus/buspb":
		return "internal/bus"
	case pkg == "internal/cluster/clusterpb":
		return "internal/cluster"
	case pkg == "internal/conv/convpb":
		return "internal/conv"
	}
	return pkg
}
