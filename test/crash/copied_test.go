package crash

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/petrel-im/petrel/test/crowd"
)

// defaultCopies is how often a folder is copied back; PETREL_COPIES sets it.
const defaultCopies = 2

// TestKillFolderCopiedBackIsRefused copies the folder of a stopped server, lets it
// run on under load, kills it at a random moment, and puts the copy back. The
// server must refuse it each time, and take the newest state.
func TestKillFolderCopiedBackIsRefused(t *testing.T) {
	copies, seed := number(t, "PETREL_COPIES", defaultCopies), uint64(number(t, "PETREL_SEED", int(time.Now().UnixNano()&0xffffff)))
	t.Logf("PETREL_COPIES=%d PETREL_SEED=%d", copies, seed)
	s := newServer(t)
	w := crowd.New(t, people(seed, s))
	s.start()
	link, err := os.ReadFile(filepath.Join(s.dir, "setup-link"))
	if err != nil {
		t.Fatal(err)
	}
	w.Populate("http://"+s.http, string(link))
	w.Start(t.Context())
	rng := rand.New(rand.NewPCG(seed, 2))
	for i := range copies {
		crowd.Wait(t.Context(), time.Duration(rng.IntN(100))*time.Millisecond)
		s.kill()
		aside, newest := filepath.Join(t.TempDir(), "aside"), s.dir+"-newest"
		if out, err := exec.Command("cp", "-a", s.dir, aside).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v\n%s", err, out)
		}
		s.start()
		crowd.Wait(t.Context(), time.Duration(rng.IntN(300))*time.Millisecond)
		s.kill()
		if err := os.Rename(s.dir, newest); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("cp", "-a", aside, s.dir).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v\n%s", err, out)
		}
		s.launch()
		<-s.run.done
		if out := s.run.output.String(); s.run.err == nil || !strings.Contains(out, "was put back from a copy") {
			t.Fatalf("copy %d: the server ended with %v\n%s", i, s.run.err, out)
		}
		if err := os.RemoveAll(s.dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(newest, s.dir); err != nil {
			t.Fatal(err)
		}
		s.start()
	}
	w.Settle()
	w.End()
	w.Audit("http://" + s.http)
	s.end()
	t.Logf("copies=%d %s", copies, w.Ledger.Counts())
	w.Ledger.Report(t)
}
