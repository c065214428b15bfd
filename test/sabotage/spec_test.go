package sabotage

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// brokenClause breaks one clause of sdk/SPEC.md in the Go SDK, and names the vector of
// sdk/conformance that notices.
type brokenClause struct {
	clause   string // of sdk/SPEC.md
	file     string // of sdk/go
	old, new string
	vector   string
}

// rule is the rule that the clause holds.
func (b brokenClause) rule() rule {
	return rule{
		name:    "clause-" + strings.ReplaceAll(b.clause[len("S-"):], ".", "-"),
		holds:   b.clause + ": " + b.vector,
		patches: []patch{{"sdk/go/" + b.file, b.old, b.new}},
		guards:  []guard{{"sdk/go", "^TestConformance$/^" + regexp.QuoteMeta(strings.ReplaceAll(b.vector, " ", "-")) + "$"}},
	}
}

func clauseRules() (all []rule) {
	for _, b := range brokenClauses() {
		all = append(all, b.rule())
	}
	return all
}

// clientRules are the rules that break the clauses which no script can see.
var clientRules = map[string]string{
	"S-3.4":  "refresh-as-another-request",
	"S-17.4": "open-a-store-twice",
	"S-18.2": "forget-what-a-reader-has-not-taken",
	"S-18.3": "change-what-was-given",
	"S-18.4": "finish-a-message-too-early",
	"S-19.1": "ask-for-everything-at-once",
	"S-19.2": "repeat-a-call-as-another",
	"S-20.1": "ask-for-each-profile-alone",
	"S-20.2": "ask-for-fresh-profiles",
	"S-20.3": "keep-the-higher-version",
	"S-20.4": "ask-later-users-at-once",
	"S-20.5": "keep-profiles-of-another-history",
	"S-20.6": "profiles-without-bound",
	"S-21.1": "show-the-greeting-that-was-sent",
	"S-21.2": "keep-an-answer-over-later-entries",
	"S-21.3": "make-each-contact-anew",
	"S-21.4": "refused-messages-wait",
}

// Each clause is broken: a vector notices it, or, if no script can see it, a test of the SDK.
func TestRulesBreakEachClauseOfAClient(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "sdk", "SPEC.md"))
	if err != nil {
		t.Fatal(err)
	}
	broken := map[string]bool{}
	for _, b := range brokenClauses() {
		broken[b.clause] = true
	}
	n := 0
	for _, m := range regexp.MustCompile(`(?ms)^\*\*(S-\d+\.\d+) (.*?)(?:\n\n|\z)`).FindAllStringSubmatch(string(b), -1) {
		client := strings.HasSuffix(strings.TrimSpace(m[2]), "*(client)*")
		byTest := slices.ContainsFunc(sdkRules, func(r rule) bool { return r.name == clientRules[m[1]] })
		if client == broken[m[1]] || client != byTest {
			t.Errorf("clause %s: a script can see it is %v, a vector notices a break is %v, another test does is %v", m[1], !client, broken[m[1]], byTest)
		}
		n++
	}
	if n != len(broken)+len(clientRules) {
		t.Errorf("sdk/SPEC.md has %d clauses, and %d are broken", n, len(broken)+len(clientRules))
	}
}

