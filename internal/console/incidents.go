package console

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// guide is the page with an anchor for each code of an incident, which explains it and its remedy.
const guide = "guide/console#"

// Bounds of the past incidents. An incident that comes back within a minute counts as one that never ended: if it
// flaps, it must not push out the others.
const (
	keptPast = 100
	pastTime = 24 * time.Hour
	backTime = time.Minute
	pastLate = 5 * time.Second // for clocks that differ, and for the time of an answer
)

// Incidents has the present incidents with their beginnings, and those that ended within a day. The zero value is
// empty; any goroutine may use it.
type Incidents struct {
	mu   sync.Mutex // tier 0; guards the fields below
	last map[incidentKey]*petrelv1.Incident
	past []*petrelv1.Incident // ordered by their end, at most keptPast; none is changed any more
}

type incidentKey struct{ code, node string }

// Note takes the present incidents. It sets their links, and the beginning of each that has none. It moves those
// that are over to the past ones, and forgets past ones that are too old or too many.
func (i *Incidents) Note(now time.Time, list []*petrelv1.Incident) {
	i.mu.Lock()
	defer i.mu.Unlock()
	was := i.last
	i.last = make(map[incidentKey]*petrelv1.Incident, len(list))
	for _, x := range list {
		k := incidentKey{x.Code, x.Node}
		if x.SinceMs == 0 {
			x.SinceMs = cmp.Or(was[k].GetSinceMs(), uint64(now.UnixMilli()))
		}
		i.last[k] = x
		x.Link = guide + x.Code
	}
	for k, x := range was {
		if i.last[k] == nil {
			i.endLocked(now, x)
		}
	}
	old := uint64(now.Add(-pastTime).UnixMilli())
	from := max(0, len(i.past)-keptPast)
	for from < len(i.past) && i.past[from].EndedMs < old {
		from++
	}
	i.past = i.past[:copy(i.past, i.past[from:])]
}

// endLocked adds an incident that is over to the past ones. If it had ended before and come back within backTime,
// it replaces that past one, and keeps its beginning.
func (i *Incidents) endLocked(now time.Time, x *petrelv1.Incident) {
	x = proto.CloneOf(x)
	x.EndedMs = uint64(now.UnixMilli())
	same := func(p *petrelv1.Incident) bool {
		return p.Code == x.Code && p.Node == x.Node && p.EndedMs+uint64(backTime.Milliseconds()) >= x.SinceMs
	}
	if at := slices.IndexFunc(i.past, same); at >= 0 {
		x.SinceMs = i.past[at].SinceMs
		i.past = slices.Delete(i.past, at, at+1)
	}
	i.past = append(i.past, x)
}

// Past returns the incidents that ended after a time (Unix milliseconds), ordered by their end. Because clocks of
// nodes differ, some may have ended shortly before it.
func (i *Incidents) Past(afterMs uint64) []*petrelv1.Incident {
	i.mu.Lock()
	defer i.mu.Unlock()
	at, _ := slices.BinarySearchFunc(i.past, afterMs, func(x *petrelv1.Incident, ms uint64) int {
		return cmp.Compare(x.EndedMs+uint64(pastLate.Milliseconds()), ms)
	})
	return slices.Clone(i.past[at:])
}

// Worst sorts incidents, the worst first, and returns the verdict on all of them.
func Worst(list []*petrelv1.Incident) petrelv1.Verdict {
	slices.SortStableFunc(list, func(a, b *petrelv1.Incident) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.SinceMs, b.SinceMs),
			cmp.Compare(a.Code, b.Code), cmp.Compare(a.Node, b.Node))
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
