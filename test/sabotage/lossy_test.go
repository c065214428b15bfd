package sabotage

// lossyRules are about what may be lost: signals and presence.
var lossyRules = []rule{
	{
		name:    "policies-to-read-without-bound",
		holds:   "changes of presence policies that wait to be read have a bound",
		patches: []patch{{"internal/presence/policychange.go", `if !t.stale {`, `if true {`}},
		guards:  []guard{{"internal/presence", "^TestPoliciesToReadAgainAreBounded$"}},
	},
	{
		name:  "typing-after-its-message",
		holds: "a signal that waits for the load of its conversation has the head from before the sends that wait too",
		patches: []patch{{
			"internal/conv/signaladmission.go",
			`for _, s := range c.signals {
				si.signalLocked(c, s)
			}`,
			`late := c.signals
			time.AfterFunc(50*time.Millisecond, func() {
				for _, s := range late {
					si.signalLocked(c, s)
				}
			})`,
		}},
		guards: []guard{{"internal/conv", "^TestTypingIsNeverAfterItsOwnMessage$"}},
	},
	{
		name:  "signals-of-outsiders",
		holds: "only who is a member signals",
		patches: []patch{
			{"internal/conv/signaladmission.go", `if in.record == nil || in.members.Role(from) == 0 {`, `if in.record == nil || from == "" {`},
			{"internal/conv/signaladmission.go", `case in.members.Role(from) == 0:`, `case false:`},
		},
		guards: []guard{
			{"internal/conv", "^TestSignalsAreForMembersOnly$"},
			{"test/scenario", "^TestScenarios$/^signals$/^Pebble$"},
		},
	},
	{
		name:    "signals-refuse-sends",
		holds:   "a look for an outsider's standing refuses no send that needs none",
		patches: []patch{{"internal/conv/outsider.go", `== u && s.needsStanding() {`, `== u {`}},
		guards:  []guard{{"internal/conv", "^TestASignalOfAnOutsiderRefusesNoMessage$"}},
	},
	{
		name:    "signals-from-memory",
		holds:   "a node that has lost a feed tells no signal to those whom it remembers as members",
		patches: []patch{{"internal/conv/convs.go", `if cs.elsewhere.ConfirmAll != nil {`, `if false {`}},
		guards:  []guard{{"internal/route", "^TestF19AFormerOwnerTellsNobodyASignal$"}},
	},
	{
		name:    "signals-seem-new",
		holds:   "a signal has the time at which the node of its sender has read it",
		patches: []patch{{"internal/conv/signaladmission.go", `s.Signal.Head = uint64(at.head)`, `s.Signal.Head, s.Signal.TimeMs = uint64(at.head), uint64(si.now().UnixMilli())`}},
		guards:  []guard{{"internal/route", "^TestASignalKeepsItsTimeOnTheWayToTheOwner$"}},
	},
	{
		name:    "seen-earlier",
		holds:   "when a user was online last goes back by no node that stood still",
		patches: []patch{{"internal/presence/lastseen.go", `binary.BigEndian.Uint64(was) < ms {`, `true {`}},
		guards:  []guard{{"internal/presence", "^TestALaterTimeOfBeingOnlineStays$"}},
	},
	{
		name:    "seen-unchecked",
		holds:   "when a user was online last is stored only over what was read",
		patches: []patch{{"internal/presence/lastseen.go", `Check: true, Was: was,`, `Check: false,`}},
		guards:  []guard{{"internal/presence", "^TestALaterTimeOfBeingOnlineStays$"}},
	},
	{
		name:    "signals-without-limit",
		holds:   "a conversation takes three typings and twenty other signals in a second",
		patches: []patch{{"internal/conv/signaladmission.go", `perSecond)) > 0 {`, `perSecond)) > 0 && false {`}},
		guards:  []guard{{"internal/conv", "^TestAGroupTakesThreeTypingsInASecond$"}},
	},
	{
		name:    "typing-to-everybody",
		holds:   "typing reaches at most a hundred sessions",
		patches: []patch{{"internal/fanout/signal.go", `if n < room && `, `if `}, {"internal/fanout/signal.go", `room, first = MaxFocused,`, `room, first = math.MaxInt,`}},
		guards:  []guard{{"internal/fanout", "^TestOneTypingReachesAtMostAHundred$"}},
	},
	{
		name:    "typing-out-of-focus",
		holds:   "typing reaches only sessions that have the conversation in their focus",
		patches: []patch{{"internal/fanout/ephemeral.go", `|| focused && !o.focus.has(id)`, ``}},
		guards: []guard{
			{"internal/fanout", "^TestSignalsReachThoseWhoAreThereNow$"}, {"internal/fanout", "^TestSignalsReachOtherNodes$"},
			{"test/scenario", "^TestScenarios$/^signals$/^Pebble$"},
		},
	},
	{
		name:    "old-signals",
		holds:   "of one sender and kind the newest signal counts",
		patches: []patch{{"internal/fanout/ephemeral.go", `o.ephemeral.signals[i] = owed`, `_ = i`}},
		guards:  []guard{{"internal/fanout", "^TestTheNewestSignalOfAKindCounts$"}},
	},
	{
		name:    "signals-shed-last",
		holds:   "what may be lost is written after everything else",
		patches: []patch{{"internal/fanout/ephemeral.go", `o.waitingLocked() <= int(o.limit/2)`, `true`}},
		guards:  []guard{{"internal/fanout", "^TestTheNewestSignalOfAKindCounts$"}},
	},
	{
		name:    "calls-ring-on",
		holds:   "a later signal of its kind ends one that is held",
		patches: []patch{{"internal/fanout/heldsignals.go", `return sameMatter(x.Signal, s) || !now.Before(x.until)`, `return !now.Before(x.until)`}},
		guards: []guard{
			{"internal/fanout", "^TestHeldSignalsWaitForADevice$"}, {"internal/fanout", "^TestSignalsReachOtherNodes$"},
			{"test/scenario", "^TestScenarios$/^signals$/^Pebble$"},
		},
	},
	{
		name:    "held-from-one",
		holds:   "one sender has at most 128 signals held on a node",
		patches: []patch{{"internal/fanout/heldsignals.go", `h.from[from] >= maxHeldFrom`, `h.from[from] >= maxHeld`}},
		guards:  []guard{{"internal/fanout", "^TestHeldSignalsAreBounded$"}},
	},
	{
		name:    "held-over-others",
		holds:   "the signals of one sender end no call of another one",
		patches: []patch{{"internal/fanout/heldsignals.go", `case n >= maxHeldPair:`, `case n > maxHeldUser:`}},
		guards:  []guard{{"internal/fanout", "^TestHeldSignalsAreBounded$"}},
	},
	{
		name:    "held-in-groups",
		holds:   "nothing is held for a user who may be removed meanwhile",
		patches: []patch{{"internal/fanout/signal.go", `return policy.Of(s.Key.Conv.Kind()).HeldSignals`, `return true`}},
		guards:  []guard{{"internal/fanout", "^TestHeldSignalsWaitForADevice$"}},
	},
	{
		name:  "held-before-the-welcome",
		holds: "a device gets held signals after its welcome",
		patches: []patch{{"internal/session/hello.go", `s.Out.Welcome(s.welcomeFrame(id, who.Account, l), k)
			s.hub.table.Wake(&s.Out, k)`, `s.hub.table.Wake(&s.Out, k)
			s.Out.Welcome(s.welcomeFrame(id, who.Account, l), k)`}},
		guards: []guard{{"internal/session", "^TestHeldSignalsComeAfterTheWelcome$"}},
	},
	{
		name:    "held-for-an-hour",
		holds:   "a signal is held for at most a minute",
		patches: []patch{{"internal/session/signal.go", `case int64(f.HoldMs) > maxSignalHold.Milliseconds():`, `case int64(f.HoldMs) > 60*maxSignalHold.Milliseconds():`}},
		guards:  []guard{{"internal/session", "^TestSignalsAreChecked$"}},
	},
	{
		name:  "presence-of-one-node",
		holds: "who watches learns who is online on other nodes from what these announce",
		patches: []patch{{"internal/fanout/nodes.go", `n.online.add(h, bit)
			n.table.changed(im.Account{}, h, true)`, `n.online.add(h, bit)`}},
		guards: []guard{{"internal/presence", "^TestChangesAreTold$/^2_nodes$"}},
	},
	{
		name:  "online-after-death",
		holds: "the users of a node that has died, and who do not come back, are told as offline",
		patches: []patch{{"internal/fanout/nodes.go", `for _, h := range n.online.removeNode(1 << i) {
			n.table.changed(im.Account{}, h, false)
		}`, `n.online.removeNode(1 << i)`}},
		guards: []guard{{"internal/presence", "^TestANodesDeathIsNoNews$"}},
	},
	{
		name:    "presence-for-all",
		holds:   "nobody sees when a user is online whom they do not let see it",
		patches: []patch{{"internal/presence/peers.go", `r.sees = v != nil && r.policy == user.ToPeers`, `r.sees = v != nil || true`}},
		guards:  []guard{{"internal/presence", "^TestWhoMayBeSeen$"}, {"test/scenario", "^TestScenarios$/^presence$/^Pebble$"}},
	},
	{
		name:    "see-whom-one-writes-to",
		holds:   "a message to a user does not let its sender see them",
		patches: []patch{{"internal/conv/admit.go", `record.Wrote |= 1 << side`, `record.Wrote |= 3`}},
		guards:  []guard{{"internal/inbox", "^TestWhoHasWrittenIsCarried$"}, {"internal/session", "^TestWhoHasWrittenIsSeen$"}, {"test/scenario", "^TestScenarios$/^presence$/^Pebble$"}},
	},
	{
		name:    "first-message-for-later",
		holds:   "who watches a user is told of them when the user writes the first message",
		patches: []patch{{"internal/presence/peers.go", `if x.w.out.Account.User == watcher && (x.view == hidden ||`, `if false && (x.view == hidden ||`}},
		guards:  []guard{{"internal/presence", "^TestTheFirstMessageLetsSee$"}, {"internal/session", "^TestWhoHasWrittenIsSeen$"}},
	},
	{
		name:    "first-message-on-one-node",
		holds:   "the first message of a user is told on every node",
		patches: []patch{{"internal/fanout/presencepolicy.go", `im.User(m.Watcher), m.Peer)`, `im.User(m.Watcher), false)`}, {"internal/presence/blocked.go", `p.askFor(question{x.w, x})`, `if x.view != hidden { p.askFor(question{x.w, x}) }`}},
		guards:  []guard{{"internal/presence", "^TestTheFirstMessageLetsSee$/^2_nodes$"}},
	},
	{
		name:    "thousand-peers",
		holds:   "of a watcher to whom very many have written each user is looked up",
		patches: []patch{{"internal/presence/peers.go", `case err != nil || n < maxPeers:`, `case true:`}},
		guards:  []guard{{"internal/presence", "^TestAllPeersAreSeen$"}},
	},
	{
		name:    "peers-read-in-vain",
		holds:   "who of many users has written to a watcher is known by one read",
		patches: []patch{{"internal/presence/peers.go", `key = key[len(prefix):]`, ``}},
		guards:  []guard{{"internal/presence", "^TestAllPeersAreSeen$/^100_users$"}},
	},
	{
		name:    "signals-of-one-conversation",
		holds:   "a signal takes the place of none of another conversation",
		patches: []patch{{"internal/fanout/ephemeral.go", `a.Conv == b.Conv && `, ``}},
		guards:  []guard{{"internal/fanout", "^TestTheNewestSignalOfAKindCounts$"}},
	},
	{
		name:    "peers-of-a-trimmed-feed",
		holds:   "who has written to whom is made good from the conversations, if the feed was trimmed",
		patches: []patch{{"internal/inbox/consumer.go", `if p.Pair && (anew || it.Kinds`, `if p.Pair && (it.Kinds`}},
		guards:  []guard{{"internal/inbox", "^TestPeersAreMadeGoodFromTheConversations$"}},
	},
	{
		name:  "presence-tells-who-exists",
		holds: "to tell of who may not be seen takes the same reads as to tell of who does not exist",
		patches: []patch{{
			"internal/presence/visibilityreads.go", `case r.t.account == j.watcher, r.policy == user.ToEverybody:`,
			`case r.policy == user.ToNobody:
			case r.t.account == j.watcher, r.policy == user.ToEverybody:`,
		}},
		guards: []guard{{"internal/presence", "^TestWhoMayBeSeen$"}},
	},
	{
		name:    "policies-for-later",
		holds:   "a policy that changes is kept by those who watch already, on every node",
		patches: []patch{{"internal/presence/policychange.go", `p.o.Nodes.TellPresencePolicy(a, watcher, peer)`, ``}},
		guards:  []guard{{"internal/presence", "^TestAPolicyThatChangesIsKept$/^2_nodes$"}},
	},
	{
		name:  "lists-that-are-not-told",
		holds: "a list is told also if the policy of a user changes while it is read",
		patches: []patch{{"internal/presence/watch.go", `t.watchers = append(t.watchers, x)`, `t.watchers = append(t.watchers, x)
		for k := range old { if old[k].t == t { x.view = old[k].view } }`}},
		guards: []guard{{"internal/presence", "^TestAListIsToldThatIsSetWhileAPolicyChanges$"}},
	},
	{
		name:    "offline-at-once",
		holds:   "who is back within 30 s was never told as offline, also when a node has died",
		patches: []patch{{"internal/presence/run.go", `if wait := f.goneAt.Add(holdOnline).Sub(now); wait > 0 {`, `if wait := f.goneAt.Sub(now); wait > 0 {`}},
		guards:  []guard{{"internal/presence", "^TestChangesAreTold$"}, {"internal/presence", "^TestANodesDeathIsNoNews$"}},
	},
	{
		name:    "seen-at-every-end",
		holds:   "until when users were online is stored only of those who are gone, in batches",
		patches: []patch{{"internal/presence/lastseen.go", `if p.o.Table.Online(l.hash) {`, `if false {`}},
		guards:  []guard{{"internal/presence", "^TestUsersAreStoredAsSeenInBatches$"}},
	},
	{
		name:    "seen-to-the-second",
		holds:   "until when a user was online is known to 10 minutes",
		patches: []patch{{"internal/presence/lastseen.go", `t.Truncate(lastSeenStep)`, `t`}},
		guards:  []guard{{"internal/presence", "^TestUsersAreStoredAsSeenInBatches$"}, {"internal/presence", "^TestChangesAreTold$"}},
	},
}
