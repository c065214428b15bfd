package sabotage

var sessionRules = []rule{
	{
		name:    "answer-pings-without-end",
		holds:   "a connection that goes on and on to ask for pongs, or for what it is refused, is ended",
		patches: []patch{{"internal/session/receive.go", `if s.unmetered.Load() < unmeteredStep ||`, `if true ||`}},
		guards:  []guard{{"internal/session", "^TestConnectionThatIsRefusedWithoutEndIsEnded$"}},
	},
	{
		name:    "serve-who-does-not-read",
		holds:   "requests that wait for their turn are not served while the answers to others wait for the client",
		patches: []patch{{"internal/session/request.go", `return nil, busy`, `_ = busy`}},
		guards:  []guard{{"internal/session", "^TestQueuedRequestsAreRefusedWhileAnswersWait$"}},
	},
	{
		name:  "heads-before-focus",
		holds: "nothing falls between the old focus and the new one",
		patches: []patch{{
			"internal/session/focus.go",
			`added := s.Out.Focus(n, convs)
			heads, err := s.heads(ctx, added)`,
			`var named []im.ConvID
			for id := range convs {
				named = append(named, id)
			}
			heads, err := s.heads(ctx, named)
			s.Out.Focus(n, convs)`,
		}},
		guards: []guard{{"internal/session", "^TestF23NothingFallsBetweenTheOldFocusAndTheNew$"}},
	},
	{
		name:    "look-once",
		holds:   "a login that a newer one has ended does not stay",
		patches: []patch{{"internal/session/hello.go", `if who, err = s.hub.users.AuthenticateSession(ctx, h.Token); err != nil {`, `if err := error(nil); err != nil {`}},
		guards:  []guard{{"internal/session", "^TestF11LoginBetween"}},
	},
	{
		name:  "tell-nobody",
		holds: "a node that ends a token tells all others whose it was",
		patches: []patch{{"internal/session/hub.go", `if h.barrier != nil {
			h.barrier.tellOthers(a)`, `if false {
			h.barrier.tellOthers(a)`}},
		guards: []guard{{"internal/session", "^TestF9LostRevocation"}, {"internal/session", "^TestF11LoginBetween"}},
	},
	{
		name:    "trust-silence",
		holds:   "a node knows of the ended tokens only up to when all others have told of theirs",
		patches: []patch{{"internal/session/revocationbarrier.go", `at = min(at, b.answered[n])`, `_ = n`}},
		guards:  []guard{{"internal/session", "^TestF17GatewayCut"}},
	},
	{
		name:    "kick-poison",
		holds:   "a frame that cannot be decoded is answered, and costs the client nothing else",
		patches: []patch{{"internal/session/receive.go", `id := wire.IDOf(enc.Codec, b)`, `id := wire.IDOf(enc.Codec, nil)`}},
		guards:  []guard{{"internal/session", "^TestFrameThatCannotBeDecoded"}, {"internal/app", "^TestNoSendIsPoison$"}},
	},
	{
		name:    "frames-as-large-as-bodies",
		holds:   "every body fits into a frame of each codec",
		patches: []patch{{"internal/wire/frameid.go", `return max(minFrameLimit, jsonExpansion*bodyBytes+envelope)`, `return max(minFrameLimit, bodyBytes+envelope)`}},
		guards:  []guard{{"internal/wire", "^TestFrameLimitHoldsEveryBody$"}},
	},
	{
		name:    "window-above-all",
		holds:   "a send that is alone has room in the window",
		patches: []patch{{"internal/fanout/outbox.go", `maxBytes >= 0 && o.unansweredSends > 0 &&`, `maxBytes >= 0 &&`}},
		guards:  []guard{{"internal/fanout", "^TestWindowTakesNoMoreThanItSays$"}},
	},
	{
		name:    "hellos-behind-reads",
		holds:   "a hello does not wait for the reads of those who are logged in",
		patches: []patch{{"internal/session/hello.go", `s.hub.asyncOn(s.hub.queueHello, &s.Out,`, `s.hub.asyncOn(s.queueRead, &s.Out,`}},
		guards:  []guard{{"internal/session", "^TestReadsOfGreedyUsersDelayNoHello$"}},
	},
	{
		name:    "first-come-first-served",
		holds:   "whose jobs have taken the least time gets the next worker",
		patches: []patch{{"internal/share/share.go", `return h[i].used < h[j].used`, `return h[i].used > h[j].used`}},
		guards:  []guard{{"internal/share", "^TestLittleGoesBeforeMuch$"}, {"internal/share", "^TestUsersGetTheSameTime$"}},
	},
	{
		name:    "all-at-once",
		holds:   "jobs that compute take turns, so that a core is left to the others",
		patches: []patch{{"internal/share/share.go", `if q.o.Turns == nil {`, `if true {`}},
		guards:  []guard{{"internal/share", "^TestJobsTakeTurns$"}},
	},
	{
		name:    "turns-without-end",
		holds:   "a job that waits for the disk does not keep its turn",
		patches: []patch{{"internal/share/cpuslots.go", `defer time.AfterFunc(mayCompute, leave).Stop()`, ``}},
		guards:  []guard{{"internal/share", "^TestJobsTakeTurns$"}},
	},
	{
		name:    "pauses-are-pay",
		holds:   "a pause pays off less of what a user used than it is long",
		patches: []patch{{"internal/share/share.go", `u.used-idle/payOff`, `u.used-idle`}},
		guards:  []guard{{"internal/share", "^TestPausesPayOffLessThanTheyTake$"}},
	},
	{
		name:    "users-for-ever",
		holds:   "users who read a little once are not remembered",
		patches: []patch{{"internal/share/share.go", `u.used-idle/payOff`, `u.used`}},
		guards:  []guard{{"internal/share", "^TestUsersAreForgotten$"}},
	},
	{
		name:    "workers-for-one",
		holds:   "one user does not hold all workers",
		patches: []patch{{"internal/share/share.go", `u.running < q.o.PerUser {`, `true {`}},
		guards:  []guard{{"internal/share", "^TestJobsOfOneUserLeaveWorkersToOthers$"}, {"internal/session", "^TestReadsOfGreedyUsersDelayNoHello$"}},
	},
	{
		name:    "tenants-without-bound",
		holds:   "the users of a tenant together have a bound of stored bytes, if the operator sets one",
		patches: []patch{{"internal/rate/byterate.go", `if perSecond > 0 {`, `if false {`}},
		guards:  []guard{{"internal/rate", "^TestBytesOfAGroupAreLimited$"}},
	},
	{
		name:    "copies-for-nothing",
		holds:   "what a forward copies counts as stored",
		patches: []patch{{"internal/session/forward.go", `s.takeStored(len(send.Source.GetText()) + len(send.Source.GetData()))`, `s.takeStored(0)`}},
		guards:  []guard{{"internal/session", "^TestBytesOfAUserAreLimited$"}},
	},
	{
		name:  "refused-forwards-are-stored",
		holds: "a forward that is refused is not stored",
		patches: []patch{{"internal/session/forward.go", `send.Answer(conv.Result{Err: s.hub.clientError(s.Out.Account.User, "forward", err)}, k)
			continue`, `send.Answer(conv.Result{Err: s.hub.clientError(s.Out.Account.User, "forward", err)}, k)`}},
		guards: []guard{{"internal/session", "^TestBytesOfAUserAreLimited$"}},
	},
}
