package pgtest

import "syscall"

// attributes let a server end with the test that started it, even a killed one.
func attributes(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: c, Pdeathsig: syscall.SIGQUIT}
}
