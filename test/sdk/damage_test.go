package sdk

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
	"github.com/petrel-im/petrel/internal/wire"
	petrel "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// flip changes one byte in the middle of the largest table of a store.
func flip(t *testing.T, dir string) {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(dir, "store", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables: %q, %v", tables, err)
	}
	var path string
	var content []byte
	for _, name := range tables {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > len(content) {
			path, content = name, b
		}
	}
	content[len(content)/2] ^= 4
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// around reads a conversation to its end, and asks for what lies beyond the damage as
// P-9.5 says. It returns the seqs of the entries and of the damage, in order.
func around(t *testing.T, s *imtest.Server, c wire.Codec, token, conv string, down bool) (read, damaged []uint64) {
	t.Helper()
	conn := s.Dial(wire.WebSocket, c, token, "reader")
	q := &petrelv1.GetHistory{Conv: conv}
	if down {
		q.Before = 1 << 40
	}
	to := func(from, to uint64) { // the newest that is known
		if q.After = to; down {
			q.After, q.Before = 0, from
		}
	}
	for {
		p, err := conn.History(t.Context(), q)
		if e, ok := errors.AsType[*im.Error](err); ok && e.Code == im.CodeDamaged && 0 < e.From && e.From <= e.To {
			for seq := e.From; seq <= e.To; seq++ {
				damaged = append(damaged, uint64(seq))
			}
			to(uint64(e.From), uint64(e.To))
			continue
		} else if err != nil {
			t.Fatalf("history %v: %v", q, err)
		}
		for _, m := range p.Messages {
			read = append(read, m.Seq)
		}
		if len(p.Messages) > 0 {
			to(p.Messages[0].Seq, p.Messages[len(p.Messages)-1].Seq)
		}
		if !p.More {
			slices.Sort(read)
			slices.Sort(damaged)
			return read, damaged
		}
	}
}

// One byte in a table is flipped. A client that knows the protocol only and the Go SDK
// read the history around the block, and everything else goes on. After the repair the
// SDK shows no damage any more. Spec: P-5.7, P-9.5.
func TestHistoryIsReadAroundADamagedBlock(t *testing.T) {
	t.Parallel()
	s := imtest.Start(t, imtest.Options{Dir: filepath.Join(t.TempDir(), "data")})
	tokens := s.Users("", "alice", "bob")
	group, other := s.Group("", "g1", "alice", "bob"), s.Group("", "g2", "alice", "bob")
	const sent = 1500
	fill(t, s, tokens[1], sent, group)
	s.Restart() // writes what the log holds into a table
	s.RestartOn(func(dir string) { flip(t, dir) })

	const head = sent + 1 // with the entry that made the group
	var damaged []uint64
	for _, c := range []wire.Codec{wire.JSON, wire.Proto} {
		for _, down := range []bool{false, true} {
			read, bad := around(t, s, c, tokens[0], group, down)
			if damaged == nil {
				damaged = bad
			}
			all := slices.Sorted(slices.Values(append(slices.Clone(read), bad...)))
			if len(bad) == 0 || len(bad) > head/5 || len(all) != head || all[0] != 1 || all[head-1] != head || !slices.Equal(bad, damaged) {
				t.Fatalf("%v, down %v: read %d of %d, damaged %v, before %v", c, down, len(read), head, bad, damaged)
			}
		}
	}

	store := petrel.NewMemory()
	client := func(newest int) *device {
		return run(t, petrel.Options{URL: s.URL(wire.WebSocket), Token: petrel.StaticToken(tokens[0]), Store: store, Keep: 2 * head, Newest: newest})
	}
	d := client(20).synced()
	for more := true; more; {
		var err error
		if more, err = d.Older(eventually.Context(t), group, 0); err != nil {
			t.Fatal(err)
		}
	}
	want := []petrel.Range{{From: damaged[0], To: damaged[len(damaged)-1]}}
	v, _ := d.Conversation(group)
	if n := len(d.Messages(group, 0, 0)); !slices.Equal(v.Damaged, want) || n != head-len(damaged) {
		t.Errorf("the SDK holds %d of %d entries and the damage %v, want %v", n, head, v.Damaged, want)
	}
	if _, seq := d.send(petrel.Draft{Conv: group, Text: "after"}); seq != head+1 {
		t.Errorf("a message into the damaged conversation got seq %d, want %d", seq, head+1)
	}
	if _, seq := d.send(petrel.Draft{Conv: other, Text: "elsewhere"}); seq != 2 {
		t.Errorf("a message elsewhere got seq %d, want 2", seq)
	}
	d.stop()

	s.RestartOn(func(dir string) {
		r, err := pebblestore.Repair(pebblestore.Options{Dir: dir})
		if err != nil || r.LostRows != uint64(len(damaged)) {
			t.Errorf("repair: %+v, %v, want %d lost rows", r, err, len(damaged))
		}
	})
	d = client(2 * head).synced()
	d.until("everything is there again", func() bool {
		v, _ := d.Conversation(group)
		return v.Head == head+1 && len(v.Damaged) == 0 && len(d.Messages(group, 0, 0)) == head+1
	})
	var lost []uint64
	for _, m := range d.Messages(group, 0, 0) {
		if m.Lost {
			lost = append(lost, m.Seq)
		}
	}
	if !slices.Equal(lost, damaged) {
		t.Errorf("the entries %v are marked as lost, want %v", lost, damaged)
	}
}
