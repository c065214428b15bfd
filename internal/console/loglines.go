package console

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Bounds of the kept lines of the log.
const (
	keptLines = 2000
	maxLine   = 500 // bytes of text, and of attributes
)

// Line is a line of the log.
type Line struct {
	At    time.Time
	Level slog.Level
	Text  string
	Attrs string
}

// Lines are the last lines of the log of a node. The zero value is empty; any goroutine may
// use it.
type Lines struct {
	mu   sync.Mutex // tier 0; guards the fields below
	ring []Line
	next int
}

func (l *Lines) add(x Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ring) < keptLines {
		l.ring = append(l.ring, x)
		return
	}
	l.ring[l.next] = x
	l.next = (l.next + 1) % keptLines
}

// List returns the newest lines that fit, oldest first, at most limit.
func (l *Lines) List(limit int, fits func(*Line) bool) []Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []Line
	for i := len(l.ring) - 1; i >= 0 && len(list) < limit; i-- {
		if x := &l.ring[(l.next+i)%len(l.ring)]; fits(x) {
			list = append(list, *x)
		}
	}
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
	return list
}

// Keep returns a handler that passes lines on to h and keeps them too.
func (l *Lines) Keep(h slog.Handler) slog.Handler { return &keeper{Handler: h, lines: l} }

type keeper struct {
	slog.Handler
	lines *Lines
	group string
	attrs string // attributes of With, as text
}

// Handle implements slog.Handler.
func (k *keeper) Handle(ctx context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(k.attrs)
	r.Attrs(func(a slog.Attr) bool {
		appendAttr(&b, k.group, a)
		return b.Len() < maxLine
	})
	k.lines.add(Line{r.Time, r.Level, cut(r.Message), cut(b.String())})
	return k.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (k *keeper) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	b.WriteString(k.attrs)
	for _, a := range attrs {
		appendAttr(&b, k.group, a)
	}
	return &keeper{k.Handler.WithAttrs(attrs), k.lines, k.group, b.String()}
}

// WithGroup implements slog.Handler.
func (k *keeper) WithGroup(name string) slog.Handler {
	return &keeper{k.Handler.WithGroup(name), k.lines, k.group + name + ".", k.attrs}
}

func appendAttr(b *strings.Builder, group string, a slog.Attr) {
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	v := a.Value.Resolve()
	text := v.String()
	if strings.ContainsAny(text, " \t\n\"=") || text == "" {
		text = fmt.Sprintf("%q", text)
	}
	b.WriteString(group + a.Key + "=" + text)
}

func cut(s string) string {
	if len(s) > maxLine {
		return strings.ToValidUTF8(s[:maxLine], "") + "…"
	}
	return strings.Clone(s)
}
