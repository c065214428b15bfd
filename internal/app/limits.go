package app

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/session"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// limits maps the configuration to the hub's limits.
func limits(l *config.Limits, f *Files) session.Limits {
	return session.Limits{
		Connections: f.connections(l.Connections), ConnectionsPerUser: int(l.ConnectionsPerUser),
		ConnectionsPerIP:  int(l.ConnectionsPerIP),
		NewPerIPPerSecond: int(l.NewConnectionsPerIPPerS), Unauthenticated: int(l.Unauthenticated),
		UnauthenticatedPerIP: int(l.UnauthenticatedPerIP),
		SendsPerSecond:       int(l.SendsPerS), SendBurst: int(l.SendBurst), WindowSends: int(l.WindowSends),
		WindowBytes: int(l.WindowBytes), OutboxBytes: int(l.OutboxBytes),
		FrameBytesBeforeHello: int(l.HelloFrameBytes), BodyBytes: int(l.BodyBytes),
		HistoryMessages: int(l.HistoryMessages),
	}
}

// fields returns the limits that operators can change, by their names in ServerLimits.
func fields(l *session.Limits) map[protoreflect.Name]*int {
	return map[protoreflect.Name]*int{
		"connections": &l.Connections, "connections_per_user": &l.ConnectionsPerUser,
		"connections_per_ip":           &l.ConnectionsPerIP,
		"new_connections_per_ip_per_s": &l.NewPerIPPerSecond, "unauthenticated": &l.Unauthenticated,
		"unauthenticated_per_ip": &l.UnauthenticatedPerIP,
		"sends_per_s":            &l.SendsPerSecond, "send_burst": &l.SendBurst, "window_sends": &l.WindowSends,
		"window_bytes": &l.WindowBytes, "outbox_bytes": &l.OutboxBytes,
	}
}

func toMessage(l *session.Limits) *petrelv1.ServerLimits {
	m := &petrelv1.ServerLimits{}
	for name, n := range fields(l) {
		m.ProtoReflect().Set(m.ProtoReflect().Descriptor().Fields().ByName(name), protoreflect.ValueOf(int64(*n)))
	}
	return m
}

// changeLimits applies the limits that are not 0 in m on this node, and returns the changes. A negative one
// means no limit.
func (a *App) changeLimits(m *petrelv1.ServerLimits) *petrelv1.PreviewLimitsResponse {
	a.limitsMu.Lock()
	defer a.limitsMu.Unlock()
	r := a.previewLimits(m)
	a.hub.SetLimits(a.limitsWith(m))
	return r
}

// previewLimits returns the changes that changeLimits would make.
func (a *App) previewLimits(m *petrelv1.ServerLimits) *petrelv1.PreviewLimitsResponse {
	now := a.hub.Limits()
	l := a.limitsWith(m)
	before, after := toMessage(now).ProtoReflect(), toMessage(&l).ProtoReflect()
	r := &petrelv1.PreviewLimitsResponse{}
	fields := before.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		from, to := before.Get(f).Int(), after.Get(f).Int()
		if from == to {
			continue
		}
		text := "for new connections and requests, from now until the next start"
		if f.Name() == "connections" && to >= 0 && int64(a.gateway.Stats().Connections) > to {
			text = fmt.Sprintf("%d connections are open: they stay, and no new one gets in until there are fewer",
				a.gateway.Stats().Connections)
		}
		r.Changes = append(r.Changes, &petrelv1.LimitChange{Name: string(f.Name()), From: from, To: to, Text: text})
	}
	return r
}

// limitsWith returns the limits in force, changed to those of m that are not 0.
func (a *App) limitsWith(m *petrelv1.ServerLimits) session.Limits {
	l := *a.hub.Limits()
	all := fields(&l)
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		*all[f.Name()] = int(max(v.Int(), -1))
		return true
	})
	if m.Connections != 0 {
		l.Connections = a.files.connections(m.Connections)
	}
	return l
}
