package session_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/session"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Frames to sessions: of two members of a group, of a user who is none, and of a stranger
// without a hello. A script is frames, each after a byte that says whose it is, the codec,
// and whether it comes in one read with the next, and two bytes with its length.
//
// No frame makes a session panic or log an ERROR. Every session that was not ended answers
// its next request. Nobody else reads the group, and its entries have the numbers 1, 2, 3, …
func FuzzSession(f *testing.F) {
	w := newWorld(f).start()
	tokens := []string{w.token("", "alice"), w.token("", "bob"), w.token("", "eve")}
	group := w.group("boat", "alice", "bob")
	const secret = "only for the group"
	first := w.login(tokens[0])
	first.send(&petrelv1.ClientFrame{Id: 2, Body: &petrelv1.ClientFrame_Send{Send: &petrelv1.Send{Conv: group, ClientMsgId: "first", Body: &petrelv1.Send_Text{Text: secret}}}})
	first.want("ack 2 of 2")
	first.close()

	add := func(who byte, frames ...*petrelv1.ClientFrame) {
		var script []byte
		for _, m := range frames {
			b, err := proto.Marshal(m)
			w.must(err)
			script = append(binary.BigEndian.AppendUint16(append(script, who), uint16(len(b))), b...)
		}
		f.Add(script)
	}
	for who := byte(0); who < 4; who++ {
		add(who, usualFrames(group)...)
	}
	for _, c := range []struct {
		ext string
		who byte
	}{{"hex", 0}, {"json", 4}} {
		names, err := filepath.Glob("../../proto/vectors/*-client-*." + c.ext)
		w.must(err)
		var all []byte
		for _, name := range names {
			b, err := os.ReadFile(name)
			w.must(err)
			if c.ext == "hex" {
				b, err = hex.DecodeString(strings.Fields(string(b))[0])
				w.must(err)
			}
			all = append(binary.BigEndian.AppendUint16(append(all, c.who), uint16(len(b))), b...)
		}
		f.Add(all)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		var all [8]*client // by the lowest three bits: whose, and in which codec
		var together [8][][]byte
		for len(script) >= 3 {
			who, n := script[0]&7, int(binary.BigEndian.Uint16(script[1:]))
			more := script[0]&8 != 0
			script = script[3:]
			n = min(n, len(script))
			if all[who] == nil {
				all[who] = enter(t, w.hub, tokens, who)
			}
			if together[who] = append(together[who], bytes.Clone(script[:n])); !more {
				all[who].read(together[who]...)
				together[who] = nil
			}
			script = script[n:]
		}
		for who, c := range all {
			if c == nil {
				continue
			}
			c.settle(t, who)
			for _, m := range c.frames {
				if who&2 != 0 && strings.Contains(m.String(), secret) {
					t.Errorf("somebody who is no member gets %v", m)
				}
			}
		}
		if text := w.log.String(); strings.Contains(text, "level=ERROR") {
			t.Errorf("the log: %s", text)
		}
		p, err := w.router.HistoryPage(context.Background(), im.Account{Tenant: im.DefaultTenant}, &petrelv1.GetHistory{Conv: group, Before: 1 << 62, Limit: 20}, 200, conv.Extras{})
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range p.Messages {
			if last := p.Messages[len(p.Messages)-1].Seq; last != p.Head || m.Seq != last-uint64(len(p.Messages)-1-i) {
				t.Errorf("the history up to %d is %v", p.Head, p.Messages)
			}
		}
	})
}

// usualFrames are frames that do something in a group.
func usualFrames(group string) []*petrelv1.ClientFrame {
	send := func(id uint64, s *petrelv1.Send) *petrelv1.ClientFrame {
		s.Conv, s.ClientMsgId = group, "m"+string(rune('0'+id))
		return &petrelv1.ClientFrame{Id: id, Body: &petrelv1.ClientFrame_Send{Send: s}}
	}
	return []*petrelv1.ClientFrame{
		send(1, &petrelv1.Send{Body: &petrelv1.Send_Text{Text: "hi"}}),
		send(2, &petrelv1.Send{Body: &petrelv1.Send_Data{Data: []byte{0, 1}}, Type: "x"}),
		send(3, &petrelv1.Send{Body: &petrelv1.Send_Edit{Edit: &petrelv1.Edit{Target: 3, Body: &petrelv1.Edit_Text{Text: "ho"}}}}),
		send(4, &petrelv1.Send{Body: &petrelv1.Send_Recall{Recall: &petrelv1.Recall{Target: 3}}}),
		{Id: 5, Body: &petrelv1.ClientFrame_Send{Send: &petrelv1.Send{User: "bob", ClientMsgId: "d", Body: &petrelv1.Send_Text{Text: "you"}}}},
		{Id: 6, Body: &petrelv1.ClientFrame_History{History: &petrelv1.GetHistory{Conv: group, Limit: 2}}},
		{Id: 7, Body: &petrelv1.ClientFrame_Sync{Sync: &petrelv1.Sync{Newest: 1}}},
		{Id: 8, Body: &petrelv1.ClientFrame_Cursor{Cursor: &petrelv1.MoveCursor{Conv: group, Delivered: 1, Read: 1}}},
		{Id: 9, Body: &petrelv1.ClientFrame_Focus{Focus: &petrelv1.SetFocus{Convs: []string{group}}}},
		{Id: 10, Body: &petrelv1.ClientFrame_Call{Call: &petrelv1.Call{Method: "petrel.v1.AccountService/GetUser"}}},
	}
}

// enter opens a connection. All but the stranger are welcomed.
func enter(t *testing.T, h *session.Hub, tokens []string, who byte) *client {
	codec := wire.Proto
	if who&4 != 0 {
		codec = wire.JSON
	}
	c := openIn(t, h, codec)
	if who&3 < 3 {
		c.read(c.encode(hello(tokens[who&3])))
		if m := c.next(); m.GetWelcome() == nil {
			t.Fatalf("the answer to a hello is %v", m)
		}
	}
	return c
}

// settle waits until a session answers a ping, after all that it was asked before, or has
// ended.
func (c *client) settle(t *testing.T, who int) {
	const ping = 1 << 61
	if c.end == nil {
		c.read(c.encode(&petrelv1.ClientFrame{Id: ping, Body: &petrelv1.ClientFrame_Ping{Ping: &petrelv1.Ping{}}}))
	}
	for looked := 0; ; {
		c.take()
		for ; looked < len(c.frames); looked++ {
			if c.frames[looked].Id == ping {
				return
			}
		}
		if c.end != nil {
			return
		}
		eventually.Receive(t, fmt.Sprintf("session %d answers", who), c.wake)
	}
}
