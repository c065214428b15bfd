package sabotage

// lossyRules are about what may be lost: signals and presence.
var lossyRules = []rule{
	{
		name:  "typing-after-its-message",
		holds: "a signal that waits for the load of its conversation has the head from before the sends that wait too",
		patches: []patch{{
			"internal/conv/signaller.go",
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
		name:    "signals-of-outsiders",
		holds:   "only who is a member signals",
		patches: []patch{{"internal/conv/signaller.go", `in.record == nil || in.members.Role(from) == 0 ||`, ``}},
		guards: []guard{
			{"internal/conv", "^TestSignalsAreForMembersOnly$"},
			{"test/scenario", "^TestScenarios$/^signals$/^Pebble$/^TCPProto$"},
		},
	},
	{
		name:    "signals-refuse-sends",
		holds:   "a look for an outsider's standing refuses no send that needs none",
		patches: []patch{{"internal/conv/outsider.go", `== u && s.needsStanding() {`, `== u {`}},
		guards:  []guard{{"internal/conv", "^TestASignalOfAnOutsiderRefusesNoMessage$"}},
	},
	{
		name:    "signals-without-limit",
		holds:   "a conversation takes three typings and twenty other signals in a second",
		patches: []patch{{"internal/conv/signaller.go", `perSecond)) > 0 {`, `perSecond)) > 0 && false {`}},
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
		patches: []patch{{"internal/fanout/lossy.go", `|| focused && !o.focus.has(id)`, ``}},
		guards: []guard{
			{"internal/fanout", "^TestSignalsReachThoseWhoAreThereNow$"}, {"internal/fanout", "^TestSignalsReachOtherNodes$"},
			{"test/scenario", "^TestScenarios$/^signals$/^Pebble$/^TCPProto$"},
		},
	},
	{
		name:    "old-signals",
		holds:   "of one sender and kind the newest signal counts",
		patches: []patch{{"internal/fanout/lossy.go", `o.lossy.signals[i] = owed`, `_ = i`}},
		guards:  []guard{{"internal/fanout", "^TestTheNewestSignalOfAKindCounts$"}},
	},
	{
		name:    "signals-shed-last",
		holds:   "what may be lost is written after everything else",
		patches: []patch{{"internal/fanout/lossy.go", `len(o.pending)+len(o.shared)+o.backlog <= o.limit/2`, `true`}},
		guards:  []guard{{"internal/fanout", "^TestTheNewestSignalOfAKindCounts$"}},
	},
	{
		name:    "calls-ring-on",
		holds:   "a later signal of its kind ends one that is held",
		patches: []patch{{"internal/fanout/held.go", `return sameMatter(x.Signal, s) || !now.Before(x.until)`, `return !now.Before(x.until)`}},
		guards: []guard{
			{"internal/fanout", "^TestHeldSignalsWaitForADevice$"}, {"internal/fanout", "^TestSignalsReachOtherNodes$"},
			{"test/scenario", "^TestScenarios$/^signals$/^Pebble$/^TCPProto$"},
		},
	},
	{
		name:    "held-in-groups",
		holds:   "nothing is held for a user who may be removed meanwhile",
		patches: []patch{{"internal/fanout/signal.go", `return s.Key.Conv.Kind() == im.Direct`, `return true`}},
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
}
