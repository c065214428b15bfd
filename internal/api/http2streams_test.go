package api

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/share"
)

// waiting is an answer that its client does not read.
type waiting struct {
	*httptest.ResponseRecorder
	ended chan struct{}
}

func (a *waiting) SetReadDeadline(time.Time) error { return nil }

func (a *waiting) SetWriteDeadline(time.Time) error {
	close(a.ended)
	return nil
}

// endedOf is the channel that is closed when a request is ended.
func endedOf(w http.ResponseWriter) <-chan struct{} {
	for {
		if x, ok := w.(*waiting); ok {
			return x.ended
		}
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil
		}
		w = inner.Unwrap()
	}
}

// Requests of HTTP/2 whose answers nobody reads are bounded for an address and in all, and
// keep nobody out: one more ends the oldest of its address, or of the address that has the
// most. Those of admin keys are not ended: while they have all places, the answer is headers,
// which wait for nobody. Spec: P-12.7.
func TestStreamsThatNobodyReadsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		free, rest := make(chan struct{}), http.NewServeMux()
		var mu sync.Mutex
		live := map[string]int{} // requests that wait, by address and rights
		count := func(of string, n int) int {
			mu.Lock()
			defer mu.Unlock()
			live[of] += n
			return live[of]
		}
		wait := func(kind string, keep bool) {
			rest.HandleFunc("/"+kind, func(a http.ResponseWriter, r *http.Request) {
				if keep {
					callOf(r.Context()).stream.keep()
				}
				count(r.RemoteAddr+" "+kind, 1)
				select {
				case <-free:
				case <-endedOf(a):
				}
				count(r.RemoteAddr+" "+kind, -1)
			})
		}
		wait("wait", false)
		wait("kept", true)
		doors := map[Listener]http.Handler{Public: w.srv.handle(Public, rest), Inside: w.srv.handle(Inside, rest)}
		get := func(d Listener, addr, path string, major int) *httptest.ResponseRecorder {
			r, answer := httptest.NewRequest(http.MethodGet, path, nil), httptest.NewRecorder()
			r.RemoteAddr, r.ProtoMajor = addr, major
			doors[d].ServeHTTP(&waiting{answer, make(chan struct{})}, r)
			return answer
		}
		hold := func(n int, addr, path string) {
			for range n {
				go get(Public, addr, path, 2)
			}
			synctest.Wait()
		}
		all := w.srv.o.UnderWayBytes / streamCost
		most := all / partOfHost
		expect := func(when string, want map[string]int) {
			t.Helper()
			synctest.Wait()
			for of, n := range want {
				if have := count(of, 0); have != n {
					t.Errorf("%s %d of %s wait, want %d", when, have, of, n)
				}
			}
		}
		answered := func(when, addr string) {
			t.Helper()
			if a := get(Public, addr, "/other", 2); a.Code != http.StatusNotFound {
				t.Errorf("%s: %d", when, a.Code)
			}
		}
		hold(most+3, "192.0.2.1:1", "/wait")
		expect("of an address", map[string]int{"192.0.2.1:1 wait": most})
		answered("of the address", "192.0.2.1:2")
		expect("behind one more", map[string]int{"192.0.2.1:1 wait": most - 1})
		hold(most, "192.0.2.2:1", "/wait")
		answered("of another address, while two have all", "192.0.2.3:1")
		hold(10, "192.0.2.3:1", "/wait")
		if n, third := count("192.0.2.1:1 wait", 0)+count("192.0.2.2:1 wait", 0), count("192.0.2.3:1 wait", 0); third != 10 || n > all-10 {
			t.Errorf("%d of the others and %d wait", n, third)
		}
		for what, code := range map[string]int{
			"of HTTP/1":      get(Public, "192.0.2.1:3", "/other", 1).Code,
			"of an operator": get(Inside, "192.0.2.1:4", "/other", 2).Code,
		} {
			if code != http.StatusNotFound {
				t.Errorf("a request %s: %d", what, code)
			}
		}
		for range most { // one after the other: a request whose key is not known yet may be ended
			hold(1, "192.0.2.4:1", "/kept")
		}
		for range all - most {
			hold(1, "192.0.2.5:1", "/kept")
		}
		expect("beside those of a key", map[string]int{"192.0.2.4:1 kept": most, "192.0.2.5:1 kept": all - most, "192.0.2.1:1 wait": 0, "192.0.2.3:1 wait": 0})
		over := get(Public, "192.0.2.1:2", "/other", 2)
		if over.Code != http.StatusServiceUnavailable || over.Header().Get(errorHeader) != string(im.CodeOverloaded) || over.Header().Get("Retry-After") == "" || over.Body.Len() > 0 {
			t.Errorf("one more: %d %v, %d bytes", over.Code, over.Header(), over.Body.Len())
		}
		close(free)
		synctest.Wait()
		answered("when they have ended", "192.0.2.1:2")
		if s := &w.srv.admission.streams[Public]; s.all != 0 || len(s.hosts) != 0 {
			t.Errorf("%d requests of %d addresses count in the end", s.all, len(s.hosts))
		}
	})
}

