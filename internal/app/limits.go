package app

import (
	"fmt"

	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/session"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// limits maps the configuration to the hub's limits.
func limits(l *config.Limits, f *Files) session.Limits {
	return session.Limits{
		Connections: f.connections(l.Connections), ConnectionsPerUser: int(l.ConnectionsPerUser), ConnectionsPerIP: int(l.ConnectionsPerIP),
		NewPerIPPerSecond: int(l.NewConnectionsPerIPPerS), Unauthenticated: int(l.Unauthenticated), UnauthenticatedPerIP: int(l.UnauthenticatedPerIP),
		SendsPerSecond: int(l.SendsPerS), SendBurst: int(l.SendBurst), WindowSends: int(l.WindowSends), WindowBytes: int(l.WindowBytes), OutboxBytes: int(l.OutboxBytes),
		FrameBytesBeforeHello: int(l.HelloFrameBytes), BodyBytes: int(l.BodyBytes), HistoryMessages: int(l.HistoryMessages),
	}
}

func toMessage(l *session.Limits) *petrelv1.ServerLimits {
	return &petrelv1.ServerLimits{
		Connections: int64(l.Connections), ConnectionsPerUser: int64(l.ConnectionsPerUser), ConnectionsPerIp: int64(l.ConnectionsPerIP),
		NewConnectionsPerIpPerS: int64(l.NewPerIPPerSecond), Unauthenticated: int64(l.Unauthenticated), UnauthenticatedPerIp: int64(l.UnauthenticatedPerIP),
		SendsPerS: int64(l.SendsPerSecond), SendBurst: int64(l.SendBurst), WindowSends: int64(l.WindowSends), WindowBytes: int64(l.WindowBytes), OutboxBytes: int64(l.OutboxBytes),
	}
}

// changeLimits takes over what is not 0 in m on this node, and says what that has changed.
func (a *App) changeLimits(m *petrelv1.ServerLimits) *petrelv1.PreviewLimitsResponse {
	a.limitsMu.Lock()
	defer a.limitsMu.Unlock()
	r := a.previewLimits(m)
	a.hub.SetLimits(a.limitsWith(m))
	return r
}

// previewLimits says what changeLimits would change.
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
			text = fmt.Sprintf("%d connections are open: they stay, and no new one gets in until there are fewer", a.gateway.Stats().Connections)
		}
		r.Changes = append(r.Changes, &petrelv1.LimitChange{Name: string(f.Name()), From: from, To: to, Text: text})
	}
	return r
}

// limitsWith are the limits with what is not 0 in m.
func (a *App) limitsWith(m *petrelv1.ServerLimits) session.Limits {
	l := *a.hub.Limits()
	set := func(to *int, n int64) {
		if n != 0 {
			*to = int(max(n, -1))
		}
	}
	if m.Connections != 0 {
		l.Connections = a.files.connections(m.Connections)
	}
	set(&l.ConnectionsPerUser, m.ConnectionsPerUser)
	set(&l.ConnectionsPerIP, m.ConnectionsPerIp)
	set(&l.NewPerIPPerSecond, m.NewConnectionsPerIpPerS)
	set(&l.Unauthenticated, m.Unauthenticated)
	set(&l.UnauthenticatedPerIP, m.UnauthenticatedPerIp)
	set(&l.SendsPerSecond, m.SendsPerS)
	set(&l.SendBurst, m.SendBurst)
	set(&l.WindowSends, m.WindowSends)
	set(&l.WindowBytes, m.WindowBytes)
	set(&l.OutboxBytes, m.OutboxBytes)
	return l
}
