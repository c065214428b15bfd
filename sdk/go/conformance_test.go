package petrel

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	conformance = "../conformance"
	clientSpec  = "../SPEC.md"
)

// vector is one script, as sdk/conformance/README.md describes it.
type vector struct {
	Name    string
	Clauses []string
	Options vectorOptions
	Steps   []step
}

type vectorOptions struct {
	URL            string
	Device         string
	Keep, Newest   int
	TellsDelivered bool // by itself
	WholeFrames    bool
	Random         float64
	Store          string // "by hand": writes wait for stored
}

type step struct {
	In    map[string]json.RawMessage
	Out   map[string]any
	Shows map[string]any
}

func vectors(t *testing.T) (all []vector) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(conformance, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors in %s: %v", conformance, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(strings.NewReader(string(b)))
		d.DisallowUnknownFields()
		var of []vector
		if err := d.Decode(&of); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		all = append(all, of...)
	}
	return all
}

func TestConformance(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(strings.ReplaceAll(v.Name, " ", "-"), func(t *testing.T) {
			s := newScript(t, v.Options)
			for i, st := range v.Steps {
				s.at = fmt.Sprintf("step %d", i+1)
				s.take(st)
			}
		})
	}
}

// TestEveryClauseHasAVector also sees to it that no vector names a clause that is not there.
func TestEveryClauseHasAVector(t *testing.T) {
	b, err := os.ReadFile(clientSpec)
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{} // clauses; true: an SDK tests it by itself
	for _, m := range regexp.MustCompile(`(?ms)^\*\*(S-\d+\.\d+) (.*?)(?:\n\n|\z)`).FindAllStringSubmatch(string(b), -1) {
		left[m[1]] = strings.HasSuffix(strings.TrimSpace(m[2]), "*(client)*")
	}
	if len(left) < 60 {
		t.Fatalf("%d clauses were found in %s", len(left), clientSpec)
	}
	known := maps.Clone(left)
	names := map[string]bool{}
	for _, v := range vectors(t) {
		if len(v.Clauses) == 0 || names[v.Name] {
			t.Errorf("vector %q names no clause, or has the name of another one", v.Name)
		}
		names[v.Name] = true
		for _, c := range v.Clauses {
			if _, there := known[c]; !there {
				t.Errorf("vector %q names clause %s, which is not there", v.Name, c)
			}
			delete(left, c)
		}
	}
	for _, c := range slices.Sorted(maps.Keys(left)) {
		if !left[c] {
			t.Errorf("clause %s has no vector", c)
		}
	}
}

// script plays a vector.
type script struct {
	t       *testing.T
	at      string
	o       vectorOptions
	k       *core
	store   map[string][]byte
	held    *written            // waits for stored
	asked   map[string][]uint64 // ids of requests without an answer, by kind
	conn    uint64              // the newest one that stands or is being made
	ended   uint64              // the connection that this step ends
	names   int
	got     outcome
	waiting map[string]*outgoing // by id, whatever became of it
}

// outcome is what came out of one step.
type outcome struct {
	token   []any
	dials   []any
	drops   []any
	frames  []any
	writes  []string
	durable bool
	changed Change
	told    bool
	ended   bool
	err     error
}

func newScript(t *testing.T, o vectorOptions) *script {
	t.Helper()
	o.URL, o.Device = cmp.Or(o.URL, "ws://a"), cmp.Or(o.Device, "device")
	o.Keep, o.Newest = cmp.Or(o.Keep, defaultKeep), cmp.Or(o.Newest, defaultNewest)
	s := &script{t: t, o: o, store: map[string][]byte{}, waiting: map[string]*outgoing{}}
	s.begin(time.UnixMilli(1795262400000).UTC())
	return s
}

// begin makes a client of what the store holds.
func (s *script) begin(now time.Time) {
	s.t.Helper()
	device := s.o.Device
	if device == "none" {
		device = ""
	}
	s.k = newCore(coreOptions{
		url: s.o.URL, device: device, client: "script", json: true, stored: true,
		keep: s.o.Keep, newest: max(0, s.o.Newest), manualDelivered: !s.o.TellsDelivered, wholeFrames: s.o.WholeFrames,
	}, func() float64 { return s.o.Random }, func() string {
		s.names++
		return fmt.Sprint("id", s.names)
	})
	s.k.now = now
	s.asked, s.held = map[string][]uint64{}, nil
	var rows []Row
	for key, b := range s.store {
		rows = append(rows, Row{key, b})
	}
	if err := s.k.open(rows); err != nil {
		s.t.Fatalf("%s: %v", s.at, err)
	}
	for _, o := range s.k.sending {
		s.waiting[o.id] = o
	}
	s.settle()
}

