package simulation

import (
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// fate is what became of a send. Spec: P-4.9.
type fate uint8

const (
	open       fate = iota
	acked           // it has a seq
	rejected        // every attempt was refused
	unknowable      // it was refused, and an attempt before may be stored
)

func (f fate) String() string { return [...]string{"open", "acked", "rejected", "unknowable"}[f] }

// send is a message, an edit, a recall or a change of members that a device sends until its
// fate is known. Guarded by the mutex of its device.
type send struct {
	key     im.Key
	user    im.User
	peer    im.User // of a direct conversation
	id      string
	after   im.Seq
	keyed   bool // without after
	text    string
	edits   im.Seq
	recalls im.Seq
	change  *petrelv1.MemberChange
	create  bool         // of a group: change has its first members
	twin    *atomic.Bool // a send with the same id has another body; all copies share it

	on      *conn // an attempt has no answer there
	tries   int
	unknown int // attempts that may have stored it
	again   time.Time
	state   fate   // guarded by world.mu
	seq     im.Seq // the same
}

// settle notes the fate of a send.
func (w *world) settle(s *send, f fate, seq im.Seq) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.state, s.seq = f, seq
}

// fateOf is what became of a send so far.
func (w *world) fateOf(s *send) fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	return s.state
}

func (s *send) size() int { return 100 + len(s.text) }

// invoke is what the log says of an attempt.
func (s *send) invoke() checker.Op {
	op := checker.Op{Kind: checker.Invoke, Conv: s.key.Conv.String(), ID: s.id, Edits: uint64(s.edits), Recalls: uint64(s.recalls)}
	if s.recalls == 0 && s.change == nil {
		op.Body = checker.Digest("", []byte(s.text))
	}
	return op
}

// build makes what the session of d would give to conv.
func (s *send) build(d *device, o fanout.Origin) *conv.Send {
	var b *conv.Send
	if s.change != nil {
		b = &conv.Send{Conv: s.key, After: s.after, Keyed: s.keyed}
		b.Entry.From, b.Entry.ClientMsgId = string(s.user), s.id
		b.Entry.Body = &petrelv1.Message_Members{Members: proto.CloneOf(s.change)}
		if s.create {
			b.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP)}
		}
	} else {
		f := &petrelv1.Send{ClientMsgId: s.id, Conv: s.key.Conv.String()}
		if s.peer != "" {
			f.Conv, f.User = "", string(s.peer)
		}
		if !s.keyed {
			after := uint64(s.after)
			f.After = &after
		}
		switch {
		case s.edits > 0:
			f.Body = &petrelv1.Send_Edit{Edit: &petrelv1.Edit{Target: uint64(s.edits), Body: &petrelv1.Edit_Text{Text: s.text}}}
		case s.recalls > 0:
			f.Body = &petrelv1.Send_Recall{Recall: &petrelv1.Recall{Target: uint64(s.recalls)}}
		default:
			f.Body = &petrelv1.Send_Text{Text: s.text}
		}
		p, err := conv.Prepare(d.w.keys, d.account, f, 4096)
		if err != nil {
			d.w.t.Errorf("a send of the simulation is refused by Prepare: %v", err)
			p = &conv.Send{Conv: s.key}
		}
		b = p
	}
	b.Origin = o
	return b
}

// enqueue has a device send, in this order.
func (d *device) enqueue(sends ...*send) {
	d.mu.Lock()
	d.queue = append(d.queue, sends...)
	c := d.conn
	d.mu.Unlock()
	d.w.mu.Lock()
	d.w.sends = append(d.w.sends, sends...)
	d.w.mu.Unlock()
	if c != nil {
		c.wake()
	}
}

// compose makes a message of a device, which knows of entries up to some head.
func (d *device) compose(key im.Key, id, text string, keyed bool) *send {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &send{key: key, user: d.account.User, peer: d.w.peerOf(key, d.account.User), id: id, text: text, keyed: keyed, twin: &atomic.Bool{}}
	if v := d.views[key]; v != nil && !keyed {
		s.after = v.head
	}
	return s
}

// copyOf is the same message, for another device of the same user.
func copyOf(s *send) *send {
	return &send{key: s.key, user: s.user, peer: s.peer, id: s.id, after: s.after, keyed: s.keyed, text: s.text,
		edits: s.edits, recalls: s.recalls, change: s.change, create: s.create, twin: s.twin}
}

// direct is the conversation of two users.
func (w *world) direct(a, b im.User) im.Key {
	return im.Key{Tenant: im.DefaultTenant, Conv: w.keys.Direct(im.DefaultTenant, a, b)}
}

// peerOf is the other user of a direct conversation; "": it is a group.
func (w *world) peerOf(key im.Key, u im.User) im.User {
	for _, v := range w.o.users {
		if key.Conv.Kind() == im.Direct && w.direct(u, v) == key {
			return v
		}
	}
	return ""
}

// keysOf are the conversations that a user may ever get entries of.
func (w *world) keysOf(u im.User) []im.Key {
	all := slices.Clone(w.groups)
	for _, v := range w.o.users {
		if v != u {
			all = append(all, w.direct(u, v))
		}
	}
	return all
}
