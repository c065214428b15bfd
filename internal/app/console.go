package app

import (
	"context"
	"time"

	"github.com/petrel-im/petrel/internal/api"
	"github.com/petrel-im/petrel/internal/audit"
	"github.com/petrel-im/petrel/internal/console"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/measure"
	"github.com/petrel-im/petrel/internal/session"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// newConsole makes the console of this node.
func (a *App) newConsole() *console.Console {
	return console.New(console.Options{
		Log: a.log, Lines: a.o.Lines, Version: a.o.Version, Begun: a.begun, Bus: a.node.bus, Cluster: a.node.cluster,
		Store: a.store.Store, Users: a.users, Table: a.table,
		Acks: &a.hub.Meter.Acks, Commits: a.convs.CommitTimes(),
		Counters: func() console.Counters {
			return console.Counters{
				Accepted: a.convs.Accepted(), Repeated: a.convs.Repeats(), Delivered: a.convs.Fanned().Delivered,
				CPU:         cpuTime(),
				Connections: int(a.gateway.Stats().Connections), Waiting: a.waiting(),
			}
		},
		Queues: a.queues, Budgets: a.parts, Databases: a.store.reports,
		FrameRefusals: a.hub.Meter.Refusals, CallRefusals: func() *measure.Counts { return a.api.Refusals },
		Logins:   func() map[string]*measure.Counts { return a.api.Logins },
		InboxLag: a.convs.InboxLag, Partitions: func() int { return len(a.convs.Owners()) },
		Draining:  func() bool { return a.draining.Load() || a.away.Load() },
		Failing:   a.refusing.red.Load,
		Behind:    a.store.behind,
		AuditLost: func() (dropped, failed uint64) { return a.audit.Dropped.Load(), a.audit.Failed.Load() },
		Certificate: func() (end time.Time, ok bool) {
			if c := a.certificate.Load(); c != nil && c.Leaf != nil {
				return c.Leaf.NotAfter, true
			}
			return end, false
		},
		FreeBytes: func() uint64 { return a.disk().AvailBytes }, RSSBytes: residentBytes, Taken: a.stored.TakenBy,
		Kind: a.store.kind, MinFreeBytes: a.store.minFree,
		Limits: func() *petrelv1.ServerLimits { return toMessage(a.hub.Limits()) }, PreviewLimits: a.previewLimits,
		SetLimits: a.changeLimits,
	})
}

// gauge makes a Gauge of an amount and its limit; 0: there is no limit.
func gauge[V, L int | int64 | uint64](name string, value V, limit L) *petrelv1.Gauge {
	return &petrelv1.Gauge{Name: name, Value: float64(value), Limit: float64(limit)}
}

func (a *App) queues() []*petrelv1.Gauge {
	lag, limit := a.convs.InboxLag()
	return []*petrelv1.Gauge{
		gauge("sends_waiting", a.waiting(), 0),
		gauge("reads_waiting", a.reads.Waiting(), 0),
		gauge("cursor_moves_waiting", a.convs.MovesWaiting(), 0),
		gauge("note_changes_waiting", a.convs.NoteChangesWaiting(), 0),
		gauge("sends_carried_waiting", a.router.Carrying(), 0),
		gauge("inboxes_behind_ms", lag.Milliseconds(), limit.Milliseconds()),
	}
}

func (a *App) parts() []*petrelv1.Gauge {
	bytes, budget := a.convs.MemoryBytes()
	sends, most := a.convs.AdmittedBytes()
	list := []*petrelv1.Gauge{
		gauge("memory/process", residentBytes(), a.budgets.Total), gauge("memory/conversations", bytes, budget),
		gauge("memory/sends", sends, most),
		gauge("connections", a.gateway.Stats().Connections, a.hub.Limits().Connections),
	}
	if a.store.cache > 0 {
		list = append(list, gauge("memory/store", a.store.Stats().MemoryBytes, a.store.cache))
	}
	return list
}

// noteRefusal keeps a refusal of a session for the console. If it is for
// lack of a right, and not of a send, it also goes to the audit log.
func (a *App) noteRefusal(r session.Refusal) {
	x := &console.Refusal{At: time.Now(), What: r.What, Code: r.Code, Text: r.Text, Account: r.Who.Account,
		Device: r.Who.Device, Address: r.Remote}
	if r.Send != nil {
		x.Conv, x.ClientMsgID = r.Send.Conv, r.Send.ClientMsgId
		a.console.NoteSend(x)
		return
	}
	a.console.Refusals.Note(x)
	if !audit.WantsRight(r.Code) {
		return
	}
	rec := &audit.Record{Event: r.What, Code: r.Code, Address: r.Remote, User: r.Who.Account.User, Device: r.Who.Device}
	if rec.User != "" {
		// TenantName reads no store here: the tenant of a logged-in user is in memory
		rec.Tenant, _ = a.users.TenantName(context.Background(), r.Who.Account.Tenant)
	}
	a.audit.Summed(rec)
}

// noteSendRefused keeps a refusal of a send for the console, if a user has sent it. The owner of the
// conversation has refused it.
func (a *App) noteSendRefused(s *conv.Send, e *im.Error) {
	if s.Entry.From == "" {
		return // the server itself tries again
	}
	x := &console.Refusal{
		At: time.Now(), What: "send", Code: e.Code, Text: e.Message,
		Account: im.Account{Tenant: s.Conv.Tenant, User: im.User(s.Entry.From)}, ClientMsgID: s.Entry.ClientMsgId,
	}
	if s.Conv.Conv != (im.ConvID{}) {
		x.Conv = s.Conv.Conv.String()
	}
	if o := s.Origin.Out; o != nil {
		x.Device = o.Device
		x.Address = o.Conn.ClientAddr()
	}
	a.console.NoteSend(x)
}

// noteCallRefused keeps a refusal of a call.
func (a *App) noteCallRefused(r api.Refusal) {
	x := &console.Refusal{At: time.Now(), What: r.What, Code: r.Code, Text: r.Text, Account: r.Who.Account,
		Device: r.Who.Device, Address: r.Address, Named: r.Named}
	if r.Send != nil {
		x.Conv, x.ClientMsgID = r.Send.Conv, r.Send.ClientMsgId
	}
	a.console.Refusals.Note(x)
}

// ownerOf returns the partition of a conversation, and its known owner; "": none.
func (a *App) ownerOf(id im.ConvID) (im.Partition, im.Node) {
	p := im.PartitionOf(id)
	f := a.store.FeedOf(p)
	if a.convs.Owner(f) != nil || a.node.cluster == nil {
		return p, a.node.bus.Self()
	}
	n, _, _ := a.node.cluster.Route(f)
	return p, n
}

// consoleOf returns the console's functions for the API.
func (a *App) consoleOf() api.Console {
	c := a.console
	return api.Console{
		Overview: c.Overview, Refusals: c.ListRefusals, Log: c.ReadLog, Sessions: c.ListSessions, LastSeen: c.LastSeen,
		Owner: a.ownerOf, Kind: a.store.kind,
		Limits: c.GetLimits, Preview: c.PreviewLimits, SetLimits: c.SetLimits,
		Online: func(who im.Account) bool { return a.table.Online(a.table.Hash(who)) },
		OnlineAt: func(who im.Account) []im.Node {
			if a.node.fan == nil {
				return nil
			}
			return a.node.fan.NodesOf(a.table, who)
		},
	}
}
