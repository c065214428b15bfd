package checker

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// everything has all fields.
var everything = Op{
	Kind: Read, At: -5, Began: 1 << 60, User: "al\"ice", Device: "d", Session: "海燕", Conv: "g", To: "t", ID: "i\nd", Body: 0xfedcba9876543210, Seq: 1 << 63, From: "f",
	Edits: 2, Recalls: 3, Rewritten: 4, Hidden: true, Since: 5, About: "a", ReadUpTo: 6, Version: 7, Added: []string{"x", "y"}, Removed: []string{"x"},
}

func written(t *testing.T, ops ...Op) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	for i := range ops {
		if err := w.Write(&ops[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(b []byte) (ops []Op, err error) {
	r, err := NewReader(bytes.NewReader(b))
	for err == nil {
		var op Op
		if err = r.Next(&op); err == nil {
			ops = append(ops, op)
		}
	}
	if err == io.EOF {
		err = nil
	}
	return ops, err
}

func TestALogIsReadAsItWasWritten(t *testing.T) {
	all := append(slices.Clone(newStory().ops), everything, everything)
	got, err := read(written(t, all...))
	if diff := cmp.Diff(all, got, cmpopts.IgnoreUnexported(Op{})); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestALogThatOthersWrite(t *testing.T) {
	got, err := read([]byte("{\"seq\": 3, \"conv\":\"g\", \"mine\":{\"x\":[1]}, \"op\":\"history\"}\n"))
	if err != nil || len(got) != 1 || got[0].Kind != History || got[0].Seq != 3 || got[0].Conv != "g" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestALogThatCannotBeReadIsRefused(t *testing.T) {
	good := string(written(t, everything))
	for name, c := range map[string]struct{ log, want string }{
		"no log":           {"hello\n", "this is no op log"},
		"no JSON":          {good + "{\"op\":\"invoke\"\n", "line 2: the line is no JSON object"},
		"a list":           {good + "[]\n", "line 2: the line is no JSON object"},
		"an unknown op":    {"{\"op\":\"fly\"}\n", "line 1: there is no such op"},
		"a missing field":  {"{\"op\":\"invoke\",\"user\":\"a\",\"conv\":\"g\"}\n", "line 1: op invoke needs id"},
		"a number in text": {"{\"op\":\"invoke\",\"seq\":\"x\"}\n", "line 1: "},
		"a wrong digest":   {"{\"op\":\"invoke\",\"body\":\"12\"}\n", "line 1: body is \"12\", and should be 16 hex digits"},
		"a cut line":       {good + good[:30], "line 2: the line has no end: the log was cut off"},
	} {
		if _, err := read([]byte(c.log)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestSeveralLogsAreOneRun(t *testing.T) {
	// Alice does not know the id of the conversation when she writes first; her log comes last.
	clients := `{"op":"invoke","at":1,"user":"alice","to":"bob","id":"k1","body":"00000000000000aa"}
{"op":"ok","at":2,"user":"alice","to":"bob","conv":"dX","id":"k1","seq":1}
{"op":"invoke","at":3,"user":"alice","to":"bob","id":"k2","body":"00000000000000bb"}
`
	receiver := `{"op":"follow","user":"bob","conv":"dX"}
{"op":"deliver","at":2,"user":"bob","conv":"dX","seq":1,"from":"alice","id":"k1","body":"00000000000000aa"}
{"op":"deliver","at":4,"user":"bob","conv":"dX","seq":2,"from":"alice","id":"k2","body":"00000000000000bb"}
`
	history := `{"op":"entry","conv":"dX","seq":1,"from":"alice","id":"k1","body":"00000000000000aa"}
{"op":"entry","conv":"dX","seq":2,"from":"alice","id":"k2","body":"00000000000000bb"}
{"op":"history","conv":"dX","seq":2}
`
	check := func(history string) *Report {
		r, err := Check([]Log{{"h", strings.NewReader(history)}, {"r", strings.NewReader(receiver)}, {"c", strings.NewReader(clients)}}, Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := check(history); !r.Findings.Clean() || r.Conversations != 1 || r.UnknownKept != 1 {
		t.Errorf("%+v", r)
	}
	r := check(strings.Replace(history, "aa", "ab", 1))
	if len(r.Witnesses) != 1 || r.Witnesses[0].Where != "h:1" || r.Findings[Altered] != 1 {
		t.Errorf("%+v", r)
	}
}

func TestWhoEndedIsOwedNothing(t *testing.T) {
	s := newStory()
	s.remove(Op{Kind: Deliver, User: "dave", Seq: 9})
	s.add(Op{Kind: End, User: "dave"})
	if r := s.check(t); !r.Findings.Clean() {
		t.Errorf("%v", r.Witnesses)
	}
}

func TestTheBoundIsThreeInN(t *testing.T) {
	for _, c := range []struct {
		r    Report
		want string
	}{
		{Report{Sums: Sums{Acked: 1000}}, "0 in 1000 acked messages: at most 0.30 %, at 95 %"},
		{Report{Sums: Sums{Acked: 10_000_000}}, "0 in 10000000 acked messages: at most 0.000030 %, at 95 %"},
		{Report{Sums: Sums{Acked: 2}}, "0 in 2 acked messages"},
		{Report{}, "not looked for: there were no acked messages"},
		{Report{Sums: Sums{Acked: 1000}, Findings: Findings{Duplicate: 2}}, "2 FOUND"},
	} {
		if got := c.r.Verdict(Duplicate); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func FuzzReader(f *testing.F) {
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, op := range append(newStory().ops, everything) {
		_ = w.Write(&op)
	}
	_ = w.Flush()
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		if ops, err := read(b); err == nil && len(ops) > 0 {
			_, _ = Check([]Log{{"fuzz", bytes.NewReader(b)}}, Options{Dir: t.TempDir()}) // it may find anything, and must not panic
		}
	})
}
