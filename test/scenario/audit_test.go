package scenario

import (
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// ledger is what the clients of a run were told: the audit holds the history
// against it.
type ledger struct {
	entries map[string]map[uint64]string         // conversation → seq → the entry as first told
	toWhom  map[*user]map[string]map[uint64]bool // who was told which entries
	stored  map[sendKey]storedSend               // acked sends
	denied  []*sent                              // settled refusals
}

// sendKey identifies a message (P-4.4).
type sendKey struct {
	conv, k string
	by      *user
}

type storedSend struct {
	seq  uint64
	body string
}

func newLedger() *ledger {
	return &ledger{
		entries: map[string]map[uint64]string{}, toWhom: map[*user]map[string]map[uint64]bool{},
		stored: map[sendKey]storedSend{},
	}
}

// told notes an entry; it must be the one told before.
func (l *ledger) told(u *user, m *petrelv1.Message) error {
	if l.entries[m.Conv] == nil {
		l.entries[m.Conv] = map[uint64]string{}
	}
	is := fingerprint(m)
	if was, ok := l.entries[m.Conv][m.Seq]; ok && was != is {
		return fmt.Errorf("%s seq %d was told as %q and now as %q", m.Conv, m.Seq, was, is)
	}
	l.entries[m.Conv][m.Seq] = is
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
	key, is := sendKey{x.conv, x.frame.ClientMsgId, x.by}, storedSend{seq, sendBody(x.frame)}
	if was, ok := l.stored[key]; ok && was != is {
		return fmt.Errorf("%s was acked as %v and now as %v", x.frame.ClientMsgId, was, is)
	}
	l.stored[key] = is
	return nil
}

func (l *ledger) refused(x *sent) { l.denied = append(l.denied, x) }

// fingerprint is all of an entry.
func fingerprint(m *petrelv1.Message) string {
	b, err := m.MarshalVT()
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func sendBody(s *petrelv1.Send) string { return s.GetType() + "|" + s.GetText() + string(s.GetData()) }

func messageBody(m *petrelv1.Message) string {
	return m.GetType() + "|" + m.GetText() + string(m.GetData())
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
	readers := map[*user]*session{}
	for _, t := range w.tenants {
		for _, u := range t.users {
			s := &session{w: w, name: u.name + at(t) + "/audit", user: u, heads: map[string]uint64{}, seen: map[string]map[uint64]bool{}, changed: make(chan struct{}, 1)}
			s.user.token = w.srv.Users(t.name, u.name)[0] // theirs may be revoked
			s.connect(false)
			w.sessions[s.name] = s
			readers[u] = s
		}
	}
	for _, s := range readers { // learns all tenants first
		w.know(s.user.tenant)
	}
	for conv, p := range w.names {
		w.auditConv(conv, p, readers)
	}
	for u, convs := range w.ledger.toWhom {
		for conv := range convs {
			if p, ok := w.names[conv]; ok && p.tenant != u.tenant {
				w.fatalf("%s of tenant %q was told of %s of tenant %q", u.name, u.tenant.name, conv, p.tenant.name)
			}
		}
	}
}

func (w *world) auditConv(conv string, p place, readers map[*user]*session) {
	w.t.Helper()
	rows := w.operatorReads(conv, p)
	byKey := map[sendKey]uint64{}
	for i, m := range rows {
		if m.Seq != uint64(i+1) {
			w.fatalf("audit of %v: entry %d has seq %d", p, i+1, m.Seq)
		}
		if told, ok := w.ledger.entries[conv][m.Seq]; ok && told != fingerprint(m) {
			w.fatalf("audit of %v: seq %d was told as %q and is %q", p, m.Seq, told, fingerprint(m))
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
	stays := staysOf(p, rows)
	for u, s := range readers {
		if u.tenant == p.tenant {
			w.auditReader(s, conv, p, rows, stays[u.name])
		}
	}
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
		if m.ClientMsgId != key.k || m.From != key.by.name || messageBody(m) != x.body {
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
		r, err := w.srv.Admin.ReadHistory(w.deadline(), connect.NewRequest(&petrelv1.ReadHistoryRequest{
			Tenant: p.tenant.name, History: &petrelv1.GetHistory{Conv: conv, After: uint64(len(rows))},
		}))
		if err != nil {
			if adminCode(err) == "no_conversation" && len(rows) == 0 {
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
		for _, u := range append(slices.Clone(c.GetRemoved()), c.GetLeft()...) {
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
		page, err := s.conn.History(w.deadline(), &petrelv1.GetHistory{Conv: conv, After: after})
		if err != nil {
			if len(stays) == 0 && strings.Contains("not_member no_conversation", string(im.CodeOf(err))) {
				return
			}
			w.fatalf("audit of %v: %s reads after %d: %v", p, s.user.name, after, err)
		}
		for _, m := range page.Messages {
			if !may(m.Seq) || m.Seq > uint64(len(rows)) || fingerprint(m) != fingerprint(rows[m.Seq-1]) {
				w.fatalf("audit of %v: %s reads %q at seq %d", p, s.user.name, fingerprint(m), m.Seq)
			}
			read[m.Seq], after = true, m.Seq
		}
		if more = page.More; more && len(page.Messages) == 0 {
			after += 200 // nothing on this page may be read
		}
	}
	for q := uint64(1); q <= uint64(len(rows)); q++ {
		if may(q) && !read[q] {
			w.fatalf("audit of %v: %s may read seq %d and does not get it", p, s.user.name, q)
		}
	}
}
