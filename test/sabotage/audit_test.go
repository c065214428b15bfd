package sabotage

var auditRules = []rule{
	{
		name:    "one-turn-for-the-log",
		holds:   "whoever verifies a long audit log waits for a turn with each part of it",
		patches: []patch{{"internal/audit/read.go", `if n == l.o.Part {`, `if false && n == l.o.Part {`}},
		guards:  []guard{{"internal/audit", "^TestVerifyTakesATurnForEachPart$"}},
	},
	{
		name:  "audit-later",
		holds: "what an operator did is in the audit log before it is answered",
		patches: []patch{{"internal/audit/audit.go", `case err := <-it.done:
		return err`, `case err := <-it.done:
		return err
	default:
		return nil`}},
		guards: []guard{{"internal/audit", "^TestAnswerOfAppendMeansDurable$"}},
	},
	{
		name:    "act-untraced",
		holds:   "an act that cannot be recorded is not answered",
		patches: []patch{{"internal/api/auditrecording.go", `if err := s.o.Audit.Append(ctx, r); err != nil {`, `if err := s.o.Audit.Append(ctx, r); err != nil && false {`}},
		guards:  []guard{{"internal/api", "^TestActThatCannotBeRecordedIsNotAnswered$"}},
	},
	{
		name:    "chain-without-hash",
		holds:   "a record that was changed is noticed",
		patches: []patch{{"internal/audit/read.go", `sound = hmac.Equal(link.Hash, l.hash(node, link.Before, link.Record))`, `sound = true`}},
		guards:  []guard{{"internal/audit", "^TestVerifyNoticesWhatWasDoneToTheLog$/one_bit"}},
	},
	{
		name:  "chain-with-holes",
		holds: "a record that was removed is noticed",
		patches: []patch{{"internal/audit/read.go", `case number == next+1:
		v.fault(`, `case number == next+1:
		(&Verification{}).fault(`}},
		guards: []guard{{"internal/audit", "^TestVerifyNoticesWhatWasDoneToTheLog$/a_record_is_removed"}},
	},
	{
		name:    "chain-without-end",
		holds:   "the end of a chain that was cut off is noticed",
		patches: []patch{{"internal/audit/read.go", `if c.number < c.head.Number {`, `if false {`}},
		guards:  []guard{{"internal/audit", "^TestVerifyNoticesWhatWasDoneToTheLog$/the_last_record"}},
	},
	{
		name:    "head-without-seal",
		holds:   "a node says in its chain that somebody else has changed the end of it",
		patches: []patch{{"internal/audit/chain.go", `if !sound || h.rec.Number < l.known {`, `if !sound && false {`}},
		guards:  []guard{{"internal/audit", "^TestNodeSaysThatItsChainWasChanged$"}},
	},
	{
		name:    "record-each-refusal",
		holds:   "a flood of refusals is a few records",
		patches: []patch{{"internal/audit/audit.go", `if l.sums[k] == nil && len(l.sums) >= maxSums {`, `if false {`}},
		guards:  []guard{{"internal/audit", "^TestFloodOfRefusalsIsAFewRecords$"}},
	},
	{
		name:    "written-twice",
		holds:   "a record of unknown outcome is there once",
		patches: []patch{{"internal/audit/chain.go", `if meant != nil && bytes.Equal(h.rec.Hash, meant) {`, `if meant != nil && false {`}},
		guards:  []guard{{"internal/audit", "^TestRecordOfUnknownOutcomeIsThereOnce$"}},
	},
	{
		name:    "secrets-in-records",
		holds:   "no record of the audit log has a secret in it",
		patches: []patch{{"internal/api/auditrecording.go", `return slices.Contains(told, f.Name()) || slices.Contains(named, f.FullName())`, `return true`}},
		guards:  []guard{{"internal/api", "^TestWhatOperatorsAndStrangersDoIsRecorded$"}, {"internal/api", "^TestRecordsTellNothingElse$"}},
	},
	{
		name:    "passwords-as-names",
		holds:   "a password that was typed as a name is not recorded",
		patches: []patch{{"internal/api/auditrecording.go", `if known && err == nil {`, `if known || err != nil || true {`}},
		guards:  []guard{{"internal/api", "^TestWhatOperatorsAndStrangersDoIsRecorded$"}},
	},
}
