package app

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store/pgtest"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Spec: P-10.5.
func TestReadyzFollowsMostCommitsAndNotSingleOnes(t *testing.T) {
	type step struct {
		ticks, taken, refused int // in each of so many ticks
		red                   bool
	}
	for name, steps := range map[string][]step{
		"all is well":            {{20, 100, 0, false}},
		"a single error":         {{5, 100, 0, false}, {1, 0, 1, false}, {20, 0, 0, false}},
		"a burst in one second":  {{1, 0, 50, false}, {4, 0, 0, false}, {10, 10, 0, false}},
		"a fifth is refused":     {{60, 80, 20, false}},
		"all are refused":        {{1, 0, 2, false}, {1, 0, 2, true}, {30, 0, 2, true}},
		"few sends, all refused": {{1, 0, 1, false}, {1, 0, 1, false}, {1, 0, 1, true}},
		"it ends":                {{2, 0, 9, true}, {4, 10, 0, true}, {1, 10, 0, false}, {20, 10, 0, false}},
		"it ends for a moment":   {{2, 0, 9, true}, {3, 10, 0, true}, {1, 10, 1, true}, {4, 10, 0, true}, {1, 10, 0, false}},
		"now and then one":       {{2, 0, 9, true}, {60, 0, 1, true}},
		"nobody sends any more":  {{2, 0, 9, true}, {29, 0, 0, true}, {1, 0, 0, false}},
	} {
		var r refusing
		var taken, refused uint64
		for i, s := range steps {
			for n := range s.ticks {
				taken, refused = taken+uint64(s.taken), refused+uint64(s.refused)
				was := r.red.Load()
				if r.observe(taken, refused) != (was != r.red.Load()) {
					t.Errorf("%s, step %d: observe does not tell what changed", name, i)
				}
				if last := n == s.ticks-1; last && r.red.Load() != s.red {
					t.Errorf("%s, step %d: red is %t, want %t", name, i, r.red.Load(), s.red)
				}
			}
		}
	}
}

// A program that waits for the line sends to the server next.
func TestNothingIsAnnouncedWhileReadyzIsRed(t *testing.T) {
	s := start(t, t.TempDir(), "store.min_free", "1PiB")
	if status, body := s.get("/readyz", ""); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if s.banner.String() != "" || !strings.Contains(s.logged.String(), "disk nearly full") {
		t.Errorf("announced %q, logged %q; want nothing, and why", s.banner.String(), s.logged.String())
	}
}

// A database whose disk is full answers, and takes nothing. Here a trigger plays it:
// PostgreSQL says the same with a full disk.
func TestReadyzIsRedWhileADatabaseTakesNothing(t *testing.T) {
	server := pgtest.Own(t, pgtest.Options{})
	dsn := server.New(t)
	exec := func(sql string) {
		t.Helper()
		if err := server.Exec("petrel1", sql); err != nil {
			t.Fatal(err)
		}
	}
	s := startTuned(t, t.TempDir(), func(a *App) { a.refusing.every = 200 * time.Millisecond }, "store.postgres", dsn)
	s.token("bob")
	c, err := wiretest.Dial(t.Context(), wiretest.Options{URL: "tcp://" + s.TCPAddr().String(), Codec: wire.Proto, Token: s.token("alice")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n := 0
	send := func() error {
		n++
		_, err := c.Send(t.Context(), &petrelv1.Send{User: "bob", ClientMsgId: fmt.Sprint(n), After: new(uint64), Body: &petrelv1.Send_Text{Text: "x"}})
		return err
	}
	// sendUntil sends until /readyz has a status; each send has to end as wanted.
	sendUntil := func(status int, want func(error) bool) (body string) {
		t.Helper()
		eventually.True(t, fmt.Sprint("/readyz says ", status), func() bool {
			if err := send(); !want(err) {
				t.Fatalf("send %d: %v", n, err)
			}
			got := 0
			got, body = s.get("/readyz", "")
			return got == status
		})
		return body
	}
	if err := send(); err != nil {
		t.Fatal(err)
	}
	exec(`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100'; END $$;
		CREATE TRIGGER full_disk BEFORE INSERT ON petrel.msg FOR EACH ROW EXECUTE FUNCTION full_disk()`)
	full := func(err error) bool {
		e, ok := errors.AsType[*im.Error](err)
		return ok && e.Code == im.CodeDiskFull
	}
	if body := sendUntil(http.StatusServiceUnavailable, full); !strings.Contains(body, "refuses most commits") {
		t.Errorf("/readyz: %s", body)
	}
	for range 20 {
		if err := send(); !full(err) {
			t.Fatal(err)
		}
	}
	if _, body := s.get("/metrics", ""); !strings.Contains(body, "petrel_ready 0") || !strings.Contains(body, "petrel_store_writable 1") {
		t.Error("/metrics has no petrel_ready 0 beside petrel_store_writable 1")
	}
	if lines := strings.Count(s.logged.String(), `msg="commit refused"`); lines != 1 {
		t.Errorf("%d lines in the log for %d refused commits, want 1", lines, n)
	}
	exec(`DROP TRIGGER full_disk ON petrel.msg`)
	sendUntil(http.StatusOK, func(err error) bool { return err == nil })
}

// A server whose lists of conversations are behind still serves, and says so.
func TestInboxesThatAreBehindAreSaid(t *testing.T) {
	s := start(t, t.TempDir())
	ow := s.convs.Owners()[0]
	// The consumer of the inboxes has read everything, and may say so once more.
	behind, gauge := regexp.MustCompile(`"inboxes_behind_s":\d{10}[.}]`), regexp.MustCompile(`\npetrel_inboxes_behind_seconds (\d{10}[.\n]|\d\.\d+e\+09\n)`)
	eventually.True(t, "/readyz and /metrics say that the inboxes are behind since 1970", func() bool {
		ow.SetInboxBacklog(1)
		status, ready := s.readyz()
		_, metrics := s.get("/metrics", "")
		return status == http.StatusOK && behind.MatchString(ready) && gauge.MatchString(metrics)
	})
	ow.SetInboxBacklog(0)
	if _, body := s.readyz(); strings.Contains(body, "behind") {
		t.Errorf("/readyz: %s", body)
	}
}
