package app

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// poison is a send that a careless or a hostile client writes.
type poison struct {
	frame []byte
	k     string // its client message id
	body  string // what is stored if it is acked
	want  string // "ok", or the code of the error
}

// A client that has written something that the server does not take would send it
// again on every new connection. So every send ends with an ack or with a settled
// error, and the connection stays. Spec: P-2.3, P-2.5, P-4.2.
func TestNoSendIsPoison(t *testing.T) {
	seed, perEncoding := rand.Uint64(), 250
	if v := os.Getenv("PETREL_POISON_SEED"); v != "" {
		seed, _ = strconv.ParseUint(v, 10, 64)
	}
	if n, err := strconv.Atoi(os.Getenv("PETREL_POISON_SENDS")); err == nil {
		perEncoding = n / wire.Encodings
	}
	t.Logf("seed %d", seed)
	s := start(t, t.TempDir())
	s.token("bob")
	for i := range wire.Encodings {
		enc, from := wire.EncodingAt(i), im.User(fmt.Sprint("alice", i))
		token := s.token(from)
		t.Run(fmt.Sprint(enc.Codec, " on ", []string{"WebSocket", "TCP"}[enc.Framing]), func(t *testing.T) {
			t.Parallel()
			url := "ws://" + s.HTTPAddr().String()
			if enc.Framing == wire.TCP {
				url = "tcp://" + s.TCPAddr().String()
			}
			c, err := wiretest.Dial(t.Context(), wiretest.Options{URL: url, Codec: enc.Codec, Token: token})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			brew := &brewer{dice: rand.New(rand.NewPCG(seed, uint64(i))), name: fmt.Sprint("p", i, "-"), max: int(c.Welcome.Limits.BodyBytes), escaped: map[string]string{}}
			stored := map[string]string{}
			for n := range perEncoding {
				p := brew.json(n)
				if enc.Codec == wire.Proto {
					p = brew.proto(n)
				}
				if p.swallow(t, c, uint64(n+1000)) {
					stored[p.k] = p.body
				}
			}
			checkStored(t, c, s.convs.IDs().Direct(im.DefaultTenant, from, "bob").String(), stored)
		})
	}
}

// swallow writes p and reports whether it was acked.
func (p *poison) swallow(t *testing.T, c *wiretest.Conn, id uint64) bool {
	t.Helper()
	ctx := eventually.Context(t)
	if err := c.WriteRaw(p.frame); err != nil {
		t.Fatalf("%.300q: %v", p.frame, err)
	}
	for {
		f, err := c.Recv(ctx)
		switch {
		case err != nil:
			t.Fatalf("%.300q of %d bytes: %v", p.frame, len(p.frame), err)
		case f.Id == 0: // an event of the inbox
			continue
		case f.Id != id:
			t.Fatalf("%.300q: the answer is to %d, want %d", p.frame, f.Id, id)
		}
		got := "ok"
		if e := f.GetError(); e != nil {
			if got = e.Code; !e.Settled {
				t.Errorf("%.300q: %v is not settled", p.frame, e)
			}
		}
		if got != p.want {
			t.Errorf("%.300q of %d bytes: %s (%v), want %s", p.frame, len(p.frame), got, f.GetError(), p.want)
		}
		return got == "ok"
	}
}

// checkStored reads the conversation, and finds what was acked and nothing else.
func checkStored(t *testing.T, c *wiretest.Conn, conv string, want map[string]string) {
	t.Helper()
	for after, more := uint64(0), true; more; {
		p, err := c.History(t.Context(), &petrelv1.GetHistory{Conv: conv, After: after})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range p.Messages {
			after = m.Seq
			body := m.GetText() + string(m.GetData())
			if w, ok := want[m.ClientMsgId]; !ok || w != body {
				t.Errorf("%q is stored with %d bytes, acked %t with %d", m.ClientMsgId, len(body), ok, len(w))
			}
			delete(want, m.ClientMsgId)
		}
		more = p.More
	}
	if len(want) > 0 {
		t.Errorf("%d acked messages are not stored", len(want))
	}
}

