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
}
