package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// ledger is what the clients of a run were told: the audit holds the history
// against it.
type ledger struct {
	entries map[string]map[uint64]*petrelv1.Message // conversation → seq → the newest copy that anybody was told
	toWhom  map[*user]map[string]map[uint64]bool    // who was told which entries
	stored  map[sendKey]storedSend                  // acked sends
	denied  []*sent                                 // settled refusals
}

// sendKey identifies a message (P-4.4).
type sendKey struct {
	conv, k string
	by      *user
}

type storedSend struct {
	seq    uint64
	body   string
	counts bool // as unread
}

func newLedger() *ledger {
	return &ledger{
		entries: map[string]map[uint64]*petrelv1.Message{}, toWhom: map[*user]map[string]map[uint64]bool{},
		stored: map[sendKey]storedSend{},
	}
}

// told notes an entry; it must be the one told before, or a rewrite of it.
func (l *ledger) told(u *user, m *petrelv1.Message) error {
	if l.entries[m.Conv] == nil {
		l.entries[m.Conv] = map[uint64]*petrelv1.Message{}
	}
	was := l.entries[m.Conv][m.Seq]
	if was != nil && !sameEntry(was, m) {
		return fmt.Errorf("%s seq %d was told as %v and now as %v", m.Conv, m.Seq, was, m)
	}
	if was == nil || version(m) >= version(was) {
		l.entries[m.Conv][m.Seq] = m
	}
	if l.toWhom[u] == nil {
		l.toWhom[u] = map[string]map[uint64]bool{}
	}
	if l.toWhom[u][m.Conv] == nil {
		l.toWhom[u][m.Conv] = map[uint64]bool{}
	}
	l.toWhom[u][m.Conv][m.Seq] = true
	return nil
}

// acked notes where a send is; every ack of it must say the same.
func (l *ledger) acked(x *sent, seq uint64) error {
	key, is := sendKey{x.conv, x.frame.ClientMsgId, x.by}, storedSend{seq, sendBody(x.frame), x.counts()}
	if was, ok := l.stored[key]; ok && was != is {
		return fmt.Errorf("%s was acked as %v and now as %v", x.frame.ClientMsgId, was, is)
	}
	l.stored[key] = is
	return nil
}

func (l *ledger) refused(x *sent) { l.denied = append(l.denied, x) }

// forget drops what is above head of a conversation: a store that was restored
// does not have it.
func (l *ledger) forget(conv string, head uint64) {
	maps.DeleteFunc(l.entries[conv], func(q uint64, _ *petrelv1.Message) bool { return q > head })
	for _, convs := range l.toWhom {
		maps.DeleteFunc(convs[conv], func(q uint64, _ bool) bool { return q > head })
	}
	maps.DeleteFunc(l.stored, func(k sendKey, x storedSend) bool { return k.conv == conv && x.seq > head })
}

// audit holds every conversation of the run against what was told: the
// operator's reading is contiguous and has every acked send once, nothing
// refused, nothing else than was told; every user reads exactly the entries of
// their stays, and they are the same.
func (w *world) audit() {
	w.t.Helper()
	w.line = 0
	for _, s := range w.sessions {
		s.close()
	}
	step := 1 + len(w.names)/auditedConvs
	for i, conv := range slices.Sorted(maps.Keys(w.names)) {
		if i%step == 0 {
			w.auditConv(conv, w.names[conv])
		}
	}
	for u, convs := range w.ledger.toWhom {
		for conv := range convs {
			if p, ok := w.names[conv]; ok && p.tenant != u.tenant {
				w.fatalf("%s of tenant %q was told of %s of tenant %q", u.name, u.tenant.name, conv, p.tenant.name)
			}
		}
	}
}

const (
	auditedConvs     = 500 // how many conversations are audited; of more only a part is
	auditedStrangers = 20  // how many who were never in a conversation try to read it
	rememberedStays  = 8   // how many of a user's newest stays can be read at least (P-8.3)
)

