package api

import (
	"bytes"
	"compress/gzip"
	"container/list"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/share"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const refresh = "/petrel.v1.AuthService/Refresh"

// Nothing that a stranger sends is decompressed, by no protocol, and nobody gets
// a compressed answer: a message that is small on the wire is small in memory.
func TestNothingIsDecompressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var small bytes.Buffer
		z := gzip.NewWriter(&small)
		_, err := io.WriteString(z, `{"refreshToken":"pr_x","unknown":"`+strings.Repeat("x", 1<<20)+`"}`)
		w.must(err)
		w.must(z.Close())
		if small.Len() > maxStrangerBytes {
			t.Fatalf("the body has %d bytes", small.Len())
		}
		framed := append([]byte{1, 0, 0, byte(small.Len() >> 8), byte(small.Len())}, small.Bytes()...)
		for name, c := range map[string]struct {
			header map[string]string
			body   []byte
		}{
			"Connect":               {map[string]string{"Content-Type": "application/json", "Content-Encoding": "gzip"}, small.Bytes()},
			"gRPC-Web":              {map[string]string{"Content-Type": "application/grpc-web+json", "Grpc-Encoding": "gzip"}, framed},
			"and no encoding named": {map[string]string{"Content-Type": "application/grpc-web+json"}, framed},
		} {
			res, body := w.do("POST", refresh, c.header, c.body)
			if code := im.Code(res.Header.Get(errorHeader)); code != im.CodeInvalid {
				t.Errorf("%s: %s, code %q: %s; want it refused unread", name, res.Status, code, body)
			}
		}
		q, err := http.NewRequest("POST", w.http.URL+getUser, strings.NewReader(`{"user":"nobody"}`))
		w.must(err)
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Accept-Encoding", "gzip")
		res, err := w.http.Client().Do(q)
		w.must(err)
		defer func() { _ = res.Body.Close() }() // only the header counts
		if res.Header.Get("Content-Encoding") != "" {
			t.Errorf("the answer has the encoding %q", res.Header.Get("Content-Encoding"))
		}
	})
}

// Spec: P-12.7.
func TestBodiesOfStrangersAreSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		body := func(n int) string { return `{"refreshToken":"` + strings.Repeat("x", n-19) + `"}` }
		for n, want := range map[int]im.Code{maxStrangerBytes: im.CodeUnauthenticated, maxStrangerBytes + 1: im.CodeTooLarge} {
			if r := w.curl("AuthService", "Refresh", "", body(n)); r.code != want {
				t.Errorf("%d bytes: %d %s, want %s", n, r.status, r.body, want)
			}
			q, err := http.NewRequest("POST", w.http.URL+refresh, io.MultiReader(strings.NewReader(body(n)))) // of unknown length
			w.must(err)
			q.Header.Set("Content-Type", "application/json")
			res, err := w.http.Client().Do(q)
			w.must(err)
			_, _ = io.Copy(io.Discard, res.Body)
			w.must(res.Body.Close())
			if got := im.Code(res.Header.Get(errorHeader)); got != want {
				t.Errorf("%d bytes in chunks: %s, want %s", n, got, want)
			}
		}
	})
}

// counted is the body of a call, and counts the bytes that are read of it.
type counted struct{ n int }

func (c *counted) Read(p []byte) (int, error) { c.n += len(p); return len(p), nil }

