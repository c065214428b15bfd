// Package repeats sums up repeated lines of a log, so that they do not fill it. The first line is written at
// once. Its repeats are counted, and after a while one line says how many there were. Only warnings and
// errors are counted: other lines report changes.
package repeats

import (
	"context"
	"hash/maphash"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	firstWait = 10 * time.Second // from the first line to the sum of its repeats
	maxWait   = 10 * time.Minute // for the next sum: while a line repeats, each wait is twice the one before
	maxLines  = 1024             // that are counted at a time; others are written each time
	// the number of equal lines with a request id that are written before repeats are counted: people search for
	// the ids
	withID = 10
)

// Handler is a slog.Handler that sums up lines.
type Handler struct {
	next  slog.Handler
	with  string // the attributes and groups of WithAttrs and WithGroup
	lines *lines
}

// lines has the lines that were written lately.
type lines struct {
	seed maphash.Seed

	mu sync.Mutex // tier 0; guards the field below
	of map[uint64]*line
}

// line is one line that may repeat.
type line struct {
	due     time.Time     // when its sum is written
	wait    time.Duration // from the first line, or the sum before, to due
	written int           // how often it was written before repeats were counted
	count   int           // repeats since the last sum
	last    slog.Record   // the last of these repeats
	next    slog.Handler
}

// New makes a handler that writes to another one. Run writes the sums.
func New(next slog.Handler) *Handler {
	return &Handler{next: next, lines: &lines{seed: maphash.MakeSeed(), of: map[uint64]*line{}}}
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	b.WriteString(h.with)
	for _, a := range attrs {
		writeAttr(&b, a)
	}
	return &Handler{h.next.WithAttrs(attrs), b.String(), h.lines}
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.next.WithGroup(name), h.with + name + ".", h.lines}
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn || !h.lines.repeats(h, r) {
		return h.next.Handle(ctx, r)
	}
	return nil
}

// repeats tells whether r repeats a line that was written lately, and counts it if so.
func (l *lines) repeats(h *Handler, r slog.Record) bool {
	key, id := h.key(r)
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.of[key]
	if x == nil {
		if len(l.of) < maxLines {
			l.of[key] = &line{due: now.Add(firstWait), wait: firstWait, written: 1}
		}
		return false
	}
	if id && x.written < withID && x.count == 0 {
		x.written++
		return false
	}
	x.count++
	x.last, x.next = r.Clone(), h.next
	return true
}

// key returns a hash by which lines are compared. Digits in errors do not count, because they are the number
// of a try or a port. id: the line has a request id.
func (h *Handler) key(r slog.Record) (key uint64, id bool) {
	var b strings.Builder
	b.WriteString(r.Level.String())
	b.WriteString(r.Message)
	b.WriteString(h.with)
	r.Attrs(func(a slog.Attr) bool {
		id = id || a.Key == "req"
		writeAttr(&b, a)
		return true
	})
	return maphash.String(h.lines.seed, b.String()), id
}

// writeAttr writes the part of an attribute that counts in a comparison: texts, errors without digits, and
// the number of a feed or partition.
func writeAttr(b *strings.Builder, a slog.Attr) {
	v := a.Value.Resolve()
	switch {
	case a.Key == "req" || a.Key == "stack":
		return
	case a.Key == "feed" || a.Key == "partition":
	case v.Kind() == slog.KindString && a.Key != "err":
	case v.Kind() == slog.KindString || v.Kind() == slog.KindAny:
		b.WriteString(a.Key)
		for _, c := range v.String() {
			if c < '0' || c > '9' {
				b.WriteRune(c)
			}
		}
		return
	default:
		return
	}
	b.WriteString(a.Key)
	b.WriteString(v.String())
}

// Run writes the sums when they are due. When ctx ends, it writes those that are left.
func (h *Handler) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			h.lines.write(ctx, false)
		case <-ctx.Done():
			h.lines.write(context.WithoutCancel(ctx), true)
			return
		}
	}
}

// write writes the sums that are due; all: also the others.
func (l *lines) write(ctx context.Context, all bool) {
	now := time.Now()
	type sum struct {
		next slog.Handler
		r    slog.Record
	}
	var sums []sum
	l.mu.Lock()
	for key, x := range l.of {
		if !all && now.Before(x.due) {
			continue
		}
		if x.count == 0 {
			delete(l.of, key) // the line has not repeated since the last sum
			continue
		}
		r := x.last
		r.Time = now
		r.AddAttrs(slog.Int("repeated", x.count), slog.Duration("within", x.wait))
		sums = append(sums, sum{x.next, r})
		x.wait = min(2*x.wait, maxWait)
		x.due, x.count, x.last, x.next = now.Add(x.wait), 0, slog.Record{}, nil
	}
	l.mu.Unlock()
	for _, s := range sums {
		_ = s.next.Handle(ctx, s.r) // slog.Logger ignores it as well
	}
}
