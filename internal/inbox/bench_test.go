package inbox_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/errgroup"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// cpu is what the process has used of the processors.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// many submits sends and waits for all answers.
func (w *world) many(sends []*conv.Send) {
	w.t.Helper()
	for len(sends) > 0 {
		n := min(len(sends), 10_000)
		ch := make(chan conv.Result, n)
		for _, s := range sends[:n] {
			s.Done = func(r conv.Result) { ch <- r }
		}
		var k fanout.WakeUps
		w.convs.Submit(append([]*conv.Send(nil), sends[:n]...), &k)
		k.Flush()
		for range n {
			if r := <-ch; r.Err != nil {
				w.t.Fatal(r.Err)
			}
		}
		sends = sends[n:]
	}
}

// BenchmarkSync5000 syncs a user with 5,000 conversations, half of them direct,
// of 20 messages each, of which 20 have changed since the token. cold: nothing
// of it is in memory but what the store keeps in its cache.
func BenchmarkSync5000(b *testing.B) {
	w := newWorld(b)
	const n = 5000
	keys := make([]im.Key, n)
	var first, rest []*conv.Send
	for i := range keys {
		peer := im.User(fmt.Sprint("user", i))
		s := &conv.Send{Keyed: true}
		s.Entry.ClientMsgId = "first"
		if i%2 == 0 {
			keys[i] = im.Key{Tenant: im.DefaultTenant, Conv: w.convs.IDs().Direct(im.DefaultTenant, "alice", peer)}
			s.Peer, s.Entry.From, s.Entry.Body = "alice", string(peer), &petrelv1.Message_Text{Text: "hello"}
		} else {
			keys[i] = im.Key{Tenant: im.DefaultTenant, Conv: someStore.KeyedGroup(im.DefaultTenant, string(peer))}
			s.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP), Title: "group"}
			s.Entry.Body = &petrelv1.Message_Members{Members: &petrelv1.MemberChange{Added: refs(0, string(peer), "alice", "bob", "carol", "dave")}}
		}
		s.Conv = keys[i]
		first = append(first, s)
	}
	w.many(first)
	for j := range 19 {
		for i, key := range keys {
			s := &conv.Send{Conv: key, After: 1}
			s.Entry.From, s.Entry.ClientMsgId, s.Entry.Body = fmt.Sprint("user", i), fmt.Sprint(j), &petrelv1.Message_Text{Text: "how are you, and where are you?"}
			rest = append(rest, s)
		}
	}
	w.many(rest)
	w.settle()
	for i := 0; i < n; i += 3 {
		if _, err := w.move("alice", keys[i], 5, 5); err != nil {
			b.Fatal(err)
		}
	}
	_, token := w.all("alice", nil)
	for i := range 20 {
		w.say(keys[i*n/20], im.User(fmt.Sprint("user", i*n/20)), "news")
	}
	sync := func() {
		p, err := w.sync.Sync(context.Background(), im.Account{Tenant: im.DefaultTenant, User: "alice"}, token, inbox.Wants{})
		if err != nil || len(p.Convs) != 20 || p.More {
			b.Fatalf("%d conversations, %v", len(p.GetConvs()), err)
		}
	}
	b.Run("cold", func(b *testing.B) {
		b.ReportAllocs()
		var used time.Duration
		for range b.N {
			b.StopTimer()
			w.stop()
			w.open() // a consumer would load what it carries
			b.StartTimer()
			before := cpu()
			sync()
			used += cpu() - before
		}
		b.ReportMetric(used.Seconds()*1e3/float64(b.N), "cpu-ms/op")
	})
	b.Run("warm", func(b *testing.B) {
		b.ReportAllocs()
		sync()
		before := cpu()
		b.ResetTimer()
		for range b.N {
			sync()
		}
		b.ReportMetric((cpu()-before).Seconds()*1e3/float64(b.N), "cpu-ms/op")
	})
}

