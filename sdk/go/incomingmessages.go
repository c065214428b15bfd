package petrel

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// skipEvery is the number of entries after which the position is stored, if none of them is an incoming message.
// A restart reads at most that many of them again.
const skipEvery = 64

// Incoming returns an iterator of the texts and data that others send to the user, in all conversations,
// those of one conversation in the order of their seqs. Own messages, repeats, and messages that were
// recalled meanwhile are left out.
//
// A message is finished when the loop asks for the next one. Then its position is stored, and the user's read
// cursor moves over it. A message that is not finished comes again, after a crash or after a loop that ended by
// break or return: none is skipped, and the one during which the process crashed comes twice. A bot that makes
// the [Draft.ID] of its reply from the seq of the message stores the reply once all the same. Without a [Store]
// the positions begin at the read cursors, which the server keeps and which are up to a second old.
//
// The first loop of a store begins at the read cursors; conversations that come later begin with the first
// message that the user may read. A conversation that is not in focus waits until it is.
//
// The loop ends when ctx does. It ends with an error when the store has failed, or when another loop of this
// client is under way.
func (c *Client) Incoming(ctx context.Context) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		free := false
		c.do(func(k *core) { free, k.incoming.reading = !k.incoming.reading, true })
		if !free {
			yield(Message{}, errors.New("read incoming messages: another loop reads them"))
			return
		}
		defer c.do(func(k *core) { k.incoming.reading = false })
		r := &reader{c: c, changes: c.Subscribe(), queued: map[string]struct{}{}, convs: map[string]*reading{}}
		defer r.changes.Close()
		if err := r.run(ctx, yield); err != nil && ctx.Err() == nil {
			yield(Message{}, err)
		}
	}
}

// reader is one loop. Only the goroutine of the loop uses it.
type reader struct {
	c       *Client
	changes *Subscription
	queue   []string            // conversations to look at, in turn
	queued  map[string]struct{} // those of queue
	convs   map[string]*reading
}

// run yields messages until ctx ends or the loop is left.
func (r *reader) run(ctx context.Context, yield func(Message, error) bool) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	for {
		m, err := r.next(ctx)
		if err != nil {
			return err
		}
		if !yield(m, nil) {
			return nil
		}
		if err := r.store(m.Conv, r.convs[m.Conv]); err != nil {
			return err
		}
		r.c.MarkRead(m.Conv, m.Seq)
	}
}

// begin starts each known conversation at its read cursor, when Incoming is used for the first time. It first
// waits for the whole list, because a conversation that appears later starts at its first message.
func (r *reader) begin(ctx context.Context) error {
	for {
		var begun bool
		var rows []Row
		r.c.do(func(k *core) { begun, rows = k.beginIncoming() })
		if begun {
			return r.c.writeRows(rows)
		}
		ch, err := r.changes.Next(ctx)
		if err != nil {
			return err
		}
		r.look(ch)
	}
}

// writeRows writes positions. Only one loop runs at a time, so no older position is written after a newer
// one.
func (c *Client) writeRows(rows []Row) error {
	if c.o.Store == nil || len(rows) == 0 {
		return nil
	}
	if err := c.o.Store.Write(rows); err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	return nil
}

// store sets and stores the position in a conversation: up to x.at everything is finished.
func (r *reader) store(id string, x *reading) error {
	x.stored = x.at.Seq
	var row Row
	r.c.do(func(k *core) { row = k.moveTo(id, x.at) })
	return r.c.writeRows([]Row{row})
}

// look queues the changed conversations.
func (r *reader) look(ch Change) {
	for _, id := range ch.Conversations {
		if _, there := r.queued[id]; !there {
			r.queued[id] = struct{}{}
			r.queue = append(r.queue, id)
		}
	}
}

// next waits for a message. Conversations take turns, so that a busy one does
// not hold up the others.
func (r *reader) next(ctx context.Context) (Message, error) {
	for {
		r.look(r.changes.Take())
		for len(r.queue) > 0 {
			id := r.queue[0]
			r.queue = r.queue[1:]
			m, found, err := r.nextOf(ctx, id)
			switch {
			case ctx.Err() != nil:
				return Message{}, ctx.Err()
			case errors.Is(err, errStore):
				return Message{}, err
			case err != nil: // it cannot be read now; its next change queues it again
				r.c.log.WarnContext(ctx, "incoming messages cannot be read", "conv", id, "err", err)
			case found:
				r.queue = append(r.queue, id)
				return m, nil
			}
			delete(r.queued, id)
		}
		ch, err := r.changes.Next(ctx)
		if err != nil {
			return Message{}, err
		}
		r.look(ch)
	}
}

// nextOf returns the next message of one conversation, if there is one.
func (r *reader) nextOf(ctx context.Context, id string) (m Message, found bool, err error) {
	x := r.convs[id]
	if x == nil {
		x = &reading{}
		r.convs[id] = x
		r.c.do(func(k *core) { x.at = k.incoming.positions[id] })
		x.stored = x.at.Seq
	}
	for {
		m, found, err = r.entry(ctx, id, x)
		if err != nil || !found {
			return Message{}, false, err
		}
		x.at.Seq = m.Seq
		if r.comesIn(m) {
			return m, true, nil
		}
		if x.at.Seq >= x.stored+skipEvery {
			if err := r.store(id, x); err != nil {
				return Message{}, false, err
			}
		}
	}
}

// comesIn reports whether an entry is a text or data of another user. A recalled message has no body, and does
// not count.
func (r *reader) comesIn(m Message) bool {
	switch m.Body.(type) {
	case *petrelv1.Message_Text, *petrelv1.Message_Data:
		return m.From != r.c.Status().User
	}
	return false
}

// entry returns the next entry after x.at: a held one, or else one of the history.
func (r *reader) entry(ctx context.Context, id string, x *reading) (m Message, found bool, err error) {
	for {
		var held bool
		var ms []Message
		r.c.do(func(k *core) { held, ms = k.heldAfter(id, x) })
		if held && len(ms) > 0 {
			return ms[0], true, nil
		}
		if held {
			return Message{}, false, nil
		}
		for len(x.page) > 0 && x.page[0].Seq <= x.at.Seq {
			x.page = x.page[1:]
		}
		if len(x.page) > 0 {
			return Message{Message: x.page[0]}, true, nil
		}
		h, err := r.c.History(ctx, &petrelv1.GetHistory{Conv: id, After: x.at.Seq})
		if err != nil {
			return Message{}, false, err
		}
		if r.c.Status().History != x.at.History {
			continue // the page may belong to either history
		}
		if x.page = h.Messages; len(x.page) == 0 {
			x.at.Seq = max(x.at.Seq, h.Head) // the user may read none of these entries
			return Message{}, false, nil
		}
	}
}
