package crash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// memoryCgroups is where version 1 of cgroups has those of memory, and version 2 all.
const (
	memoryCgroups = "/sys/fs/cgroup/memory"
	allCgroups    = "/sys/fs/cgroup"
)

// container makes a cgroup with so many MiB of memory and returns the file that takes processes;
// empty: only root can make one.
func container(t *testing.T, mib int) (procs string) {
	t.Helper()
	parent, limit := memoryCgroups, "memory.limit_in_bytes"
	if _, err := os.Stat(parent); err != nil {
		parent, limit = allCgroups, "memory.max"
	}
	dir := filepath.Join(parent, fmt.Sprintf("petrel-test-%d-%d", os.Getpid(), mib))
	err := os.Mkdir(dir, 0o755)
	if err == nil {
		t.Cleanup(func() { _ = os.Remove(dir) }) // best effort
		err = os.WriteFile(filepath.Join(dir, limit), []byte(fmt.Sprint(mib<<20)), 0o600)
	}
	if err != nil {
		t.Logf("no container of %d MiB, so the server is only told of its memory: %v", mib, err)
		return ""
	}
	return filepath.Join(dir, "cgroup.procs")
}

// A server in a small container that gets far more than it can take refuses work, and is not
// killed by the system. Every message that it has acked is there.
func TestServerInASmallContainerIsNotKilled(t *testing.T) {
	for _, mib := range []int{64, 128} {
		t.Run(fmt.Sprint(mib), func(t *testing.T) {
			s := newServerAt(t, onDisk(t))
			defer func() {
				if s.run != nil {
					s.kill()
				}
			}()
			if s.procs = container(t, mib); s.procs == "" {
				s.memory = fmt.Sprintf("%dMiB", mib)
			}
			s.start()
			if _, err := s.cli("user", "list"); err != nil { // makes the admin key
				t.Fatal(err)
			}
			cmd := s.command("bench", "direct", "--url", "http://"+s.http, "--tcp-addr", s.tcp, "--admin-server", "http://"+s.admin,
				"--senders", "100", "--receivers", "100", "--size", "40000", "--window", "8", "--seconds", "2", "--warm-up", "0", "--json", "-")
			var out, errOut bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errOut
			err := cmd.Run() // red: the server is overloaded
			var report struct {
				Audit struct {
					Findings map[string]int
					Messages int
				}
			}
			if e := json.Unmarshal(out.Bytes(), &report); e != nil {
				t.Fatalf("bench: %v, %v\n%s", err, e, &errOut)
			}
			a := report.Audit
			if a.Messages == 0 || a.Findings["lost"]+a.Findings["duplicate"]+a.Findings["reordered"] > 0 {
				t.Errorf("%d messages, %v\n%s", a.Messages, a.Findings, &errOut)
			}
			if !strings.Contains(errOut.String(), "as overloaded") {
				t.Errorf("no send was put off: the run did not do what it is for\n%s", &errOut)
			}
			s.end() // fails if the server has ended by itself
		})
	}
}

// onDisk is a data folder that is on no file system in memory: files in memory would count
// for the container.
func onDisk(t *testing.T) string {
	t.Helper()
	build, err := filepath.Abs(filepath.Join("..", "..", "build"))
	if err == nil {
		err = os.MkdirAll(build, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(build, "small-container-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // best effort
	return filepath.Join(dir, "data")
}
