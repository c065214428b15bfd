package bench

import (
	"errors"
	"fmt"
	"os"

	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// opLog writes what the connections of a run sent and saw into a log for `petrel check`. A run without a log has a nil
// opLog: then close, row and the log methods of the generator do nothing, at the cost of one comparison for each
// message.
type opLog struct {
	file  *os.File
	w     *checker.Writer
	users []string // by connection
	names []string // of the sessions, by connection
	body  []byte
}

// createOpLog makes a log.
func createOpLog(name string, users []string) (*opLog, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("make the op log: %w", err)
	}
	l := &opLog{file: f, w: checker.NewWriter(f), users: users}
	for i := range users {
		l.names = append(l.names, fmt.Sprint("c", i))
	}
	return l, nil
}

func (l *opLog) close() error {
	if l == nil {
		return nil
	}
	return errors.Join(l.w.Flush(), l.file.Close())
}

func (l *opLog) write(op checker.Op) { _ = l.w.Write(&op) } // the error stays, and close returns it

// by returns an op of a connection, at a time in ns of the generator's clock.
func (l *opLog) by(kind checker.Kind, conn int, at int64) checker.Op {
	// + 1: a time of 0 would mean that it is not known
	return checker.Op{Kind: kind, At: at + 1, User: l.users[conn], Session: l.names[conn]}
}

// logSend records an attempt to send.
func (g *generator) logSend(s *sender, sl *slot, now int64) {
	l := g.log
	if l == nil {
		return
	}
	op := l.by(checker.Invoke, s.conn.index, now)
	op.Conv, op.To = g.logTarget(s, sl)
	op.ID = string(g.corpus.appendID(nil, s.ordinal, sl.number))
	l.body = g.corpus.appendBody(l.body[:0], proof{sender: s.ordinal, number: sl.number, sentNs: sl.sentNs})
	op.Body = checker.Digest("", l.body)
	l.write(op)
}

func (g *generator) logTarget(s *sender, sl *slot) (conv, to string) {
	p := s.peer(sl.number)
	if sl.byUser {
		return p.book.id, p.user
	}
	return p.book.id, ""
}

// logAnswer records the outcome of an attempt; seq is 0 unless it was acked.
func (g *generator) logAnswer(kind checker.Kind, s *sender, sl *slot, seq uint64, now int64) {
	if g.log == nil {
		return
	}
	op := g.log.by(kind, s.conn.index, now)
	op.Conv, op.To = g.logTarget(s, sl)
	op.ID, op.Seq = string(g.corpus.appendID(nil, s.ordinal, sl.number)), seq
	g.log.write(op)
}

// logRefusal records an error that answers an attempt: as Rejected if it is settled or the code is rate_limited, since
// the server stored nothing; otherwise as Unknown.
func (g *generator) logRefusal(s *sender, sl *slot, e *petrelv1.Error, now int64) {
	kind := checker.Unknown
	if e.Settled || im.Code(e.Code) == im.CodeRateLimited {
		kind = checker.Rejected
	}
	g.logAnswer(kind, s, sl, 0, now)
}

// logEntry records an entry that a connection was shown, by a push or on a page of history, unless it is of an inbox.
// For a page, since is the seq after the previous entry of the page, so that the page has nothing between the two; 0
// for the first entry of a page, and for a push.
func (g *generator) logEntry(kind checker.Kind, conn int, e *entry, since uint64, now int64) {
	if g.log == nil || len(e.conv) > 0 && e.conv[0] == byte(im.Inbox) {
		return
	}
	op := g.log.by(kind, conn, now)
	op.Conv, op.From, op.ID, op.Seq, op.Since = string(e.conv), string(e.from), string(e.id), e.seq, since
	if e.hasText {
		op.Body = checker.Digest("", e.text)
	}
	g.log.write(op)
}

// logEnd records a connection that has ended for good.
func (g *generator) logEnd(conn int, now int64) {
	if g.log != nil {
		g.log.write(g.log.by(checker.End, conn, now))
	}
}

// row records an entry of the history.
func (l *opLog) row(m *petrelv1.Message) {
	if l == nil {
		return
	}
	op := checker.Shown(checker.Entry, m)
	l.write(op)
}

// logConv records which seqs of the history of v were read, the members of a direct conversation, and the
// connections that had to get its entries.
func (g *generator) logConv(v *convBook, after, head uint64) {
	l := g.log
	if l == nil {
		return
	}
	l.write(checker.Op{Kind: checker.History, Conv: v.id, Since: after + 1, Seq: head})
	if !v.group {
		a, b := l.users[v.members[0]], l.users[v.members[1]]
		l.write(checker.Op{Kind: checker.Conv, Conv: v.id, User: a, To: b, Added: []string{a, b}})
	}
	for i := range v.streams {
		conn := i
		if !v.group {
			conn = v.members[i]
		}
		if s := &v.streams[i]; !s.Gone {
			op := l.by(checker.Follow, conn, 0)
			op.Conv, op.Seq, op.At = v.id, s.Start(), 0
			l.write(op)
		}
	}
}
