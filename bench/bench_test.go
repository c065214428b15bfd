package bench

import (
	"bytes"
	"encoding/json"
	"math"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, // gnet makes a pool of goroutines when it is imported
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"))
}

func mustRun(t *testing.T, p Params) *Report {
	t.Helper()
	r, err := Run(t.Context(), p)
	if err != nil {
		t.Fatalf("Run(%+v): %v", p, err)
	}
	return r
}

func text(r *Report) string {
	var b bytes.Buffer
	_ = r.WriteText(&b)
	return b.String()
}

func TestACorrectServerIsClean(t *testing.T) {
	for _, scenario := range []string{Direct, Group} {
		for _, codec := range []string{"proto", "json"} {
			for _, transport := range []string{"ws", "tcp"} {
				t.Run(scenario+" "+codec+" "+transport, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						f := newFake(t)
						p := f.brief(scenario)
						p.Codec, p.Transport = codec, transport
						r := mustRun(t, p)
						if err := r.Clean(nil); err != nil {
							t.Fatalf("%v\n%s", err, text(r))
						}
						if r.Audit.Lagged+r.Unknown+r.Rejected != 0 || r.Audit.HistoryRead == 0 {
							t.Errorf("lagged, unknown, rejected or read nothing back:\n%s", text(r))
						}
						receivers := uint64(1)
						if scenario == Group {
							receivers = uint64(p.Members - 1)
						}
						if want := r.Audit.Messages * receivers; r.Audit.Deliveries != want || r.Audit.Messages != f.accepted {
							t.Errorf("%d messages, %d deliveries; want %d and %d", r.Audit.Messages, r.Audit.Deliveries, f.accepted, want)
						}
						if l := r.Latency; l.Ack.P50 <= 0 || l.EndToEnd.P99 < l.EndToEnd.P50 || l.Ack.P999 < l.Ack.P99 {
							t.Errorf("latency %+v", l)
						}
					})
				})
			}
		}
	}
}

// A run over sockets of the system behaves as one in a bubble.
func TestACorrectServerIsCleanOnLoopback(t *testing.T) {
	for transport, codec := range map[string]string{"ws": "proto", "tcp": "json"} {
		for scenario, shape := range map[string]string{Direct: "wildfire", Group: "wildfire-100"} {
			t.Run(scenario+" "+codec+" "+transport, func(t *testing.T) {
				f := newFakeOnLoopback(t)
				p := small(t, f, scenario, shape, 1e-5)
				p.Codec, p.Transport, p.pause = codec, transport, time.Millisecond
				r := mustRun(t, p)
				if err := r.Clean(nil); err != nil || r.Accepted != uint64(p.planned()) || f.accepted != r.Accepted {
					t.Errorf("%d of %d were accepted, the server has %d: %v\n%s", r.Accepted, p.planned(), f.accepted, err, text(r))
				}
			})
		}
	}
}

// offline returns parameters of a short run whose receivers come at its end.
func offline(f *fake) Params {
	p := f.brief(Cluster)
	p.Postgres, p.Senders, p.Receivers, p.Rounds, p.Window = "", 5, 11, 3, 4
	return p
}

func TestReceiversWhoComeLaterReadEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		r := mustRun(t, offline(f))
		if err := r.Clean(nil); err != nil {
			t.Fatalf("%v\n%s", err, text(r))
		}
		const run = 5 * 11 * 3
		if r.Accepted != run || r.Audit.Messages != 2*run || r.Audit.Deliveries != 2*run || f.accepted != 2*run {
			t.Errorf("%d of %d messages count, %d were read, the server has %d; want %d of %d",
				r.Accepted, r.Audit.Messages, r.Audit.Deliveries, f.accepted, run, 2*run)
		}
		var b bytes.Buffer
		if err := (&Table{Runs: []*Report{r}}).WriteText(&b); err != nil || !bytes.Contains(b.Bytes(), []byte("330 read")) {
			t.Errorf("%v\n%s", err, b.String())
		}
	})
}

func TestWhatReceiversWhoComeLaterMissIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.onRead = func(p *petrelv1.HistoryPage) {
			if n := len(p.Messages); n > 0 {
				p.Messages = p.Messages[:n-1]
			}
		}
		p := offline(f)
		r := mustRun(t, p)
		if r.Audit.Findings[checker.Lost] == 0 || r.Clean(nil) == nil {
			t.Errorf("got %+v", r.Audit.Findings)
		}
	})
}

