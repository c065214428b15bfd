package app

import (
	"github.com/petrel-im/petrel/internal/audit"
	"github.com/petrel-im/petrel/internal/metrics"
)

// openAudit makes the audit log of this node, and notes the start.
func (a *App) openAudit() {
	a.audit = audit.New(audit.Options{Log: a.log, Keep: a.cfg.Audit.Keep}, a.store.Store, a.node.bus.Self())
	a.audit.Note(&audit.Record{Event: "start", Details: []audit.Detail{{Name: "version", Value: a.o.Version}}})
}

// auditValues returns the figures of the audit log.
func (a *App) auditValues() []metrics.Value {
	return []metrics.Value{
		{Name: "petrel_audit_records_total", Help: "Records that this node wrote to the audit log.", Counter: true,
			Read: func() float64 { return float64(a.audit.Written.Load()) }},
		{Name: "petrel_audit_dropped_total",
			Help: "Records of the audit log that were lost, because too many were waiting.", Counter: true,
			Read: func() float64 { return float64(a.audit.Dropped.Load()) }},
		{Name: "petrel_audit_failures_total", Help: "Times that the audit log could not be written.", Counter: true,
			Read: func() float64 { return float64(a.audit.Failed.Load()) }},
	}
}