// take plays one step.
func (s *script) take(st step) {
	s.t.Helper()
	s.got, s.ended = outcome{}, 0
	s.input(st.In)
	s.settle()
	for key := range st.Out {
		if !slices.Contains([]string{"token", "dials", "drops", "frames", "writes", "durable", "changed", "ended", "alarmMs"}, key) {
			s.t.Fatalf("%s: no output is called %q", s.at, key)
		}
	}
	s.compare("token", st.Out["token"], s.got.token)
	s.compare("dials", st.Out["dials"], s.got.dials)
	s.compare("drops", st.Out["drops"], s.got.drops)
	s.compare("frames", st.Out["frames"], s.got.frames)
	var ended any
	if s.got.ended {
		ended = errorView(s.got.err)
	}
	if want := st.Out["ended"]; (want == nil) != (ended == nil) || match(want, ended) != "" {
		s.t.Errorf("%s: ended: got %s, want %s", s.at, show(ended), show(want))
	}
	for _, w := range listOf(st.Out["writes"]) {
		if !slices.Contains(s.got.writes, fmt.Sprint(w)) {
			s.t.Errorf("%s: writes %v, want %v among them", s.at, s.got.writes, w)
		}
	}
	if want, said := st.Out["durable"]; said && want != s.got.durable {
		s.t.Errorf("%s: durable: got %v, want %v", s.at, s.got.durable, want)
	}
	if want, said := st.Out["changed"]; said {
		if got := s.changedView(); match(want, got) != "" {
			s.t.Errorf("%s: changed: %s", s.at, match(want, got))
		}
	}
	if want, said := st.Out["alarmMs"]; said {
		if got := float64(s.k.alarm.Sub(s.k.now).Milliseconds()); s.k.alarm.IsZero() || got != want {
			s.t.Errorf("%s: the next alarm is after %v ms, want %v", s.at, got, want)
		}
	}
	for what, want := range st.Shows {
		if got, wrong := s.shows(what, want); wrong != "" {
			s.t.Errorf("%s: shows %s: %s\n got %s\nwant %s", s.at, what, wrong, show(got), show(want))
		}
	}
}

func (s *script) compare(what string, want any, got []any) {
	s.t.Helper()
	if w := listOf(want); len(w) != len(got) || len(w) > 0 && match(any(w), any(got)) != "" {
		s.t.Errorf("%s: %s:\n got %s\nwant %s", s.at, what, show(got), show(want))
	}
}

func listOf(v any) []any {
	l, _ := v.([]any)
	return l
}

func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// match says where got is not as want says: "" if it is. Of an object only the fields that
// want has are compared; null stands for a field that is not there, or has its default.
func match(want, got any) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("got %s, want %s", show(got), show(want))
		}
		for key, v := range w {
			if m := match(v, g[key]); m != "" {
				return key + ": " + m
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok && got != nil || len(g) != len(w) {
			return fmt.Sprintf("got %s, want %s", show(got), show(want))
		}
		for i := range w {
			if m := match(w[i], g[i]); m != "" {
				return fmt.Sprintf("%d: %s", i, m)
			}
		}
		return ""
	case string:
		if g, ok := got.(map[string]any); ok { // a message, by its text
			got = g["text"]
		}
	}
	if isDefault(want) && isDefault(got) || show(want) == show(got) {
		return ""
	}
	return fmt.Sprintf("got %s, want %s", show(got), show(want))
}

func isDefault(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return slices.Contains([]string{`""`, `0`, `false`, `"0"`}, show(v))
}

// settle does what a client does after each input.
func (s *script) settle() {
	s.t.Helper()
	for {
		s.k.step()
		s.outputs()
		if s.held != nil {
			return
		}
		w := s.k.prepare()
		if len(w.rows) == 0 && !w.sync && w.changed.Empty() {
			return
		}
		s.got.durable = s.got.durable || w.sync
		for _, r := range w.rows {
			s.got.writes = append(s.got.writes, rowName(r))
		}
		if s.o.Store == "by hand" && (len(w.rows) > 0 || w.sync) {
			s.held = &w
			continue
		}
		s.stored(w)
	}
}

func (s *script) stored(w written) {
	for _, r := range w.rows {
		s.write(r)
	}
	if ch := s.k.stored(w); !ch.Empty() {
		s.got.told = true
		s.got.changed.merge(&ch)
	}
}

func (s *script) write(r Row) {
	if r.Value == nil {
		delete(s.store, r.Key)
	} else {
		s.store[r.Key] = r.Value
	}
}