func (w *world) auditConv(conv string, p place) {
	w.t.Helper()
	rows := w.operatorReads(conv, p)
	byKey := map[sendKey]uint64{}
	for i, m := range rows {
		if m.Seq != uint64(i+1) {
			w.fatalf("audit of %v: entry %d has seq %d", p, i+1, m.Seq)
		}
		if told := w.ledger.entries[conv][m.Seq]; told != nil && (!sameEntry(told, m) || version(told) > version(m)) {
			w.fatalf("audit of %v: seq %d was told as %v and is %v", p, m.Seq, told, m)
		}
		if m.From == "" {
			continue
		}
		key := sendKey{conv, m.ClientMsgId, p.tenant.users[m.From]}
		if other, ok := byKey[key]; ok {
			w.fatalf("audit of %v: %s of %s is stored twice: seq %d and %d", p, m.ClientMsgId, m.From, other, m.Seq)
		}
		byKey[key] = m.Seq
	}
	for q := range w.ledger.entries[conv] {
		if q > uint64(len(rows)) {
			w.fatalf("audit of %v: seq %d was told and is not there, the head is %d", p, q, len(rows))
		}
	}
	w.auditSends(conv, p, rows, byKey)
	w.auditRewrites(p, rows)
	stays := staysOf(p, rows)
	w.auditSenders(p, rows, stays)
	strangers := 0
	for _, name := range slices.Sorted(maps.Keys(p.tenant.users)) {
		u := p.tenant.users[name]
		if stays[name] == nil && w.ledger.toWhom[u][conv] == nil {
			if strangers++; strangers > auditedStrangers {
				continue
			}
		}
		w.auditReader(w.auditor(u), conv, p, rows, stays[name])
	}
}

// auditor is a session of u, with a token of its own: theirs may be revoked.
func (w *world) auditor(u *user) *session {
	w.t.Helper()
	name := u.name + at(u.tenant) + "/audit"
	s := w.sessions[name]
	if s == nil {
		u.token = w.node().Users(u.tenant.id, u.name)[0]
		s = newSession(w, name, u)
		s.connect(false)
		w.sessions[name] = s
	}
	return s
}

// auditSends checks that what was acked is there and what was refused is not.
func (w *world) auditSends(conv string, p place, rows []*petrelv1.Message, byKey map[sendKey]uint64) {
	w.t.Helper()
	for key, x := range w.ledger.stored {
		if key.conv != conv {
			continue
		}
		if x.seq == 0 || x.seq > uint64(len(rows)) {
			w.fatalf("audit of %v: %s was acked at seq %d and the head is %d", p, key.k, x.seq, len(rows))
		}
		m := rows[x.seq-1]
		if m.ClientMsgId != key.k || m.From != key.by.name || !rewritten(m) && messageBody(m) != x.body {
			w.fatalf("audit of %v: seq %d should be %s of %s with %.60q, and is %s of %s with %.60q", p, x.seq, key.k, key.by.name, x.body, m.ClientMsgId, m.From, messageBody(m))
		}
	}
	for _, x := range w.ledger.denied {
		q, there := byKey[sendKey{conv, x.frame.ClientMsgId, x.by}]
		if x.conv == conv && there && messageBody(rows[q-1]) == sendBody(x.frame) {
			w.fatalf("audit of %v: %s of %s was refused and is stored at seq %d", p, x.frame.ClientMsgId, x.by.name, q)
		}
	}
}

