package sabotage

var terminalRules = []rule{
	{
		name:    "commands-write-as-they-like",
		holds:   "no text of a user steers the terminal of who reads it",
		patches: []patch{{"internal/terminal/terminal.go", `case !unicode.In(r, unseen...), unicode.Is(unicode.Prepended_Concatenation_Mark, r):`, `case true:`}},
		guards:  []guard{{"internal/terminal", "^TestWhatNobodySeesIsShownAsAnEscape$"}},
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
		name:    "write-escapes-step-by-step",
		holds:   "a long text of many escapes is written without being copied again and again",
		patches: []patch{{"internal/wire/writer.go", `if from == 0 && len(s)-i > longText {`, `if from == 0 && len(s)-i < 0 {`}},
		guards:  []guard{{"internal/wire", "^TestPageOfControlCharacters$"}},
	},
	{
		name:    "decode-many-values",
		holds:   "a frame of many values is refused before it is decoded",
		patches: []patch{{"internal/wire/decode.go", `if ManyValues(c, b, clientFrame) {`, `if false {`}},
		guards:  []guard{{"internal/wire", "^TestFrameOfManyValuesIsNotDecoded$"}},
	},
	{
		name:    "count-the-outermost-values",
		holds:   "values count at any depth of a frame",
		patches: []patch{{"internal/wire/valuelimit.go", `if inner, _ := protowire.ConsumeBytes(b); !countFields(inner, f.Message(), left) {`, `if false {`}},
		guards:  []guard{{"internal/wire", "^TestFrameOfManyValuesIsNotDecoded$"}},
	},
	{
		name:    "count-commas-of-texts",
		holds:   "commas and brackets of a text are no values",
		patches: []patch{{"internal/wire/valuelimit.go", `i += n - 1`, `_ = n`}},
		guards:  []guard{{"internal/wire", "^TestFrameOfManyBytesIsDecoded$"}},
	},
	{
		name:    "decode-many-values-of-a-call",
		holds:   "a request of many values is refused before it is decoded, unless an admin key makes it",
		patches: []patch{{"internal/api/codec.go", `if d := m.ProtoReflect().Descriptor(); r[d.FullName()] && wire.ManyValues(c, b, d) {`, `if false {`}},
		guards:  []guard{{"internal/api", "^TestRequestOfManyValuesIsRefused$"}},
	},
	{
		name:    "bound-admin-keys",
		holds:   "requests of an admin key are bounded by their bytes only",
		patches: []patch{{"internal/api/codec.go", `if m.access != aKey {`, `if m.access >= 0 {`}},
		guards:  []guard{{"internal/api", "^TestRequestOfManyValuesIsRefused$"}},
	},
	{
		name:    "trust-other-nodes",
		holds:   "no bytes of another node end this one",
		patches: []patch{{"internal/route/packet.go", `if len(s.Conv) != len(im.ConvID{}) {`, `if false {`}},
		guards:  []guard{{"internal/route", "^TestSendsOfAnotherNodeNameTheirConversations$"}},
	},
}
