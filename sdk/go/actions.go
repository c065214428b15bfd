package petrel

import (
	"context"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Signal sends s to the members of a conversation who are online, and stores nothing. An error means that the
// server did not take it; without one it is unknown whom it reached. Codes: [CodeUnsupported], [CodeInvalid],
// [CodeTooLarge], [CodeRateLimited]; [ErrConnectionLost]. It waits for the connection. Spec: P-13.1.
func (c *Client) Signal(ctx context.Context, s *petrelv1.SendSignal) error {
	_, err := c.request(ctx, capSignal, func() *petrelv1.ClientFrame {
		return &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Signal{Signal: s}}
	})
	return err
}

// Typing shows others that the user is writing in a conversation. It may be called for each key: it never
// waits, and sends at most one signal in 3 s. Without a connection it does nothing. Spec: P-13.2.
func (c *Client) Typing(conv string) {
	c.do(func(k *core) { k.sayTyping(conv, &petrelv1.SendSignal{Conv: conv, Kind: Typing}) })
}

// Watch names the users whose presence the application wants to know, at most 200, in place of the earlier
// ones. Call it again when a direct conversation with one of them has begun: some users show their presence
// to no others. conv is a conversation of which some of them are members, or "": the server then tells their new
// profiles too, and [Profiles] takes those that were wanted. Spec: P-13.5, P-14.5.
func (c *Client) Watch(conv string, users ...string) { c.do(func(k *core) { k.setWatch(conv, users) }) }

// MarkRead moves the user's read cursor up to seq, which the person has seen. This client shows it at once. The
// server, the other members and the user's other devices hear of it at most once a second, and a restart does not
// lose it. A lower seq changes nothing. Spec: P-8.6.
func (c *Client) MarkRead(conv string, seq uint64) { c.do(func(k *core) { k.markRead(conv, seq) }) }

// MarkDelivered records that this device holds the entries up to seq. It is needed only with
// Options.ManualDelivered. Spec: P-8.6.
func (c *Client) MarkDelivered(conv string, seq uint64) {
	c.do(func(k *core) { k.markDelivered(conv, seq) })
}

// Focus names the conversations whose entries the server sends at once. Of the others it sends only the head and
// the number of unread messages, until FocusAll is called. This saves traffic where a user has many busy
// conversations. A server without the capability sends all as before. Spec: P-6.5.
func (c *Client) Focus(convs ...string) {
	c.do(func(k *core) { k.setFocus(&petrelv1.SetFocus{Convs: convs}) })
}

// FocusAll asks for the entries of all conversations at once, as at the start.
func (c *Client) FocusAll() { c.do(func(k *core) { k.setFocus(nil) }) }

// WakeUp tells the client that the device was asleep, or has another network. The client then checks within
// seconds whether the server still answers. Without a connection it tries again at once. Spec: P-7.3.
func (c *Client) WakeUp() { c.do(func(k *core) { k.wakeUp() }) }