// Spec: P-12.7.
func TestCallsOfStrangersAreCountedBeforeTheyAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.srv.o.StrangersPerSecond = 1
		call := func(from string) (int, im.Code, int) {
			body := &counted{}
			rec := &keptAnswer{header: http.Header{}}
			q, err := http.NewRequest("POST", refresh, body)
			w.must(err)
			q.RemoteAddr = from
			q.Header.Set("Content-Type", "application/json")
			w.srv.serve(rec, q, Public, http.NewServeMux())
			return rec.status, im.Code(rec.header.Get(errorHeader)), body.n
		}
		for i := range strangerBurst {
			if status, code, n := call("192.0.2.1:1"); code != im.CodeTooLarge || n > 2*maxStrangerBytes {
				t.Errorf("call %d: %d %s after %d bytes, want too_large after %d", i, status, code, n, maxStrangerBytes)
			}
		}
		if status, code, n := call("192.0.2.1:2"); status != 429 || code != im.CodeRateLimited || n != 0 {
			t.Errorf("one more: %d %s after %d bytes, want rate_limited after none", status, code, n)
		}
		if _, code, _ := call("192.0.2.2:1"); code != im.CodeTooLarge {
			t.Errorf("from elsewhere: %s", code)
		}
		if time.Sleep(time.Second); w.curl("AuthService", "Refresh", "", "{}").code != im.CodeUnauthenticated {
			t.Error("others are refused")
		}
		if _, code, _ := call("192.0.2.1:3"); code != im.CodeTooLarge {
			t.Errorf("a second later: %s", code)
		}
		// A call that needs a credential and has none is not read at all.
		body := &counted{}
		q, err := http.NewRequest("POST", getUser, body)
		w.must(err)
		q.Header.Set("Content-Type", "application/json")
		rec := &keptAnswer{header: http.Header{}}
		w.srv.serve(rec, q, Public, http.NewServeMux())
		if code := im.Code(rec.header.Get(errorHeader)); code != im.CodeUnauthenticated || body.n != 0 {
			t.Errorf("without a key: %s after %d bytes, want unauthenticated after none", code, body.n)
		}
	})
}

func TestOldestBodyIsStopped(t *testing.T) {
	var a admission
	var stopped []int
	var first *list.Element
	for i := range maxReading + 2 {
		e := a.enter(&reader{stop: func() { stopped = append(stopped, i) }}, maxReading)
		if e == nil {
			t.Fatalf("body %d gets no place", i)
		}
		if first == nil {
			first = e
		}
	}
	if !slices.Equal(stopped, []int{0, 1}) {
		t.Errorf("bodies %v are stopped, want the first two", stopped)
	}
	if !a.leave(first) {
		t.Error("the first body does not learn that it was stopped")
	}
}

// Bodies that do not come to their end keep nobody out.
func TestSlowBodiesMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := &w.srv.admission
		w.srv.o.StrangersPerSecond = -1
		slow := func() net.Conn {
			nc, err := w.dial(t.Context(), "", "")
			w.must(err)
			_, err = io.WriteString(nc, "POST "+refresh+" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
			w.must(err)
			return nc
		}
		first := slow()
		defer func() { _ = first.Close() }()
		reading := func() int {
			synctest.Wait()
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.reading.Len()
		}
		if n := reading(); n != 1 {
			t.Errorf("%d bodies are being read, want 1", n)
		}
		a.mu.Lock()
		for range maxReading - 1 { // of other addresses
			a.reading.PushBack(&reader{stop: func() {}})
		}
		a.mu.Unlock()
		if r := w.curl("AuthService", "Refresh", "", "{}"); r.code != im.CodeUnauthenticated {
			t.Errorf("beside %d slow ones: %d %s", maxReading, r.status, r.body)
		}
		if b, err := io.ReadAll(first); err != nil || !strings.Contains(string(b), string(im.CodeOverloaded)) {
			t.Errorf("the oldest of them is told %q, %v; want overloaded", b, err)
		}
		a.mu.Lock()
		a.reading.Init()
		a.mu.Unlock()
		var conns []net.Conn
		for range maxReadingOfHost {
			conns = append(conns, slow())
			synctest.Wait() // the first is the oldest
		}
		defer func() {
			for _, nc := range conns {
				_ = nc.Close()
			}
		}()
		if n := reading(); n != maxReadingOfHost {
			t.Errorf("%d bodies are being read, want %d", n, maxReadingOfHost)
		}
		if r := w.curl("AuthService", "Refresh", "", "{}"); r.code != im.CodeUnauthenticated {
			t.Fatalf("beside %d slow ones of the same address: %d %s", maxReadingOfHost, r.status, r.body)
		}
		if b, err := io.ReadAll(conns[0]); err != nil || !strings.Contains(string(b), string(im.CodeOverloaded)) {
			t.Errorf("the oldest of the address is told %q, %v; want overloaded", b, err)
		}
		if n := reading(); n != maxReadingOfHost-1 {
			t.Errorf("%d bodies are being read after that, want %d", n, maxReadingOfHost-1)
		}
	})
}

