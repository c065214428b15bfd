package chaos

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/petrel-im/petrel/test/crowd"
)

// slowLink is a link between a node's host and the bridge that holds each packet for a while.
// The kernel's own queue for that, netem, is not in every kernel, so this process carries the
// packets between two TAP devices.
type slowLink struct {
	oneWay atomic.Int64 // ns
	wg     sync.WaitGroup
}

const (
	// frameBytes is above the size of an Ethernet frame without jumbo frames.
	frameBytes = 2048
	// heldFrames is how many packets wait in one direction; more are lost, as in any link.
	heldFrames = 4096

	// The host $2 on the bridge of $1 has $3 as its link instead of eth0, with the same
	// addresses: connections go on.
	replug = `ip -n "$1" link set "$3" master bridge up
ip -n "$1-$2" link set eth0 down
ip -n "$1-$2" addr flush dev eth0
ip -n "$1-$2" link set "$3" address "$5"
ip -n "$1-$2" addr add "$4/24" dev "$3"
ip -n "$1-$2" link set "$3" up`
)

var etherAddr = regexp.MustCompile(`link/ether (\S+)`)

// delay gives the host of a node a slow link, and has it hold each packet for d.
func (n *network) delay(o *node, d time.Duration) {
	n.t.Helper()
	l := n.slow[o]
	if l == nil {
		l = &slowLink{}
		if n.slow == nil {
			n.slow = map[*node]*slowLink{}
		}
		n.slow[o] = l
		out, err := output(`ip -n "$1" link show eth0`, o.netns)
		mac := etherAddr.FindStringSubmatch(out)
		if err != nil || mac == nil {
			n.t.Fatalf("read the address of the link of %s: %v: %s", o.name, err, out)
		}
		device := "far-" + o.name
		ends := [2]*os.File{openTAP(n.t, n.name, device), openTAP(n.t, o.netns, device)}
		if err := sh(replug, n.name, o.name, device, n.addrs[o], mac[1]); err != nil {
			n.t.Fatal(err)
		}
		ctx := n.t.Context()
		l.wg.Go(func() { l.carry(ctx, ends[0], ends[1]) })
		l.wg.Go(func() { l.carry(ctx, ends[1], ends[0]) })
		n.t.Cleanup(func() {
			for _, f := range ends {
				_ = f.Close() // ends carry
			}
			l.wg.Wait()
		})
	}
	l.oneWay.Store(int64(d))
}

// carry carries the packets of one direction until a device is closed.
func (l *slowLink) carry(ctx context.Context, from, to *os.File) {
	type held struct {
		frame []byte
		due   time.Time
	}
	queue := make(chan held, heldFrames)
	l.wg.Go(func() {
		for h := range queue {
			crowd.Wait(ctx, time.Until(h.due))
			_, _ = to.Write(h.frame) // a packet that is refused is lost
		}
	})
	defer close(queue)
	for {
		b := make([]byte, frameBytes)
		n, err := from.Read(b)
		if err != nil {
			return
		}
		select {
		case queue <- held{b[:n], time.Now().Add(time.Duration(l.oneWay.Load()))}:
		default:
		}
	}
}

// openTAP makes a TAP device in a network namespace, which is there until it is closed.
func openTAP(t *testing.T, netns, device string) *os.File {
	t.Helper()
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends in its namespace
		f, err := openHere(netns, device)
		done <- opened{f, err}
	}()
	o := <-done
	if o.err != nil {
		t.Fatalf("make device %s in %s: %v", device, netns, o.err)
	}
	return o.f
}

func openHere(netns, device string) (*os.File, error) {
	ns, err := os.Open("/run/netns/" + netns)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("enter: %w", err)
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	r, err := unix.NewIfreq(device)
	if err == nil {
		r.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if err != nil {
		_ = unix.Close(fd) // the first error counts
		return nil, err
	}
	return os.NewFile(uintptr(fd), device), nil
}
