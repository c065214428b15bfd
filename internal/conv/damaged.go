package conv

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/store"
)

// damageAgain is how long a damaged conversation stays out of the log: each of its
// readers meets the damage.
const damageAgain = 10 * time.Minute

// maxDamaged bounds the conversations that damageLog remembers. More of them are
// logged each time.
const maxDamaged = 1024

// damageLog logs what the store could not read, damage once for each conversation
// in damageAgain.
type damageLog struct {
	mu   sync.Mutex // tier 0; guards told
	told map[string]time.Time
}

// log says that what failed with err in a conversation.
func (d *damageLog) log(l *slog.Logger, what, conv string, err error) {
	if errors.Is(err, store.ErrCorrupt) && !d.first(conv) {
		return
	}
	l.Error(what+" failed", "conv", conv, "err", err)
}

func (d *damageLog) first(conv string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if at, ok := d.told[conv]; ok && now.Sub(at) < damageAgain {
		return false
	}
	if d.told == nil {
		d.told = map[string]time.Time{}
	}
	if len(d.told) < maxDamaged {
		d.told[conv] = now
	}
	return true
}
