package clients

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/test/crowd"
)

const root = "../.." // of the module, from the packages with tests that use this one

// Device is the process of test/foreign/python/device.py, which speaks the protocol and shares no code with the
// server or the Go SDK.
type Device struct {
	t      *testing.T
	cmd    *exec.Cmd
	mu     sync.Mutex // tier 0; guards a command with its answer
	in     io.WriteCloser
	out    *bufio.Reader
	errOut bytes.Buffer // read once the process has ended
}

type deviceOptions struct {
	URLs      []string `json:"addresses"`
	Token     string   `json:"token"`
	Device    string   `json:"device"`
	WaitMs    int      `json:"waitMs"`
	MaxWaitMs int      `json:"maxWaitMs"`
}

// Count is the progress of the device.
type Count struct {
	State     string // "live" after the first sync of a connection
	HistoryID string
	Acked     int // messages
	Outbox    int // messages
	Syncs     int // that were answered, with all their pages
	Resets    int
	WentBack  []string // the reasons for which the device found that the server had gone back; Spec: P-6.8
	// SyncBegan is the Unix time at which the newest sync was sent, in seconds.
	SyncBegan float64
}

// Held is what the device holds.
type Held struct {
	Outbox   []string          // client message ids
	Rejected map[string]string // codes by client message id
	Unknown  []string
	Convs    map[string]struct {
		Head, Have uint64
		Messages   []json.RawMessage
	}
}

func startDevice(t *testing.T, o deviceOptions) *Device {
	t.Helper()
	python, err := filepath.Abs(filepath.Join(root, "build/venv/bin/python"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "build/venv/lib")); err != nil {
		t.Fatalf("%v; run `make test`, or: python3 -m venv build/venv && build/venv/bin/pip install -r test/foreign/python/requirements.txt", err)
	}
	d := &Device{t: t, cmd: exec.Command(python, "-B", filepath.Join(root, "test/foreign/python/device.py"))}
	d.cmd.Stderr = &d.errOut
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.out = bufio.NewReader(out)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.in.Close() // it ends then
		ended := time.AfterFunc(eventually.Limit, func() { _ = d.cmd.Process.Kill() })
		err := d.cmd.Wait()
		ended.Stop()
		if err != nil {
			t.Errorf("the device ended with %v", err)
		}
		if t.Failed() {
			b := d.errOut.Bytes()
			t.Logf("last words of the device:\n%s", b[max(0, len(b)-8000):])
		}
	})
	d.line(o)
	return d
}

func (d *Device) line(v any) {
	d.t.Helper()
	b, err := json.Marshal(v)
	if err == nil {
		_, err = d.in.Write(append(b, '\n'))
	}
	if err != nil {
		d.t.Fatalf("the device takes no commands: %v", err)
	}
}

// do makes the device carry out a command, and reads its answer.
func (d *Device) do(command, answer any) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.line(command)
	b, err := d.out.ReadBytes('\n')
	if err == nil && answer != nil {
		err = json.Unmarshal(b, answer)
	}
	if err != nil {
		d.t.Fatalf("the device has not answered %v: %v", command, err)
	}
}

// Count asks the device for its progress.
func (d *Device) Count() (n Count) {
	d.t.Helper()
	d.do(map[string]any{"do": "count"}, &n)
	return n
}

// Holds asks the device for its messages. Rejected messages and those of unknown outcome are errors of the test.
func (d *Device) Holds() (h Held) {
	d.t.Helper()
	d.do(map[string]any{"do": "show"}, &h)
	if len(h.Rejected)+len(h.Unknown) > 0 {
		d.t.Errorf("messages of the device were rejected %v, or nobody knows of them %v", h.Rejected, h.Unknown)
	}
	return h
}

// Reconnect makes the device connect again, and waits until it has synced. Then its sync token is up to date.
func (d *Device) Reconnect() {
	d.t.Helper()
	before := d.Count().Syncs
	d.do(map[string]any{"do": "reconnect"}, nil)
	if !crowd.Until(d.t.Context(), settleTime, func() bool { return d.Count().Syncs > before }) {
		d.t.Fatalf("the device does not sync: %+v", d.Count())
	}
}

// holds returns the messages of a conversation that the device holds; nil while it has a gap.
func (d *Device) holds(conv string) (list []string) {
	d.t.Helper()
	c := d.Holds().Convs[conv]
	if c.Have < c.Head {
		return nil
	}
	for _, b := range c.Messages {
		var m petrelv1.Message
		if err := protojson.Unmarshal(b, &m); err != nil {
			d.t.Fatal(fmt.Errorf("the device holds %s: %w", b, err))
		}
		list = append(list, line(&m))
	}
	return list
}
