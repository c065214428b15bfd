package app

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/console"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestPasswordAttackIsToldFromMistakes(t *testing.T) {
	for _, x := range []struct {
		right, wrong uint64
		want         bool
	}{{0, 0, false}, {10, wrongLogins - 1, false}, {0, wrongLogins, true}, {4 * wrongLogins, wrongLogins, true}, {5 * wrongLogins, wrongLogins, false}, {100, 420, true}} {
		c := counted{right: x.right, wrong: x.wrong}
		if got := c.guessing(); got != x.want {
			t.Errorf("%d right and %d wrong: %t, want %t", x.right, x.wrong, got, x.want)
		}
	}
}

func TestSpikeIsOfACodeWithoutAnIncidentOfItsOwn(t *testing.T) {
	was := counted{accepted: 1000, refused: 50, refusedWith: map[im.Code]uint64{im.CodeRateLimited: 50}}
	for _, x := range []struct {
		code     im.Code
		n        uint64
		accepted uint64
		want     im.Code
	}{
		{im.CodeRateLimited, manyRefusals - 1, 0, ""},
		{im.CodeRateLimited, manyRefusals, 0, im.CodeRateLimited},
		{im.CodeRateLimited, manyRefusals, 100 * manyRefusals, ""}, // a part of what is accepted
		{im.CodeOverloaded, manyRefusals, 0, ""},
		{im.CodeDiskFull, manyRefusals, 0, ""},
		{im.CodeBadCredentials, manyRefusals, 0, ""},
	} {
		now := counted{accepted: was.accepted + x.accepted, refused: was.refused + x.n, refusedWith: map[im.Code]uint64{im.CodeRateLimited: 50}}
		now.refusedWith[x.code] += x.n
		d := now.since(&was)
		if code, _ := d.spike(); code != x.want {
			t.Errorf("%d of %s beside %d: %q, want %q", x.n, x.code, x.accepted, code, x.want)
		}
	}
}

func TestBackupIsDueByTheTimesOfTheOthers(t *testing.T) {
	const day = 24 * time.Hour
	begin := time.Unix(1_800_000_000, 0)
	for _, x := range []struct {
		made []time.Duration
		want time.Duration
	}{
		{[]time.Duration{0}, 8 * day},
		{[]time.Duration{0, day}, 3 * day},
		{[]time.Duration{0, 3 * day}, 9 * day},
		{[]time.Duration{0, 7 * day}, 15 * day},
		{[]time.Duration{0, time.Hour}, time.Hour + 2*day},
	} {
		var made []time.Time
		for _, d := range x.made {
			made = append(made, begin.Add(d))
		}
		if got := backupDue(made).Sub(begin); got != x.want {
			t.Errorf("%v: due after %v, want %v", x.made, got, x.want)
		}
	}
}

// The incidents are seen in the overview of a server to which they happen.
func TestIncidentsOfLoginsAndBackupsAreInTheOverview(t *testing.T) {
	var a *App
	startTuned(t, t.TempDir(), func(x *App) { a = x })
	codes := func() map[string]*petrelv1.Incident {
		all := map[string]*petrelv1.Incident{}
		for _, x := range a.overview(t.Context(), &petrelv1.GetOverviewRequest{}).Incidents {
			all[x.Code] = x
		}
		return all
	}
	eventually.True(t, "a sample without incidents", func() bool {
		return a.watch.samples.Last() != nil && len(codes()) == 0
	})
	for range wrongLogins {
		a.api.Logins["password"].Add(string(im.CodeBadCredentials))
	}
	now, guesser := lastSample(a), netip.MustParseAddr("192.0.2.7")
	for range 2 * greedy { // nearly all are refused before the password is looked at
		a.watch.refusals.Note(&console.Refusal{At: now, What: "petrel.v1.AuthService/Login", Code: im.CodeRateLimited, Address: guesser})
	}
	a.watch.refusals.Note(&console.Refusal{At: now, What: "petrel.v1.AuthService/Login", Code: im.CodeBadCredentials, Address: guesser})
	old := &storepb.Backup{Name: "b", MadeMs: 1} // of 1970
	value, err := old.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.store.Update(t.Context(), []store.RecordPut{{Table: store.Backups, Key: []byte("b"), Value: value}}); err != nil {
		t.Fatal(err)
	}
	a.watch.mu.Lock()
	a.watch.minute.backups.looked = time.Time{}
	a.watch.mu.Unlock()
	eventually.True(t, "both incidents", func() bool {
		all := codes()
		return all["logins_wrong"] != nil && all["backup_old"] != nil
	})
	all := codes()
	if d := all["logins_wrong"].Details; !slices.Equal(d, []string{"60", "60", "60", guesser.String()}) {
		t.Errorf("logins_wrong: %q", d)
	}
	if x := all["greedy_user"]; x != nil {
		t.Errorf("two incidents tell of one address: %s", x.Text)
	}
}

// The lists of conversations are late until the next one that begins is in them.
func TestLateInboxesAreAnIncidentUntilTheyHaveCaughtUp(t *testing.T) {
	s := startTuned(t, t.TempDir(), func(*App) {})
	find := func(list []*petrelv1.Incident, code string) *petrelv1.Incident {
		i := slices.IndexFunc(list, func(x *petrelv1.Incident) bool { return x.Code == code })
		if i < 0 {
			return nil
		}
		return list[i]
	}
	overview := func() *petrelv1.Overview { return s.overview(t.Context(), &petrelv1.GetOverviewRequest{}) }
	s.token("bob")
	c, err := wiretest.Dial(t.Context(), wiretest.Options{URL: "ws://" + s.HTTPAddr().String(), Codec: wire.Proto, Token: s.token("alice"), Device: "d"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // nothing waits
	eventually.True(t, "a sample", func() bool { return s.watch.samples.Last() != nil })
	owner := s.convs.Owner(s.store.Feeds()[0])
	eventually.True(t, "the incident", func() bool {
		owner.InboxesLack(uint64(lastSample(s.App).Add(-inboxesLate - 2*time.Second).UnixMilli()))
		return find(overview().Incidents, "inboxes_late") != nil
	})
	if x := find(overview().Incidents, "inboxes_late"); x != nil && (len(x.Details) != 1 || x.Severity != degraded) {
		t.Errorf("got %v", x)
	}
	if _, err := c.Send(t.Context(), &petrelv1.Send{User: "bob", ClientMsgId: "1", Body: &petrelv1.Send_Text{Text: "x"}}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the incident is over", func() bool {
		o := overview()
		return find(o.Incidents, "inboxes_late") == nil && find(o.Past, "inboxes_late") != nil
	})
}

// lastSample is the second that the server has counted last.
func lastSample(a *App) time.Time { return time.UnixMilli(int64(a.watch.samples.Last().TimeMs)) }
