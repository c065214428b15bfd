package api

import (
	"context"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The bounds of settings. Spec: petrel.v1.Settings, P-8.10.
const (
	maxSettings     = 64   // of the account, of one conversation, of one other user
	maxSettingName  = 64   // bytes
	maxSettingValue = 1024 // bytes
	maxSettingUsers = 1000 // other users for whom one user has settings

	// maxAllSettings bounds the bytes of all settings of a user, each counted with 100 more
	// (inbox.Syncer.SettingsRoom). That is room for three settings of each of 10,000 conversations.
	maxAllSettings = 4 << 20
)

// GetSettings returns a page of the caller's settings.
func (s *Server) GetSettings(ctx context.Context,
	r *petrelv1.GetSettingsRequest) (*petrelv1.GetSettingsResponse, error) {
	a := identity(ctx).Account
	res, err := read(ctx, s, func() (*petrelv1.GetSettingsResponse, error) {
		page, next, err := s.o.Inbox.Settings(ctx, a, im.Seq(r.After))
		return &petrelv1.GetSettingsResponse{Settings: page, Next: uint64(next)}, err
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// ChangeSettings merges values into the caller's settings. A block is in force when the call is answered.
// Spec: P-5.4, P-8.10.
func (s *Server) ChangeSettings(ctx context.Context,
	r *petrelv1.ChangeSettingsRequest) (*petrelv1.ChangeResponse, error) {
	a, m := identity(ctx).Account, r
	if err := checkSettings(m); err != nil {
		return nil, err
	}
	if err := s.checkSubject(ctx, a, m); err != nil {
		return nil, err
	}
	leave, err := s.takeRoom(ctx, a, m)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := s.store(ctx, changeBytes(m)); err != nil {
		return nil, err
	}
	e := &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Settings{Settings: &petrelv1.InboxSettings{Conv: m.Conv,
		User: m.User, Values: m.Values}}}
	q, err := inbox.Write(ctx, s.convs, a, e, entryID(m.RequestId))
	if _, blocks := m.Values[conv.Blocked]; err == nil && blocks && m.User != "" {
		err = s.awaitBlock(ctx, a, im.User(m.User))
	}
	if err != nil {
		return nil, err
	}
	return &petrelv1.ChangeResponse{Seq: uint64(q)}, nil
}

// awaitBlock returns when a block is in the direct conversation of two users, and the requests that it ends have left
// their inboxes.
func (s *Server) awaitBlock(ctx context.Context, a im.Account, other im.User) error {
	ids := s.convs.IDs()
	for _, c := range []im.ConvID{ids.Inbox(a.Tenant, a.User), ids.Direct(a.Tenant, a.User, other)} {
		if err := s.route.AwaitInboxes(ctx, im.Key{Tenant: a.Tenant, Conv: c}); err != nil {
			return err
		}
	}
	return nil
}

// checkSettings checks a change without a look at the present settings. Codes: invalid.
func checkSettings(m *petrelv1.ChangeSettingsRequest) error {
	if len(m.Values) == 0 || len(m.Values) > maxSettings {
		return im.Errorf(im.CodeInvalid, "values has 1 to %d names", maxSettings)
	}
	if m.Conv != "" && m.User != "" {
		return im.Errorf(im.CodeInvalid, "settings are of a conversation or of a user, not of both")
	}
	for name, v := range m.Values {
		if name == "" || len(name) > maxSettingName || len(v) > maxSettingValue || !utf8.ValidString(name+v) {
			return im.Errorf(im.CodeInvalid, "the name of a setting has 1 to %d bytes, its value at most %d",
				maxSettingName, maxSettingValue)
		}
		if m.User != "" && inbox.IsContactName(name) {
			return im.Errorf(im.CodeInvalid, "%s is set by ContactService", name)
		}
		if m.User == "" && m.Conv == "" && name == mutedUntil {
			return im.Errorf(im.CodeInvalid, "only an operator sets %s of an account", name)
		}
		if err := checkKnown(m, name, v); err != nil {
			return err
		}
	}
	return nil
}

// known are the settings whose values the server checks. Spec: P-8.10.
var known = map[string]struct {
	user  bool // a setting for another user, else for a conversation
	valid func(v string) bool
	says  string
}{
	"muted_until": {valid: isNumber, says: "a time in milliseconds"},
	"notify": {valid: func(v string) bool { return v == "all" || v == "mentions" || v == "nothing" },
		says: "all, mentions or nothing"},
	"pinned":     {valid: isNumber, says: "a number, by which pinned conversations are ordered"},
	"archived":   {valid: isOne, says: "1"},
	"unread":     {valid: isOne, says: "1"},
	"cleared_to": {valid: isNumber, says: "a seq"},
	"hidden":     {valid: areSeqs, says: "seqs and ranges of them, ascending, like 3,7-9"},
	"blocked":    {user: true, valid: isOne, says: "1"},
}

func isOne(v string) bool { return v == "1" }

// isNumber reports whether v is a number as JSON clients write it: whole, above 0, without a sign or zeros in
// front, and small enough for a signed 64-bit number.
func isNumber(v string) bool {
	n, err := strconv.ParseUint(v, 10, 64)
	return err == nil && n > 0 && n <= math.MaxInt64 && v == strconv.FormatUint(n, 10)
}

// areSeqs reports whether v lists seqs in the only valid form: ascending, with neighbours as a range.
func areSeqs(v string) bool {
	last := uint64(0)
	for part := range strings.SplitSeq(v, ",") {
		first, end, isRange := strings.Cut(part, "-")
		if !isRange {
			end = first
		}
		if !isNumber(first) || !isNumber(end) {
			return false
		}
		from, _ := strconv.ParseUint(first, 10, 64) // a number
		to, _ := strconv.ParseUint(end, 10, 64)     // a number
		if isRange && from >= to || last > 0 && from <= last+1 {
			return false
		}
		last = to
	}
	return true
}

// checkKnown refuses an invalid value of a known setting. Other names belong to the application.
func checkKnown(m *petrelv1.ChangeSettingsRequest, name, v string) error {
	k, ok := known[name]
	if !ok || k.user != (m.User != "") || !k.user && m.Conv == "" {
		return nil
	}
	if v != "" && !k.valid(v) {
		return im.Errorf(im.CodeInvalid, "%s is %s, or nothing", name, k.says)
	}
	return nil
}

// checkSubject refuses settings of a conversation of which the caller never was a member, for the caller as a user,
// and for an invalid user id. Codes: invalid, no_conversation.
func (s *Server) checkSubject(ctx context.Context, a im.Account, m *petrelv1.ChangeSettingsRequest) error {
	switch {
	case m.Conv != "":
		id, err := im.ParseConvID(m.Conv)
		if err != nil {
			return err
		}
		return s.wasMember(ctx, im.Key{Tenant: a.Tenant, Conv: id}, a.User)
	case m.User == string(a.User):
		return im.Errorf(im.CodeInvalid, "settings for a user must name another user")
	case m.User != "":
		if err := im.User(m.User).Check(); err != nil {
			return err
		}
		// The answer does not tell whether the user exists: nothing depends on it.
	}
	return nil
}
