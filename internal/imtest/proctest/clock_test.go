package proctest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestMain is the process whose clock is stepped, if it is told to: for each line that it reads
// it prints its clocks.
func TestMain(m *testing.M) {
	if os.Getenv("PROCTEST_CLOCK") == "" {
		os.Exit(m.Run())
	}
	begun := time.Now()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		now := time.Now()
		fmt.Println(now.Unix(), now.Sub(begun).Seconds())
	}
}

func TestClockIsSteppedInOneProcess(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PROCTEST_CLOCK=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = cmd.Wait() }() // it ends with its input
	ask := func() (wall int64, since float64) {
		t.Helper()
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fscan(out, &wall, &since); err != nil {
			t.Fatal(err)
		}
		return wall, since
	}
	at, last := ask()
	c := StepClock(t, cmd.Process.Pid)
	const hour = 3600
	for _, by := range []time.Duration{0, -time.Hour, 365 * 24 * time.Hour, 0} {
		c.Set(by)
		wall, since := ask()
		if off := wall - at - int64(by/time.Second); off < -hour/2 || off > hour/2 {
			t.Errorf("stepped by %v, the wall clock is off by %d s", by, off)
		}
		if since < last || since > last+hour {
			t.Errorf("stepped by %v, the monotonic clock went from %v to %v s", by, last, since)
		}
		last = since
	}
}
