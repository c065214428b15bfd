package sabotage

var mentionRules = []rule{
	{
		name:    "mention-who-left",
		holds:   "an entry mentions only users who may read it",
		patches: []patch{{"internal/conv/mention.go", `if in.mayRead(u, q, at.head) {`, `if q <= at.head {`}},
		guards:  []guard{{"internal/conv", "^TestMentionsAreUnreadUntilTheyAreReadOrRecalled$"}},
	},
	{
		name:    "tell-former-members-the-head",
		holds:   "a former member does not learn how many entries followed",
		patches: []patch{{"internal/conv/mention.go", `in.members.readableUpTo(u, at.head)`, `at.head`}},
		guards:  []guard{{"internal/conv", "^TestCursorTellsAFormerMemberNothingNew$"}, {"test/authz", "^TestNoAnswerTellsAFormerMemberWhatCameLater$"}},
	},
	{
		name:    "refuse-former-members-with-the-head",
		holds:   "a refused after does not tell a former member how many entries followed",
		patches: []patch{{"internal/conv/dedupe.go", `leftAt(im.User(s.Entry.From)); left {`, `leftAt(im.User(s.Entry.From)); left && last == 0 {`}},
		guards:  []guard{{"internal/conv", "^TestRefusalsOfAnAfterTellAFormerMemberNothingNew$"}, {"test/authz", "^TestNoAnswerTellsAFormerMemberWhatCameLater$"}},
	},
	{
		name:    "mention-of-an-earlier-stay",
		holds:   "who comes back to a conversation is mentioned by nothing of before",
		patches: []patch{{"internal/conv/mention.go", `first > read+1 {`, `first == 0 {`}},
		guards:  []guard{{"internal/conv", "^TestMentionsAreUnreadUntilTheyAreReadOrRecalled$"}, {"test/scenario", "^TestScenarios$/^mentions$/^Pebble$"}},
	},
	{
		name:    "mention-outsiders",
		holds:   "naming only users who are no members writes nothing",
		patches: []patch{{"internal/conv/mention.go", `im.User(u) != from && in.members.Role(im.User(u)) != 0 {`, `im.User(u) != from {`}},
		guards:  []guard{{"internal/conv", "^TestMentionsCostReadsOnlyWhereThereAreSome$"}},
	},
	{
		name:    "everybody-mentions-everybody",
		holds:   "in a group only admins and the owner mention all members",
		patches: []patch{{"internal/conv/admit.go", `case rel.MentionAll && from != "" &&`, `case rel.MentionAll && from == "" &&`}},
		guards:  []guard{{"internal/conv", "^TestMentionsAreUnreadUntilTheyAreReadOrRecalled$"}, {"test/scenario", "^TestScenarios$/^mentions$/^Pebble$"}},
	},
	{
		name:    "mention-in-any-order",
		holds:   "whom a message names has one form",
		patches: []patch{{"internal/conv/relations.go", `if i > 0 && u <= rel.Mentions[i-1] {`, `if i > maxNamed {`}},
		guards:  []guard{{"internal/conv", "^TestNamesOfASendAreChecked$"}, {"test/scenario", "^TestScenarios$/^mentions$/^Pebble$"}},
	},
	{
		name:    "recall-keeps-the-mention",
		holds:   "a recalled message mentions nobody",
		patches: []patch{{"internal/conv/mention.go", `note.EncodeMark(&storepb.Mention{Pos: uint64(pos), Recalled: true})`, `note.EncodeMark(&storepb.Mention{Pos: uint64(pos)})`}},
		guards:  []guard{{"internal/conv", "^TestMentionsAreUnreadUntilTheyAreReadOrRecalled$"}, {"internal/session", "^TestMentionBadgeAfterRecallFocusAndOverflow$"}},
	},
	{
		name:    "recall-is-not-told",
		holds:   "who was mentioned learns of the recall, whatever is in focus",
		patches: []patch{{"internal/conv/build.go", `b.items[len(b.items)-1].Names = mentioned.names`, `if s.Entry.GetRecall() == nil { b.items[len(b.items)-1].Names = mentioned.names }`}},
		guards:  []guard{{"internal/session", "^TestMentionBadgeAfterRecallFocusAndOverflow$"}, {"test/scenario", "^TestScenarios$/^mentions$/^Pebble$"}},
	},
	{
		name:    "recall-of-a-mention-before-it-is-durable",
		holds:   "nobody is told that a mention is gone before the recall is durable",
		patches: []patch{{"internal/conv/mention.go", `if !m.Recalled || im.Pos(m.Pos) > at.pos {`, `if !m.Recalled {`}},
		guards:  []guard{{"internal/conv", "^TestMentionsAreThoseOfDurableEntries$"}},
	},
	{
		name:    "withheld-mentions",
		holds:   "what is withheld mentions nobody",
		patches: []patch{{"internal/conv/build.go", `if s.Entry.Rel == nil || next.deafTo(from) != "" {`, `if s.Entry.Rel == nil {`}},
		guards:  []guard{{"internal/conv", "^TestABlockedUserMentionsNobody$"}},
	},
	{
		name:    "edit-forgets-whom-it-names",
		holds:   "an edit leaves whom a message mentions as it was",
		patches: []patch{{"internal/conv/rewrite.go", `Mentions: was.GetMentions(), MentionAll: was.GetMentionAll(),`, ``}},
		guards:  []guard{{"internal/conv", "^TestEditsKeepWhomAMessageNames$"}},
	},
	{
		name:    "look-for-mentions-always",
		holds:   "a sync reads no mentions where nobody was mentioned",
		patches: []patch{{"internal/conv/mention.go", `if in.record == nil || im.Seq(in.record.Mentioned) <= read {`, `if in.record == nil {`}},
		guards:  []guard{{"internal/conv", "^TestMentionsCostReadsOnlyWhereThereAreSome$"}},
	},
	{
		name:    "mention-out-of-focus",
		holds:   "whom an entry mentions gets it whole, whatever is in focus",
		patches: []patch{{"internal/fanout/focus.go", `if named != nil && o.Mentions {`, `if named != nil && o.Mentions && o.focus.has(h.conv) {`}},
		guards:  []guard{{"internal/fanout", "^TestWhoIsNamedGetsTheEntryWhateverTheFocus$"}, {"internal/session", "^TestMentionBadgeAfterRecallFocusAndOverflow$"}},
	},
	{
		name:    "mention-to-old-clients",
		holds:   "a client that does not know mentions is told nothing of them",
		patches: []patch{{"internal/fanout/focus.go", `if named != nil && o.Mentions {`, `if named != nil {`}},
		guards:  []guard{{"internal/fanout", "^TestWhoIsNamedGetsTheEntryWhateverTheFocus$"}, {"internal/session", "^TestMentionBadgeAfterRecallFocusAndOverflow$"}},
	},
	{
		name:    "hint-forgets-a-mention",
		holds:   "a queue that is full loses no mention",
		patches: []patch{{"internal/fanout/focus.go", `if h.mention = max(h.mention, old.mention); h.head < old.head {`, `if h.head < old.head {`}},
		guards:  []guard{{"internal/fanout", "^TestOverflowLosesNoMention$"}, {"internal/session", "^TestMentionBadgeAfterRecallFocusAndOverflow$"}},
	},
	{
		name:    "stream-hint-forgets-a-mention",
		holds:   "a hint of a stream takes the place of none that says more of whom the rows name",
		patches: []patch{{"internal/fanout/remotesend.go", `uint64(len(n.users)-len(users))+named.hash()))`, `uint64(len(n.users)-len(users))))`}},
		guards:  []guard{{"internal/fanout", "^TestMentionsReachOtherNodes$"}},
	},
	{
		name:    "second-fan-out-forgets-mentions",
		holds:   "a new owner pushes an entry to those whom it mentions, whatever is in focus",
		patches: []patch{{"internal/conv/refanout.go", `fanout.Item{Row: stored, Names: namesIn(stored)})`, `fanout.Item{Row: stored})`}},
		guards:  []guard{{"internal/route", "^TestF8ANewOwnerPushesMentionsWhateverTheFocus$"}},
	},
	{
		name:    "ask-for-no-mention",
		holds:   "the client asks for a mention that was not pushed",
		patches: []patch{{"sdk/go/mention.go", `v.mentions.asked = true`, `v.mentions.asked = v.mentions.asked && seq > 0`}},
		guards:  []guard{{"sdk/go", "^TestMentionsAreKnownWhateverIsInFocus$"}},
	},
}
