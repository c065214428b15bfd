package route

import (
	"context"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
)

// FetchSource reads the source of the forward s for its sender, from the source's owner. That may be another owner
// than that of s, whose committer must not wait for it. FetchSource does nothing for other sends. If the sender may
// not read the source, the refusal goes along in s: only the owner of s knows whether s is stored already. If
// forwards may not name the author (Options.IsNamed), the copy does not. An error is not settled: s must not be
// submitted then. Spec: P-5.10.
func (r *Router) FetchSource(ctx context.Context, s *conv.Send) error {
	if !s.Forwards() {
		return nil
	}
	ref, from := s.Entry.Rel.ForwardOf, im.User(s.Entry.From)
	id, err := im.ParseConvID(ref.Conv)
	if err != nil {
		s.Refusal = conv.NoSource()
		return nil
	}
	by := conv.Query{Conv: im.Key{Tenant: s.Conv.Tenant, Conv: id}, User: from}
	source, err := Ask(ctx, r, by, (*conv.Owner).Source, &convpb.GetSource{Seq: ref.Seq})
	if im.CodeOf(err) == im.CodeNoTarget {
		s.Refusal = conv.NoSource()
		return nil
	}
	if err != nil {
		return err
	}
	if f := source.Forwarded; f.From != "" && r.isNamed != nil {
		named, err := r.isNamed(ctx, im.Account{Tenant: s.Conv.Tenant, User: im.User(f.From)})
		if err != nil {
			return conv.Shown(err)
		}
		if !named {
			f.From = ""
		}
	}
	s.Source = source
	return nil
}
