package scenario

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// deadline is a context for one call to the server.
func (w *world) deadline() context.Context {
	return eventually.Context(w.t)
}

// execute runs a directive or a command, as often as it says.
func (w *world) execute(l line) {
	for n := l.from; n <= l.to; n++ {
		a, err := parseArgs(expand(l.text, n))
		if err != nil {
			w.fatalf("%v", err)
		}
		switch {
		case l.kind == directive:
			w.direct(a)
		case l.actor == "admin":
			w.admin(a)
		default:
			if slices.Contains([]string{"register", "login", "exchange"}, a.word(0)) {
				w.newcomer(l.actor)
			}
			w.session(l.actor).command(a)
		}
	}
}

// direct runs a line about the world: "users …", "alice connects".
func (w *world) direct(a args) {
	w.t.Helper()
	t := w.tenant("")
	if a.word(0) == "tenant" {
		name, ok := strings.CutSuffix(a.word(1), ":")
		if !ok {
			w.fatalf("want: tenant NAME: users … or group …")
		}
		t = w.tenant(name)
		a.words = a.words[2:]
	}
	switch a.word(0) {
	case "server", "own", "ways", "raced", "by", "cluster", "count": // read before the start
	case "capabilities":
		w.offers = a.words[1:]
	case "blocks":
		w.ledger.blocks = true
	case "users":
		w.makeUsers(t, a.words[1:])
	case "group":
		w.makeGroup(t, a.word(1), a.words[2:])
	case "limits":
		w.setLimits(a.values)
	case "restart":
		w.restart(nil)
	case "kill", "drain", "start": // kill the owner of g1
		w.disturb(a)
	case "backup":
		w.backup()
	case "restore":
		w.restore()
	default:
		w.directSession(w.session(a.word(0)), a)
	}
}

func (w *world) directSession(s *session, a args) {
	w.t.Helper()
	switch strings.Join(a.words[1:], " ") {
	case "opens":
		s.open(false)
	case "connects":
		s.connect(false)
		s.catchUp()
	case "connects with a small buffer":
		s.connect(true)
		s.catchUp()
	case "connects without sync":
		s.connect(false)
	case "loses its node":
		s.waitEnd()
	case "is acked":
		s.waitAcked()
	case "disconnects":
		if !*update {
			w.expectSilence(s)
		}
		s.close()
	case "breaks off":
		s.close()
	case "stops reading":
		s.read(false)
	case "may lag":
		s.mayLag = true
	case "is cut off":
		s.waitCut()
	case "reads again":
		s.read(true)
	case "calls over the connection":
		s.onConn = true
	case "calls over HTTP":
		s.onConn = false
	default:
		switch a.word(1) {
		case "connects": // to the owner of g1, away from g1
			s.connectBy(a.words[len(a.words)-1], a.word(2) == "to")
			s.catchUp()
		case "has":
			s.has(a.word(2), a.word(3))
		case "hears": // of g1 701
			s.hears(a.word(3), a.word(4))
		case "repairs":
			s.repair(a.word(2))
		default:
			w.fatalf("cannot %s", strings.Join(a.words, " "))
		}
	}
}

func (w *world) makeUsers(t *tenant, names []string) {
	w.t.Helper()
	for part := range slices.Chunk(names, 1000) { // P-10.3
		tokens := w.node().Users(t.id, part...)
		for i, n := range part {
			t.users[n] = &user{name: n, tenant: t, token: tokens[i]}
		}
	}
}

func (w *world) makeGroup(t *tenant, name string, members []string) {
	w.t.Helper()
	id := w.node().Group(t.id, name, members...)
	t.groups[name] = id
	w.names[id] = place{tenant: t, group: name}
	for _, m := range members {
		t.users[m].list(change{id, 1})
	}
}

// setLimits sets limits by their names in the API: "window_sends=8".
func (w *world) setLimits(values map[string]string) {
	w.t.Helper()
	l := &petrelv1.ServerLimits{}
	for name, value := range values {
		n, err := strconv.ParseInt(value, 10, 64)
		f := l.ProtoReflect().Descriptor().Fields().ByTextName(name)
		if err != nil || f == nil {
			w.fatalf("there is no limit %s=%s", name, value)
		}
		l.ProtoReflect().Set(f, protoInt64(n))
	}
	eventually.True(w.t, "all nodes have the limits", func() bool {
		r, err := w.node().Admin.SetLimits(w.deadline(), connect.NewRequest(l))
		if err != nil {
			w.fatalf("set limits: %v", err)
		}
		return len(r.Msg.Silent) == 0 // a node has a second to answer
	})
}

// catchUp syncs as a client does after the welcome, without lines.
func (s *session) catchUp() {
	s.w.t.Helper()
	s.waitListed()
	for more := true; more; {
		p, err := s.conn.Sync(s.w.deadline(), s.syncToken)
		if err != nil {
			s.w.fatalf("%s syncs: %v", s.name, err)
		}
		s.synced(p)
		s.syncToken, more = p.Token, p.More
	}
}