// brewer makes poison.
type brewer struct {
	dice *rand.Rand
	name string
	max  int // bytes of a body

	escaped map[string]string // parts of texts
}

func pick[T any](b *brewer, of ...T) T { return of[b.dice.IntN(len(of))] }

// size is near a limit.
func (b *brewer) size(limit int) int {
	return pick(b, 0, 1, limit-1, limit, limit+1, limit+b.dice.IntN(limit/8+1), b.dice.IntN(limit))
}

// text is a valid text of n bytes.
func (b *brewer) text(n int) string {
	part := pick(b, "x", `"`, `\`, "\x00", "\x1f\x01\x7f", "<&>\u2028", "é", "海", "🐦", "/\b\t\n")
	s := strings.Repeat(part, n/len(part)+1)[:n]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + strings.Repeat("y", n-len(s))
}

// outcome is what becomes of a send whose fields have these sizes.
func (b *brewer) outcome(k, typ, body int) string {
	switch {
	case k == 0 || k > 64 || typ > 64:
		return "invalid"
	case body > b.max:
		return "too_large"
	}
	return "ok"
}

// key is a client message id of a size near the limit; an empty one has no name.
func (b *brewer) key(n int) string {
	k := b.name + strconv.Itoa(n) + "-"
	switch size := pick(b, 20, 20, 20, 20, 63, 64, 65, 0); {
	case size == 0:
		return ""
	case size > len(k):
		return k + strings.Repeat("k", size-len(k))
	}
	return k
}

// spell writes a text in JSON: as usual, or with every character escaped.
func (b *brewer) spell(s string) string {
	if b.dice.IntN(2) == 0 {
		out, _ := json.Marshal(s) // texts of these tests are valid
		return string(out)
	}
	var out strings.Builder
	out.WriteByte('"')
	for len(s) > 0 { // repeated parts have lengths that divide 60
		part := s[:min(60, len(s))]
		if !utf8.ValidString(part) {
			part = s
		}
		if b.escaped[part] == "" {
			b.escaped[part] = escape(part)
		}
		out.WriteString(b.escaped[part])
		s = s[len(part):]
	}
	out.WriteByte('"')
	return out.String()
}

func escape(s string) string {
	var out strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		fmt.Fprintf(&out, `\u%04x`, u)
	}
	return out.String()
}

// json is the n-th send in JSON.
func (b *brewer) json(n int) poison {
	p := poison{k: b.key(n)}
	typ := strings.Repeat("t", pick(b, 0, 1, 63, 64, 65))
	fields := []string{`"user":"bob"`, `"clientMsgId":` + b.spell(p.k), `"after":"0"`}
	if typ != "" {
		fields = append(fields, `"type":`+b.spell(typ))
	}
	body := pick(b, b.jsonText, b.jsonText, b.jsonData, b.jsonNonsense)(&p)
	if p.want == "" {
		p.want = b.outcome(len(p.k), len(typ), len(p.body))
	}
	fields = append(fields, body)
	switch b.dice.IntN(8) {
	case 0:
		fields = append(fields, `"later":`+strings.Repeat("[", 5)+`{"a":null}`+strings.Repeat("]", 5))
	case 1: // deeper than 16 levels
		deep := pick(b, 17, 100, 2000)
		fields, p.want = append(fields, `"later":`+strings.Repeat("[", deep)+strings.Repeat("]", deep)), "invalid"
	case 2:
		fields, p.want = append(fields, `"clientMsgId":"again"`), "invalid"
	case 3:
		fields, p.want = append(fields, `"edit":{},"pin":{}`), "invalid" // further bodies
	case 4:
		b.dice.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	}
	id := pick(b, `"%d"`, `%d`)
	send := `"send":{` + strings.Join(fields, ",") + `}`
	frame := pick(b, `{"id":`+id+`,`+send+`}`, ` { `+send+`, "id" : `+id+` } `, `{"id":`+id+`,`+send+`,"extra":{"id":"5"}}`)
	p.frame = []byte(strings.Replace(frame, "%d", strconv.Itoa(n+1000), 1))
	return p
}

func (b *brewer) jsonText(p *poison) string {
	p.body = b.text(b.size(b.max))
	return `"text":` + b.spell(p.body)
}

func (b *brewer) jsonData(p *poison) string {
	data := make([]byte, b.size(b.max))
	for i := 0; i < len(data); i += 8 {
		copy(data[i:], binary.LittleEndian.AppendUint64(nil, b.dice.Uint64()))
	}
	p.body = string(data)
	out := base64.StdEncoding.EncodeToString(data)
	switch b.dice.IntN(5) {
	case 0: // without its padding, which is taken
		out = strings.TrimRight(out, "=")
	case 1:
		p.want = "invalid"
		return `"data":"` + out + `=%"`
	}
	return `"data":"` + out + `"`
}

func (b *brewer) jsonNonsense(p *poison) string {
	p.want = "invalid"
	return pick(b,
		`"text":"\ud800"`, `"text":"a\udc00b"`, `"text":"\udc00\ud800"`, `"text":"\ud83d\u0041"`, `"text":"\ud83d"`, `"text":7`, `"text":{}`, `"text":[]`, `"text":true`,
		`"data":"a"`, `"data":"ab=c"`, `"data":"===="`, `"data":7`, `"edit":{"target":"x"}`, `"edit":[]`, `"recall":{"target":"-1"}`, `"pin":7`, `"text":"\x41"`, "\"text\":\"\x00\"",
		`"after":"1"`, `"text":null`, `"later":1`)
}

// proto is the n-th send in protobuf.
func (b *brewer) proto(n int) poison {
	p := poison{k: b.key(n)}
	typ := strings.Repeat("t", pick(b, 0, 1, 63, 64, 65))
	str := func(dst []byte, num protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(dst, num, protowire.BytesType), s)
	}
	send := str(str(nil, 2, "bob"), 3, p.k)
	send = protowire.AppendVarint(protowire.AppendTag(send, 4, protowire.VarintType), 0)
	if typ != "" {
		send = str(send, 5, typ)
	}
	switch b.dice.IntN(12) {
	case 0, 1, 2, 3, 4:
		p.body = b.text(b.size(b.max))
		send = str(send, 6, p.body)
	case 5, 6, 7:
		p.body = strings.Repeat("\xff\x00", b.max)[:b.size(b.max)]
		send = str(send, 7, p.body)
	case 8:
		send, p.want = str(send, 6, "a"+pick(b, "\xff", "\xed\xa0\x80", "\xc3")), "invalid"
	case 9: // a number where a text belongs
		send, p.want = protowire.AppendVarint(protowire.AppendTag(send, 6, protowire.VarintType), 7), "invalid"
	case 10: // cut inside of the send
		send, p.want = append(protowire.AppendTag(send, 6, protowire.BytesType), 50, 'x'), "invalid"
	case 11:
		p.want = "invalid" // no body
	}
	switch b.dice.IntN(5) {
	case 0:
		send = str(send, 1000, "later")
	case 1:
		send = append(protowire.AppendTag(send, 1001, protowire.StartGroupType), protowire.AppendTag(nil, 1001, protowire.EndGroupType)...)
	}
	if p.want == "" {
		p.want = b.outcome(len(p.k), len(typ), len(p.body))
	}
	if b.dice.IntN(20) == 0 { // the last value of a field counts
		send = append(str(nil, 3, "first"), send...)
	}
	p.frame = protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(n+1000))
	p.frame = protowire.AppendBytes(protowire.AppendTag(p.frame, 3, protowire.BytesType), send)
	return p
}
