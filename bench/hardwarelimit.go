package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// This file measures the limit of the machine without a chat server: frames that go through one event loop like
// that of the server and come back, frames that go to many, and entries of a log with one sync for all that have
// come meanwhile. No server that does the same work over the same sockets and the same disk can need less.

// Floor is the limit of the machine for the messages of a run: with as many connections, but at most
// floorConnections, frames of the same size, and as many on their way. It is measured just before the run.
type Floor struct {
	Echo   Task `json:"echo"`
	FanOut Task `json:"fan_out"`
	Log    Task `json:"log"`

	// AcceptedPerCPU is for how many messages a CPU-second is enough. Each comes in and is answered, is written
	// to the log, and goes to as many receivers as in the run.
	AcceptedPerCPU float64 `json:"accepted_per_cpu_s"`
	Share          float64 `json:"share"` // the share of AcceptedPerCPU that the run has reached: 0 to 1
}

// shape has the parameters with which the floor is measured.
type shape struct {
	senders, receivers int // receivers 0: frames come back; 1: each sender has its own; more: the senders share them
	window             int // frames of each sender on their way
	size               int // bytes of a frame
}

// floorProbe is the longest time for which each part of the floor is measured before a run. Params.probe shortens it.
const floorProbe = 300 * time.Millisecond

// floorShapes returns how messages of p come in, how they go out, and how many entries of the log share a sync.
// sync is how long a sync takes, in ms.
func (p *Params) floorShapes(sync float64) (in, out shape, batch int) {
	in = shape{senders: p.Senders, window: p.Window, size: p.Size + frameOverhead}
	if p.traffic() == ring {
		in.senders = p.Connections
	}
	batch = in.senders * in.window
	if p.open() {
		in.window, batch = 1, int(p.due()*sync/1000)
	}
	in.senders, batch = min(in.senders, floorConnections), min(max(1, batch), logBatch)
	if out = in; p.traffic() != groups {
		out.receivers = 1
		return in, out, batch
	}
	out.senders, out.receivers = 1, min(p.Members-1, floorConnections)
	if !p.open() { // the frames of all senders may leave together
		out.window = max(1, min(in.senders*in.window, floorWrite/in.size))
	}
	return in, out, batch
}

// due returns how many messages of all senders become due in a second of an open loop; with random pauses, the
// mean.
func (p *Params) due() float64 {
	if len(p.IntervalMS) > 0 {
		return float64(p.Connections) * 2000 / (p.IntervalMS[0] + p.IntervalMS[1])
	}
	return p.Rate
}

const (
	// frameOverhead is about what a frame has beside the text, in bytes.
	frameOverhead = 40
	// logBatch is the most entries that share one sync of the log.
	logBatch = 4096 // entries
	// floorConnections is the most connections of each side. The cost of one does not depend on how many there
	// are.
	floorConnections = 1000
	// floorWrite is the most bytes that go to a connection at once.
	floorWrite = 64 << 10 // bytes
)

// measureFloor measures the three parts, each for d. sync is how long a sync of the disk takes, in ms.
func measureFloor(ctx context.Context, p *Params, dir string, sync float64, d time.Duration) (f *Floor, err error) {
	in, out, batch := p.floorShapes(sync)
	f = &Floor{}
	if f.Echo, err = relay(ctx, taskEcho, in, d); err != nil {
		return nil, err
	}
	if f.FanOut, err = relay(ctx, taskFanOut, out, d); err != nil {
		return nil, err
	}
	f.Log, err = groupCommit(dir, batch, in.size, d)
	return f, err
}

// compare fills in AcceptedPerCPU and Share for a run; if nothing was accepted, it leaves them 0.
func (f *Floor) compare(r *Report) {
	if r.Accepted == 0 {
		return
	}
	each := f.Echo.CPUEach + f.Log.CPUEach + f.FanOut.CPUEach*float64(r.Delivered)/float64(r.Accepted)
	if each > 0 {
		f.AcceptedPerCPU = round(1e6/each, 10)
		f.Share = round(r.Server.AcceptedPerCPU/f.AcceptedPerCPU, 1000)
	}
}

