package operator

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// SetupTime is how long the one-time setup code of a start is valid.
const SetupTime = 15 * time.Minute

// openSetups is the key of the setting with the open setup codes. Each node that starts without an admin key
// shows a code, and any node takes it. If no other node uses the store, only one code is open. The setting has
// setupEntry bytes for each code: its SHA-256, and its end in Unix milliseconds. The first key empties the
// setting, so a node that is just opening a code finds it changed, and begins anew.
var openSetups = []byte("setup")

const (
	setupEntry = sha256.Size + 8
	maxSetups  = 64 // codes open at once; the oldest are forgotten
)

// setups reads the open codes. closed: there is an admin key, so none is valid.
func (c *change) setups(ctx context.Context) (open [][]byte, closed bool, err error) {
	value, err := c.Record(ctx, store.Settings, 0, openSetups)
	if err != nil {
		return nil, false, err
	}
	for e := range slices.Chunk(value, setupEntry) {
		if len(e) == setupEntry && binary.BigEndian.Uint64(e[sha256.Size:]) > c.os.nowMs() {
			open = append(open, e)
		}
	}
	err = c.os.store.Records(ctx, store.Tokens, 0, nil, func(_, _ []byte) bool {
		closed = true
		return false
	})
	return open, closed, err
}

func (c *change) putSetups(open [][]byte) {
	c.Put(store.Settings, 0, openSetups, append([]byte{}, slices.Concat(open...)...))
}

// OpenSetup makes a one-time code for the first admin key, and ends the one that this node made before. It
// returns "" if the store has an admin key. Codes: disk_full, store_stalled.
func (os *Operators) OpenSetup(ctx context.Context) (code string, err error) {
	var sum [sha256.Size]byte
	err = os.change(ctx, func(c *change) error {
		code = ""
		open, closed, err := c.setups(ctx)
		if err != nil || closed {
			return err
		}
		code = secret()
		sum = sha256.Sum256([]byte(code))
		os.mu.Lock()
		before := os.setup
		os.mu.Unlock()
		open = slices.DeleteFunc(open, func(e []byte) bool {
			return !os.o.Shared ||
				bytes.Equal(e[:sha256.Size], before)
		})
		open = append(open, binary.BigEndian.AppendUint64(sum[:], uint64(os.o.Now().Add(SetupTime).UnixMilli())))
		c.putSetups(open[max(0, len(open)-maxSetups):])
		return nil
	})
	if err != nil {
		return "", err
	}
	os.mu.Lock()
	os.setup = sum[:]
	os.mu.Unlock()
	return code, nil
}

// Redeem exchanges a setup code for the first admin key. Only one key is made, however many calls come at the
// same time, with whichever codes, on whichever nodes. With a request id the key is derived from the code and the
// id, so a caller who has lost the answer gets the same key again. Codes: setup_closed.
func (os *Operators) Redeem(ctx context.Context, code, requestID string) (string, error) {
	key := keyPrefix + secret()
	if requestID != "" {
		sum := hmac.New(sha256.New, []byte(code))
		sum.Write([]byte(requestID))
		key = keyPrefix + base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
	}
	err := os.change(ctx, func(c *change) error {
		open, closed, err := c.setups(ctx)
		if err != nil {
			return err
		}
		if was, err := c.hasKey(ctx, key); was || err != nil {
			return err
		}
		sum := sha256.Sum256([]byte(code))
		if closed || !slices.ContainsFunc(open, func(e []byte) bool { return bytes.Equal(e[:sha256.Size], sum[:]) }) {
			return &im.Error{Code: im.CodeSetupClosed}
		}
		c.putSetups(nil)
		return c.putKey(key, &storepb.Token{Name: "setup", Scopes: []string{ScopeAdmin}})
	})
	if err != nil {
		return "", err
	}
	return key, nil
}
