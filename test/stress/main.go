// Command stress runs a command beside busy loops, one for each core, and stops all its processes for a while at
// random moments, as on an overloaded machine. A correct test passes all the same.
//
//	go run ./test/stress -busy -stop -n 50 -- build/stress.test -test.count=1
//	go run ./test/stress -stop -- make test
//
// It ends with the exit code of the first run that failed. It never cuts a run off: go test has its own limit.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/petrel-im/petrel/internal/process"
)

func main() {
	busy := flag.Bool("busy", false, "a busy loop on each core")
	stop := flag.Bool("stop", false, "stop all processes of the command for 0.5 to 2 s, every 1 to 5 s")
	times := flag.Int("n", 1, "how many `runs`, one after the other")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()),
		"of the moments of the stops; the command's own pace is not repeated")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: stress [-busy] [-stop] [-n runs] [--] command …")
		os.Exit(2)
	}
	fmt.Fprintf(os.Stderr, "stress: %d runs, seed %d\n", *times, *seed)
	if *busy {
		for range runtime.NumCPU() {
			loop, err := startBusyLoop()
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			defer loop()
		}
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	for i := range *times {
		stops, err := run(flag.Args(), *stop, random)
		if err != nil {
			fmt.Fprintf(os.Stderr, "stress: run %d of %d: %v\n", i+1, *times, err)
			code := 1
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() > 0 {
				code = exit.ExitCode()
			}
			os.Exit(code)
		}
		fmt.Fprintf(os.Stderr, "stress: run %d of %d passed, with %d stops\n", i+1, *times, stops)
	}
}

// startBusyLoop starts a process that uses a core all the time. end kills it. If stress is killed, the system
// kills it.
func startBusyLoop() (end func(), err error) {
	loop := exec.Command("sh", "-c", "while :; do :; done")
	loop.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // Pdeathsig is about the thread that starts the process
	if err := loop.Start(); err != nil {
		return nil, fmt.Errorf("start a busy loop: %w", err)
	}
	return func() { _ = loop.Process.Kill(); _ = loop.Wait() }, nil // its end is what the caller wants
}

// run runs the command once, and returns how often its processes were stopped. SIGINT and SIGTERM are passed on
// to the command.
func run(args []string, stop bool, random *rand.Rand) (stops int, err error) {
	c := exec.Command(args[0], args[1:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Start(); err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	var stopper sync.WaitGroup
	if stop {
		stopper.Go(func() { stops = stopAtRandom(c.Process.Pid, random, ended) })
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	stopper.Go(func() {
		select {
		case s := <-signals:
			_ = c.Process.Signal(s) // it ends by itself
		case <-ended:
		}
	})
	err = c.Wait()
	close(ended)
	stopper.Wait()
	return stops, err
}

// stopAtRandom stops the process root and all that descend from it, again and again, and lets them go on, until
// ended is closed. It returns the number of stops.
func stopAtRandom(root int, random *rand.Rand, ended <-chan struct{}) (stops int) {
	between := func(from, to time.Duration) time.Duration { return from + time.Duration(random.Int64N(int64(to-from))) }
	for {
		select {
		case <-ended:
			return stops
		case <-time.After(between(time.Second, 5*time.Second)):
		}
		frozen := freeze(root)
		stops++
		<-time.After(between(500*time.Millisecond, 2*time.Second))
		for _, pid := range frozen {
			_ = syscall.Kill(pid, syscall.SIGCONT) // it may have been killed
		}
	}
}

// freeze stops a process and its descendants, the parents first, so that none starts another one meanwhile. It
// returns those that it has stopped. A process that a test had stopped before is not among them. A running test
// could still stop a child, so the state of a process is read only when its parents have stopped.
func freeze(root int) (frozen []int) {
	for {
		found := false
		for _, pid := range descendants(root) {
			f := process.Stat(pid)
			if len(f) == 0 || strings.Contains("TtZX", f[0]) || slices.Contains(frozen, pid) {
				continue
			}
			if err := process.Freeze(pid); err != nil {
				fmt.Fprintln(os.Stderr, "stress:", err)
			}
			frozen, found = append(frozen, pid), true
		}
		if !found {
			return frozen
		}
	}
}

// descendants returns a process and all its descendants, each after its parent. A process whose parent has ended
// is not among them.
func descendants(root int) []int {
	children := map[int][]int{}
	entries, _ := filepath.Glob("/proc/[0-9]*") // the pattern is a good one
	for _, dir := range entries {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if f := process.Stat(pid); len(f) > 1 {
			if parent, err := strconv.Atoi(f[1]); err == nil {
				children[parent] = append(children[parent], pid)
			}
		}
	}
	all := []int{root}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}
