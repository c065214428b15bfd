//go:build unix

// Package process reads the state of processes from Linux, stops processes, and finds ports for them, for tests
// and measurements.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Stat returns the columns of /proc/PID/stat from the state on; nil for a process that has ended.
func Stat(pid int) []string { return stat(filepath.Join("/proc", strconv.Itoa(pid))) }

func stat(dir string) []string {
	b, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// Freeze stops processes where they are, as kill -STOP does, and returns when all have stopped. SIGCONT lets them
// go on. Those that have ended are no error.
func Freeze(pids ...int) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("freeze process %d: %w", pid, err)
		}
	}
	// Each thread runs until it gets the signal, on a busy machine for some milliseconds, in which a server
	// answers many requests.
	end := time.Now().Add(10 * time.Second)
	for _, pid := range pids {
		for runs(pid) {
			if time.Now().After(end) {
				return fmt.Errorf("process %d still runs after SIGSTOP", pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// runs reports whether a thread of a process is neither stopped nor at its end.
func runs(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid)) // the pattern is a good one
	for _, dir := range threads {
		if f := stat(dir); len(f) > 0 && !strings.Contains("TtZX", f[0]) {
			return true
		}
	}
	return false
}