// unread is a connection of HTTP/2 that opens no window. The streams that the server ends come
// out of the channel, which is closed with the connection.
func (w *world) unread() (ask func(method, credential string), ended <-chan string, hangUp func()) {
	nc, err := w.dial(w.t.Context(), "tcp", "")
	w.must(err)
	f := http2.NewFramer(nc, nc)
	resets := make(chan string, 100)
	go func() { // it ends with the connection
		defer close(resets)
		for {
			x, err := f.ReadFrame()
			if err != nil {
				return
			}
			if x, ok := x.(*http2.RSTStreamFrame); ok {
				resets <- fmt.Sprint(x.StreamID)
			}
		}
	}()
	_, err = io.WriteString(nc, http2.ClientPreface)
	w.must(err)
	w.must(f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	var block bytes.Buffer
	e, id := hpack.NewEncoder(&block), uint32(1)
	return func(method, credential string) {
		for _, h := range [][2]string{
			{":method", "POST"}, {":scheme", "http"}, {":authority", "x"}, {":path", "/petrel.v1." + method},
			{"content-type", "application/json"}, {"authorization", "Bearer " + credential},
		} {
			w.must(e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}))
		}
		w.must(f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true}))
		w.must(f.WriteData(id, true, []byte("{}")))
		block.Reset()
		id += 2
		synctest.Wait()
	}, resets, func() { w.must(nc.Close()) }
}

// Refusals of a stranger who opens no window wait for it, until their places are wanted. The
// first request, which is that of an admin key, and the second one, which waits for the server,
// keep their places.
func TestStreamsOfAStrangerMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice")
		token := w.token("alice")
		w.srv.o.UnderWayBytes = 40 * streamCost
		w.srv.o.Calls = share.New(share.Options{Workers: 1, PerUser: 1, Waiting: 10, UserWaiting: 10}) // nobody works
		ask, ended, hangUp := w.unread()
		ask("AdminService/GetUser", w.key)
		ask("AccountService/GetAccount", token)
		for range 23 {
			ask("AccountService/GetAccount", "")
		}
		if s := &w.srv.admission.streams[Public]; s.all != 20 {
			t.Errorf("%d requests are under way, want 20", s.all)
		}
		hangUp()
		var got []string
		for id := range ended {
			got = append(got, id)
		}
		if want := "[5 7 9 11 13]"; fmt.Sprint(got) != want {
			t.Errorf("the server has ended %v, want %v", got, want)
		}
		synctest.Wait()
		if n := w.srv.admission.streams[Public].all; n != 0 {
			t.Errorf("behind the end of the connection %d requests count", n)
		}
	})
}
