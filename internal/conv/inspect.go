package conv

import (
	"context"
	"errors"

	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Describe returns the state of a conversation for the operator. It reads the newest entry, and with q.Rate at
// most that many entries of the last minute, so nothing has to be counted on the way of a message. Codes:
// no_conversation.
func (ow *Owner) Describe(ctx context.Context, by Query, q *convpb.Describe) (*convpb.Description, error) {
	_, at, in, end, err := ow.reader.open(ctx, by.Conv)
	if err != nil {
		return nil, err
	}
	defer end()
	d := &convpb.Description{
		Kind: petrelv1.ConvKind(in.record.Kind), Title: in.record.Title, Key: in.record.Key,
		Users: in.record.Participants, CreatedMs: in.record.CreatedMs,
		Head: uint64(at.head), FirstSeq: uint64(in.firstSeq()), Members: uint32(len(in.members.current)),
		Dissolved: in.record.Dissolved, Frozen: in.record.Frozen,
	}
	if at.head < in.firstSeq() {
		return d, nil
	}
	since := uint64(ow.committer.o.Now().UnixMilli()) - 60_000
	var m petrelv1.Message
	var bad error
	err = ow.reader.store.RowsDown(ctx, by.Conv, in.firstSeq(), at.head, func(r store.Row) bool {
		if _, stored, err := store.SplitRow(r.Value); err != nil {
			bad = err
		} else {
			bad = wire.ParseMessage(stored, &m)
		}
		if bad != nil {
			return false
		}
		if d.LastMs == 0 {
			d.LastMs = m.TimeMs
		}
		if m.TimeMs >= since {
			d.PerMinute++
		}
		return m.TimeMs >= since && d.PerMinute < q.Rate
	})
	if err = errors.Join(err, bad); errors.Is(err, store.ErrCorrupt) {
		return d, nil // the overview names the damage
	}
	return d, err
}

// MaxTraced is the most members of one answer of Trace.
const MaxTraced = 200

// Trace finds an entry by its seq, or by its user and client message id, for the operator. It returns the
// entry without its body, and the cursors of members. An id without a dedupe key is searched in the newest
// q.Scan rows only. Codes: no_conversation.
func (ow *Owner) Trace(ctx context.Context, by Query, q *convpb.Trace) (*convpb.Traced, error) {
	c, at, in, end, err := ow.reader.open(ctx, by.Conv)
	if err != nil {
		return nil, err
	}
	defer end()
	t := &convpb.Traced{Head: uint64(at.head)}
	seq := im.Seq(q.Seq)
	if seq == 0 {
		if seq, err = ow.findSent(ctx, by.Conv, in.firstSeq(), at.head, q); err != nil {
			return nil, err
		}
	}
	if seq < in.firstSeq() || seq > at.head {
		return t, nil
	}
	m, err := ow.reader.readMessage(ctx, c, viewer{}, seq)
	if err != nil {
		return nil, err
	}
	t.Found, t.Seq, t.User, t.ClientMsgId, t.TimeMs = true, m.Seq, m.From, m.ClientMsgId, m.TimeMs
	t.Bytes, t.Recalled, t.Edited = uint32(m.SizeVT()), m.RecalledBy != 0, m.EditedBy != 0
	return t, ow.places(ctx, by.Conv, in, at.head, seq, q, t)
}

// findSent returns the seq of the send of a user with a client message id; 0: it is not found.
func (ow *Owner) findSent(ctx context.Context, key im.Key, first, head im.Seq, q *convpb.Trace) (im.Seq, error) {
	filed, err := ow.reader.store.Dedupe(ctx, key, ow.committer.hash.id(im.User(q.User), q.ClientMsgId))
	if err != nil {
		return 0, err
	}
	var found im.Seq
	var bad error
	look := func(r store.Row) bool {
		var m petrelv1.Message
		_, stored, err := store.SplitRow(r.Value)
		if err == nil {
			err = wire.ParseMessage(stored, &m)
		}
		if bad = err; bad == nil && m.From == q.User && m.ClientMsgId == q.ClientMsgId {
			found = r.Seq
		}
		return found == 0 && bad == nil
	}
	for _, s := range filed {
		if s < first || s > head {
			continue
		}
		if err := errors.Join(ow.reader.store.Rows(ctx, key, s, s, look), bad); err != nil || found != 0 {
			return found, err
		}
	}
	from := first
	if n := im.Seq(q.Scan); head-first >= n {
		from = head - n + 1
	}
	if from > head {
		return 0, nil
	}
	err = ow.reader.store.RowsDown(ctx, key, from, head, look)
	return found, errors.Join(err, bad)
}

// places adds to t the cursors of members and former members who may read the entry seq: at most q.Limit, after
// the user q.After. With q.Only it adds the cursor of that user alone, even if they may not read it.
func (ow *Owner) places(ctx context.Context, key im.Key, in *info, head, seq im.Seq, q *convpb.Trace,
	t *convpb.Traced) error {
	limit := int(q.Limit)
	if limit == 0 || limit > MaxTraced {
		limit = MaxTraced
	}
	i, found := in.members.find(im.User(q.After))
	if found {
		i++
	}
	all := map[im.User]Cursor{}
	if q.Only == "" {
		err := ow.reader.store.Cursors(ctx, key, im.User(q.After), func(u im.User, r *storepb.Cursor) bool {
			all[u] = cursorOf(r)
			return true
		})
		if err != nil {
			return err
		}
	}
	for _, x := range in.members.all[i:] {
		if q.Only != "" && string(x.user) != q.Only || q.Only == "" && !in.mayRead(x.user, seq, head) {
			continue
		}
		if len(t.Places) == limit {
			t.More = true
			break
		}
		at, inMemory := ow.cursors.inMemory(key, x.user)
		if !inMemory {
			at = all[x.user]
		}
		if q.Only != "" {
			var err error
			if at, err = ow.CursorOf(ctx, key, x.user); err != nil {
				return err
			}
		}
		t.Places = append(t.Places, &convpb.Traced_Place{User: string(x.user), Role: x.role,
			Delivered: uint64(at.Delivered), Read: uint64(at.Read), MayNot: !in.mayRead(x.user, seq, head)})
	}
	return nil
}
