package session

import (
	"context"
	"fmt"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// focus changes the focus of the session, and answers with the heads of the conversations that
// are new in it. Workers may run two requests in either order, so requests are numbered as they
// come: the outbox ignores a request with a lower number than it has applied. Spec: P-6.5.
func (s *Session) focus(id uint64, f *petrelv1.SetFocus, k *fanout.WakeUps) {
	convs, err := parseFocus(f)
	if err == nil && !s.Out.Hints {
		err = im.Errorf(im.CodeUnsupported, "the hello did not list %s", capFocus)
	}
	if err != nil {
		s.refuse(id, s.hub.clientError(s.Out.Account.User, "focus", err), k)
		return
	}
	s.focusRequests++
	n := uint64(s.focusRequests)
	s.request(id, "focus", k, func(ctx context.Context) (*petrelv1.ServerFrame, error) {
		// The focus is set before the heads are read. So an entry that is
		// committed between the two is in the heads, or comes as an event.
		added := s.Out.Focus(n, convs)
		heads, err := s.heads(ctx, added)
		if err != nil {
			// The focus has changed, and the owed hints of these conversations are
			// dropped. Without their heads the client must sync.
			var k fanout.WakeUps
			s.Out.Lag(&k)
			k.Flush()
		}
		return &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Focus{Focus: &petrelv1.Focused{Heads: heads}}}, err
	})
}

// parseFocus returns the conversations that f names; nil means all.
func parseFocus(f *petrelv1.SetFocus) (map[im.ConvID]bool, error) {
	switch {
	case f.All && len(f.Convs) > 0:
		return nil, im.Errorf(im.CodeInvalid, "a focus names conversations or all")
	case len(f.Convs) > maxFocus:
		return nil, im.Errorf(im.CodeInvalid, "a focus names at most %d conversations", maxFocus)
	case f.All:
		return nil, nil
	}
	convs := make(map[im.ConvID]bool, len(f.Convs))
	for _, text := range f.Convs {
		id, err := im.ParseConvID(text)
		if err != nil {
			return nil, err
		}
		convs[id] = true
	}
	return convs, nil
}

// heads reads the heads of conversations. It leaves out those of which the user is
// not a member, and those that do not exist. Spec: P-8.9.
func (s *Session) heads(ctx context.Context, convs []im.ConvID) ([]*petrelv1.Hint, error) {
	a := s.Out.Account
	heads := make([]*petrelv1.Hint, 0, len(convs))
	for _, id := range convs {
		by := conv.Query{Conv: im.Key{Tenant: a.Tenant, Conv: id}, User: a.User}
		st, err := route.Ask(ctx, s.hub.route, by, (*conv.Owner).State, &convpb.GetState{})
		switch {
		case err != nil && im.CodeOf(err) == im.CodeNoConversation:
		case err != nil:
			return nil, fmt.Errorf("read head of %s: %w", id, err)
		case st.Role != 0:
			heads = append(heads, &petrelv1.Hint{Conv: id.String(), Head: st.Head, Counted: st.Counted})
		}
	}
	return heads, nil
}
