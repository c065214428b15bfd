package sabotage

var clusterRules = []rule{
	{
		name:    "keep-feeds-when-slow",
		holds:   "a node that the store answers late, and the others soon, gives its feeds up",
		patches: []patch{{"internal/cluster/slownode.go", `slow := l.reads >= 2`, `slow := l.reads > 1e9`}},
		guards:  []guard{{"internal/cluster", "^TestSlowNodeGivesItsFeedsUp$"}},
	},
	{
		name:    "slow-beside-slow-ones",
		holds:   "a store that is late for most nodes moves nothing",
		patches: []patch{{"internal/cluster/slownode.go", ` && 2*quick > takers`, ` && 2*quick >= takers`}},
		guards:  []guard{{"internal/cluster", "^TestNobodyIsSlowBesideOthersThatAre$"}},
	},
	{
		name:    "late-once-is-late",
		holds:   "a read of another node that is late once does not keep a slow node its feeds",
		patches: []patch{{"internal/cluster/slownode.go", `all[max(0, len(all)-2)]`, `all[len(all)-1]`}},
		guards:  []guard{{"internal/cluster", "^TestReadOfAnotherThatIsLateOnceDelaysNothing$"}},
	},
	{
		name:    "slow-node-commits-on",
		holds:   "the commits of a slow node keep its feeds for a second at most",
		patches: []patch{{"internal/cluster/feeds.go", `wait = slowClose`, `wait = callWait`}},
		guards:  []guard{{"internal/cluster", "^TestSlowNodeWaitsForItsCommitsForASecond$"}},
	},
	{
		name:    "stay-apart",
		holds:   "a node that the others do not hear gives its feeds up",
		patches: []patch{{"internal/cluster/feeds.go", `if !c.o.Alone {`, `if false {`}},
		guards:  []guard{{"internal/cluster", "^TestNodeThatIsApartGivesItsFeedsUp$"}},
	},
	{
		name:    "cling-to-epochs",
		holds:   "a node forgets an epoch that the store has lost",
		patches: []patch{{"internal/cluster/heartbeat.go", `ok && h.Epoch < heard[i].epoch`, `ok && false && h.Epoch < heard[i].epoch`}},
		guards:  []guard{{"internal/cluster", "^TestF5"}},
	},
	{
		name:    "hand-over-unsealed",
		holds:   "a feed is handed over when its owner has closed it",
		patches: []patch{{"internal/cluster/feeds.go", `w.owners.Close(ctx, f.id)`, `if !handOver { w.owners.Close(ctx, f.id) }`}},
		guards:  []guard{{"internal/cluster", "^TestF14Drain"}},
	},
	{
		name:    "open-on-stale-release",
		holds:   "a release of an epoch that is over opens nothing",
		patches: []patch{{"internal/cluster/feeds.go", `case f.phase == closing, c.routes[id].Load().epoch > e:`, `case f.phase == closing:`}},
		guards:  []guard{{"internal/cluster", "^TestF14Stale"}},
	},
	{
		name:    "count-old-claims",
		holds:   "a claim of an epoch that is over keeps no feed closed",
		patches: []patch{{"internal/cluster/feeds.go", `(e == 0 || e >= highest)`, `(e == 0 || e >= highest || true)`}},
		guards:  []guard{{"internal/cluster", "^TestF19Claims"}},
	},
	{
		name:    "lose-unheard",
		holds:   "a feed whose owner is lost before it is open is opened again",
		patches: []patch{{"internal/cluster/feeds.go", `o.lostIn = max(o.lostIn, e)`, `_ = e`}},
		guards:  []guard{{"internal/cluster", "^TestFeedThatIsLostBeforeItIsOpenIsOpenedAgain$"}},
	},
	{
		name:    "expire-through-outage",
		holds:   "an outage of the database does not make a node look dead",
		patches: []patch{{"internal/cluster/peers.go", `steady := gap <= steadyGap && (joining || now.Sub(c.ownSeen) <= steadyOwn)`, `steady := gap <= steadyGap || true`}},
		guards:  []guard{{"internal/cluster", "^TestF19Outage"}},
	},
	{
		name:    "join-unasked",
		holds:   "a node that starts asks its peers what they know of the databases before it joins",
		patches: []patch{{"internal/cluster/join.go", `silent := c.askSeen(ctx, told)`, `silent := len(told) > 0`}},
		guards:  []guard{{"internal/cluster", "^TestPrimaryFromBeforeAFailoverHasNoNodes$"}},
	},
	{
		name:    "deaf-to-generations",
		holds:   "a node gives a database up of which a peer knows a higher generation",
		patches: []patch{{"internal/cluster/join.go", `if c.o.Databases != nil && s != nil {`, `if false && c.o.Databases != nil && s != nil {`}},
		guards:  []guard{{"internal/cluster", "^TestPrimaryFromBeforeAFailoverHasNoNodes$"}},
	},
	{
		name:    "open-sealed",
		holds:   "nobody opens a feed that moves to another database",
		patches: []patch{{"internal/cluster/heartbeat.go", `if !h.State.Takes() {`, `if false {`}},
		guards:  []guard{{"internal/cluster", "^TestF27"}},
	},
}
