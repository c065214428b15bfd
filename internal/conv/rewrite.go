package conv

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// An edit and a recall rewrite rows that are there, in the commit that brings
// their own entry: the target, and the entry of the edit before, whose body is
// former now. A row keeps its hash of dedupe; its place says which commit wrote
// it last, and as long as that one is not published, readers are given what the
// row said before (former).

// target is a row that an entry is about, or that falls with it.
type target struct {
	seq  im.Seq
	head store.RowHead
	m    petrelv1.Message
	wire []byte // the row's wire part as it is
}

// aim is the seq that an entry is about, and whether it takes back what an
// earlier one did; ok: m is an edit, a recall, a reaction or a pin.
func aim(m *petrelv1.Message) (q im.Seq, removed, ok bool) {
	switch body := m.Body.(type) {
	case *petrelv1.Message_Edit:
		return im.Seq(body.Edit.GetTarget()), false, true
	case *petrelv1.Message_Recall:
		return im.Seq(body.Recall.GetTarget()), false, true
	case *petrelv1.Message_Reaction:
		return im.Seq(body.Reaction.GetTarget()), body.Reaction.GetRemoved(), true
	case *petrelv1.Message_Pin:
		return im.Seq(body.Pin.GetTarget()), body.Pin.GetRemoved(), true
	}
	return 0, false, false
}

func noTarget(q im.Seq) error {
	return im.Errorf(im.CodeNoTarget, "entry %d is not a message that this can be done to", q)
}

// admitAimed decides whether the sender may do what s says to an earlier entry,
// and notes the rows that it rewrites. Codes: no_target, forbidden, too_late.
// Spec: P-5.3, P-5.6.
func (b *builder) admitAimed(c *conv, s *Send) error {
	q, removed, _ := aim(&s.Entry)
	from, members := im.User(s.Entry.From), c.log.info.members
	t, err := b.target(c, from, q)
	if err != nil {
		return err
	}
	switch t.m.Body.(type) {
	case *petrelv1.Message_Text, *petrelv1.Message_Data:
	default: // what was recalled can lose its reactions and its pin
		if t.m.RecalledBy == 0 || !removed {
			return noTarget(q)
		}
	}
	switch s.Entry.Body.(type) {
	case *petrelv1.Message_Pin:
		if from != "" && !members.atLeast(from, petrelv1.Role_ROLE_ADMIN) {
			return im.Errorf(im.CodeForbidden, "only admins and the owner of a group may pin")
		}
		return nil
	case *petrelv1.Message_Edit:
		err = b.allowEdit(from, &t.m)
	case *petrelv1.Message_Recall:
		err = b.allowRecall(c, from, &t.m)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	b.targets = append(b.targets[:0], t)
	if t.m.EditedBy == 0 || sabotageKeepsEdits {
		return nil
	}
	edit, err := b.readTarget(c, im.Seq(t.m.EditedBy))
	b.targets = append(b.targets, edit)
	return err
}

func (b *builder) allowEdit(from im.User, m *petrelv1.Message) error {
	if m.From != string(from) {
		return im.Errorf(im.CodeForbidden, "only the sender of a message may edit it")
	}
	return b.inTime(m, b.ow.o.EditWindow)
}

func (b *builder) allowRecall(c *conv, from im.User, m *petrelv1.Message) error {
	switch {
	case from == "":
		return nil
	case m.From != "" && c.key.Conv.Kind() == im.Group && c.log.info.members.atLeast(from, petrelv1.Role_ROLE_ADMIN):
		return nil
	case m.From != string(from):
		return im.Errorf(im.CodeForbidden, "only the sender of a message and the admins may recall it")
	default:
		return b.inTime(m, b.ow.o.RecallWindow)
	}
}

// inTime refuses what comes too late; a window below 0 never ends.
func (b *builder) inTime(m *petrelv1.Message, window time.Duration) error {
	if window >= 0 && b.now > m.TimeMs+uint64(window.Milliseconds()) {
		return &im.Error{Code: im.CodeTooLate}
	}
	return nil
}

// target reads the row that a user aims at. Codes: no_target.
func (b *builder) target(c *conv, from im.User, q im.Seq) (*target, error) {
	in := c.log.info
	if q > c.log.head || q < in.firstSeq() || from != "" && len(in.members.stays(from, q, q)) == 0 {
		return nil, noTarget(q)
	}
	t, err := b.readTarget(c, q)
	if err == nil && from != "" && t.head.Flags&store.RowWithheld != 0 && t.m.From != string(from) {
		err = noTarget(q)
	}
	return t, err
}

func (b *builder) readTarget(c *conv, q im.Seq) (*target, error) {
	value, err := b.row(c, q)
	if err != nil {
		return nil, err
	}
	t := &target{seq: q}
	if t.head, t.wire, err = store.SplitRow(value); err != nil {
		return nil, err
	}
	if err := wire.ParseMessage(t.wire, &t.m); err != nil {
		return nil, fmt.Errorf("read %s seq %d: %w", c.key, q, store.ErrCorrupt)
	}
	return t, nil
}

// rewrite replaces the rows that s rewrites; s has its seq.
func (b *builder) rewrite(c *conv, s *Send) {
	if sabotageLeavesTargets {
		return
	}
	for i, t := range b.targets {
		if i > 0 { // the edit before keeps its place and its target
			t.m.EditedBy = s.Entry.Seq
			t.m.Body = &petrelv1.Message_Edit{Edit: &petrelv1.Edit{Target: t.m.GetEdit().GetTarget()}}
			b.replace(c, t)
			continue
		}
		switch body := s.Entry.Body.(type) {
		case *petrelv1.Message_Recall:
			t.m.RecalledBy, t.m.Type, t.m.Body = s.Entry.Seq, "", nil
		case *petrelv1.Message_Edit:
			t.m.EditedBy, t.m.Type = s.Entry.Seq, body.Edit.Type
			switch as := body.Edit.Body.(type) {
			case *petrelv1.Edit_Text:
				t.m.Body = &petrelv1.Message_Text{Text: as.Text}
			case *petrelv1.Edit_Data:
				t.m.Body = &petrelv1.Message_Data{Data: as.Data}
			}
		}
		b.replace(c, t)
	}
}

// replace puts a row in the place of the one that is there. One of this batch
// has been seen by nobody and is replaced in it, for the store and for fan-out.
func (b *builder) replace(c *conv, t *target) {
	cm := b.cm
	t.head.Flags |= store.RowRewritten
	t.head.Pos = cm.batch.From + 1
	value, wirePart := b.encode(t.head, &t.m)
	for i := range b.staged {
		st := &b.staged[i]
		if st.seq != t.seq {
			continue
		}
		st.value, cm.batch.Rows[st.row].Value = value, value
		if st.item >= 0 {
			cm.items[st.item].Row = wirePart
		}
		return
	}
	b.ow.formers.keep(c.key, former{t.seq, t.head.Pos, bytes.Clone(t.wire)})
	b.staged = append(b.staged, staged{t.seq, value, len(cm.batch.Rows), -1})
	cm.batch.Rows = append(cm.batch.Rows, store.RowPut{Conv: c.key, Seq: t.seq, Value: value, Rewrite: true})
}

// former is what a row says until a commit is published that rewrites it.
type former struct {
	seq  im.Seq
	pos  im.Pos // of that commit
	wire []byte
}

// formers are kept before the commits are appended, and dropped behind their
// publication.
type formers struct {
	mu     sync.Mutex // tier 0; guards byConv
	byConv map[im.Key][]former
}

func (f *formers) keep(key im.Key, row former) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byConv == nil {
		f.byConv = map[im.Key][]former{}
	}
	f.byConv[key] = append(f.byConv[key], row)
}