// BenchmarkLists syncs users with 10,000 conversations each, from the beginning: one
// alone and 25 at once, right after a start (cold), and once more (warm). Then one
// syncs who has no news, cold and warm. The store has the cache of a server with 4 GB.
// PETREL_MEMORY is how many bytes of conversations are kept in memory. If it is not set
// the conversations of 25 users do not fit, those of one user do.
func BenchmarkLists(b *testing.B) {
	memory, _ := strconv.Atoi(os.Getenv("PETREL_MEMORY")) // 0: the default
	w := &world{t: b, fs: vfs.NewMem(), cache: 256 << 20, memory: memory}
	w.start()
	b.Cleanup(func() { w.stop() })
	const users, n = 25, 10_000
	for u := range users {
		var first []*conv.Send
		for i := range n {
			name := fmt.Sprint("user", u)
			s := &conv.Send{Conv: im.Key{Tenant: im.DefaultTenant, Conv: someStore.KeyedGroup(im.DefaultTenant, fmt.Sprint(name, "-", i))}, Keyed: true}
			s.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP), Title: "group"}
			s.Entry.ClientMsgId, s.Entry.Body = "first", &petrelv1.Message_Members{Members: &petrelv1.MemberChange{Added: refs(0, name)}}
			first = append(first, s)
		}
		w.many(first)
		w.settle()
	}
	again := func() {
		w.stop()
		w.start()
		w.settle()
		for used := time.Duration(-1); cpu()-used > 5*time.Millisecond; { // compactions go on
			used = cpu()
			<-time.After(100 * time.Millisecond)
		}
	}
	page := func(u int, token []byte) *petrelv1.SyncPage {
		p, err := w.sync.Sync(context.Background(), im.Account{Tenant: im.DefaultTenant, User: im.User(fmt.Sprint("user", u))}, token, inbox.Wants{})
		if err != nil {
			b.Error(err)
			return &petrelv1.SyncPage{}
		}
		return p
	}
	all := func(u int) (token []byte) {
		for got := 0; ; {
			p := page(u, token)
			if got, token = got+len(p.Convs), p.Token; !p.More {
				if got != n {
					b.Errorf("%d conversations", got)
				}
				return token
			}
		}
	}
	for u := range users {
		all(u) // stores the lists
	}
	for _, users := range []int{1, users} {
		for _, state := range []string{"cold", "warm"} {
			b.Run(fmt.Sprint("all/", users, "/", state), func(b *testing.B) {
				var used time.Duration
				for b.Loop() {
					if state == "cold" {
						b.StopTimer()
						again()
						b.StartTimer()
					}
					before := cpu()
					var g errgroup.Group
					for u := range users {
						g.Go(func() error { all(u); return nil })
					}
					_ = g.Wait() // all reports
					used += cpu() - before
				}
				b.ReportMetric(used.Seconds()*1e6/float64(b.N*users*n), "cpu-us/conv")
			})
		}
	}
	token := all(0)
	for _, state := range []string{"cold", "warm"} {
		b.Run("nothing-new/"+state, func(b *testing.B) {
			var used time.Duration
			for b.Loop() {
				if state == "cold" {
					b.StopTimer()
					again()
					b.StartTimer()
				}
				before := cpu()
				if p := page(0, token); len(p.Convs) != 0 || p.More {
					b.Fatal(p)
				}
				used += cpu() - before
			}
			b.ReportMetric(used.Seconds()*1e3/float64(b.N), "cpu-ms/sync")
		})
	}
}

// BenchmarkPersonal syncs a user with 10,000 conversations and 100,000 changes of settings
// behind that: of one name in each conversation, or of three, which is about as many as a
// user may set. Of whom nothing is new (none), who was away for all of the changes (away), and a new device
// (new). The conversations themselves have no news, but for the new device. cold: nothing
// is in memory, as after a start.
func BenchmarkPersonal(b *testing.B) {
	for _, names := range []int{1, 3} {
		w := &world{t: b, fs: vfs.NewMem(), cache: 256 << 20}
		w.start()
		b.Cleanup(func() { w.stop() })
		const convs, changes = 10_000, 100_000
		keys := w.groups(convs)
		d := &device{w: w}
		d.sync(0)
		before := d.token
		var sends []*conv.Send
		for i := range changes {
			e := &petrelv1.InboxSettings{Conv: keys[i%convs].Conv.String(), Values: map[string]string{fmt.Sprint("name ", i/convs%names): fmt.Sprint(i)}}
			s := &conv.Send{Conv: w.inboxKey(), Peer: "alice", Keyed: true}
			s.Entry.ClientMsgId = w.id()
			s.Entry.Body = &petrelv1.Message_Inbox{Inbox: &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Settings{Settings: e}}}
			sends = append(sends, s)
		}
		for part := range slices.Chunk(sends, 1000) { // more do not fit the queue of one conversation
			w.many(part)
		}
		d.sync(0) // compacts if it is due, and stores the list
		d.sync(0)
		w.settle()
		w.save() // or each start would carry everything again
		first, head := w.entries()
		for what, token := range map[string][]byte{"none": d.token, "away": before, "new": nil} {
			for _, state := range []string{"cold", "warm"} {
				b.Run(fmt.Sprintf("names=%d/%s/%s", names, what, state), func(b *testing.B) {
					var used time.Duration
					x := &device{w: w, token: token}
					for b.Loop() {
						if state == "cold" {
							b.StopTimer()
							w.stop()
							w.start()
							w.settle()
							b.StartTimer()
						}
						*x = device{w: w, token: token}
						from := cpu()
						x.sync(0)
						used += cpu() - from
					}
					b.ReportMetric(used.Seconds()*1e3/float64(b.N), "cpu-ms/sync")
					b.ReportMetric(float64(x.pages), "pages")
					b.ReportMetric(float64(x.told), "settings")
					b.ReportMetric(float64(head-first+1), "entries")
				})
			}
		}
	}
}

