package sabotage

var noteRules = []rule{
	{
		name:    "read-unsynced-notes",
		holds:   "nobody reads a reaction before it is durable",
		patches: []patch{{"internal/note/read.go", `found[q] = s.stored`, `found[q] = s.newest`}},
		guards:  []guard{{"internal/conv", "^TestUnsyncedNotesAreNeverRead$"}},
	},
	{
		name:    "list-unsynced-reactions",
		holds:   "nobody is listed as one who reacted before it is durable",
		patches: []patch{{"internal/note/read.go", `found[u] = x.stored`, `found[u] = x.newest`}},
		guards:  []guard{{"internal/conv", "^TestUnsyncedNotesAreNeverRead$"}},
	},
	{
		name:    "pins-without-pages",
		holds:   "an answer to ListPins has about a page of messages, however much is pinned",
		patches: []patch{{"internal/conv/reactions.go", `size > MaxPageBytes && len(page.Pins) > 0`, `false`}},
		guards:  []guard{{"internal/conv", "^TestPinsAreReadInPages$"}},
	},
	{
		name:    "pins-of-all-pages",
		holds:   "the Go SDK loads all pages of pins",
		patches: []patch{{"sdk/go/api.go", `q.Before = r.Next; q.Before == 0`, `q.Before = r.Next; true`}},
		guards:  []guard{{"sdk/go", "^TestPinsOfAllPagesAreLoaded$"}},
	},
	{
		name:    "answer-unsynced-reactions",
		holds:   "a repeat of a reaction that is not durable yet waits for it",
		patches: []patch{{"internal/note/note.go", `w.unchanged && s.newest == s.stored {`, `w.unchanged {`}},
		guards:  []guard{{"internal/conv", "^TestUnsyncedNotesAreNeverRead$"}},
	},
	{
		name:  "keep-refused-reactions",
		holds: "a refused reaction leaves nothing",
		patches: []patch{
			{"internal/note/note.go", `s.newest, s.pin, s.waiting = s.stored, s.storedPin, nil`, `s.waiting = nil`},
			{"internal/note/note.go", `u.newest = u.stored`, `_ = u.stored`},
		},
		guards: []guard{{"internal/conv", "^TestRefusedReactionsAreForgotten$"}},
	},
	{
		name:    "notes-for-leavers",
		holds:   "who has left sees no note that has changed since",
		patches: []patch{{"internal/conv/pagenotes.go", `return im.Seq(n.Head) >= last`, `return im.Seq(n.Head) >= last && last == 0`}},
		guards:  []guard{{"internal/conv", "^TestLeaversSeeNoLaterNotes$"}},
	},
	{
		name:    "tell-notes-of-before",
		holds:   "nobody is told the note of an entry that they may not read",
		patches: []patch{{"internal/conv/members.go", `m.Role(u) != 0 && len(m.readable(u, q, q)) > 0`, `m.Role(u) != 0`}},
		guards:  []guard{{"internal/conv", "^TestNotesAreToldToThoseInFocusOnceASecond$"}},
	},
	{
		name:    "tell-notes-out-of-focus",
		holds:   "notes go to those who look at the conversation",
		patches: []patch{{"internal/fanout/notes.go", `o.takesNoEventsLocked(k) || !o.focus.has(id) ||`, `o.takesNoEventsLocked(k) ||`}},
		guards:  []guard{{"internal/conv", "^TestNotesAreToldToThoseInFocusOnceASecond$"}},
	},
	{
		name:    "tell-each-reaction",
		holds:   "notes of a conversation are told once a second",
		patches: []patch{{"internal/note/announce.go", `now.Sub(n.cooling[0].announced) >= announceEvery {`, `now.Sub(n.cooling[0].announced) >= 0 {`}},
		guards:  []guard{{"internal/note", "^TestALargeGroupIsServedInParts$"}},
	},
	{
		name:    "tell-notes-in-one-part",
		holds:   "the notes of a large group are told in parts",
		patches: []patch{{"internal/note/announce.go", `next := min(size, len(r.to))`, `next := len(r.to)`}},
		guards:  []guard{{"internal/note", "^TestALargeGroupIsServedInParts$"}},
	},
	{
		name:    "tell-parts-without-pause",
		holds:   "between two parts there is a pause",
		patches: []patch{{"internal/note/announce.go", `now.Sub(n.part) >= partEvery {`, `now.Sub(n.part) >= 0 {`}},
		guards:  []guard{{"internal/note", "^TestALargeGroupIsServedInParts$"}},
	},
	{
		name:    "tell-notes-to-who-was-removed",
		holds:   "a part is told to those who are members by then",
		patches: []patch{{"internal/note/announce.go", `case !mayRead(u, q):`, `case !mayRead(u, q) && false:`}},
		guards:  []guard{{"internal/note", "^TestALargeGroupIsServedInParts$"}},
	},
	{
		name:    "tell-notes-to-former-members",
		holds:   "who was removed meanwhile gets no part",
		patches: []patch{{"internal/conv/members.go", `m.Role(u) != 0 && len(m.readable(u, q, q)) > 0`, `len(m.readable(u, q, q)) > 0`}},
		guards:  []guard{{"internal/conv", "^TestNotesAreForMembersWhoMayRead$"}},
	},
	{
		name:    "tell-small-parts-only",
		holds:   "when many groups wait, the parts are larger",
		patches: []patch{{"internal/note/announce.go", `max(partSize, n.left/maxParts)`, `max(partSize, 0*n.left/maxParts)`}},
		guards:  []guard{{"internal/note", "^TestManyGroupsAreServedInTwoSeconds$"}},
	},
	{
		name:    "react-without-bound",
		holds:   "a user has at most three reactions at a message",
		patches: []patch{{"internal/note/rules.go", `case len(mine) >= MaxUserReactions:`, `case len(mine) >= 10*MaxUserReactions:`}},
		guards:  []guard{{"internal/conv", "^TestReactionsAreCountedOnceForAUserAndAnEmoji$"}},
	},
	{
		name:    "react-to-the-past",
		holds:   "a user changes the notes of what they may read only",
		patches: []patch{{"internal/conv/pagenotes.go", `if !in.mayRead(u, q, at.head) {`, `if !in.mayRead("", q, at.head) {`}},
		guards:  []guard{{"internal/conv", "^TestWhoMayReactAndPin$"}},
	},
	{
		name:    "drop-rows-without-their-marks",
		holds:   "the marks beside a row go with it",
		patches: []patch{{"internal/store/pebblestore/update.go", `upper := markKey(c, k, below, "")`, `upper := markKey(c, k, 0, "")`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestStoreInMemoryIsAStore$/^rows_below_a_seq_are_dropped$"}},
	},
	{
		name:    "count-a-note-again",
		holds:   "of two notes of an entry the client keeps the newer one",
		patches: []patch{{"sdk/go/incomingnotes.go", `n.Version < old.Version ||`, `n.Version < 0*old.Version ||`}},
		guards:  []guard{{"sdk/go", "^TestANoteIsCountedOnceWhenItIsLoadedAndPushed$"}},
	},
}
