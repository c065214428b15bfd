package petrel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Keys of the store.
const (
	metaKey        = "meta"
	incomingKey    = "incoming" // Incoming was used
	convPrefix     = "c/"
	entryPrefix    = "e/"
	outPrefix      = "o/"
	positionPrefix = "p/" // of Incoming, by conversation
	settingPrefix  = "s/" // by conversation, user and name
)

func convKey(id string) string                { return convPrefix + id }
func outgoingKey(id string) string            { return outPrefix + id }
func messageKey(conv string, q uint64) string { return fmt.Sprintf("%s%s/%016x", entryPrefix, conv, q) }

// convRow is the stored form of a conversation.
type convRow struct {
	State         []byte   `json:"state"` // a ConvState
	Known         bool     `json:"known"`
	Have          uint64   `json:"have"`
	Low           uint64   `json:"low"`
	CountedAt     uint64   `json:"counted_at"`
	WantRead      uint64   `json:"want_read,omitempty"`
	WantDelivered uint64   `json:"want_delivered,omitempty"`
	Own           []uint64 `json:"own,omitempty"`
	Damaged       []Range  `json:"damaged,omitempty"`
	MentionsTo    uint64   `json:"mentions_to,omitempty"`
}

// outgoingRow is the stored form of a message in the outbox.
type outgoingRow struct {
	Send       []byte `json:"send"` // a Send
	N          uint64 `json:"n"`
	ComposedMs int64  `json:"composed_ms"`
	Look       bool   `json:"look,omitempty"`
	Stale      bool   `json:"stale,omitempty"`
	// State is set if the message has failed; 0: it is still to be sent.
	State SendState `json:"state,omitempty"`
	Error *Error    `json:"error,omitempty"` // of a rejected one
}

// put queues a row for writing; a nil value removes the row.
func (c *core) put(key string, value []byte) {
	if c.o.stored {
		c.rows[key] = value
	}
}

// keep queues the row of an entry for writing.
func (c *core) keep(m *petrelv1.Message) {
	if !c.o.stored {
		return
	}
	b, err := m.MarshalVT()
	if err != nil { // it came over the wire: it can be encoded
		c.remark(fmt.Sprintf("encode entry %d of %s: %v", m.Seq, m.Conv, err))
		return
	}
	c.put(messageKey(m.Conv, m.Seq), b)
}

// store queues the row of a changed message; the message goes out once its row is durable.
func (c *core) store(o *outgoing) {
	r := o.row()
	c.put(r.Key, r.Value)
	c.toSync = append(c.toSync, o)
}

// row returns the stored form of o. Client.Send writes the first row of o outside of Run, so it may overwrite a
// newer row that Run has written. This does no harm: o is not sent before Client.Send has written, so the after
// in the first row is right under any history.
func (o *outgoing) row() Row {
	b, err := o.send.MarshalVT()
	if err == nil {
		r := outgoingRow{Send: b, N: o.n, ComposedMs: o.composed.UnixMilli(), Look: o.look || o.fresh, Stale: o.stale}
		if o.failed() {
			r.State, r.Error = o.state, refusal(o.err)
		}
		b, err = json.Marshal(r)
	}
	if err != nil {
		panic(fmt.Sprintf("encode message %s: %v", o.id, err)) // plain data: it can be encoded
	}
	return Row{outgoingKey(o.id), b}
}

func (v *conv) row() ([]byte, error) {
	s := &petrelv1.ConvState{
		Conv: v.id, Kind: v.kind, Title: v.title, Peer: v.peer, Head: v.head, Counted: v.counted, FirstSeq: v.firstSeq,
		Delivered: v.deliveredTo, Read: v.read, ReadCounted: v.readCounted, Role: v.role, Left: v.left,
		Joined:      v.joined,
		PeerReceipt: v.receipts[v.peer], Mentions: v.mentions.seqs,
	}
	b, err := s.MarshalVT()
	if err != nil {
		return nil, err
	}
	return json.Marshal(convRow{
		State: b, Known: v.known, Have: v.have, Low: v.low, CountedAt: v.countedAt,
		WantRead: v.wantRead, WantDelivered: v.wantDelivered, Own: v.own, Damaged: v.damaged, MentionsTo: v.mentions.to,
	})
}