// onePush returns a hook that changes one push: the first one of seq to a user.
func onePush(seq uint64, wrong func(to *fakeSession, row []byte) []byte) func(*fakeSession, string, uint64, []byte) []byte {
	done := false
	return func(to *fakeSession, _ string, q uint64, row []byte) []byte {
		if q != seq || done {
			return row
		}
		done = true
		return wrong(to, row)
	}
}

func altered(row []byte) []byte {
	b := bytes.Clone(row)
	b[len(b)-3]++ // within the text
	return b
}

func TestWhatAServerDoesWrongIsFound(t *testing.T) {
	swap := func() func(*fakeSession, string, uint64, []byte) []byte { // 20 and 21 of one stream change places
		var held []byte
		var who *fakeSession
		var where string
		return func(to *fakeSession, conv string, q uint64, row []byte) []byte {
			switch {
			case q == 20 && held == nil && !to.sends(4): // a sender is not pushed what it sends
				held, who, where = row, to, conv
				return nil
			case q == 21 && to == who && conv == where:
				who = nil
				return append(bytes.Clone(row), held...)
			}
			return row
		}
	}
	cases := []struct {
		name  string
		wrong func(f *fake)
		want  func(checker.Findings) bool
		class checker.Class // of the op log's
	}{
		{"a lost push", func(f *fake) {
			f.onPush = onePush(20, func(*fakeSession, []byte) []byte { return nil })
		}, func(a checker.Findings) bool { return a[checker.Lost] == 1 && a.Sum() == 1 }, checker.Lost},
		{"the same push twice", func(f *fake) {
			f.onPush = onePush(20, func(_ *fakeSession, row []byte) []byte { return append(bytes.Clone(row), row...) })
		}, func(a checker.Findings) bool { return a[checker.Duplicate] == 1 && a.Sum() == 1 }, checker.Duplicate},
		{"an altered body", func(f *fake) {
			f.onPush = onePush(20, func(_ *fakeSession, row []byte) []byte { return altered(row) })
		}, func(a checker.Findings) bool { return a[checker.Altered] == 1 && a.Sum() == 1 }, checker.Altered},
		{"two pushes that change places", func(f *fake) { f.onPush = swap() },
			func(a checker.Findings) bool { return a[checker.Reordered] == 1 && a.Sum() == 1 }, checker.Reordered},
		{"an ack with another seq", func(f *fake) {
			f.onAck = func(a *wireAck) {
				if a.Seq == 20 {
					a.Seq = 19
				}
			}
		}, func(a checker.Findings) bool { return a[checker.Reordered] > 0 }, checker.Reordered},
		{"an ack of what is not stored", func(f *fake) {
			f.onAck = func(a *wireAck) {
				if a.Seq == 20 {
					a.Seq = 1 << 20
				}
			}
		}, func(a checker.Findings) bool { return a[checker.Lost] > 0 }, checker.Lost},
		{"a history with a hole", func(f *fake) {
			f.onRead = func(p *petrelv1.HistoryPage) {
				for i, m := range p.Messages {
					if m.Seq%100 == 20 {
						p.Messages = append(p.Messages[:i], p.Messages[i+1:]...)
						return
					}
				}
			}
		}, func(a checker.Findings) bool { return a[checker.Lost] > 0 }, checker.Lost},
	}
	for _, c := range cases {
		for _, scenario := range []string{Direct, Group} {
			t.Run(c.name+" "+scenario, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFake(t)
					c.wrong(f)
					r, j := logged(t, f.brief(scenario))
					if !c.want(r.Audit.Findings) || r.Clean(nil) == nil {
						t.Errorf("findings %v\n%s", r.Audit.Findings, text(r))
					}
					// The checker finds the same in the op log of the run, without the audit.
					if j.Findings[c.class] == 0 || len(j.Witnesses) == 0 || j.Witnesses[0].Where == "" {
						t.Errorf("of the op log: findings %v, want %s\n%v", j.Findings, c.class, j.Witnesses)
					}
				})
			})
		}
		// Without an op log the members of a group follow one script.
		t.Run(c.name+" script", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				c.wrong(f)
				if r := mustRun(t, f.brief(Group)); !c.want(r.Audit.Findings) || r.Clean(nil) == nil {
					t.Errorf("findings %v\n%s", r.Audit.Findings, text(r))
				}
			})
		})
	}
}

