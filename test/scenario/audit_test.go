package scenario

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// ledger is what the clients of a run were told: the audit holds the history
// against it.
type ledger struct {
	entries map[string]map[uint64]*petrelv1.Message // conversation → seq → the newest copy that anybody was told
	toWhom  map[*user]map[string]map[uint64]bool    // who was told which entries
	stored  map[sendKey]storedSend                  // acked sends
	denied  []*sent                                 // settled refusals

	blocks bool // users block each other, so not all see the same of a direct conversation
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
	if was != nil && !l.same(was, m) {
		return fmt.Errorf("%s seq %d was told as %v and now as %v", m.Conv, m.Seq, was, m)
	}
	if (was == nil || version(m) >= version(was) && !hidden(m)) && !(l.blocks && cut(m)) {
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

func (x *sent) key() sendKey { return sendKey{x.conv, x.frame.ClientMsgId, x.by} }

// acked notes where a send is; every ack of it must say the same.
func (l *ledger) acked(x *sent, seq uint64) error {
	key, is := x.key(), storedSend{seq, sentText(x.frame), x.counts()}
	if was, ok := l.stored[key]; ok && was != is {
		return fmt.Errorf("%s was acked as %v and now as %v", x.frame.ClientMsgId, was, is)
	}
	l.stored[key] = is
	return nil
}

// attempted notes that a send goes out. The refusal of an earlier attempt does not decide
// this one. Spec: P-4.8.
func (l *ledger) attempted(x *sent) {
	l.denied = slices.DeleteFunc(l.denied, func(y *sent) bool { return y.key() == x.key() })
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
	for u, convs := range w.ledger.toWhom {
		for conv := range convs {
			if p, ok := w.names[conv]; ok && p.tenant != u.tenant {
				w.fatalf("%s of tenant %q was told of %s of tenant %q", u.name, u.tenant.name, conv, p.tenant.name)
			}
		}
	}
	list := w.audited()
	sends := map[string][]sendKey{} // by conversation
	for key := range w.ledger.stored {
		sends[key.conv] = append(sends[key.conv], key)
	}
	outsiders := map[*tenant][]string{} // the first of all, in their order
	for _, t := range w.tenants {
		outsiders[t] = slices.Sorted(maps.Keys(t.users))
	}
	readings := map[*user][]reading{}
	for _, c := range list {
		w.auditConv(c, sends[c.conv])
		for u := range w.readersOf(c, outsiders[c.place.tenant], max(1, min(auditedOutsiders, auditedTries/len(list)))) {
			readings[u] = append(readings[u], reading{c, c.stays[u.name]})
		}
	}
	w.auditReaders(readings)
}

const (
	auditedConvs     = 500 // how many conversations are audited; of more only a part is
	auditedOutsiders = 20  // how many who were never in a conversation try to read it, at most
	auditedTries     = 500 // how many such tries there are in a run, but one for each conversation at least
	rememberedStays  = 8   // how many of a user's newest stays can be read at least (P-8.3)
	auditedAtOnce    = 16  // how many questions of an audit are under way: on a database, questions that come together share a statement
)

// auditedConv is a conversation as the operator reads it.
type auditedConv struct {
	conv  string
	place place
	rows  []*petrelv1.Message
	stays map[string][]stay // by user
}

// reading is what one user reads of one conversation.
type reading struct {
	of    *auditedConv
	stays []stay
}

// audited reads the conversations that are audited, as the operator.
func (w *world) audited() []*auditedConv {
	w.t.Helper()
	var list []*auditedConv
	step := 1 + len(w.names)/auditedConvs
	for i, conv := range slices.Sorted(maps.Keys(w.names)) {
		if i%step == 0 {
			list = append(list, &auditedConv{conv: conv, place: w.names[conv]})
		}
	}
	var reads errgroup.Group
	reads.SetLimit(auditedAtOnce)
	for _, c := range list {
		srv := w.node()
		reads.Go(func() (err error) {
			c.rows, err = w.readAll(srv, c.conv, c.place)
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		w.fatalf("%v", err)
	}
	return list
}

// auditConv checks what the operator reads.
func (w *world) auditConv(c *auditedConv, sends []sendKey) {
	w.t.Helper()
	conv, p, rows := c.conv, c.place, c.rows
	byKey := map[sendKey]uint64{}
	for i, m := range rows {
		if m.Seq != uint64(i+1) {
			w.fatalf("audit of %v: entry %d has seq %d", p, i+1, m.Seq)
		}
		if told := w.ledger.entries[conv][m.Seq]; told != nil && (!w.ledger.same(told, m) || version(told) > version(m)) {
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
	w.auditSends(c, sends, byKey)
	w.auditRewrites(p, rows)
	c.stays = staysOf(p, rows)
	w.auditSenders(p, rows, c.stays)
}

// readersOf are the users who try to read a conversation: all who were in it or
// were told of it, and the first outsiders among the names, at most so many.
func (w *world) readersOf(c *auditedConv, names []string, most int) map[*user]bool {
	readers := map[*user]bool{}
	for name := range c.stays {
		if u := c.place.tenant.users[name]; u != nil { // a member may be a user of no session
			readers[u] = true
		}
	}
	for u, convs := range w.ledger.toWhom {
		if convs[c.conv] != nil {
			readers[u] = true
		}
	}
	outsiders := 0
	for _, name := range names {
		if u := c.place.tenant.users[name]; !readers[u] {
			if outsiders++; outsiders > most {
				break
			}
			readers[u] = true
		}
	}
	return readers
}

// auditReaders has the users read, each over a connection and with a token of
// its own: theirs may be revoked.
func (w *world) auditReaders(readings map[*user][]reading) {
	w.t.Helper()
	names := map[*tenant][]string{}
	for u := range readings {
		names[u.tenant] = append(names[u.tenant], u.name)
	}
	var reads errgroup.Group
	reads.SetLimit(auditedAtOnce)
	for t, names := range names {
		for part := range slices.Chunk(names, 1000) { // P-10.3
			tokens := w.node().Users(t.id, part...)
			for i, name := range part {
				s := newSession(w, name+at(t)+"/audit", t.users[name])
				s.turn, s.logged = i, &petrelv1.LoginResponse{AccessToken: tokens[i]}
				reads.Go(func() error { return s.auditReader(readings[s.user]) })
			}
		}
	}
	if err := reads.Wait(); err != nil {
		w.fatalf("%v", err)
	}
}

// auditSends checks that acked messages are there and refused ones are not.
func (w *world) auditSends(c *auditedConv, sends []sendKey, byKey map[sendKey]uint64) {
	w.t.Helper()
	conv, p, rows := c.conv, c.place, c.rows
	for _, key := range sends {
		x := w.ledger.stored[key]
		if x.seq == 0 || x.seq > uint64(len(rows)) {
			w.fatalf("audit of %v: %s was acked at seq %d and the head is %d", p, key.k, x.seq, len(rows))
		}
		m := rows[x.seq-1]
		if m.ClientMsgId != key.k || m.From != key.by.name || !rewritten(m) && !strings.HasPrefix(x.body, forwardText) && storedText(m) != x.body {
			w.fatalf("audit of %v: seq %d should be %s of %s with %.60q, and is %s of %s with %.60q", p, x.seq, key.k, key.by.name, x.body, m.ClientMsgId, m.From, storedText(m))
		}
	}
	for _, x := range w.ledger.denied {
		q, there := byKey[sendKey{conv, x.frame.ClientMsgId, x.by}]
		of := x.conv
		if of == noConversation { // others have begun it meanwhile
			of, _ = w.resolve(x.by, "d:"+x.frame.User)
		}
		if of == conv && there && storedText(rows[q-1]) == sentText(x.frame) {
			w.fatalf("audit of %v: %s of %s was refused and is stored at seq %d", p, x.frame.ClientMsgId, x.by.name, q)
		}
	}
}

// operatorReads is the whole conversation; none is an empty one.
func (w *world) operatorReads(conv string, p place) []*petrelv1.Message {
	w.t.Helper()
	rows, err := w.readAll(w.node(), conv, p)
	if err != nil {
		w.fatalf("%v", err)
	}
	return rows
}

// readAll is operatorReads at one node. It may run beside others.
func (w *world) readAll(srv *imtest.Server, conv string, p place) ([]*petrelv1.Message, error) {
	var rows []*petrelv1.Message
	for {
		r, err := patiently(w, func(ctx context.Context) (*connect.Response[petrelv1.HistoryPage], error) {
			return srv.Admin.GetHistory(ctx, connect.NewRequest(&petrelv1.AdminGetHistoryRequest{
				Tenant: p.tenant.id, History: &petrelv1.GetHistory{Conv: conv, After: uint64(len(rows))},
			}))
		})
		if err != nil {
			if codeOf(err) == "no_conversation" && len(rows) == 0 {
				return nil, nil
			}
			return nil, fmt.Errorf("audit of %v after %d: %w", p, len(rows), err)
		}
		rows = append(rows, r.Msg.Messages...)
		if !r.Msg.More {
			if n := uint64(len(rows)); r.Msg.Head != n {
				return nil, fmt.Errorf("audit of %v: the head is %d and there are %d entries", p, r.Msg.Head, n)
			}
			return rows, nil
		}
		if len(r.Msg.Messages) == 0 {
			return nil, fmt.Errorf("audit of %v: the page after %d is empty and there is more", p, len(rows))
		}
	}
}

// patiently asks again while the store does not answer, which is no finding: the
// databases of several runs share one machine.
func patiently[A any](w *world, ask func(context.Context) (A, error)) (a A, err error) {
	ctx := eventually.Context(w.t)
	eventually.Holds(func() bool {
		a, err = ask(ctx)
		return err == nil || codeOf(err) != string(im.CodeStoreStalled)
	})
	return a, err
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

// auditReader connects, and checks what its user reads. It may run beside others.
func (s *session) auditReader(list []reading) error {
	conn, err := s.auditConn()
	if err != nil {
		return fmt.Errorf("%s connects: %w", s.name, err)
	}
	defer func() { _ = conn.Close() }() // the server may have closed it
	for _, r := range list {
		if err := s.auditReading(conn, r); err != nil {
			return fmt.Errorf("audit of %v: %s %w", r.of.place, s.user.name, err)
		}
	}
	return nil
}

// auditConn connects a session for reading. A node that a busy machine keeps from
// the others, or from its database, sends clients away, which is no finding.
func (s *session) auditConn() (conn *wiretest.Conn, err error) {
	ctx := eventually.Context(s.w.t)
	eventually.Holds(func() bool {
		srv := s.nextNode()
		conn, err = wiretest.Open(ctx, wiretest.Options{URL: srv.URL(s.w.way.framing), Codec: s.w.way.codec, TLS: srv.TLS()})
		if err != nil {
			return true
		}
		if err = conn.Hello(ctx, s.hello()); err == nil {
			return true
		}
		_ = conn.Close() // the refusal says more
		code := im.CodeOf(err)
		return code != im.CodeDraining && code != im.CodeStoreStalled
	})
	return conn, err
}

// auditReading checks that a user reads exactly their stays, and was never told
// more.
func (s *session) auditReading(conn *wiretest.Conn, r reading) error {
	rows := r.of.rows
	may := func(q uint64) bool {
		return slices.ContainsFunc(r.stays, func(s stay) bool { return s.from <= q && q <= s.to })
	}
	for q := range s.w.ledger.toWhom[s.user][r.of.conv] {
		if !may(q) {
			return fmt.Errorf("was told seq %d and may not read it", q)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	read := map[uint64]bool{}
	for after, more := uint64(0), true; more; {
		page, err := patiently(s.w, func(ctx context.Context) (*petrelv1.HistoryPage, error) {
			return conn.History(ctx, &petrelv1.GetHistory{Conv: r.of.conv, After: after})
		})
		if err != nil {
			if len(r.stays) == 0 && strings.Contains("not_member no_conversation", string(im.CodeOf(err))) {
				return nil
			}
			return fmt.Errorf("reads after %d: %w", after, err)
		}
		for _, m := range page.Messages {
			if !may(m.Seq) || m.Seq > uint64(len(rows)) {
				return fmt.Errorf("reads %v at seq %d", m, m.Seq)
			}
			want := rows[m.Seq-1]
			if by := want.EditedBy; by > 0 && want.GetEdit() == nil && !may(by) {
				want = hide(want)
			}
			if e := want.GetEdit(); e != nil && !may(e.Target) {
				want = bare(want)
			}
			if !proto.Equal(m, want) && !(s.w.ledger.blocks && s.w.ledger.same(m, want)) {
				return fmt.Errorf("reads %v at seq %d, want %v", m, m.Seq, want)
			}
			read[m.Seq], after = true, m.Seq
		}
		if more = page.More; more && len(page.Messages) == 0 {
			after += 200 // nothing on this page may be read
		}
	}
	stays := r.stays[max(0, len(r.stays)-rememberedStays):]
	for q := uint64(1); q <= uint64(len(rows)); q++ {
		if slices.ContainsFunc(stays, func(s stay) bool { return s.from <= q && q <= s.to }) && !read[q] {
			return fmt.Errorf("may read seq %d and does not get it", q)
		}
	}
	return nil
}
