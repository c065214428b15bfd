package user

import (
	"context"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

const (
	maxReportContext     = 20
	defaultReportContext = 5
)

// SetReportRules sets how many messages a report keeps beside the reported one in a tenant, and makes the tenant if
// there is none. Codes: invalid. Spec: P-14.21.
func (us *Users) SetReportRules(ctx context.Context, tenant string, n uint32) (TenantInfo, error) {
	if n > maxReportContext {
		return TenantInfo{}, im.Errorf(im.CodeInvalid, "a report keeps at most %d messages beside the reported one",
			maxReportContext)
	}
	return us.changeTenant(ctx, tenant, func(rec *storepb.Tenant) { rec.ReportContext = n + 1 })
}

// ReportContext returns how many messages a report keeps beside the reported one in a tenant; 0: it keeps none, also
// not the reported one.
func (us *Users) ReportContext(ctx context.Context, t im.Tenant) (uint32, error) {
	rec, err := us.tenantRecord(ctx, t)
	return reportContext(rec), err
}

func reportContext(rec *storepb.Tenant) uint32 {
	if n := rec.GetReportContext(); n > 0 {
		return n - 1
	}
	return defaultReportContext
}
