package sabotage

var sdkRules = []rule{
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
		patches: []patch{{"sdk/go/lossy.go", `|| v.wrote(s.From, s.Head)`, ``}},
		guards:  []guard{{"sdk/go", "^TestTypingIsNotShownAfterItsMessage$"}},
	},
	{
		name:    "ring-twice",
		holds:   "the Go SDK keeps a signal once, and the newest of its sender and kind",
		patches: []patch{{"sdk/go/lossy.go", `if l.signals[i].Id == s.Id || l.signals[i].TimeMs > s.TimeMs {`, `if false {`}},
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
		name:  "own-messages-of-older-pages",
		holds: "in the Go SDK own messages are not unread, also if they are loaded later",
		patches: []patch{{"sdk/go/snapshot.go", `v.countOwn(m)
		}
	}
	n := len(older)`, `}
	}
	n := len(older)`}},
		guards: []guard{{"sdk/go", "^TestConformance$/^own-messages-that-are-loaded-later-are-not-unread-either$"}},
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
}
