package user_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/pgtest"
	"github.com/petrel-im/petrel/internal/user"
)

// BenchmarkProfiles describes users to a reader: the 100 of one call of GetUsers, of whom the reader has no profile or
// all, and the versions of the 1,000 of one page of members. Contacts: a field of each user is for contacts, and every
// second user has the reader as one.
func BenchmarkProfiles(b *testing.B) {
	b.Run("Pebble", func(b *testing.B) { benchmarkProfiles(b, people(b)) })
	b.Run("PostgreSQL", func(b *testing.B) {
		w := people(b)
		w.close()
		w.dsn = pgtest.Own(b, pgtest.Options{}).New(b)
		w.open()
		benchmarkProfiles(b, w)
	})
}

func benchmarkProfiles(b *testing.B, w *world) {
	ctx := context.Background()
	var users []im.User
	var changes []*user.ProfileChange
	for i := range 1000 {
		users = append(users, im.User(fmt.Sprintf("u%03d", i)))
		name, about := fmt.Sprint("User ", i), "watches birds, and writes about them"
		changes = append(changes, &user.ProfileChange{DisplayName: &name, About: &about, Fields: map[string]string{"team": "sea", "city": "Bergen"}})
	}
	_, err := w.users.Create(ctx, "", users)
	w.no(err)
	for i, u := range users {
		w.contact(u, i%2 == 0, alice.User, true)
	}
	_, err = w.users.SetProfiles(ctx, im.DefaultTenant, users, changes)
	w.no(err)
	run := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			begin := cpu(b)
			for b.Loop() {
				w.no(f())
			}
			b.ReportMetric(float64((cpu(b)-begin).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
	all := func(name string) {
		has := map[im.User]string{}
		list, _, err := w.users.Profiles(ctx, alice, nil, users[:100])
		w.no(err)
		for _, p := range list {
			has[p.User] = p.Version
		}
		for _, n := range []int{100, 1000} {
			run(fmt.Sprint(name, "Versions", n), func() error {
				_, err := w.users.VersionsOf(ctx, alice, users[:n])
				return err
			})
		}
		for known, has := range map[string]map[im.User]string{"Unknown": nil, "Known": has} {
			run(name+known+"100", func() error {
				_, _, err := w.users.Profiles(ctx, alice, has, users[:100])
				return err
			})
		}
	}
	run("Acquaintances100", func() error {
		_, err = w.users.Acquaintances(ctx, alice, im.Key{}, users[:100])
		return err
	})
	all("")
	for i := range users {
		changes[i] = &user.ProfileChange{Visibility: map[string]user.Visibility{"about": user.SeenByContacts}}
	}
	_, err = w.users.SetProfiles(ctx, im.DefaultTenant, users, changes)
	w.no(err)
	all("Contacts")
}

// cpu returns the CPU time that the process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
