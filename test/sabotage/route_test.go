package sabotage

var routeRules = []rule{
	{
		name:  "trust-memory",
		holds: "an owner asks the store whether it is one before it tells what it remembers",
		patches: []patch{
			{"internal/route/findowner.go", `if o.cluster == nil || len(all) == 0 {`, `if true {`},
			{"internal/cluster/ownershipcheck.go", `if c.o.Alone {`, `if true {`},
		},
		guards: []guard{
			{"internal/route", "^TestF19AFormerOwnerReadsNothingFromMemory$"},
			{"internal/route", "^TestF19AFormerOwnerTellsOtherNodes"},
			{"internal/route", "^TestF19AFormerOwnerTellsNoNewsFromMemory$"},
			{"internal/route", "^TestF19AFormerOwnerRefusesNothingFromMemory$"},
			{"internal/cluster", "^TestF19StoppedNodeIsSucceededAndFindsOut$"},
		},
	},
	{
		name:    "pass-fenced",
		holds:   "no send passes one that an owner which lost its feed has not decided",
		patches: []patch{{"internal/route/sendcarrier.go", `case ow != nil:`, `case false:`}},
		guards:  []guard{{"internal/route", "^TestF5NothingPassesTheCommitOfAFencedOwner$"}},
	},
	{
		name:    "outlive-the-router",
		holds:   "the way to the owners ends after the questions and moves that it began",
		patches: []patch{{"internal/route/tasks.go", `_ = t.slots.Acquire(context.Background(), t.max)`, ``}},
		guards:  []guard{{"internal/route", "^TestRunWaitsForWhatItBegan$"}},
	},
	{
		name:    "ask-without-mark",
		holds:   "an owner that is asked has applied what the asking node told it before",
		patches: []patch{{"internal/route/call.go", `m.Mark = &routepb.Mark{Stream: mark.Stream, Num: mark.Num}`, `_ = mark`}},
		guards:  []guard{{"internal/route", "^TestF2A"}},
	},
	{
		name:    "ask-again-behind",
		holds:   "sends that are asked again keep their place before later ones",
		patches: []patch{{"internal/route/lane.go", `return append(q.out, q.wait...)`, `return append(q.wait, q.out...)`}},
		guards:  []guard{{"internal/route", "^TestF14NothingPassesWhat"}},
	},
	{
		name:  "ask-ahead",
		holds: "sends of a conversation wait until those before them are answered",
		patches: []patch{
			{"internal/route/lane.go", `if len(q.out) == 0 {`, `if true {`},
			{"internal/route/sendcarrier.go", `if len(q.out) == 0 && known`, `if known`},
		},
		guards: []guard{{"internal/route", "^TestF14NothingIsAsked"}},
	},
	{
		name:    "pass-lane-after-open",
		holds:   "a send goes into its lane while others of its conversation wait there, though the owner is here",
		patches: []patch{{"internal/route/sendcarrier.go", `if l.queues[s.Conv] == nil {`, `if true {`}},
		guards:  []guard{{"internal/route", "^TestF14NothingPassesTheLaneAfter"}},
	},
	{
		name:  "lane-seems-empty",
		holds: "a lane counts as empty only when the owner has what was in it",
		patches: []patch{{"internal/route/sendcarrier.go", `l.n.Add(n)
	defer l.n.Add(-n)`, `_ = n`}},
		guards: []guard{{"internal/route", "^TestF14NothingPassesTheLaneByWhen"}},
	},
	{
		name:    "former-sends-last",
		holds:   "sends that a former owner has not decided come before the later ones of their conversation",
		patches: []patch{{"internal/route/lane.go", `append(first.wait, q.all()...), nil`, `append(q.all(), first.wait...), nil`}},
		guards:  []guard{{"internal/route", "^TestF5NothingPassesTheCommitOfAFencedOwner$"}},
	},
	{
		name:    "tickets-from-one",
		holds:   "an answer to a send of a former process of a node answers no send of the present one",
		patches: []patch{{"internal/route/sendcarrier.go", `l.last = o.cluster.Incarnation() >> (64 - ticketShift + 1)`, `_ = l`}},
		guards:  []guard{{"internal/route", "^TestAnAnswerToAFormerProcessAnswersNoSend$"}},
	},
	{
		name:  "refuse-what-was-sent-twice",
		holds: "a refusal settles no send of which another copy may be stored later",
		patches: []patch{
			{"internal/route/sendcarrier.go", `(p.asked > 1 || p.s.Asked)`, `false`},
			{"internal/conv/send.go", `if s.Asked && r.Err != nil`, `if false && r.Err != nil`},
		},
		guards: []guard{{"internal/route", "^TestARefusalOfASendThatWasSentAgain"}, {"internal/route", "^TestARefusalHereOf"}},
	},
	{
		name:    "packets-in-one-frame",
		holds:   "the sends of a packet are in frames of bounded size",
		patches: []patch{{"internal/route/packet.go", `len(p.frames[last])+n > packetSize`, `false`}},
		guards:  []guard{{"internal/route", "^TestFramesOfAPacketAreBounded$"}},
	},
}
