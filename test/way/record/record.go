// Package record notes which functions of the server are called, by whom, in
// what order and on which goroutines. The server does not import it: test/way
// builds a copy of the server in which each function begins with a call of
// Enter.
package record

import (
	"bytes"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Call is one call of a function.
type Call struct {
	Goroutine uint64
	Stack     []Frame // the function itself first
}

// Frame is one function on a stack.
type Frame struct {
	File string // its absolute path
	Func string // without its package: "Owner.submit"
}

// MaxDepth of a stack that is noted; no stack of the server is as deep.
const MaxDepth = 128

type call struct {
	goroutine uint64
	stack     []uintptr
}

var (
	on    atomic.Bool
	mu    sync.Mutex // tier 0; guards calls
	calls []call
)

// Enter notes a call of the function that calls it, between Start and Stop.
func Enter() {
	if !on.Load() {
		return
	}
	c := call{goroutine: goroutine(), stack: make([]uintptr, MaxDepth)}
	c.stack = c.stack[:runtime.Callers(2, c.stack)]
	mu.Lock()
	calls = append(calls, c)
	mu.Unlock()
}

// goroutine is the number of the running goroutine.
func goroutine() uint64 {
	var b [64]byte
	_, rest, _ := bytes.Cut(b[:runtime.Stack(b[:], false)], []byte("goroutine "))
	digits, _, _ := bytes.Cut(rest, []byte(" "))
	n, _ := strconv.ParseUint(string(digits), 10, 64) // the runtime writes digits
	return n
}

// Start begins to note calls.
func Start() { on.Store(true) }

// Len is how many calls are noted.
func Len() int {
	mu.Lock()
	defer mu.Unlock()
	return len(calls)
}

// Stop ends it, and returns what was noted.
func Stop() []Call {
	on.Store(false)
	mu.Lock()
	noted := calls
	calls = nil
	mu.Unlock()
	out := make([]Call, len(noted))
	for i, c := range noted {
		out[i].Goroutine = c.goroutine
		for frames, more := runtime.CallersFrames(c.stack), true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			out[i].Stack = append(out[i].Stack, Frame{f.File, short(f.Function)})
		}
	}
	return out
}

// short is "Owner.submit" of "example.org/x/conv.(*Owner).submit.func1": a
// function within another one is part of it.
func short(name string) string {
	name = name[strings.LastIndexByte(name, '/')+1:]
	_, name, _ = strings.Cut(name, ".")
	for _, part := range []string{"[...]", "(", "*", ")"} {
		name = strings.ReplaceAll(name, part, "")
	}
	for {
		i := strings.LastIndexAny(name, ".-")
		if i < 0 || !inner(name[i+1:]) {
			return name
		}
		name = name[:i]
	}
}

// inner tells whether a part of a name stands for a function within another one.
func inner(part string) bool {
	for _, kind := range []string{"func", "range", "gowrap", "deferwrap", ""} {
		if digits, ok := strings.CutPrefix(part, kind); ok &&
			(digits != "" && strings.Trim(digits, "0123456789") == "" || part == "fm") {
			return true
		}
	}
	return false
}
