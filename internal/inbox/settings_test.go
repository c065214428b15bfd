package inbox_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

var alice = im.Account{Tenant: im.DefaultTenant, User: "alice"}

func (w *world) settings(a im.Account) map[string]map[string]string {
	w.t.Helper()
	all := map[string]map[string]string{}
	for _, s := range w.allSettings(a) {
		all[s.Conv] = s.Values
	}
	return all
}

// allSettings reads all pages of what a user has set.
func (w *world) allSettings(a im.Account) []*petrelv1.Settings {
	w.t.Helper()
	var all []*petrelv1.Settings
	for after := im.Seq(0); ; {
		page, next, err := w.sync.Settings(context.Background(), a, after)
		if err != nil {
			w.t.Fatal(err)
		}
		all = mergeSettings(all, page)
		if after = next; next == 0 {
			return all
		}
	}
}

// mergeSettings is what a client has after another page.
func mergeSettings(all, page []*petrelv1.Settings) []*petrelv1.Settings {
	for _, s := range page {
		i := slices.IndexFunc(all, func(x *petrelv1.Settings) bool { return x.Conv == s.Conv && x.User == s.User })
		if i < 0 {
			i = len(all)
			all = append(all, &petrelv1.Settings{Conv: s.Conv, User: s.User, Values: map[string]string{}})
		}
		maps.Copy(all[i].Values, s.Values)
		maps.DeleteFunc(all[i].Values, func(_, v string) bool { return v == "" })
	}
	return slices.DeleteFunc(all, func(s *petrelv1.Settings) bool { return len(s.Values) == 0 })
}

// A user may have set 4 MiB. An answer has about 64 KiB of that, and a change between two
// pages is in a later one.
func TestSettingsAreReadInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.group("team", "alice", "bob")
		w.settle()
		const n = 300
		for i := range n {
			w.setOne("", fmt.Sprint("name", i), strings.Repeat("v", 1000))
		}
		w.settle()
		page, next, err := w.sync.Settings(t.Context(), alice, 0)
		if err != nil {
			t.Fatal(err)
		}
		got := mergeSettings(nil, page)
		w.setOne("", "name0", "changed")
		w.setOne("", "name1", "")
		w.setOne("team", "mute", "1")
		w.settle()
		pages := 1
		for ; next != 0; pages++ {
			if page, next, err = w.sync.Settings(t.Context(), alice, next); err != nil {
				t.Fatal(err)
			}
			if size := proto.Size(&petrelv1.GetSettingsResponse{Settings: page}); size > 80<<10 {
				t.Errorf("page %d has %d bytes", pages+1, size)
			}
			got = mergeSettings(got, page)
		}
		if want := w.allSettings(alice); !slices.EqualFunc(want, got, func(a, b *petrelv1.Settings) bool { return proto.Equal(a, b) }) {
			t.Errorf("the pages come to something else:\n%s", cmp.Diff(want, got, protocmp.Transform()))
		}
		if len(got) != 2 || len(got[0].Values) != n-1 || got[0].Values["name0"] != "changed" || pages < 4 {
			t.Errorf("%d pages, %d subjects with %d names", pages, len(got), len(got[0].Values))
		}
	})
}

func (w *world) setOne(conv, name, value string) {
	w.t.Helper()
	e := &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Settings{Settings: &petrelv1.InboxSettings{Conv: conv, Values: map[string]string{name: value}}}}
	if _, err := inbox.Write(context.Background(), w.convs, alice, e, w.id()); err != nil {
		w.t.Fatal(err)
	}
}