// rowName is a row as vectors name it: "entry g1 3", or "-entry g1 3" when it is removed.
func rowName(r Row) string {
	kind, rest, _ := strings.Cut(r.Key, "/")
	name := map[string]string{"meta": "client", "c": "conversation", "e": "entry", "o": "outgoing", "s": "setting", "p": "position"}[kind]
	if kind == "e" {
		conv, seq, _ := strings.Cut(rest, "/")
		n, _ := strconv.ParseUint(seq, 16, 64) // as messageKey wrote it
		rest = fmt.Sprint(conv, " ", n)
	}
	if name = strings.TrimSpace(name + " " + rest); r.Value == nil {
		return "-" + name
	}
	return name
}

// outputs takes what the core wants done.
func (s *script) outputs() {
	s.t.Helper()
	out := s.k.out
	s.k.out = outputs{}
	if out.token != nil {
		s.got.token = append(s.got.token, out.token.refused)
	}
	for _, d := range out.dials {
		s.conn = d.conn
		s.got.dials = append(s.got.dials, d.addr)
	}
	for _, d := range out.drops {
		if d == s.ended { // by itself
			continue
		}
		s.got.drops = append(s.got.drops, float64(d))
	}
	for _, f := range out.frames {
		var m map[string]any
		if err := json.Unmarshal(f.b, &m); err != nil {
			s.t.Fatal(err)
		}
		id, _ := strconv.ParseUint(fmt.Sprint(m["id"]), 10, 64) // a pong has none
		for kind := range m {
			if kind != "id" && kind != "pong" {
				delete(m, "id")
				s.asked[kind] = append(s.asked[kind], id)
			}
		}
		m["conn"] = float64(f.conn)
		s.got.frames = append(s.got.frames, m)
	}
	if out.ended {
		s.got.ended, s.got.err = true, out.err
	}
}

// input applies what a step brings.
func (s *script) input(in map[string]json.RawMessage) {
	s.t.Helper()
	for kind, raw := range in {
		if kind == "answers" || kind == "conn" || kind == "store" || kind == "error" {
			continue
		}
		s.one(kind, raw, in)
	}
}

func (s *script) read(raw json.RawMessage, v any) {
	s.t.Helper()
	if err := json.Unmarshal(raw, v); err != nil {
		s.t.Fatalf("%s: %s: %v", s.at, raw, err)
	}
}

func (s *script) one(kind string, raw json.RawMessage, in map[string]json.RawMessage) {
	s.t.Helper()
	k := s.k
	conn := s.conn
	if in["conn"] != nil {
		s.read(in["conn"], &conn)
	}
	var failure error
	if in["error"] != nil {
		failure = s.failure(in["error"])
	}
	switch kind {
	case "start":
		k.start()
	case "stop":
		k.stop(nil)
		s.asked = map[string][]uint64{}
	case "token":
		var token string
		s.read(raw, &token)
		k.tokenCame(token, failure)
	case "opened":
		s.read(raw, &conn)
		k.opened(conn)
	case "closed":
		s.read(raw, &conn)
		if failure == nil {
			failure = errors.New("cut")
		}
		s.asked, s.ended = map[string][]uint64{}, conn
		k.closed(conn, failure)
	case "frame":
		if k.live != nil && k.live.conn == conn {
			k.live.heard = k.now
		}
		k.frame(conn, s.serverFrame(raw, in["answers"]))
	case "heard", "moved":
		if k.live == nil {
			s.t.Fatalf("%s: there is no connection", s.at)
		}
		if at := &k.live.heard; kind == "heard" {
			*at = k.now
		} else {
			var took struct{ All bool } // what was sent so far; otherwise a part of the oldest request
			s.read(raw, &took)
			upTo := uint64(0)
			if took.All {
				upTo = k.live.nextID
			}
			k.live.took(k.now, upTo)
		}
	case "flood":
		s.flood(raw, conn)
	case "wait":
		var ms int
		s.read(raw, &ms)
		s.wait(time.Duration(ms) * time.Millisecond)
	case "live":
		k.start()
		s.goLive(raw)
	case "reconnect":
		s.asked = map[string][]uint64{}
		k.closed(conn, errors.New("cut"))
		s.goLive(raw)
	case "stored":
		w := *s.held
		if s.held = nil; failure != nil {
			k.storeFailed(failure)
			return
		}
		s.stored(w)
	case "restart":
		s.begin(k.now)
	default:
		s.call(kind, raw, in)
	}
}

