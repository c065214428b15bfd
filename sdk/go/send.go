package petrel

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"
)

// Outgoing is a message in the outbox.
type Outgoing struct {
	ID       string    // client message id
	Composed time.Time // by the clock of this device

	c    *Client
	o    *outgoing     // guarded by Client.mu
	done chan struct{} // closed when the state is final
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// handle returns the application's handle of a message. c.mu is held.
func (c *Client) handle(o *outgoing) *Outgoing {
	if o.handle == nil {
		o.handle = &Outgoing{ID: o.id, Composed: o.composed, c: c, o: o, done: make(chan struct{})}
		if o.state != Sending {
			close(o.handle.done)
		}
	}
	return o.handle
}

func (c *Client) handles(of []*outgoing) []*Outgoing {
	var out []*Outgoing
	for _, o := range of {
		out = append(out, c.handle(o))
	}
	return out
}

// Send takes a message and returns at once. The client keeps the message, in the store if there is one, and sends
// it when it is connected, after the earlier messages of the same conversation. It repeats the send until the
// outcome is known, for at most 30 days. The error is that of a draft that cannot be sent, or of the store.
// Spec: P-4.
func (c *Client) Send(d Draft) (*Outgoing, error) {
	var o *outgoing
	var row Row
	var isNew bool
	var err error
	var handle *Outgoing
	c.do(func(k *core) {
		if o, isNew, err = k.draft(d); err != nil {
			return
		}
		handle = c.handle(o)
		switch {
		case isNew && c.o.Store != nil:
			row = o.row()
		case isNew:
			k.kept(o)
		}
	})
	if err != nil || !isNew || c.o.Store == nil {
		return handle, err
	}
	err = c.o.Store.Write([]Row{row})
	c.do(func(k *core) {
		if err != nil {
			k.remove(o)
		} else {
			k.kept(o)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("store message %s: %w", o.id, err)
	}
	return handle, nil
}

// Time returns when the server stored the message, by its clock; zero until it is Sent.
func (o *Outgoing) Time() time.Time {
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	return o.o.time
}

// State returns the state of the message. conv and seq are set when it is Sent. err is an *Error when it is
// Rejected. It is also set while the message is Sending, if the server has put it off: then it is sent again.
func (o *Outgoing) State() (s SendState, conv string, seq uint64, err error) {
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	return o.o.state, o.o.conv, o.o.seq, o.o.err
}

// Done is closed when the state is final.
func (o *Outgoing) Done() <-chan struct{} { return o.done }

// Wait waits until the fate of the message is known: its seq, or the *Error with which it was rejected, or
// ErrUnknowable. If ctx ends first, the message stays in the outbox.
func (o *Outgoing) Wait(ctx context.Context) (seq uint64, err error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-o.done:
	}
	_, _, seq, err = o.State()
	return seq, err
}

// Draft returns the sent draft, for another try after a rejection; its ID is empty.
func (o *Outgoing) Draft() Draft {
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	return o.o.draft()
}

// Discard removes a message that is Rejected or Unknowable from the pending ones. Others stay.
func (o *Outgoing) Discard() { o.c.do(func(k *core) { k.discard(o.o) }) }
