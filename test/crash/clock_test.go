package crash

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/imtest/proctest"
	"github.com/petrel-im/petrel/test/crowd"
)

const year = 365 * 24 * time.Hour

var limited = regexp.MustCompile(`(?m)^petrel_[a-z_]*total\{[^}]*"(rate_limited|too_many_connections)"[^}]*\} ([1-9].*)$`)

// The wall clock of the server is stepped while people write. Nobody is refused for it: limits
// go by the monotonic clock, and an order by nothing but the seqs.
func TestStepsOfTheClockRefuseNobody(t *testing.T) {
	s := newServer(t)
	s.env = []string{"PETREL_LIMITS__SENDS_PER_S=100000", "PETREL_LIMITS__SEND_BURST=100000"} // buckets that nobody empties
	w := crowd.New(t, people(1, s))
	s.start()
	link, err := os.ReadFile(filepath.Join(s.dir, "setup-link"))
	if err != nil {
		t.Fatal(err)
	}
	w.Populate("http://"+s.admin, string(link))
	w.Start(t.Context())
	clock := proctest.StepClock(t, s.run.cmd.Process.Pid)
	for _, by := range []time.Duration{-year, -time.Hour, -time.Minute, time.Minute, year, 0} {
		clock.Set(by)
		crowd.Wait(t.Context(), 300*time.Millisecond)
		stepped := time.Now()
		if !eventually.Holds(func() bool { return w.Ledger.Served(stepped) }) {
			t.Errorf("stepped by %v: some conversations take nothing: %v", by, w.Ledger.Stuck(stepped))
		}
	}
	w.Settle()
	w.End()
	w.Audit("http://" + s.http)
	w.Ledger.Report(t)
	a, err := http.Get("http://" + s.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range limited.FindAllString(string(b), -1) {
		t.Errorf("somebody was refused: %s", line)
	}
	s.end()
}
