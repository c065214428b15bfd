package pebblestore

import (
	"fmt"
	"strings"
	"time"
)

// Damaged is the error of Open for a store that has lost or changed acked data. Open has changed neither the database
// nor the witness. Repair accepts the loss.
type Damaged struct {
	Dir     string
	Missing string // the missing or changed data, unless it is commits
	Cause   error  // Pebble's error, if Pebble found the damage
	Mark    string // path of the store mark, if the mark proves the loss
	// Rewound: the store may be an earlier state of itself. Its files are not known to be damaged. Renew accepts it,
	// Repair does not.
	Rewound bool

	// First and Last are the numbers of the first and the last missing commit; 0: not known.
	First, Last uint64
	// RecoveredMs is the time of the newest commit that is there, and WitnessedMs that of the newest acked
	// commit, in Unix milliseconds; 0: not known.
	RecoveredMs, WitnessedMs uint64
}

// Error names the missing data and the remedy.
func (d *Damaged) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "open %s: ", d.Dir)
	if d.Last > 0 {
		fmt.Fprintf(&b, "commits %d to %d are missing: the last one found is of %s, the last one acked of %s",
			d.First, d.Last, stamp(d.RecoveredMs), stamp(d.WitnessedMs))
	} else {
		b.WriteString(d.Missing)
	}
	if d.Cause != nil {
		fmt.Fprintf(&b, ": %v", plain{d.Cause})
	}
	if mark := ""; d.Rewound {
		if d.Mark != "" {
			mark = " --store-mark " + d.Mark
		}
		fmt.Fprintf(
			&b, "; put the newest state of the folder back, or run \"petrel repair --new-history --data %s%s\" to go on with this one: clients then drop what they have stored", d.Dir, mark)
	} else {
		fmt.Fprintf(&b, "; run \"petrel repair --data %s\" to accept the loss", d.Dir)
	}
	return b.String()
}

// Unwrap returns Pebble's error.
func (d *Damaged) Unwrap() error { return d.Cause }

func stamp(ms uint64) string {
	if ms == 0 {
		return "an unknown time"
	}
	return time.UnixMilli(int64(ms)).UTC().Format("2006-01-02 15:04:05.000 MST")
}
