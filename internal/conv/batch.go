package conv

import (
	"bytes"
	"context"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/note"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Kinds of entries in the feed, as bits of FeedItem.kinds.
const (
	FeedMessages   = 1
	FeedMembership = 2
	FeedRewrites   = 4
	FeedInbox      = 8
	FeedCursors    = 16
	FeedMarks      = 32
	FeedBlocks     = 64  // entries of an inbox that block or unblock users
	FeedCompacted  = 128 // the last part of a snapshot of an inbox
	FeedTitles     = 256 // entries that make a group or change its title
	FeedPeers      = 512 // the first message of a user in a direct conversation
	// changes of contacts, without entries: from is the contact_version after them, count says which sides see them
	FeedContacts = 1024
)

// FeedCarried are the kinds on which the inbox consumer acts.
const FeedCarried = FeedMembership | FeedBlocks | FeedCompacted | FeedTitles | FeedPeers | FeedContacts

// Blocked is the name of the setting by which a user blocks another one. Spec: P-8.10.
const Blocked = "blocked"

// batch is one commit on its way. The committer builds it, and the store makes it durable. The callback of
// the store publishes and answers it, or the committer does if there is nothing to store. An Owner has one
// batch, and uses it again and again.
type batch struct {
	commit    store.Batch
	feedEntry storepb.FeedEntry
	feedItems []storepb.FeedItem
	// the encoded rows; used again after the batch is published, when fan-out has copied them. A full one is
	// replaced
	arena    []byte
	work     []work
	staged   []staged // rows of the conversation at hand
	items    []fanout.Item
	spans    []span
	answers  []answer // of the sends that wait outside a connection
	heads    []headMove
	scans    []scan
	later    []work // sends that wait for the next batch
	cursors  []cursorWrite
	notes    []note.Write
	bytes    int // of all sends that were taken and not put back
	rows     int // number of new rows, without rewrites
	answered int // sends that have an item or an answer
	repeats  int
	appended time.Duration // of measure.Now, when it went to the store
}

type answer struct {
	done func(Result)
	r    Result
}

// span is a run of items of one conversation with the same recipients.
type span struct {
	tenant   im.Tenant
	members  []im.User
	from, to int // in items
}

// headMove is the new state of one conversation, to be published.
type headMove struct {
	c       *conv
	rows    bool // false: only its record changes
	head    im.Seq
	counted uint64
	hidden  *hidden
	info    *info
	kinds   uint32
}

// staged is a row of the batch being built.
type staged struct {
	seq   im.Seq
	value []byte
	row   int // in commit.Rows
	item  int // in items; -1: a rewrite of a row that was there
}

func (b *batch) reset() {
	clear(b.answers)
	clear(b.cursors)
	clear(b.notes)
	clear(b.commit.Cursors)
	clear(b.commit.Marks)
	*b = batch{
		work: b.work[:0], arena: b.arena[:0], items: b.items[:0], answers: b.answers[:0],
		spans: b.spans[:0], heads: b.heads[:0], feedItems: b.feedItems[:0], scans: b.scans[:0], later: b.later[:0],
		cursors: b.cursors[:0], notes: b.notes[:0], staged: b.staged[:0],
		commit: store.Batch{Rows: b.commit.Rows[:0], Dedupe: b.commit.Dedupe[:0], Cursors: b.commit.Cursors[:0],
			Marks: b.commit.Marks[:0]},
	}
}

// writes tells whether anything is to be stored.
func (b *batch) writes() bool {
	return b.rows > 0 || len(b.cursors) > 0 || len(b.notes) > 0 || len(b.commit.Convs) > 0
}

// pos returns the position of the commit in its feed.
func (b *batch) pos() im.Pos { return b.commit.From + 1 }

// addItem adds the item of s to the batch: the answer to its sender, and the row, if there is one, for all other
// recipients. If no connection waits for s, addItem adds the answer for Done.
func (b *batch) addItem(s *Send, row []byte, r Result) {
	r = s.outcome(r)
	it := fanout.Item{Row: row, Sender: s.Origin}
	if s.Origin.Waits() {
		it.Ack, it.Repeat, it.Err = s.ack(r), r.Repeat, r.Err
	}
	b.items = append(b.items, it)
	b.answered++
	if !s.Origin.Waits() && s.Done != nil {
		r.Message = bytes.Clone(r.Message) // the arena is used again
		b.answers = append(b.answers, answer{s.Done, r})
	}
}

// endSpan makes a span of the items from..to-1: the members get them, and nobody else. Without items it does
// nothing. Spec: P-8.3.
func (b *batch) endSpan(tenant im.Tenant, members []im.User, from, to int) {
	if from < to {
		b.spans = append(b.spans, span{tenant, members, from, to})
	}
}

// encode writes a row into the arena, and returns the row and its wire part.
func (b *batch) encode(h store.RowHead, m *petrelv1.Message) (value, wirePart []byte) {
	need := store.MaxRowHead + 11 + m.SizeVT()
	if cap(b.arena)-len(b.arena) < need {
		b.arena = make([]byte, 0, max(64<<10, need)) // the rows keep the old one
	}
	from := len(b.arena)
	b.arena = store.AppendRowHead(b.arena, h)
	at := len(b.arena)
	b.arena = wire.AppendMessage(b.arena, m)
	end := len(b.arena)
	return b.arena[from:end:end], b.arena[at:end:end]
}

// add puts a new row into the batch and returns its wire part. The caller must add the item of the row before
// any other item: add has noted its index already.
func (b *batch) add(key im.Key, h store.RowHead, m *petrelv1.Message) (wirePart []byte) {
	value, wirePart := b.encode(h, m)
	b.staged = append(b.staged, staged{im.Seq(m.Seq), value, len(b.commit.Rows), len(b.items)})
	b.commit.Rows = append(b.commit.Rows, store.RowPut{Conv: key, Seq: im.Seq(m.Seq), Value: value})
	b.rows++
	return wirePart
}

// replace replaces the row q if it is of this batch, for the store and for fan-out: nobody has seen the
// former one. It returns false if the row is not of this batch.
func (b *batch) replace(q im.Seq, value, wirePart []byte) bool {
	for i := range b.staged {
		st := &b.staged[i]
		if st.seq != q {
			continue
		}
		st.value, b.commit.Rows[st.row].Value = value, value
		if st.item >= 0 {
			it := &b.items[st.item]
			if it.Row = wirePart; it.Ack.Message != nil {
				it.Ack.Message = wirePart
			}
		}
		return true
	}
	return false
}

// isBefore tells whether the row q is of this batch and has an item with a lower index than item.
func (b *batch) isBefore(q im.Seq, item int) bool {
	for _, st := range b.staged {
		if st.seq == q {
			return st.item >= 0 && st.item < item
		}
	}
	return false
}

// rewrite puts a row in the place of one that an earlier commit wrote.
func (b *batch) rewrite(key im.Key, q im.Seq, value []byte) {
	b.staged = append(b.staged, staged{q, value, len(b.commit.Rows), -1})
	b.commit.Rows = append(b.commit.Rows, store.RowPut{Conv: key, Seq: q, Value: value, Rewrite: true})
}

// row returns the row q on the log's side: from this batch, or else from the store. The row may not be durable
// yet, so an answer that depends on it must not leave before the batch has ended.
func (b *batch) row(st store.Store, key im.Key, q im.Seq) ([]byte, error) {
	for _, s := range b.staged {
		if s.seq == q {
			return s.value, nil
		}
	}
	var value []byte
	err := st.Rows(context.Background(), key, q, q, func(r store.Row) bool {
		value = append(value, r.Value...)
		return true
	})
	return value, err
}