// relay measures a server that does nothing but pass frames on.
func relay(ctx context.Context, name string, s shape, d time.Duration) (task Task, err error) {
	runtime.LockOSThread() // the CPU time of this thread is that of the client, the rest that of the server
	defer runtime.UnlockOSThread()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return task, fmt.Errorf("measure the %s: %w", name, err)
	}
	defer l.Close()
	server, err := newRelayServer(s)
	if err != nil {
		return task, fmt.Errorf("measure the %s: %w", name, err)
	}
	defer server.stop()
	c := &relayClient{shape: s, frame: bytes.Repeat([]byte{'x'}, s.size), times: newTimes(3)}
	if c.poll, err = newPoller(); err != nil {
		return task, err
	}
	defer c.poll.close()
	defer func() {
		for _, fd := range c.fds {
			closeSocket(fd)
		}
	}()
	for i := range s.connections() {
		fd, err := pair(l, func(nc *net.TCPConn) error { return server.enroll(i, nc) })
		if err != nil {
			return task, fmt.Errorf("measure the %s: %w", name, err)
		}
		c.fds = append(c.fds, fd)
		if err := c.poll.add(fd, i); err != nil {
			return task, err
		}
	}
	if err := c.run(ctx, d/4); err != nil { // to warm up
		return task, fmt.Errorf("measure the %s: %w", name, err)
	}
	c.done = 0
	c.times.Reset()
	began, all, own := time.Now(), ownCPU().all(), threadCPU()
	if err := c.run(ctx, d); err != nil {
		return task, fmt.Errorf("measure the %s: %w", name, err)
	}
	took, used := time.Since(began).Seconds(), ownCPU().all()-all-(threadCPU()-own)
	task = newTask(name, c.done, took, used, c.times)
	task.Size = max(1, s.receivers)
	return task, nil
}

// connections counts the connections of a relay: senders, and for each sender its receiver, or the common
// receivers.
func (s shape) connections() int {
	switch s.receivers {
	case 0:
		return s.senders
	case 1:
		return 2 * s.senders
	}
	return s.senders + s.receivers
}

// targets returns the connections that get sender i's frames.
func (s shape) targets(i int) (from, to int) {
	switch s.receivers {
	case 0:
		return i, i + 1
	case 1:
		return s.senders + i, s.senders + i + 1
	}
	return s.senders, s.senders + s.receivers
}

// pair makes a connection. It passes the server's end to take, and returns the client's end.
func pair(l net.Listener, take func(*net.TCPConn) error) (fd int, err error) {
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return -1, err
	}
	defer nc.Close()
	other, err := l.Accept()
	if err != nil {
		return -1, err
	}
	if err := take(other.(*net.TCPConn)); err != nil {
		return -1, err
	}
	return takeSocket(nc.(*net.TCPConn))
}

// relayClient keeps a window of frames of each sender on its way, and measures how long a window takes.
type relayClient struct {
	shape
	frame []byte
	poll  *poller
	fds   []int
	times *hdrhistogram.Histogram

	lanes []lane // one for each sender
	done  uint64 // frames that have arrived
	buf   [64 << 10]byte
}

// lane counts the frames of a sender: those sent and those that have arrived.
type lane struct {
	sent, bytes uint64 // frames sent, and bytes that have arrived, at all receivers together
	since       int64  // when the last window was sent, in ns since run began
	late        []byte // the end of the last write, if it did not fit
}

// run sends for d, and returns when all frames have arrived.
func (c *relayClient) run(ctx context.Context, d time.Duration) error {
	base := time.Now()
	if c.lanes == nil {
		c.lanes = make([]lane, c.senders)
	}
	for i := range c.lanes {
		if err := c.send(i, time.Since(base)); err != nil {
			return err
		}
	}
	var events []ready
	var err error
	for {
		now := time.Since(base)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if now > d+10*time.Second {
			return errors.New("frames do not arrive")
		}
		if events, err = c.poll.wait(longestWait, events); err != nil {
			return err
		}
		for i := range events {
			if err := c.ready(&events[i]); err != nil {
				return err
			}
		}
		now = time.Since(base)
		left := 0
		for i := range c.lanes {
			l := &c.lanes[i]
			if l.bytes < l.sent*c.each() {
				left++
				if len(l.late) > 0 {
					err = c.write(i, l.late)
				}
			} else if now < d {
				observe(c.times, int64(now)-l.since)
				err = c.send(i, now)
				left++
			}
			if err != nil {
				return err
			}
		}
		if left == 0 && now >= d {
			return nil
		}
	}
}

