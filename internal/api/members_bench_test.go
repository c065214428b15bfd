package api

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// BenchmarkListMembers lists a group of 10,000 members over HTTP, page by page: without the versions of profiles, with
// them, and with them while a field of each member is for contacts, and every second member has the caller as one.
func BenchmarkListMembers(b *testing.B) {
	const page, pages = 1000, 10
	w := newWorld(b)
	issued, err := w.users.Create(b.Context(), "", []im.User{"alice"})
	w.must(err)
	group := w.group("", "", "alice").Conv
	var all []im.User
	var pairs []*petrelv1.ContactPair
	for p := range pages {
		var users []im.User
		var names []string
		for i := range page {
			u := fmt.Sprintf("u%05d", p*page+i)
			if i > 0 || p > 0 { // alice is a member too
				users, names = append(users, im.User(u)), append(names, u)
				if i%2 == 0 {
					pairs = append(pairs, &petrelv1.ContactPair{User: u, Other: "alice"})
				}
			}
		}
		_, err := w.users.Create(b.Context(), "", users)
		w.must(err)
		_, err = w.change(group, fmt.Sprint("add ", p), &petrelv1.MemberChange{Added: refs(0, names...)})
		w.must(err)
		all = append(all, users...)
	}
	update := func(ch *user.ProfileChange) {
		for users := all; len(users) > 0; users = users[min(page, len(users)):] {
			some := users[:min(page, len(users))]
			changes := make([]*user.ProfileChange, len(some))
			for i := range some {
				changes[i] = ch
			}
			_, err := w.users.SetProfiles(b.Context(), im.DefaultTenant, some, changes)
			w.must(err)
		}
	}
	list := func(name string, profiles bool) {
		b.Run(name, func(b *testing.B) {
			begin, bytes := cpuTime(b), 0
			for b.Loop() {
				bytes = 0
				for after, more := "", true; more; {
					r := w.curl("ConversationService", "ListMembers", "Bearer "+issued[0].Token,
						fmt.Sprintf(`{"conv":%q,"limit":%d,"after":%q,"profiles":%t}`, group, page, after, profiles))
					if r.status != 200 {
						b.Fatal(r.body)
					}
					bytes += len(r.body)
					var got struct {
						Members []struct{ User string }
						More    bool
					}
					w.must(json.Unmarshal([]byte(r.body), &got))
					after, more = got.Members[len(got.Members)-1].User, got.More
				}
			}
			b.ReportMetric(float64((cpuTime(b)-begin).Microseconds())/float64(b.N), "cpu-us/op")
			b.ReportMetric(float64(bytes), "bytes/op")
		})
	}
	for len(pairs) > 0 {
		n := min(page, len(pairs))
		_, err := inbox.SetContacts(b.Context(), w.convs, im.DefaultTenant, pairs[:n], conv.ContactMake)
		w.must(err)
		pairs = pairs[n:]
	}
	w.must(w.inbox.Await(b.Context()))
	about := "watches birds, and writes about them"
	update(&user.ProfileChange{About: &about, Fields: map[string]string{"team": "sea", "city": "Bergen"}})
	list("Members", false)
	list("Profiles", true)
	update(&user.ProfileChange{Visibility: map[string]user.Visibility{"about": user.SeenByContacts}})
	list("Contacts", true)
}

// cpuTime returns the CPU time that the process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
