package petrel

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// doorkeeper takes the credential "new".
type doorkeeper struct {
	petrelv1connect.UnimplementedAccountServiceHandler
	asked []string
}

func (d *doorkeeper) ListDevices(_ context.Context, r *connect.Request[petrelv1.ListDevicesRequest]) (*connect.Response[petrelv1.ListDevicesResponse], error) {
	d.asked = append(d.asked, r.Header().Get("Authorization"))
	if r.Header().Get("Authorization") == "Bearer new" {
		return connect.NewResponse(&petrelv1.ListDevicesResponse{}), nil
	}
	err := connect.NewError(connect.CodeUnauthenticated, errors.New("the token is void"))
	detail, _ := connect.NewErrorDetail(&petrelv1.Error{Code: CodeRevoked, Message: "the token is void"}) // its own message
	err.AddDetail(detail)
	return nil, err
}

func TestCredentialsAskOnceForAnotherToken(t *testing.T) {
	broken := errors.New("no such file")
	for _, c := range []struct {
		name   string
		source TokenSource
		asked  []string
		want   string
	}{
		{"one token", StaticToken("old"), []string{"Bearer old"}, "revoked: the token is void"}, // the server's own words
		{"another token", func(_ context.Context, refused string) (string, error) {
			if refused == "old" {
				return "new", nil
			}
			return "old", nil
		}, []string{"Bearer old", "Bearer new"}, "<nil>"},
		{"no token", func(context.Context, string) (string, error) { return "", broken }, nil, "unauthenticated: no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &doorkeeper{}
			mux := http.NewServeMux()
			mux.Handle(petrelv1connect.NewAccountServiceHandler(d))
			s := httptest.NewServer(mux)
			defer s.Close()
			_, err := NewAPI(s.URL, s.Client(), c.source).Account.ListDevices(t.Context(), connect.NewRequest(&petrelv1.ListDevicesRequest{}))
			if e := refusal(err); e != nil {
				err = e
			}
			expect(t, "answer", err, c.want)
			expect(t, "asked", d.asked, c.asked)
		})
	}
}

// Spec: S-19.2.
func TestACallThatBrokeOffIsMadeAgain(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.caps = []string{capCall, capSignal}
		s.conv("g1", "").add(text("bob", "one"))
		var ids []string
		s.onFrame = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			if f.GetSignal() != nil {
				_ = ss.conn.Close() // the answer is lost
				return true
			}
			q := f.GetCall()
			if q == nil {
				return false
			}
			r := new(petrelv1.CreateGroupRequest)
			if err := proto.Unmarshal(q.GetProto(), r); err != nil {
				t.Error(err)
			}
			if ids = append(ids, r.RequestId); len(ids) == 1 {
				_ = ss.conn.Close() // the same
				return true
			}
			ss.answer(f.Id, &petrelv1.CreateGroupResponse{Conv: "g2"})
			return true
		}
		c := s.client(Options{})
		stop := run(c)
		conv, err := c.CreateGroup(t.Context(), "title", "bob")
		expect(t, "the group", fmt.Sprint(conv, " ", err), "g2 <nil>")
		if len(ids) != 2 || ids[0] != ids[1] || ids[0] == "" {
			t.Errorf("got requests %q, want one twice", ids)
		}
		expect(t, "a signal, which has no id", c.Signal(t.Context(), &petrelv1.SendSignal{Conv: "g1", Kind: "k"}), ErrConnectionLost)
		expect(t, "run", stop(), nil)
	})
}

func TestReceiptsOfAllPagesAreLoaded(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.caps = []string{capCall}
		s.conv("g1", "").add(text("bob", "one"))
		pages := map[string]*petrelv1.ListReceiptsResponse{
			"":     {Receipts: []*petrelv1.Receipt{{Conv: "g1", User: "bob", Read: 1}}, More: true, Next: "carl"},
			"carl": {More: true, Next: "dave"},
			"dave": {Receipts: []*petrelv1.Receipt{{Conv: "g1", User: "eve", Read: 1}}},
		}
		s.onFrame = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			q := f.GetCall()
			if q == nil {
				return false
			}
			r := new(petrelv1.ListReceiptsRequest)
			if err := proto.Unmarshal(q.GetProto(), r); err != nil {
				t.Error(err)
			}
			ss.answer(f.Id, pages[r.After])
			return true
		}
		c := s.client(Options{})
		stop := run(c)
		expect(t, "loading", c.LoadReceipts(t.Context(), "g1"), nil)
		var users []string
		v, _ := c.Conversation("g1")
		for u := range v.Receipts {
			users = append(users, u)
		}
		slices.Sort(users)
		expect(t, "users with receipts", users, []string{"bob", "eve"})
		expect(t, "run", stop(), nil)
	})
}

func TestPinsOfAllPagesAreLoaded(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.caps = []string{capCall}
		s.conv("g1", "").add(text("bob", "one"))
		pin := func(q uint64) *petrelv1.PinnedMessage {
			return &petrelv1.PinnedMessage{Message: &petrelv1.Message{Conv: "g1", Seq: q}}
		}
		pages := map[uint64]*petrelv1.ListPinsResponse{
			0: {Pins: []*petrelv1.PinnedMessage{pin(9), pin(8)}, Next: 8},
			8: {Pins: []*petrelv1.PinnedMessage{pin(5)}},
		}
		s.onFrame = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			q := f.GetCall()
			if q == nil {
				return false
			}
			r := new(petrelv1.ListPinsRequest)
			if err := proto.Unmarshal(q.GetProto(), r); err != nil {
				t.Error(err)
			}
			ss.answer(f.Id, pages[r.Before])
			return true
		}
		c := s.client(Options{})
		stop := run(c)
		pins, err := c.Pins(t.Context(), "g1")
		var seqs []uint64
		for _, p := range pins {
			seqs = append(seqs, p.Message.Seq)
		}
		expect(t, "pins", fmt.Sprint(seqs, err), "[9 8 5] <nil>")
		expect(t, "run", stop(), nil)
	})
}

// Spec: S-19.1.
func TestAtMostFourRequestsOfTheApplicationAreUnderWay(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.caps = []string{capCall}
		var session *fakeSession
		var open []uint64
		s.onFrame = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			if f.GetCall() == nil {
				return false
			}
			session, open = ss, append(open, f.Id)
			return true
		}
		c := s.client(Options{})
		var calls sync.WaitGroup
		for range 6 {
			calls.Go(func() {
				if _, err := c.CreateGroup(t.Context(), "title"); err != nil {
					t.Error(err)
				}
			})
		}
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.CreateGroup(late, "title"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call without a connection: got %v, want the end of its context", err)
		}
		stop := run(c)
		synctest.Wait()
		for want := 4; want > 0; { // then one for each that is answered
			s.mu.Lock()
			got, answering := open, session
			open = nil
			s.mu.Unlock()
			expect(t, "requests under way", len(got), want)
			for _, id := range got {
				answering.answer(id, &petrelv1.CreateGroupResponse{Conv: "g1"})
			}
			synctest.Wait()
			want = min(4, want-2)
		}
		calls.Wait()
		expect(t, "run", stop(), nil)
	})
}
