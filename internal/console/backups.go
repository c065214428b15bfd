package console

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// backups is the state of the backups of an embedded store, as the command petrel backup has reported it.
type backups struct {
	looked time.Time // when the reports were read
	made   time.Time // when the newest one was made; zero: none is known
	due    time.Time // when the next one is late
	fault  string    // that a verification has found in the newest one
}

// look reads the reports, every ten seconds at most. It leaves out a report that cannot be decoded. If the store
// returns an error, the state stays as it was.
func (b *backups) look(st store.Store, now time.Time) {
	if now.Sub(b.looked) < backupsEvery && now.After(b.looked) {
		return
	}
	b.looked = now
	var made []time.Time
	var last *storepb.Backup
	ctx := context.Background() // an embedded store does not wait for anything
	err := st.Records(ctx, store.Backups, 0, nil, func(_, value []byte) bool {
		x := &storepb.Backup{}
		if x.UnmarshalVT(append([]byte(nil), value...)) == nil {
			made, last = append(made, time.UnixMilli(int64(x.MadeMs))), x
		}
		return true
	})
	if err != nil {
		return
	}
	if len(made) == 0 {
		begun := now
		// Without a backup, the oldest audit record stands for the start of the store. Its key begins with its
		// time.
		if err := st.RecordsFrom(ctx, store.Audit, 0, nil, func(key, _ []byte) bool {
			if len(key) >= 8 {
				begun = time.UnixMilli(int64(binary.BigEndian.Uint64(key)))
			}
			return false
		}); err != nil {
			return
		}
		made = append(made, begun)
		b.made, b.fault = time.Time{}, ""
	} else {
		b.made, b.fault = made[len(made)-1], ""
		if last.VerifiedMs > 0 && !last.Sound {
			b.fault = last.Fault
			if b.fault == "" {
				b.fault = "not sound"
			}
		}
	}
	b.due = backupDue(made)
}

// backupDue returns when the next backup is late: after twice the interval between the last two, but not before
// two days, and at the latest after eight days (a week and a day). With only one backup it is eight days.
func backupDue(made []time.Time) time.Time {
	last := made[len(made)-1]
	wait := lateBackup
	if len(made) > 1 {
		wait = min(max(2*last.Sub(made[len(made)-2]), earlyBackup), lateBackup)
	}
	return last.Add(wait)
}
