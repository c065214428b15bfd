package conv

import (
	"context"

	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Source returns the message q.Seq for a user who wants to forward it. The error does not say why it is
// refused. Codes: no_target. Spec: P-5.10, P-8.9.
func (r *reader) Source(ctx context.Context, by Query, q *convpb.GetSource) (*convpb.Source, error) {
	c, at, in, end, err := r.enter(ctx, by)
	if err != nil {
		if im.CodeOf(err) == im.CodeNoConversation {
			err = NoSource()
		}
		return nil, err
	}
	defer end()
	last := at.head
	if by.User != "" {
		_, last = in.members.reach(by.User, at.head)
		last = min(last, at.head)
	}
	if !in.mayRead(by.User, im.Seq(q.Seq), last) {
		return nil, NoSource()
	}
	m, err := r.readFor(ctx, c, in, by.User, im.Seq(q.Seq))
	if err != nil {
		return nil, err
	}
	s := &convpb.Source{Type: m.Type, Forwarded: &petrelv1.Forwarded{From: m.From, TimeMs: m.TimeMs}}
	if f := m.Rel.GetForwarded(); f != nil {
		s.Forwarded = f
	}
	switch body := m.Body.(type) {
	case *petrelv1.Message_Text:
		s.Body = &convpb.Source_Text{Text: body.Text}
	case *petrelv1.Message_Data:
		s.Body = &convpb.Source_Data{Data: body.Data}
	default:
		return nil, NoSource()
	}
	return s, nil
}
