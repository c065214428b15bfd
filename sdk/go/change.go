package petrel

// Change names the parts that have changed since the last Take. It holds no contents: read those from the client,
// which has the newest.
type Change struct {
	Conversations []string // ids, sorted; their messages, cursors, titles, or who is typing
	List          bool     // conversations came or went
	Status        bool     // see Client.Status
	Account       bool     // settings or devices of the user: an entry of the inbox
	Unread        bool     // see Client.Unread
	Signals       bool     // see Client.Signals
	Presence      bool     // see Client.Presence
	Profiles      bool     // see Client.Profiles
	Pending       bool     // messages to users with whom there is no conversation yet: see Client.PendingTo

	convs map[string]struct{}
}

// Empty reports whether nothing has changed.
func (ch *Change) Empty() bool {
	return len(ch.Conversations)+len(ch.convs) == 0 && !ch.List && !ch.Status && !ch.Account && !ch.Unread &&
		!ch.Signals && !ch.Presence && !ch.Profiles && !ch.Pending
}

func (ch *Change) touch(conv string) {
	if ch.convs == nil {
		ch.convs = map[string]struct{}{}
	}
	ch.convs[conv] = struct{}{}
}

// merge adds the changes of other.
func (ch *Change) merge(other *Change) {
	for conv := range other.convs {
		ch.touch(conv)
	}
	ch.List = ch.List || other.List
	ch.Status = ch.Status || other.Status
	ch.Account = ch.Account || other.Account
	ch.Unread = ch.Unread || other.Unread
	ch.Signals = ch.Signals || other.Signals
	ch.Presence = ch.Presence || other.Presence
	ch.Profiles = ch.Profiles || other.Profiles
	ch.Pending = ch.Pending || other.Pending
}
