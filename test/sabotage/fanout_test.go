package sabotage

var fanoutRules = []rule{
	{
		name:    "queue-without-bound",
		holds:   "events of a client that does not read wait up to a bound",
		patches: []patch{{"internal/fanout/outbox.go", `return o.limit < 0 || o.waitingLocked()+n <= int(o.limit)`, `return true`}},
		guards:  []guard{{"internal/fanout", "^TestOverflowIsOneLaggedFrameAndThenSilence$"}, {"internal/fanout", "^TestEventThatNeverFitsMakesTheSessionSync$"}},
	},
	{
		name:  "encode-under-the-lock",
		holds: "the writer of all connections and commits do not wait while an answer is encoded",
		patches: []patch{{"internal/fanout/outbox.go", "\tb := wire.AppendFrame(*bufPool.Get().(*[]byte), o.enc, f)\n\to.mu.Lock()\n",
			"\to.mu.Lock()\n\tb := wire.AppendFrame(*bufPool.Get().(*[]byte), o.enc, f)\n"}},
		guards: []guard{{"internal/fanout", "^TestAnswersAreEncodedWithoutTheLock$"}},
	},
	{
		name:    "window-without-end",
		holds:   "a connection has no more unanswered sends than its window",
		patches: []patch{{"internal/fanout/outbox.go", `maxSends >= 0 && int(o.unansweredSends) >= maxSends`, `false`}},
		guards:  []guard{{"internal/fanout", "^TestWindowTakesNoMoreThanItSays$"}, {"internal/session", "^TestWindowExceededEndsTheConnection$/^sends$"}},
	},
	{
		name:    "copy-large-events-for-each-session",
		holds:   "sessions that hear of large frames share the bytes of an event",
		patches: []patch{{"internal/fanout/deliver.go", `if o.Large && len(b) > wire.LargeFrame {`, `if false {`}},
		guards:  []guard{{"internal/fanout", "^TestSessionsThatHearOfLargeFramesShareTheBytesToo$"}},
	},
	{
		name:    "announce-twice",
		holds:   "a large frame is announced once",
		patches: []patch{{"internal/wire/largeframe.go", `if !bytes.Equal(b[before:at], large) {`, `if before >= 0 {`}},
		guards:  []guard{{"internal/wire", "^TestLargeFramesAreAnnounced$"}, {"internal/fanout", "^TestSessionsThatHearOfLargeFramesShareTheBytesToo$"}},
	},
	{
		name:    "hide-blindness",
		holds:   "an owner that has learnt late who is online says so, and they sync",
		patches: []patch{{"internal/fanout/nodes.go", `len(users) > 0 && n.recipientsChosen.Load()`, `len(users) > 0 && false`}},
		guards:  []guard{{"internal/fanout", "^TestF2OwnerThatMissedALogin"}},
	},
	{
		name:    "late-login",
		holds:   "an owner that hears of a login after its takeover has that user sync",
		patches: []patch{{"internal/fanout/nodes.go", `*m.KnownTenure != n.tenure.Load()`, `false`}},
		guards:  []guard{{"internal/fanout", "^TestLateAnnouncementHasItsUserSyncIfATenureBegan$"}, {"internal/route", "^TestF2ASession"}},
	},
	{
		name:    "silent-takeover",
		holds:   "a node that takes a feed over begins a tenure, of which announcements say whether they know it",
		patches: []patch{{"internal/conv/convs.go", `cs.o.Nodes.BeginTenure()`, ``}},
		guards:  []guard{{"internal/route", "^TestF2ASession"}},
	},
	{
		name:    "large-unannounced",
		holds:   "a client that sees whole frames only hears that a large one comes",
		patches: []patch{{"internal/fanout/outbox.go", `len(p.Bytes) > wire.LargeFrame && o.Large`, `false`}},
		guards:  []guard{{"internal/fanout", "^TestClientThatWantsToKnowHearsOfLargeFrames$"}},
	},
	{
		name:    "answer-first",
		holds:   "another node delivers the answer to a send after the entries before it",
		patches: []patch{{"internal/fanout/remotereceive.go", `for ; row < min(int(a.At), len(m.Rows)); row++ {`, `for ; false; row++ {`}},
		guards:  []guard{{"internal/fanout", "^TestF14"}},
	},
	{
		name:    "keep-recipients",
		holds:   "the recipients of one delivery are not those of the next",
		patches: []patch{{"internal/fanout/remotesend.go", `*n = nodeBatch{users: n.users[:0]}`, ``}},
		guards:  []guard{{"internal/fanout", "^TestF17Recipients"}},
	},
	{
		name:    "write-what-waits",
		holds:   "what waits is not written while it is not known whether the token is valid",
		patches: []patch{{"internal/fanout/outbox.go", `if o.pending != nil && o.unconfirmedLocked() {`, `if false {`}},
		guards:  []guard{{"internal/fanout", "^TestF17WhatWaits"}},
	},
	{
		name:    "push-without-trust",
		holds:   "a session gets nothing while it is not known whether its token is valid",
		patches: []patch{{"internal/fanout/sessionvalidity.go", `return v.revocations.Now()-v.knownAt() > maxUnconfirmed`, `return false`}},
		guards: []guard{
			{"internal/fanout", "^TestF17Nothing"}, {"internal/fanout", "^TestF17Owed"},
			{"internal/session", "^TestF17GatewayWithout"}, {"internal/session", "^TestF17Process"},
		},
	},
	{
		name:    "older-hint-counts",
		holds:   "a hint of an older head takes nothing back",
		patches: []patch{{"internal/fanout/focus.go", `h.head < old.head {`, `false {`}},
		guards:  []guard{{"internal/fanout", "^TestOlderHintTakesNothingBack$"}},
	},
	{
		name:  "mentions-for-old-clients",
		holds: "only a client that understands mentions gets the seq of one",
		patches: []patch{{"internal/fanout/focus.go", `case !o.Mentions:
			h.mention = 0
		}
		return o.oweLocked(h, k)`, `}
		return o.oweLocked(h, k)`}},
		guards: []guard{{"internal/fanout", "^TestOlderHintTakesNothingBack$"}},
	},
	{
		name:    "receipts-without-room",
		holds:   "a receipt without room is dropped",
		patches: []patch{{"internal/fanout/receipts.go", `!o.roomLocked(len(b))`, `false`}},
		guards:  []guard{{"internal/fanout", "^TestReceiptsWithoutRoomOrFocusAreLost$"}},
	},
}
