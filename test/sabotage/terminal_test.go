package sabotage

var terminalRules = []rule{
	{
		name:    "commands-write-as-they-like",
		holds:   "no text of a user steers the terminal of who reads it",
		patches: []patch{{"internal/terminal/terminal.go", `case !unicode.In(r, unseen...), unicode.Is(unicode.Prepended_Concatenation_Mark, r):`, `case true:`}},
		guards:  []guard{{"internal/terminal", "^TestWhatNobodySeesIsShownAsAnEscape$"}},
	},
	{
		name:    "draw-texts-as-they-are",
		holds:   "no text of a user steers the full screen of chat",
		patches: []patch{{"cmd/petrel/chat/text.go", `s = clean(s)`, `s = strings.TrimSpace(s)`}},
		guards:  []guard{{"cmd/petrel/chat", "^TestNothingOnTheScreenSteersTheTerminal$"}},
	},
	{
		name:    "names-with-line-feeds",
		holds:   "no name of a user begins a line of its own",
		patches: []patch{{"internal/terminal/terminal.go", `if !strings.ContainsAny(s, "\n\t") {`, `if true {`}},
		guards:  []guard{{"internal/terminal", "^TestWhatNobodySeesIsShownAsAnEscape$"}},
	},
}

var decoderRules = []rule{
	{
		name:    "trust-the-inventory",
		holds:   "an inventory that does not hold what it says is damaged",
		patches: []patch{{"internal/store/pebblestore/inventory.go", `if !sound {`, `if false {`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestInventoryThatEndsTooEarlyIsRefused$"}},
	},
	{
		name:    "trust-other-nodes",
		holds:   "no bytes of another node end this one",
		patches: []patch{{"internal/route/packet.go", `if len(s.Conv) != len(im.ConvID{}) {`, `if false {`}},
		guards:  []guard{{"internal/route", "^TestSendsOfAnotherNodeNameTheirConversations$"}},
	},
}
