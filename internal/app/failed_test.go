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
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
)

func int64Value(n int64) protoreflect.Value { return protoreflect.ValueOfInt64(n) }

// childDir names the folder of a child process that breaks its own disk.
const childDir = "PETREL_APP_TEST_CHILD"

// A store that fails ends the server with an error. It runs in a process of
// its own: what a failed store has under way stays for ever.
func TestFailedStoreEndsTheServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "as it should\n") {
		t.Errorf("child: %v\n%s", err, out)
	}
}

// toldOfTheEnd reads how the connections of a failed server have ended. Spec: P-1.6.
func toldOfTheEnd(conns map[string]*wiretest.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline/2)
	defer cancel()
	for url, c := range conns {
		for {
			_, err := c.Recv(ctx)
			if err == nil {
				continue
			}
			closed, ok := errors.AsType[*wiretest.Closed](err)
			if !ok || closed.Kick.GetCode() != string(im.CodeDraining) || !closed.Kick.Reconnect || closed.Kick.ReconnectAfterMs == 0 {
				return fmt.Errorf("the client at %s saw %v, want a kick that says when to come back", url, err)
			}
			break
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
		"store.dir": dir, "listen.http": "127.0.0.1:0", "listen.tcp": "127.0.0.1:0", "store.ballast": "0", "store.min_free": "0",
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
	conns := map[string]*wiretest.Conn{}
	for _, url := range []string{"ws://" + a.HTTPAddr().String(), "tcp://" + a.TCPAddr().String()} {
		if conns[url], err = wiretest.Dial(context.Background(), wiretest.Options{URL: url, Codec: wire.JSON, Token: issued[0].Token}); err != nil {
			return err
		}
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
	if err := toldOfTheEnd(conns); err != nil {
		return err
	}
	if !errors.Is(err, store.ErrFailed) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "restart") {
		return fmt.Errorf("run returned %v, want the folder, the failure and what to do", err)
	}
	r := httptest.NewRecorder()
	a.handler().ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	if r.Code != http.StatusServiceUnavailable {
		return fmt.Errorf("/readyz: %d %s", r.Code, r.Body)
	}
	return nil
}