// waitListed waits until the user's inbox says what the scenario did so far:
// the inbox runs behind the conversations by a little.
func (s *session) waitListed() {
	s.w.t.Helper()
	missing := maps.Clone(s.user.listed)
	after := uint64(0)
	for left := len(missing); left > 0; left = len(missing) {
		if !eventually.Holds(func() bool { after = s.readInbox(after, missing); return len(missing) < left }) {
			s.w.fatalf("inbox of %s does not say %v", s.name, missing)
		}
	}
}

// readInbox reads a page of the user's inbox, removes from missing what it says, and returns
// up to where it has read.
func (s *session) readInbox(after uint64, missing map[change]bool) uint64 {
	s.w.t.Helper()
	p, err := s.conn.History(s.w.deadline(), &petrelv1.GetHistory{Conv: s.user.inbox, After: after})
	if err != nil && im.CodeOf(err) != im.CodeNoConversation && im.CodeOf(err) != im.CodeNotMember {
		s.w.fatalf("%s reads the inbox, which lacks %v: %v", s.name, missing, err)
	}
	for _, m := range p.GetMessages() {
		after = m.Seq
		switch e := m.GetInbox().GetEntry().(type) {
		case *petrelv1.InboxEntry_Joined:
			delete(missing, change{e.Joined.Conv, e.Joined.Seq})
		case *petrelv1.InboxEntry_Left:
			delete(missing, change{e.Left.Conv, e.Left.Seq})
		case *petrelv1.InboxEntry_Role:
			delete(missing, change{e.Role.Conv, e.Role.Seq})
		}
	}
	return after
}

// waitCut waits until the server has dropped the session, which does not read
// and so cannot tell. Events of a session that lags are dropped, and the socket may hold all
// that it got before. Answers are never dropped: the session asks for its groups' history
// until answers wait.
func (s *session) waitCut() {
	s.w.t.Helper()
	eventually.True(s.w.t, s.name+" is cut off", func() bool {
		for c := range s.user.listed {
			if len(s.requests) < unreadAnswers {
				s.ask(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_History{History: &petrelv1.GetHistory{Conv: c.conv, Limit: 2}}})
			}
		}
		there, open := uint64(0), uint64(0)
		for _, srv := range s.w.nodes {
			r, err := srv.Admin.GetStats(s.w.deadline(), connect.NewRequest(&petrelv1.GetStatsRequest{}))
			if err != nil {
				s.w.fatalf("wait until %s is cut off: %v", s.name, err)
			}
			there += r.Msg.Connections
		}
		for _, o := range s.w.sessions {
			if o.conn != nil {
				open++
			}
		}
		return there < open
	})
}

// unreadAnswers is for how many answers a session asks that it does not read: with two
// messages of 45 KB in each, more than sockets hold.
const unreadAnswers = 200

// repair reads by history what the session lacks of a conversation below the
// head it has heard of, without lines.
func (s *session) repair(name string) {
	s.w.t.Helper()
	s.render()
	conv, _ := s.w.resolve(s.user, name)
	have := uint64(0)
	for {
		for s.seen[conv][have+1] {
			have++
		}
		if have >= s.heads[conv] {
			return
		}
		p, err := s.conn.History(s.w.deadline(), &petrelv1.GetHistory{Conv: conv, After: have})
		if err != nil || len(p.Messages) == 0 {
			s.w.fatalf("%s repairs %s after %d: got %v, %v", s.name, name, have, p, err)
		}
		s.page(p)
	}
}

// hears waits until the session was told of a head, whole or by hints as
// chance would have it, but by a hint at least once and without a lag, and drops
// the lines.
func (s *session) hears(name, head string) {
	s.w.t.Helper()
	conv, _ := s.w.resolve(s.user, name)
	q, err := strconv.ParseUint(head, 10, 64)
	if err != nil {
		s.w.fatalf("%q is no head", head)
	}
	s.await("head "+head, func() bool { s.render(); return s.heads[conv] >= q })
	s.barrier()
	if i := slices.IndexFunc(s.lines[""], lossMark.MatchString); i >= 0 || len(s.lines["hint"]) == 0 {
		s.w.fatalf("%s got %d hints, and %q", s.name, len(s.lines["hint"]), s.lines[""][max(i, 0):])
	}
	clear(s.lines)
}

// has checks that the session was told every entry of a range "1..500".
func (s *session) has(name, span string) {
	s.w.t.Helper()
	s.render()
	conv, _ := s.w.resolve(s.user, name)
	first, last, _ := strings.Cut(span, "..")
	from, err1 := strconv.ParseUint(first, 10, 64)
	to, err2 := strconv.ParseUint(last, 10, 64)
	if err1 != nil || err2 != nil || from > to {
		s.w.fatalf("%q is no range", span)
	}
	for q := from; q <= to; q++ {
		if !s.seen[conv][q] {
			s.w.fatalf("%s has not got %s seq %d", s.name, name, q)
		}
	}
	if n := uint64(len(s.seen[conv])); n != to-from+1 && s.w.database == "" { // there a new owner may push older ones as well
		s.w.fatalf("%s has %d entries of %s, want %s and nothing else", s.name, n, name, span)
	}
}
