//go:build unix

package imtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/petrel-im/petrel/internal/imtest/proctest"
)

// execute starts the server's program, and does not wait until it listens.
func (s *Server) execute(flags map[string]string) error {
	if s.http == "" {
		at := proctest.FreePorts(s.t, 3)
		s.http, s.tcp, s.admin = at[0], at[1], at[2]
	}
	flags["listen.http"], flags["listen.tcp"], flags["listen.admin"] = s.http, s.tcp, s.admin
	cmd := exec.Command(proctest.Program(s.t), "serve")
	cmd.Dir = filepath.Dir(s.Dir)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PETREL_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	for option, value := range flags {
		cmd.Env = append(cmd.Env, "PETREL_"+strings.ToUpper(strings.ReplaceAll(option, ".", "__"))+"="+value)
	}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		return err
	}
	s.stop = func() { _ = cmd.Process.Signal(syscall.SIGTERM) } // it may have ended
	s.kill = func() { _ = cmd.Process.Kill() }                  // the same
	s.pid = cmd.Process.Pid
	ended := s.ended
	go func() { ended <- cmd.Wait() }()
	return nil
}
