package sabotage

var convRules = []rule{
	{
		name:    "roles-forget-the-newest-member",
		holds:   "an edit after a change of roles shows its content to no member who joined after its target",
		patches: []patch{{"internal/conv/members.go", `next := *m`, `next := Members{current: m.current, bytes: m.bytes}`}},
		guards:  []guard{{"internal/conv", "^TestEditAfterAChangeOfRolesShowsNoMore$"}},
	},
	{
		name:  "frozen-groups-hide-reactions",
		holds: "members of a frozen group list the reactions to a message",
		patches: []patch{{"internal/conv/pagenotes.go", `if !in.mayRead(u, q, at.head) {`, `if in.record.Frozen {
		return &im.Error{Code: im.CodeFrozen}
	}
	if !in.mayRead(u, q, at.head) {`}},
		guards: []guard{{"test/scenario", "^TestScenarios$/^frozen$/^Pebble$"}},
	},
	{
		name:    "unread-of-earlier-stays",
		holds:   "who comes back has nothing unread",
		patches: []patch{{"internal/conv/cursorreads.go", `first > at.Read+1 {`, `first > at.Read+1000 {`}},
		guards:  []guard{{"internal/conv", "^TestReadCountedBeginsWithTheNewestStay$"}},
	},
	{
		name:    "read-past-head",
		holds:   "a reader sees nothing above the published head",
		patches: []patch{{"internal/conv/conversation.go", `at := *c.point.Load()`, `at := *c.point.Load(); at.head = c.log.head`}},
		guards:  []guard{{"internal/conv", "^TestF1NobodyReadsWhatIsNotDurable$"}, {"internal/conv", "^TestF1ReadersDuringRewrites$"}},
	},
	{
		name:  "ack-before-durable",
		holds: "nobody is told of an entry before it is durable, and its sender gets no ack",
		patches: []patch{{
			"internal/conv/commit.go",
			`cm.store.Append(&b.commit, func(err error) { cm.publisher.finish(b, err) })`,
			`cm.publisher.deliver(b)
			b.spans, b.answers = nil, nil
			cm.store.Append(&b.commit, func(err error) { cm.publisher.finish(b, err) })`,
		}},
		guards: []guard{{"internal/conv", "^TestF1ConnectionsAreToldOfAnEntryWhenItIsDurable$"}, {"internal/conv", "^TestF1NobodyReadsWhatIsNotDurable$"}},
	},
	{
		name:  "recipients-before-commit",
		holds: "the recipients of an entry are looked up when it can be read",
		patches: []patch{{
			"internal/conv/commit.go",
			`bu.conversation(&b.work[i])`,
			`from := len(b.spans)
			bu.conversation(&b.work[i])
			for n := range b.spans[from:] {
				sp := &b.spans[from+n]
				var online []im.User
				for _, u := range sp.members {
					if len(cm.publisher.fan.Table.Of(im.Account{Tenant: sp.tenant, User: u})) > 0 {
						online = append(online, u)
					}
				}
				sp.members = online
			}`,
		}},
		guards: []guard{{"internal/conv", "^TestF2"}},
	},
	{
		name:  "admit-before-dedupe",
		holds: "a repeat gets its first answer, whatever its sender may do by now",
		patches: []patch{{
			"internal/conv/build.go",
			`r, found, slot, err := bu.dedupe.find(c, s, id)`,
			`if _, err := bu.admission.admit(c, s, role); err != nil {
				bu.b.addItem(s, nil, Result{Err: &im.Error{Code: im.CodeOf(err)}})
				return 0, nil
			}
			r, found, slot, err := bu.dedupe.find(c, s, id)`,
		}},
		guards: []guard{
			{"internal/conv", "^TestF4"},
			{"test/scenario", "^TestScenarios$/^resend-removed$/^Pebble$"},
		},
	},
	{
		name:    "damage-for-all",
		holds:   "a damaged conversation keeps a client from no other one",
		patches: []patch{{"internal/conv/sync.go", `	if !errors.Is(err, store.ErrCorrupt) {`, `	if true {`}},
		guards:  []guard{{"internal/conv", "^TestDamageConcerns"}},
	},
	{
		name:  "lost-users",
		holds: "users of a direct conversation whose records are lost write on, after the last seq",
		patches: []patch{
			{"internal/conv/admit.go", `whole := a.users(c, s)`, `whole, _ := (*info)(nil), a.users`},
			{"internal/conv/load.go", `if rec != nil || !policy.Of(c.key.Conv.Kind()).Members {`, `if rec != nil {`},
		},
		guards: []guard{{"internal/conv", "LostItsRecordsIsRestored$"}},
	},
	{
		name:    "damage-is-internal",
		holds:   "what meets damage says so",
		patches: []patch{{"internal/conv/refusal.go", `return errors.Is(err, store.ErrStalled) || errors.Is(err, store.ErrCorrupt)`, `return errors.Is(err, store.ErrStalled)`}},
		guards:  []guard{{"internal/conv", "^TestDamageConcerns"}},
	},
	{
		name:    "reuse-seq",
		holds:   "a seq is given once",
		patches: []patch{{"internal/conv/build.go", `l.head++`, `if l.head%97 != 96 { l.head++ }`}},
		guards: []guard{
			{"internal/conv", "^TestSeqsAreGivenOnceAndWithoutHoles$"},
			{"test/scenario", "^TestScenarios$/^group$/^Pebble$"},
			{"test/crash", "^TestKill9LosesNothing$"},
		},
	},
	{
		name:  "skip-membership",
		holds: "only members send and read",
		patches: []patch{
			{"internal/conv/admit.go", `if from != "" && role == 0 {`, `if false {`},
			{"internal/conv/build.go", `if !known && s.needsStanding() {`, `if !known && false {`},
			{"internal/conv/outsider.go", `return rec == nil, err`, `return rec == nil && false, err`},
			{"internal/conv/reader.go", `u != "" && !known {`, `!known && false {`},
			{"internal/conv/reader.go", `if by.User != "" && in.members.Role(by.User) == 0 {`, `if false {`},
			{"internal/conv/history.go", `first, last = in.members.reach(by.User, at.head)`, `last = at.head`},
			{"internal/conv/history.go", `return in.members.readable(by.User, from, to)`, `return []stay{{from, to}}`},
		},
		guards: []guard{
			judged("leaked"),
			{"test/scenario", "^TestScenarios$/^group$/^Pebble$"},
			{"test/scenario", "^TestScenarios$/^membership$/^Pebble$"},
			{"test/crash", "^TestKill9LosesNothing$"},
		},
	},
	{
		name:  "page-without-stays",
		holds: "a page of history has only what was written during the stays of its reader",
		patches: []patch{
			{"internal/conv/history.go", `return in.members.readable(by.User, from, to)`, `return []stay{{from, to}}`},
		},
		guards: []guard{{"internal/conv", "^TestF17RejoinKeepsTheFirstStay$"}},
	},
	{
		name:    "page-beyond-stays",
		holds:   "a page of history begins and ends within the stays of its reader",
		patches: []patch{{"internal/conv/history.go", `first, last = in.members.reach(by.User, at.head)`, `last = at.head`}},
		guards:  []guard{{"internal/conv", "^TestF17APageSaysNothingOfWhatCameAfterAStay$"}},
	},
	{
		name:    "outsider-is-told",
		holds:   "an outsider is answered as if there were no conversation",
		patches: []patch{{"internal/conv/membershipcheck.go", `refusal = noConversation()`, `refusal = &im.Error{Code: im.CodeNotMember}`}},
		guards:  []guard{{"internal/conv", "^TestAnOutsidersSendTellsNothing$"}},
	},
	{
		name:  "outsider-is-told-what-is-in-memory",
		holds: "an outsider's send to a conversation in memory is examined like one to no conversation",
		patches: []patch{
			{"internal/conv/membershipcheck.go", `c.state != loading && !c.known(im.User(s.Entry.From))`, `c.state != loading && false`},
			{"internal/conv/build.go", `if !known && s.needsStanding() {`, `if !known && false {`},
		},
		guards: []guard{
			{"internal/conv", "^TestAnOutsidersSendTellsNothing$"},
			{"test/authz", "^TestNoAnswerTellsThatAConversationExists$"},
		},
	},
	{
		name:    "outsider-loads",
		holds:   "what an outsider asks loads no conversation",
		patches: []patch{{"internal/conv/reader.go", `if by.User != "" && !r.outsiders.knows(by.Conv, by.User) {`, `if false {`}},
		guards:  []guard{{"internal/conv", "^TestAnOutsiderCostsOneLook$"}},
	},
	{
		name:    "load-what-does-not-exist",
		holds:   "a send of an outsider makes nothing for a conversation that does not exist",
		patches: []patch{{"internal/conv/intake.go", `if in.examiner.mustExamineLocked(c, s) {`, `if c = in.fetch.getLocked(s.Conv); in.examiner.mustExamineLocked(c, s) {`}},
		guards:  []guard{{"internal/conv", "^TestNothingIsMadeForAnOutsider$"}},
	},
	{
		name:    "examined-out-of-order",
		holds:   "a send does not pass an earlier one of its sender that is examined",
		patches: []patch{{"internal/conv/membershipcheck.go", `x != nil && x.has(s.Entry.From) {`, `x != nil && false {`}},
		guards:  []guard{{"internal/conv", "^TestExaminedSendsKeepTheirOrder$"}, {"internal/conv", "^TestASendToAUserPassesNoExaminedOne$"}},
	},
	{
		name:    "ids-without-key",
		holds:   "nobody without the secret of the store can compute an id",
		patches: []patch{{"internal/im/deriveids.go", `return &IDs{key: [sha256.Size]byte(h.Sum(nil))}`, `return &IDs{}`}},
		guards:  []guard{{"internal/im", "^TestDerivedIDsDiffer$"}},
	},
	{
		name:    "no-refan",
		holds:   "a new owner pushes what the former one committed and may not have pushed",
		patches: []patch{{"internal/conv/convs.go", `if err := again.run(ctx); err != nil {`, `_ = again; if err := error(nil); err != nil {`}},
		guards:  []guard{{"internal/route", "^TestF8ANewOwnerPushesWhatTheOldOneCommitted$"}},
	},
	{
		name:    "refan-here-only",
		holds:   "a new owner also pushes to users who are online at other nodes only",
		patches: []patch{{"internal/fanout/deliver.go", ` || f.Remote != nil && f.Remote.online.nodesOf(h) != 0`, ``}},
		guards:  []guard{{"internal/fanout", "^TestReachesWhoIsOnlineAtAnotherNode$"}},
	},
	{
		name:  "reach-without-trace",
		holds: "who was not known when a new owner looked for recipients has to sync",
		patches: []patch{{"internal/fanout/deliver.go", `		f.Remote.noteRecipientsChosen()
	}
	return slices.ContainsFunc(`, `	}
	return slices.ContainsFunc(`}},
		guards: []guard{{"internal/fanout", "^TestWhoeverReachesNobodyHasChosenRecipients$"}},
	},
	{
		name:    "refan-to-all",
		holds:   "what a new owner pushes reaches nobody who became a member later",
		patches: []patch{{"internal/conv/refanout.go", `case q < s.from || s.to != 0 && q > s.to:`, `case s.to != 0 && q > s.to:`}},
		guards:  []guard{{"internal/route", "^TestF8ANewOwnerPushesNobody"}},
	},
	{
		name:    "refan-to-members-only",
		holds:   "a new owner tells users who were removed meanwhile",
		patches: []patch{{"internal/conv/refanout.go", `(s.To == 0 || im.Seq(s.To) >= of.from)`, `s.To == 0`}},
		guards:  []guard{{"internal/route", "^TestF8ANewOwnerTellsWhoWasRemoved$"}},
	},
	{
		name:    "refan-later-edits",
		holds:   "a new owner pushes a removed user no text of a later edit",
		patches: []patch{{"internal/conv/refanout.go", `im.Seq(max(m.EditedBy, m.RecalledBy)) <= s.to`, `true`}},
		guards:  []guard{{"internal/route", "^TestANewOwnerShowsWhoWasRemovedNoLaterEdit$"}},
	},
	{
		name:    "show-rewrites-early",
		holds:   "an edit or recall is not shown before it is durable",
		patches: []patch{{"internal/conv/reader.go", `at < pos; {`, `at < pos && false; {`}},
		guards:  []guard{{"internal/conv", "^TestF1RewriteIsNotShownBeforeItIsDurable$"}, {"internal/conv", "^TestF1Reader"}},
	},
	{
		name:    "keep-former-edits",
		holds:   "a body that was edited or recalled is served nowhere",
		patches: []patch{{"internal/conv/rewrite.go", `if t.m.EditedBy != 0 {`, `if false {`}},
		guards:  []guard{{"internal/conv", "^TestF10FormerBodiesAreServedNowhere$"}, {"internal/conv", "^TestF10ConcurrentEdit"}},
	},
	{
		name:    "leave-targets",
		holds:   "an edit or recall changes the message that it aims at",
		patches: []patch{{"internal/conv/rewrite.go", `t, edit := w.targets[0], w.targets[1]`, `t, edit := w.targets[0], w.targets[1]; if t != nil { return }`}},
		guards:  []guard{judged("recalled"), {"internal/conv", "^TestF10EditAndRecallReachADeviceThatWasAway$"}, {"internal/inbox", "^TestF10"}},
	},
	{
		name:    "recipients-of-the-batch",
		holds:   "an entry goes to the members of its place in the batch",
		patches: []patch{{"internal/conv/build.go", `if after := c.log.info; after.members != before.members {`, `if after := c.log.info; after.members != before.members && false {`}},
		guards:  []guard{{"internal/conv", "^TestF17KickInTheMiddleOfABatch$"}},
	},
	{
		name:  "skip-roles",
		holds: "roles decide who may change a group",
		patches: []patch{
			{"internal/conv/members.go", `return m.Role(u) >= role`, `return true`},
			{"internal/conv/admit.go", `if im.User(r.User) == from && !handsOver {`, `if im.User(r.User) == from && !handsOver && false {`},
			{"internal/conv/admit.go", `if m.Role(from) == petrelv1.Role_ROLE_OWNER && len(m.current) > 1 {`, `if false {`},
		},
		guards: []guard{
			{"internal/conv", "^TestRolesDecideWhoMayChangeAGroup$"},
			{"internal/conv", "^TestOwnerLeavesAsTheLast$"},
			{"internal/conv", "^TestWhoMayReactAndPin$"},
		},
	},
	{
		name:  "cursor-ack-before-flush",
		holds: "a move of a cursor is acknowledged when it is durable",
		patches: []patch{{
			"internal/conv/cursor.go",
			`cu.waiting++
			cu.node.cursorMoves.Add(1)
			p.waiting = append(p.waiting, m)
			cu.mem.mu.Unlock()`,
			`cu.mem.mu.Unlock()
			var k fanout.WakeUps
			m.Done(next, nil, &k)
			k.Flush()`,
		}},
		guards: []guard{{"internal/conv", "^TestF13MoveIsToldWhenItIsDurable$"}},
	},
	{
		name:    "cursors-go-back",
		holds:   "a cursor moves forward only",
		patches: []patch{{"internal/conv/usercursor.go", `if d.Read > c.Read {`, `if d.Read > 0 {`}},
		guards:  []guard{judged("cursor"), {"internal/conv", "^TestF13CursorsMoveForward"}},
	},
	{
		name:  "cursor-above-head",
		holds: "a cursor is not above the published head",
		patches: []patch{
			{"internal/conv/cursor.go", `min(m.Delivered, at.head)`, `m.Delivered`},
			{"internal/conv/cursor.go", `min(m.Read, at.head)`, `m.Read`},
		},
		guards: []guard{judged("cursor"), {"internal/conv", "^TestCursorIsCut"}},
	},
	{
		name:    "sync-without-cursors",
		holds:   "a sync names the conversations whose cursors have moved",
		patches: []patch{{"internal/conv/cursorreads.go", `own, err := cu.CursorOf(ctx, key, u)`, `own, err := Cursor{}, error(nil); peer = ""`}},
		guards:  []guard{{"internal/inbox", "^TestF12SyncNames"}},
	},
	{
		name:    "dedupe-by-tail",
		holds:   "the store is asked for a repeat unless every row is in the tail",
		patches: []patch{{"internal/conv/dedupe.go", `if l.tail.from == 0 && !met {`, `if !met {`}},
		guards:  []guard{{"internal/conv", "^TestF3KeyedRepeat"}},
	},
	{
		name:  "forget-dedupe",
		holds: "a repeat is found, however long ago it was sent",
		patches: []patch{
			{"internal/conv/dedupe.go", `if s.After < l.tail.from {`, `if false {`},
			{"internal/conv/dedupe.go", `if l.tail.find(0, id.hash, match) || failure != nil {`, `if l.tail.find(0, id.hash, match) || true {`},
		},
		guards: []guard{
			{"internal/conv", "^TestF3RepeatIsFoundAfterARestart$"},
			{"internal/conv", "^TestF26"},
			{"internal/inbox", "^TestF26"},
			{"test/scenario", "^TestScenarios$/^resend$/^Pebble$"},
			{"test/crash", "^TestKill9LosesNothing$"},
			{"test/simulation", "^TestSimulation$"},
			killedUnderLoad("duplicate"),
		},
	},
	{
		name:    "refuse-unknown",
		holds:   "a send whose commit may have happened is not refused",
		patches: []patch{{"internal/conv/publish.go", `case errors.Is(err, store.ErrFull), errors.Is(err, store.ErrStalled):`, `case errors.Is(err, store.ErrFull), errors.Is(err, store.ErrStalled), errors.Is(err, store.ErrUnknown):`}},
		guards:  []guard{{"internal/route", "^TestF6"}},
	},
	{
		name:    "pass-lane",
		holds:   "a send goes into its lane while others wait there",
		patches: []patch{{"internal/conv/convs.go", `if e.Waits == nil || !e.Waits(f) {`, `if true {`}},
		guards:  []guard{{"internal/route", "^TestF14NothingPassesTheLane"}},
	},
	{
		name:    "type-by-its-letters",
		holds:   "a type that is left out and text are one to dedupe",
		patches: []patch{{"internal/conv/dedupehashes.go", `if t == "text" {`, `if t == "\x00" {`}},
		guards:  []guard{{"internal/conv", "^TestTypeLeftOutAndTextAreOneToDedupe$"}},
	},
	{
		name:    "damage-ends-history",
		holds:   "a page of history ends where the damage begins, and the next one can be asked for",
		patches: []patch{{"internal/conv/history.go", `err = r.aroundDamage(ctx, c, parts, p, down)`, `_ = r.aroundDamage`}},
		guards:  []guard{{"internal/conv", "^TestDamageConcernsOneConversation$"}},
	},
	{
		name:    "endless-memory",
		holds:   "conversations in memory keep to their budget",
		patches: []patch{{"internal/conv/memory.go", `if ms.node.convBytes.Load() <= ms.node.convBudget {`, `if true {`}},
		guards:  []guard{{"internal/conv", "^TestConversationsInMemoryKeepToTheirBudget$"}},
	},
	{
		name:    "evict-in-use",
		holds:   "a conversation in use stays in memory",
		patches: []patch{{"internal/conv/memory.go", `if c.unusedLocked() && c.lastUse <= c.seen {`, `if c.lastUse <= c.seen {`}},
		guards:  []guard{{"internal/conv", "^TestConversationsInUseStayInMemory$"}},
	},
	{
		name:    "keep-frame",
		holds:   "a conversation in memory keeps nothing of a frame",
		patches: []patch{{"internal/conv/admit.go", `strings.Clone(string(max(a, b)))`, `string(max(a, b))`}},
		guards:  []guard{{"internal/conv", "^TestConversationKeepsNothingOfAFrame$"}},
	},
	{
		name:    "begin-behind-inboxes",
		holds:   "no conversation begins while the inboxes are far behind",
		patches: []patch{{"internal/conv/inboxlag.go", `if p.List || l.lag() <= l.limit {`, `if true {`}},
		guards:  []guard{{"internal/conv", "^TestNoConversationBeginsWhileTheInboxesAreFarBehind$"}},
	},
	{
		name:    "floors-stay",
		holds:   "a conversation that falls out of the index of changes raises its floor",
		patches: []patch{{"internal/conv/changeindex.go", `l.raise(min(pos, oldest))`, `l.raise(0)`}},
		guards:  []guard{{"internal/conv", "^TestIndexOfChangesLeavesNothingOut$"}},
	},
	{
		name:    "cursors-are-no-change",
		holds:   "a cursor that moves is in the index of changes",
		patches: []patch{{"internal/conv/publish.go", `p.changes.touch(b.cursors[i].c.key, pos)`, `_ = i`}},
		guards:  []guard{{"internal/inbox", "^TestF12SyncNamesWhoseCursorsMoved$"}},
	},
	{
		name:    "index-forgets",
		holds:   "the index of changes rules out a block only if nothing in it is newer",
		patches: []patch{{"internal/conv/changeindex.go", `n.Store(pos)`, `_ = n`}},
		guards:  []guard{{"internal/conv", "^Test(Saved)?IndexOfChangesLeavesNothingOut$"}},
	},
	{
		name:    "index-knows-it-all",
		holds:   "an owner that has just taken a feed over rules out nothing of what was before",
		patches: []patch{{"internal/conv/changeindex.go", `x.unknown.Store(uint64(unknown))`, `x.unknown.Store(0)`}},
		guards:  []guard{{"internal/conv", "^TestSavedIndexOfChangesLeavesNothingOut$"}, {"internal/route", "^TestCandidatesComeFromTheOwners$"}},
	},
	{
		name:  "page-reads-more",
		holds: "a page of history reads what it answers",
		patches: []patch{{"internal/conv/reader.go", `if len(p.rows) > 0 && p.bytes+len(stored) > MaxPageBytes {
			p.more = true
			return false`, `if len(p.rows) > 0 && p.bytes+len(stored) > MaxPageBytes {
			p.more = true
			return true`}},
		guards: []guard{{"internal/conv", "^TestPageOfHistoryReadsWhatItAnswers$"}},
	},
	{
		name:  "edits-of-the-absent",
		holds: "who left and came back does not read the text of edits made meanwhile",
		patches: []patch{{
			"internal/conv/members.go",
			`msg.GetEdit() != nil || len(m.readable(u, q, q)) > 0 {`,
			`msg.GetEdit() != nil || len(m.readable(u, q, q)) > 0 || m.Role(u) != 0 {`,
		}},
		guards: []guard{
			{"internal/conv", "^TestEditsMadeWhileAUserIsAwayStayUnread$"},
			{"test/scenario", "^TestScenarios$/^edit$/^Pebble$"},
		},
	},
	{
		name:    "push-edits-of-before",
		holds:   "who joins after a message is not pushed the text of an edit of it",
		patches: []patch{{"internal/conv/build.go", `} else if bu.bare != nil {`, `} else if false {`}},
		guards:  []guard{{"internal/conv", "^TestAnEditShowsNoMoreThanItsTarget$"}, {"test/scenario", "^TestScenarios$/^edit-before$/^Pebble$"}},
	},
	{
		name:    "read-edits-of-before",
		holds:   "who joins after a message does not read the text of an edit of it",
		patches: []patch{{"internal/conv/withheld.go", `case v.side < 0 && head.Flags&store.RowEdit != 0:`, `case false:`}},
		guards:  []guard{{"internal/conv", "^TestAnEditShowsNoMoreThanItsTarget$"}, {"test/scenario", "^TestScenarios$/^edit-before$/^Pebble$"}},
	},
	{
		name:    "refan-edits-of-before",
		holds:   "a new owner pushes who joins after a message no text of an edit of it",
		patches: []patch{{"internal/conv/refanout.go", `if head.Flags&store.RowEdit != 0 && p.Members {`, `if false {`}},
		guards:  []guard{{"internal/route", "^TestANewOwnerPushesEditsAsTheirTargets$"}},
	},
	{
		name:    "edit-goes-to-former-members",
		holds:   "who was removed is not pushed an edit that came after it in the same commit",
		patches: []patch{{"internal/conv/rewrite.go", `w.batch.isBefore(q, w.span) {`, `w.batch.isBefore(q, w.span) && false {`}},
		guards:  []guard{{"internal/conv", "^TestAnEditIsNotPushedToWhoLeftBeforeIt$"}},
	},
	{
		name:  "used-for-ever",
		holds: "a conversation whose notes are stored is not in use any more",
		patches: []patch{{"internal/note/note.go", `c.queued = false
		c.Keep(-1)`, `c.queued = false`}},
		guards: []guard{{"internal/conv", "^TestConversationLeavesMemoryAfterEachUse$"}},
	},
	{
		name:    "late-owner-stays",
		holds:   "an Owner that has not left when its feed must be given away leaves it then",
		patches: []patch{{"internal/conv/convs.go", `ow.Lose(errLate)`, ``}},
		guards:  []guard{{"internal/conv", "^TestOwnerThatReadsRepeatsLeavesInTime$/^closed$"}},
	},
	{
		name:    "lost-owner-reads-on",
		holds:   "the Owner of a lost feed reads no more repeats",
		patches: []patch{{"internal/conv/build.go", `if bu.lost() {`, `if false {`}},
		guards:  []guard{{"internal/conv", "^TestOwnerThatReadsRepeatsLeavesInTime$"}},
	},
}