// drop forgets what a commit replaced, once it is published, or was refused.
func (f *formers) drop(cm *commit) {
	for i := range cm.moves {
		if cm.moves[i].kinds&FeedRewrites == 0 {
			continue
		}
		f.mu.Lock()
		key := cm.moves[i].c.key
		rest := slices.DeleteFunc(f.byConv[key], func(row former) bool { return row.pos == cm.batch.From+1 })
		if len(rest) > 0 {
			f.byConv[key] = rest
		} else {
			delete(f.byConv, key)
		}
		f.mu.Unlock()
	}
}

// at is what the row q said when the commit at pos was the newest published
// one; nil: nothing behind it has rewritten the row, or that is published.
func (f *formers) at(key im.Key, q im.Seq, pos im.Pos) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	var oldest *former
	for i := range f.byConv[key] {
		if row := &f.byConv[key][i]; row.seq == q && row.pos > pos && (oldest == nil || row.pos < oldest.pos) {
			oldest = row
		}
	}
	if oldest == nil {
		return nil
	}
	return oldest.wire
}

// durable is the wire part of a row as its newest published commit left it.
// stored is what the store shows, written by the commit at pos.
func (ow *Owner) durable(c *conv, q im.Seq, pos im.Pos, stored []byte) []byte {
	for at := c.point.Load().pos; at < pos && !sabotageShowsRewrites; {
		if old := ow.formers.at(c.key, q, at); old != nil {
			return old
		}
		// It was dropped, so its commit has been published in between.
		now := c.point.Load().pos
		im.Assert(now > at, "row %d of %s is of commit %d, published is %d, and nobody kept what it said", q, c.id, pos, at)
		at = now
	}
	return stored
}
