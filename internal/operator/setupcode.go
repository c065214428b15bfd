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

// openSetups is the setting with the codes that are open. Each node that starts
// without an admin key shows one, and any node takes it; on a store of its own a
// node has one only. It has an entry of
// setupEntry bytes for each: the code's SHA-256, and when it ends in Unix
// milliseconds. Behind the first key it stays, empty: who planned to open one
// before that is too late then.
var openSetups = []byte("setup")

const (
	setupEntry = sha256.Size + 8
	maxSetups  = 64 // open at once; the oldest are forgotten
)

// setups reads the codes that are open. closed: there is an admin key.
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

// OpenSetup draws the one-time code with which the first admin key is made, and
// ends the one before of this node. It returns "" when the store has an admin
// key already. Codes: disk_full, store_stalled.
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

// Redeem turns a setup code into the first admin key. It works once, however
// many ask at the same time, for whichever codes and on whichever nodes. With a request id
// the key is made from both, so that who has lost the answer gets the same key again.
// Codes: setup_closed.
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