// flood brings many events of one kind, in one frame.
func (s *script) flood(raw json.RawMessage, conn uint64) {
	s.t.Helper()
	var q struct {
		Kind, Conv string
		From, To   uint64
	}
	s.read(raw, &q)
	ev := &petrelv1.Events{}
	for n := q.From; n <= q.To; n++ {
		id := fmt.Sprint(n)
		switch q.Kind {
		case "entries":
			ev.Messages = append(ev.Messages, &petrelv1.Message{Conv: q.Conv, Seq: n, ClientMsgId: id, Body: &petrelv1.Message_Text{Text: id}})
		case "notes":
			ev.Notes = append(ev.Notes, &petrelv1.Note{Conv: q.Conv, Seq: n, Version: 1, Reactions: []*petrelv1.ReactionCount{{Emoji: "+", Count: 1}}})
		case "signals":
			ev.Signals = append(ev.Signals, &petrelv1.Signal{Conv: q.Conv, From: "user" + id, Kind: "call", Id: n})
		case "typing":
			ev.Signals = append(ev.Signals, &petrelv1.Signal{Conv: q.Conv, From: "user" + id, Kind: Typing, Head: 1 << 20, Id: n})
		}
	}
	s.k.frame(conn, &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Events{Events: ev}})
}

// failure is an error as a vector writes it: a text, or an Error of the protocol.
func (s *script) failure(raw json.RawMessage) error {
	s.t.Helper()
	if raw[0] == '"' {
		var text string
		s.read(raw, &text)
		return errors.New(text)
	}
	e := new(petrelv1.Error)
	if err := protojson.Unmarshal(raw, e); err != nil {
		s.t.Fatalf("%s: %v", s.at, err)
	}
	return fromWire(e)
}

func (s *script) serverFrame(raw, answers json.RawMessage) *petrelv1.ServerFrame {
	s.t.Helper()
	f, err := decode(true, raw)
	if err != nil {
		s.t.Fatalf("%s: %v", s.at, err)
	}
	if answers != nil {
		var to string
		s.read(answers, &to)
		if len(s.asked[to]) == 0 {
			s.t.Fatalf("%s: no %s waits for an answer", s.at, to)
		}
		f.Id = s.asked[to][0]
		s.asked[to] = s.asked[to][1:]
	}
	return f
}

// wait lets time go on, from alarm to alarm.
func (s *script) wait(d time.Duration) {
	s.t.Helper()
	to := s.k.now.Add(d)
	for {
		s.settle()
		at := s.k.alarm
		if at.IsZero() || at.After(to) || s.got.ended {
			break
		}
		if !at.After(s.k.now) {
			s.t.Fatalf("%s: the core wants to hear of the clock at once, again and again", s.at)
		}
		s.k.now = at
	}
	s.k.now = to
}

// usual is the welcome of a vector that says nothing else.
const usual = `{"version":1,"user":"alice","inbox":"inbox","historyId":"h1","heartbeatMs":30000,"heartbeatMisses":2,
	"window":{"sends":64,"bytes":262144},"limits":{"frameBytes":65536,"bodyBytes":8192,"historyMessages":50,"openRequests":16},
	"capabilities":["edit","cursor","focus","newest","call","rel","signal","presence","notes","personal","mentions"]}`

// goLive goes from where a token is asked for to the answer of the first sync. Other
// requests than the hello and this sync are left to the step.
func (s *script) goLive(raw json.RawMessage) {
	s.t.Helper()
	var with struct{ Welcome, Sync map[string]any }
	s.read(raw, &with)
	welcome := map[string]any{}
	s.read(json.RawMessage(usual), &welcome)
	maps.Copy(welcome, with.Welcome)
	if with.Sync == nil {
		with.Sync = map[string]any{}
	}
	if _, said := with.Sync["token"]; !said {
		with.Sync["token"] = "AQ=="
	}
	for n := 0; len(s.got.token) == 0; n++ {
		if s.settle(); len(s.got.token) == 0 {
			if s.k.alarm.IsZero() || n > 3 {
				s.t.Fatalf("%s: the client does not connect", s.at)
			}
			s.k.now = s.k.alarm
		}
	}
	s.k.tokenCame("token", nil)
	s.settle()
	s.k.opened(s.conn)
	s.settle()
	s.k.frame(s.conn, s.serverFrame(json.RawMessage(show(map[string]any{"welcome": welcome})), json.RawMessage(`"hello"`)))
	s.settle()
	s.k.frame(s.conn, s.serverFrame(json.RawMessage(show(map[string]any{"sync": with.Sync})), json.RawMessage(`"sync"`)))
	s.settle()
	first := true
	s.got.frames = slices.DeleteFunc(s.got.frames, func(f any) bool {
		m := f.(map[string]any)
		_, sync := m["sync"]
		if sync && first {
			first = false
			return true
		}
		return m["hello"] != nil
	})
	s.got.token, s.got.dials, s.got.drops = nil, nil, nil
}