// A long inbox is read once, also if it has two conversations only. Afterwards only
// new entries are read.
func TestLongInboxIsReadOnce(t *testing.T) {
	for what, c := range map[string]struct{ entries, bytes int }{"many entries": {800, 10}, "large ones": {20, 40 << 10}} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				key := w.group("team", "alice", "bob")
				w.settle()
				for i := range c.entries {
					w.setOne("", fmt.Sprint("name ", i%8), strings.Repeat("x", c.bytes)+fmt.Sprint(i))
				}
				_, token := w.all("alice", nil)
				w.forgetLists()
				w.restart() // rows come from the store
				w.settle()
				before := w.rows.read.Load()
				want := w.settings(alice)
				first := w.rows.read.Load()
				if n := first - before; n < int64(c.entries)/2 {
					t.Fatalf("the first look reads %d rows of %d: this test shows nothing", n, c.entries)
				}
				w.restart()
				w.settle()
				first = w.rows.read.Load()
				for range 20 {
					if d := cmp.Diff(want, w.settings(alice)); d != "" {
						t.Fatalf("settings (-want +got):\n%s", d)
					}
					states, _ := w.all("alice", token)
					w.wantConvs("nothing is new", states)
				}
				if n := w.rows.read.Load() - first; n > 0 {
					t.Errorf("20 more looks read %d rows", n)
				}
				w.setOne("", "name 1", "new")
				want = map[string]map[string]string{"": maps.Clone(want[""])}
				want[""]["name 1"] = "new"
				if d := cmp.Diff(want, w.settings(alice)); d != "" {
					t.Errorf("after a change (-want +got):\n%s", d)
				}
				w.say(key, "bob", "hi")
				states, _ := w.all("alice", token)
				w.wantConvs("a message", states, key)
				if n := w.rows.read.Load() - first; n > 10 {
					t.Errorf("one entry more reads %d rows", n)
				}
			})
		})
	}
}

// A holder of the settings from before a change sees no part of the change, and a kept list
// has the same settings as one that is folded anew.
func TestSettingsFoldTheSameKeptOrNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		team := w.group("team", "alice").Conv.String()
		w.settle()
		w.set("alice", 600)
		kept := w.sync
		var wg sync.WaitGroup
		stop := make(chan struct{})
		wg.Go(func() { // reads all of it while it is changed: the race detector looks on
			for {
				select {
				case <-stop:
					return
				default:
				}
				n := 0
				all, _, err := kept.Settings(context.Background(), alice, 0)
				for _, s := range all {
					for _, v := range s.Values {
						n += len(v)
					}
				}
				if n == 0 || err != nil {
					t.Error("no settings", err)
					return
				}
			}
		})
		for i, c := range []struct{ conv, name, value string }{
			{"", "name 1", ""}, {team, "muted", "yes"}, {"", "name 2", "two"}, {team, "muted", ""}, {team, "muted", ""}, {team, "pinned", "1"}, {"", "never was", ""}, {team, "muted", "no"},
		} {
			w.sync = kept
			before := w.settings(alice)
			text := fmt.Sprint(before)
			w.setOne(c.conv, c.name, c.value)
			after := w.settings(alice)
			if got := fmt.Sprint(before); got != text {
				t.Errorf("change %d shows in what was read before it: %s, was %s", i, got, text)
			}
			w.sync = &inbox.Syncer{Router: w.router, Store: w.store}
			if d := cmp.Diff(w.settings(alice), after); d != "" {
				t.Errorf("change %d: (-read again +kept):\n%s", i, d)
			}
		}
		close(stop)
		wg.Wait()
		got := w.settings(alice)
		if d := cmp.Diff(map[string]string{"muted": "no", "pinned": "1"}, got[team]); d != "" || len(got[""]) != 7 || got[""]["name 2"] != "two" {
			t.Errorf("in the end: %v", got)
		}
	})
}

// roomOf is the room of a change by what the pages say.
func roomOf(all []*petrelv1.Settings, conv, user string) string {
	users, bytes, names := 0, 0, map[string]int{}
	for _, s := range all {
		if s.User != "" {
			users++
		}
		for name, v := range s.Values {
			bytes += inbox.SettingBytes + len(s.Conv) + len(s.User) + len(name) + len(v)
			if s.Conv == conv && s.User == user {
				names[name] = len(v)
			}
		}
	}
	return fmt.Sprint(users, bytes, len(names), names)
}

