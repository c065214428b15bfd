package crowd

import (
	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Audit reads every conversation as the operator, from the server at base, and lets the checker judge the op log.
// It fails the test if a conversation of Options.Directs was never written to.
func (w *Crowd) Audit(base string) {
	w.t.Helper()
	admin := w.Admin(base)
	for _, c := range w.convs {
		if c.id == "" {
			w.t.Fatalf("nobody wrote to %s from %s", c.b, c.a)
		}
		after := uint64(0)
		for more := true; more; {
			r, err := admin.GetHistory(w.t.Context(),
				connect.NewRequest(&petrelv1.AdminGetHistoryRequest{History: &petrelv1.GetHistory{Conv: c.id,
					After: after}}))
			if err != nil {
				w.t.Fatalf("audit %s after %d: %v", c.id, after, err)
			}
			for _, m := range r.Msg.Messages {
				w.Ledger.write(checker.Shown(checker.Entry, m))
				after = m.Seq
			}
			if more = r.Msg.More; more && len(r.Msg.Messages) == 0 {
				w.t.Fatalf("audit %s after %d: an empty page and more", c.id, after)
			}
		}
		w.Ledger.write(checker.Op{Kind: checker.History, Conv: c.id, Seq: after})
		if c.a != "" {
			w.Ledger.write(checker.Op{Kind: checker.Conv, Conv: c.id, User: c.a, To: c.b, Added: c.members})
		}
		for _, v := range w.receivers {
			for _, m := range c.members {
				if m == v.role.User {
					w.Ledger.write(checker.Op{Kind: checker.Follow, User: m, Device: v.device, Conv: c.id})
				}
			}
		}
	}
	w.Ledger.judge(w.t)
}
