package sabotage

var inboxRules = []rule{
	{
		name:    "believe-feeds",
		holds:   "a sync token from the future of a feed refutes the store",
		patches: []patch{{"internal/inbox/storerollback.go", `if holders[i].Pos < seen[f] {`, `if false {`}},
		guards: []guard{
			{"internal/inbox", "^TestTokenOfALostMessageRefutesTheStore$"},
			{"internal/inbox", "^TestTokenFromTheMiddleOfALostListRefutesTheStore$"},
		},
	},
	{
		name:    "believe-inbox",
		holds:   "a sync token from the future of an inbox refutes the store",
		patches: []patch{{"internal/inbox/storerollback.go", `if seen <= head {`, `if true {`}},
		guards:  []guard{{"internal/inbox", "^TestTokenOfALostConversationRefutesTheStore$"}},
	},
	{
		name:    "sign-for-anybody",
		holds:   "a sync token of another user proves nothing",
		patches: []patch{{"internal/inbox/sync.go", `b = append(append(b, a.User...), m...)`, `b = m`}},
		guards:  []guard{{"internal/inbox", "^TestOnlyAnOwnTokenRefutesTheStore$"}},
	},
	{
		name:    "judge-by-the-owner",
		holds:   "the store decides whether a token is ahead of it",
		patches: []patch{{"internal/inbox/storerollback.go", `if holders[i].Pos < seen[f] {`, `if true {`}},
		guards:  []guard{{"internal/inbox", "^TestTokenAheadOfAnOwnerButNotOfTheStoreProvesNothing$"}},
	},
	{
		name:    "index-without-its-feed",
		holds:   "what changed after the index was stored is read from the feed",
		patches: []patch{{"internal/inbox/storedchangeindex.go", `c.index.Touch(im.Key{Tenant: im.Tenant(it.Tenant), Conv: im.ConvID(it.Conv)}, pos)`, `_ = it`}},
		guards:  []guard{{"internal/inbox", "^TestSyncReadsWhatHasNews$"}},
	},
	{
		name:    "fold-always",
		holds:   "a long list is stored",
		patches: []patch{{"internal/inbox/storedlist.go", `if !l.long() || l.set > maxStoredSettings {`, `if l.set >= 0 {`}},
		guards:  []guard{{"internal/inbox", "^TestSyncReadsWhatHasNews$"}},
	},
	{
		name:    "add-all-that-was-asked",
		holds:   "a page of a sync ends with the conversation that fills it",
		patches: []patch{{"internal/inbox/sync.go", `for n < len(changes) && (n == 0 || !p.full()) {`, `for n < len(changes) {`}},
		guards:  []guard{{"internal/inbox", "^TestSyncPageOfControlCharactersIsBounded$"}},
	},
	{
		name:    "count-messages-without-escapes",
		holds:   "a page of a sync is bounded by what its messages take in JSON",
		patches: []patch{{"internal/inbox/sync.go", `n += m.SizeVT() + wire.Escapes(m.GetText()) + wire.Escapes(m.GetEdit().GetText())`, `n += m.SizeVT() + 0*wire.Escapes(m.GetText())`}},
		guards:  []guard{{"internal/inbox", "^TestSyncPageOfControlCharactersIsBounded$"}},
	},
	{
		name:    "count-settings-without-escapes",
		holds:   "a page of settings is bounded by what they take in JSON",
		patches: []patch{{"internal/inbox/settings.go", `return s.bytes() + wire.Escapes(s.name) + wire.Escapes(s.value)`, `return s.bytes() + 0*wire.Escapes(s.name)`}},
		guards:  []guard{{"internal/inbox", "^TestSyncPageOfControlCharactersIsBounded$"}},
	},
	{
		name:    "left-without-a-title",
		holds:   "a group that was left has the title of then, also if it alone is asked for",
		patches: []patch{{"internal/inbox/convstate.go", `title = all.item(i).title`, `_ = i`}},
		guards:  []guard{{"internal/inbox", "^TestConversationThatWasLeftHasTheTitleOfThen$"}},
	},
	{
		name:    "left-with-a-later-title",
		holds:   "a former member is not told the titles that the group gets later",
		patches: []patch{{"internal/conv/grouptitles.go", `return uint64(q) < f.Until`, `return false`}},
		guards:  []guard{{"internal/inbox", "^TestFormerMemberIsNotToldALaterTitle$"}},
	},
	{
		name:    "read-all-conversations",
		holds:   "a sync reads only the conversations that may have changed",
		patches: []patch{{"internal/route/changecandidates.go", `s.maybe[i] = x.index == nil ||`, `s.maybe[i] = true ||`}},
		guards:  []guard{{"internal/inbox", "^TestSyncReadsWhatHasNews$"}},
	},
	{
		name:    "news-after-another-index",
		holds:   "an index that another consumer has replaced is stored whole",
		patches: []patch{{"internal/inbox/storedchangeindex.go", `if c.rewrite {`, `if false {`}},
		guards:  []guard{{"internal/inbox", "^TestF12IndexIsStoredAnewAfterAnotherConsumer$"}},
	},
}
