package api

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The settings of a user are bounded: each one by itself, those of one thing, those of
// other users, and all together. A user who is at a bound can still change and remove
// settings. Spec: P-8.10.
func TestBoundsOfSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice", "bob")
		id := w.group("", "team", "alice", "bob").Conv
		w.must(w.inbox.Await(t.Context()))
		token, err := w.admin.MintToken(t.Context(), connect.NewRequest(&petrelv1.MintTokenRequest{User: "alice", Device: &petrelv1.DeviceRef{Id: "d"}}))
		w.must(err)
		change := func(what, body string, want im.Code) {
			t.Helper()
			if r := w.curl("AccountService", "ChangeSettings", "Bearer "+token.Msg.AccessToken, body); r.code != want {
				t.Errorf("%s: %d %.200s, want %q", what, r.status, r.body, want)
			}
		}
		names := func(from, to int, value string) string {
			var all []string
			for i := from; i < to; i++ {
				all = append(all, fmt.Sprintf(`"name %d":%q`, i, value))
			}
			return "{" + strings.Join(all, ",") + "}"
		}
		for _, x := range []struct {
			what, body string
			want       im.Code
		}{
			{"nothing", `{}`, im.CodeInvalid},
			{"no name", `{"values":{"":"x"}}`, im.CodeInvalid},
			{"a long name", `{"values":{"` + strings.Repeat("n", 65) + `":"x"}}`, im.CodeInvalid},
			{"the longest name and value", `{"values":{"` + strings.Repeat("n", 64) + `":"` + strings.Repeat("v", 1024) + `"}}`, ""},
			{"a long value", `{"values":{"n":"` + strings.Repeat("v", 1025) + `"}}`, im.CodeInvalid},
			{"not UTF-8", "{\"values\":{\"n\":\"\xff\"}}", im.CodeInvalid},
			{"half a surrogate", `{"values":{"n":"\ud800"}}`, im.CodeInvalid},
			{"too many names at once", `{"conv":"` + id + `","values":` + names(0, 65, "x") + `}`, im.CodeInvalid},
			{"as many as there may be", `{"conv":"` + id + `","values":` + names(0, 64, "x") + `}`, ""},
			{"one more", `{"conv":"` + id + `","values":` + names(64, 65, "x") + `}`, im.CodeInvalid},
			{"another value", `{"conv":"` + id + `","values":` + names(0, 64, "y") + `}`, ""},
			{"one for another", `{"conv":"` + id + `","values":{"name 0":"","name 64":"x"}}`, ""},
			{"removed", `{"conv":"` + id + `","values":` + names(1, 65, "") + `}`, ""},
			{"a block of nobody", `{"user":"a b","values":{"blocked":"1"}}`, im.CodeInvalid},
		} {
			change(x.what, x.body, x.want)
		}
		for i := range maxSettingUsers { // with them, all of it takes as much as it may
			s := &petrelv1.InboxSettings{User: fmt.Sprint("user", i), Values: map[string]string{}}
			for k := range 4 {
				s.Values[fmt.Sprint("name ", k)] = strings.Repeat("v", 1000)
			}
			_, err := inbox.Write(t.Context(), w.convs, im.Account{Tenant: im.DefaultTenant, User: "alice"}, &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Settings{Settings: s}}, fmt.Sprint(i))
			w.must(err)
		}
		change("one more of an account that is full", `{"values":{"new":"x"}}`, im.CodeInvalid)
		change("a longer one", `{"user":"user7","values":{"name 0":"`+strings.Repeat("v", 1001)+`"}}`, im.CodeInvalid)
		change("a shorter one", `{"user":"user7","values":{"name 0":"v"}}`, "")
		for i := range 99 {
			change("fewer", fmt.Sprintf(`{"user":"user%d","values":%s}`, i+8, names(0, 3, "")), "")
		}
		change("one more where there is room again", `{"values":{"new":"x"}}`, "")
		change("another user", `{"user":"bob","values":{"blocked":"1"}}`, im.CodeInvalid)
		change("one of them is forgotten", `{"user":"user7","values":`+names(0, 4, "")+`}`, "")
		change("another user in their place", `{"user":"bob","values":{"blocked":"1"}}`, "")
	})
}

