package crowd

import (
	"strconv"
	"strings"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Audit reads every conversation as the operator, from the server at base, and
// holds it against the ledger.
func (w *Crowd) Audit(base string) {
	w.t.Helper()
	admin := w.Admin(base)
	for at, c := range w.convs {
		head := uint64(0)
		if c.id == "" {
			w.t.Fatalf("nobody wrote to %s from %s", c.b, c.a)
		}
		for more := true; more; {
			r, err := admin.GetHistory(w.t.Context(), connect.NewRequest(&petrelv1.AdminGetHistoryRequest{History: &petrelv1.GetHistory{Conv: c.id, After: head}}))
			if err != nil {
				w.t.Fatalf("audit %s after %d: %v", c.id, head, err)
			}
			for _, m := range r.Msg.Messages {
				if head++; m.Seq != head {
					w.Ledger.note(&w.Ledger.holes, "%s has %d where %d should be", c.id, m.Seq, head)
					head = m.Seq
				}
				w.Ledger.told("the audit", m)
				w.auditRow(at, m)
			}
			if more = r.Msg.More; more && len(r.Msg.Messages) == 0 {
				w.t.Fatalf("audit %s after %d: an empty page and more", c.id, head)
			}
		}
		if told := w.Ledger.head(c.id); told != head {
			w.Ledger.note(&w.Ledger.lost, "%s has the head %d, and %d was told", c.id, head, told)
		}
	}
	for i, list := range w.Ledger.outcomes {
		w.auditSender(i, list)
	}
}

// auditSender checks that each message of a sender is there once, and that
// those of a conversation stand in the order in which they were sent.
func (w *Crowd) auditSender(i int, list []outcome) {
	l := w.Ledger
	last := map[uint8]uint64{}
	for n, o := range list {
		k := (&message{sender: i, n: n}).k()
		switch {
		case o.seq == 0:
			l.note(&l.lost, "%s was never acked", k)
		case o.stored == 0:
			l.note(&l.lost, "%s was acked at seq %d and is nowhere", k, o.seq)
		case o.stored > 1:
			l.note(&l.dup, "%s is stored %d times", k, o.stored)
		}
		if o.seq < last[o.conv] {
			l.note(&l.moved, "%s stands at seq %d, before an earlier message of its sender at %d", k, o.seq, last[o.conv])
		}
		if !o.deferred {
			last[o.conv] = max(last[o.conv], o.seq)
		}
	}
}

// auditRow checks where a stored row comes from.
func (w *Crowd) auditRow(at int, m *petrelv1.Message) {
	if m.From == "" {
		return // the server's own
	}
	l := w.Ledger
	first, second, _ := strings.Cut(m.ClientMsgId, "-")
	i, err1 := strconv.Atoi(first)
	n, err2 := strconv.Atoi(second)
	if err1 != nil || err2 != nil || i >= len(w.o.Senders) || w.o.Senders[i].User != m.From || n >= len(l.outcomes[i]) {
		l.note(&l.ghost, "%s seq %d is %q of %s, which nobody sent or which was refused", m.Conv, m.Seq, m.ClientMsgId, m.From)
		return
	}
	o := &l.outcomes[i][n]
	o.stored++
	switch {
	case int(o.conv) != at || m.GetText() != w.bodyOf(i, n):
		l.note(&l.ghost, "%s seq %d is %s of %s with another body or in another conversation: %.60q", m.Conv, m.Seq, m.ClientMsgId, m.From, m.GetText())
	case o.seq != m.Seq:
		l.note(&l.moved, "%s was acked at seq %d and stands at %d", m.ClientMsgId, o.seq, m.Seq)
	}
}
