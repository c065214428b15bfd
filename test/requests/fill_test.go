package requests

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The sizes of what is asked for.
const (
	members      = conv.MaxMembers // of the large group, each with a cursor
	messages     = 5000            // in the large group
	groups       = 1000            // others of the same user
	perGroup     = 20              // messages in each of them
	reactions    = 1000            // users who reacted to one message
	pins         = 100             // in the large group
	admins       = 100             // of it
	atOnce       = 1000            // entries, moves or users
	messageBytes = 100
	step         = time.Second // between two messages
)

// town is a server with one large group, and with a user who is in it and in many small ones.
type town struct {
	start time.Time // of its first message
	crowd im.Key
	small []im.Key
}

func userName(i int) im.User { return im.User(fmt.Sprintf("user%05d", i)) }

// owner is the user whose requests are measured: the owner of the large group.
var owner = userName(0)

// fill writes the town into the store of a server that does not run.
func (w *town) fill(b *testing.B, dir string) {
	b.Helper()
	st, err := pebblestore.Open(pebblestore.Options{Dir: dir, AcceptCopies: true})
	if err != nil {
		b.Fatal(err)
	}
	if err = fillUsers(b.Context(), st); err == nil {
		err = w.fillConversations(b.Context(), st)
	}
	if err != nil {
		b.Fatal(err)
	}
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
}

func fillUsers(ctx context.Context, st store.Store) error {
	var puts []store.RecordPut
	for i := range members + atOnce {
		record, err := (&storepb.User{CreatedMs: 1_795_262_400_000}).MarshalVT()
		if err != nil {
			return err
		}
		puts = append(puts, store.RecordPut{Table: store.Users, Tenant: im.DefaultTenant, Key: []byte(userName(i)), Value: record})
	}
	for len(puts) > 0 {
		n := min(atOnce, len(puts))
		if err := st.Update(ctx, puts[:n]); err != nil {
			return err
		}
		puts = puts[n:]
	}
	return nil
}

// filler sends to the conversations of a town.
type filler struct {
	convs *conv.Convs
	ids   int
}

func (w *town) fillConversations(ctx context.Context, st store.Store) error {
	w.start = time.Now().Add(-messages * step).Truncate(time.Second)
	now := w.start
	convs, err := conv.New(ctx, conv.Options{Now: func() time.Time { return now }}, st, fanout.NewTable())
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- convs.Run(running) }()
	f := &filler{convs: convs}
	for _, fill := range []func() error{
		func() error { return w.fillCrowd(f, func(i int) { now = w.start.Add(time.Duration(i) * step) }) },
		func() error { return w.fillSmall(f) },
		func() error { return w.moveAll(ctx, f) },
		func() error { return w.note(ctx, f) },
	} {
		if err == nil {
			err = fill()
		}
	}
	stop()
	if e := <-ended; err == nil {
		err = e
	}
	return err
}

// send sends all of sends, and waits until they are stored.
func (f *filler) send(sends ...*conv.Send) error {
	answers := make(chan conv.Result, len(sends))
	for _, s := range sends {
		f.ids++
		s.Keyed, s.Entry.ClientMsgId = true, fmt.Sprint("m", f.ids)
		s.Done = func(r conv.Result) { answers <- r }
	}
	var k fanout.WakeUps
	f.convs.Submit(sends, &k)
	k.Flush()
	for range sends {
		if r := <-answers; r.Err != nil {
			return r.Err
		}
	}
	return nil
}

func add(key im.Key, from, to int) *conv.Send {
	change := &petrelv1.MemberChange{}
	for i := from; i < to; i++ {
		r := &petrelv1.MemberRef{User: string(userName(i))}
		if i <= admins {
			r.Role = petrelv1.Role_ROLE_ADMIN
		}
		change.Added = append(change.Added, r)
	}
	s := &conv.Send{Conv: key}
	s.Entry.Body = &petrelv1.Message_Members{Members: change}
	return s
}

// group makes a group of the owner and some others.
func group(title string, from, to int) *conv.Send {
	s := add(im.Key{Tenant: im.DefaultTenant, Conv: im.NewGroupID()}, from, to)
	s.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP), Title: title}
	change := s.Entry.GetMembers()
	change.Added = append(change.Added, &petrelv1.MemberRef{User: string(owner), Role: petrelv1.Role_ROLE_OWNER})
	return s
}

func text(key im.Key, from im.User) *conv.Send {
	s := &conv.Send{Conv: key}
	s.Entry.From = string(from)
	s.Entry.Body = &petrelv1.Message_Text{Text: fmt.Sprintf("%0*d", messageBytes, 0)}
	return s
}

func (w *town) fillCrowd(f *filler, tick func(i int)) error {
	first := group("The crowd", 1, atOnce)
	w.crowd = first.Conv
	if err := f.send(first); err != nil {
		return err
	}
	for i := atOnce; i < members; i += atOnce {
		if err := f.send(add(w.crowd, i, i+atOnce)); err != nil {
			return err
		}
	}
	for i := range messages {
		tick(i)
		if err := f.send(text(w.crowd, userName(i%members))); err != nil {
			return err
		}
	}
	return nil
}

func (w *town) fillSmall(f *filler) error {
	var made []*conv.Send
	for i := range groups {
		s := group(fmt.Sprint("Group ", i), i+1, i+2)
		made, w.small = append(made, s), append(w.small, s.Conv)
	}
	if err := f.send(made...); err != nil {
		return err
	}
	for i := range perGroup {
		var sends []*conv.Send
		for j, key := range w.small {
			from := owner
			if i%2 == 0 {
				from = userName(j + 1)
			}
			sends = append(sends, text(key, from))
		}
		if err := f.send(sends...); err != nil {
			return err
		}
	}
	return nil
}

// moveAll moves the cursor of each member of the large group.
func (w *town) moveAll(ctx context.Context, f *filler) error {
	moved := make(chan *im.Error, members)
	for i := range members {
		err := f.convs.Owner(0).Move(ctx, &conv.CursorMove{
			Conv: w.crowd, User: userName(i), Read: im.Seq(messages - i%100),
			Done: func(_ conv.Cursor, err *im.Error, _ *fanout.WakeUps) { moved <- err },
		})
		if err != nil {
			return err
		}
	}
	for range members {
		if err := <-moved; err != nil {
			return err
		}
	}
	return nil
}

// note adds reactions to the newest message of the large group, and pins others.
func (w *town) note(ctx context.Context, f *filler) error {
	var g errgroup.Group
	ow := f.convs.Owner(0)
	for i := range reactions {
		g.Go(func() error {
			_, err := ow.React(ctx, conv.Query{Conv: w.crowd, User: userName(i + 1)}, &convpb.React{Seq: messages, Emoji: "👍"})
			return err
		})
	}
	for i := range pins {
		g.Go(func() error {
			_, err := ow.PinEntry(ctx, conv.Query{Conv: w.crowd, User: owner}, &convpb.PinEntry{Seq: uint64(messages - i)})
			return err
		})
	}
	return g.Wait()
}
