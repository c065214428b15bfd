package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// invoke calls a method ("ConversationService/LeaveGroup") as the session's user:
// over HTTP with the codec of the run, or over its connection.
func invoke[Q, A any](s *session, method string, q *Q) (*A, error) {
	s.w.t.Helper()
	method = "petrel.v1." + method
	if s.onConn {
		a := new(A)
		return a, s.callProto(method, any(q).(proto.Message), any(a).(proto.Message))
	}
	opts := []connect.ClientOption{connect.WithInterceptors(s.bearer())}
	if s.w.way.codec == wire.JSON {
		opts = append(opts, connect.WithProtoJSON())
	}
	c := connect.NewClient[Q, A](s.w.http, s.w.node().MethodURL(method)+"/"+method, opts...)
	r, err := c.CallUnary(s.w.deadline(), connect.NewRequest(q))
	if err != nil {
		return nil, err
	}
	return r.Msg, nil
}

// bearer puts the session's token on a call; one that has none goes without.
func (s *session) bearer() connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			if t := s.token(); t != "" {
				r.Header().Set("Authorization", "Bearer "+t)
			}
			return next(ctx, r)
		}
	}
}

// callProto calls over the connection, in the codec of the run.
func (s *session) callProto(method string, q, a proto.Message) error {
	s.w.t.Helper()
	call := &petrelv1.Call{Method: method}
	if s.w.way.codec == wire.JSON {
		b, err := protojson.Marshal(q)
		if err != nil {
			s.w.fatalf("%s: %v", method, err)
		}
		call.Request = &petrelv1.Call_Json{Json: string(b)}
	} else {
		b, err := proto.Marshal(q)
		if err != nil {
			s.w.fatalf("%s: %v", method, err)
		}
		call.Request = &petrelv1.Call_Proto{Proto: b}
	}
	r, err := s.call(call)
	if err != nil {
		return err
	}
	switch b := r.Response.(type) {
	case *petrelv1.Answer_Json:
		err = protojson.Unmarshal([]byte(b.Json), a)
	case *petrelv1.Answer_Proto:
		err = proto.Unmarshal(b.Proto, a)
	default:
		err = fmt.Errorf("the answer has no response")
	}
	if err != nil {
		s.w.fatalf("%s: answer %v: %v", method, r, err)
	}
	return nil
}

// call asks over the connection and takes the answer out of what arrives; the
// rest is rendered later, when the answer has named what it speaks of.
func (s *session) call(c *petrelv1.Call) (*petrelv1.Answer, error) {
	s.w.t.Helper()
	if s.conn == nil {
		s.w.fatalf("%s is not connected", s.name)
	}
	id := s.id()
	_, _ = s.conn.Write(&petrelv1.ClientFrame{Id: id, Body: &petrelv1.ClientFrame_Call{Call: c}}) // an end shows below
	var answer *petrelv1.ServerFrame
	s.await("the answer to a call", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		i := slices.IndexFunc(s.frames, func(f *petrelv1.ServerFrame) bool { return f.Id == id })
		if i >= 0 {
			answer = s.frames[i]
			s.frames = slices.Delete(s.frames, i, i+1)
		}
		return i >= 0 || s.ended != nil
	})
	switch b := answer.GetBody().(type) {
	case *petrelv1.ServerFrame_Answer:
		return b.Answer, nil
	case *petrelv1.ServerFrame_Error:
		return nil, wiretest.Error(b.Error)
	}
	return nil, fmt.Errorf("connection ended or %T came", answer.GetBody())
}

// reply puts what an API call was answered.
func (s *session) reply(err error, format string, a ...any) {
	if err != nil {
		s.put("refused %s", codeOf(err))
		return
	}
	s.put("%s", strings.TrimSpace("ok "+fmt.Sprintf(format, a...)))
}

