package lint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// imports is the table of allowed arrows, which point down: a package and the
// packages of this module it may import. A new arrow needs a line here and a
// reason in the commit. Tests may import what they like. The app is the only
// composition root.
//
// A package brings its generated part with it: who may import wire may import
// the schema, who may import store may import store/storepb. The schema is in
// the module of the Go SDK, which the server shares with its users; that module
// imports nothing else of this one.
var imports = map[string][]string{
	"cmd/petrel":      {"bench", "cmd/petrel/chat", "internal/app", "internal/bus/natsbus", "internal/client", "internal/cluster", "internal/config", "internal/im", "internal/store/pebblestore", "internal/store/pgstore", "internal/wire", "sdk/go"},
	"cmd/petrel/chat": {"internal/wire", "sdk/go"},
	"bench":           {"internal/client", "internal/im", "internal/store/pgserver", "internal/wire"},

	"internal/app":     {anything},
	"internal/api":     {"internal/conv", "internal/fanout", "internal/im", "internal/inbox", "internal/route", "internal/store", "internal/user", "internal/wire"},
	"internal/gateway": {"internal/fanout", "internal/im", "internal/session", "internal/wire"},
	"internal/session": {"internal/bus", "internal/bus/stream", "internal/cluster", "internal/conv", "internal/fanout", "internal/im", "internal/inbox", "internal/route", "internal/session/sessionpb", "internal/user", "internal/wire"},
	"internal/inbox":   {"internal/conv", "internal/fanout", "internal/im", "internal/route", "internal/store", "internal/wire"},
	"internal/route":   {"internal/bus", "internal/bus/stream", "internal/cluster", "internal/conv", "internal/fanout", "internal/im", "internal/route/routepb", "internal/store", "internal/wire"},
	"internal/conv":    {"internal/fanout", "internal/im", "internal/store", "internal/wire"},
	"internal/fanout":  {"internal/bus", "internal/bus/stream", "internal/cluster", "internal/im", "internal/wire"},
	"internal/cluster": {"internal/bus", "internal/im", "internal/store"},
	"internal/user":    {"internal/im", "internal/store"},
	"internal/client":  {"internal/im", "internal/wire"},
	"internal/wire":    {"internal/im"},

	"internal/bus":               {"internal/im"},
	"internal/bus/localbus":      {"internal/bus", "internal/im"},
	"internal/bus/natsbus":       {"internal/bus", "internal/bus/localbus", "internal/im"},
	"internal/bus/stream":        {"internal/bus", "internal/im"},
	"internal/store":             {"internal/im"},
	"internal/store/pebblestore": {"internal/im", "internal/store"},
	"internal/store/pgserver":    {},
	"internal/store/pgstore":     {"internal/im", "internal/store"},

	"internal/config":      {},
	"internal/im":          {},
	"internal/im/gencodes": {},

	"internal/api/genopenapi": {"internal/api", "internal/im"},
	"internal/lint":           {},
	"internal/metrics":        {"internal/im"},
}

// schema is the generated code of proto/petrel/v1.
const schema = "sdk/go/petrelv1"

// anything stands for every package.
const anything = "*"

// stdOnly are packages that import nothing but the standard library.
var stdOnly = []string{"internal/im"}

func importTable(files []file) []string {
	var found []string
	for _, f := range goFiles(files) {
		if f.isTest() {
			continue
		}
		allowed, listed := imports[f.dir()]
		set, a := f.parse()
		if !listed && !strings.HasPrefix(f.path, "sdk/go/") {
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
			case strings.HasPrefix(f.path, "sdk/go/"):
				if ours && !strings.HasPrefix(to, "sdk/go") {
					found = append(found, fmt.Sprintf("%s: the SDK may not import %s", at, to))
				}
			case ours && !slices.Contains(allowed, anything) && !slices.Contains(allowed, owner(to)) && owner(to) != f.dir():
				found = append(found, fmt.Sprintf("%s: %s may not import %s", at, f.dir(), to))
			case !ours && slices.Contains(stdOnly, f.dir()) && strings.Contains(strings.Split(name, "/")[0], "."):
				found = append(found, fmt.Sprintf("%s: %s imports only the standard library, not %s", at, f.dir(), name))
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
