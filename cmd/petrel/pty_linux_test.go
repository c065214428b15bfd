package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openPTY makes a terminal: bytes written to the second file are read from the first one.
func openPTY(t *testing.T) (outside, inside *os.File) {
	t.Helper()
	outside, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = outside.Close() }) // the test is over
	n, err := unix.IoctlGetInt(int(outside.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(outside.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	inside, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inside.Close() }) // the test is over
	return outside, inside
}

// TestServeOnATerminalSaysWhereItIs checks that on a terminal the server prints addresses that a person can open.
// Elsewhere it prints one line of JSON.
func TestServeOnATerminalSaysWhereItIs(t *testing.T) {
	outside, inside := openPTY(t)
	ctx, stop := context.WithCancel(t.Context())
	args := []string{"serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen-http", "127.0.0.1:0", "--listen-tcp", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0"}
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, args, nil, strings.NewReader(""), inside, inside) }()
	missing := []string{"Chat       http://127.0.0.1:", "Realtime   ws://127.0.0.1:", "Operators  http://127.0.0.1:", "First run  http://127.0.0.1:", "Ctrl-C"}
	for lines := bufio.NewScanner(outside); len(missing) > 0 && lines.Scan(); {
		if strings.Contains(lines.Text(), missing[0]) {
			missing = missing[1:]
		}
		if strings.HasPrefix(lines.Text(), "{") {
			t.Errorf("a line for programs: %s", lines.Text())
			break
		}
	}
	if len(missing) > 0 {
		t.Errorf("nothing says %q", missing)
	}
	stop()
	go func() { // what it says at its end
		for b := make([]byte, 4096); ; {
			if _, err := outside.Read(b); err != nil {
				return
			}
		}
	}()
	if exit := <-ended; exit != exitOK {
		t.Errorf("exit %d", exit)
	}
}
