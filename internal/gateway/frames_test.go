package gateway

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
)

// masked is a frame as a client sends it.
func masked(first byte, payload string) []byte {
	mask := [4]byte{0x37, 0xFA, 0x21, 0x3D}
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = append(b, 0x80|126, byte(n>>8), byte(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	b = append(b, mask[:]...)
	for i := range len(payload) {
		b = append(b, payload[i]^mask[i%4])
	}
	return b
}

const (
	fin  = 0x80
	text = fin | opText
	bin  = fin | opBinary
)

// got is what a framer made of some bytes.
type got struct {
	frames []string // opcode and payload
	code   im.Code  // of the fault that ended it
	broken bool
}

// run feeds b in pieces that end where splits say and checks on the way that
// nothing is kept that is complete.
func run(fr wire.Framing, limit int, b []byte, splits ...int) got {
	f := framer{framing: fr, limit: int32(limit)}
	var g got
	var kept [][]byte
	var then []string
	at := 0
	for _, end := range append(slices.Clone(splits), len(b)) {
		piece := bytes.Clone(b[at:end]) // of a buffer that is used again
		at = end
		ft := f.cut(piece, func(fr frame) *fault {
			g.frames = append(g.frames, string('0'+rune(fr.op))+string(fr.payload))
			if fr.op < opClose {
				kept = append(kept, fr.payload)
				then = append(then, string(fr.payload))
			}
			return nil
		})
		for i := range piece {
			piece[i] = 0xEE
		}
		if ft != nil {
			g.code, g.broken = ft.err.Code, ft.broken
			break
		}
	}
	for i := range kept {
		if string(kept[i]) != then[i] {
			panic("a payload changed after it was passed on")
		}
	}
	return g
}

func (g got) String() string {
	return fmt.Sprintf("%.200q then %q (broken: %t)", g.frames, g.code, g.broken)
}

func (g got) equal(h got) bool {
	return slices.Equal(g.frames, h.frames) && g.code == h.code && g.broken == h.broken
}

func TestWebSocketFramesAreCut(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	for _, c := range []struct {
		name   string
		in     [][]byte
		frames []string
		code   im.Code
		broken bool
	}{
		{name: "texts", in: [][]byte{masked(text, `{"a":1}`), masked(text, `{}`)}, frames: []string{`1{"a":1}`, `1{}`}},
		{name: "binary", in: [][]byte{masked(bin, "\x08\x07"), masked(bin, "")}, frames: []string{"2\x08\x07", "2"}},
		{name: "16-bit length", in: [][]byte{masked(bin, long[:300])}, frames: []string{"2" + long[:300]}},
		{name: "64-bit length", in: [][]byte{masked(bin, long)}, frames: []string{"2" + long}},
		{name: "fragments with a ping between", in: [][]byte{masked(opText, `{"a`), masked(fin|opPing, "p"), masked(opContinuation, `":`), masked(fin, `1}`), masked(text, `{}`)},
			frames: []string{"9p", `1{"a":1}`, "1{}"}},
		{name: "empty fragments", in: [][]byte{masked(opBinary, ""), masked(opContinuation, ""), masked(fin, "")}, frames: []string{"2"}},
		{name: "control frames", in: [][]byte{masked(fin|opPing, strings.Repeat("p", 125)), masked(fin|opPong, ""), masked(fin|opClose, "\x03\xe8")},
			frames: []string{"9" + strings.Repeat("p", 125), ":", "8\x03\xe8"}},
		{name: "incomplete", in: [][]byte{masked(text, `{}`), masked(text, `{"a":1}`)[:9]}, frames: []string{"1{}"}},
		{name: "unmasked", in: [][]byte{masked(text, `{}`), {text, 2, '{', '}'}}, frames: []string{"1{}"}, code: im.CodeUnmasked},
		{name: "a close that is unmasked", in: [][]byte{masked(text, `{}`), {fin | opClose, 2, 3, 0xe9}}, frames: []string{"1{}", "8\x03\xe9"}},
		{name: "reserved bit", in: [][]byte{masked(text|0x40, `{}`)}, code: im.CodeBadFrame, broken: true},
		{name: "unknown opcode", in: [][]byte{masked(fin|3, `{}`)}, code: im.CodeBadFrame, broken: true},
		{name: "unknown control opcode", in: [][]byte{masked(fin|0xB, ``)}, code: im.CodeBadFrame, broken: true},
		{name: "fragmented ping", in: [][]byte{masked(opPing, `p`)}, code: im.CodeBadFrame, broken: true},
		{name: "long ping", in: [][]byte{masked(fin|opPing, long[:126])}, code: im.CodeBadFrame, broken: true},
		{name: "ping with a padded length", in: [][]byte{{fin | opPing, 0xFE, 0, 1, 1, 2, 3, 4, 'p'}}, code: im.CodeBadFrame, broken: true},
		{name: "continuation of nothing", in: [][]byte{masked(fin, `{}`)}, code: im.CodeBadFrame, broken: true},
		{name: "message within a message", in: [][]byte{masked(opText, `{`), masked(text, `{}`)}, code: im.CodeBadFrame, broken: true},
		{name: "16 fragments", in: fragments(16), frames: []string{"2" + strings.Repeat("f", 16)}},
		{name: "17 fragments", in: fragments(17), code: im.CodeBadFrame, broken: true},
		{name: "padded 16-bit length", in: [][]byte{{bin, 0xFE, 0, 5, 1, 2, 3, 4}}, code: im.CodeBadFrame, broken: true},
		{name: "padded 64-bit length", in: [][]byte{{bin, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 1, 2, 3, 4}}, code: im.CodeBadFrame, broken: true},
		{name: "length of 2^63", in: [][]byte{{bin, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4}}, code: im.CodeFrameTooLarge},
		{name: "length of 2^64-1", in: [][]byte{{bin, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1, 2, 3, 4}}, code: im.CodeFrameTooLarge},
		{name: "above the limit", in: [][]byte{masked(bin, long+long)[:14]}, code: im.CodeFrameTooLarge},
		{name: "fragments above the limit", in: [][]byte{masked(opBinary, long), masked(opContinuation, long)[:14]}, code: im.CodeFrameTooLarge},
		{name: "the other codec", in: [][]byte{masked(text, `{}`), masked(bin, "")}, frames: []string{"1{}"}, code: im.CodeBadFrame},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := slices.Concat(c.in...)
			want := got{c.frames, c.code, c.broken}
			if g := run(wire.WebSocket, 100_000, in); !g.equal(want) {
				t.Fatalf("in one read: got %v, want %v", g, want)
			}
			var each []int
			for i := range min(len(in), 4000) {
				each = append(each, i)
			}
			if g := run(wire.WebSocket, 100_000, in, each...); !g.equal(want) {
				t.Fatalf("byte by byte: got %v, want %v", g, want)
			}
		})
	}
}

