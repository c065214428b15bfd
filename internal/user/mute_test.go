package user_test

import (
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
)

// A mute is told with the standing of each token of the user, also of a device that logs in later, and ends. Spec: P-14.24.
func TestStandingTellsOfAMute(t *testing.T) {
	w := people(t)
	tokens := []string{w.mint("alice", phone(1)).Access, w.token("", "alice")}
	wants := func(what string, want uint64) {
		t.Helper()
		for _, token := range tokens {
			id, err := w.users.AuthenticateSession(ctx, token)
			w.no(err)
			is, err := w.users.Standing(ctx, user.Identity{Account: id.Account, Device: id.Device, Login: id.Login, Epoch: id.Epoch})
			w.no(err)
			if is.MutedMs != want || id.MutedMs != want {
				t.Errorf("%s: %+v is muted until %d by its standing, want %d", what, id, is.MutedMs, want)
			}
		}
	}
	wants("before", 0)
	until := uint64(w.now.Add(time.Hour).UnixMilli())
	_, err := w.users.Mute(ctx, alice, until)
	w.no(err)
	wants("muted", until)
	tokens = append(tokens, w.mint("alice", user.DeviceRef{ID: "laptop", Kind: "desktop"}).Access)
	wants("after another login", until)
	_, err = w.users.Mute(ctx, alice, uint64(w.now.UnixMilli()))
	w.wantCode("an end that is over", err, im.CodeInvalid)
	_, err = w.users.Mute(ctx, alice, 0)
	w.no(err)
	wants("ended", 0)
	_, err = w.users.Mute(ctx, alice, uint64(w.now.Add(40*24*time.Hour+time.Millisecond).UnixMilli()))
	w.wantCode("too long", err, im.CodeInvalid)
}
