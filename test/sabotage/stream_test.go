package sabotage

var streamRules = []rule{
	{
		name:    "serve-ahead",
		holds:   "a request is served when what was sent before it has been applied",
		patches: []patch{{"internal/bus/stream/stream.go", `if m == (Mark{}) {`, `if true {`}},
		guards:  []guard{{"internal/bus/stream", "^TestF2A"}, {"internal/fanout", "^TestF2LoginAgainstCommitAcrossNodes$"}, {"internal/route", "^TestF2A"}},
	},
	{
		name:  "beat-without-number",
		holds: "a packet without frames carries the number of the next one, or nobody misses the last frame",
		patches: []patch{{
			"internal/bus/stream/sendring.go",
			`if t.sent == t.last || t.flight >= window {`,
			`if t.sent == t.last || t.flight >= window { p.First = 0`,
		}},
		guards: []guard{{"internal/bus/stream", "^TestF9aTheLastFrame"}, {"internal/fanout", "^TestF9TheLastDelivery"}},
	},
	{
		name:    "drop-overflow",
		holds:   "a frame that is dropped leaves a hint",
		patches: []patch{{"internal/bus/stream/sendring.go", `case f.hint.Kind == kindReset && f.hint.Optional:`, `case true:`}},
		guards:  []guard{{"internal/bus/stream", "^TestF9bOverflow"}, {"internal/fanout", "^TestF9Overflow"}},
	},
	{
		name:  "forget-incarnation",
		holds: "a stream belongs to two processes, not to two nodes",
		patches: []patch{
			{"internal/bus/stream/peerlink.go", `case l != nil && p.From == l.them && p.To == l.us:`, `case l != nil:`},
			{"internal/bus/stream/peerlink.go", `c.offer.us == 0 || c.offer.them != 0 && c.offer.them != p.From`, `c.offer.us == 0`},
		},
		guards: []guard{{"internal/bus/stream", "^TestF9cAFormerProcess"}, {"internal/bus/stream", "^TestF9cAProcessIsKilled$"}},
	},
	{
		name:    "assume-heard",
		holds:   "what was sent is known to be heard by its echo only",
		patches: []patch{{"internal/bus/stream/peerlink.go", `l.theirs = max(l.theirs, p.Clock)`, `l.theirs, l.echoed = max(l.theirs, p.Clock), l.clock`}},
		guards:  []guard{{"internal/bus/stream", "^TestF9d"}},
	},
	{
		name:    "apply-ahead",
		holds:   "a frame waits for the ones before it",
		patches: []patch{{"internal/bus/stream/peerlink.go", `if p.First > l.received+1 {`, `if false {`}},
		guards:  []guard{{"internal/bus/stream", "^TestF9e"}},
	},
	{
		name:  "apply-twice",
		holds: "a frame is applied once",
		patches: []patch{
			{"internal/bus/stream/peerlink.go", `if p.Count == 0 || last <= l.received {`, `if p.Count == 0 {`},
			{"internal/bus/stream/peerlink.go", `for ; first < n; first++ {`, `for ; false; first++ {`},
		},
		guards: []guard{{"internal/bus/stream", "^TestF9Duplicates"}},
	},
}
