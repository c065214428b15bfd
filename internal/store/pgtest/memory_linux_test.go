package pgtest

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestKilledServerLeavesNoSharedMemory: a machine has room for 4,096 segments, and no server
// starts where there is none.
func TestKilledServerLeavesNoSharedMemory(t *testing.T) {
	segments := func(pid int) (n int) {
		b, err := os.ReadFile("/proc/sysvipc/shm")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) > 4 && f[4] == strconv.Itoa(pid) { // its creator
				n++
			}
		}
		return n
	}
	s := Own(t, Options{})
	pid := s.PID()
	if n := segments(pid); n != 1 {
		t.Fatalf("a server that runs has %d segments, want 1", n)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if n := segments(pid); n != 0 {
		t.Errorf("a killed server leaves %d segments, want none", n)
	}
}
