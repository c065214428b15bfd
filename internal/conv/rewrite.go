package conv

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// rewriter admits and makes the edits and recalls of a batch. Each of them rewrites one or two existing rows in
// the commit of its own entry: the target, and, if the target was edited before, the entry of the previous edit,
// whose body is outdated and is removed. A rewritten row keeps its hash for dedupe; its pos is that of the commit
// that wrote it last.
type rewriter struct {
	editWindow, recallWindow time.Duration // see Options

	store   store.Store
	formers *formers
	batch   *batch     // the one being built
	span    int        // the first item of the batch since the members have changed
	now     uint64     // Unix milliseconds
	targets [2]*target // rows that the send at hand rewrites; nil: none
}

// target is a row that an edit or recall names, or that is rewritten with the target.
type target struct {
	seq   im.Seq
	head  store.RowHead
	flags byte // of head, before the rewrite
	m     petrelv1.Message
	wire  []byte // the row's present wire part
}

// errNextBatch says that a send must not be decided in the batch being built. The send edits a row of that batch,
// and the members have changed since: users who left before the edit would get the edited row. Or the feed is
// lost.
var errNextBatch = errors.New("the send must not be in this batch")

// admit decides whether the sender may edit or recall an earlier entry as s asks, and notes the
// rows that s rewrites. Codes: no_target, forbidden, too_late; or errNextBatch. Spec: P-5.3, P-5.6,
// P-8.3.
func (w *rewriter) admit(c *conv, s *Send) error {
	q, _ := targetOf(&s.Entry)
	from := im.User(s.Entry.From)
	t, err := w.target(c, from, q)
	if err != nil {
		return err
	}
	switch t.m.Body.(type) {
	case *petrelv1.Message_Text, *petrelv1.Message_Data:
	default:
		return noTarget(q)
	}
	if _, edits := s.Entry.Body.(*petrelv1.Message_Edit); edits {
		err = w.allowEdit(c, s, &t.m)
	} else {
		err = w.allowRecall(c, from, &t.m)
	}
	if err != nil {
		return err
	}
	if s.Entry.GetEdit() != nil && w.batch.isBefore(q, w.span) {
		return errNextBatch
	}
	w.targets = [2]*target{t}
	if t.m.EditedBy != 0 {
		w.targets[1], err = w.read(c, im.Seq(t.m.EditedBy))
	}
	return err
}

// allowEdit decides about an edit. A forward has the words of another user, so it cannot be edited.
func (w *rewriter) allowEdit(c *conv, s *Send, m *petrelv1.Message) error {
	switch from, q := im.User(s.Entry.From), im.Seq(s.Entry.GetEdit().GetRel().GetReplyTo()); {
	case m.From != string(from):
		return im.Errorf(im.CodeForbidden, "only the sender of a message may edit it")
	case m.Rel.GetForwarded() != nil:
		return im.Errorf(im.CodeForbidden, "a forwarded message cannot be edited")
	case q != 0 && (q == im.Seq(m.Seq) || !c.log.info.mayRead(from, q, c.log.head)):
		return noTarget(q)
	}
	return w.inTime(m, w.editWindow)
}

func (w *rewriter) allowRecall(c *conv, from im.User, m *petrelv1.Message) error {
	switch {
	case from == "":
		return nil
	case m.From != "" && c.log.info.members.atLeast(from, policy.Of(c.key.Conv.Kind()).RecallOthers):
		return nil
	case m.From != string(from):
		return im.Errorf(im.CodeForbidden, "only the sender of a message and the admins may recall it")
	default:
		return w.inTime(m, w.recallWindow)
	}
}

// inTime refuses an edit or recall that comes too late; a window below 0 never ends.
func (w *rewriter) inTime(m *petrelv1.Message, window time.Duration) error {
	if window >= 0 && w.now > m.TimeMs+uint64(window.Milliseconds()) {
		return &im.Error{Code: im.CodeTooLate}
	}
	return nil
}

