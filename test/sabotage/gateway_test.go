package sabotage

var gatewayRules = []rule{
	{
		name:    "silent-ones-stay",
		holds:   "connections that say nothing keep nobody out",
		patches: []patch{{"internal/gateway/limits.go", `if p, ok := e.Value.(*place); ok && !p.silent.IsZero()`, `if p, ok := e.Value.(*place); false && ok && !p.silent.IsZero()`}},
		guards:  []guard{{"internal/gateway", "^TestSilentConnectionMakesRoom$"}},
	},
	{
		name:    "end-whom-we-keep-waiting",
		holds:   "a connection whose hello the server checks does not make room for another one",
		patches: []patch{{"internal/gateway/limits.go", `if p, ok := e.Value.(*place); ok && !p.silent.IsZero()`, `if p, ok := e.Value.(*place); ok`}},
		guards:  []guard{{"internal/gateway", "^TestSilentConnectionMakesRoom$"}},
	},
	{
		name:    "count-the-balancer",
		holds:   "nobody pays for what a proxy does not name",
		patches: []patch{{"internal/gateway/proxies.go", `return slices.ContainsFunc(g.o.TrustedProxies,`, `return false && slices.ContainsFunc(g.o.TrustedProxies,`}},
		guards:  []guard{{"internal/gateway", "^TestLimitsBehindAProxyAreTheClients$"}},
	},
}
