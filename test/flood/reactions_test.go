package flood

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	defaultMembers = 40
	fullLasts      = 5 * time.Second // in which the members change their reactions, if there are 1,000 or more
	standing       = 3               // reactions of each
	changes        = 10              // of each, after that
)

// A fifth of the members of a group are online and look at it. Half of these have three
// reactions each at one message, and then change one of them ten times. Meanwhile others send
// to others directly. Everybody who looks is told in the end how the reactions stand.
//
// PETREL_FLOOD_MEMBERS sets how many members there are (40; 10,000 in full). Those who look
// have one core for themselves, the server may have both, as with strangers.
func TestReactionsInALargeGroupDelayNobody(t *testing.T) {
	n := number(t, "PETREL_FLOOD_MEMBERS", defaultMembers)
	full := n >= 1000
	lasts := 200 * time.Millisecond
	if full {
		lasts = fullLasts
	}
	s := imtest.Start(t, imtest.Options{Process: true, Config: map[string]string{"log.level": "error"}})
	friends := befriend(t, s)
	var users, tokens []string
	for i := range n {
		users = append(users, fmt.Sprintf("member%d", i))
	}
	for i := 0; i < n; i += 1000 {
		tokens = append(tokens, s.Users("", users[i:min(i+1000, n)]...)...)
	}
	group := s.Group("", "large", users...)
	ack, err := s.Admin.SendAs(t.Context(), connect.NewRequest(&petrelv1.SendAsRequest{
		From: users[0], Send: &petrelv1.Send{Conv: group, ClientMsgId: "look", Body: &petrelv1.Send_Text{Text: "look at this"}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	looking := startLooking(t, &look{URL: s.URL(wire.WebSocket), Conv: group, Seq: ack.Msg.Seq, Tokens: tokens[:n/5], Lasts: lasts})
	defer looking.end()
	before := looking.next()
	measure := func() (*acks, float64) {
		cpu := stats(t, s).CpuS
		a := friends.talk(t, s, lasts)
		return a, stats(t, s).CpuS - cpu
	}
	quiet, quietCPU := measure()
	looking.begin()
	busy, busyCPU := measure()
	after := looking.next()
	p99, quietP99 := busy.at(0.99), quiet.at(0.99)
	t.Logf("members=%d looking=%d standing=%d changes=%d react p50=%v p99=%v", n, n/5, before.Reacted, after.Reacted, after.P50, after.P99)
	t.Logf("server cpu=%.2f s, without reactions %.2f s; frames with reactions=%d bytes received of them and of answers=%d", busyCPU, quietCPU, after.Pushed, after.Bytes-before.Bytes)
	t.Logf("acks quiet: %d p50=%v p99=%v max=%v; meanwhile: %d p50=%v p99=%v max=%v", len(quiet.times), quiet.at(0.5), quietP99, quiet.at(1), len(busy.times), busy.at(0.5), p99, busy.at(1))
	if want := n / 10 * standing; before.Reacted != want {
		t.Errorf("%d reactions stand, want %d", before.Reacted, want)
	}
	if want := n / 10 * changes; after.Reacted != want {
		t.Errorf("%d reactions were changed, want %d", after.Reacted, want)
	}
	if full && p99 > max(3*quietP99, 20*time.Millisecond) {
		t.Errorf("ack p99 is %v; quiet it is %v", p99, quietP99)
	}
}

// look is what the process of those who look at a group is told. A line after it has them
// change their reactions.
type look struct {
	URL    string
	Conv   string
	Seq    uint64
	Tokens []string // of all who look; the first half of them react
	Lasts  time.Duration
}

// looked is what that process tells when everybody has been told how the reactions stand.
type looked struct {
	Reacted  int // reactions that were answered
	Pushed   int64
	Bytes    int64 // that came from the server until now
	P50, P99 time.Duration
}

// lookers is that process.
type lookers struct {
	t   *testing.T
	in  *json.Encoder
	out *json.Decoder
	end func() // waits until it has ended
}

func startLooking(t *testing.T, l *look) *lookers {
	cmd := exec.CommandContext(t.Context(), "taskset", "-c", "1", os.Args[0])
	cmd.Env = append(os.Environ(), lookEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start those who look: %v", err)
	}
	p := &lookers{t: t, in: json.NewEncoder(in), out: json.NewDecoder(out)}
	p.end = func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Errorf("those who look ended with: %v", err)
		}
	}
	if err := p.in.Encode(l); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *lookers) begin() {
	if err := p.in.Encode("change"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *lookers) next() (r looked) {
	if err := p.out.Decode(&r); err != nil {
		p.t.Fatalf("read what those who look tell: %v", err)
	}
	return r
}
