package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/client"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// follower shows every entry of a user's conversations once and in order: what
// does not come next by push is read from the history (P-6.7). It asks without
// waiting and takes all frames in one place, so that much traffic never blocks
// it.
type follower struct {
	last  uint64 // entries of each conversation to begin with
	only  string // the one conversation to show; empty: all
	limit int    // end after so many entries; 0: never

	show    func(*petrelv1.Message, *petrelv1.ConvState) error
	online  func(*petrelv1.Welcome) // at the first welcome
	offline func(error)

	// What survives a connection.
	history string // the history id that the rest belongs to
	user    string
	token   []byte               // of the newest sync page that was applied
	synced  bool                 // a whole sync was applied: conversations that show up now are new
	convs   map[string]*followed // by conversation id
	shown   int

	// Of the connection.
	conn    *client.Conn
	syncing bool     // a sync is under way
	again   bool     // and another is needed after it
	missing []string // conversations to repair, first come first served
	pages   int      // history requests under way
}

// followed is one conversation.
type followed struct {
	state  *petrelv1.ConvState // nil: not known yet, and nothing of it is shown
	have   uint64              // everything up to here was shown
	head   uint64              // the highest seq heard of
	queued bool                // in missing, or its page is under way
}

// maxPages is how many history requests are under way at most; P-2.2 asks for
// 16 requests at most.
const maxPages = 8

// errEnough ends the follower when it has shown its limit.
var errEnough = errors.New("shown enough")

func newFollower(last uint64, only string) *follower {
	return &follower{last: last, only: only, convs: map[string]*followed{}}
}

// run follows until ctx ends, which is no error, or the server says not to
// come back. Spec: P-3.5, P-3.6.
func (f *follower) run(ctx context.Context, o client.Options) error {
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		welcomed, err := f.once(ctx, o)
		switch {
		case ctx.Err() != nil, err == errEnough:
			return nil
		case !welcomed && f.history == "", !unsettled(err):
			return fromServer(o.URL, "tail", err)
		}
		f.offline(err)
		if welcomed {
			wait = time.Second
		}
		select {
		case <-time.After(wait/2 + rand.N(wait/2)):
		case <-ctx.Done():
			return nil
		}
	}
}

// once follows over one connection, until it ends.
func (f *follower) once(ctx context.Context, o client.Options) (welcomed bool, err error) {
	o.HistoryID = f.history
	conn, err := client.Dial(ctx, o)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if id := conn.Welcome.HistoryId; f.history != id { // what was known may never have been: P-3.4
		if f.history == "" {
			f.online(conn.Welcome)
		}
		f.user = conn.Welcome.User
		f.history, f.token, f.synced, f.convs = id, nil, false, map[string]*followed{}
	}
	f.conn, f.syncing, f.again, f.missing, f.pages = conn, false, false, nil, 0
	for _, c := range f.convs {
		c.queued = false
	}
	if err := f.sync(); err != nil {
		return true, err
	}
	for {
		fr, err := conn.Recv(ctx)
		if err == nil {
			err = f.take(fr)
		}
		if err != nil {
			return true, err
		}
	}
}

// take applies one frame.
func (f *follower) take(fr *petrelv1.ServerFrame) error {
	switch b := fr.Body.(type) {
	case *petrelv1.ServerFrame_Sync:
		return f.takeSync(b.Sync)
	case *petrelv1.ServerFrame_Events:
		for _, m := range b.Events.Messages {
			if err := f.takeEvent(m); err != nil {
				return err
			}
		}
		return nil
	case *petrelv1.ServerFrame_History:
		return f.takePage(b.History)
	case *petrelv1.ServerFrame_Lagged: // P-6.4
		return f.sync()
	case *petrelv1.ServerFrame_Error:
		if b.Error.Code == string(im.CodeBadToken) && f.token != nil {
			f.token, f.syncing = nil, false
			return f.sync()
		}
		return client.Error(b.Error)
	}
	return nil
}

// sync asks what has changed. A need that comes up while the answer is under
// way is a further sync.
func (f *follower) sync() error {
	if f.syncing {
		f.again = true
		return nil
	}
	f.syncing = true
	_, err := f.conn.Write(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Sync{Sync: &petrelv1.Sync{Token: f.token}}})
	return err
}

func (f *follower) takeSync(p *petrelv1.SyncPage) error {
	var touched []string
	for _, s := range p.Convs {
		if f.only != "" && s.Conv != f.only {
			continue
		}
		c := f.convs[s.Conv]
		if c == nil {
			c = &followed{have: s.Head}
			if f.synced {
				c.have = 0 // all of it is new
			}
			f.convs[s.Conv] = c
		}
		if !f.synced { // what was pushed meanwhile may be more than the last entries, or less
			c.have = min(c.have, s.Head-min(s.Head, f.last))
		}
		c.state, c.head = s, max(c.head, s.Head)
		touched = append(touched, s.Conv)
	}
	f.token, f.syncing = p.Token, false
	if p.More {
		return f.sync()
	}
	if !f.synced {
		f.synced, touched = true, nil
		for conv := range f.convs {
			touched = append(touched, conv)
		}
		slices.Sort(touched)
	}
	for _, conv := range touched {
		if err := f.repair(conv); err != nil {
			return err
		}
	}
	if f.again {
		f.again = false
		return f.sync()
	}
	return nil
}

func (f *follower) takeEvent(m *petrelv1.Message) error {
	if strings.HasPrefix(m.Conv, string(rune(im.Inbox))) { // the list of conversations has changed
		return f.sync()
	}
	if f.only != "" && m.Conv != f.only {
		return nil
	}
	c := f.convs[m.Conv]
	if c == nil {
		c = &followed{have: m.Seq - 1}
		if m.From != f.user && strings.HasPrefix(m.Conv, string(rune(im.Direct))) {
			c.state = &petrelv1.ConvState{Peer: m.From}
		}
		f.convs[m.Conv] = c
		if err := f.sync(); err != nil { // tells what it is: P-6.1
			return err
		}
	}
	c.head = max(c.head, m.Seq)
	if f.synced && c.state != nil && !c.queued && m.Seq == c.have+1 {
		return f.print(c, m)
	}
	return f.repair(m.Conv)
}

// repair sees to it that what is missing is asked for.
func (f *follower) repair(conv string) error {
	c := f.convs[conv]
	if f.synced && c.state != nil && !c.queued && c.have < c.head {
		c.queued = true
		f.missing = append(f.missing, conv)
	}
	for f.pages < maxPages && len(f.missing) > 0 {
		conv, f.missing = f.missing[0], f.missing[1:]
		f.pages++
		q := &petrelv1.GetHistory{Conv: conv, After: f.convs[conv].have}
		if _, err := f.conn.Write(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_History{History: q}}); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) takePage(p *petrelv1.HistoryPage) error {
	c := f.convs[p.Conv]
	if c == nil {
		return nil
	}
	f.pages--
	c.queued = false
	c.head = max(c.head, p.Head)
	for _, m := range p.Messages {
		if m.Seq > c.have { // what lies between two entries of a page may not be read by this user
			if err := f.print(c, m); err != nil {
				return err
			}
		}
	}
	if !p.More {
		c.have = max(c.have, p.Head)
	}
	return f.repair(p.Conv)
}

func (f *follower) print(c *followed, m *petrelv1.Message) error {
	c.have = m.Seq
	if err := f.show(m, c.state); err != nil {
		return err
	}
	if f.shown++; f.shown == f.limit {
		return errEnough
	}
	return nil
}