// Calls of clients without a token use up nothing that operators need for their logins from the
// same host: a proxy on it that names no client comes from there, too. Spec: P-10.10.
func TestCallsOfClientsAreNotCountedAgainstOperators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.srv.o.StrangersPerSecond = 1
		call := func(d Listener, method string) im.Code {
			rec := &keptAnswer{header: http.Header{}}
			q, err := http.NewRequest("POST", method, strings.NewReader("{}"))
			w.must(err)
			q.RemoteAddr = "127.0.0.1:1"
			q.Header.Set("Content-Type", "application/json")
			w.srv.serve(rec, q, d, http.NewServeMux())
			return im.Code(rec.header.Get(errorHeader))
		}
		var calls sync.WaitGroup
		defer calls.Wait()
		for range 2 * strangerBurst { // together, since a refusal waits and the rate grows meanwhile
			calls.Go(func() { call(Public, refresh) })
		}
		synctest.Wait()
		const logIn = "/petrel.v1.OperatorService/LogIn"
		if code := call(Inside, logIn); code != im.CodeBadCredentials {
			t.Errorf("a login of an operator: %s, want bad_credentials", code)
		}
		n := 1
		for ; call(Inside, logIn) != im.CodeRateLimited; n++ {
			if n > strangerBurst {
				t.Fatal("the logins of operators are not counted")
			}
		}
	})
}

// Spec: P-12.7.
func TestBodiesUnderWayAreBoundedForEachAndForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := &w.srv.admission
		who := func(name im.User) *caller {
			return &caller{identity: user.Identity{Account: im.Account{Tenant: im.DefaultTenant, User: name}}}
		}
		read := func(c *caller, n int) (*boundedBody, error) {
			b := &boundedBody{ReadCloser: io.NopCloser(&counted{}), s: w.srv, call: &call{caller: c}}
			_, err := b.Read(make([]byte, n))
			return b, err
		}
		alice, err := read(who("alice"), maxUnderWay/partOfOne)
		w.must(err)
		if b, err := read(who("alice"), 1); err == nil || b.call.overdrawn == nil {
			t.Errorf("alice gets more than %d", maxUnderWay/partOfOne)
		}
		var others []*boundedBody
		for i := range partOfOne - 1 {
			b, err := read(who(im.User(rune('a'+i))), maxUnderWay/partOfOne)
			w.must(err)
			others = append(others, b)
		}
		if _, err := read(who("bob"), 1); err == nil {
			t.Errorf("bob gets a byte beyond %d", maxUnderWay)
		}
		alice.release()
		if _, err := read(who("bob"), 1); err != nil {
			t.Errorf("bob gets none when alice has left: %v", err)
		}
		for _, b := range others {
			b.release()
		}
		if a.bodies.bytes != 1 || len(a.bodies.owners) != 1 {
			t.Errorf("%d bytes of %d callers are left, want bob's", a.bodies.bytes, len(a.bodies.owners))
		}
		// A caller learns that it was too much, and not that the call was wrong.
		a.bodies.bytes = maxUnderWay
		if r := w.curl("AdminService", "GetUser", "Bearer "+w.key, `{"user":"nobody"}`); r.code != im.CodeOverloaded {
			t.Errorf("with all memory taken: %d %s", r.status, r.body)
		}
		a.bodies.bytes = 1
		if r := w.curl("AdminService", "GetUser", "Bearer "+w.key, `{"user":"nobody"}`); r.code != im.CodeNoUser || a.bodies.bytes != 1 {
			t.Errorf("when it is free: %d %s, %d bytes are left", r.status, r.body, a.bodies.bytes)
		}
	})
}

