package pgserver

import (
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes returns attributes that end a server when the thread that has started it ends, even if the process
// is killed.
func attributes(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: c, Pdeathsig: syscall.SIGQUIT}
}

// memory returns a folder whose files are in memory, empty if it has no room for the data of several servers.
// On ext4 a new database costs nine times the CPU, because all its files are copied.
func memory() string {
	const dir, room = "/dev/shm", 4 << 30 // bytes
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil || s.Bavail*uint64(s.Bsize) < room {
		return ""
	}
	return dir
}

// freeMemory removes the segment of System V memory that the postmaster.pid of a killed server names. Linux
// would keep it, and has room for only 4,096 of them.
func freeMemory(pidFile string) {
	const line = 6 // its key and its id
	lines := strings.Split(pidFile, "\n")
	if len(lines) <= line {
		return
	}
	if f := strings.Fields(lines[line]); len(f) == 2 {
		if id, err := strconv.Atoi(f[1]); err == nil {
			_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) // after an error only the segment is left
		}
	}
}
