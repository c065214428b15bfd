package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/session"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestEveryLimitOfTheConfigurationIsTheSessions(t *testing.T) {
	got := limits(&config.Limits{
		BodyBytes: 2, HistoryMessages: 3, HelloFrameBytes: 4, Unauthenticated: 5, UnauthenticatedPerIP: 6, Connections: 7, ConnectionsPerUser: 8,
		ConnectionsPerIP: 9, NewConnectionsPerIPPerS: 10, WindowSends: 11, WindowBytes: 12, SendsPerS: 13, SendBurst: 14, OutboxBytes: 15,
	}, &Files{Connections: 100})
	want := session.Limits{
		BodyBytes: 2, HistoryMessages: 3, FrameBytesBeforeHello: 4, Unauthenticated: 5, UnauthenticatedPerIP: 6, Connections: 7, ConnectionsPerUser: 8,
		ConnectionsPerIP: 9, NewPerIPPerSecond: 10, WindowSends: 11, WindowBytes: 12, SendsPerSecond: 13, SendBurst: 14, OutboxBytes: 15,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("limits (-want +got):\n%s", d)
	}
	for set, want := range map[int64]int{0: 100, -1: 100, 99: 99, 101: 100} {
		if n := limits(&config.Limits{Connections: set}, &Files{Connections: 100}).Connections; n != want {
			t.Errorf("limits.connections = %d with files for 100: %d, want %d", set, n, want)
		}
	}
}

func TestChangedLimitsAreThoseNamed(t *testing.T) {
	s := start(t, t.TempDir())
	before := *s.hub.Limits()
	told := toMessage(&before)
	if r := s.changeLimits(&petrelv1.ServerLimits{}); len(r.Changes) > 0 {
		t.Errorf("nothing was named: %v", r)
	}
	if d := cmp.Diff(told, toMessage(s.hub.Limits()), protocmp.Transform()); d != "" {
		t.Errorf("nothing was named (-want +got):\n%s", d)
	}
	// Every field in turn: it changes that limit and no other.
	fields := told.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		for _, v := range []struct{ set, want int64 }{{int64(1000 + i), int64(1000 + i)}, {-7, -1}} {
			change, want := &petrelv1.ServerLimits{}, toMessage(s.hub.Limits())
			change.ProtoReflect().Set(fd, fd.Default())
			change.ProtoReflect().Set(fd, int64Value(v.set))
			if fd.Name() == "connections" && v.want < 0 {
				v.want = int64(s.files.Connections) // never more than there are files for
			}
			from := want.ProtoReflect().Get(fd).Int()
			want.ProtoReflect().Set(fd, int64Value(v.want))
			if r := s.changeLimits(change); len(r.Changes) != 1 || r.Changes[0].Name != string(fd.Name()) || r.Changes[0].From != from || r.Changes[0].To != v.want {
				t.Errorf("%s = %d, and was %d: %v", fd.Name(), v.set, from, r)
			}
			if d := cmp.Diff(want, toMessage(s.hub.Limits()), protocmp.Transform()); d != "" {
				t.Errorf("%s = %d in force (-want +got):\n%s", fd.Name(), v.set, d)
			}
		}
	}
	after := *s.hub.Limits()
	if after.BodyBytes != before.BodyBytes || after.HistoryMessages != before.HistoryMessages {
		t.Errorf("limits that have no field were changed: %+v", after)
	}
}
