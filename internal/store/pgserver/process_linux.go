package pgserver

import "syscall"

// attributes let a server end with whoever started it, even a killed one.
func attributes(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: c, Pdeathsig: syscall.SIGQUIT}
}
