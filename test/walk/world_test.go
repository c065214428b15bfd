package walk

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/imtest/proctest"
	petrel "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// A world is a server with the walks of some seeds, which take the same breaks together: in
// them the server is killed, or put back to an earlier state.
type world struct {
	t      *testing.T
	server *imtest.Server
	aside  string // copy of the folder

	mu      sync.Mutex // tier 0; guards the fields below
	walking int
	waiting int
	resume  chan struct{} // closed when the next part begins
	breaks  int
	walks   []*walk
}

// The breaks of all walks of a world.
const (
	killed = iota
	copied
	killedAgain
	putBack
	parts
)

func newWorld(t *testing.T) *world {
	w := &world{t: t, resume: make(chan struct{}), aside: filepath.Join(t.TempDir(), "aside")}
	w.server = imtest.Start(t, imtest.Options{Program: true, Dir: filepath.Join(t.TempDir(), "data"), Config: map[string]string{
		"accounts.refreshes_per_min": "-1",
	}})
	return w
}

// mint logs a device in, as an application's back end does.
func (w *world) mint(user, device string) petrel.Tokens {
	r, err := w.server.Admin.MintToken(context.Background(), connect.NewRequest(&petrelv1.MintTokenRequest{User: user, Device: &petrelv1.DeviceRef{Id: device}}))
	if err != nil {
		w.t.Errorf("mint tokens of %s: %v", device, err)
		return petrel.Tokens{}
	}
	return petrel.Tokens{
		User: r.Msg.User, Device: r.Msg.Device, Access: r.Msg.AccessToken, Refresh: r.Msg.RefreshToken,
		AccessExpires: time.UnixMilli(int64(r.Msg.AccessExpiresMs)), RefreshExpires: time.UnixMilli(int64(r.Msg.RefreshExpiresMs)),
	}
}

// pause has a walk wait for the others. The last one to come takes the break.
func (w *world) pause() {
	w.mu.Lock()
	w.waiting++
	resume := w.resume
	if w.waiting == w.walking {
		w.breakLocked()
	}
	w.mu.Unlock()
	<-resume
}

// leave: a walk pauses no more.
func (w *world) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.walking--
	if w.waiting > 0 && w.waiting == w.walking {
		w.breakLocked()
	}
}

func (w *world) breakLocked() {
	switch s := w.server; w.breaks {
	case killed, killedAgain:
		s.Kill()
		s.Start()
	case copied:
		s.RestartOn(func(dir string) {
			if err := os.CopyFS(w.aside, os.DirFS(dir)); err != nil {
				w.t.Errorf("copy the store: %v", err)
			}
		})
		for _, x := range w.walks {
			x.groupsThen = x.groups
		}
	case putBack:
		s.Kill()
		for _, x := range w.walks {
			x.serverWentBack()
		}
		w.restore()
		s.Start()
		for _, x := range w.walks {
			for _, d := range x.devices {
				d.logIn() // its newest tokens are from the time that was taken back
			}
		}
	}
	w.breaks++
	w.waiting = 0
	close(w.resume)
	w.resume = make(chan struct{})
}

// restore puts the folder back, and goes on with it under another history id.
func (w *world) restore() {
	if err := errors.Join(os.RemoveAll(w.server.Dir), os.CopyFS(w.server.Dir, os.DirFS(w.aside))); err != nil {
		w.t.Errorf("put the store back: %v", err)
	}
	out, err := exec.Command(proctest.Program(w.t), "repair", "--new-history", "--data", w.server.Dir).CombinedOutput()
	if err != nil {
		w.t.Errorf("renew the store: %v\n%s", err, out)
	}
}

// lossy loses the answers of requests.
type lossy struct {
	mu   sync.Mutex // tier 0; guards lose
	lose int
	lost int
}

var errAnswerLost = errors.New("the walk has lost the answer")

func (x *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	x.mu.Lock()
	defer x.mu.Unlock()
	if err == nil && x.lose > 0 {
		x.lose--
		x.lost++
		_ = answer.Body.Close() // it is lost
		return nil, errAnswerLost
	}
	return answer, err
}

// loseOne has the next answer not come.
func (x *lossy) loseOne() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lose = 1
}

func (x *lossy) stop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lose = 0
}

func (w *walk) auth() petrel.Auth {
	return petrel.Auth{URL: w.world.server.BaseURL(), HTTP: &http.Client{Transport: w.lossy}}
}
