package user

import (
	"context"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// FirstMessages says what becomes of messages of strangers. The numbers are those of petrel.v1.FirstMessages, and
// stored. Spec: P-14.11.
type FirstMessages uint32

// These values of FirstMessages are the rule of a tenant, or the choice of a user; 0: there is none.
const (
	FirstOpen     FirstMessages = 1
	FirstRequests FirstMessages = 2
	FirstClosed   FirstMessages = 3
)

func (f FirstMessages) check() error {
	if f > FirstClosed {
		return im.Errorf(im.CodeInvalid, "first messages are open, requests or closed")
	}
	return nil
}

// SetFirstMessageRule sets the rule of a tenant, and makes the tenant if there is none. Codes: invalid.
func (us *Users) SetFirstMessageRule(ctx context.Context, tenant string, f FirstMessages) (TenantInfo, error) {
	if err := f.check(); err != nil {
		return TenantInfo{}, err
	}
	i, err := us.changeTenant(ctx, tenant, func(rec *storepb.Tenant) { rec.FirstMessages = uint32(f) })
	us.firstRules.Clear()
	return i, err
}

// SetFirstMessages sets the choice of a user. Codes: invalid, no_user, forbidden (the tenant has no rule).
func (us *Users) SetFirstMessages(ctx context.Context, a im.Account, f FirstMessages) (Info, Profile, error) {
	if err := f.check(); err != nil {
		return Info{}, Profile{}, err
	}
	switch rule, err := us.FirstMessageRule(ctx, a.Tenant); {
	case err != nil:
		return Info{}, Profile{}, err
	case rule == 0 && f > 0:
		return Info{}, Profile{}, im.Errorf(im.CodeForbidden, "here everybody writes to everybody")
	}
	return us.setPolicy(ctx, a, func(u *storepb.User) *uint32 { return &u.FirstMessages }, uint32(f),
		uint32(FirstClosed), "open, requests or closed")
}

// ruleKept is how long a node keeps the rule of a tenant, so that new conversations do not read it each time.
const ruleKept = time.Second

// firstRule is the rule of a tenant as it was read.
type firstRule struct {
	rule FirstMessages
	read time.Time
}

// FirstMessageRule returns the rule of a tenant, as it was at most ruleKept ago.
func (us *Users) FirstMessageRule(ctx context.Context, t im.Tenant) (FirstMessages, error) {
	if v, ok := us.firstRules.Load(t); ok {
		if r := v.(firstRule); us.now().Sub(r.read) < ruleKept { // as it is stored below
			return r.rule, nil
		}
	}
	read := us.now()
	rec, err := us.tenantRecord(ctx, t)
	if err != nil {
		return 0, err
	}
	r := firstRule{FirstMessages(rec.GetFirstMessages()), read}
	us.firstRules.Store(t, r)
	return r.rule, nil
}

// FirstMessagesOf returns what becomes of first messages to a user, as a number of FirstMessages. It reads the
// user only if the tenant has a rule.
func (us *Users) FirstMessagesOf(ctx context.Context, a im.Account) (uint32, error) {
	rule, err := us.FirstMessageRule(ctx, a.Tenant)
	if err != nil || rule == 0 {
		return 0, err
	}
	u, err := us.read(ctx, a)
	return uint32(chosen(rule, u)), err
}

// chosen returns the choice of a user under the rule of the tenant.
func chosen(rule FirstMessages, u *storepb.User) FirstMessages {
	if own := FirstMessages(u.GetFirstMessages()); rule > 0 && own > 0 {
		return own
	}
	return rule
}