// operatorReads is the whole conversation; none is an empty one.
func (w *world) operatorReads(conv string, p place) []*petrelv1.Message {
	w.t.Helper()
	var rows []*petrelv1.Message
	for {
		r, err := patiently(w, func() (*connect.Response[petrelv1.HistoryPage], error) {
			return w.node().Admin.GetHistory(w.deadline(), connect.NewRequest(&petrelv1.AdminGetHistoryRequest{
				Tenant: p.tenant.id, History: &petrelv1.GetHistory{Conv: conv, After: uint64(len(rows))},
			}))
		})
		if err != nil {
			if codeOf(err) == "no_conversation" && len(rows) == 0 {
				return nil
			}
			w.fatalf("audit of %v after %d: %v", p, len(rows), err)
		}
		rows = append(rows, r.Msg.Messages...)
		if !r.Msg.More {
			if n := uint64(len(rows)); r.Msg.Head != n {
				w.fatalf("audit of %v: the head is %d and there are %d entries", p, r.Msg.Head, n)
			}
			return rows
		}
		if len(r.Msg.Messages) == 0 {
			w.fatalf("audit of %v: the page after %d is empty and there is more", p, len(rows))
		}
	}
}

// patiently asks again while the store does not answer, which is no finding: the
// databases of several runs share one machine.
func patiently[A any](w *world, ask func() (A, error)) (A, error) {
	w.t.Helper()
	for end := time.Now().Add(waitFor); ; {
		a, err := ask()
		if err == nil || codeOf(err) != string(im.CodeStoreStalled) || time.Now().After(end) {
			return a, err
		}
		<-time.After(100 * time.Millisecond)
	}
}

// stay is a range of seqs, both included, that a user may read.
type stay struct{ from, to uint64 }

// staysOf replays the member entries of a conversation.
func staysOf(p place, rows []*petrelv1.Message) map[string][]stay {
	stays := map[string][]stay{}
	head := uint64(len(rows))
	if p.group == "" {
		return map[string][]stay{p.a: {{1, head}}, p.b: {{1, head}}}
	}
	for _, m := range rows {
		c := m.GetMembers()
		for _, a := range c.GetAdded() {
			if s := stays[a.User]; len(s) == 0 || s[len(s)-1].to < head {
				stays[a.User] = append(s, stay{m.Seq, head})
			}
		}
		gone := append(slices.Clone(c.GetRemoved()), c.GetLeft()...)
		if c.GetDissolved() {
			gone = slices.Collect(maps.Keys(stays))
		}
		for _, u := range gone {
			if s := stays[u]; len(s) > 0 {
				s[len(s)-1].to = min(s[len(s)-1].to, m.Seq)
			}
		}
	}
	return stays
}

// auditReader checks that a user reads exactly their stays, and was never told
// more.
func (w *world) auditReader(s *session, conv string, p place, rows []*petrelv1.Message, stays []stay) {
	w.t.Helper()
	may := func(q uint64) bool {
		return slices.ContainsFunc(stays, func(s stay) bool { return s.from <= q && q <= s.to })
	}
	for q := range w.ledger.toWhom[s.user][conv] {
		if !may(q) {
			w.fatalf("audit of %v: %s was told seq %d and may not read it", p, s.user.name, q)
		}
	}
	if len(rows) == 0 {
		return
	}
	read := map[uint64]bool{}
	for after, more := uint64(0), true; more; {
		page, err := patiently(w, func() (*petrelv1.HistoryPage, error) {
			return s.conn.History(w.deadline(), &petrelv1.GetHistory{Conv: conv, After: after})
		})
		if err != nil {
			if len(stays) == 0 && strings.Contains("not_member no_conversation", string(im.CodeOf(err))) {
				return
			}
			w.fatalf("audit of %v: %s reads after %d: %v", p, s.user.name, after, err)
		}
		for _, m := range page.Messages {
			if !may(m.Seq) || m.Seq > uint64(len(rows)) || !proto.Equal(m, rows[m.Seq-1]) {
				w.fatalf("audit of %v: %s reads %v at seq %d", p, s.user.name, m, m.Seq)
			}
			read[m.Seq], after = true, m.Seq
		}
		if more = page.More; more && len(page.Messages) == 0 {
			after += 200 // nothing on this page may be read
		}
	}
	stays = stays[max(0, len(stays)-rememberedStays):]
	for q := uint64(1); q <= uint64(len(rows)); q++ {
		if may(q) && !read[q] {
			w.fatalf("audit of %v: %s may read seq %d and does not get it", p, s.user.name, q)
		}
	}
}