// A user who asks for large answers and reads none of them takes memory up to a bound, and
// the others get their answers. Spec: P-12.7.
func TestAnswersThatNobodyReadsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice", "bob")
		tokens := map[string]string{}
		for _, who := range []string{"alice", "bob"} {
			token, err := w.admin.MintToken(t.Context(), connect.NewRequest(&petrelv1.MintTokenRequest{User: who, Device: &petrelv1.DeviceRef{Id: "d"}}))
			w.must(err)
			tokens[who] = token.Msg.AccessToken
			values := map[string]string{}
			for i := range maxSettings {
				values[fmt.Sprint("name", i)] = strings.Repeat("v", maxSettingValue)
			}
			e := &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Settings{Settings: &petrelv1.InboxSettings{Values: values}}}
			_, err = inbox.Write(t.Context(), w.convs, im.Account{Tenant: im.DefaultTenant, User: im.User(who)}, e, entryID("of "+who))
			w.must(err)
		}
		w.must(w.inbox.Await(t.Context()))
		get := func(who string) reply { return w.curl("AccountService", "GetSettings", "Bearer "+tokens[who], `{}`) }
		if r := get("alice"); r.status != http.StatusOK || len(r.body) < maxSettings*maxSettingValue {
			t.Fatalf("alice reads: %d, %d bytes", r.status, len(r.body))
		}
		answers := &w.srv.admission.answers
		if answers.bytes != 0 || len(answers.owners) != 0 {
			t.Errorf("%d bytes of %d are counted when all is read", answers.bytes, len(answers.owners))
		}
		var unread []net.Conn
		for range 100 {
			nc, err := w.dial(t.Context(), "tcp", "")
			w.must(err)
			unread = append(unread, nc)
			_, err = io.WriteString(nc, "POST /petrel.v1.AccountService/GetSettings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer "+tokens["alice"]+"\r\nContent-Length: 2\r\n\r\n{}")
			w.must(err)
		}
		synctest.Wait()
		if n := answers.bytes; n > maxUnderWay/partOfOne || n < maxUnderWay/partOfOne/2 {
			t.Errorf("answers under way are counted with %d bytes, want about %d", n, maxUnderWay/partOfOne)
		}
		if r := get("alice"); r.code != im.CodeOverloaded {
			t.Errorf("alice reads nothing and asks again: %d %.100s, want overloaded", r.status, r.body)
		}
		if r := get("bob"); r.status != http.StatusOK {
			t.Errorf("bob asks: %d %.100s", r.status, r.body)
		}
		for _, nc := range unread {
			w.must(nc.Close())
		}
		synctest.Wait()
		if answers.bytes != 0 || len(answers.owners) != 0 {
			t.Errorf("%d bytes of %d are counted when their connections are gone", answers.bytes, len(answers.owners))
		}
	})
}

// A request is decoded once: it takes as much memory as it has text, a few times.
func BenchmarkLargeRequest(b *testing.B) {
	text := []byte(`{"users":[` + strings.Repeat(`"alice",`, 20_000) + `"bob"],"unknown":[` + strings.Repeat(`{},`, 50_000) + `{}]}`)
	codec := jsonCodec{"json", newCoding(share.NewTurns(1)), nil}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if err := codec.Unmarshal(text, &petrelv1.CreateUsersRequest{}); err != nil {
			b.Fatal(err)
		}
	}
}

// vouched counts how often it was vouched for somebody.
type vouched struct{ n int }

func (v *vouched) Vouched() { v.n++ }

// Only who has shown a token or key that holds is known, and who has logged in.
func TestNobodyIsVouchedForBeforeTheirTokenIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, err := w.users.Create(t.Context(), "", []im.User{"alice"})
		w.must(err)
		for _, c := range []struct {
			what, path, credential, body string
			want                         int
		}{
			{"no token", getUser, "", `{"user":"alice"}`, 0},
			{"a token of nobody", getUser, "pa_x", `{"user":"alice"}`, 0},
			{"a key", getUser, w.key, `{"user":"alice"}`, 1},
			{"a login that fails", "/petrel.v1.AuthService/Login", "", `{"user":"alice","password":"wrong"}`, 0},
			{"a registration", "/petrel.v1.AuthService/Register", "", `{"user":"ben","password":"a long password","device":{"id":"d"}}`, 1},
		} {
			v := &vouched{}
			r := httptest.NewRequest("POST", c.path, strings.NewReader(c.body)).WithContext(rate.WithVoucher(t.Context(), v))
			r.Header.Set("Content-Type", "application/json")
			if c.credential != "" {
				r.Header.Set("Authorization", "Bearer "+c.credential)
			}
			a := httptest.NewRecorder()
			w.http.Config.Handler.ServeHTTP(a, r)
			if v.n != c.want {
				t.Errorf("%s: vouched for %d times, want %d; the answer is %d %s", c.what, v.n, c.want, a.Code, a.Body)
			}
		}
	})
}

