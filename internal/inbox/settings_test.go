package inbox_test

import (
	"context"
	"fmt"
	"maps"
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

// A user may have set 4 MiB. An answer has about 64 KiB of that, and what changes between
// two pages is in a later one.
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

// A long inbox is read once, also if it has two conversations only; afterwards
// what is new is.
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

// Whoever holds the settings from before a change sees no part of it, and what
// a list kept is what a new one finds.
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
