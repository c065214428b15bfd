package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
)

func int64Value(n int64) protoreflect.Value { return protoreflect.ValueOfInt64(n) }

// childDir names the folder of a child process that breaks its own disk.
const childDir = "PETREL_APP_TEST_CHILD"

// A store that fails ends the server with an error, and its clients are told before Run returns:
// the process ends then. It is a process of its own, also because what a failed store has under
// way stays for ever. Spec: P-1.6.
func TestFailedStoreEndsTheServer(t *testing.T) {
	cmd := exec.CommandContext(eventually.Context(t), os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+t.TempDir())
	var logged output
	cmd.Stderr = &logged
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	token := lines.Text()
	var at struct{ HTTP, TCP string }
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &at) != nil {
		t.Fatalf("the server says %q, then %q: %s", token, lines.Text(), &logged)
	}
	var clients []*wiretest.Conn
	for _, url := range []string{"ws://" + at.HTTP, "tcp://" + at.TCP} {
		c, err := wiretest.Dial(t.Context(), wiretest.Options{URL: url, Codec: wire.JSON, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients = append(clients, c)
	}
	if _, err := in.Write([]byte("break\n")); err != nil {
		t.Fatal(err)
	}
	for _, c := range clients {
		for err = nil; err == nil; {
			_, err = c.Recv(eventually.Context(t))
		}
		closed, ok := errors.AsType[*wiretest.Closed](err)
		if !ok || closed.Kick.GetCode() != string(im.CodeDraining) || !closed.Kick.Reconnect || closed.Kick.ReconnectAfterMs == 0 {
			t.Errorf("a client sees %v, want a kick that says when to come back", err)
		}
	}
	var rest []string
	for lines.Scan() {
		rest = append(rest, lines.Text())
	}
	if err := cmd.Wait(); err != nil || !slices.Equal(rest, []string{"as it should"}) {
		t.Errorf("child: %v, %q\n%s", err, rest, &logged)
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
	a, err := New(context.Background(), cfg, Options{DiskStall: eventually.Limit, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Banner: os.Stdout})
	if err != nil {
		return err
	}
	a.goodbye = eventually.Limit // the clients are told, however slow the machine is
	issued, err := a.users.Create(context.Background(), "", []im.User{"carol"})
	if err != nil {
		return fmt.Errorf("on a good disk: %w", err)
	}
	fmt.Println(issued[0].Token)
	ended := make(chan error, 1)
	go func() { ended <- a.Run(context.Background()) }()
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return err
	}
	// From here on every write to a file fails.
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1, Max: 1}); err != nil {
		return err
	}
	if issued, err := a.users.Create(context.Background(), "", []im.User{"bob"}); err == nil {
		return fmt.Errorf("a user was made on a broken disk: %v", issued)
	}
	err = <-ended
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
