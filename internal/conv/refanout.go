package conv

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// RefanCommits is how many of a feed's newest commits stay in it even when all consumers have read
// them, for the successor of an Owner that died.
const RefanCommits = 256

// refanMs is by how many milliseconds a commit may be older than the newest one of the feed to be fanned out
// again. An owner fans out within that time.
const refanMs = 5000

// refanout fans the newest commits of a feed out once more. The former owner may have died between commit and
// fan-out. Then nobody would notice that the last message of a quiet conversation was never pushed. Clients
// recognize an entry that they have by its seq, and drop it.
type refanout struct {
	log   *slog.Logger
	store store.Store
	fan   *fanout.Fan
	feed  store.Feed
	pos   im.Pos // of the newest commit
}

// run delivers the entries of the newest commits. It is called before the committer runs.
func (r *refanout) run(ctx context.Context) error {
	type span struct{ from, to im.Seq }
	spans, order := map[im.Key]span{}, []im.Key{}
	entries, err := r.newestCommits(ctx)
	if errors.Is(err, store.ErrCorrupt) {
		r.log.ErrorContext(ctx, "fan out again failed", "feed", r.feed, "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		for _, it := range e.Items {
			if it.Count == 0 {
				continue
			}
			key := im.Key{Tenant: im.Tenant(it.Tenant), Conv: im.ConvID(it.Conv)}
			s, seen := spans[key]
			if !seen {
				s.from = im.Seq(it.From)
				order = append(order, key)
			}
			s.to = im.Seq(it.From + it.Count - 1)
			spans[key] = s
		}
	}
	for _, key := range order {
		// A damaged conversation must not keep its whole feed from being served.
		if err := r.refanRows(ctx, key, spans[key].from, spans[key].to); errors.Is(err, store.ErrCorrupt) {
			r.log.ErrorContext(ctx, "fan out again failed", "conv", key.Conv.String(), "err", err)
		} else if err != nil {
			return err
		}
	}
	r.fan.Flush()
	return nil
}

// newestCommits returns the entries of the feed that are fanned out again, oldest first.
func (r *refanout) newestCommits(ctx context.Context) ([]*storepb.FeedEntry, error) {
	for n := im.Pos(min(uint64(r.pos), RefanCommits)); n > 0; n /= 4 {
		var entries []*storepb.FeedEntry
		err := r.store.ScanFeed(ctx, r.feed, r.pos-n, r.pos, func(_ im.Pos, e *storepb.FeedEntry) bool {
			entries = append(entries, e)
			return true
		})
		if errors.Is(err, store.ErrTrimmed) {
			continue // by an older Petrel, which kept fewer
		}
		if err != nil || len(entries) == 0 {
			return nil, err
		}
		newest := entries[len(entries)-1].TimeMs
		return slices.DeleteFunc(entries, func(e *storepb.FeedEntry) bool { return e.TimeMs+refanMs < newest }), nil
	}
	return nil, nil
}

// refanRows delivers some entries of a conversation, each to those who may read it: a
// member who joined after an entry does not get it, and a user who was removed gets those
// up to the removal. Spec: P-8.3.
func (r *refanout) refanRows(ctx context.Context, key im.Key, from, to im.Seq) error {
	rec, err := r.store.Conversation(ctx, key)
	if err != nil || rec == nil {
		return err
	}
	from = max(from, im.Seq(rec.FirstSeq))
	readers, err := r.readers(ctx, key, rec, stay{from, to})
	if err != nil || !r.fan.Reaches(key.Tenant, usersOf(readers)) { // a start need not read rows without recipients
		return err
	}
	var recipients []im.User // of items
	var items []fanout.Item
	deliver := func() {
		if len(items) > 0 {
			r.fan.Deliver(key.Tenant, recipients, items)
		}
		items = nil
	}
	in, p := info{record: rec}, policy.Of(key.Conv.Kind())
	var bad error
	err = r.store.Rows(ctx, key, from, to, func(row store.Row) bool {
		head, stored, err := store.SplitRow(row.Value)
		if err != nil {
			bad = err
			return false
		}
		if p.List && isSnapshot(stored) { // a snapshot has no news. Spec: P-8.11
			return true
		}
		getters := slices.DeleteFunc(slices.Clone(readers), func(u member) bool { return !u.mayGet(row.Seq, stored) })
		if head.Flags&store.RowEdit != 0 && p.Members {
			var bare []byte
			var others []im.User
			if getters, others, bare, bad = divideEdit(getters, stored); bad != nil {
				return false
			}
			if len(others) > 0 {
				deliver()
				recipients, items = others, []fanout.Item{{Row: bare}}
				deliver()
			}
		}
		may := usersOf(getters)
		if head.Flags&perViewerFlags != 0 { // each user sees another row
			deliver()
			for _, u := range may {
				recipients = []im.User{u}
				var seen []byte
				if seen, bad = in.viewer(u).see(&head, stored); bad != nil {
					return false
				}
				seen = slices.Clone(seen)
				items = append(items, fanout.Item{Row: seen, Names: namesIn(seen)})
				deliver()
			}
			return true
		}
		if !slices.Equal(may, recipients) {
			deliver()
		}
		stored = slices.Clone(stored)
		recipients, items = may, append(items, fanout.Item{Row: stored, Names: namesIn(stored)})
		return true
	})
	if err = errors.Join(err, bad); err != nil {
		return err
	}
	deliver()
	return nil
}