// logged runs p with an op log, and checks the log.
func logged(t *testing.T, p Params) (*Report, *checker.Report) {
	t.Helper()
	p.OpLog = filepath.Join(t.TempDir(), "run"+[]string{".jsonl", ".ops"}[p.Seed%2])
	r := mustRun(t, p)
	f, err := os.Open(p.OpLog)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	j, err := checker.Check([]checker.Log{{Name: "run", Reader: f}}, checker.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return r, j
}

func TestTheOpLogOfARunIsJudgedLikeTheRun(t *testing.T) {
	for i, scenario := range []string{Direct, Group} {
		t.Run(scenario, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				p := f.brief(scenario)
				p.Seed = uint64(i)
				r, j := logged(t, p)
				if !j.Findings.Clean() || !r.Audit.Findings.Clean() {
					t.Errorf("findings %v, and of the op log %v: %v", r.Audit.Findings, j.Findings, j.Witnesses)
				}
				if j.Acked != r.Audit.Messages || j.Deliveries+j.Reads < r.Audit.Deliveries || // and what the server wrote into each conversation
					j.Entries != r.Audit.HistoryRead || j.WithHistory != j.Conversations || j.WithMembers != j.Conversations || j.Due == 0 {
					t.Errorf("the log has %+v, the run %+v", j.Sums, r.Audit)
				}
			})
		})
	}
}

func TestARejectedMessageThatIsDeliveredIsAGhost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		n := 0
		var hidden *petrelv1.Send
		f.onSend = func(s *petrelv1.Send) *im.Error {
			if s.Conv == "" {
				return nil
			}
			if n++; n == 30 {
				hidden = s
				return &im.Error{Code: im.CodeForbidden}
			}
			return nil
		}
		f.onAck = func(a *wireAck) {
			if hidden == nil {
				return
			}
			// The refused message is stored and pushed all the same.
			for _, s := range f.sessions {
				if s.user == f.convs[hidden.Conv].members[0] {
					h := hidden
					hidden = nil
					f.store(s, h.Conv, &petrelv1.Message{From: s.user, ClientMsgId: h.ClientMsgId, Body: &petrelv1.Message_Text{Text: h.GetText()}})
					return
				}
			}
		}
		p := f.brief(Direct)
		r := mustRun(t, p)
		if n < 31 || r.Audit.Findings[checker.Ghost] == 0 {
			t.Errorf("%d sends, findings %v\n%s", n, r.Audit.Findings, text(r))
		}
	})
}

func TestALaggingConnectionCatchesUpByHistory(t *testing.T) {
	for _, scenario := range []string{Direct, Group} {
		for _, codec := range []string{"proto", "json"} {
			t.Run(scenario+" "+codec, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFake(t)
					f.onPush = func(to *fakeSession, _ string, q uint64, row []byte) []byte {
						if q%100 == 50 && to.user[len(to.user)-1]%2 == 0 {
							to.lag()
						}
						return row
					}
					p := f.brief(scenario)
					p.Codec = codec
					r := mustRun(t, p)
					if err := r.Clean(nil); err != nil || r.Audit.Lagged == 0 {
						t.Errorf("%v\n%s", err, text(r))
					}
				})
			})
		}
	}
}

// A busy server puts off what a connection asks for after a lag. The connection asks again, and that does not
// count as a send that was put off.
func TestALaggingConnectionAsksAgainForWhatWasPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.onPush = func(to *fakeSession, _ string, q uint64, row []byte) []byte {
			if q == 50 && to.user[len(to.user)-1]%2 == 0 {
				to.lag()
				f.putOff += 2
			}
			return row
		}
		r := mustRun(t, f.brief(Group))
		if err := r.Clean(nil); err != nil || r.Audit.Lagged == 0 || f.putOff > 0 || r.Audit.Errors[string(im.CodeOverloaded)] == 0 {
			t.Errorf("%v\n%s", err, text(r))
		}
	})
}

