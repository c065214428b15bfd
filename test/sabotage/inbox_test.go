package sabotage

var inboxRules = []rule{
	{
		name:    "believe-feeds",
		holds:   "a sync token from the future of a feed refutes the store",
		patches: []patch{{"internal/inbox/proof.go", `if holders[i].Pos < seen[f] {`, `if false {`}},
		guards: []guard{
			{"internal/inbox", "^TestTokenOfALostMessageRefutesTheStore$"},
			{"internal/inbox", "^TestTokenFromTheMiddleOfALostListRefutesTheStore$"},
		},
	},
	{
		name:    "believe-inbox",
		holds:   "a sync token from the future of an inbox refutes the store",
		patches: []patch{{"internal/inbox/proof.go", `if seen <= head {`, `if true {`}},
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
		patches: []patch{{"internal/inbox/proof.go", `if holders[i].Pos < seen[f] {`, `if true {`}},
		guards:  []guard{{"internal/inbox", "^TestTokenAheadOfAnOwnerButNotOfTheStoreProvesNothing$"}},
	},
}