// divideEdit divides the recipients of an edit into those who may read its target and the others,
// who get it without its text. Spec: P-8.3.
func divideEdit(getters []member, stored []byte) (readers []member, others []im.User, bare []byte, err error) {
	var e petrelv1.Message
	if err := wire.ParseMessage(stored, &e); err != nil {
		return nil, nil, nil, err
	}
	for i := range getters {
		if x := &getters[i]; x.reads(im.Seq(e.GetEdit().GetTarget())) {
			readers = append(readers, *x)
		} else {
			others = append(others, x.user)
		}
	}
	return readers, others, wire.AppendMessage(nil, bareEdit(&e)), nil
}

// namesIn returns the users whom a stored row mentions. The mentions of a recalled message are not
// known any more, so a recall names everybody.
func namesIn(stored []byte) *fanout.Names {
	var m petrelv1.Message
	if wire.ParseMessage(stored, &m) != nil {
		return nil // readers get the error
	}
	n := &fanout.Names{Seq: m.Seq, Users: m.Rel.GetMentions(), All: m.Rel.GetMentionAll() || m.GetRecall() != nil,
		But: im.User(m.From)}
	if len(n.Users) == 0 && !n.All {
		return nil
	}
	return n
}

// readers returns the users who may read any of a range of entries, with their stays. Direct
// conversations and inboxes have fixed members.
func (r *refanout) readers(ctx context.Context, key im.Key, rec *storepb.Conversation,
	of stay) (all []member, err error) {
	if !policy.Of(key.Conv.Kind()).Members {
		for _, u := range rec.Participants {
			all = append(all, member{user: im.User(u), stays: []stay{{}}})
		}
		return all, nil
	}
	err = r.store.Members(ctx, key, func(u im.User, m *storepb.Member) bool {
		x, any := member{user: u}, false
		for _, s := range m.Stays {
			x.stays = append(x.stays, stay{im.Seq(s.From), im.Seq(s.To)})
			any = any || im.Seq(s.From) <= of.to && (s.To == 0 || im.Seq(s.To) >= of.from)
		}
		if any {
			all = append(all, x)
		}
		return true
	})
	return all, err
}

func usersOf(list []member) []im.User {
	users := make([]im.User, len(list))
	for i := range list {
		users[i] = list[i].user
	}
	return users
}

// mayGet tells whether a user gets the stored row of the entry q. A former member does not get a row that was
// edited or recalled after the end of their stay: they may not read its present text. They can read the history
// instead.
func (u *member) mayGet(q im.Seq, stored []byte) bool {
	for _, s := range u.stays {
		switch {
		case q < s.from || s.to != 0 && q > s.to:
		case s.to == 0:
			return true
		default:
			var m petrelv1.Message
			return wire.ParseMessage(stored, &m) == nil && im.Seq(max(m.EditedBy, m.RecalledBy)) <= s.to
		}
	}
	return false
}

// isSnapshot tells whether the wire part of a row of an inbox is a part of a snapshot.
func isSnapshot(stored []byte) bool {
	var m petrelv1.Message
	return wire.ParseMessage(stored, &m) == nil && m.GetInbox().GetSnapshot() != nil
}