func (w *world) room(conv, user string, names ...string) string {
	w.t.Helper()
	r, err := w.sync.SettingsRoom(context.Background(), alice, conv, user)
	if err != nil {
		w.t.Fatal(err)
	}
	sizes := map[string]int{}
	for _, name := range names {
		if n, set := r.Size(name); set {
			sizes[name] = n
		}
	}
	return fmt.Sprint(r.Users, r.Bytes, r.Names(), sizes)
}

// A change is judged by sums, which are those of all settings: however they have changed,
// and whether the list is kept, stored, damaged, folded anew or compacted. Spec: P-8.10.
func TestRoomOfAChangeIsThatOfAllSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		seed := rand.Uint64()
		t.Log("seed", seed)
		rnd := rand.New(rand.NewPCG(seed, 0))
		var names []string
		for i := range 9 {
			names = append(names, fmt.Sprint("name", i))
		}
		subjects := []subject{{}, {conv: w.group("team", "alice").Conv.String()}}
		for i := range 40 {
			subjects = append(subjects, subject{user: fmt.Sprint("user", i)})
		}
		for i := range 60 {
			for range 20 {
				of := subjects[rnd.IntN(len(subjects))]
				e := &petrelv1.InboxSettings{Conv: of.conv, User: of.user, Values: map[string]string{}}
				for range 1 + rnd.IntN(4) {
					e.Values[names[rnd.IntN(len(names))]] = strings.Repeat("v", rnd.IntN(3)*rnd.IntN(900))
				}
				w.setAll(e)
			}
			switch rnd.IntN(8) {
			case 0:
				w.sync = &inbox.Syncer{Router: w.router, Store: w.store, Convs: w.convs, CompactFrom: 1100}
			case 1:
				w.forgetLists()
				w.sync = &inbox.Syncer{Router: w.router, Store: w.store}
			case 2:
				w.damageLists()
				w.sync = &inbox.Syncer{Router: w.router, Store: w.store}
			}
			of := subjects[rnd.IntN(len(subjects))]
			got := w.room(of.conv, of.user, names...)
			if want := roomOf(w.allSettings(alice), of.conv, of.user); got != want {
				t.Fatalf("round %d, of %v: users, bytes, names: %s, want %s", i, of, got, want)
			}
		}
	})
}

type subject struct{ conv, user string }

// damageLists damages a part of a stored list.
func (w *world) damageLists() {
	w.t.Helper()
	var keys [][]byte
	err := w.store.Records(context.Background(), store.Lists, im.DefaultTenant, []byte("alice\x00i"), func(key, _ []byte) bool {
		keys = append(keys, slices.Clone(key))
		return true
	})
	if err == nil && len(keys) > 0 {
		err = w.store.Update(context.Background(), []store.RecordPut{{Table: store.Lists, Tenant: im.DefaultTenant, Key: keys[0], Value: []byte("damaged")}})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// A change, and a page, cost what they change and have, and not what a user has set: 4 MiB
// of settings of many users that have left memory. Spec: P-8.10.
func TestChangeOfASettingReadsNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 70 {
			e := &petrelv1.InboxSettings{User: fmt.Sprint("user", i), Values: map[string]string{}}
			for j := range 60 {
				e.Values[fmt.Sprint("name", j)] = strings.Repeat("v", 900)
			}
			w.setAll(e)
		}
		w.settle()
		w.allSettings(alice)
		most := int64(0)
		for i := range 40 {
			w.sync = &inbox.Syncer{Router: w.router, Store: w.store}
			before := w.rows.recordBytes.Load()
			if i%2 == 0 {
				w.room("", "user7")
				w.setAll(&petrelv1.InboxSettings{User: "user7", Values: map[string]string{"name3": fmt.Sprint(i)}})
			} else if page, _, err := w.sync.Settings(t.Context(), alice, im.Seq(i)); err != nil || len(page) == 0 {
				t.Fatal(page, err)
			}
			most = max(most, w.rows.recordBytes.Load()-before)
		}
		if most > 256<<10 {
			t.Errorf("a change or a page reads records of %d bytes", most)
		}
	})
}
