package user

import (
	"context"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// maxMute is the longest mute: a refusal tells the rest of it in 32 bits of milliseconds.
const maxMute = 40 * 24 * time.Hour

// Mute lets a user write nothing until a time in Unix milliseconds; 0 ends that. All nodes recheck
// the sessions of the user, and learn it by that. Codes: invalid, no_user. Spec: P-14.24.
func (us *Users) Mute(ctx context.Context, a im.Account, untilMs uint64) (Info, error) {
	if untilMs > us.nowMs()+uint64(maxMute.Milliseconds()) {
		return Info{}, im.Errorf(im.CodeInvalid, "a mute lasts at most %d days", maxMute/(24*time.Hour))
	}
	if untilMs > 0 && untilMs <= us.nowMs() {
		return Info{}, im.Errorf(im.CodeInvalid, "the end of the mute is over: it is in Unix milliseconds, and 0 ends a mute")
	}
	i, _, err := us.changeStanding(ctx, a, func(is *im.Standing) { is.MutedMs = untilMs })
	return i, err
}

// SetPrivateReading sets whether others learn how far a user has read. All nodes recheck the sessions of the user.
// Codes: no_user. Spec: P-14.14.
func (us *Users) SetPrivateReading(ctx context.Context, a im.Account, private bool) (Info, Profile, error) {
	return us.changeStanding(ctx, a, func(is *im.Standing) { is.PrivateReading = private })
}

// changeStanding changes the standing in the records of a user and of all their devices.
func (us *Users) changeStanding(ctx context.Context, a im.Account,
	f func(*im.Standing)) (i Info, p Profile, err error) {
	i, err = us.changeUser(ctx, a, func(c *change, u *storepb.User) error {
		is := standingOf(u)
		f(&is)
		u.MutedMs, u.PrivateReading, c.ends = is.MutedMs, is.PrivateReading, a
		p = us.profile(a, u, asOneself)
		list, err := c.devices(ctx, a)
		for _, d := range list {
			d.MutedMs, d.PrivateReading = is.MutedMs, is.PrivateReading
			if err := c.putDevice(a, d.id, d.Device); err != nil {
				return err
			}
		}
		return err
	})
	return i, p, err
}

// CheckMuted refuses what others would read, while the user of an identity is muted. Codes: muted.
func (us *Users) CheckMuted(id Identity) error {
	if now := us.nowMs(); id.MutedMs > now {
		return &im.Error{Code: im.CodeMuted, RetryAfter: time.Duration(id.MutedMs-now) * time.Millisecond}
	}
	return nil
}
