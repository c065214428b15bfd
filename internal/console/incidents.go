package console

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// guide is the page that says what to do about an incident, by its code.
const guide = "guide/console#"

// Incidents knows since when each incident lasts. The zero value is empty; any goroutine may
// use it.
type Incidents struct {
	mu    sync.Mutex // tier 0; guards since
	since map[incidentKey]uint64
}

type incidentKey struct{ code, node string }

// Note takes the incidents of now. It sets since when they last, as far as they have no time,
// and forgets those that are over.
func (i *Incidents) Note(now time.Time, list []*petrelv1.Incident) {
	i.mu.Lock()
	defer i.mu.Unlock()
	was := i.since
	i.since = make(map[incidentKey]uint64, len(list))
	for _, x := range list {
		k := incidentKey{x.Code, x.Node}
		if x.SinceMs == 0 {
			x.SinceMs = cmp.Or(was[k], uint64(now.UnixMilli()))
		}
		i.since[k] = x.SinceMs
		x.Link = guide + x.Code
	}
}

// Worst orders incidents, the worst first, and returns the verdict on all of them.
func Worst(list []*petrelv1.Incident) petrelv1.Verdict {
	slices.SortStableFunc(list, func(a, b *petrelv1.Incident) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.SinceMs, b.SinceMs), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Node, b.Node))
	})
	if len(list) == 0 {
		return petrelv1.Verdict_VERDICT_WELL
	}
	return list[0].Severity
}

func inOrder(all []*petrelv1.Sample) []*petrelv1.Sample {
	slices.SortFunc(all, func(a, b *petrelv1.Sample) int { return cmp.Compare(a.TimeMs, b.TimeMs) })
	return all
}