// Changes at one moment do not pass a bound together: those that might are to come again, and
// one that waited finds what the others have left. Spec: P-8.10.
func TestChangesOfSettingsAtOnceKeepTheBounds(t *testing.T) {
	for name, c := range map[string]struct{ first, each string }{
		"names": {`{"values":{%s}}`, `{"values":{"x%[1]d":"1","y%[1]d":"1","z%[1]d":"1"}}`},
		"users": {`{"user":"user0","values":{%s}}`, `{"user":"someone%d","values":{"a":"1"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.makeUsers("", "alice")
				token, err := w.admin.MintToken(t.Context(), connect.NewRequest(&petrelv1.MintTokenRequest{User: "alice", Device: &petrelv1.DeviceRef{Id: "d"}}))
				w.must(err)
				change := func(body string) im.Code {
					return w.curl("AccountService", "ChangeSettings", "Bearer "+token.Msg.AccessToken, body).code
				}
				var values []string
				for i := range 60 {
					values = append(values, fmt.Sprintf(`"name %d":"v"`, i))
				}
				if code := change(fmt.Sprintf(c.first, strings.Join(values, ","))); code != "" {
					t.Fatal(code)
				}
				for i := 1; i < maxSettingUsers-1; i++ {
					s := &petrelv1.InboxSettings{User: fmt.Sprint("user", i), Values: map[string]string{"a": "1"}}
					_, err := inbox.Write(t.Context(), w.convs, im.Account{Tenant: im.DefaultTenant, User: "alice"}, &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Settings{Settings: s}}, fmt.Sprint(i))
					w.must(err)
				}
				codes := make(chan im.Code, 8)
				for i := range cap(codes) {
					go func() { codes <- change(fmt.Sprintf(c.each, i)) }()
				}
				taken := 0
				for range cap(codes) {
					switch code := <-codes; code {
					case "":
						taken++
					case im.CodeOverloaded, im.CodeInvalid:
					default:
						t.Errorf("a change: %s", code)
					}
				}
				for i := range cap(codes) { // one after the other, what is left is taken
					if change(fmt.Sprintf(c.each, 100+i)) == "" {
						taken++
					}
				}
				if taken != 1 {
					t.Errorf("%d changes are taken, there is room for one", taken)
				}
			})
		})
	}
}

// Settings count as stored bytes of the user. Messages that an admin key sends do not.
// Spec: P-9.2.
func TestSettingsCountAsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.srv.o.Stored = rate.NewBytes[im.Account](64<<10, 256<<10)
		w.makeUsers("", "alice", "bob")
		var values []string
		for i := range 60 {
			values = append(values, fmt.Sprintf(`"name %d":%q`, i, strings.Repeat("v", 1000)))
		}
		change := func(who string) im.Code {
			token, err := w.admin.MintToken(t.Context(), connect.NewRequest(&petrelv1.MintTokenRequest{User: who, Device: &petrelv1.DeviceRef{Id: "d"}}))
			w.must(err)
			return w.curl("AccountService", "ChangeSettings", "Bearer "+token.Msg.AccessToken, `{"values":{`+strings.Join(values, ",")+`}}`).code
		}
		for i := range 4 {
			if code := change("alice"); code != "" {
				t.Errorf("change %d: %s", i, code)
			}
		}
		if code := change("alice"); code != im.CodeRateLimited {
			t.Errorf("a change too much: got %q, want rate_limited", code)
		}
		if code := change("bob"); code != "" {
			t.Errorf("a change of another user: %s", code)
		}
		for i := range 400 {
			_, err := w.sendAs("alice", &petrelv1.Send{User: "bob", ClientMsgId: fmt.Sprint("k", i), Body: &petrelv1.Send_Text{Text: strings.Repeat("x", 1000)}})
			w.must(err)
		}
	})
}

// There is one value for each set of hidden seqs. Spec: P-8.10.
func TestHiddenSeqsHaveOneForm(t *testing.T) {
	for v, want := range map[string]bool{
		"3": true, "3,7-9": true, "1-2": true, "1,3": true, "9223372036854775807": true, "1-9223372036854775807": true,
		"0": false, "03": false, "3,3": false, "3,4": false, "7-7": false, "9-7": false, "7-9,10": false, "7-9,8": false, "9,3": false,
		",": false, "3,": false, "-": false, "3-": false, "-3": false, "1-2-3": false, " 3": false, "+3": false,
		"9223372036854775808": false, "1-9223372036854775808": false,
	} {
		if areSeqs(v) != want {
			t.Errorf("%q: got %t", v, !want)
		}
	}
}