func brokenClauses() []brokenClause {
	return []brokenClause{
		{"S-1.1", "reconnect.go", `c.out.frames = append(c.out.frames, frame{conn, 0, b})`, `_ = b`, "a connection is made and the client says hello"},
		{"S-1.2", "reconnect.go", "if c.live != nil && c.live.conn == conn {\nif err := c.take(f)", "if c.live != nil {\nif err := c.take(f)", "what comes from an earlier connection is dropped"},
		{"S-1.3", "core.go", `c.toSync, c.changed = nil, Change{}`, "c.toSync, c.changed = nil, Change{}\nfor _, o := range w.fresh {\no.safe = true\nc.wakeLane(o.lane)\n}", "a message is durable before it is sent"},
		{"S-2.1", "addresses.go", `if speaks(p.given, g) && `, `if `, "addresses are tried in their order and without loss of TLS"},
		{"S-2.2", "reconnect.go", `r.limit = min(2*r.limit, maxLimit)`, "", "a try ends and the next rounds are patient"},
		{"S-2.3", "reconnect.go", "c.alarmAt(beside)\n} else {\nc.tryNext()", "c.alarmAt(beside)\n} else {", "the next address is tried beside a slow one"},
		{"S-2.4", "reconnect.go", `r.places.silent[t.addr] = true`, "", "a silent address comes last until it answers"},
		{"S-2.5", "reconnect.go", `pause = atLeast + c.part(atLeast)`, `pause = atLeast / 2`, "the server says when to come back"},
		{"S-2.6", "reconnect.go", `if !lasted || `, `if !lasted && false || `, "a connection that ends soon is not made again at once"},
		{"S-2.7", "reconnect.go", `r.places.sendsAway(addr)`, "", "a gateway that is drained is left for another one"},
		{"S-2.8", "reconnect.go", "case e != nil && !e.Retryable:\nc.end(err)\nreturn\n}\naway :=", "case false:\n}\naway :=", "a kick without reconnect ends the client"},
		{"S-3.1", "reconnect.go", `c.out.token = &wantedToken{r.refused}`, "if r.token == \"\" {\nc.out.token = &wantedToken{r.refused}\n}", "a try ends and the next rounds are patient"},
		{"S-3.2", "reconnect.go", "!r.askAnew:\nc.endTries()", "true:\nc.endTries()", "another token is asked for once"},
		{"S-3.3", "reconnect.go", "case e != nil && !e.Retryable:\nc.end(fmt.Errorf(\"get a token", "case e != nil && false:\nc.end(fmt.Errorf(\"get a token", "a source of tokens that refuses ends the client"},
		{"S-4.1", "core.go", "c.meta.Device = c.newID()\nc.metaDirty = true", `c.meta.Device = c.newID()`, "the id of the device is made once"},
		{"S-4.2", "reconnect.go", `c.out.frames = append(c.out.frames, frame{conn, 0, b})`, `c.out.frames = append(c.out.frames, frame{conn, 0, b}, frame{conn, 0, b})`, "a connection is made and the client says hello"},
		{"S-4.3", "connection.go", `if c.meta.User != "" && c.meta.User != w.User {`, `if false {`, "a store belongs to one user"},
		{"S-4.4", "snapshot.go", `return m.Body == nil && `, `return false && `, "unknown frames and bodies do no harm"},
		{"S-5.1", "connection.go", `&petrelv1.ClientFrame{Id: f.Id, Body: &petrelv1.ClientFrame_Pong`, `&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Pong`, "a ping is answered with its id"},
		{"S-5.2", "heartbeat.go", `case waits:`, `case waits && false:`, "an answer that does not come has the client ask and then leave"},
		{"S-5.3", "heartbeat.go", `return errSilent`, `return nil`, "an answer that does not come has the client ask and then leave"},
		{"S-5.4", "heartbeat.go", `+ secondsOf(q.bytes, slowest)`, ``, "a large message over a slow link is waited for"},
		{"S-5.5", "heartbeat.go", `return lv.heard.Add(every + every/2)`, `return lv.heard.Add(every / 2)`, "an idle client sends nothing"},
		{"S-5.6", "reconnect.go", "case c.live != nil:\nc.probe()", `case c.live != nil:`, "a device that wakes up does not trust its connection"},
		{"S-5.7", "connection.go", `lv.heard = c.now.Add(secondsOf(int(b.Large.Bytes), slowestFrames))`, "", "a large frame that is announced may take its time"},
		{"S-5.8", "heartbeat.go", `c.reach.patience = min(c.reach.patience+patienceStep, maxPatience)`, "", "where whole frames are seen a silent connection makes the client patient"},
		{"S-6.1", "connection.go", "c.startSync()\ncase *petrelv1.ServerFrame_Large", "case *petrelv1.ServerFrame_Large", "each lagged has a sync of its own"},
		{"S-6.2", "sync.go", `c.meta.Token, c.metaDirty = p.Token, true`, `c.meta.Token = p.Token`, "a page and its token are one write"},
		{"S-6.3", "sync.go", "c.meta.Token, c.metaDirty = nil, true\nc.askSync()", `c.askSync()`, "a token that does not hold is left out"},
		{"S-6.4", "sync.go", `lv.syncing, lv.syncAt = false, c.retryAt(f.GetError())`, `lv.syncing = false`, "a sync that is refused is asked for again"},
		{"S-6.5", "sync.go", `c.repairAny()`, "", "a gap that an earlier connection left is closed"},
		{"S-6.6", "sync.go", `c.status.Synced = true`, "", "a gap that an earlier connection left is closed"},
		{"S-6.7", "conversation.go", `if seq >= v.titleAt {`, `if true {`, "an older page brings no older title"},
		{"S-6.8", "sync.go", `if s.Damaged {`, `if false {`, "a conversation that the server cannot read stays"},
		{"S-7.1", "conversation.go", `if m.Seq <= v.have && v.known {`, `if false {`, "entries are taken in order and once"},
		{"S-7.2", "conversation.go", `if !v.known || m.Seq > v.have+1 {`, `if !v.known {`, "a gap is closed before what comes after it is shown"},
		{"S-7.3", "conversation.go", "v.have = p.Head\nc.passed(v)", `c.passed(v)`, "what may not be read is no gap"},
		{"S-7.4", "sync.go", `from = max(floor, s.Head-min(s.Head, uint64(c.o.newest)))`, `from = floor`, "the first sync brings the newest entries and older ones are paged"},
		{"S-7.5", "incomingedits.go", "t != 0 && t < first {\nc.applyChange(v, e.m)", `t != 0 && t < first {`, "the first sync brings the newest entries and older ones are paged"},
		{"S-7.6", "conversation.go", `if v.head-v.have > uint64(c.o.keep) {`, `if false {`, "who is too far behind begins anew"},
		{"S-7.7", "conversation.go", `v.damaged = append(v.damaged, Range{From: max(e.DamagedFrom, v.have+1), To: e.DamagedTo})`, "", "damage is passed over and named"},
		{"S-7.8", "conversation.go", `if !f.GetError().Retryable {`, `if false {`, "a page that is refused is asked for later, or not at all"},
		{"S-7.9", "connection.go", `limit = min(limit, max(1, n/2))`, "", "pages leave room for other requests"},
		{"S-7.10", "connection.go", `c.pageLimit = max(c.pageSize(lv)/2, minPage)`, "", "over a link that breaks the pages become smaller"},
		{"S-7.11", "conversation.go", `c.dropOldest(v, len(v.entries)-1)`, "", "who comes back has nothing unread and holds nothing of before"},
		{"S-8.1", "connection.go", "c.sendFocus()\nc.live.watchDue", `c.live.watchDue`, "the focus is told and told again"},
		{"S-8.2", "focus.go", `return c.focus == nil || `, `return true || `, "a hint counts and asks for nothing out of focus"},
		{"S-8.3", "focus.go", `c.repairAny()`, "", "a hint counts and asks for nothing out of focus"},
		{"S-9.1", "incomingnotes.go", `r.Mine = mine[r.Emoji]`, `r.Mine = false`, "the note with the higher version counts"},
		{"S-9.2", "incomingnotes.go", `if n == nil || m.RecalledBy != 0 {`, `if n == nil {`, "the note with the higher version counts"},
		{"S-9.3", "quote.go", `if _, asked := v.wanted[seq]; !asked {`, `if true {`, "quotes are of what is held, of the page, or asked for"},
		{"S-9.4", "quote.go", `if old != nil && q != nil && max(`, `if old != nil && q == nil && max(`, "a quote that was read before an edit is edited"},
		{"S-10.1", "settings.go", `if c.settings[of][s.Name].seq > s.Seq {`, `if false {`, "the newest value of each setting counts"},
		{"S-10.2", "settings.go", `if p.PersonalReset {`, `if false {`, "the newest value of each setting counts"},
		{"S-11.1", "signals.go", `delete(c.lossy.typing[v], user)`, "", "who types is shown until they have written"},
		{"S-11.2", "signals.go", `|| now.Sub(c.lossy.told[target]) < typingEvery {`, `{`, "typing is told every three seconds at most"},
		{"S-11.3", "signals.go", `l.signals = slices.Delete(l.signals, i, i+1)`, "", "the newest signal of each kind is kept for a minute"},
		{"S-11.4", "connection.go", `c.live.watchDue = len(c.lossy.watch) > 0`, "", "presence is watched anew on each connection"},
		{"S-12.1", "outbox.go", `case !o.safe:`, `case false:`, "a message is durable before it is sent"},
		{"S-12.2", "outbox.go", `after = v.head`, "", "a message is durable before it is sent"},
		{"S-12.3", "outbox.go", `for l.busy == 0 && len(l.queue) > 0 {`, `for len(l.queue) > 0 {`, "messages of a conversation wait for each other and conversations do not"},
		{"S-12.4", "outbox.go", `(lv.sends >= int(w.Sends) || `, `(`, "the window is kept"},
		{"S-12.5", "outbox.go", `case o.send.After != nil && !c.live.synced:`, `case false:`, "an unanswered message is sent again as it was"},
		{"S-12.6", "outbox.go", `c.compose(s, d.ID == "")`, `c.compose(s, true)`, "an id of the application has no after"},
		{"S-12.7", "outbox.go", `if proto.Equal(entryOf(s), entryOf(old.send)) {`, `if true {`, "an id of the application has no after"},
		{"S-12.8", "outbox.go", `if (d.Conv == "") == (d.User == "") {`, `if false {`, "drafts that cannot be sent are refused"},
		{"S-12.9", "outbox.go", `if v := c.convs[s.Conv]; v != nil && v.peer != "" {`, `if v := c.convs[s.Conv]; v != nil && v.peer == "nobody" {`, "a direct conversation has one queue"},
		{"S-13.1", "outbox.go", `c.entry(v, m)`, `_ = m`, "an ack makes an entry of the message"},
		{"S-13.2", "outbox.go", "if !told {\nreturn nil\n}", `_ = told`, "a count that nobody told is read and not guessed"},
		{"S-13.3", "outbox.go", `if c.sending[o.id] == o && (o.failed() || waits) {`, `if _ = waits; true {`, "a rejected message is shown until it is discarded"},
		{"S-13.4", "outbox.go", `l.fails++`, "", "what is not decided is sent again later and later"},
		{"S-13.5", "outbox.go", `c.setAfter(o, e.Head)`, "", "behind before any other attempt raises after at once"},
		{"S-13.6", "outbox.go", `if m.From == c.meta.User && m.ClientMsgId == o.id {`, `if m.ClientMsgId == o.id {`, "behind after an attempt has the client look"},
		{"S-13.7", "outbox.go", "o.stored(conv, m)\nc.settle(o, Sent, nil)", "", "a message that is met is sent, whatever is answered"},
		{"S-13.8", "outbox.go", "case e.Code == CodeTooOld:\nc.settle(o, Unknowable, ErrUnknowable)", "case e.Code == CodeTooOld:\nc.settle(o, Rejected, fromWire(e))", "what nobody can tell any more is neither sent nor failed"},
		{"S-13.9", "outbox.go", "o.err = fromWire(e)\nc.touchOutgoing(o)", "c.settle(o, Rejected, fromWire(e))", "what is not decided is sent again later and later"},
		{"S-13.10", "outbox.go", `waits := !o.tried && o.lane.busy == 0 &&`, `waits := o.lane.busy == 0 &&`, "a message that waits because of a rate limit can be discarded"},
		{"S-14.1", "cursor.go", `if seq = min(seq, v.head); seq <= v.read {`, `if seq <= v.read {`, "a read cursor shows at once and is told once a second"},
		{"S-14.2", "cursor.go", `if c.o.manualDelivered || v.entries[len(v.entries)-1].m.From == c.meta.User {`, `if c.o.manualDelivered {`, "what is held is told as delivered"},
		{"S-14.3", "cursor.go", `v.movedAt = c.retryAt(e).Add(-moveEvery)`, "", "a refused move is told again, or dropped"},
		{"S-14.4", "cursor.go", `Read: max(old.GetRead(), r.Read), Delivered: max(old.GetDelivered(), r.Delivered, r.Read),`, `Read: max(0*old.GetRead(), r.Read), Delivered: max(r.Delivered, r.Read),`, "cursors of others and of other devices only move forward"},
		{"S-14.5", "cursor.go", `int(v.readCounted)-len(v.own)`, `int(v.readCounted)`, "own messages and what does not count are not unread"},
		{"S-14.6", "conversation.go", "c.missMention(v, h.MentionSeq)", "", "mentions are those of the newest list and of later entries"},
		{"S-15.1", "connection.go", "c.forget()\nc.meta.History = w.HistoryId", `c.meta.History = w.HistoryId`, "another history id drops everything but what is to be sent"},
		{"S-15.2", "sync.go", "o.look, o.from, o.until = true, 0, 0\ndefault:", `default:`, "another history id drops everything but what is to be sent"},
		{"S-15.3", "sync.go", `c.dropReplyReference(o)`, "", "seqs of before name nothing"},
		{"S-15.4", "sync.go", `if s.Head < v.before && !s.Left {`, `if false {`, "a head that went back has the client begin anew"},
		{"S-16.1", "conversation.go", `if len(v.entries) <= bound+bound/8 {`, `if true {`, "only the newest entries are kept"},
		{"S-16.2", "conversation.go", `old != nil || len(v.held) < maxHeld {`, `old != nil || true {`, "nothing else grows without end"},
		{"S-17.1", "outbox.go", `c.put(outgoingKey(o.id), nil)`, "", "an ack makes an entry of the message"},
		{"S-17.2", "core.go", `c.end(fmt.Errorf("%w: %w", errStore, err))`, "", "a store that fails ends the client"},
		{"S-17.3", "storedrows.go", `tried: true, look: r.Look`, `look: r.Look`, "after a restart everything is there again"},
		{"S-18.1", "conversation.go", "c.dirty[v] = struct{}{}\nc.changed.touch(v.id)", `c.dirty[v] = struct{}{}`, "a page and its token are one write"},
		{"S-19.3", "connection.go", `if need != "" && !c.live.offers(need) {`, `if false {`, "what the server did not offer is not asked for"},
		{"S-19.4", "errors.go", `Settled: e.Settled, `, "", "a rejected message is shown until it is discarded"},
	}
}
