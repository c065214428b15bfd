package sabotage

var gatewayRules = []rule{
	{
		name:    "bound-answers-of-each-connection",
		holds:   "the answers that wait for all connections of a user have one bound",
		patches: []patch{{"internal/gateway/conn.go", `|| c.sess.Unread() > limit+maxAnswers`, ``}},
		guards:  []guard{{"internal/gateway", "^TestConnectionsOfAUserShareTheBoundOfAnswers$"}},
	},
	{
		name:  "wait-for-those-who-take-nothing",
		holds: "a connection that takes nothing of what waits for it is ended",
		patches: []patch{
			{"internal/gateway/loop.go", `if now-c.moved < c.lp.g.stallTicks {`, `if true {`},
			{"internal/gateway/clientconn.go", `case time.Since(moved) >= a.stall:`, `case moved.IsZero():`},
		},
		guards: []guard{
			{"internal/gateway", "^TestConnectionThatTakesNothingIsEnded$/^loop_ws$"},
			{"internal/gateway", "^TestConnectionThatTakesNothingIsEnded$/^tls_ws$"},
		},
	},
	{
		name:  "end-those-who-take-little",
		holds: "a connection that takes little, but something, goes on",
		patches: []patch{
			{"internal/gateway/loop.go", `if taken := c.acknowledged(held); taken != c.taken {`, `if taken := c.acknowledged(held); false && taken != c.taken {`},
			{"internal/gateway/clientconn.go", `case !errors.Is(err, os.ErrDeadlineExceeded):`, `case err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || !moved.IsZero():`},
		},
		guards: []guard{
			{"internal/gateway", "^TestLoopKeepsTheTimesOfItsConnections$/^ws$/^stall$"},
			{"internal/gateway", "^TestStallIsExact$"},
		},
	},
	{
		name:    "upgrade-to-a-drained-node",
		holds:   "a node that is drained refuses the handshake with 503, so that a proxy goes on to another one",
		patches: []patch{{"internal/gateway/upgrade.go", `if g.deaf.Load() || g.hub.Draining() {`, `if g.deaf.Load() {`}},
		guards:  []guard{{"internal/gateway", "^TestUpgradeIsRefusedWhileTheNodeIsDrained$"}},
	},
	{
		name:    "early-reads",
		holds:   "connections without a hello have few reads, and then those of all together",
		patches: []patch{{"internal/gateway/conn.go", `c.place.reads > freeReads && g.limits.takeFurtherRead(time.Now(), 0) > 0`, `false`}},
		guards:  []guard{{"internal/gateway", "^TestReadsBeforeTheHelloAreFew$"}},
	},
	{
		name:    "late-reads",
		holds:   "somebody who was never welcomed is not read for long after the end",
		patches: []patch{{"internal/gateway/conn.go", `return !c.greeted() && reads > maxEarlyExcess`, `return false`}},
		guards:  []guard{{"internal/gateway", "^TestPeersAreReadForAWhileAfterTheEnd$"}},
	},
	{
		name:    "read-strangers-at-once",
		holds:   "what strangers send is read slowly",
		patches: []patch{{"internal/gateway/throttle.go", `wait, ok := p.l.takeRead(time.Now(), p)`, `wait, ok := time.Duration(0), true`}},
		guards:  []guard{{"internal/gateway", "^TestStrangersAreReadSlowly$"}},
	},
	{
		name:    "count-the-known",
		holds:   "what somebody who is known sends does not wait",
		patches: []patch{{"internal/gateway/limits.go", `p.free.Store(vouchedBytes)`, `_ = vouchedBytes`}},
		guards:  []guard{{"internal/gateway", "^TestWhoIsVouchedForIsReadAtOnce$"}},
	},
	{
		name:    "floods-come-back",
		holds:   "an address is shut out if its connections end again and again without a login",
		patches: []patch{{"internal/gateway/limits.go", `l.take(rateOfShortLived, now, a)`, `_ = now`}},
		guards:  []guard{{"internal/gateway", "^TestAddressOfShortLivedConnectionsIsShutOut$"}, {"internal/gateway", "^TestFloodOfOneAddressIsResetAndOthersGetIn$"}},
	},
	{
		name:  "known-are-short-lived",
		holds: "connections on which somebody has logged in do not count against their address",
		patches: []patch{{"internal/gateway/limits.go", `	p.known.Store(true)
`, ``}},
		guards: []guard{{"internal/gateway", "^TestConnectionsOfTheKnownAreNotShortLived$"}},
	},
	{
		name:    "loops-take-all-at-once",
		holds:   "an event loop takes few new connections at once",
		patches: []patch{{"internal/gateway/gateway.go", `maxEnrolling*max(1, o.Loops)`, `o.MaxUpgrades`}},
		guards:  []guard{{"internal/gateway", "^TestConnectionsWaitForTheirTurnAtTheLoop$"}},
	},
	{
		name:    "listen-before-the-hello",
		holds:   "a connection that is not welcomed says a hello and little else",
		patches: []patch{{"internal/gateway/conn.go", `limit >= 0 && c.place.bytes > 2*limit+maxReadBuffer`, `false && limit >= 0 && c.place.bytes > 2*limit+maxReadBuffer`}},
		guards:  []guard{{"internal/gateway", "^TestConnectionThatTalksBeforeItsHelloEnds$"}},
	},
	{
		name:    "silent-ones-stay",
		holds:   "connections that say nothing keep nobody out",
		patches: []patch{{"internal/gateway/limits.go", `if !p.silent.IsZero() && now.Sub`, `if false && !p.silent.IsZero() && now.Sub`}},
		guards:  []guard{{"internal/gateway", "^TestSilentConnectionMakesRoom$"}},
	},
	{
		name:    "silent-ones-hold-operators-up",
		holds:   "connections to the address of operators that say nothing, or not all of a request, make room for others",
		patches: []patch{{"internal/gateway/admin.go", `p.note(state, true)`, `p.note(state, state == http.StateIdle)`}},
		guards:  []guard{{"internal/gateway", "^TestOnlyRequestsOfOperatorsKeepTheirPlaces$"}},
	},
	{
		name:  "end-requests-of-operators",
		holds: "a request of an operator is not ended for another connection",
		patches: []patch{{"internal/gateway/limits.go", `	p.known.Store(true)
	p.await(time.Time{})`, `	p.known.Store(true)`}},
		guards: []guard{{"internal/gateway", "^TestOnlyRequestsOfOperatorsKeepTheirPlaces$"}, {"internal/gateway", "^TestRequestsOfOperatorsKeepTheirConnections$"}},
	},
	{
		name:    "drips-end-silence",
		holds:   "bytes that drip into a handshake end no silence",
		patches: []patch{{"internal/gateway/clientconn.go", `if !a.await(begun.Add(a.budget - handshakeTimeout)) {`, `if !a.await(begun) {`}},
		guards:  []guard{{"internal/gateway", "^TestSilenceOfAHandshakeIsThatOfAllItsReads$"}},
	},
	{
		name:    "noise-is-a-hello",
		holds:   "a connection that sends frames without an end makes room for another one",
		patches: []patch{{"internal/gateway/conn.go", `if c.place.bytes += n; limit`, `c.place.await(time.Time{}); if c.place.bytes += n; limit`}},
		guards:  []guard{{"internal/gateway", "^TestSilentConnectionIsEndedForAnother$"}},
	},
	{
		name:    "origin-by-host",
		holds:   "a page of the server has its scheme, host and port",
		patches: []patch{{"internal/gateway/httpsecurity.go", `case strings.EqualFold(scheme, "http") && g.o.TLS == nil:`, `case scheme != "":`}},
		guards:  []guard{{"internal/gateway", "^TestOwnPagesHaveSchemeHostAndPort$"}},
	},
	{
		name:    "strangers-read-metrics",
		holds:   "pages of strangers ask the address of operators for nothing but what a link shows",
		patches: []patch{{"internal/gateway/admin.go", `r.Header.Get("Sec-Fetch-Mode") != "navigate"`, `false`}},
		guards:  []guard{{"internal/gateway", "^TestPagesOfStrangersReachNoOperatorsAddress$"}},
	},
	{
		name:    "end-whom-we-keep-waiting",
		holds:   "a connection whose hello the server checks does not make room for another one",
		patches: []patch{{"internal/gateway/limits.go", `if !p.silent.IsZero() && now.Sub`, `if now.Sub`}},
		guards:  []guard{{"internal/gateway", "^TestSilentConnectionMakesRoom$"}},
	},
	{
		name:    "large-frames",
		holds:   "a frame of HTTP/2 has at most 16 KiB",
		patches: []patch{{"internal/gateway/httpserver.go", `MaxReadFrameSize:              16 << 10`, `MaxReadFrameSize:              1 << 20`}},
		guards:  []guard{{"internal/gateway", "^TestOneConnectionOfHTTP2IsBounded$"}},
	},
	{
		name:    "blame-clients-for-proxies",
		holds:   "a close without a mask, as Caddy sends it, ends a connection and does not blame the client",
		patches: []patch{{"internal/gateway/ws.go", `case !h.masked && h.op != opClose:`, `case !h.masked:`}},
		guards:  []guard{{"internal/gateway", "^TestWebSocketFramesAreCut$/^a_close_that_is_unmasked$"}},
	},
	{
		name:    "silence-about-proxies",
		holds:   "a proxy that names clients and is not trusted is logged",
		patches: []patch{{"internal/gateway/forwardedheader.go", `if r.Header.Get(g.o.ProxyHeader) == "" || !peer.IsLoopback() && !peer.IsPrivate() {`, `if true {`}},
		guards:  []guard{{"internal/gateway", "^TestAProxyThatIsNotTrustedIsLoggedOnce$"}},
	},
	{
		name:    "take-commands-for-proxies",
		holds:   "a program on the host does not use up the warning about a proxy that names no client",
		patches: []patch{{"internal/gateway/forwardedheader.go", `case client == peer && (named || `, `case false && (named || `}},
		guards:  []guard{{"internal/gateway", "^TestAProxyThatNamesNoClientIsToldFromItsHost$"}},
	},
	{
		name:    "silence-about-a-changed-host",
		holds:   "pages of the server that a proxy sends on under another name are refused with that",
		patches: []patch{{"internal/gateway/httpsecurity.go", `name != "" && access.named(name)`, `false && access.named(name)`}},
		guards:  []guard{{"internal/gateway", "^TestARefusedOriginSaysWhatIsMissing$"}},
	},
	{
		name:    "upgrade-old-http",
		holds:   "a request for WebSocket over HTTP/1.0 is answered with what the proxy has to do",
		patches: []patch{{"internal/gateway/upgrade.go", `r.ProtoMajor == 1 && r.ProtoMinor > 0 && `, `r.ProtoMajor == 1 && `}},
		guards:  []guard{{"internal/gateway", "^TestAProxyThatSpeaksHTTP10IsNamed$"}},
	},
	{
		name:    "believe-anybody",
		holds:   "nobody but a trusted proxy speaks for somebody else",
		patches: []patch{{"internal/gateway/proxyprotocol.go", `return g.o.ProxyProtocol && g.trusted(peer)`, `return g.o.ProxyProtocol`}},
		guards:  []guard{{"internal/gateway", "^TestProxyHeaderOfAStrangerIsNotRead$"}},
	},
	{
		name:    "read-ahead-of-the-header",
		holds:   "what follows the header of a proxy is the client's",
		patches: []patch{{"internal/gateway/proxyprotocol.go", `if _, err := io.ReadFull(r, b[:n]); err != nil {`, `if _, err := r.Read(b[:]); err != nil {`}},
		guards:  []guard{{"internal/gateway", "^TestProxyHeaderIsReadAndNothingBehindIt$"}},
	},
	{
		name:    "count-the-balancer",
		holds:   "nobody pays for what a proxy does not name",
		patches: []patch{{"internal/gateway/forwardedheader.go", `return slices.ContainsFunc(g.access.Load().Proxies,`, `return false && slices.ContainsFunc(g.access.Load().Proxies,`}},
		guards:  []guard{{"internal/gateway", "^TestLimitsBehindAProxyAreTheClients$"}},
	},
}
