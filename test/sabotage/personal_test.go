package sabotage

var personalRules = []rule{
	{
		name:    "withhold-nothing",
		holds:   "what a blocked user writes is shown to nobody else",
		patches: []patch{{"internal/conv/withheld.go", `case head.Flags&store.RowWithheld != 0 && !own:`, `case head.Flags&store.RowWithheld != 0 && m.Seq == 0:`}},
		guards:  []guard{{"internal/conv", "^TestBlockWithholdsFromTheBlockerAlone$"}},
	},
	{
		name:    "block-late",
		holds:   "a send is withheld if its turn comes after the block, also in the same commit",
		patches: []patch{{"internal/conv/commit.go", `from == "" || s.Entry.GetRecall() != nil || !c.log.info.blockedBy(from)`, `from == "" || s.Entry.GetRecall() != nil || !c.info.Load().blockedBy(from)`}},
		guards:  []guard{{"internal/conv", "^TestBlockRacesASendUnderWay$"}},
	},
	{
		name:    "carry-an-old-block",
		holds:   "a block that is carried once more takes nothing back",
		patches: []patch{{"internal/conv/withheld.go", `if i >= 0 && rec.Blocks[i].Version >= b.Version {`, `if i >= 0 && rec.Blocks[i].Version == b.Version {`}},
		guards:  []guard{{"internal/conv", "^TestBlockRacesASendUnderWay$"}},
	},
	{
		name:    "tell-of-a-block",
		holds:   "a block is no news of the conversation",
		patches: []patch{{"internal/conv/publish.go", `if !m.rows {`, `if m.c == nil {`}},
		guards:  []guard{{"internal/conv", "^TestSenderSeesNothingOfABlock$"}},
	},
	{
		name:    "count-what-is-withheld",
		holds:   "what is withheld does not count as unread",
		patches: []patch{{"internal/conv/withheld.go", `m.Counted -= min(m.Counted, hiddenOf(head).of(v.side))`, `m.Counted -= min(0, hiddenOf(head).of(v.side))`}},
		guards:  []guard{{"internal/conv", "^TestEveryViewOfABlockedConversation$"}},
	},
	{
		name:    "show-a-withheld-edit",
		holds:   "a withheld edit shows at no time",
		patches: []patch{{"internal/conv/reader.go", `head.Flags = old.flags`, `_ = old.flags`}},
		guards:  []guard{{"internal/conv", "^TestWithheldEditShowsNotBetweenTwoCommits$"}},
	},
	{
		name:    "push-again-as-stored",
		holds:   "what is withheld is withheld also when a new owner pushes it",
		patches: []patch{{"internal/conv/refan.go", `if head.Flags&special != 0 {`, `if len(may) == 0 {`}},
		guards:  []guard{{"internal/route", "^TestANewOwnerPushesWhatIsWithheldAsSuch$"}},
	},
	{
		name:    "carry-no-blocks",
		holds:   "a setting that blocks a user is carried into the direct conversation",
		patches: []patch{{"internal/conv/commit.go", `if _, ok := s.Values[Blocked]; ok {`, `if _, ok := s.Values[Blocked]; ok && s.Conv != "" {`}},
		guards:  []guard{{"internal/inbox", "^TestBlockIsCarriedIntoTheDirectConversation$"}},
	},
	{
		name:    "signal-who-blocks",
		holds:   "the signals of a blocked user reach their own devices only",
		patches: []patch{{"internal/conv/signaller.go", `if in.blockedBy(from) {`, `if from == "" {`}},
		guards:  []guard{{"test/scenario", "^TestScenarios$/^block-signals$/^Pebble$/^WebSocketProto$"}},
	},
	{
		name:    "tell-that-one-is-online",
		holds:   "a blocked user does not see whether who blocks them is online",
		patches: []patch{{"internal/presence/load.go", `b.Blocked && b.User == string(r.account.User)`, `b.Blocked && b.User == ""`}},
		guards:  []guard{{"test/scenario", "^TestScenarios$/^block-signals$/^Pebble$/^WebSocketProto$"}},
	},
	{
		name:    "tell-of-no-removal",
		holds:   "a device is told which settings were removed",
		patches: []patch{{"internal/inbox/personal.go", `if s.value == "" && t.Reset_ {`, `if s.value == "" {`}},
		guards:  []guard{{"internal/inbox", "^TestSyncTellsTheNewestOfEachSetting$"}},
	},
	{
		name:    "keep-a-device-behind",
		holds:   "a device that was away during a compaction is told everything anew",
		patches: []patch{{"internal/inbox/personal.go", `(t.Told == 0 || t.Told+1 < uint64(l.first))`, `(t.Told == 0)`}},
		guards:  []guard{{"internal/inbox", "^TestDeviceBehindACompactedInbox$"}},
	},
	{
		name:    "compact-over-others",
		holds:   "nothing comes between the entries of an inbox and the snapshot of them",
		patches: []patch{{"internal/conv/admit.go", `if sn.First == 0 || uint64(head)+1 != sn.First+uint64(sn.Part) {`, `if sn.First == 0 {`}},
		guards:  []guard{{"internal/conv", "^TestSnapshotFollowsWhatItIsOf$"}},
	},
	{
		name:    "keep-what-was-removed",
		holds:   "a snapshot takes the place of all that was folded before it",
		patches: []patch{{"internal/inbox/compact.go", `f.list = list{stored: f.stored, first: im.Seq(s.first), read: s.bytes}`, `f.list.first, f.list.read = im.Seq(s.first), s.bytes`}},
		guards:  []guard{{"internal/inbox", "^TestSnapshotTakesThePlaceOfWhatWasFolded$"}},
	},
	{
		name:    "carry-again-for-ever",
		holds:   "a consumer that is told too_old by a compacted inbox has done its work",
		patches: []patch{{"internal/inbox/inbox.go", `case r.Err == nil, r.Err.Code == im.CodeConflict, r.Err.Code == im.CodeTooOld:`, `case r.Err == nil, r.Err.Code == im.CodeConflict:`}},
		guards:  []guard{{"internal/inbox", "^TestWhatIsTooOldWasCarried$"}},
	},
	{
		name:    "trim-by-the-first",
		holds:   "a feed keeps what one of its consumers has not read",
		patches: []patch{{"internal/store/consumer/consumer.go", `if !late {`, `if late {`}},
		guards:  []guard{{"internal/store/consumer", "^TestFeedIsTrimmedByItsSlowestConsumer$"}},
	},
	{
		name:    "drop-slots",
		holds:   "of the seqs that are filed under one hash none goes before the last one may",
		patches: []patch{{"internal/store/pebblestore/update.go", `stays = stays || n <= 0 || im.Seq(seq) >= below`, `stays = n <= 0 || im.Seq(seq) >= below && len(group) == 0`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestStoreInMemoryIsAStore$/^rows_below_a_seq_are_dropped$"}},
	},
	{
		name:    "forget-a-pushed-setting",
		holds:   "a client that is told its settings anew keeps what was pushed meanwhile",
		patches: []patch{{"sdk/go/personal.go", `if !c.live.pushed[settingKey(of, name)] {`, `if true {`}},
		guards:  []guard{{"sdk/go", "^TestSettingsAreTheNewestOfEachName$"}},
	},
}
