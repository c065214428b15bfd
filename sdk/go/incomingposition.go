package petrel

import (
	"encoding/json"
	"fmt"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// position is the last finished entry of one conversation. A seq means nothing without the id of its history.
type position struct {
	Seq     uint64 `json:"seq"`
	History string `json:"history"`
}

// incoming is the state of Incoming that one loop leaves to the next.
type incoming struct {
	reading   bool                // a loop is under way
	begun     bool                // Incoming was used before, perhaps by an earlier process
	positions map[string]position // by conversation
}

// reading is how far a loop has read one conversation.
type reading struct {
	at     position            // the last entry that the loop has read
	stored uint64              // seq of the stored position
	page   []*petrelv1.Message // entries loaded from the history, if the client does not hold those after at
}

// beginIncoming sets the position in each known conversation to its read cursor, when Incoming is used for the
// first time and the whole list is synced. begun is true once the positions are set; rows are to be stored.
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

// heldAfter returns the first held entry after x.at, if there is one. held is false if entries after x.at are not
// held, and have to be loaded from the history.
//
// After a change of the history id, when a backup was restored, the server assigns seqs above the restored head a
// second time. Entries up to the read cursor of the restored conversation were there before. So the loop
// continues at the lower one of its position and that cursor.
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
