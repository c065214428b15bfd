package main

import (
	"context"
	"errors"
	"net"

	sdk "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// follower passes every entry of a user's conversations to show, once and in order. It keeps the seq of the last shown
// entry of each conversation in seen.
type follower struct {
	client *sdk.Client
	only   string // the one conversation to show; empty: all
	limit  int    // end after so many entries; 0: never

	newOnly bool // do not show the entries that the client holds at the start

	show    func(*petrelv1.Message, sdk.Conversation) error
	online  func(user string) // at the first welcome
	offline func(error)

	history string // the history id that seen belongs to
	begun   bool   // seen has the conversations at the start; later ones are shown from their first entry
	seen    map[string]uint64
	shown   int
}

// errEnough ends the follower when it has shown its limit.
var errEnough = errors.New("shown enough")

// run follows until ctx ends or limit entries were shown, which are no errors. Otherwise it returns the error of the
// client, such as a server that forbids to come back, or of show.
func (f *follower) run(ctx context.Context, url string) error {
	f.seen = map[string]uint64{}
	if f.only != "" {
		f.client.Focus(f.only)
	}
	err := f.client.While(ctx, func(ctx context.Context) error {
		changes := f.client.Subscribe()
		defer changes.Close()
		for {
			change, err := changes.Next(ctx)
			if err == nil {
				err = f.follow(ctx, change)
			}
			if err != nil {
				return err
			}
		}
	})
	if ctx.Err() != nil || err == errEnough || errors.Is(err, context.Canceled) {
		return nil
	}
	return fromServer(url, "tail", err)
}

// follow shows the new entries of the conversations that a change names. Before the first sync it shows nothing; after
// it, also those that the client holds, unless newOnly is set.
func (f *follower) follow(ctx context.Context, change sdk.Change) error {
	s := f.client.Status()
	if change.Status {
		if err := f.status(s); err != nil {
			return err
		}
	}
	if !f.begun && !s.Synced {
		return nil
	}
	if !f.begun {
		f.begun = true
		change.Conversations = nil
		for _, v := range f.client.Conversations() {
			change.Conversations = append(change.Conversations, v.ID)
			f.seen[v.ID] = v.Have
			if held := f.client.Messages(v.ID, 0, 1); len(held) > 0 && !f.newOnly {
				f.seen[v.ID] = held[0].Seq - 1
			}
		}
	}
	for _, conv := range change.Conversations {
		if err := f.catchUp(ctx, conv); err != nil {
			return err
		}
	}
	return nil
}

// status calls online at the first welcome, and offline when a connection is lost. It returns an error if the server
// cannot be reached before the first welcome. If the history id of the server has changed, it forgets what was shown.
func (f *follower) status(s sdk.Status) error {
	switch {
	case s.State == sdk.Live && f.history == "":
		f.online(s.User)
	case s.State == sdk.Live && f.history != s.History: // entries that were shown may not exist any more: P-3.4
		f.begun, f.seen = false, map[string]uint64{}
	case s.State == sdk.Offline && s.Err != nil && f.history == "":
		if _, ok := errors.AsType[*net.OpError](s.Err); ok {
			return s.Err
		}
		f.offline(s.Err)
	case s.State == sdk.Offline && s.Err != nil:
		f.offline(s.Err)
	}
	if s.State == sdk.Live {
		f.history = s.History
	}
	return nil
}

// catchUp shows the new entries of a conversation, unless only names another one. After limit entries it returns
// errEnough.
func (f *follower) catchUp(ctx context.Context, conv string) error {
	for f.only == "" || f.only == conv {
		v, ok := f.client.Conversation(conv)
		if !ok || !v.Known || f.seen[conv] >= v.Have {
			break
		}
		ms, err := f.client.Since(ctx, conv, f.seen[conv], 0)
		if err != nil || len(ms) == 0 {
			return err
		}
		for _, m := range ms {
			f.seen[conv] = m.Seq
			if err := f.show(m.Message, v); err != nil {
				return err
			}
			if f.shown++; f.shown == f.limit {
				return errEnough
			}
		}
	}
	return nil
}
