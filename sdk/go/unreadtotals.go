package petrel

// Unread counts the unread messages of all conversations together.
type Unread struct {
	Messages      int // of others, above the read cursors: the sum of Conversation.Unread
	Conversations int // that have some of them
	Mentions      int // of the user: the sum of len(Conversation.Mentions)
}

// unreadTotals keeps the sums over all conversations up to date with each change. Adding up thousands of
// conversations for each message would cost more than the message.
type unreadTotals struct {
	total Unread
	by    map[string]unreadIn // conversations that have some
}

// unreadIn has the unread counts of one conversation.
type unreadIn struct{ messages, mentions int }

// countUnread recounts the conversations that have changed since the last prepare.
func (c *core) countUnread() {
	before := c.unread.total
	for id := range c.changed.convs {
		now, was := unreadIn{}, c.unread.by[id]
		if v := c.convs[id]; v != nil {
			now = unreadIn{v.unread(), len(v.mentions.seqs)}
		}
		t := &c.unread.total
		t.Messages += now.messages - was.messages
		t.Mentions += now.mentions - was.mentions
		if was.messages > 0 {
			t.Conversations--
		}
		if now.messages > 0 {
			t.Conversations++
		}
		if delete(c.unread.by, id); now != (unreadIn{}) {
			c.unread.by[id] = now
		}
	}
	if c.unread.total != before {
		c.changed.Unread = true
	}
}
