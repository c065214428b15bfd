package api

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/share"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// A name that is misspelt is refused and said, not read as nothing. Spec: P-2.7.
func TestMisspeltNamesOfValuesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice", "bob")
		admin := "Bearer " + w.key
		for what, c := range map[string]struct{ method, body, want string }{
			"a role in a list":   {"CreateGroup", `{"key":"a","title":"t","members":[{"user":"alice"},{"user":"bob","role":"ROLE_ADMN"}]}`, `members[1].role: there is no "ROLE_ADMN"; there are ROLE_ADMIN, ROLE_MEMBER, ROLE_OWNER, ROLE_UNSPECIFIED`},
			"in a message":       {"ChangeMembers", `{"conv":"c","change":{"added":[{"user":"alice","role":"member"}]}}`, `change.added[0].role: there is no "member"`},
			"beside a newer key": {"CreateGroup", `{"key":"a","title":"t","colour":{"role":"x"},"members":[{"user":"bob","role":"owner"}]}`, `members[0].role: there is no "owner"`},
		} {
			r := w.curl("AdminService", c.method, admin, c.body)
			if r.code != im.CodeInvalid || r.status != 400 || !strings.Contains(r.err.Message, c.want) {
				t.Errorf("%s: %d %s, want invalid, %s", what, r.status, r.body, c.want)
			}
		}
		for what, body := range map[string]string{
			"names":                    `{"key":"a","title":"t","members":[{"user":"alice","role":"ROLE_OWNER"},{"user":"bob","role":"ROLE_ADMIN"}]}`,
			"numbers":                  `{"key":"b","title":"t","members":[{"user":"alice","role":3},{"user":"bob","role":null}]}`,
			"keys of a newer client":   `{"key":"c","title":"t","members":[{"user":"alice","role":"ROLE_OWNER","colour":"RED"}],"more":[{"role":"x"}]}`,
			"keys as in the schema":    `{"key":"d","title":"t","request_id":"r","members":[{"user":"alice","role":"ROLE_OWNER"}]}`,
			"the same and a newer key": `{"key":"e","title":"t","request_id":"s","colour":1,"members":[{"user":"alice","role":"ROLE_OWNER"}]}`,
		} {
			if r := w.curl("AdminService", "CreateGroup", admin, body); r.status != 200 {
				t.Errorf("%s: %d %s", what, r.status, r.body)
			}
		}
		for what, body := range map[string]string{"nothing": "", "no JSON": "{", "a list": "[]", "a text for a number": `{"key":1}`} {
			if r := w.curl("AdminService", "CreateGroup", admin, body); r.code != im.CodeInvalid {
				t.Errorf("%s: %d %s", what, r.status, r.body)
			}
		}
	})
}

// Large requests and answers take a turn while they are decoded and encoded, in JSON and in
// protobuf; small ones do not wait.
func TestLargeRequestsAndAnswersTakeTurns(t *testing.T) {
	for name, codec := range map[string]func(coding) connect.Codec{
		"JSON":     func(c coding) connect.Codec { return jsonCodec{turns: c} },
		"protobuf": func(c coding) connect.Codec { return protoCodec{turns: c} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns := share.NewTurns(1)
				takesTurns(t, turns, codec(newCoding(turns)))
			})
		})
	}
}

func takesTurns(t *testing.T, turns share.Turns, c connect.Codec) {
	q := &petrelv1.CreateUsersRequest{Users: []string{"a"}}
	small, err := c.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	q.Users = slices.Repeat(q.Users, 1000)
	big, err := c.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	ended := map[string]bool{}
	var mu sync.Mutex
	run := func(what string, f func() error) {
		go func() {
			if err := f(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			mu.Lock()
			defer mu.Unlock()
			ended[what] = true
		}()
	}
	turns.Do(func() {
		run("a large request", func() error { return c.Unmarshal(big, &petrelv1.CreateUsersRequest{}) })
		run("a large answer", func() error { _, err := c.Marshal(q); return err })
		run("a small request", func() error { return c.Unmarshal(small, &petrelv1.CreateUsersRequest{}) })
		run("a small answer", func() error { _, err := c.Marshal(&petrelv1.CreateUsersRequest{}); return err })
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if want := map[string]bool{"a small request": true, "a small answer": true}; !maps.Equal(ended, want) {
			t.Errorf("while a turn is taken %v ended, want %v", ended, want)
		}
	})
	synctest.Wait()
	if len(ended) != 4 {
		t.Errorf("%v ended, want all", ended)
	}
}

// A read of the store waits for one of the large requests that came before it, not for all.
func TestReadsWaitForFewRequestsThatAreDecoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := share.NewTurns(1)
		c := newCoding(turns)
		decoded, before := 0, 0
		turns.Do(func() {
			for range 20 {
				go c.do(large+1, func() { decoded++ })
			}
			synctest.Wait()
			go turns.Do(func() { before = decoded })
			synctest.Wait()
		})
		synctest.Wait()
		if decoded != 20 || before > 1 {
			t.Errorf("of 20 large requests %d were decoded, and %d before the read", decoded, before)
		}
	})
}
