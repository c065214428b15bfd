package chat

import (
	"time"

	petrel "github.com/petrel-im/petrel/sdk/go"
)

// conversation is one of the user's, as the list shows it.
type conversation struct {
	id       string
	name     string // the title, or the other user
	direct   bool
	left     bool
	unread   uint64
	mentions []uint64  // seqs of unread messages that mention the person, ascending
	read     uint64    // own cursor
	head     uint64    // the highest seq there is
	at       time.Time // of the newest entry; zero: unknown
	preview  string    // of the newest message, one line
	typing   []string  // others who are typing
	online   bool      // the other user of a direct one
	seen     time.Time // until when they were online; zero: unknown

	set petrel.Personal // what the person has set of it
}

// entry is one line of a conversation: a message, or a notice.
type entry struct {
	key    string // does not change while the entry is shown
	seq    uint64 // 0: not stored yet
	from   string
	own    bool
	at     time.Time
	notice bool // text tells what happened to the conversation
	text   string
	quote  string // what it answers, one line; "": nothing
	origin string // whose message it copies; "": nobody's

	edited, recalled bool
	reactions        string
	mark             mark // of an own message
	why              string
}

// mark is how far an own message is.
type mark int

const (
	sending   mark = iota // not known to be stored
	stored                // on the server's disk
	delivered             // on a device of everybody else
	read                  // seen by everybody else
	rejected              // not stored, and never will be
	unknown               // it will never be known
)

// link is how the client is connected.
type link struct {
	live bool
	user string
	why  string    // why it is not
	next time.Time // when it is tried again; zero: now
}

// quiet is how long a lost connection is not mentioned: most come back before
// anybody has noticed.
const quiet = 5 * time.Second
