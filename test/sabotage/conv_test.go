package sabotage

var convRules = []rule{
	{
		name:    "read-past-head",
		holds:   "a reader sees nothing above the published head",
		patches: []patch{{"internal/conv/history.go", `at := *c.point.Load()`, `at := *c.point.Load(); at.head = c.log.head`}},
		guards:  []guard{{"internal/conv", "^TestF1"}},
	},
	{
		name:  "recipients-before-commit",
		holds: "the recipients of an entry are looked up when it can be read",
		patches: []patch{{
			"internal/conv/commit.go",
			`b.cm.spans = append(b.cm.spans, span{c.key.Tenant, members, from, to})`,
			`var online []im.User
			for _, u := range members {
				if len(b.ow.fan.Table.Of(im.Account{Tenant: c.key.Tenant, User: u})) > 0 {
					online = append(online, u)
				}
			}
			b.cm.spans = append(b.cm.spans, span{c.key.Tenant, online, from, to})`,
		}},
		guards: []guard{{"internal/conv", "^TestF2"}},
	},
	{
		name:  "admit-before-dedupe",
		holds: "a repeat gets its first answer, whatever its sender may do by now",
		patches: []patch{{
			"internal/conv/commit.go",
			`r, found, slot, err := b.repeat(c, s, hash, mac)`,
			`if _, err := b.admit(c, s); err != nil {
				b.answer(s, nil, Result{Err: &im.Error{Code: im.CodeOf(err)}})
				return 0, nil
			}
			r, found, slot, err := b.repeat(c, s, hash, mac)`,
		}},
		guards: []guard{
			{"internal/conv", "^TestF4"},
			{"test/scenario", "^TestScenarios$/^resend-removed$/^Pebble$/^WebSocketProto$"},
		},
	},
	{
		name:    "reuse-seq",
		holds:   "a seq is given once",
		patches: []patch{{"internal/conv/commit.go", `l.head++`, `if l.head%97 != 96 { l.head++ }`}},
		guards: []guard{
			{"internal/conv", "^TestSeqsAreGivenOnceAndWithoutHoles$"},
			{"test/scenario", "^TestScenarios$/^group$/^Pebble$/^TCPProto$"},
			{"test/crash", "^TestKill9LosesNothing$"},
		},
	},
	{
		name:  "skip-membership",
		holds: "only members send and read",
		patches: []patch{
			{"internal/conv/admit.go", `if from != "" && in.members.Role(from) == 0 {`, `if false {`},
			{"internal/conv/members.go", `if user != "" && in.members.Role(user) == 0 {`, `if false {`},
			{"internal/conv/history.go", `first, last, ok = in.members.reach(user, head); !ok`, `ok = true; !ok`},
			{"internal/conv/history.go", `parts = in.members.stays(user, from, to)`, ``},
		},
		guards: []guard{
			{"test/scenario", "^TestScenarios$/^group$/^Pebble$/^WebSocketJSON$"},
			{"test/scenario", "^TestScenarios$/^membership$/^Pebble$/^TCPJSON$"},
			{"test/crash", "^TestKill9LosesNothing$"},
		},
	},
	{
		name:  "trust-memory",
		holds: "an owner asks the store whether it is one before it tells what it remembers",
		patches: []patch{
			{
				"internal/conv/calls.go",
				`if ow.isLost() {
				return errNotOwner`,
				`if true {
				return nil`,
			},
			{"internal/conv/news.go", `if cs.o.Cluster != nil && len(feeds) > 0 {`, `if false {`},
			{"internal/cluster/mine.go", `if c.o.Alone {`, `if true {`},
		},
		guards: []guard{
			{"internal/conv", "^TestF19AFormerOwnerReadsNothingFromMemory$"},
			{"internal/conv", "^TestF19AFormerOwnerTellsOtherNodes"},
			{"internal/conv", "^TestF19AFormerOwnerTellsNoNewsFromMemory$"},
			{"internal/conv", "^TestF19AFormerOwnerRefusesNothingFromMemory$"},
			{"internal/cluster", "^TestF19StoppedNodeIsSucceededAndFindsOut$"},
		},
	},
	{
		name:    "no-refan",
		holds:   "a new owner pushes what the former one committed and may not have pushed",
		patches: []patch{{"internal/conv/convs.go", `if err := ow.refan(ctx); err != nil {`, `if err := error(nil); err != nil {`}},
		guards:  []guard{{"internal/conv", "^TestF8ANewOwnerPushesWhatTheOldOneCommitted$"}},
	},
	{
		name:    "refan-to-all",
		holds:   "what a new owner pushes reaches nobody who became a member later",
		patches: []patch{{"internal/conv/refan.go", `return since[u] > r.Seq`, `return false`}},
		guards:  []guard{{"internal/conv", "^TestF8ANewOwnerPushesNobody"}},
	},
	{
		name:    "pass-fenced",
		holds:   "no send passes one that an owner which lost its feed has not decided",
		patches: []patch{{"internal/conv/forward.go", `if ow != nil {`, `if false {`}},
		guards:  []guard{{"internal/conv", "^TestF5NothingPassesTheCommitOfAFencedOwner$"}},
	},
	{
		name:    "show-rewrites-early",
		holds:   "an edit or recall is not shown before it is durable",
		patches: []patch{{"internal/conv/rewrite.go", `at < pos; {`, `at < pos && false; {`}},
		guards:  []guard{{"internal/conv", "^TestF1RewriteIsNotShownBeforeItIsDurable$"}, {"internal/conv", "^TestF1Reader"}},
	},
	{
		name:    "keep-former-edits",
		holds:   "a body that was edited or recalled is served nowhere",
		patches: []patch{{"internal/conv/rewrite.go", `if t.m.EditedBy == 0 {`, `if true {`}},
		guards:  []guard{{"internal/conv", "^TestF10FormerBodiesAreServedNowhere$"}, {"internal/conv", "^TestF10ConcurrentEdit"}},
	},
	{
		name:    "leave-targets",
		holds:   "an edit or recall changes the message that it aims at",
		patches: []patch{{"internal/conv/rewrite.go", `for i, t := range b.targets {`, `for i, t := range b.targets[:0] {`}},
		guards:  []guard{{"internal/conv", "^TestF10EditAndRecallReachADeviceThatWasAway$"}, {"internal/inbox", "^TestF10"}},
	},
	{
		name:    "recipients-of-the-batch",
		holds:   "an entry goes to the members of its place in the batch",
		patches: []patch{{"internal/conv/commit.go", `if after := c.log.info; after != before {`, `if after := c.log.info; after != before && false {`}},
		guards:  []guard{{"internal/conv", "^TestF17KickInTheMiddleOfABatch$"}},
	},
	{
		name:  "skip-roles",
		holds: "roles decide who may change a group",
		patches: []patch{
			{"internal/conv/admit.go", `return m.Role(u) >= role`, `return true`},
			{"internal/conv/admit.go", `if im.User(r.User) == from && !handsOver {`, `if im.User(r.User) == from && !handsOver && false {`},
			{"internal/conv/admit.go", `if m.Role(from) == petrelv1.Role_ROLE_OWNER && len(m.current) > 1 {`, `if false {`},
		},
		guards: []guard{
			{"internal/conv", "^TestRolesDecideWhoMayChangeAGroup$"},
			{"internal/conv", "^TestOwnerLeavesAsTheLast$"},
			{"internal/conv", "^TestWhoEditsRecallsAndPins$"},
		},
	},
	{
		name:  "ack-before-flush",
		holds: "a move of a cursor is acknowledged when it is durable",
		patches: []patch{{
			"internal/conv/cursor.go",
			`ow.moves++
			ow.node.moves.Add(1)
			p.waiting = append(p.waiting, m)
			ow.mu.Unlock()`,
			`ow.mu.Unlock()
			m.answer(next)`,
		}},
		guards: []guard{{"internal/conv", "^TestF13MoveIsToldWhenItIsDurable$"}},
	},
	{
		name:    "sync-without-cursors",
		holds:   "a sync names the conversations whose cursors have moved",
		patches: []patch{{"internal/conv/changed.go", `own, err := ow.CursorOf(ctx, key, u)`, `own, err := Cursor{}, error(nil); peer = ""`}},
		guards:  []guard{{"internal/inbox", "^TestF12SyncNames"}},
	},
	{
		name:  "forget-dedupe",
		holds: "a repeat is found, however long ago it was sent",
		patches: []patch{
			{"internal/conv/load.go", `c.log.tail.from = c.log.head`, `c.log.tail.from = 0`},
			{"internal/conv/dedupe.go", `if l.tail.find(0, hash, match) || failure != nil {`, `if l.tail.find(0, hash, match) || true {`},
		},
		guards: []guard{
			{"internal/conv", "^TestF3RepeatIsFoundAfterARestart$"},
			{"internal/conv", "^TestF26"},
			{"internal/inbox", "^TestF26"},
			{"test/scenario", "^TestScenarios$/^resend$/^Pebble$/^WebSocketProto$"},
			{"test/crash", "^TestKill9LosesNothing$"},
		},
	},
	{
		name:    "ask-without-mark",
		holds:   "an owner that is asked has applied what the asking node told it before",
		patches: []patch{{"internal/conv/calls.go", `c.Behind = &convpb.Mark{Stream: m.Stream, Num: m.Num}`, `_ = m`}},
		guards:  []guard{{"internal/conv", "^TestF2A"}},
	},
	{
		name:    "refuse-unknown",
		holds:   "a send whose commit may have happened is not refused",
		patches: []patch{{"internal/conv/publish.go", `err == errRests:`, `err == errRests, errors.Is(err, store.ErrUnknown):`}},
		guards:  []guard{{"internal/conv", "^TestF6"}},
	},
	{
		name:    "ask-again-behind",
		holds:   "sends that are asked again keep their place before later ones",
		patches: []patch{{"internal/conv/forward.go", `return append(q.out, q.wait...)`, `return append(q.wait, q.out...)`}},
		guards:  []guard{{"internal/conv", "^TestF14NothingPassesWhat"}},
	},
	{
		name:  "ask-ahead",
		holds: "sends of a conversation wait until those before them are answered",
		patches: []patch{
			{"internal/conv/forward.go", `if len(q.out) == 0 {`, `if true {`},
			{"internal/conv/forward.go", `if len(q.out) == 0 && known`, `if known`},
		},
		guards: []guard{{"internal/conv", "^TestF14NothingIsAsked"}},
	},
	{
		name:    "pass-lane",
		holds:   "a send goes into its lane while others wait there",
		patches: []patch{{"internal/conv/forward.go", `if l.n.Load() == 0 {`, `if true {`}},
		guards:  []guard{{"internal/conv", "^TestF14NothingPassesTheLane"}},
	},
}