func TestAnUnsettledErrorIsRepeatedWithTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		refused := map[string]bool{}
		f.onSend = func(s *petrelv1.Send) *im.Error {
			if len(refused) < 40 && !refused[s.ClientMsgId] {
				refused[s.ClientMsgId] = true
				return &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Millisecond}
			}
			return nil
		}
		r := mustRun(t, f.brief(Direct))
		if !r.Audit.Findings.Clean() || r.Audit.Errors["overloaded"] != 40 || r.Unknown != 0 || r.Audit.Messages != f.accepted {
			t.Error(text(r))
		}
		if err := r.Clean(nil); err == nil || err.Error() != "the run was overloaded: the server put off 40 sends as overloaded" {
			t.Errorf("the run that was put off 40 times: %v", err)
		}
		for _, v := range f.convs {
			for k := range v.k {
				for id := range refused {
					if len(k) > len(id) && k[len(k)-len(id):] == id {
						delete(refused, id)
					}
				}
			}
		}
		if len(refused) > 0 {
			t.Errorf("%d refused messages were never sent again", len(refused))
		}
	})
}

func TestAMessageThatIsBehindIsSentAgainFromTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		heads := map[string]uint64{}
		f.onSend = func(s *petrelv1.Send) *im.Error {
			v := f.convs[s.Conv]
			head, again := heads[s.ClientMsgId]
			switch {
			case again && s.GetAfter() != head:
				panic("a message that was behind came again with another after than the head")
			case !again && v != nil && len(heads) < 20:
				heads[s.ClientMsgId] = uint64(len(v.rows))
				return &im.Error{Code: im.CodeBehind, Head: im.Seq(len(v.rows))}
			}
			return nil
		}
		r := mustRun(t, f.brief(Direct))
		if err := r.Clean(nil); err != nil || r.Audit.Errors["behind"] != 20 || r.Unknown != 0 {
			t.Errorf("%v\n%s", err, text(r))
		}
	})
}

func TestAnEndThatComesTogetherWithDataIsNoticed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	e := wire.Encoding{Codec: wire.Proto, Framing: wire.TCP}
	if _, err := in.Write(wire.AppendFrame(nil, e, &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Kick{Kick: &petrelv1.Kick{Code: "draining"}}})); err != nil {
		t.Fatal(err)
	}
	in.Close()
	fd, err := takeSocket(out.(*net.TCPConn))
	if err != nil {
		t.Fatal(err)
	}
	g := newGenerator(e, newCorpus(1, 40), newAudit(newCorpus(1, 40)))
	g.conns = []*conn{{fd: fd}}
	if err := g.run(eventually.Context(t)); err != nil || len(g.lost) != 1 || g.lost[0] != "connection 0: kicked: draining" {
		t.Errorf("run: %v, lost %q", err, g.lost)
	}
}

func TestSettledErrorsAreRejectedNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		n := 0
		f.onSend = func(s *petrelv1.Send) *im.Error {
			if n++; n%5 == 0 {
				return &im.Error{Code: im.CodeForbidden}
			}
			return nil
		}
		r := mustRun(t, f.brief(Direct))
		if err := r.Clean(nil); err != nil || r.Rejected == 0 || r.Unknown != 0 {
			t.Errorf("%v, %d rejected\n%s", err, r.Rejected, text(r))
		}
	})
}

func TestABrokenConnectionIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.onPush = onePush(20, func(to *fakeSession, row []byte) []byte {
			to.conn.Close()
			return row
		})
		r := mustRun(t, f.brief(Direct))
		if r.Clean(nil) == nil || len(r.Audit.Connections) == 0 || !r.Audit.Findings.Clean() {
			t.Errorf("connections lost: %v\n%s", r.Audit.Connections, text(r))
		}
	})
}

func TestAStallCountsForEveryMessageThatWasDueInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		var begun time.Time // with the first send
		f.stall = func() {
			f.mu.Lock()
			if begun.IsZero() && f.accepted > 0 {
				begun = time.Now()
			}
			stalls := !begun.IsZero() && time.Since(begun) >= 300*time.Millisecond
			end := begun.Add(600 * time.Millisecond)
			f.mu.Unlock()
			if stalls {
				time.Sleep(time.Until(end))
			}
		}
		f.limits.WindowSends = 1 // so that it cannot leave in time
		p := f.params(Direct)
		p.Rate, p.Seconds, p.WarmUp = 1000, 1, 0
		r := mustRun(t, p)
		if r.Overloaded = nil; r.Clean(nil) != nil { // it may be: the server does nothing for a third of the run
			t.Fatal(r.Clean(nil))
		}
		// Of the 1,000 messages, 300 are due in the stall, one in each millisecond. A closed loop would see the stall
		// in only one message of each sender. After it the messages of each of the four senders leave one by one, every
		// 0.1 ms.
		if got := r.Latency.EndToEnd; got.P50 > 1 || math.Abs(got.P90-202.5) > 1 || math.Abs(got.P99-290.25) > 1 || math.Abs(got.Max-300) > 1 {
			t.Errorf("end to end %+v, want p90 at 202.5 ms, p99 at 290.25 ms and at most 300 ms\n%s", got, text(r))
		}
		if r.Offered != 1000 {
			t.Errorf("offered %d, want 1000 and not what the acks leave time for", r.Offered)
		}
	})
}

