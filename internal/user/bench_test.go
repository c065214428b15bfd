package user_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
)

// BenchmarkProfiles describes users to a stranger: the 100 of one call of GetUsers, and the versions of the 1,000 of
// one page of members.
func BenchmarkProfiles(b *testing.B) {
	ctx := context.Background()
	w := people(b, func(*user.Options) {})
	var users []im.User
	var changes []*user.ProfileChange
	for i := range 1000 {
		users = append(users, im.User(fmt.Sprintf("u%03d", i)))
		name, about := fmt.Sprint("User ", i), "watches birds, and writes about them"
		changes = append(changes, &user.ProfileChange{DisplayName: &name, About: &about, Fields: map[string]string{"team": "sea", "city": "Bergen"}})
	}
	_, err := w.users.Create(ctx, "", users)
	w.no(err)
	_, err = w.users.SetProfiles(ctx, im.DefaultTenant, users, changes)
	w.no(err)
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint("Versions", n), func(b *testing.B) {
			begin := cpu(b)
			for b.Loop() {
				_, err := w.users.VersionsOf(ctx, alice, users[:n])
				w.no(err)
			}
			b.ReportMetric(float64((cpu(b)-begin).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
	b.Run("Profiles100", func(b *testing.B) {
		begin := cpu(b)
		for b.Loop() {
			_, err := w.users.Profiles(ctx, alice, users[:100])
			w.no(err)
			_, err = w.users.Acquaintances(ctx, alice, im.Key{}, users[:100])
			w.no(err)
		}
		b.ReportMetric(float64((cpu(b)-begin).Microseconds())/float64(b.N), "cpu-us/op")
	})
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
