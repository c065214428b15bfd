package petrel

import (
	"slices"
	"strings"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// maxHeld bounds the entries of one conversation that wait above a gap. Further ones are dropped, and loaded by
// history requests later.
const maxHeld = 256

// conv is one conversation as this client knows it. It holds, without a hole, the entries of (low, have] that
// the user may read; head is the highest known seq. Spec: P-6.7.
type conv struct {
	id          string
	known       bool // a sync has described it
	kind        petrelv1.ConvKind
	title       string
	titleAt     uint64 // title is that after the entry of this seq
	peer        string
	peerProfile string // the newest version that was told; not stored
	role        petrelv1.Role
	left        bool
	joined      uint64
	firstSeq    uint64

	head, have, low    uint64
	before             uint64 // the value of have when the connection began
	counted, countedAt uint64 // the count at countedAt, the highest seq with a known count
	entries            []*entry
	held               map[uint64]*petrelv1.Message // entries above a gap, by seq
	notes              map[uint64]*petrelv1.Note    // by seq; shared with snapshots: replaced, never changed
	damaged            []Range                      // ranges that the server cannot read, oldest first
	paged              int                          // entries that Older has loaded, kept besides Options.Keep
	queued             bool                         // in live.missing, or its page is under way
	repairAt           time.Time                    // history is not requested before this time

	cursors
	quotes
	mentions mentions
}

// entry is one held entry, with later edits and recalls applied. Snapshots share m, so it is replaced and never
// modified.
type entry struct {
	m *petrelv1.Message
}

// floor returns the seq up to which the user may not read.
func (v *conv) floor() uint64 {
	return max(v.joined, v.firstSeq, 1) - 1
}

// merge applies the state from a sync. Spec: P-6.2.
func (v *conv) merge(s *petrelv1.ConvState) {
	v.kind, v.peer, v.role, v.left = s.Kind, s.Peer, s.Role, s.Left
	v.retitle(s.Head, s.Title)
	v.joined, v.firstSeq = s.Joined, s.FirstSeq
	if v.head = max(v.head, s.Head); s.Left {
		v.head = max(s.Head, v.have)
	}
	v.heardCounted(s.Head, s.Counted)
	v.mergeCursors(s)
}

// retitle sets the title as of seq, unless the title of a later entry is known. Pushes and pages come in any
// order, so without the seq a page from before a renaming would bring the old title back for good.
func (v *conv) retitle(seq uint64, title string) {
	if seq >= v.titleAt {
		v.title, v.titleAt = title, seq
	}
}

// heardCounted records the count at seq, unless that of a higher seq is known.
func (v *conv) heardCounted(seq, counted uint64) {
	if seq >= v.countedAt {
		v.counted, v.countedAt = counted, seq
	}
}

// find returns the index of seq in entries, or the index where it would be, and whether it is there.
func (v *conv) find(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(v.entries, seq, func(e *entry, seq uint64) int {
		switch {
		case e.m.Seq < seq:
			return -1
		case e.m.Seq > seq:
			return 1
		}
		return 0
	})
}

// countedOf returns the count of the entry at seq, or of the last readable one below it, if the client knows it.
func (v *conv) countedOf(seq uint64) (uint64, bool) {
	if seq == 0 {
		return 0, true
	}
	if seq == v.countedAt {
		return v.counted, true
	}
	i, found := v.find(seq)
	switch {
	case found:
		return v.entries[i].m.Counted, true
	case i > 0 && seq <= v.have:
		return v.entries[i-1].m.Counted, true
	}
	return 0, false
}

func (v *conv) hold(m *petrelv1.Message) {
	if m.Seq <= v.have {
		return
	}
	if v.held == nil {
		v.held = map[uint64]*petrelv1.Message{}
	}
	if old := v.held[m.Seq]; old != nil || len(v.held) < maxHeld {
		v.held[m.Seq] = m
	}
}

// addConv finds a conversation, or adds an unknown one.
func (c *core) addConv(id string) *conv {
	v := c.convs[id]
	if v == nil {
		v = &conv{id: id}
		c.convs[id] = v
		c.changed.List = true
	}
	return v
}

// touch marks v as changed, for the store and for the subscriptions.
func (c *core) touch(v *conv) {
	c.dirty[v] = struct{}{}
	c.changed.touch(v.id)
}

// takeEvents applies a pushed frame. Spec: P-6.1.
func (c *core) takeEvents(ev *petrelv1.Events) {
	for _, m := range ev.Messages {
		if m.Conv == c.meta.Inbox {
			c.takeInbox(m)
			continue
		}
		v := c.addConv(m.Conv)
		c.entry(v, m)
		if !v.known {
			c.startSync()
		}
	}
	for _, h := range ev.Hints {
		c.takeHint(h)
	}
	for _, r := range ev.Receipts {
		c.takeReceipt(r)
	}
	for _, n := range ev.Notes {
		if v := c.convs[n.Conv]; v != nil {
			c.takeNotes(v, []*petrelv1.Note{n})
		}
	}
	c.takeLossy(ev)
}

// takeInbox applies a pushed entry of the inbox. A change of the list starts a sync; settings are applied at
// once. Spec: P-8.5.
func (c *core) takeInbox(m *petrelv1.Message) {
	switch e := m.GetInbox().GetEntry().(type) {
	case *petrelv1.InboxEntry_Joined, *petrelv1.InboxEntry_Left, *petrelv1.InboxEntry_Role:
		c.startSync()
	case *petrelv1.InboxEntry_Settings:
		c.takePushed(m.Seq, e.Settings)
	default:
		c.changed.Account = true
	}
}

// takeHint records the head of a conversation whose entries are not pushed, and requests them if they are wanted.
// Spec: P-6.5.
func (c *core) takeHint(h *petrelv1.Hint) {
	if h.Conv == c.meta.Inbox {
		c.startSync()
		return
	}
	v := c.addConv(h.Conv)
	if !v.known {
		c.startSync()
	}
	if h.Head > v.head || h.Head > v.countedAt {
		v.head = max(v.head, h.Head)
		v.heardCounted(h.Head, h.Counted)
		c.touch(v)
	}
	if h.MentionSeq > 0 {
		c.missMention(v, h.MentionSeq)
	}
	c.repair(v)
}

// entry applies one entry from a push, a sync or an ack. Spec: P-6.7.
func (c *core) entry(v *conv, m *petrelv1.Message) {
	c.stopTyping(v, m.From)
	if m.Seq <= v.have && v.known {
		c.replace(v, m)
		return
	}
	v.head = max(v.head, m.Seq)
	v.heardCounted(m.Seq, m.Counted)
	c.mention(v, m)
	if !v.known || m.Seq > v.have+1 {
		c.startStay(v, m)
		v.hold(m)
		c.touch(v)
		c.repair(v)
		return
	}
	c.append(v, m)
	c.takeHeld(v)
}

// takeHeld appends those entries of held that follow without a gap. The other ones up to have replace older
// copies.
func (c *core) takeHeld(v *conv) {
	for len(v.held) > 0 {
		m := v.held[v.have+1]
		if m == nil {
			break
		}
		c.append(v, m)
	}
	for seq, m := range v.held {
		if seq <= v.have {
			c.replace(v, m)
			delete(v.held, seq)
		}
	}
}

// append appends m as the next readable entry.
func (c *core) append(v *conv, m *petrelv1.Message) {
	if held := v.held[m.Seq]; held != nil && isNewer(held, m) { // a page may have been read before it was edited
		m = held
	}
	delete(v.held, m.Seq)
	v.have = m.Seq
	v.head = max(v.head, m.Seq)
	v.heardCounted(m.Seq, m.Counted)
	v.entries = append(v.entries, &entry{m: m})
	c.keep(m)
	c.applyChange(v, m)
	c.mention(v, m)
	if p := m.GetGroup(); p != nil {
		v.retitle(m.Seq, p.Title)
		c.changed.List = true
	}
	if c.startStay(v, m) {
		c.dropOldest(v, len(v.entries)-1)
		v.quoted, v.damaged = nil, nil // quotes that were requested still come
	}
	if m.From == c.meta.User && m.From != "" {
		v.countOwn(m)
		c.arrived(v.id, m)
	}
	c.trim(v)
	c.touch(v)
	c.delivered(v)
}

// startStay reports whether a stay of the user begins with m. If so, it counts everything before m as read and drops
// earlier mentions. append then drops the entries before m: while the user was no member, they may have been
// edited or recalled without an event. They are loaded again when the application asks for them.
// Spec: P-8.7, S-7.11.
func (c *core) startStay(v *conv, m *petrelv1.Message) bool {
	is := slices.ContainsFunc(m.GetMembers().GetAdded(),
		func(r *petrelv1.MemberRef) bool { return r.User == c.meta.User })
	if is {
		v.heardRead(m.Counted) // m itself does not count
		c.takeMentions(v, nil, m.Seq)
	}
	return is
}

// countOwn takes a message of the user out of the unread count. These messages may come in any order.
func (v *conv) countOwn(m *petrelv1.Message) {
	if i, found := slices.BinarySearch(v.own, m.Counted); !found && counts(m) && m.Counted > v.readCounted {
		v.own = slices.Insert(v.own, i, m.Counted)
	}
}

// replace puts m in the place of an older copy of the same entry. If the client holds an entry with another
// sender or client message id there, the server went back to an earlier state. Spec: P-6.1, P-6.8.
func (c *core) replace(v *conv, m *petrelv1.Message) {
	i, found := v.find(m.Seq)
	if found && c.live != nil && (v.entries[i].m.From != m.From || v.entries[i].m.ClientMsgId != m.ClientMsgId) {
		c.live.back = true // a seq is never used twice
		return
	}
	if !found || !isNewer(m, v.entries[i].m) {
		return
	}
	v.entries[i].m = m
	c.keep(m)
	c.touch(v)
}

// isNewer reports whether m is a newer copy of an entry than the other copy.
func isNewer(m, than *petrelv1.Message) bool {
	return max(m.EditedBy, m.RecalledBy) > max(than.EditedBy, than.RecalledBy)
}

// trim drops the oldest entries once the bound is exceeded by an eighth, so that many are dropped at once.
func (c *core) trim(v *conv) {
	bound := c.o.keep + v.paged
	if len(v.entries) <= bound+bound/8 {
		return
	}
	c.dropOldest(v, len(v.entries)-bound)
}

// dropOldest drops the oldest n entries.
func (c *core) dropOldest(v *conv, n int) {
	for _, e := range v.entries[:n] {
		v.low = e.m.Seq
		c.put(messageKey(v.id, e.m.Seq), nil)
	}
	v.entries = slices.Delete(v.entries, 0, n)
	v.forgetNotes()
}

// dropEntries drops all entries of v.
func (c *core) dropEntries(v *conv) {
	c.dropOldest(v, len(v.entries))
	v.notes, v.paged, v.damaged = nil, 0, nil
}

// repair queues v for a history request, if entries are missing and wanted. Spec: P-6.7.
func (c *core) repair(v *conv) {
	if c.live == nil || !v.known || v.queued || v.have >= v.head || !c.wanted(v) {
		return
	}
	v.queued = true
	c.live.missing = append(c.live.missing, v)
}

// repairAny queues all conversations with missing entries, in the order of their ids.
func (c *core) repairAny() {
	if c.live == nil {
		return
	}
	var behind []*conv
	for _, v := range c.convs {
		if v.known && v.have < v.head && !v.queued {
			behind = append(behind, v)
		}
	}
	slices.SortFunc(behind, func(a, b *conv) int { return strings.Compare(a.id, b.id) })
	for _, v := range behind {
		c.repair(v)
	}
}

// repairAll requests a page for each queued conversation, as many at once as allowed.
func (c *core) repairAll(now time.Time) {
	lv := c.live
	waiting := lv.missing[:0]
	for i, v := range lv.missing {
		if lv.readsFull() {
			waiting = append(waiting, lv.missing[i:]...)
			break
		}
		switch {
		case v.have >= v.head:
			v.queued = false
		case now.Before(v.repairAt):
			c.alarmAt(v.repairAt)
			waiting = append(waiting, v)
		default:
			c.askPage(v)
		}
	}
	lv.missing = waiting
}

func (c *core) askPage(v *conv) {
	if v.head-v.have > uint64(c.o.keep) { // do not load entries that would be dropped again
		c.dropEntries(v)
		c.missMention(v, v.head)
		v.have = max(v.head-uint64(c.o.keep), v.floor())
		v.low = v.have
		c.passed(v)
		c.touch(v)
	}
	lv := c.live
	lv.reads++
	q := &petrelv1.GetHistory{Conv: v.id, After: v.have, Limit: uint32(c.pageLimit)}
	c.ask(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_History{History: q}}, func(f *petrelv1.ServerFrame) {
		if f == nil {
			return
		}
		lv.reads--
		lv.pages++
		v.queued = false
		switch {
		case f.GetHistory() != nil:
			c.takePage(v, f.GetHistory())
		case f.GetError() != nil:
			if c.passDamage(v, f.GetError()) {
				return
			}
			v.repairAt = c.retryAt(f.GetError())
			if !f.GetError().Retryable { // no_conversation, not_member: nothing more can be loaded
				v.head = v.have
			}
			c.repair(v)
		}
	})
}

