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

// The incidents are seen in the overview of a server to which they happen.
func TestIncidentsOfLoginsAndBackupsAreInTheOverview(t *testing.T) {
	var a *App
	startTuned(t, t.TempDir(), func(x *App) { a = x })
	codes := func() map[string]*petrelv1.Incident {
		all := map[string]*petrelv1.Incident{}
		for _, x := range a.console.Overview(t.Context(), &petrelv1.GetOverviewRequest{}).Incidents {
			all[x.Code] = x
		}
		return all
	}
	eventually.True(t, "a sample without incidents", func() bool {
		return a.console.Samples.Last() != nil && len(codes()) == 0
	})
	for range 60 { // in a minute
		a.api.Logins["password"].Add(string(im.CodeBadCredentials))
	}
	now, guesser := lastSample(a), netip.MustParseAddr("192.0.2.7")
	for range 600 { // nearly all are refused before the password is looked at
		a.console.Refusals.Note(&console.Refusal{At: now, What: "petrel.v1.AuthService/Login", Code: im.CodeRateLimited, Address: guesser})
	}
	a.console.Refusals.Note(&console.Refusal{At: now, What: "petrel.v1.AuthService/Login", Code: im.CodeBadCredentials, Address: guesser})
	old := &storepb.Backup{Name: "b", MadeMs: 1} // of 1970
	value, err := old.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.store.Update(t.Context(), []store.RecordPut{{Table: store.Backups, Key: []byte("b"), Value: value}}); err != nil {
		t.Fatal(err)
	}
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
	overview := func() *petrelv1.Overview { return s.console.Overview(t.Context(), &petrelv1.GetOverviewRequest{}) }
	s.token("bob")
	c, err := wiretest.Dial(t.Context(), wiretest.Options{URL: "ws://" + s.HTTPAddr().String(), Codec: wire.Proto, Token: s.token("alice"), Device: "d"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // nothing waits
	eventually.True(t, "a sample", func() bool { return s.console.Samples.Last() != nil })
	owner := s.convs.Owner(s.store.Feeds()[0])
	eventually.True(t, "the incident", func() bool {
		owner.SetInboxBacklog(uint64(lastSample(s.App).Add(-10*time.Second - 2*time.Second).UnixMilli()))
		return find(overview().Incidents, "inboxes_late") != nil
	})
	if x := find(overview().Incidents, "inboxes_late"); x != nil && (len(x.Details) != 1 || x.Severity != petrelv1.Verdict_VERDICT_DEGRADED) {
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
func lastSample(a *App) time.Time { return time.UnixMilli(int64(a.console.Samples.Last().TimeMs)) }
