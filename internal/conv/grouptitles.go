package conv

import (
	"context"
	"slices"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// maxFormerTitles is the most former titles that a group remembers. The inbox consumer needs the title at
// each entry that it has not carried yet.
const maxFormerTitles = 8

// retitle gives a group the title that begins with the entry q.
func retitle(record *storepb.Conversation, title string, q im.Seq) {
	former := append(record.FormerTitles, &storepb.FormerTitle{Title: record.Title, Until: uint64(q)})
	record.Title, record.FormerTitles = title, former[max(0, len(former)-maxFormerTitles):]
}

// titleAt returns the title of a group at the entry q; "" if it is not remembered.
func titleAt(record *storepb.Conversation, q im.Seq) string {
	former := record.FormerTitles
	i := slices.IndexFunc(former, func(f *storepb.FormerTitle) bool { return uint64(q) < f.Until })
	switch {
	case i < 0:
		return record.Title
	case i == 0 && len(former) == maxFormerTitles:
		return ""
	}
	return former[i].Title
}

// TitleAt returns the title that a group had at the entry q; "" if it has had maxFormerTitles others since.
// Codes: no_conversation. Spec: P-8.3.
func (r *reader) TitleAt(ctx context.Context, key im.Key, q im.Seq) (string, error) {
	_, _, in, end, err := r.open(ctx, key)
	if err != nil {
		return "", err
	}
	defer end()
	return titleAt(in.record, q), nil
}
