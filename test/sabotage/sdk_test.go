package sabotage

var sdkRules = []rule{
	{
		name:  "keep-refusals-to-oneself",
		holds: "the application is told why a message waits",
		patches: []patch{{"sdk/go/outbox.go", `o.err = fromWire(e)
		c.touchOutgoing(o)`, `o.err = fromWire(e)`}},
		guards: []guard{{"sdk/go", "^TestConformance$/^what-is-not-decided-is-sent-again-later-and-later$"}},
	},
	{
		name:    "ask-for-each-profile-alone",
		holds:   "wishes for profiles go out together",
		patches: []patch{{"sdk/go/profiles.go", `return len(batch) == 0 || len(batch) < maxProfilesAsk`, `return len(batch) == 0 || len(batch) < 1`}},
		guards:  []guard{{"sdk/go", "^TestWishesForProfilesAreGathered$"}},
	},
	{
		name:    "ask-for-fresh-profiles",
		holds:   "a profile that was just confirmed is not asked for again",
		patches: []patch{{"sdk/go/profiles.go", `if p.wish == noWish && !c.isFresh(p) {`, `if p.wish == noWish {`}},
		guards:  []guard{{"sdk/go", "^TestAProfileIsTheSameUntilItsVersionChanges$"}},
	},
	{
		name:    "keep-the-higher-version",
		holds:   "versions of profiles are compared for equality",
		patches: []patch{{"sdk/go/profiles.go", `if !p.known || a.GetVersion() != p.account.GetVersion() {`, `if !p.known || a.GetVersion() > p.account.GetVersion() {`}},
		guards:  []guard{{"sdk/go", "^TestAnotherVersionIsAskedFor$"}},
	},
	{
		name:  "ask-later-users-at-once",
		holds: "users without a look-up are asked for after the wait",
		patches: []patch{{"sdk/go/profiles.go", `c.askProfileAt(p, until)
			continue`, `c.askProfileAt(p, until.Add(time.Second+c.now.Sub(until)))
			continue`}},
		guards: []guard{{"sdk/go", "^TestLaterAndUnknownUsers$"}},
	},
	{
		name:    "keep-profiles-of-another-history",
		holds:   "another history id drops all profiles",
		patches: []patch{{"sdk/go/profiles.go", `c.profiles = newProfiles()`, `old = newProfiles()`}},
		guards:  []guard{{"sdk/go", "^TestAnotherHistoryDropsProfiles$"}},
	},
	{
		name:    "profiles-without-bound",
		holds:   "a client remembers at most 10,000 profiles",
		patches: []patch{{"sdk/go/profiles.go", `n > maxProfiles {`, `n > maxProfiles && false {`}},
		guards:  []guard{{"sdk/go", "^TestProfilesAreBounded$"}},
	},
	{
		name:    "show-the-greeting-that-was-sent",
		holds:   "of two requests the greeting of the one that was received is shown",
		patches: []patch{{"sdk/go/contactsettings.go", `to.ReceivedMs, to.Greeting = ms, text`, `to.ReceivedMs = ms`}},
		guards:  []guard{{"sdk/go", "^TestContactsAreWhatTheSettingsOfUsersSay$"}},
	},
	{
		name:    "keep-an-answer-over-later-entries",
		holds:   "each entry after a call of contacts replaces its answer",
		patches: []patch{{"sdk/go/contactsettings.go", `Seq: began.seq, User`, `Seq: began.seq + 99, User`}},
		guards:  []guard{{"sdk/go", "^TestAnOldAnswerChangesNoContact$"}},
	},
	{
		name:    "take-an-answer-of-another-connection",
		holds:   "the answer of a repeated call of contacts is not taken over a sync",
		patches: []patch{{"sdk/go/contactsettings.go", `if began.live == nil || c.live != began.live {`, `if false {`}},
		guards:  []guard{{"sdk/go", "^TestAnOldAnswerChangesNoContact$"}},
	},
	{
		name:    "show-no-answer-of-contacts",
		holds:   "the answer of a call of contacts shows before its entry comes",
		patches: []patch{{"sdk/go/contacts.go", `c.c.do(func(k *core) { k.takeContact(began, r) })`, `_ = began`}},
		guards:  []guard{{"sdk/go", "^TestAnAnswerShowsAContactUntilTheEntryComes$"}},
	},
	{
		name:    "make-each-contact-anew",
		holds:   "a contact is the same pointer until it changes",
		patches: []patch{{"sdk/go/contactsettings.go", `case proto.Equal(old, now):`, `case proto.Equal(old, now) && old == now:`}},
		guards:  []guard{{"sdk/go", "^TestAContactIsTheSameUntilItChanges$"}},
	},
	{
		name:    "mentions-of-strangers",
		holds:   "a message of a stranger adds no mention while it waits",
		patches: []patch{{"sdk/go/mention.go", ` || c.firstMessages(v.peer) != "" {`, ` {`}},
		guards:  []guard{{"sdk/go", "^TestMessagesOfStrangersShowInTheirConversation$"}},
	},
	{
		name:    "refused-messages-wait",
		holds:   "a conversation whose messages were refused does not show them as waiting",
		patches: []patch{{"sdk/go/settings.go", `case strings.HasSuffix(value, " "+wordRefused):`, `case false:`}},
		guards:  []guard{{"sdk/go", "^TestMessagesOfStrangersShowInTheirConversation$"}},
	},
	{
		name:    "list-the-contacts-of-before",
		holds:   "a list of contacts is made anew when a setting of a user changes",
		patches: []patch{{"sdk/go/settings.go", `id, c.contacts.listed = c.direct[of.user], false`, `id = c.direct[of.user]`}},
		guards:  []guard{{"sdk/go", "^TestContactsAreWhatTheSettingsOfUsersSay$"}},
	},
	{
		name:    "send-edit-of-another-history",
		holds:   "what names its target by a seq of another history id is not sent",
		patches: []patch{{"sdk/go/outbox.go", `case o.stale && !o.look:`, `case o.stale && o.look:`}},
		guards:  []guard{{"sdk/go", "^TestEditOfAnotherHistoryIsNotSent$"}},
	},
	{
		name:    "stop-at-damage",
		holds:   "the Go SDK passes over what the server cannot read, and names it",
		patches: []patch{{"sdk/go/conversation.go", `if c.passDamage(v, f.GetError()) {`, `if false {`}},
		guards:  []guard{{"sdk/go", "^TestDamagedEntriesArePassedOverAndNamed$"}},
	},
	{
		name:    "show-typing-after-its-message",
		holds:   "the Go SDK shows nobody as typing whose message is there already",
		patches: []patch{{"sdk/go/signals.go", `|| v.wrote(s.From, s.Head)`, ``}},
		guards:  []guard{{"sdk/go", "^TestTypingIsNotShownAfterItsMessage$"}},
	},
	{
		name:    "ring-twice",
		holds:   "the Go SDK keeps a signal once, and the newest of its sender and kind",
		patches: []patch{{"sdk/go/signals.go", `if l.signals[i].Id == s.Id || l.signals[i].TimeMs > s.TimeMs {`, `if false {`}},
		guards:  []guard{{"sdk/go", "^TestASignalIsKeptOnce$"}},
	},
	{
		name:    "lose-a-newer-copy",
		holds:   "a page that was read before an edit does not bring the older text back",
		patches: []patch{{"sdk/go/conversation.go", `held != nil && isNewer(held, m) {`, `held != nil && false {`}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^a-newer-copy-that-was-held-back-counts$"}},
	},
	{
		name:    "keep-a-sent-message-on-its-way",
		holds:   "a message whose entry is below what the client holds is not on its way any more",
		patches: []patch{{"sdk/go/sync.go", "c.extend(v, newest)\nc.passed(v)", `c.extend(v, newest)`}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^a-message-that-lies-below-where-the-client-meets-its-conversation-is-not-on-its-way-any-more$"}},
	},
	{
		name:    "pass-over-a-message-in-an-older-page",
		holds:   "a message whose entry comes with an older page is not on its way any more",
		patches: []patch{{"sdk/go/snapshot.go", "v.countOwn(m)\nc.arrived(v.id, m)", `v.countOwn(m)`}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^a-message-that-is-met-in-an-older-page-is-sent$"}},
	},
	{
		name:    "keep-all-failed",
		holds:   "the Go SDK keeps at most 256 messages that were not sent",
		patches: []patch{{"sdk/go/outbox.go", `if len(failed) > maxFailed {`, `if false {`}},
		guards:  []guard{{"sdk/go", "^TestOnlyTheNewestFailedMessagesAreShown$"}},
	},
	{
		name:    "hide-a-message-to-a-user",
		holds:   "the Go SDK tells of a message to a user before there is a conversation",
		patches: []patch{{"sdk/go/outbox.go", `c.changed.Pending = true`, ``}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^a-message-to-a-user-is-told-before-there-is-a-conversation$"}},
	},
	{
		name:    "hide-a-stored-message-after-a-crash",
		holds:   "a message that is stored is shown after a restart, also while its entry is not there yet",
		patches: []patch{{"sdk/go/outbox.go", "if s != Sent {\n\tc.put(outgoingKey(o.id), o.row().Value)\n}", `c.put(outgoingKey(o.id), nil)`}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^a-message-that-is-stored-is-shown-after-a-restart"}},
	},
	{
		name:    "unread-of-an-earlier-stay",
		holds:   "in the Go SDK who comes back has nothing unread",
		patches: []patch{{"sdk/go/conversation.go", `v.heardRead(m.Counted)`, ``}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^who-comes-back-has-nothing-unread-and-holds-nothing-of-before$"}},
	},
	{
		name:    "own-messages-of-older-pages",
		holds:   "in the Go SDK own messages are not unread, also if they are loaded later",
		patches: []patch{{"sdk/go/snapshot.go", "v.countOwn(m)\nc.arrived(v.id, m)", `c.arrived(v.id, m)`}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^own-messages-that-are-loaded-later-are-not-unread-either$"}},
	},
	{
		name:    "reject-what-is-on-its-way",
		holds:   "a refusal does not speak for an earlier attempt, which may still be stored",
		patches: []patch{{"sdk/go/outbox.go", `c.giveUp(o, fromWire(e))`, `c.settle(o, Rejected, fromWire(e))`}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^a-refusal-does-not-speak-for-an-attempt-that-was-never-answered$"}},
	},
	{
		name:    "doubt-what-is-over",
		holds:   "an attempt that was refused for the moment is over",
		patches: []patch{{"sdk/go/outbox.go", `o.tried || e.Code != CodeRateLimited`, `true`}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^after-a-refusal-of-the-moment-the-next-answer-speaks-for-the-message$"}},
	},
	{
		name:    "ignore-the-answer-to-a-cursor",
		holds:   "the answer to a cursor tells how far another device is",
		patches: []patch{{"sdk/go/cursor.go", `if moved.GetRead() > v.read || `, `if `}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^the-answer-to-a-cursor-tells-how-far-another-device-is$"}},
	},
	{
		name:    "forget-a-quote-that-was-refused",
		holds:   "the Go SDK asks again for a quote that was refused for the moment",
		patches: []patch{{"sdk/go/quote.go", `later := e.GetRetryable() && `, `later := false && `}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^a-quote-that-is-refused-is-asked-for-later.-or-not-shown$"}},
	},
	{
		name:    "lose-the-quotes-of-a-page",
		holds:   "in the Go SDK the quotes of a page stay when a stay begins with it",
		patches: []patch{{"sdk/go/conversation.go", "\tc.append(v, m)\n}\n}\nv.takeQuotes(p.Refs)", "\tc.append(v, m)\n}\n}"}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^the-quotes-of-a-page-stay-when-a-stay-begins-with-it$"}},
	},
	{
		name:    "quote-the-text-before-an-edit",
		holds:   "in the Go SDK an edit that is held changes a quote that comes later",
		patches: []patch{{"sdk/go/quote.go", "for _, e := range v.entries {\n\tv.foldQuote(e.m)\n}", ""}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^a-quote-that-was-read-before-an-edit-is-edited$"}},
	},
	{
		name:    "count-what-is-read-far-back",
		holds:   "in the Go SDK what is read below what the client holds is counted once the server knows",
		patches: []patch{{"sdk/go/cursor.go", `|| q.Read > 0 && moved.GetRead() == v.read`, ""}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^a-read-cursor-below-what-the-client-holds-is-counted-by-a-sync-after-the-server-has-it$"}},
	},
	{
		name:    "mentions-of-before-a-stay",
		holds:   "in the Go SDK who comes back is mentioned by nothing of before",
		patches: []patch{{"sdk/go/conversation.go", "c.takeMentions(v, nil, m.Seq)", ""}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^who-comes-back-is-mentioned-by-nothing-of-before$"}},
	},
	{
		name:    "reject-an-edit-that-was-tried",
		holds:   "an edit that was tried before another history is not shown as rejected",
		patches: []patch{{"sdk/go/outbox.go", `c.giveUp(o, &Error{Code: CodeNoTarget,`, `c.settle(o, Rejected, &Error{Code: CodeNoTarget,`}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^an-edit-that-was-tried-is-looked-for-and-not-sent$"}},
	},
	{
		name:  "send-again-as-another",
		holds: "the Go SDK sends a message again with its id",
		patches: []patch{{"sdk/go/outbox.go", `f := &petrelv1.ClientFrame{Id: lv.nextID + 1, Body: &petrelv1.ClientFrame_Send{Send: o.send}}`, `s := proto.CloneOf(o.send)
	if o.tried {
		s.ClientMsgId = c.newID()
	}
	f := &petrelv1.ClientFrame{Id: lv.nextID + 1, Body: &petrelv1.ClientFrame_Send{Send: s}}`}},
		guards: []guard{{"sdk/go", "^TestConformance$/^an-unanswered-message-is-sent-again-as-it-was$"}},
	},
	{
		name:  "send-again-with-a-newer-after",
		holds: "the Go SDK sends a message again with its after",
		patches: []patch{{"sdk/go/outbox.go", `f := &petrelv1.ClientFrame{Id: lv.nextID + 1, Body: &petrelv1.ClientFrame_Send{Send: o.send}}`, `s := proto.CloneOf(o.send)
	if after := c.headOf(o); o.tried && s.After != nil {
		s.After = &after
	}
	f := &petrelv1.ClientFrame{Id: lv.nextID + 1, Body: &petrelv1.ClientFrame_Send{Send: s}}`}},
		guards: []guard{{"sdk/go", "^TestConformance$/^an-unanswered-message-is-sent-again-as-it-was$"}},
	},
	{
		name:    "forget-a-message-before-its-ack",
		holds:   "the Go SDK keeps the row of a message until its ack has come",
		patches: []patch{{"sdk/go/outbox.go", `lv.sends++`, "lv.sends++\nc.put(outgoingKey(o.id), nil)"}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^after-a-restart-everything-is-there-again$"}},
	},
	{
		name:    "take-an-answer-twice",
		holds:   "the Go SDK takes the answer to a request once",
		patches: []patch{{"sdk/go/connection.go", `q.answer(f)`, "q.answer(f)\nq.answer(f)"}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^a-page-and-its-token-are-one-write$"}},
	},
	{
		name:    "show-an-entry-twice",
		holds:   "the Go SDK shows an entry once",
		patches: []patch{{"sdk/go/conversation.go", "v.entries = append(v.entries, &entry{m: m})\nc.keep(m)", "v.entries = append(v.entries, &entry{m: m}, &entry{m: m})\nc.keep(m)"}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^what-comes-from-an-earlier-connection-is-dropped$"}},
	},
	{
		name:    "leave-a-gap",
		holds:   "the Go SDK asks for what is missing when an entry shows it",
		patches: []patch{{"sdk/go/conversation.go", "v.hold(m)\nc.touch(v)\nc.repair(v)", "v.hold(m)\nc.touch(v)"}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^a-gap-is-closed-before-what-comes-after-it-is-shown$"}},
	},
	{
		name:    "read-backwards",
		holds:   "in the Go SDK the user's own read cursor never goes back",
		patches: []patch{{"sdk/go/cursor.go", `if r.Read > v.read {`, `if r.Read != v.read {`}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^cursors-of-others-and-of-other-devices-only-move-forward$"}},
	},
	{
		name:    "stay-with-another-history",
		holds:   "the Go SDK drops what it knows when the history id is another one",
		patches: []patch{{"sdk/go/connection.go", `if c.meta.History != w.HistoryId {`, `if c.meta.History == "" {`}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^another-history-id-drops-everything-but-what-is-to-be-sent$"}},
	},
	{
		name:    "refresh-as-another-request",
		holds:   "the Go SDK repeats a refresh whose answer is lost as the same request",
		patches: []patch{{"sdk/go/token.go", `RequestId: f.have.RequestID}`, `RequestId: newID()}`}},
		guards:  []guard{{"sdk/go", "^TestARefreshIsRepeatedWithItsRequestID$"}},
	},
	{
		name:    "open-a-store-twice",
		holds:   "a file of the Go SDK is open in one client at a time",
		patches: []patch{{"sdk/go/lock_unix.go", `syscall.LOCK_EX|syscall.LOCK_NB`, `syscall.LOCK_SH|syscall.LOCK_NB`}},
		guards:  []guard{{"sdk/go", "^TestFileBelongsToOneAndIsOfItsKind$"}},
	},
	{
		name:    "forget-what-a-reader-has-not-taken",
		holds:   "in the Go SDK changes merge for a reader who is slow",
		patches: []patch{{"sdk/go/subscribe.go", `s.pending.merge(ch)`, `s.pending = *ch`}},
		guards:  []guard{{"sdk/go", "^TestSlowReaderMissesNoChange$"}},
	},
	{
		name:  "change-what-was-given",
		holds: "a snapshot of the Go SDK does not change once it is given",
		patches: []patch{{"sdk/go/snapshot.go", `s.Receipts = make(map[string]*petrelv1.Receipt, len(v.receipts))
		for u, r := range v.receipts {
			s.Receipts[u] = r
		}`, `s.Receipts = v.receipts`}},
		guards: []guard{{"sdk/go", "^TestASnapshotDoesNotChange$"}},
	},
	{
		name:  "finish-a-message-too-early",
		holds: "in the Go SDK a message that a loop has not finished comes again",
		patches: []patch{{"sdk/go/incomingmessages.go", `if !yield(m, nil) {`, `if err := r.store(m.Conv, r.convs[m.Conv]); err != nil {
			return err
		}
		if !yield(m, nil) {`}},
		guards: []guard{{"sdk/go", "^TestIncomingComesAgainUntilItIsFinished$"}},
	},
	{
		name:    "ask-for-everything-at-once",
		holds:   "the Go SDK has four requests of the application under way",
		patches: []patch{{"sdk/go/client.go", `make(chan struct{}, maxAsked)`, `make(chan struct{}, 2*maxAsked)`}},
		guards:  []guard{{"sdk/go", "^TestAtMostFourRequestsOfTheApplicationAreUnderWay$"}},
	},
	{
		name:    "repeat-a-call-as-another",
		holds:   "the Go SDK repeats a call that broke off with its request id",
		patches: []patch{{"sdk/go/call.go", `setRequestID(request)`, ``}},
		guards:  []guard{{"sdk/go", "^TestACallThatBrokeOffIsMadeAgain$"}},
	},
	{
		name:    "take-writing-for-life",
		holds:   "what a client writes after a request that waits does not keep its connection",
		patches: []patch{{"sdk/go/heartbeat.go", `if lv.taken < awaited {`, `if awaited > 0 {`}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^a-client-that-goes-on-writing-leaves-a-frozen-gateway-as-fast-as-one-that-waits$"}},
	},
}