// call is a call of the application.
func (s *script) call(kind string, raw json.RawMessage, in map[string]json.RawMessage) {
	s.t.Helper()
	k := s.k
	switch kind {
	case "send":
		s.send(raw, in)
	case "discard":
		var id string
		s.read(raw, &id)
		k.discard(s.waiting[id])
	case "markRead", "markDelivered":
		var q struct {
			Conv string
			Seq  uint64
		}
		s.read(raw, &q)
		if kind == "markRead" {
			k.markRead(q.Conv, q.Seq)
		} else {
			k.markDelivered(q.Conv, q.Seq)
		}
	case "focus":
		var convs []string
		if s.read(raw, &convs); convs == nil {
			k.setFocus(nil)
		} else {
			k.setFocus(&petrelv1.SetFocus{Convs: convs})
		}
	case "watch":
		var users []string
		s.read(raw, &users)
		k.setWatch("", users)
	case "typing":
		var conv string
		s.read(raw, &conv)
		k.sayTyping(conv, &petrelv1.SendSignal{Conv: conv, Kind: Typing})
	case "wakeUp":
		k.wakeUp()
	case "quote":
		var q struct {
			Conv string
			Seq  uint64
		}
		s.read(raw, &q)
		k.quote(q.Conv, q.Seq)
	case "older":
		s.older(raw)
	case "signal":
		sig := new(petrelv1.SendSignal)
		if err := protojson.Unmarshal(raw, sig); err != nil {
			s.t.Fatal(err)
		}
		err := k.call(capSignal, &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Signal{Signal: sig}}, func(*petrelv1.ServerFrame) {})
		s.refused(err, in)
	default:
		s.t.Fatalf("%s: no input is called %q", s.at, kind)
	}
}

// refused compares the error of a call with what the step says.
func (s *script) refused(err error, in map[string]json.RawMessage) {
	s.t.Helper()
	want := ""
	if in["error"] != nil {
		s.read(in["error"], &want)
	}
	if CodeOf(err) != want {
		s.t.Errorf("%s: the call ends with %v, want code %q", s.at, err, want)
	}
}

func (s *script) send(raw json.RawMessage, in map[string]json.RawMessage) {
	s.t.Helper()
	var q struct {
		Conv, User, ID, Type, Text string
		Hex                        string // of a text that is no UTF-8
		Repeat                     int    // of the text
		ReplyTo, Thread, Recall    uint64
		Forward                    *petrelv1.Ref
		Edit                       *struct {
			Target uint64
			Text   string
		}
	}
	s.read(raw, &q)
	d := Draft{Conv: q.Conv, User: q.User, ID: q.ID, Type: q.Type, Text: strings.Repeat(q.Text, max(1, q.Repeat)), ReplyTo: q.ReplyTo, Thread: q.Thread, Forward: q.Forward}
	if q.Hex != "" {
		b, err := hex.DecodeString(q.Hex)
		if err != nil {
			s.t.Fatal(err)
		}
		d.Text = string(b)
	}
	if q.Edit != nil {
		d.Edit = &petrelv1.Edit{Target: q.Edit.Target, Body: &petrelv1.Edit_Text{Text: q.Edit.Text}}
	}
	if q.Recall != 0 {
		d.Recall = &petrelv1.Recall{Target: q.Recall}
	}
	o, isNew, err := s.k.draft(d)
	s.refused(err, in)
	if !isNew {
		return
	}
	if in["store"] != nil { // it fails
		s.k.remove(o)
		return
	}
	s.waiting[o.id] = o
	row := o.row()
	s.write(row)
	s.got.writes = append(s.got.writes, rowName(row))
	s.k.kept(o)
}

// older asks for older entries as Client.Older does, and applies the answer when it comes.
func (s *script) older(raw json.RawMessage) {
	s.t.Helper()
	var q struct {
		Conv  string
		Limit uint32
	}
	s.read(raw, &q)
	before := s.k.olderThan(q.Conv)
	if before == 0 {
		return
	}
	h := &petrelv1.GetHistory{Conv: q.Conv, Before: before, Limit: q.Limit}
	err := s.k.call("", &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_History{History: h}}, func(f *petrelv1.ServerFrame) {
		damage := Range{}
		if e := f.GetError(); e != nil {
			damage = fromWire(e).Damaged
		}
		if f.GetHistory() != nil || damage.From != 0 {
			s.k.takeOlder(q.Conv, before, f.GetHistory(), damage)
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
}
