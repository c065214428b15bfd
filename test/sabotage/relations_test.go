package sabotage

var relationRules = []rule{
	{
		name:    "hash-without-rel",
		holds:   "the same client message id with another rel is a conflict",
		patches: []patch{{"internal/conv/dedupehashes.go", `if m.Rel != nil {`, `if m.Rel != nil && len(m.Type) > 64 {`}},
		guards:  []guard{{"internal/conv", "^TestEveryFieldOfARelIsHashed$"}, {"test/scenario", "^TestScenarios$/^reply$/^Pebble$"}},
	},
	{
		name:  "refuse-a-forward-before-dedupe",
		holds: "a forward that is stored is acked, whatever its sender may read by now",
		patches: []patch{{
			"internal/route/forwardsource.go",
			`if im.CodeOf(err) == im.CodeNoTarget {
				s.Refusal = conv.NoSource()
				return nil`,
			`if im.CodeOf(err) == im.CodeNoTarget {
				return conv.NoSource()`,
		}},
		guards: []guard{{"internal/route", "^TestRetriesWithRelAreTheSameMessageAtEveryOwner$"}, {"test/scenario", "^TestScenarios$/^forward$/^Pebble$"}},
	},
	{
		name:    "forward-what-one-may-not-read",
		holds:   "a forward copies only what its sender may read",
		patches: []patch{{"internal/conv/forwardsource.go", `if !in.mayRead(by.User, im.Seq(q.Seq), last) {`, `if last = at.head; q.Seq == 0 || im.Seq(q.Seq) > last {`}},
		guards:  []guard{{"test/scenario", "^TestScenarios$/^forward$/^Pebble$"}},
	},
	{
		name:    "quote-what-one-may-not-read",
		holds:   "a quote shows nothing that its reader may not read",
		patches: []patch{{"internal/conv/pagequotes.go", `if !in.mayRead(u, q, last) {`, `if !in.mayRead("", q, c.point.Load().head) {`}},
		guards:  []guard{{"test/scenario", "^TestScenarios$/^reply$/^Pebble$"}},
	},
	{
		name:    "quote-for-a-later-edit",
		holds:   "an edit made while a user was away does not tell them which entry the message answers",
		patches: []patch{{"internal/conv/pagequotes.go", `members.hideEdit(u, &m)`, `members.hideEdit("", &m)`}},
		guards:  []guard{{"internal/conv", "^TestQuotesSayNothingOfEditsMadeWhileAUserIsAway$"}},
	},
	{
		name:    "show-a-later-edit",
		holds:   "quotes, forwards and pinned messages do not have what an edit said while their reader was away",
		patches: []patch{{"internal/conv/reader.go", `in.members.hideEdit(u, m)`, `in.members.hideEdit("", m)`}},
		guards: []guard{
			{"internal/conv", "^TestQuotesSayNothingOfEditsMadeWhileAUserIsAway$"},
			{"internal/conv", "^TestEditsMadeWhileAUserIsAwayStayUnread$"},
			{"test/scenario", "^TestScenarios$/^edit$/^Pebble$"},
		},
	},
	{
		name:    "answer-what-one-may-not-read",
		holds:   "a message answers only what its sender may read",
		patches: []patch{{"internal/conv/admit.go", `q != 0 && !in.mayRead(from, q, c.log.head) {`, `q != 0 && !in.mayRead("", q, c.log.head) {`}},
		guards:  []guard{{"test/scenario", "^TestScenarios$/^reply$/^Pebble$"}},
	},
	{
		name:    "pass-a-forward",
		holds:   "the sends of a session to one conversation keep their order, also after a forward",
		patches: []patch{{"internal/session/forward.go", `if !there && !send.Forwards() {`, `if !send.Forwards() {`}},
		guards:  []guard{{"internal/session", "^TestSendsDoNotPassTheForwardBeforeThem$"}},
	},
	{
		name:    "keep-the-copy",
		holds:   "a forward whose commit was lost is asked for again as it was",
		patches: []patch{{"internal/conv/send.go", `if s.forward != nil {`, `if s.forward != nil && s.bytes < 0 {`}},
		guards:  []guard{{"internal/route", "^TestForwardOfACommitOfUnknownOutcome$"}},
	},
	{
		name:    "ack-without-counted",
		holds:   "the send and its ack are the whole entry",
		patches: []patch{{"internal/conv/send.go", `if r.Counted, r.ThreadN = m.Counted, m.ThreadN; s.Forwards()`, `if r.ThreadN = m.ThreadN; s.Forwards()`}},
		guards:  []guard{{"test/scenario", "^TestScenarios$/^reply$/^Pebble$"}, {"internal/conv", "^TestForwardOfABatchThatWasRefused"}},
	},
	{
		name:  "ack-with-what-is-known",
		holds: "the ack of a message without rel has nothing that its sender can tell",
		patches: []patch{{"internal/conv/send.go", `if s.Entry.Rel == nil {
		return r`, `if s.Entry.Rel == nil {
		r.Counted = m.Counted
		return r`}},
		guards: []guard{{"internal/conv", "^TestOnlyAcksOfMessagesWithRelAreLonger$"}},
	},
	{
		name:    "recall-keeps-rel",
		holds:   "a recalled message says nothing of others",
		patches: []patch{{"internal/conv/rewrite.go", `t.m.RecalledBy, t.m.Type, t.m.Body, t.m.Rel = s.Entry.Seq, "", nil, placeIn(t.m.Rel)`, `t.m.RecalledBy, t.m.Type, t.m.Body = s.Entry.Seq, "", nil`}},
		guards:  []guard{{"test/scenario", "^TestScenarios$/^forward$/^Pebble$"}},
	},
	{
		name:    "edit-a-forward",
		holds:   "nobody puts other words into a forwarded message",
		patches: []patch{{"internal/conv/rewrite.go", `case m.Rel.GetForwarded() != nil:`, `case m.Rel.GetForwarded() != nil && q != 0:`}},
		guards:  []guard{{"test/scenario", "^TestScenarios$/^forward$/^Pebble$"}},
	},
	{
		name:    "name-every-author",
		holds:   "a forward names only authors who may be named",
		patches: []patch{{"internal/route/forwardsource.go", `if !named {`, `if !named && f.From == "" {`}},
		guards:  []guard{{"test/scenario", "^TestScenarios$/^forward$/^Pebble$"}},
	},
	{
		name:    "take-every-need",
		holds:   "a send that needs what the server does not know is refused",
		patches: []patch{{"internal/conv/relations.go", `if need != "edit" && need != "rel" && need != "mentions" {`, `if need == "" {`}},
		guards:  []guard{{"test/scenario", "^TestScenarios$/^reply$/^Pebble$"}},
	},
	{
		name:    "any-bytes-in-rel",
		holds:   "texts in a rel and in needs are UTF-8",
		patches: []patch{{"internal/wire/decode.go", `s != nil && s.Rel == nil && s.Needs == nil {`, `s != nil {`}},
		guards:  []guard{{"internal/wire", "^TestInvalidUTF8InAnyTextIsRefused$"}},
	},
	{
		name:  "read-for-an-answer",
		holds: "the committer reads nothing of what a message names",
		patches: []patch{{"internal/conv/build.go", `if err = s.checkRelated(c, next); errors.Is(err, errThread) {`, `_, _ = bu.b.row(bu.dedupe.store, c.key, im.Seq(max(s.Entry.Rel.ReplyTo, 1)))
		if err = s.checkRelated(c, next); errors.Is(err, errThread) {`}},
		guards: []guard{{"internal/conv", "^TestCommitterReadsNothingOfWhatAMessageNames$"}},
	},
	{
		name:  "read-a-thread-in-the-committer",
		holds: "the committer reads nothing of a thread",
		patches: []patch{{"internal/conv/build.go", `if err = s.checkRelated(c, next); errors.Is(err, errThread) {`, `err = s.checkRelated(c, next)
		if q := im.Seq(s.Entry.Rel.Thread); errors.Is(err, errThread) {
			_, _ = bu.b.row(bu.dedupe.store, c.key, q)
			c.log.threads.add(threads{q: {}}, 0)
			err = s.checkRelated(c, next)
		}
		if errors.Is(err, errThread) {`}},
		guards: []guard{{"internal/conv", "^TestCommitterReadsNothingOfThreads$"}},
	},
	{
		name:    "count-what-is-in-a-thread",
		holds:   "a message of a thread counts as unread only if it is also in the main conversation",
		patches: []patch{{"internal/conv/build.go", `if !besideMain(s.Entry.Rel) {`, `if !besideMain(nil) {`}},
		guards:  []guard{{"internal/conv", "^TestMessagesOfAThreadAreNumberedForEver$"}, {"test/scenario", "^TestScenarios$/^thread$/^Pebble$"}},
	},
	{
		name:    "number-threads-anew",
		holds:   "a message of a thread has a number of its own, also after a restart",
		patches: []patch{{"internal/conv/thread.go", `th.size = mark.Size`, `th.size = 0 * mark.Size`}},
		guards:  []guard{{"internal/conv", "^TestMessagesOfAThreadAreNumberedForEver$"}},
	},
	{
		name:    "keep-numbers-of-a-refused-batch",
		holds:   "the numbers of a thread have no holes, also when a batch was refused",
		patches: []patch{{"internal/conv/conversation.go", `c.log.threads = nil`, ``}},
		guards:  []guard{{"internal/conv", "^TestMessagesOfAThreadAreNumberedForEver$"}},
	},
	{
		name:    "forget-a-thread-under-way",
		holds:   "a thread leaves memory only when the store has all of it",
		patches: []patch{{"internal/conv/thread.go", `if th.pos <= durable {`, `if th.pos <= durable+1 {`}},
		guards:  []guard{{"internal/conv", "^TestThreadsUnderWayStayInMemory$"}},
	},
	{
		name:    "thread-of-what-one-may-not-read",
		holds:   "a message belongs to a thread only if its sender may read the root",
		patches: []patch{{"internal/conv/admit.go", `if !in.mayRead(from, q, c.point.Load().head) {`, `if !in.mayRead("", q, c.point.Load().head) {`}},
		guards:  []guard{{"internal/conv", "^TestWhatCanHaveAThread$"}, {"test/scenario", "^TestScenarios$/^thread$/^Pebble$"}},
	},
	{
		name:    "thread-in-a-thread",
		holds:   "a message of a thread is the root of none",
		patches: []patch{{"internal/conv/thread.go", `|| m.Rel.GetThread() != 0 {`, `{`}},
		guards:  []guard{{"internal/conv", "^TestWhatCanHaveAThread$"}},
	},
	{
		name:    "edit-leaves-the-thread",
		holds:   "an edit leaves a message in its thread",
		patches: []patch{{"internal/conv/rewrite.go", `Thread: was.GetThread(), `, ``}},
		guards:  []guard{{"test/scenario", "^TestScenarios$/^thread$/^Pebble$"}},
	},
	{
		name:    "ack-without-thread-number",
		holds:   "the ack has the number of the message in its thread, so the sender's own copy equals everybody's",
		patches: []patch{{"internal/conv/send.go", `Counted: r.Counted, ThreadN: r.ThreadN, Message: r.Message}`, `Counted: r.Counted, Message: r.Message}`}},
		guards:  []guard{{"test/scenario", "^TestScenarios$/^thread$/^Pebble$"}},
	},
	{
		name:    "own-copy-without-thread-number",
		holds:   "the Go SDK's own copy of a message of a thread has its number",
		patches: []patch{{"sdk/go/outbox.go", `m.ThreadN = a.ThreadN`, ``}},
		guards:  []guard{{"sdk/go", "^TestMessagesOfAThreadKeepTheirPlaceAndDoNotCount$"}},
	},
	{
		name:    "recall-leaves-the-thread",
		holds:   "the Go SDK shows a recalled message in its thread",
		patches: []patch{{"sdk/go/incomingedits.go", `n.Body, n.Type, n.Rel, n.RecalledBy = nil, "", placeIn(n.Rel), m.Seq`, `n.Body, n.Type, n.Rel, n.RecalledBy = nil, "", nil, m.Seq`}},
		guards:  []guard{{"sdk/go", "^TestMessagesOfAThreadKeepTheirPlaceAndDoNotCount$"}},
	},
	{
		name:    "quote-outlives-recall",
		holds:   "the Go SDK shows in no quote what was recalled",
		patches: []patch{{"sdk/go/incomingedits.go", `v.foldQuote(m)`, `if m.GetRecall() == nil { v.foldQuote(m) }`}},
		guards:  []guard{{"sdk/go", "^TestQuotesAreOfWhatIsHeldOrOfThePageOrAskedFor$"}},
	},
	{
		name:    "forget-what-was-never-known",
		holds:   "the Go SDK sends what was composed before its first welcome with the targets that it has",
		patches: []patch{{"sdk/go/sync.go", `had := c.meta.History != ""`, `had := true`}},
		guards:  []guard{{"sdk/go", "^TestWhatIsComposedBeforeTheFirstWelcomeKeepsItsTargets$"}},
	},
	{
		name:    "unknown-is-recalled",
		holds:   "a body that a client does not know is not shown as recalled",
		patches: []patch{{"sdk/go/snapshot.go", `return m.Body == nil && m.RecalledBy == 0 &&`, `return m.Body == nil && m.RecalledBy == m.Seq &&`}},
		guards:  []guard{{"sdk/go", "^TestOnlyABodyThatIsNotKnownNeedsANewerVersion$"}},
	},
}