// takePage applies a page of missing entries. Spec: P-5.2.
func (c *core) takePage(v *conv, p *petrelv1.HistoryPage) {
	v.firstSeq = max(v.firstSeq, p.FirstSeq)
	v.head = max(v.head, p.Head)
	c.takeNotes(v, p.Notes)
	for _, m := range p.Messages {
		if m.Seq <= v.have {
			c.replace(v, m)
		} else { // the user may not read the entries between two entries of a page
			c.append(v, m)
		}
	}
	v.takeQuotes(p.Refs) // after append, which drops the quotes when a stay begins in this page
	if !p.More {
		if v.have < p.Head {
			v.have = p.Head
			c.passed(v)
			c.touch(v)
		}
		if p.Head < v.head && len(p.Messages) == 0 {
			v.repairAt = c.now.Add(retryWait)
		}
	}
	c.takeHeld(v)
	c.repair(v)
}

// passDamage skips the entries that e names as damaged, and reports whether e names any above have. After a
// repair of the store the history id is another one, and the client loads them again. Spec: P-9.5.
func (c *core) passDamage(v *conv, e *petrelv1.Error) bool {
	if e.Code != CodeDamaged || e.DamagedTo <= v.have {
		return false
	}
	v.damaged = append(v.damaged, Range{From: max(e.DamagedFrom, v.have+1), To: e.DamagedTo})
	v.have = e.DamagedTo
	v.head = max(v.head, v.have)
	c.passed(v)
	c.touch(v)
	c.takeHeld(v)
	c.repair(v)
	return true
}

// counts reports whether m counts as unread for other users. Spec: P-5.1.
func counts(m *petrelv1.Message) bool {
	if m.Rel.GetThread() != 0 && !m.Rel.AlsoMain {
		return false
	}
	switch m.Body.(type) {
	case *petrelv1.Message_Text, *petrelv1.Message_Data:
		return true
	case nil:
		return m.RecalledBy != 0
	}
	return false
}
