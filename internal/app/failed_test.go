package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
)

func int64Value(n int64) protoreflect.Value { return protoreflect.ValueOfInt64(n) }

const lateToHear = "after the server had ended"

// childDir names the folder of a child process that breaks its own disk.
const childDir = "PETREL_APP_TEST_CHILD"

// A store that fails ends the server with an error. It runs in a process of
// its own: what a failed store has under way stays for ever.
func TestFailedStoreEndsTheServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	var out []byte
	var err error
	for range 3 { // on a busy machine a client may be late to read what it was told
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+t.TempDir())
		if out, err = cmd.CombinedOutput(); !strings.Contains(string(out), lateToHear) {
			break
		}
	}
	if err != nil || !strings.Contains(string(out), "\nas it should\n") {
		t.Errorf("child: %v\n%s", err, out)
	}
}

// A node that is stopped hands its feeds over for as long as Drain.Timeout. If its store fails
// meanwhile, nobody waits for that: what takes no commits hands nothing over.
func TestNoFeedsAreHandedOverAfterTheStoreHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan struct{})
		ctx, release := unlessFailed(t.Context(), failed)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Errorf("the store works, and the context ends with %v", context.Cause(ctx))
		}
		close(failed)
		synctest.Wait()
		if !errors.Is(context.Cause(ctx), store.ErrFailed) {
			t.Errorf("the store has failed, and the context ends with %v", context.Cause(ctx))
		}
		release()
		ctx, release = unlessFailed(t.Context(), make(chan struct{}))
		release() // and waits for nobody
		if ctx.Err() == nil {
			t.Error("the context goes on after its release")
		}
	})
}

// ending is how a connection ended, and when.
type ending struct {
	err error
	at  time.Time
}

// endOf reads a connection to its end.
func endOf(c *wiretest.Conn) <-chan ending {
	ended := make(chan ending, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		for {
			if _, err := c.Recv(ctx); err != nil {
				ended <- ending{err, time.Now()}
				return
			}
		}
	}()
	return ended
}

// toldOfTheEnd checks that the clients of a failed server were told before Run returned at
// returned: the process ends then. A kick that Run leaves to others comes 100 ms later.
// Spec: P-1.6.
func toldOfTheEnd(ends map[string]<-chan ending, returned time.Time) error {
	for url, end := range ends {
		e := <-end
		closed, ok := errors.AsType[*wiretest.Closed](e.err)
		if !ok || closed.Kick.GetCode() != string(im.CodeDraining) || !closed.Kick.Reconnect || closed.Kick.ReconnectAfterMs == 0 {
			return fmt.Errorf("the client at %s saw %v, want a kick that says when to come back", url, e.err)
		}
		if late := e.at.Sub(returned); late > 50*time.Millisecond {
			return fmt.Errorf("the client at %s was told %v %s", url, late, lateToHear)
		}
	}
	return nil
}

// child serves until its disk breaks, and does not return.
func child(dir string) {
	if err := serveOnABrokenDisk(dir); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("as it should")
	os.Exit(0)
}

func serveOnABrokenDisk(dir string) error {
	cfg, err := config.Load(config.Source{Flags: map[string]string{
		"store.dir": dir, "listen.http": "127.0.0.1:0", "listen.tcp": "127.0.0.1:0", "listen.admin": "127.0.0.1:0", "store.ballast": "0", "store.min_free": "0",
	}})
	if err != nil {
		return err
	}
	a, err := New(context.Background(), cfg, Options{Log: slog.New(slog.NewTextHandler(os.Stdout, nil)), Banner: io.Discard})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- a.Run(context.Background()) }()
	if _, err := a.users.Create(context.Background(), "", []im.User{"alice"}); err != nil {
		return fmt.Errorf("on a good disk: %w", err)
	}
	issued, err := a.users.Create(context.Background(), "", []im.User{"carol"})
	if err != nil {
		return fmt.Errorf("on a good disk: %w", err)
	}
	ends := map[string]<-chan ending{}
	for _, url := range []string{"ws://" + a.HTTPAddr().String(), "tcp://" + a.TCPAddr().String()} {
		c, err := wiretest.Dial(context.Background(), wiretest.Options{URL: url, Codec: wire.JSON, Token: issued[0].Token})
		if err != nil {
			return err
		}
		ends[url] = endOf(c)
	}
	// From here on every write to a file fails.
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1, Max: 1}); err != nil {
		return err
	}
	if issued, err := a.users.Create(context.Background(), "", []im.User{"bob"}); err == nil {
		return fmt.Errorf("a user was made on a broken disk: %v", issued)
	}
	select {
	case err = <-ended:
	case <-time.After(deadline / 2):
		return errors.New("the server goes on")
	}
	if err := toldOfTheEnd(ends, time.Now()); err != nil {
		return err
	}
	if !errors.Is(err, store.ErrFailed) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "restart") {
		return fmt.Errorf("run returned %v, want the folder, the failure and what to do", err)
	}
	r := httptest.NewRecorder()
	a.pages().ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	if r.Code != http.StatusServiceUnavailable {
		return fmt.Errorf("/readyz: %d %s", r.Code, r.Body)
	}
	return nil
}
