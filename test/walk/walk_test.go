// Package walk has the Go SDK meet the real server in long random walks: applications write,
// read, edit and leave while links, disks, clients and the server fail. In the end each
// application knows what the log of the server has, and was told everything once.
package walk

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	petrel "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

var (
	seed  = flag.Int("seed", 1, "the first seed")
	seeds = flag.Int("seeds", 10, "how many walks")
	steps = flag.Int("steps", 10_000, "of each walk")
)

// together is how many walks share a server.
const together = 10

func TestWalks(t *testing.T) {
	total := map[string]int{}
	for first := *seed; first < *seed+*seeds; first += together {
		last := min(first+together, *seed+*seeds) - 1
		t.Run(fmt.Sprintf("seeds %d to %d", first, last), func(t *testing.T) {
			began, used := time.Now(), cpu()
			w := newWorld(t)
			for s := first; s <= last; s++ {
				w.walks = append(w.walks, newWalk(w, s))
			}
			w.walking = len(w.walks)
			var all sync.WaitGroup
			for _, x := range w.walks {
				all.Go(x.run)
			}
			if limit := 5*time.Minute + time.Duration(*steps)*30*time.Millisecond; !within(limit, all.Wait) {
				t.Fatalf("the walks do not end within %v; they are at:\n%s", limit, stacks())
			}
			w.server.Stop()
			counts := map[string]int{}
			for _, x := range w.walks {
				for _, e := range x.errs {
					t.Errorf("seed %d: %s", x.seed, e)
				}
				if len(x.errs) > 0 {
					t.Logf("seed %d did:\n%s", x.seed, strings.Join(x.lines, "\n"))
				}
				for what, n := range x.counted() {
					counts[what] += n
					total[what] += n
				}
			}
			t.Logf("seeds %d to %d of %d steps: %v, %v of CPU; %v", first, last, *steps, time.Since(began).Round(time.Millisecond), (cpu() - used).Round(time.Millisecond), counts)
		})
	}
	for _, what := range disturbances {
		if total[what] == 0 && *steps**seeds >= 100_000 {
			t.Errorf("no walk met: %s", what)
		}
	}
}

// within tells whether f returns in time.
func within(long time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return true
	case <-time.After(long):
		return false
	}
}

// stacks are those of the goroutines that walk.
func stacks() string {
	b := make([]byte, 16<<20)
	b = b[:runtime.Stack(b, true)]
	var walks []string
	for s := range strings.SplitSeq(string(b), "\n\n") {
		if strings.Contains(s, "(*walk).run(") {
			walks = append(walks, s)
		}
	}
	return strings.Join(walks, "\n\n")
}

// cpu is what this process and those that it has started and that have ended have used.
func cpu() time.Duration {
	var sum time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if syscall.Getrusage(who, &r) == nil {
			sum += time.Duration(r.Utime.Nano() + r.Stime.Nano())
		}
	}
	return sum
}

// A walk is what one seed has three users do, with four devices.
type walk struct {
	world *world
	seed  int
	dir   string
	rand  *rand.Rand
	lossy *lossy

	alice, bob, carol string
	tablet            *device // of alice; it keeps little, and may be logged out
	devices           []*device
	stay              string   // a group whose members stay
	groups            []string // others
	groupsThen        []string // when the store was copied
	step              int
	texts             int
	lines             []string // of the log
	count             map[string]int

	mu   sync.Mutex // tier 0; guards errs
	errs []string
}

func newWalk(w *world, seed int) *walk {
	x := &walk{
		world: w, seed: seed, dir: w.t.TempDir(), rand: rand.New(rand.NewPCG(uint64(seed), 14)), lossy: &lossy{}, count: map[string]int{},
		alice: fmt.Sprint("alice", seed), bob: fmt.Sprint("bob", seed), carol: fmt.Sprint("carol", seed),
	}
	w.server.Users("", x.alice, x.bob, x.carol)
	x.stay = w.server.Group("", fmt.Sprint("stay", seed), x.alice, x.bob, x.carol)
	x.groups = []string{w.server.Group("", fmt.Sprint("change", seed), x.alice, x.bob, x.carol)}
	for i, d := range []*device{{name: "phone", user: x.alice}, {name: "tablet", user: x.alice, keep: 60}, {name: "bot", user: x.bob, bot: true}, {name: "desk", user: x.carol}} {
		d.w, d.disk, d.open, d.shown = x, newDisk(), map[string]*composed{}, shown{convs: map[string]*view{}}
		d.net = newNetwork(strings.TrimPrefix(w.server.URL(1), "tcp://"), i%2 == 1)
		x.devices = append(x.devices, d)
	}
	x.tablet = x.devices[1]
	return x
}

// fail notes an error; the walk ends then.
func (w *walk) fail(format string, a ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.errs) < 3 {
		w.errs = append(w.errs, fmt.Sprintf("step %d: ", w.step)+fmt.Sprintf(format, a...))
	}
}

// log keeps the newest lines about the actions of the walk, for the search for a fault.
func (w *walk) log(format string, a ...any) {
	if w.lines = append(w.lines, fmt.Sprintf("step %d: ", w.step)+fmt.Sprintf(format, a...)); len(w.lines) > 40 {
		w.lines = w.lines[1:]
	}
}

func (w *walk) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.errs) > 0
}

func (w *walk) random(n int) int { return w.rand.IntN(n) }

