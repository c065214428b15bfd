package crash

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
	"github.com/petrel-im/petrel/test/clients"
	"github.com/petrel-im/petrel/test/crowd"
)

// defaultCopies is how often a store is put back in each way; PETREL_COPIES sets it.
const defaultCopies = 1

// stopTime is how long a server may go on after a client has sent it a sync token from
// its future. make crash judges it.
const stopTime = time.Second

// TestRollback puts the store of a server back to an earlier state, at random
// moments under load. In the end the clients of the Go SDK and one that was written from
// the protocol alone hold the same entries as the server, and the messages that they had to
// send are among them.
//
//	go test ./test/crash -run TestRollback/folder-set-back -v
func TestRollback(t *testing.T) {
	for _, k := range []struct {
		name string
		mark bool // the server keeps one
		once func(r *rollback, i int)
	}{
		{"folder-copied-back", false, (*rollback).copiedBack},
		{"folder-set-back", true, (*rollback).setBack},
		{"folder-and-mark-set-back", true, (*rollback).setBackWithMark},
		{"backup-restored", true, (*rollback).restored},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			times, seed := number(t, "PETREL_COPIES", defaultCopies), uint64(number(t, "PETREL_SEED", rand.IntN(1<<24)))
			t.Logf("PETREL_COPIES=%d PETREL_SEED=%d", times, seed)
			r := newRollback(t, k.mark, rand.New(rand.NewPCG(seed, 2)))
			r.strict = times > defaultCopies
			for i := range times {
				r.Load(true)
				r.Served("before")
				r.pending = nil
				k.once(r, i)
				r.Served("after")
				r.Settle()
				n := r.Equal(r.pending)
				t.Logf("%d of %d: equal at %d messages", i+1, times, n)
				if t.Failed() {
					return
				}
			}
			r.end()
		})
	}
}

// rollback is a server, and clients that write.
type rollback struct {
	*server
	*clients.Clients
	rng     *rand.Rand
	pending []string // sends on their way when the store was put back
	strict  bool     // times are held to their limits
}

func newRollback(t *testing.T, mark bool, rng *rand.Rand) *rollback {
	r := &rollback{server: newServer(t), rng: rng}
	if mark {
		r.mark = filepath.Join(t.TempDir(), "mark")
	}
	r.start()
	link, err := os.ReadFile(filepath.Join(r.dir, "setup-link"))
	if err != nil {
		t.Fatal(err)
	}
	roles := []crowd.Role{{User: "ann"}, {User: "bob"}, {User: "cyd"}, {User: "dan"}}
	names := []string{"ann", "bob", "cyd", "dan"}
	w := crowd.New(t, crowd.Options{Senders: roles, Outsider: crowd.Role{User: "zoe"}, Groups: [][]string{names}})
	base := "http://" + r.admin
	w.Populate(base, string(link))
	r.must(os.WriteFile(filepath.Join(r.dir, "admin.key"), []byte(w.AdminKey()), 0o600)) // petrel backup reads it
	r.Clients = clients.Start(t, clients.Options{
		URLs: []string{"ws://" + r.http}, Users: names[:3], Foreign: names[3], Group: w.Group(0), Token: w.Token,
		Admin: func() petrelv1connect.AdminServiceClient { return w.Admin(base) },
	})
	return r
}

func (r *rollback) pause(most time.Duration) {
	crowd.Wait(r.t.Context(), time.Duration(r.rng.Int64N(int64(most))))
}

// copiedBack: the folder is a copy of an earlier state. The operator has either
// kept the newest one, or accepts the loss.
func (r *rollback) copiedBack(i int) {
	r.kill()
	aside, newest := filepath.Join(r.t.TempDir(), "aside"), r.dir+"-newest"
	r.execute("cp", "-a", r.dir, aside)
	r.start()
	r.Served("after the copy was made")
	r.pause(300 * time.Millisecond)
	r.kill()
	r.AwaitLoss()
	r.pending = r.Pending()
	r.must(os.Rename(r.dir, newest))
	r.execute("cp", "-a", aside, r.dir)
	r.refused("was put back from a copy")
	if i%2 == 1 {
		r.must(os.RemoveAll(r.dir))
		r.must(os.Rename(newest, r.dir))
	} else {
		r.must(os.RemoveAll(newest))
		r.renew()
	}
	r.start()
}

// setBack: the disk is set back to a snapshot. The mark is elsewhere.
func (r *rollback) setBack(int) {
	s := r.snapshot()
	r.Served("after the snapshot")
	r.awaitMark(s.mark)
	r.pause(300 * time.Millisecond)
	r.kill()
	r.AwaitLoss()
	r.pending = r.Pending()
	s.putBack()
	r.refused("are missing: the last one found")
	r.renew()
	r.start()
}

