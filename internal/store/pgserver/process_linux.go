package pgserver

import "syscall"

// attributes let a server end with whoever started it, even a killed one.
func attributes(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: c, Pdeathsig: syscall.SIGQUIT}
}

// memory is a folder whose files are in memory; "" if it has no room for the data
// of several servers. On ext4 a new database costs nine times the CPU: all its
// files are copied.
func memory() string {
	const dir, room = "/dev/shm", 4 << 30 // bytes
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil || s.Bavail*uint64(s.Bsize) < room {
		return ""
	}
	return dir
}