// callJSON calls a method with a JSON text, over the connection or by plain
// HTTP as curl does. In the text and in the answer <g1> stands for the id of a
// conversation and <v1> for the version of a profile; times are not shown.
func (s *session) callJSON(a args, overHTTP bool) {
	s.w.t.Helper()
	method, q := a.word(1), "{}"
	if !strings.Contains(method, ".") {
		method = "petrel.v1." + method
	}
	if len(a.bodies) > 0 {
		q = idMark.ReplaceAllStringFunc(a.bodies[0], func(m string) string {
			name := m[1 : len(m)-1]
			if version, ok := s.w.versionNamed(name); ok {
				return version
			}
			conv, _ := s.w.resolve(s.user, name)
			return conv
		})
	}
	if overHTTP {
		s.postJSON(method, q)
		return
	}
	r, err := s.call(&petrelv1.Call{Method: method, Request: &petrelv1.Call_Json{Json: q}})
	s.reply(err, "%s", s.jsonText(r.GetJson()))
}

// idMark is "<g1>" or "<d:bob>".
var idMark = regexp.MustCompile(`<[A-Za-z0-9:,@.+-]+>`)

func (s *session) postJSON(method, q string) {
	s.w.t.Helper()
	r, err := http.NewRequestWithContext(s.w.deadline(), http.MethodPost, s.w.node().MethodURL(method)+"/"+method, strings.NewReader(q))
	if err != nil {
		s.w.fatalf("%s: %v", method, err)
	}
	r.Header.Set("Content-Type", "application/json")
	if s.user == nil {
		r.Header.Set("Authorization", "Bearer "+s.w.nodes[0].Key())
	} else if t := s.token(); t != "" {
		r.Header.Set("Authorization", "Bearer "+t)
	}
	a, err := s.w.http.Do(r)
	if err != nil {
		s.w.fatalf("%s: %v", method, err)
	}
	b, err := io.ReadAll(a.Body)
	_ = a.Body.Close() // read to its end
	if err != nil {
		s.w.fatalf("%s: %v", method, err)
	}
	if a.StatusCode != http.StatusOK {
		s.put("refused %s", a.Header.Get("Petrel-Error"))
		return
	}
	s.reply(nil, "%s", s.jsonText(string(b)))
}

var (
	convMark    = regexp.MustCompile(`"[dgi][A-Za-z0-9_-]{20}"`)
	timeMark    = regexp.MustCompile(`("[A-Za-z]*Ms":)("\d+"|\d+)`)
	versionMark = regexp.MustCompile(`"(version|peerProfile|profiles)":("[^"]*"|\[[^\]]*\])`)
)

// jsonText is an answer with names for ids, without times and spaces.
func (s *session) jsonText(answer string) string {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(answer)); err != nil {
		return answer
	}
	text := convMark.ReplaceAllStringFunc(b.String(), func(m string) string {
		return `"<` + s.w.nameOf(s.user, m[1:len(m)-1]) + `>"`
	})
	text = versionMark.ReplaceAllStringFunc(text, func(m string) string {
		key, values, _ := strings.Cut(m, ":")
		return key + ":" + quotedText.ReplaceAllStringFunc(values, func(v string) string {
			if v == `""` { // of a user who does not exist
				return v
			}
			return `"<` + s.w.nameOfVersion(v[1:len(v)-1]) + `>"`
		})
	})
	return timeMark.ReplaceAllString(text, `$1"-"`)
}

// quotedText is a text of JSON that has no quotes in it.
var quotedText = regexp.MustCompile(`"[^"]*"`)

// nameOfVersion is what a file calls the version of a profile, which is another one in each
// run: v1, v2, … in the order in which clients are told of them.
func (w *world) nameOfVersion(version string) string {
	i := slices.Index(w.versions, version)
	if i < 0 {
		i = len(w.versions)
		w.versions = append(w.versions, version)
	}
	return "v" + itoa(i+1)
}

// versionNamed is the version of a profile that a file calls v1.
func (w *world) versionNamed(name string) (string, bool) {
	digits, ok := strings.CutPrefix(name, "v")
	i, err := strconv.Atoi(digits)
	if !ok || err != nil || i < 1 || i > len(w.versions) {
		return "", false
	}
	return w.versions[i-1], true
}