// each returns the bytes that arrive of one frame, at all its receivers together.
func (c *relayClient) each() uint64 { return uint64(c.size) * uint64(max(1, c.receivers)) }

// send sends a window of frames.
func (c *relayClient) send(i int, now time.Duration) error {
	l := &c.lanes[i]
	l.since = int64(now)
	l.sent += uint64(c.window)
	return c.write(i, bytes.Repeat(c.frame, c.window))
}

func (c *relayClient) write(i int, b []byte) error {
	n, err := writeSocket(c.fds[i], b)
	c.lanes[i].late = b[n:]
	return err
}

// ready reads the bytes that have arrived at a connection, and counts them for their sender.
func (c *relayClient) ready(e *ready) error {
	for e.readable {
		n, again, err := readSocket(c.fds[e.conn], c.buf[:])
		if again {
			return nil
		}
		if err != nil || n == 0 {
			return fmt.Errorf("connection %d has ended: %w", e.conn, err)
		}
		i := 0
		switch c.receivers {
		case 0:
			i = e.conn
		case 1:
			i = e.conn - c.senders
		}
		l := &c.lanes[i]
		before := l.bytes / uint64(c.size)
		l.bytes += uint64(n)
		c.done += l.bytes/uint64(c.size) - before
	}
	return nil
}

// groupCommit writes batches of entries to a file and syncs it after each.
func groupCommit(dir string, batch, size int, d time.Duration) (Task, error) {
	runtime.LockOSThread() // the CPU time of this thread is that of the log
	defer runtime.UnlockOSThread()
	f, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return Task{}, fmt.Errorf("measure the log: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	entry := []byte(strings.Repeat("petrel, ", size/8+1))[:size]
	var b []byte
	times, n := newTimes(3), uint64(0)
	began, used := time.Now(), threadCPU()
	for time.Since(began) < d {
		at := time.Now()
		b = b[:0]
		for range batch {
			b = append(b, entry...)
		}
		if _, err = f.Write(b); err == nil {
			err = fdatasync(f)
		}
		if err != nil {
			return Task{}, fmt.Errorf("measure the log: %w", err)
		}
		n += uint64(batch)
		observe(times, int64(time.Since(at)))
	}
	task := newTask(taskLog, n, time.Since(began).Seconds(), threadCPU()-used, times)
	task.Size = batch
	return task, nil
}

// limit runs the scenario Limit. It measures three relays: an echo, one with a receiver for each sender, and one from a
// single sender to p.Members-1 receivers; each with one frame and with p.Window frames of each sender on their way.
// Then it measures logs with batches of several sizes.
func (r *run) limit(ctx context.Context) error {
	p := &r.p
	dir, err := os.MkdirTemp(p.Dir, "petrel-bench-")
	if err != nil {
		return fmt.Errorf("make a folder for the log: %w", err)
	}
	defer os.RemoveAll(dir)
	r.say("measuring the disk of %s", filepath.Dir(dir))
	if r.report.Disk, err = measureDisk(dir, p.probe(diskProbe)); err != nil {
		return err
	}
	began := time.Now()
	d, size := seconds(p.Seconds), p.Size+frameOverhead
	windows := []int{1, p.Window}
	if p.Window == 1 {
		windows = windows[:1]
	}
	for _, w := range windows {
		for _, s := range []shape{{p.Senders, 0, w, size}, {p.Senders, 1, w, size}, {1, p.Members - 1, w, size}} {
			name := taskFanOut
			if s.receivers == 0 {
				name = taskEcho
			}
			r.say("%s with %d connections, %d frames of each sender on their way", name, s.connections(), w)
			task, err := relay(ctx, name, s, d)
			if err != nil {
				return err
			}
			task.Window = w
			r.report.Tasks = append(r.report.Tasks, task)
		}
	}
	for _, batch := range []int{1, 16, 256, logBatch} {
		r.say("a log, with a sync for %d entries", batch)
		task, err := groupCommit(dir, batch, size, d)
		if err != nil {
			return err
		}
		r.report.Tasks = append(r.report.Tasks, task)
	}
	r.report.Seconds = round(time.Since(began).Seconds(), 10)
	return nil
}