func fragments(n int) [][]byte {
	in := [][]byte{masked(opBinary, "f")}
	for range n - 2 {
		in = append(in, masked(opContinuation, "f"))
	}
	return append(in, masked(fin, "f"))
}

// lengthFrame is a protobuf frame on TCP.
func lengthFrame(payload string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

func TestF30CodecByFirstByte(t *testing.T) {
	brace := strings.Repeat("p", 0x7B) // a length of '{'
	long := strings.Repeat("x", 5000)
	for _, c := range []struct {
		name   string
		in     string
		frames []string
		code   im.Code
	}{
		{name: "lines", in: "{\"a\":1}\n{}\n", frames: []string{`1{"a":1}`, "1{}"}},
		{name: "carriage return stays white space", in: "{}\r\n", frames: []string{"1{}\r"}},
		{name: "lengths", in: string(lengthFrame("\x08\x07")) + string(lengthFrame("")), frames: []string{"2\x08\x07", "2"}},
		{name: "a length whose last byte is a brace", in: string(lengthFrame(brace)), frames: []string{"2" + brace}},
		{name: "a varint length that looks like JSON", in: "\x7B" + brace, code: ""}, // a line without an end
		{name: "http", in: "GET / HTTP/1.1\r\n", code: im.CodeUnknownCodec},
		{name: "tls", in: "\x16\x03\x01", code: im.CodeUnknownCodec},
		{name: "white space", in: " {}\n", code: im.CodeUnknownCodec},
		{name: "long line", in: "{}\n{" + long, frames: []string{"1{}"}, code: im.CodeFrameTooLarge},
		{name: "long whole line", in: "{" + long + "\n{}\n", code: im.CodeFrameTooLarge},
		{name: "line of the limit", in: "{" + long[:4095] + "\n", frames: []string{"1{" + long[:4095]}},
		{name: "length above the limit", in: "\x00\x00\x10\x01", code: im.CodeFrameTooLarge},
		{name: "length of the limit", in: string(lengthFrame(long[:4096])), frames: []string{"2" + long[:4096]}},
		{name: "a length beyond 2^24 later on", in: string(lengthFrame("")) + "{\"a\"", frames: []string{"2"}, code: im.CodeFrameTooLarge},
		{name: "incomplete length", in: "\x00\x00", code: ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := got{frames: c.frames, code: c.code}
			if g := run(wire.TCP, 4096, []byte(c.in)); !g.equal(want) {
				t.Fatalf("in one read: got %v, want %v", g, want)
			}
			var each []int
			for i := range len(c.in) {
				each = append(each, i)
			}
			if g := run(wire.TCP, 4096, []byte(c.in), each...); !g.equal(want) {
				t.Fatalf("byte by byte: got %v, want %v", g, want)
			}
		})
	}
}

