// Command init is the first process of a virtual machine that bench/guest/run starts. The machine has only this
// program, petrel and memory. Command init runs `petrel bench` with the arguments after "--" of the kernel's command
// line, and then turns the machine off.
//
// The terminal of the machine shows the output of petrel. Command init writes the report of --json to the second
// serial port, which is a file on the host.
package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// connections is more than the memory of any guest allows. A connection takes an open file of the server and one of
// the generator.
const connections = 4 << 20

var report = filepath.Join(os.TempDir(), "report.json")

func main() {
	if err := run(); err != nil {
		fmt.Println("guest:", err)
	}
	unix.Sync()
	// Both serial ports are empty before the power is off: closing waits for that.
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Println("guest: turn the machine off:", err)
	}
	select {}
}

func run() error {
	if err := prepare(); err != nil {
		return err
	}
	args := append([]string{"bench"}, os.Args[1:]...)
	cmd := exec.Command("/petrel", append(args, "--dir", os.TempDir(), "--json", report)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = []string{"PATH=/", "HOME=" + os.TempDir(), "TERM=dumb"}
	fmt.Println("guest: petrel", strings.Join(args, " "))
	reap := make(chan os.Signal, 1)
	signal.Notify(reap, syscall.SIGINT) // of the terminal: for petrel, which ends by it
	err := cmd.Run()
	if err2 := send(); err == nil {
		err = err2
	}
	return err
}

// prepare sets up the needs of petrel on a bare kernel: the file systems, a loopback, and limits as high as
// they go.
func prepare() error {
	for _, m := range []struct{ kind, at, options string }{
		{"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"devtmpfs", "/dev", ""},
		{"tmpfs", os.TempDir(), "mode=1777,size=50%"},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	for _, s := range []struct{ name, value string }{
		{"fs/nr_open", fmt.Sprint(connections)},
		{"fs/file-max", fmt.Sprint(2 * connections)},
		{"net/ipv4/ip_local_port_range", "1024 65535"},
		{"net/core/somaxconn", "65535"},
		{"net/ipv4/tcp_max_syn_backlog", "65535"},
		{"net/ipv4/tcp_max_orphans", fmt.Sprint(connections)},
	} {
		if err := os.WriteFile("/proc/sys/"+s.name, []byte(s.value), 0o644); err != nil {
			return fmt.Errorf("set %s: %w", s.name, err)
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: connections, Max: connections}); err != nil {
		return fmt.Errorf("raise the limit of open files: %w", err)
	}
	return raiseLoopback()
}

func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return fmt.Errorf("raise loopback: %w", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("raise loopback: %w", err)
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("raise loopback: %w", err)
	}
	return nil
}

// send writes the report to the second serial port.
func send() error {
	in, err := os.Open(report)
	if err != nil {
		return err
	}
	defer in.Close()
	port, err := os.OpenFile("/dev/ttyS1", os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	// The report is written as it is: a terminal would write a carriage return before each line feed.
	t, err := unix.IoctlGetTermios(int(port.Fd()), unix.TCGETS)
	if err != nil {
		return fmt.Errorf("set up the serial port: %w", err)
	}
	t.Oflag &^= unix.OPOST
	if err := unix.IoctlSetTermios(int(port.Fd()), unix.TCSETS, t); err != nil {
		return fmt.Errorf("set up the serial port: %w", err)
	}
	if _, err := io.Copy(port, in); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return port.Close()
}
