package api

import (
	"context"
	"strconv"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// mutedUntil is the setting of the account that tells the devices of a user until when they are muted. Only the
// server sets it.
const mutedUntil = "muted_until"

// MuteUser lets a user write nothing until a time, or ends that. Spec: P-14.24.
func (s *Server) MuteUser(ctx context.Context, a im.Account, r *petrelv1.MuteUserRequest) (*petrelv1.UserInfo, error) {
	var was, now user.Info
	res, err := s.changeUser(ctx, a, "", func() (_ user.Info, err error) {
		if was, err = s.users.Get(ctx, a); err == nil {
			now, err = s.users.Mute(ctx, a, r.UntilMs)
		}
		return now, err
	})
	if err != nil {
		return nil, err
	}
	if err := s.o.Announce(ctx, a, now.Standing); err != nil {
		return nil, err
	}
	before, until := was.Standing.MutedMs, now.Standing.MutedMs
	recordChange(ctx, "muted_until_ms", strconv.FormatUint(before, 10), strconv.FormatUint(until, 10))
	value := ""
	if until > 0 {
		value = strconv.FormatUint(until, 10)
	}
	e := &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Settings{Settings: &petrelv1.InboxSettings{
		Values: map[string]string{mutedUntil: value}}}}
	if _, err := inbox.Write(ctx, s.convs, a, e, entryID(r.RequestId)); err != nil {
		return nil, err
	}
	return res, nil
}

// guardPublic refuses what others would read while its caller is muted. A send is judged by its conversation, which
// knows whether it is stored already. Codes: muted. Spec: P-14.24.
func (s *Server) guardPublic(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if table[procedure(req.Spec())].public {
			if err := s.users.CheckMuted(identity(ctx)); err != nil {
				return nil, err
			}
		}
		return next(ctx, req)
	}
}
