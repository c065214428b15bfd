package petrel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// skipEvery is how many entries that are no incoming messages are passed before
// the position over them is stored: a restart reads at most these again.
const skipEvery = 64

// position is how far the application has finished the messages of one
// conversation. A seq means nothing without the history that it belongs to.
type position struct {
	Seq     uint64 `json:"seq"`
	History string `json:"history"`
}

// incoming is what Incoming keeps from loop to loop. Client.mu guards it.
type incoming struct {
	reading   bool                // a loop is under way
	begun     bool                // Incoming was used before, perhaps by an earlier process
	positions map[string]position // by conversation
}

// Incoming are the texts and data that others send to the user, in all
// conversations, those of one conversation in the order of their seqs. Own
// messages, repeats, and messages that were recalled meanwhile are left out.
//
// A message is finished when the loop asks for the next one. Then its position
// is in the store, and the user's read cursor moves over it. A message that is
// not finished comes again, after a crash as after a loop that was left by break
// or return: no message is skipped, and the one that a crash has met comes twice.
// A reply whose [Draft.ID] is made of the seq is stored once all the same.
// Without a [Store] the positions begin at the read cursors, which the server
// keeps and which are up to a second old.
//
// The first loop of a store begins at the read cursors; conversations that come
// later begin with the first message that the user may read. A conversation that
// is not in focus waits until it is.
//
// The loop ends when ctx does. It ends with an error when the store has failed,
// or when another loop of this client is under way.
func (c *Client) Incoming(ctx context.Context) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		if !c.beginReading() {
			yield(Message{}, errors.New("read incoming messages: another loop reads them"))
			return
		}
		defer c.endReading()
		r := &reader{c: c, changes: c.Subscribe(), queued: map[string]struct{}{}, convs: map[string]*reading{}}
		defer r.changes.Close()
		if err := r.run(ctx, yield); err != nil && ctx.Err() == nil {
			yield(Message{}, err)
		}
	}
}

func (c *Client) beginReading() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	free := !c.incoming.reading
	c.incoming.reading = true
	return free
}

func (c *Client) endReading() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.incoming.reading = false
}

// reader is one loop. Only the goroutine of the loop uses it.
type reader struct {
	c       *Client
	changes *Subscription
	queue   []string            // conversations to look at, in turn
	queued  map[string]struct{} // those of queue
	convs   map[string]*reading
}

// reading is how far a loop is in one conversation.
type reading struct {
	at     position            // the last entry that was looked at
	stored uint64              // seq of the position that the store has
	page   []*petrelv1.Message // entries of the history, where the client does not hold what follows at
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

// begin sets the positions in the conversations that are there when Incoming is
// used for the first time. It waits for the whole list, since a conversation that
// comes later begins with its first message.
func (r *reader) begin(ctx context.Context) error {
	for {
		begun, rows := r.c.beginIncoming()
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

func (c *Client) beginIncoming() (begun bool, rows []Row) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.incoming.begun || !c.meta.Synced {
		return c.incoming.begun, nil
	}
	for id, v := range c.convs {
		if v.known {
			rows = append(rows, c.moveTo(id, position{v.read, c.meta.History}))
		}
	}
	c.incoming.begun = true
	return true, append(rows, Row{incomingKey, []byte("{}")})
}

// moveTo notes a position, and returns it as it is stored. c.mu is held.
func (c *Client) moveTo(id string, p position) Row {
	c.incoming.positions[id] = p
	b, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("encode a position: %v", err)) // plain data: it can be encoded
	}
	return Row{positionPrefix + id, b}
}

func (c *Client) loadPosition(id string, b []byte) error {
	var p position
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	c.incoming.positions[id] = p
	return nil
}

// writeRows writes positions. Only a loop does, and there is one at a time, so
// that no older position is written after a newer one.
func (c *Client) writeRows(rows []Row) error {
	if c.o.Store == nil || len(rows) == 0 {
		return nil
	}
	if err := c.o.Store.Write(rows); err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	return nil
}

// store makes the position where the loop is that of the application.
func (r *reader) store(id string, x *reading) error {
	x.stored = x.at.Seq
	r.c.mu.Lock()
	row := r.c.moveTo(id, x.at)
	r.c.mu.Unlock()
	return r.c.writeRows([]Row{row})
}

// look queues the conversations that have changed.
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
			case err != nil: // it may not be read now; when that ends, it is a change again
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

// nextOf is the next message of one conversation, if there is one.
func (r *reader) nextOf(ctx context.Context, id string) (m Message, found bool, err error) {
	x := r.convs[id]
	if x == nil {
		x = &reading{}
		r.convs[id] = x
		r.c.mu.Lock()
		x.at = r.c.incoming.positions[id]
		r.c.mu.Unlock()
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

// comesIn tells whether an entry is a message of somebody else. One that was
// recalled has no body any more.
func (r *reader) comesIn(m Message) bool {
	switch m.Body.(type) {
	case *petrelv1.Message_Text, *petrelv1.Message_Data:
		return m.From != r.c.Status().User
	}
	return false
}

// entry is the next entry behind x.at: one that the client holds, or else one of
// the history.
func (r *reader) entry(ctx context.Context, id string, x *reading) (m Message, found bool, err error) {
	for {
		held, ms := r.c.heldAfter(id, x)
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
			x.at.Seq = max(x.at.Seq, h.Head) // none of it may be read
			return Message{}, false, nil
		}
	}
}

// heldAfter is the entry behind x.at, if the client holds what follows there.
//
// After a change of the history, which is the restore of a backup, seqs above
// the restored head are given a second time. What is below the read cursor of the
// restored history was there before, so the loop goes on at the lower of the two.
func (c *Client) heldAfter(id string, x *reading) (held bool, next []Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.convs[id]
	if v == nil || !v.known {
		return true, nil
	}
	if x.at.History != c.meta.History {
		x.at = position{min(x.at.Seq, v.read), c.meta.History}
		x.page, x.stored = nil, x.at.Seq
	}
	x.at.Seq = max(x.at.Seq, v.floor())
	if x.at.Seq < v.low {
		return false, nil
	}
	return true, c.messages(v, x.at.Seq, 1)
}
