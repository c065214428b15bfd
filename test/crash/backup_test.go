package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	sdk "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
	"github.com/petrel-im/petrel/test/crowd"
)

const (
	defaultBackups    = 2
	defaultBackupRate = 400
	backupPairs       = 32 // direct conversations that are written to
)

// pair is one direct conversation with one writer, who sends one message after
// the other: the text of each is its seq.
type pair struct {
	from, to string
	conv     atomic.Pointer[string]
	acked    atomic.Uint64 // seq of the newest message that was
	took     []took        // of the writer, until it has ended
}

// cli runs one command of the binary to its end.
func (s *server) cli(args ...string) (string, error) {
	cmd := s.command(args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("petrel %s: %w\n%s", strings.Join(args, " "), err, &errOut)
	}
	return out.String(), nil
}

func (s *server) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.bin, args...)
	cmd.Dir = filepath.Dir(s.dir)
	cmd.Env = append(os.Environ(), "PETREL_SERVER=http://"+s.http, "PETREL_ADMIN_SERVER=http://"+s.admin, "PETREL_STORE__DIR="+s.dir, "PETREL_STORE__MARK="+s.mark)
	return cmd
}

func (s *server) mustCLI(args ...string) string {
	s.t.Helper()
	out, err := s.cli(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func adminOf(t *testing.T, keyFile, addr string) petrelv1connect.AdminServiceClient {
	t.Helper()
	key, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return petrelv1connect.NewAdminServiceClient(&http.Client{Timeout: crowd.SettleTime, Transport: &http.Transport{MaxIdleConnsPerHost: backupPairs}}, "http://"+addr, sdk.Credentials(sdk.StaticToken(strings.TrimSpace(string(key)))))
}

// took is how long the answer of a send took, from the moment it was due.
type took struct {
	due    time.Time
	answer time.Duration
}

// write sends until ctx ends, once in every; 0: as soon as it has its answer.
func (p *pair) write(ctx context.Context, api petrelv1connect.AdminServiceClient, every time.Duration) error {
	due := time.Now()
	for n := uint64(1); ctx.Err() == nil; n++ {
		if every == 0 {
			due = time.Now()
		} else {
			due = due.Add(every)
			crowd.Wait(ctx, time.Until(due))
		}
		q := &petrelv1.SendAsRequest{From: p.from, Send: &petrelv1.Send{User: p.to, ClientMsgId: fmt.Sprintf("%s-%012d", p.from, n), Body: &petrelv1.Send_Text{Text: fmt.Sprint(n)}}}
		r, err := api.SendAs(ctx, connect.NewRequest(q))
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s sends %d: %w", p.from, n, err)
		}
		if r.Msg.Seq != n {
			return fmt.Errorf("%s sends %d: it is at seq %d", p.from, n, r.Msg.Seq)
		}
		p.conv.Store(&r.Msg.Conv)
		p.acked.Store(n)
		p.took = append(p.took, took{due, time.Since(due)})
	}
	return nil
}

// read compares what a server has with what was sent, and returns how much it is.
func (p *pair) read(ctx context.Context, api petrelv1connect.AdminServiceClient) (uint64, error) {
	n := uint64(0)
	for more := true; more; {
		r, err := api.GetHistory(ctx, connect.NewRequest(&petrelv1.AdminGetHistoryRequest{History: &petrelv1.GetHistory{Conv: *p.conv.Load(), After: n}}))
		if err != nil {
			return n, fmt.Errorf("read %s after %d: %w", p.from, n, err)
		}
		for _, m := range r.Msg.Messages {
			if n++; m.Seq != n || m.GetText() != fmt.Sprint(n) || m.From != p.from {
				return n, fmt.Errorf("%s: seq %d has %q from %s, want %d", p.from, m.Seq, m.GetText(), m.From, n)
			}
		}
		if more = r.Msg.More; more && len(r.Msg.Messages) == 0 {
			return n, fmt.Errorf("read %s after %d: an empty page and more", p.from, n)
		}
	}
	return n, nil
}

// PETREL_BACKUPS sets how many backups are made (2); every fourth one, and the
// first, is killed once before it is made. PETREL_BACKUP_RATE is how many messages
// are sent in a second meanwhile (400; 0: as many as get an answer). The log says how
// long the answers took while no backup was made, and while one was.
func TestBackupsUnderLoadHoldWhatWasAcked(t *testing.T) {
	backups, seed := number(t, "PETREL_BACKUPS", defaultBackups), uint64(number(t, "PETREL_SEED", rand.IntN(1<<24)))
	rate := number(t, "PETREL_BACKUP_RATE", defaultBackupRate)
	every := time.Duration(0)
	if rate > 0 {
		every = backupPairs * time.Second / time.Duration(rate)
	}
	t.Logf("PETREL_BACKUPS=%d PETREL_BACKUP_RATE=%d PETREL_SEED=%d", backups, rate, seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	s := newServer(t)
	s.start()
	var pairs []*pair
	users := []string{"user", "create"}
	for i := range backupPairs {
		p := &pair{from: fmt.Sprintf("a%d", i), to: fmt.Sprintf("b%d", i)}
		pairs, users = append(pairs, p), append(users, p.from, p.to)
	}
	s.mustCLI(users...)
	key := filepath.Join(s.dir, "admin.key")
	api := adminOf(t, key, s.http)
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	stop := func() { cancel(); writers.Wait() }
	defer stop()
	begun := time.Now()
	for _, p := range pairs {
		writers.Go(func() {
			if err := p.write(ctx, api, every); err != nil {
				t.Error(err)
			}
		})
	}
	folder := filepath.Join(filepath.Dir(s.dir), "backups")
	acked := make([][]uint64, backups)
	kills := 0
	var during [][2]time.Time // what is no quiet time
	for i := range backups {
		crowd.Wait(t.Context(), time.Duration(100+rng.IntN(300))*time.Millisecond)
		from := time.Now()
		if i%4 == 0 {
			s.killBackup(folder, time.Duration(rng.IntN(40))*time.Millisecond)
			kills++
		}
		eventually.True(t, "a message of each pair is acked", func() bool { return all(pairs, func(p *pair) bool { return p.acked.Load() > 0 }) })
		for _, p := range pairs {
			acked[i] = append(acked[i], p.acked.Load())
		}
		s.mustCLI("backup", "--to", folder)
		during = append(during, [2]time.Time{from, time.Now()})
		if backups > defaultBackups { // the figures want as long a time without one
			crowd.Wait(t.Context(), time.Since(from))
		}
	}
	stop()
	total, lasted := uint64(0), time.Since(begun)
	for _, p := range pairs {
		total += p.acked.Load()
	}
	s.end()
	if t.Failed() {
		return
	}
	names := verified(t, s.mustCLI("backup", "verify", folder, "--json"))
	if len(names) != backups {
		t.Fatalf("%d backups of %d: %v", len(names), backups, names)
	}
	for i, name := range names {
		again := newServerAt(t, filepath.Join(t.TempDir(), "restored"))
		again.mustCLI("restore", "--from", name)
		again.start()
		api := adminOf(t, key, again.http)
		for j, p := range pairs {
			n, err := p.read(t.Context(), api)
			if err != nil || n < acked[i][j] {
				t.Errorf("%s: %s has %d messages, and %d were acked when the backup began: %v", name, p.from, n, acked[i][j], err)
			}
		}
		again.end()
	}
	t.Logf("kills=%d backups=%d messages=%d rate=%.0f/s", kills, backups, total, float64(total)/lasted.Seconds())
	quiet, busy := p99(pairs, during)
	t.Logf("answers, p99: %v without a backup, %v while one is made or killed", quiet.Round(10*time.Microsecond), busy.Round(10*time.Microsecond))
}

// p99 of the answers of all writers, outside of the intervals and within them.
func p99(pairs []*pair, intervals [][2]time.Time) (outside, within time.Duration) {
	var all [2][]time.Duration
	for _, p := range pairs {
		for _, a := range p.took {
			i := 0
			if slices.ContainsFunc(intervals, func(in [2]time.Time) bool { return a.due.Add(a.answer).After(in[0]) && a.due.Before(in[1]) }) {
				i = 1
			}
			all[i] = append(all[i], a.answer)
		}
	}
	of := func(list []time.Duration) time.Duration {
		if len(list) == 0 {
			return 0
		}
		slices.Sort(list)
		return list[len(list)*99/100]
	}
	return of(all[0]), of(all[1])
}

// killBackup kills a backup in the middle, some time after its folder is there.
func (s *server) killBackup(folder string, after time.Duration) {
	s.t.Helper()
	cmd := s.command("backup", "--to", folder, "--rate", "1kB/s")
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	eventually.True(s.t, "the backup has begun", func() bool {
		parts, _ := filepath.Glob(filepath.Join(folder, "*.part"))
		return len(parts) > 0
	})
	crowd.Wait(s.t.Context(), after)
	_ = cmd.Process.Kill() // ended: shows below
	if err := cmd.Wait(); err == nil {
		s.t.Error("the backup ended before it was killed")
	}
}

// verified are the folders that verify calls good.
func verified(t *testing.T, out string) (names []string) {
	t.Helper()
	for line := range strings.Lines(out) {
		var v struct {
			Folder string
			OK     bool
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil || !v.OK {
			t.Errorf("verify says %s: %v", line, err)
		}
		names = append(names, v.Folder)
	}
	return names
}

func all(pairs []*pair, ok func(*pair) bool) bool {
	for _, p := range pairs {
		if !ok(p) {
			return false
		}
	}
	return true
}
