package scenario

import (
	"maps"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// disturb kills, drains or starts nodes: "kill the owner of g1", "drain the node
// of alice", "start the others".
func (w *world) disturb(a args) {
	w.t.Helper()
	var srv *imtest.Server
	switch strings.Join(a.words[1:4], " ") {
	case "the owner of":
		srv = w.owner(a.word(4))
	case "the node of":
		srv = w.session(a.word(4)).srv
	}
	switch {
	case a.word(0) == "start":
		w.startOthers()
	case srv == nil:
		w.fatalf("%s whom?", a.word(0))
	case a.word(0) == "kill":
		w.http.CloseIdleConnections()
		srv.Kill()
	default:
		w.drain(srv)
	}
}

// drain has a node give away what it owns and send its clients elsewhere.
func (w *world) drain(srv *imtest.Server) {
	w.t.Helper()
	other := w.node()
	r, err := srv.Admin.GetCluster(w.deadline(), connect.NewRequest(&petrelv1.GetClusterRequest{}))
	if err == nil {
		_, err = other.Admin.DrainNode(w.deadline(), connect.NewRequest(&petrelv1.DrainNodeRequest{Node: r.Msg.AnsweredBy}))
	}
	if err != nil {
		w.fatalf("drain: %v", err)
	}
	w.drained = srv
}

// startOthers starts the nodes that do not run, and waits until they have their
// part.
func (w *world) startOthers() {
	w.t.Helper()
	for _, srv := range w.nodes {
		if !srv.Running() {
			srv.Start()
		}
	}
	imtest.WaitSettled(w.nodes)
}

// owner is the node that has a conversation's feed, as the database says.
func (w *world) owner(name string) *imtest.Server {
	w.t.Helper()
	text, _ := w.resolve(nil, name)
	id, err := im.ParseConvID(text)
	if err != nil {
		w.fatalf("owner of %s: %v", name, err)
	}
	ctx := w.deadline()
	c, err := pgx.Connect(ctx, postgres.server.DSN(w.database))
	if err != nil {
		w.fatalf("owner of %s: %v", name, err)
	}
	defer func() { _ = c.Close(ctx) }() // only read
	var holder int64
	if err := c.QueryRow(ctx, "SELECT holder FROM petrel.part WHERE id = $1", im.PartitionOf(id)).Scan(&holder); err != nil {
		w.fatalf("owner of %s: %v", name, err)
	}
	rows, err := c.Query(ctx, "SELECT key, substr(value, 1, length(value) - 4) FROM petrel.records WHERE tbl = $1", int(store.Nodes))
	if err != nil {
		w.fatalf("owner of %s: %v", name, err)
	}
	defer rows.Close()
	for rows.Next() {
		var key, value []byte
		var rec storepb.Node
		if err := rows.Scan(&key, &value); err != nil || rec.UnmarshalVT(value) != nil {
			w.fatalf("owner of %s: %v", name, err)
		}
		if rec.Incarnation == uint64(holder) {
			for i, srv := range w.nodes {
				if imtest.NodeName(i) == string(key) {
					return srv
				}
			}
		}
	}
	w.fatalf("owner of %s: nobody", name)
	return nil
}

// connectBy connects to the node that owns a conversation, or to another one.
func (s *session) connectBy(name string, owns bool) {
	s.w.t.Helper()
	owner := s.w.owner(name)
	for (s.w.nodes[(s.turn+1)%len(s.w.nodes)] == owner) != owns {
		s.turn++
	}
	s.connect(false)
}

// waitEnd waits until the connection has ended with its node, and drops the
// acks that came before.
func (s *session) waitEnd() {
	s.w.t.Helper()
	s.await("the end of the connection", func() bool { s.render(); return s.conn == nil })
	s.dropAcks()
	if got := s.withoutRepeats(s.lines[""]); len(got) != 1 || !strings.HasPrefix(got[0], "closed") {
		s.w.fatalf("%s got %q, not the end of the connection", s.name, got)
	}
	s.lines[""] = nil
}

// waitAcked waits until everything is answered, and drops the acks: how many
// there are is chance.
func (s *session) waitAcked() {
	s.w.t.Helper()
	s.waitAnswered()
	s.dropAcks()
}

func (s *session) dropAcks() {
	s.lines[""] = slices.DeleteFunc(s.lines[""], func(l string) bool { return strings.HasPrefix(l, "ack ") })
}

// lags tells whether a session may be told to look for what it missed, though the
// file does not say so: nodes that lose sight of each other for a moment do that.
func (s *session) lags() bool { return s.mayLag || len(s.w.nodes) > 1 }

// recover does what a client does that lags: it syncs and reads the missing entries. They
// are put where they would have been.
func (s *session) recover() {
	s.w.t.Helper()
	later, known := s.lines[""], maps.Clone(s.heads)
	var missed []string
	for more := true; more; {
		page, err := s.conn.Sync(s.w.deadline(), s.syncToken)
		if err != nil {
			s.w.fatalf("%s lags and syncs: %v", s.name, err)
		}
		s.synced(page)
		s.syncToken, more = page.Token, page.More
		for _, c := range page.Convs {
			missed = append(missed, s.missed(c.Conv, known[c.Conv], c.Head)...)
		}
	}
	s.lines[""] = append(missed, later...)
}

// missed reads what the session lacks of a conversation up to a head. The sync before
// said that known is the head.
func (s *session) missed(conv string, known, head uint64) (lines []string) {
	s.w.t.Helper()
	after := uint64(0)
	for s.seen[conv][after+1] {
		after++
	}
	for after < head {
		p, err := s.conn.History(s.w.deadline(), &petrelv1.GetHistory{Conv: conv, After: after})
		if err != nil {
			s.w.fatalf("%s reads what it missed of %s: %v", s.name, conv, err)
		}
		for _, m := range p.Messages {
			if !s.seen[conv][m.Seq] {
				s.told(m)
				mark := ""
				if m.Seq <= known {
					mark = belowMark
				}
				lines = append(lines, mark+"message "+s.w.nameOf(s.user, conv)+" "+entryText(m))
			}
			after = m.Seq
		}
		if !p.More {
			break
		}
	}
	return lines
}
