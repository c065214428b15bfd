package petrel

import (
	"encoding/json"
	"fmt"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// position is the last finished message of one conversation. A seq means nothing without the history that it
// belongs to.
type position struct {
	Seq     uint64 `json:"seq"`
	History string `json:"history"`
}

// incoming is the state of Incoming from loop to loop.
type incoming struct {
	reading   bool                // a loop is under way
	begun     bool                // Incoming was used before, perhaps by an earlier process
	positions map[string]position // by conversation
}

// reading is the position of a loop in one conversation.
type reading struct {
	at     position            // the last entry that was looked at
	stored uint64              // seq of the position that the store has
	page   []*petrelv1.Message // entries of the history, where the client does not hold what follows at
}

// beginIncoming sets the positions when Incoming is used for the first time, once the whole list of
// conversations is there.
func (c *core) beginIncoming() (begun bool, rows []Row) {
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

// moveTo sets a position, and returns its row for the store.
func (c *core) moveTo(id string, p position) Row {
	c.incoming.positions[id] = p
	b, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("encode a position: %v", err)) // plain data: it can be encoded
	}
	return Row{positionPrefix + id, b}
}

func (c *core) loadPosition(id string, b []byte) error {
	var p position
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	c.incoming.positions[id] = p
	return nil
}

// heldAfter returns the entry after x.at, if the client holds the part that follows.
//
// After a change of the history, which is the restore of a backup, seqs above the restored head are assigned
// a second time. Entries below the read cursor of the restored history were there before, so the loop
// continues at the lower of the two.
func (c *core) heldAfter(id string, x *reading) (held bool, next []Message) {
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