func (w *walk) run() {
	part := 0
	defer func() {
		for _, d := range w.devices {
			d.end(func(error) bool { return true })
		}
	}()
	defer w.world.leave()
	for _, d := range w.devices {
		d.logIn()
		d.start()
	}
	for _, d := range w.devices {
		if !d.wait(patience, func() bool { return d.c.Status().Synced }) {
			w.fail("%s does not sync", d.name)
		}
	}
	for w.step = 1; w.step <= *steps && !w.failed(); w.step++ {
		w.next()
		if part < parts && w.step >= (part+1)**steps/(parts+1) {
			part++
			w.world.pause()
		}
	}
	if !w.failed() {
		w.settle()
	}
	if !w.failed() {
		w.audit()
	}
}

// serverWentBack: the server is down, and its store is put back before it starts again.
func (w *walk) serverWentBack() {
	w.groups = w.groupsThen
	for _, d := range w.devices {
		d.net.thaw()
		if d.c != nil && !d.wait(patience, func() bool { return !d.live() }) {
			w.fail("%s does not notice that the server is gone", d.name)
		}
		if d.c != nil {
			d.look(false)
		}
		if d.bot { // a message that its loop holds would be taken for one of after
			d.end(d.mayEnd)
		}
		d.serverWentBack()
	}
}

// counted is how often what has happened.
func (w *walk) counted() map[string]int {
	for _, d := range w.devices {
		for f, name := range faultNames {
			w.count[name] += d.net.done[fault(f)]
		}
	}
	w.count["refresh whose answer is lost"] += w.lossy.lost
	return w.count
}

var faultNames = [faults]string{"push lost", "frame doubled", "frame overtaken", "answer lost", "cut before a write", "cut after a write", "frame of a stale socket", "late frame of the client"}

// disturbances are what the walks must have met.
var disturbances = append(slices.Clone(faultNames[:]), "cut", "frozen", "thawed", "restart", "crash", "loss of power", "disk", "token expired", "refresh whose answer is lost", "logged out", "woken", "read together")

// next takes one step.
func (w *walk) next() {
	d := w.devices[w.random(len(w.devices))]
	if d.c == nil {
		d.start()
	}
	d.tend()
	if d.c == nil || w.failed() {
		return
	}
	switch k := w.random(1000); {
	case k < 500:
		w.write(d)
	case k < 560:
		w.change(d)
	case k < 563:
		w.whole(d)
	case k < 754:
		w.use(d)
	case k < 773:
		w.govern(d)
	case k < 780:
		w.readTogether()
	case k < 960:
		w.disturb(d)
	default:
		w.trouble(d)
	}
}

// conv is some conversation of d; sure: its user never leaves it.
func (w *walk) conv(d *device) (to string, sure bool) {
	switch k := w.random(8); {
	case k < 3:
		return w.stay, true
	case k < 5 || len(w.groups) == 0:
		peers := slices.DeleteFunc([]string{w.alice, w.bob, w.carol}, func(u string) bool { return u == d.user })
		return "@" + peers[w.random(2)], true
	}
	return w.groups[w.random(len(w.groups))], false
}

// write sends a message. An application that has much on its way waits.
func (w *walk) write(d *device) {
	to, sure := w.conv(d)
	if d.sending(to) > 3 {
		if d.live() && !d.net.isFrozen() {
			if !d.wait(patience, func() bool { return d.sending(to) <= 3 || !d.live() }) {
				w.fail("%s: nothing of %d messages to %s is settled: %v; %s", d.name, d.sending(to), to, d.c.Status(), d.net)
			}
		} else if d.sending(to) > 12 {
			d.c.WakeUp()
			return
		}
	}
	if d.c == nil || w.failed() {
		return
	}
	w.texts++
	x := petrel.Draft{Text: fmt.Sprintf("%s %d", d.name, w.texts)}
	switch w.random(16) {
	case 0:
		x.ID = fmt.Sprintf("own-%s-%d", d.name, w.texts)
	case 1:
		x.Mentions = []string{w.alice}
	case 2:
		x.Text += strings.Repeat("x", w.random(2000))
	case 3:
		x.Silent = true
	}
	if m := w.entry(d, to, false); m != nil && w.random(10) == 0 {
		x.ReplyTo = m.Seq
		sure = false // the entry may be another one after the server went back
	}
	d.compose(to, sure, x)
}

// entry is one of the newest entries of a conversation with a text; own: of the user of d.
func (w *walk) entry(d *device, to string, own bool) *petrel.Message {
	id := d.convOf(to)
	v := d.shown.convs[id]
	if v == nil || len(v.told) == 0 {
		return nil
	}
	at := max(0, len(v.told)-1-w.random(20))
	for _, m := range d.c.Messages(id, v.told[at]-1, 5) {
		if m.GetText() != "" && (!own || m.From == d.user) {
			return &m
		}
	}
	return nil
}

// change edits or recalls an own message.
func (w *walk) change(d *device) {
	to, _ := w.conv(d)
	m := w.entry(d, to, true)
	if m == nil || d.sending(to) > 6 {
		return
	}
	w.texts++
	if w.random(3) == 0 {
		d.compose(to, false, petrel.Draft{Recall: &petrelv1.Recall{Target: m.Seq}})
		return
	}
	d.compose(to, false, petrel.Draft{Edit: &petrelv1.Edit{Target: m.Seq, Body: &petrelv1.Edit_Text{Text: fmt.Sprintf("%s %d", d.name, w.texts)}}})
}
