package api

import (
	"context"

	"github.com/petrel-im/petrel/internal/audit"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// ListAudit reads a page of the audit log. Spec: P-10.9.
func (s *Server) ListAudit(ctx context.Context, r *petrelv1.ListAuditRequest) (*petrelv1.ListAuditResponse, error) {
	q := audit.Query{SinceMs: r.SinceMs, UntilMs: r.UntilMs, Token: r.Token, Down: r.Descending,
		Limit: int(min(r.Limit, audit.MaxPage)), Event: r.Event, Who: r.Who, About: r.About, Refused: r.Refused}
	page, next, err := s.o.Audit.List(ctx, q)
	return &petrelv1.ListAuditResponse{Records: auditRecords(page), Token: next}, err
}

func auditRecords(page []audit.Stored) (all []*petrelv1.AuditRecord) {
	for _, x := range page {
		rec := &petrelv1.AuditRecord{
			Node: string(x.Node), Number: x.Number, TimeMs: x.TimeMs, Event: x.Event, Code: x.Code, Key: x.Key,
			KeyName: x.KeyName, Operator: x.Operator,
			Tenant: x.Tenant, User: x.User, Device: x.Device, Address: x.Address, Count: x.Count, SinceMs: x.SinceMs,
		}
		for _, d := range x.Details {
			rec.Details = append(rec.Details, &petrelv1.AuditDetail{Name: d.Name, Value: d.Value})
		}
		all = append(all, rec)
	}
	return all
}

// maxHeads is how many heads one call compares.
const maxHeads = 1000

// VerifyAudit reads the whole audit log. It may take minutes, so it waits for a turn with
// each part of it. Spec: P-10.9.
func (s *Server) VerifyAudit(ctx context.Context,
	r *petrelv1.VerifyAuditRequest) (*petrelv1.VerifyAuditResponse, error) {
	if len(r.Heads) > maxHeads {
		return nil, im.Errorf(im.CodeInvalid, "heads has at most %d entries", maxHeads)
	}
	var known []audit.Head
	for _, h := range r.Heads {
		known = append(known, audit.Head{Node: im.Node(h.Node), Number: h.Number, Hash: h.Hash})
	}
	v, err := s.o.Audit.Verify(ctx, known, func(part func() error) error {
		_, err := read(ctx, s, func() (*struct{}, error) { return nil, part() })
		return err
	})
	if err != nil {
		return nil, err
	}
	res := &petrelv1.VerifyAuditResponse{Records: v.Records}
	for _, h := range v.Heads {
		res.Heads = append(res.Heads, &petrelv1.AuditHead{Node: string(h.Node), Number: h.Number, Hash: h.Hash})
	}
	for _, f := range v.Faults {
		res.Faults = append(res.Faults, &petrelv1.AuditFault{Node: string(f.Node), Number: f.Number, What: f.What,
			Text: f.Text})
	}
	return res, nil
}