// A connection to listen.admin whose login has come whole waits for the server: it keeps its
// place, whatever connections come meanwhile. One of a client at listen.http is a stranger's.
func TestLoginsAtTheAddressOfOperatorsKeepTheirPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, c := range []struct {
			what, path, body string
			door             Listener
			want             int
		}{
			{"a login of an operator", "/petrel.v1.OperatorService/LogIn", `{"name":"root","password":"wrong","code":"123456"}`, Inside, 1},
			{"one that is too large", "/petrel.v1.OperatorService/LogIn", strings.Repeat(" ", maxStrangerBytes+1), Inside, 0},
			{"a call without a key", getUser, `{"user":"alice"}`, Inside, 0},
			{"a login of a user", "/petrel.v1.AuthService/Login", `{"user":"alice","password":"wrong"}`, Public, 0},
		} {
			v := &vouched{}
			r := httptest.NewRequest("POST", c.path, strings.NewReader(c.body)).WithContext(rate.WithVoucher(t.Context(), v))
			r.Header.Set("Content-Type", "application/json")
			a := httptest.NewRecorder()
			w.srv.handle(c.door, http.NotFoundHandler()).ServeHTTP(a, r)
			if v.n != c.want {
				t.Errorf("%s: it keeps its place %d times, want %d; the answer is %d %s", c.what, v.n, c.want, a.Code, a.Body)
			}
		}
	})
}

// Small answers go whatever others have under way, and those of one caller are bounded, too:
// each takes the goroutines and buffers of its call.
func TestSmallAnswersOfOneCallerAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		small := connect.NewResponse(&petrelv1.GetTenantRequest{Tenant: "x"})
		next := w.srv.boundAnswer(func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) { return small, nil })
		answer := func(u im.User) error {
			who := &caller{identity: user.Identity{Account: im.Account{Tenant: im.DefaultTenant, User: u}}}
			_, err := next(context.WithValue(t.Context(), callKey{}, &call{caller: who}), nil)
			return err
		}
		n, err := 0, error(nil)
		for ; err == nil && n < 10_000; n++ {
			err = answer("alice")
		}
		if im.CodeOf(err) != im.CodeOverloaded {
			t.Errorf("one more: %v, want overloaded", err)
		}
		if most := maxUnderWay / partOfOne / answerCost; n > most+1 || n < most/2 {
			t.Errorf("%d answers of one caller are under way, want about %d", n, most)
		}
		w.srv.admission.answers.bytes = maxUnderWay
		w.must(answer("bob"))
	})
}

// A client of HTTP/2 that opens no window gets no answer. The answers that wait for it are counted as long as they
// wait.
func TestAnswersThatWaitForAWindowCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice")
		token, err := w.admin.MintToken(t.Context(), connect.NewRequest(&petrelv1.MintTokenRequest{User: "alice", Device: &petrelv1.DeviceRef{Id: "d"}}))
		w.must(err)
		nc, err := w.dial(t.Context(), "tcp", "")
		w.must(err)
		go func() { _, _ = io.Copy(io.Discard, nc) }() // it ends with the connection
		_, err = io.WriteString(nc, http2.ClientPreface)
		w.must(err)
		f := http2.NewFramer(nc, nil)
		w.must(f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
		var block bytes.Buffer
		for e, i := hpack.NewEncoder(&block), 0; i < 20; i++ {
			for _, h := range [][2]string{
				{":method", "POST"}, {":scheme", "http"}, {":authority", "x"}, {":path", "/petrel.v1.AccountService/GetSettings"},
				{"content-type", "application/json"}, {"authorization", "Bearer " + token.Msg.AccessToken},
			} {
				w.must(e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}))
			}
			id := uint32(2*i + 1)
			w.must(f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true}))
			w.must(f.WriteData(id, true, []byte("{}")))
			block.Reset()
		}
		synctest.Wait()
		if n := w.srv.admission.answers.bytes; n < 20*answerCost {
			t.Errorf("20 answers that wait count as %d bytes, want %d or more", n, 20*answerCost)
		}
		w.must(nc.Close())
		synctest.Wait()
		if n := w.srv.admission.answers.bytes; n != 0 {
			t.Errorf("behind the end of the connection %d bytes count", n)
		}
	})
}