func TestNothingIsKeptWhileNothingIsIncomplete(t *testing.T) {
	none := func(frame) *fault { return nil }
	f := framer{framing: wire.WebSocket, limit: 100_000}
	for _, b := range [][]byte{masked(text, "{}"), masked(opText, "{"), masked(fin, "}")} {
		if f.part != nil && f.part.frags == 0 {
			t.Fatalf("between messages the framer keeps %+v", f.part)
		}
		if ft := f.cut(b, none); ft != nil {
			t.Fatal(ft.err)
		}
	}
	if f.part != nil {
		t.Errorf("behind a fragmented message the framer keeps %+v", f.part)
	}
	big := append(masked(text, strings.Repeat(" ", 50_000)), masked(text, "{}")[:3]...)
	for _, piece := range [][]byte{big[:10], big[10:]} {
		if ft := f.cut(piece, none); ft != nil {
			t.Fatal(ft.err)
		}
	}
	if len(f.part.rest) != 3 || cap(f.part.rest) > 2048 {
		t.Errorf("a rest of 3 bytes is kept as %d of %d", len(f.part.rest), cap(f.part.rest))
	}
}

// splitsDoNotMatter checks that frames and fault are the same however the
// bytes come.
func splitsDoNotMatter(t *testing.T, fr wire.Framing, b []byte, seed uint64) {
	const limit = 2000
	whole := run(fr, limit, b)
	for _, f := range whole.frames {
		if len(f) > limit+1 {
			t.Fatalf("a frame of %d bytes passed a limit of %d", len(f)-1, limit)
		}
	}
	rnd := rand.New(rand.NewPCG(seed, seed))
	for range 3 {
		var splits []int
		for at := rnd.IntN(20); at < len(b); at += 1 + rnd.IntN(1+rnd.IntN(300)) {
			splits = append(splits, at)
		}
		if g := run(fr, limit, b, splits...); !g.equal(whole) {
			t.Fatalf("split at %v: got %v, in one read %v", splits, g, whole)
		}
	}
}