// BenchmarkSettings reads the settings, and syncs, of a user with few
// conversations who has set something often: each time is an entry of the inbox.
func BenchmarkSettings(b *testing.B) {
	for _, n := range []int{400, 800, 3000} {
		w := newWorld(b)
		w.group("team", "alice", "bob")
		w.settle()
		w.set("alice", n)
		_, token := w.all("alice", nil)
		a := im.Account{Tenant: im.DefaultTenant, User: "alice"}
		b.Run(fmt.Sprintf("get/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if all, _, err := w.sync.Settings(context.Background(), a, 0); err != nil || len(all) != 1 {
					b.Fatal(all, err)
				}
			}
		})
		b.Run(fmt.Sprintf("sync/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if p, err := w.sync.Sync(context.Background(), a, token, inbox.Wants{}); err != nil || len(p.Convs) != 0 {
					b.Fatal(p, err)
				}
			}
		})
	}
}

// set changes one of a user's settings n times.
func (w *world) set(u im.User, n int) {
	w.t.Helper()
	a := im.Account{Tenant: im.DefaultTenant, User: u}
	for i := range n {
		e := &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Settings{Settings: &petrelv1.InboxSettings{Values: map[string]string{fmt.Sprint("name ", i%8): fmt.Sprint("value ", i)}}}}
		if _, err := inbox.Write(context.Background(), w.convs, a, e, w.id()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// BenchmarkChangeOfManySettings measures what a change of one setting, and a page of them,
// take of a user who has set 4 MiB: with the list in memory, and when it has left it.
func BenchmarkChangeOfManySettings(b *testing.B) {
	for _, c := range []struct {
		name         string
		users, names int
		bytes        int
	}{{"3600 of 1 KiB", 57, 64, 1000}, {"30000 small", 1000, 30, 10}} {
		w := newWorld(b)
		for i := range c.users {
			e := &petrelv1.InboxSettings{User: fmt.Sprint("user", i), Values: map[string]string{}}
			for j := range c.names {
				e.Values[fmt.Sprint("name", j)] = strings.Repeat("v", c.bytes)
			}
			w.setAll(e)
		}
		w.settle()
		w.settings(alice)
		kept := w.sync
		for _, state := range []string{"kept", "left"} {
			measure := func(name string, f func(i int)) {
				b.Run(c.name+"/"+name+"/"+state, func(b *testing.B) {
					b.ReportAllocs()
					from, i := cpu(), 0
					for ; b.Loop(); i++ {
						if w.sync = kept; state == "left" {
							w.sync = &inbox.Syncer{Router: w.router, Store: w.store}
						}
						f(i)
					}
					b.ReportMetric((cpu()-from).Seconds()*1e3/float64(i), "cpu-ms/op")
				})
			}
			measure("change", func(i int) {
				if _, err := w.sync.SettingsRoom(context.Background(), alice, "", "user7"); err != nil {
					b.Fatal(err)
				}
				w.setAll(&petrelv1.InboxSettings{User: "user7", Values: map[string]string{"name3": fmt.Sprint(i)}})
			})
			measure("page", func(int) {
				if page, _, err := w.sync.Settings(context.Background(), alice, 20); err != nil || len(page) == 0 {
					b.Fatal(page, err)
				}
			})
		}
	}
}