// setBackWithMark: only clients know of what was after the snapshot. The first
// who syncs stops the server, and is told nothing.
func (r *rollback) setBackWithMark(i int) {
	s := r.snapshot()
	r.Served("after the snapshot")
	r.Device.Reconnect()
	r.pause(300 * time.Millisecond)
	r.kill()
	r.AwaitLoss()
	r.pending = r.Pending()
	s.putBack()
	r.must(os.WriteFile(r.mark, s.mark, 0o600))
	alone := i%2 == 0 // the device is the first who syncs
	if alone {
		r.Offline()
	}
	before := r.Device.Count()
	r.launch()
	eventually.Receive(r.t, "the server ends", r.run.done)
	ended := time.Now()
	out := r.run.output.String()
	if r.run.err == nil || !strings.Contains(out, "store has failed") || !strings.Contains(out, "rewound") {
		r.t.Fatalf("the server ended with %v\n%s", r.run.err, out)
	}
	if alone {
		now := r.Device.Count()
		took := ended.Sub(time.UnixMicro(int64(now.SyncBegan * 1e6)))
		if now.SyncBegan == before.SyncBegan || now.Syncs != before.Syncs || now.Acked != before.Acked || now.Resets != before.Resets {
			r.t.Errorf("the server answered a device that knows its future: %+v, and before %+v", now, before)
		}
		if r.strict && took > stopTime {
			r.t.Errorf("the server went on for %v", took)
		}
		r.t.Logf("ended %v after the sync", took.Round(time.Millisecond))
	}
	r.refused("an earlier state of itself")
	r.renew()
	r.start()
	r.Online()
}

// restored: a backup takes the place of what came after it.
func (r *rollback) restored(int) {
	r.pause(500 * time.Millisecond)
	folder := filepath.Join(r.t.TempDir(), "backup")
	r.mustCLI("backup", "--to", folder, "--rate", "0")
	r.Served("after the backup")
	r.pause(300 * time.Millisecond)
	r.kill()
	r.AwaitLoss()
	r.pending = r.Pending()
	gone := r.dir + "-gone"
	r.must(os.Rename(r.dir, gone))
	r.mustCLI("restore", "--from", folder)
	r.must(os.Rename(filepath.Join(gone, "admin.key"), filepath.Join(r.dir, "admin.key"))) // no part of the store
	r.must(os.RemoveAll(gone))
	r.start()
}

// renew accepts that the later messages are lost.
func (r *rollback) renew() {
	r.t.Helper()
	r.mustCLI("repair", "--new-history")
}

// refused starts a server that must end by itself before it answers anybody.
func (r *rollback) refused(why string) {
	r.t.Helper()
	before, acked := r.Device.Count(), r.Acked()
	r.launch()
	eventually.Receive(r.t, "the server ends by itself", r.run.done)
	if out := r.run.output.String(); r.run.err == nil || !strings.Contains(out, why) || !strings.Contains(out, "rewound") {
		r.t.Fatalf("the server ended with %v\n%s", r.run.err, out)
	}
	if now := r.Device.Count(); now.Syncs != before.Syncs || now.Acked != before.Acked || r.Acked() != acked {
		r.t.Errorf("the server answered before it ended: %+v, and before %+v", now, before)
	}
}

func (r *rollback) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rollback) execute(name string, args ...string) {
	r.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		r.t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// awaitMark waits until the mark names a commit that the snapshot does not have.
func (r *rollback) awaitMark(old []byte) {
	r.t.Helper()
	told := 0
	eventually.True(r.t, "the mark moves on", func() bool {
		if b, err := os.ReadFile(r.mark); err == nil && string(b) != string(old) {
			told, old = told+1, b
		}
		return told == 2 // the first may be of the start
	})
}

// snapshot is the state of a folder at one moment, as a disk or a volume keeps it:
// put back, all files have the inodes that they had.
type snapshot struct {
	r             *rollback
	links, copies string // folders: the files themselves, and what was in them
	mark          []byte
}

// snapshot kills the server, keeps its state, and starts it again.
func (r *rollback) snapshot() *snapshot {
	r.t.Helper()
	r.pause(200 * time.Millisecond)
	r.kill()
	s := &snapshot{r: r, links: filepath.Join(r.t.TempDir(), "links"), copies: filepath.Join(r.t.TempDir(), "copies")}
	r.execute("cp", "-al", r.dir, s.links)
	r.execute("cp", "-a", r.dir, s.copies)
	var err error
	s.mark, err = os.ReadFile(r.mark)
	r.must(err)
	r.start()
	return s
}

// putBack makes the folder what it was, in place.
func (s *snapshot) putBack() {
	s.r.t.Helper()
	s.r.must(filepath.WalkDir(s.r.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		return os.Remove(path)
	}))
	s.r.must(filepath.WalkDir(s.links, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(s.links, path)
		if err != nil {
			return err
		}
		place := filepath.Join(s.r.dir, name)
		if e.IsDir() {
			return os.MkdirAll(place, 0o700)
		}
		b, err := os.ReadFile(filepath.Join(s.copies, name))
		if err != nil {
			return err
		}
		if err := os.Link(path, place); err != nil {
			return err
		}
		if err := os.WriteFile(place, b, 0o600); err != nil { // into the same inode
			return fmt.Errorf("put back: %w", err)
		}
		return nil
	}))
}
