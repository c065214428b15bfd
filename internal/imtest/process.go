package imtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"syscall"

	"github.com/petrel-im/petrel/internal/app"
	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/process"
)

// childConfig is the environment variable with the configuration, as JSON, of a server in a process of its own:
// the program of the test, started once more.
const childConfig = "PETREL_IMTEST_CHILD"

// ServeChild runs the server and does not return, in a process that Options.Process has started. In other
// processes it does nothing. TestMain calls it before anything else.
func ServeChild() {
	text, ok := os.LookupEnv(childConfig)
	if !ok {
		return
	}
	if err := serveChild(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serveChild(text string) error {
	flags := map[string]string{}
	if err := json.Unmarshal([]byte(text), &flags); err != nil {
		return err
	}
	cfg, err := config.Load(config.Source{Flags: flags})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	a, err := app.New(ctx, cfg, app.Options{
		Log:    slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Banner: os.Stdout, Version: "test", PasswordWork: cheapPasswords, DiskStall: eventually.Limit,
	})
	if err != nil {
		return err
	}
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent closes it, or is gone
		stop()
	}()
	return a.Run(ctx)
}

// spawn starts the server in a process of its own, and returns when it has announced its addresses.
func (s *Server) spawn(flags map[string]string) error {
	text, err := json.Marshal(flags)
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GOGC=100", childConfig+"="+string(text))
	cmd.Stderr = s.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var ready struct{ HTTP, TCP, Admin string }
	lines := bufio.NewReader(stdout)
	first, err := lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(first, &ready)
	}
	if err != nil {
		_ = stdin.Close()
		return errors.Join(fmt.Errorf("read what the process announces, %q: %w", first, err), cmd.Wait())
	}
	s.http, s.tcp, s.admin = ready.HTTP, ready.TCP, ready.Admin
	s.stop = func() { _ = stdin.Close() }      // it may have ended
	s.kill = func() { _ = cmd.Process.Kill() } // the same
	s.pid = cmd.Process.Pid
	ended := s.ended
	go func() {
		_, _ = io.Copy(s.log, lines) // before Wait, which closes the pipe
		ended <- cmd.Wait()
	}()
	return nil
}

// Freeze stops the process of a server where it is, as kill -STOP does: it neither answers nor ends its
// connections. It goes on when thaw is called, or at the end of the test. The server must run with
// Options.Process or Options.Program.
func (s *Server) Freeze() (thaw func()) {
	s.t.Helper()
	if s.pid == 0 || s.stop == nil {
		s.t.Fatal("freeze: the server is no process of its own, or does not run")
	}
	pid := s.pid
	if err := process.Freeze(pid); err != nil {
		s.t.Fatal(err)
	}
	thaw = func() { _ = syscall.Kill(pid, syscall.SIGCONT) } // it may go on already
	s.t.Cleanup(thaw)
	return thaw
}

// Kill ends a server at once, as kill -9 does, and waits for its end. The server must run with Options.Process or
// Options.Program.
func (s *Server) Kill() {
	s.t.Helper()
	if s.kill == nil || s.stop == nil {
		s.t.Fatal("kill: the server is no process of its own, or does not run")
	}
	s.kill()
	<-s.ended
	s.stop()
	s.stop = nil
}

// Running reports whether the server was started and the test has not awaited its end: Stop, Kill and Ended do.
func (s *Server) Running() bool { return s.stop != nil }