// takeRows returns the rows that have to be written.
func (c *core) takeRows() []Row {
	if !c.o.stored {
		clear(c.dirty)
		return nil
	}
	for v := range c.dirty {
		b, err := v.row()
		if err != nil {
			c.remark(fmt.Sprintf("encode conversation %s: %v", v.id, err))
			continue
		}
		c.rows[convKey(v.id)] = b
	}
	clear(c.dirty)
	if c.metaDirty {
		b, err := json.Marshal(c.meta)
		if err != nil {
			panic(fmt.Sprintf("encode the client's state: %v", err)) // plain data: it can be encoded
		}
		c.rows[metaKey] = b
		c.metaDirty = false
	}
	if len(c.rows) == 0 {
		return nil
	}
	rows := make([]Row, 0, len(c.rows))
	for k, b := range c.rows {
		rows = append(rows, Row{k, b})
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Key, b.Key) })
	c.rows = map[string][]byte{}
	return rows
}

// load takes the rows of the store.
func (c *core) load(rows []Row) (err error) {
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Key, b.Key) }) // entries in the order of their seqs
	out := map[uint64]*outgoing{}
	entries := map[string][]*petrelv1.Message{}
	for _, r := range rows {
		switch {
		case r.Key == metaKey:
			err = json.Unmarshal(r.Value, &c.meta)
		case strings.HasPrefix(r.Key, convPrefix):
			err = c.loadConv(r.Value)
		case strings.HasPrefix(r.Key, entryPrefix):
			m := new(petrelv1.Message)
			err = m.UnmarshalVT(r.Value)
			entries[m.Conv] = append(entries[m.Conv], m)
		case strings.HasPrefix(r.Key, outPrefix):
			err = c.loadOutgoing(r.Value, out)
		case r.Key == incomingKey:
			c.incoming.begun = true
		case strings.HasPrefix(r.Key, settingPrefix):
			err = c.loadSetting(r.Value)
		case strings.HasPrefix(r.Key, positionPrefix):
			err = c.loadPosition(strings.TrimPrefix(r.Key, positionPrefix), r.Value)
		}
		if err != nil {
			return fmt.Errorf("read row %s: %w", r.Key, err)
		}
	}
	for id, ms := range entries {
		if v := c.convs[id]; v != nil {
			for _, m := range ms {
				if m.Seq > v.low && m.Seq <= v.have {
					v.entries = append(v.entries, &entry{m: m})
				}
			}
			for _, e := range v.entries {
				c.applyChange(v, e.m)
			}
		}
	}
	clear(c.rows) // the stored entries have these edits and recalls already
	for id := range c.convs {
		c.changed.touch(id)
	}
	c.countUnread()
	for _, n := range slices.Sorted(maps.Keys(out)) {
		c.enqueue(out[n])
		c.touchOutgoing(out[n])
		if out[n].state == Sending {
			c.toSync = append(c.toSync, out[n]) // the one that was composed first goes out first
		}
		c.composed = n
	}
	c.status.User, c.status.History = c.meta.User, c.meta.History
	return nil
}

func (c *core) loadConv(b []byte) error {
	var r convRow
	if err := json.Unmarshal(b, &r); err != nil {
		return err
	}
	s := new(petrelv1.ConvState)
	if err := s.UnmarshalVT(r.State); err != nil {
		return err
	}
	v := c.addConv(s.Conv)
	v.known, v.have, v.low, v.own, v.damaged = r.Known, r.Have, r.Low, r.Own, r.Damaged
	v.kind, v.title, v.peer, v.role, v.left, v.joined, v.firstSeq = s.Kind, s.Title, s.Peer, s.Role, s.Left, s.Joined,
		s.FirstSeq
	v.head, v.counted, v.countedAt = s.Head, s.Counted, r.CountedAt
	v.read, v.readCounted, v.deliveredTo = s.Read, s.ReadCounted, s.Delivered
	v.wantRead, v.wantDelivered = r.WantRead, r.WantDelivered
	v.mentions.seqs, v.mentions.to = s.Mentions, r.MentionsTo
	if v.peer != "" {
		c.direct[v.peer] = v.id
		if s.PeerReceipt != nil {
			v.receipt(v.peer, s.PeerReceipt)
		}
	}
	if v.wantRead != 0 || v.wantDelivered != 0 {
		c.move(v)
	}
	return nil
}

// loadOutgoing reads a message of the outbox. It may have been sent before the restart, or have failed.
func (c *core) loadOutgoing(b []byte, out map[uint64]*outgoing) error {
	var r outgoingRow
	if err := json.Unmarshal(b, &r); err != nil {
		return err
	}
	s := new(petrelv1.Send)
	if err := s.UnmarshalVT(r.Send); err != nil {
		return err
	}
	o := &outgoing{
		id: s.ClientMsgId, composed: time.UnixMilli(r.ComposedMs), n: r.N, send: s, conv: s.Conv,
		tried: true, look: r.Look, stale: r.Stale, state: r.State,
	}
	switch {
	case r.Error != nil:
		o.err = r.Error
	case r.State == Unknowable:
		o.err = ErrUnknowable
	}
	out[o.n] = o
	return nil
}
