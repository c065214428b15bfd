package petrel

import (
	"context"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Conversations returns all conversations that the client has heard of, those with the newest messages first.
func (c *Client) Conversations() (all []Conversation) {
	c.do(func(k *core) { all = k.conversations() })
	return all
}

// Conversation returns the conversation with this id; ok is false if the client does not know it.
func (c *Client) Conversation(id string) (v Conversation, ok bool) {
	c.do(func(k *core) {
		if known := k.convs[id]; known != nil {
			v, ok = k.snapshot(known), true
		}
	})
	return v, ok
}

// Direct returns the id of the direct conversation with user; "" before its first message.
func (c *Client) Direct(user string) (conv string) {
	c.do(func(k *core) { conv = k.direct[user] })
	return conv
}

// Messages returns the held entries of a conversation above after, oldest first, at most limit (0: all). The only
// holes among them are entries that the user may not read and those in Conversation.Damaged. Edits and recalls
// are applied to their targets, and are entries of their own as well.
func (c *Client) Messages(conv string, after uint64, limit int) (all []Message) {
	c.do(func(k *core) {
		if v := k.convs[conv]; v != nil {
			all = k.messages(v, after, limit)
		}
	})
	return all
}

// Pending returns the user's messages to a conversation that are not among its Messages: those queued or under
// way, and failed ones that are not discarded. Oldest first.
func (c *Client) Pending(conv string) (all []*Outgoing) {
	c.do(func(k *core) {
		peer := ""
		if v := k.convs[conv]; v != nil {
			peer = v.peer
		}
		all = c.handles(k.pending(conv, peer))
	})
	return all
}

// PendingTo is Pending of the direct conversation with user, also before its first message.
func (c *Client) PendingTo(user string) (all []*Outgoing) {
	c.do(func(k *core) { all = c.handles(k.pending(k.direct[user], user)) })
	return all
}

// Older loads up to limit entries (0: as many as a page of the server has) that precede those of Messages, and
// adds them there. more is false when none are left. It waits for the connection. Entries that the server cannot
// read are skipped, and listed in Conversation.Damaged.
func (c *Client) Older(ctx context.Context, conv string, limit int) (more bool, err error) {
	before := uint64(0)
	c.do(func(k *core) { before = k.olderThan(conv) })
	if before == 0 {
		return false, nil
	}
	p, err := c.History(ctx, &petrelv1.GetHistory{Conv: conv, Before: before, Limit: uint32(limit)})
	damage := Range{}
	if e := refusal(err); e != nil {
		damage = e.Damaged
	}
	if err != nil && damage.From == 0 {
		return false, err
	}
	c.do(func(k *core) { more = k.takeOlder(conv, before, p, damage) })
	return more, nil
}

// Since returns entries of a conversation above after, oldest first, at most limit (0: as many as a page of the
// server has). It takes them from the held ones, or else from the history. A program that has to see every entry
// once keeps the last seq it has seen. It calls Since again when a Change names the conversation, until the
// result is empty.
func (c *Client) Since(ctx context.Context, conv string, after uint64, limit int) ([]Message, error) {
	var out []Message
	held := false
	c.do(func(k *core) {
		if v := k.convs[conv]; v != nil && v.known && after >= v.low {
			held, out = true, k.messages(v, after, limit)
		}
	})
	if held {
		return out, nil
	}
	p, err := c.History(ctx, &petrelv1.GetHistory{Conv: conv, After: after, Limit: uint32(limit)})
	if err != nil {
		return nil, err
	}
	out = make([]Message, len(p.Messages))
	for i, m := range p.Messages {
		out[i] = Message{Message: m}
	}
	return out, nil
}

// History asks the server for a page of a conversation, also outside the held entries. It waits for the
// connection. It asks again when the connection ends, and after a refusal that is retryable. But entries that the
// server cannot read are an error at once: an operator has to act first. Spec: P-5.2, P-9.5.
func (c *Client) History(ctx context.Context, q *petrelv1.GetHistory) (*petrelv1.HistoryPage, error) {
	for {
		f, err := c.request(ctx, "", func() *petrelv1.ClientFrame {
			return &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_History{History: q}}
		})
		e := refusal(err)
		switch {
		case err == nil:
			return f.GetHistory(), nil
		case err == ErrConnectionLost:
		case e != nil && e.Retryable && e.Code != CodeDamaged:
			if err := wait(ctx, max(e.RetryAfter, retryWait)); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Quote returns the quote of the entry seq, to which another entry replies. A quote has at most 256 bytes of a
// text, and none of larger data; Cut says that there is more. A recalled message has RecalledBy and no
// body. A nil quote with known true means that this user may not read the entry. With known false the client asks
// the server, and a Change names the conversation when the answer is there. The quote is shared and must not be
// modified. Spec: P-5.9.
func (c *Client) Quote(conv string, seq uint64) (q *petrelv1.Quote, known bool) {
	c.do(func(k *core) { q, known = k.quote(conv, seq) })
	return q, known
}

// Unread counts the user's unread messages. [Change.Unread] reports a change of the count.
func (c *Client) Unread() (n Unread) {
	c.do(func(k *core) {
		k.countUnread()
		n = k.unread.total
	})
	return n
}

// Setting returns the value of a setting; "" if it is not set. It belongs to a conversation, to another user, or,
// if both are empty, to the account.
func (c *Client) Setting(conv, user, name string) (value string) {
	c.do(func(k *core) { value = k.settings.value(subject{conv, user}, name) })
	return value
}

// Blocked returns the users that the user blocks, sorted.
func (c *Client) Blocked() (users []string) {
	c.do(func(k *core) { users = k.blocked() })
	return users
}

// Signals returns the signals of the last minute, oldest first: of each conversation, sender and kind only the
// newest. Those of the kind [Typing] are left out: see [Conversation].Typing. They are shared and must not be
// modified. A program that acts on each one once remembers the Ids that it has seen.
func (c *Client) Signals() (all []*petrelv1.Signal) {
	c.do(func(k *core) { all = k.signals() })
	return all
}

// Presence returns the presence of a watched user. ok is false if it is not known, as without a connection.
func (c *Client) Presence(user string) (p Presence, ok bool) {
	c.do(func(k *core) { p, ok = k.lossy.presence[user] })
	return p, ok
}

// Profiles are the profiles of users, as the caller sees them. The client asks for those that the application
// wants, keeps them in memory, and asks again when the server tells it another version. Spec: P-14.
type Profiles struct{ c *Client }

// Profiles returns the profiles of users that the client knows.
func (c *Client) Profiles() Profiles { return Profiles{c} }

// Get returns the profile of a user whom the application has wanted. A nil profile with known true means that there
// is no such user. With known false the client does not know it yet; [Change].Profiles reports when it does. The
// profile is shared and must not be modified. It is the same pointer as long as its version is the same.
func (p Profiles) Get(user string) (profile *petrelv1.Account, known bool) {
	p.c.do(func(k *core) { profile, known = k.profile(user) })
	return profile, known
}

// Want says that the application shows these users. Call it whenever a view shows them, and when the client is live
// again: it never waits, and asks the server only for profiles that the client does not know, or has not confirmed
// lately. conv is a conversation of which they are members, or "": its members cost the caller no look-up.
// The client keeps the profiles of at most 10,000 users, and drops those first who were wanted longest ago. It asks
// nothing of a server without the capability. Spec: P-14.4.
func (p Profiles) Want(conv string, users ...string) {
	p.c.do(func(k *core) { k.wantProfiles(conv, users) })
}