// A generator that stood still over the end of the window has offered the messages that were due in it. Its drain
// does not end before it has looked at the sockets.
func TestAGeneratorThatStoodStillCountsWhatWasDue(t *testing.T) {
	c := newCorpus(1, 1)
	g := newGenerator(wire.Encoding{}, c, newAudit(c))
	g.quiet, g.open, g.unanswered = 300*time.Millisecond, 1, 1
	g.conns = []*conn{{fd: -1}}
	g.audit.addSender("s", 0)
	g.pace = newPace(0, 1000, 1)
	g.enter(draining)
	if g.tick(int64(time.Second)) || g.at != draining || g.end.offered != 1001 || g.begin.at != g.end.at {
		t.Errorf("at the end %+v, at the beginning %+v", g.end, g.begin)
	}
	if g.tick(int64(2 * time.Second)) {
		t.Error("the drain is over, and the sockets were not looked at")
	}
	if g.looked = int64(2 * time.Second); !g.tick(int64(2 * time.Second)) {
		t.Error("the drain goes on, and nothing comes")
	}
}

func TestIdleConnectionsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		p := f.params(Connections)
		p.ConnectMS = 48 // so that 21 have come after the first second
		r := mustRun(t, p)
		if err := r.Clean(nil); err != nil {
			t.Error(err)
		}
		if n := r.Series[0].Open; n != 21 {
			t.Errorf("%d connections after the first second, want 21 of %d", n, p.Connections)
		}
		if len(f.sessions) != p.Connections {
			t.Errorf("%d sessions, want %d", len(f.sessions), p.Connections)
		}
	})
}

func TestLimitsAreRaisedAndSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		p := f.brief(Direct)
		p.Senders, p.Window, p.Seconds = 20, 200, 0.005
		r := mustRun(t, p)
		want := []Raised{{"connections_per_ip", 10, 23}, {"sends_per_s", 10, -1}, {"send_burst", 40, -1}, {"window_sends", 64, 200}}
		if len(r.Raised) != len(want) {
			t.Fatalf("raised %v, want %v", r.Raised, want)
		}
		for i := range want {
			if r.Raised[i] != want[i] {
				t.Errorf("raised %v, want %v", r.Raised[i], want[i])
			}
		}
		if n := len(f.set); n != 2 || f.set[1].ConnectionsPerIp != 10 || f.set[1].SendsPerS != 10 || f.set[1].WindowSends != 64 || f.set[1].Connections != 0 {
			t.Errorf("SetLimits was called with %v", f.set)
		}
	})
}

func TestTheReportHasItsKeys(t *testing.T) {
	var b bytes.Buffer
	if err := WriteJSON(&b, &Report{Scenario: Direct, Params: DefaultParams(Direct)}); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	keys := map[string][]string{
		"": {"scenario", "params", "offered", "accepted", "delivered", "rejected", "unknown", "accepted_per_s", "delivered_per_s",
			"audit", "latency_ms", "server", "total", "generator", "disk", "machine"},
		"total":      {"cpu_s", "accepted_per_cpu_s", "delivered_per_cpu_s"},
		"audit":      {"findings", "witnesses"},
		"latency_ms": {"ack", "end_to_end"},
		"server": {"cpu_s", "rss_bytes", "accepted_per_cpu_s", "delivered_per_cpu_s", "bytes_per_connection",
			"disk_bytes_per_message", "messages_per_commit"},
		"generator": {"cpu_s"},
		"disk":      {"fdatasync_ms"},
	}
	for object, names := range keys {
		in := got
		if object != "" {
			in, _ = got[object].(map[string]any)
		}
		for _, k := range names {
			if _, ok := in[k]; !ok {
				t.Errorf("the report has no %q in %q", k, object)
			}
		}
	}
	if bytes.Contains(b.Bytes(), []byte("pk_")) {
		t.Error("the admin key is in the report")
	}
}
