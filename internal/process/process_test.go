//go:build unix

package process

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
)

// TestMain is also the process that a test freezes: several threads that never rest.
func TestMain(m *testing.M) {
	if os.Getenv("PETREL_TEST_RUNS") == "" {
		os.Exit(m.Run())
	}
	for range 4 * runtime.NumCPU() {
		go func() {
			runtime.LockOSThread()
			for {
				runtime.Gosched()
			}
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends, also if it is killed
}

// Freeze returns when no thread runs any more: the processor time of all does not grow.
func TestAFrozenProcessStands(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PETREL_TEST_RUNS=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	for range 20 {
		eventually.True(t, "the process runs", func() bool { return runs(pid) })
		if err := Freeze(pid); err != nil {
			t.Fatal(err)
		}
		if runs(pid) {
			t.Fatal("a thread runs on")
		}
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	if f := Stat(pid); len(f) == 0 {
		t.Error("nothing is told of a process that runs")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // killed
	if err := Freeze(pid); err != nil || Stat(pid) != nil {
		t.Errorf("of a process that has ended: %v, %v", err, Stat(pid))
	}
}
