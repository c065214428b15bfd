package petrel

// Unread is how much the user has not read, in all conversations together.
type Unread struct {
	Messages      int // of others, above the read cursors: the sum of Conversation.Unread
	Conversations int // that have some of them
}

// unreadTotals are the sums, kept up to date with what changes: adding up
// thousands of conversations for each message would cost more than the message.
// Client.mu guards them.
type unreadTotals struct {
	total Unread
	by    map[string]int // conversations that have some
}

// Unread is how much the user has not read. [Change.Unread] tells when it is
// another.
func (c *Client) Unread() Unread {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.countUnread()
	return c.unread.total
}

// countUnread counts the conversations anew that have changed since the last
// flush. c.mu is held.
func (c *Client) countUnread() {
	before := c.unread.total
	for id := range c.changed.convs {
		n := 0
		if v := c.convs[id]; v != nil {
			n = v.unread()
		}
		c.unread.total.Messages += n - c.unread.by[id]
		if delete(c.unread.by, id); n > 0 {
			c.unread.by[id] = n
		}
	}
	c.unread.total.Conversations = len(c.unread.by)
	if c.unread.total != before {
		c.changed.Unread = true
	}
}