// target reads the row that a user names. Codes: no_target.
func (w *rewriter) target(c *conv, from im.User, q im.Seq) (*target, error) {
	in := c.log.info
	if !in.mayRead(from, q, c.log.head) {
		return nil, noTarget(q)
	}
	t, err := w.read(c, q)
	if err == nil && from != "" && t.head.Flags&store.RowWithheld != 0 && t.m.From != string(from) {
		err = noTarget(q)
	}
	return t, err
}

func (w *rewriter) read(c *conv, q im.Seq) (*target, error) {
	value, err := w.batch.row(w.store, c.key, q)
	if err != nil {
		return nil, err
	}
	t := &target{seq: q}
	if t.head, t.wire, err = store.SplitRow(value); err != nil {
		return nil, err
	}
	t.flags = t.head.Flags
	if err := wire.ParseMessage(t.wire, &t.m); err != nil {
		return nil, fmt.Errorf("read %s seq %d: %w", c.key, q, store.ErrCorrupt)
	}
	return t, nil
}

// withholds tells whether s edits or recalls a message that is withheld. Then s is withheld too.
func (w *rewriter) withholds(s *Send) bool {
	return (s.Entry.GetEdit() != nil || s.Entry.GetRecall() != nil) && w.targets[0].head.Flags&store.RowWithheld != 0
}

// rewrite replaces the rows that s rewrites; s has its seq. withheld: only the sender may read the target as
// it is after s.
func (w *rewriter) rewrite(c *conv, s *Send, withheld bool) {
	t, edit := w.targets[0], w.targets[1]
	if t.head.Flags &^= store.RowEditWithheld; withheld {
		t.head.Flags |= store.RowEditWithheld
	}
	switch body := s.Entry.Body.(type) {
	case *petrelv1.Message_Recall:
		t.m.RecalledBy, t.m.Type, t.m.Body, t.m.Rel = s.Entry.Seq, "", nil, placeIn(t.m.Rel)
	case *petrelv1.Message_Edit:
		t.m.EditedBy, t.m.Type = s.Entry.Seq, body.Edit.Type
		switch as := body.Edit.Body.(type) {
		case *petrelv1.Edit_Text:
			t.m.Body = &petrelv1.Message_Text{Text: as.Text}
		case *petrelv1.Edit_Data:
			t.m.Body = &petrelv1.Message_Data{Data: as.Data}
		}
		t.relate(body.Edit.Rel)
	}
	w.replace(c, t)
	if edit != nil && edit.m.GetEdit() != nil { // not if damage took it. It keeps its seq and its target
		edit.m.EditedBy = s.Entry.Seq
		edit.m.Body = &petrelv1.Message_Edit{Edit: &petrelv1.Edit{Target: edit.m.GetEdit().GetTarget()}}
		w.replace(c, edit)
	}
}

// relate sets the entry that the message answers to that of by, the rel of an edit, and drops that the message is
// a forward. If by is nil, nothing changes.
func (t *target) relate(by *petrelv1.Relations) {
	if by == nil {
		return
	}
	was := t.m.Rel
	rel := &petrelv1.Relations{
		ReplyTo: by.ReplyTo, Silent: was.GetSilent(), Thread: was.GetThread(), AlsoMain: was.GetAlsoMain(),
		Mentions: was.GetMentions(), MentionAll: was.GetMentionAll(),
	}
	if t.m.Rel = rel; rel.SizeVT() == 0 {
		t.m.Rel = nil
	}
	if rel.ReplyTo != 0 {
		t.head.Flags |= store.RowRelated
	}
}

// replace writes the new row of t. It keeps the former row for readers, unless that is of the same batch.
func (w *rewriter) replace(c *conv, t *target) {
	t.head.Flags |= store.RowRewritten
	t.head.Pos = w.batch.pos()
	value, wirePart := w.batch.encode(t.head, &t.m)
	if w.batch.replace(t.seq, value, wirePart) {
		return
	}
	w.formers.keep(c.key, former{t.seq, t.head.Pos, bytes.Clone(t.wire), t.flags})
	w.batch.rewrite(c.key, t.seq, value)
}
