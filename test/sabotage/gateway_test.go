package sabotage

var gatewayRules = []rule{
	{
		name:    "read-strangers-at-once",
		holds:   "what strangers send is read slowly",
		patches: []patch{{"internal/gateway/meter.go", `wait, ok := r.g.meters.take(time.Now(), r, r.g.hub.Limits().NewPerIPPerSecond)`, `wait, ok := time.Duration(0), true`}},
		guards:  []guard{{"internal/gateway", "^TestStrangersAreReadSlowly$"}},
	},
	{
		name:    "count-the-known",
		holds:   "what somebody who is known sends does not wait",
		patches: []patch{{"internal/gateway/meter.go", `r.known.Store(vouchedBytes)`, `_ = vouchedBytes`}},
		guards:  []guard{{"internal/gateway", "^TestWhoIsVouchedForIsReadAtOnce$"}},
	},
	{
		name:    "listen-before-the-hello",
		holds:   "a connection that is not welcomed says a hello and little else",
		patches: []patch{{"internal/gateway/conn.go", `limit >= 0 && c.place.read > 2*limit+maxReadBuffer`, `false && limit >= 0 && c.place.read > 2*limit+maxReadBuffer`}},
		guards:  []guard{{"internal/gateway", "^TestConnectionThatTalksBeforeItsHelloEnds$"}},
	},
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
		name:    "believe-anybody",
		holds:   "nobody but a trusted proxy speaks for somebody else",
		patches: []patch{{"internal/gateway/proxyheader.go", `return g.o.ProxyProtocol && g.trusted(peer)`, `return g.o.ProxyProtocol`}},
		guards:  []guard{{"internal/gateway", "^TestProxyHeaderOfAStrangerIsNotRead$"}},
	},
	{
		name:    "read-ahead-of-the-header",
		holds:   "what follows the header of a proxy is the client's",
		patches: []patch{{"internal/gateway/proxyheader.go", `if _, err := io.ReadFull(r, b[:n]); err != nil {`, `if _, err := r.Read(b[:]); err != nil {`}},
		guards:  []guard{{"internal/gateway", "^TestProxyHeaderIsReadAndNothingBehindIt$"}},
	},
	{
		name:    "count-the-balancer",
		holds:   "nobody pays for what a proxy does not name",
		patches: []patch{{"internal/gateway/proxies.go", `return slices.ContainsFunc(g.o.TrustedProxies,`, `return false && slices.ContainsFunc(g.o.TrustedProxies,`}},
		guards:  []guard{{"internal/gateway", "^TestLimitsBehindAProxyAreTheClients$"}},
	},
}
