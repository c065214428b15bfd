package wiretest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Send sends s and waits for its ack. Errors: *im.Error, the refusal of the server; *Closed or the error of ctx
// when the outcome is unknown. Sending the same s again settles that. Spec: P-4.
func (c *Conn) Send(ctx context.Context, s *petrelv1.Send) (*petrelv1.Ack, error) {
	f, err := c.ask(ctx, &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Send{Send: s}})
	if err != nil {
		return nil, err
	}
	if a := f.GetAck(); a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("send: answered by %T", f.Body)
}

// SendAsync sends s and does not wait: the ack or error with the returned
// frame id comes out of Recv. The caller keeps within Welcome.Window.
func (c *Conn) SendAsync(s *petrelv1.Send) (id uint64, err error) {
	return c.Write(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Send{Send: s}})
}

// History asks for a page of a conversation. Errors: *im.Error, *Closed.
func (c *Conn) History(ctx context.Context, h *petrelv1.GetHistory) (*petrelv1.HistoryPage, error) {
	f, err := c.ask(ctx, &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_History{History: h}})
	if err != nil {
		return nil, err
	}
	if p := f.GetHistory(); p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("history: answered by %T", f.Body)
}

// Sync asks what changed since token (nil: everything). After lagged it makes the server push again.
// Errors: *im.Error, *Closed. Spec: P-6.2.
func (c *Conn) Sync(ctx context.Context, token []byte) (*petrelv1.SyncPage, error) {
	f, err := c.ask(ctx, &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Sync{Sync: &petrelv1.Sync{Token: token}}})
	if err != nil {
		return nil, err
	}
	if p := f.GetSync(); p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("sync: answered by %T", f.Body)
}

// Recv returns the next frame that no other call waits for: events, lagged, answers to SendAsync and Write. Once
// all are taken and the connection has ended it returns a *Closed.
func (c *Conn) Recv(ctx context.Context) (*petrelv1.ServerFrame, error) {
	select {
	case f, ok := <-c.in:
		if !ok {
			return nil, c.end(ctx)
		}
		return f, nil
	default:
	}
	select {
	case f, ok := <-c.in:
		if !ok {
			return nil, c.end(ctx)
		}
		return f, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write writes f, under a new id when it has none, and returns the id. The
// answer comes out of Recv.
func (c *Conn) Write(f *petrelv1.ClientFrame) (id uint64, err error) {
	if f.Id == 0 {
		f.Id = c.nextID.Add(1)
	}
	if err := c.link.write(f); err != nil {
		return f.Id, c.broken(err)
	}
	return f.Id, nil
}

// WriteAll writes fs in one system call, so that the server has all of them
// before it answers one. Frames without an id get one.
func (c *Conn) WriteAll(fs []*petrelv1.ClientFrame) error {
	for _, f := range fs {
		if f.Id == 0 {
			f.Id = c.nextID.Add(1)
		}
	}
	if err := c.link.write(fs...); err != nil {
		return c.broken(err)
	}
	return nil
}

// WriteRaw writes b as the content of one frame, valid or not, to test how the server reacts to it.
func (c *Conn) WriteRaw(b []byte) error {
	if err := c.link.writeRaw(b); err != nil {
		return c.broken(err)
	}
	return nil
}

// ask writes f and waits for the frame that answers it. An error frame
// becomes its *im.Error.
func (c *Conn) ask(ctx context.Context, f *petrelv1.ClientFrame) (*petrelv1.ServerFrame, error) {
	f.Id = c.nextID.Add(1)
	w := make(chan *petrelv1.ServerFrame, 1) // one answer
	c.mu.Lock()
	if ended := c.ended; ended != nil {
		c.mu.Unlock()
		e := *ended
		return nil, &e
	}
	c.waiting[f.Id] = w
	c.mu.Unlock()
	if err := c.link.write(f); err != nil {
		return nil, c.broken(err)
	}
	select {
	case a, ok := <-w:
		if !ok {
			return nil, c.end(ctx)
		}
		if e := a.GetError(); e != nil {
			return nil, Error(e)
		}
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err() // an answer that still comes goes into w and is forgotten
	}
}

// broken returns how a connection ended, after a call on it has failed with err. It first waits, for endTimeout
// at most, for the kick or the close frame of the server, which says more than err.
func (c *Conn) broken(err error) *Closed {
	_ = c.link.conn.SetReadDeadline(time.Now().Add(endTimeout)) // the read below must end
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	e := c.end(ctx)
	if e.Kick == nil && e.Code == 0 && e.Err == nil {
		e.Err = err
	}
	return e
}

// Error returns the error that an error frame carries.
func Error(e *petrelv1.Error) *im.Error {
	return &im.Error{
		Code: im.Code(e.Code), Message: e.Message, Head: im.Seq(e.Head),
		RetryAfter: time.Duration(e.RetryAfterMs) * time.Millisecond,
		From:       im.Seq(e.DamagedFrom), To: im.Seq(e.DamagedTo), User: im.User(e.User),
	}
}

// Unknown reports whether the outcome of a send is unknown after err: it may be stored or not, and sending it
// again with the same client message id settles it.
func Unknown(err error) bool {
	e, ok := errors.AsType[*im.Error](err)
	return !ok || !e.Code.Info().Settled
}
