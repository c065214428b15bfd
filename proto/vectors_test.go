// Package proto_test keeps the golden frames of vectors/ true: both codecs of
// every frame say the same, and every bad frame names a code of the catalogue.
package proto_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"gopkg.in/yaml.v3"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

var update = flag.Bool("update", false, "write vectors/ from the frames in this package")

// TestVectorsAreTheFramesOfThisPackage compares the files with the frames they
// were made of; with -update it writes them.
func TestVectorsAreTheFramesOfThisPackage(t *testing.T) {
	want := map[string]string{}
	for _, v := range vectors() {
		b := encode(t, v.frame)
		want[v.name+".json"] = canonical(t, v.frame) + "\n"
		want[v.name+".hex"] = hexFile(b)
	}
	for _, v := range unknowns() {
		want[v.name+".json"] = v.json + "\n"
		want[v.name+".hex"] = hexFile(append(encode(t, v.known), v.extra...))
		want[v.name+".want"] = canonical(t, v.known) + "\n"
	}
	for _, v := range badFrames {
		want[v.name+".txt"] = v.file()
	}
	if *update {
		for name, text := range want {
			if err := os.WriteFile(filepath.Join("vectors", name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range vectorFiles(t, "*") {
		text, ok := want[filepath.Base(name)]
		delete(want, filepath.Base(name))
		if got := read(t, name); !ok {
			t.Errorf("%s is made of no frame of this package", name)
		} else if got != text {
			t.Errorf("%s\n got %q\nwant %q\nrun go test ./proto -update and review the difference", name, got, text)
		}
	}
	for name := range want {
		t.Errorf("vectors/%s is missing", name)
	}
}

// TestBothCodecsOfAVectorAreOneFrame reads the files as a client would.
func TestBothCodecsOfAVectorAreOneFrame(t *testing.T) {
	names := vectorFiles(t, "[0-9]*.json")
	if len(names) < 30 {
		t.Fatalf("found %d vectors, want at least 30", len(names))
	}
	for _, name := range names {
		base := strings.TrimSuffix(name, ".json")
		b := readHex(t, base+".hex")
		fromProto, fromJSON := newFrame(name), newFrame(name)
		if err := proto.Unmarshal(b, fromProto); err != nil {
			t.Errorf("%s.hex: %v", base, err)
			continue
		}
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(read(t, name)), fromJSON); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if again := encode(t, fromProto); !bytes.Equal(again, b) {
			t.Errorf("%s.hex decoded and encoded again\n got %x\nwant %x", base, again, b)
		}
		wantJSON := strings.TrimSpace(read(t, name))
		if _, err := os.Stat(base + ".want"); err == nil {
			wantJSON = strings.TrimSpace(read(t, base+".want"))
		}
		if got := canonical(t, fromProto); got != wantJSON {
			t.Errorf("%s.hex as JSON\n got %s\nwant %s", base, got, wantJSON)
		}
		if got := canonical(t, fromJSON); got != wantJSON {
			t.Errorf("%s read and written again\n got %s\nwant %s", name, got, wantJSON)
		}
	}
}

// TestVectorsHaveTheirFieldsInTheOrderOfTheirNumbers holds what the page says of encoders: one that
// writes fields in the order of their numbers produces these bytes.
func TestVectorsHaveTheirFieldsInTheOrderOfTheirNumbers(t *testing.T) {
	for _, name := range vectorFiles(t, "[0-9]*.hex") {
		b := readHex(t, name)
		if want := byNumber(t, b, newFrame(name).ProtoReflect().Descriptor()); !bytes.Equal(b, want) {
			t.Errorf("%s\n got %x\nwant %x", name, b, want)
		}
	}
}

// TestTheHelloOf123BytesIsNotTakenForJSON guards the framing: without a
// 4-byte length its first byte on TCP would be "{".
func TestTheHelloOf123BytesIsNotTakenForJSON(t *testing.T) {
	lines := strings.Fields(read(t, "vectors/16-client-hello-123-bytes.hex"))
	if n := len(lines[0]) / 2; n != '{' {
		t.Errorf("the hello has %d bytes, want %d", n, '{')
	}
	if !strings.HasPrefix(lines[1], "0000007b") {
		t.Errorf("the TCP frame begins with %.8s, want 0000007b", lines[1])
	}
}

// TestBadFramesNameTheErrorOfTheCatalogue checks code, close code and clause,
// and that what claims to be unreadable is.
func TestBadFramesNameTheErrorOfTheCatalogue(t *testing.T) {
	var catalogue struct {
		Errors []struct {
			Code   string
			Close  int
			Clause string
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "errors.yaml")), &catalogue); err != nil {
		t.Fatal(err)
	}
	type info struct {
		close  int
		clause string
	}
	codes := map[string]info{}
	for _, e := range catalogue.Errors {
		codes[e.Code] = info{e.Close, e.Clause}
	}
	for _, b := range badFrames {
		if got := codes[b.code]; got.close != b.close || b.answer == 0 && got.clause != b.clause {
			t.Errorf("%s: the catalogue says close %d, %s of %s; the vector %d, %s", b.name, got.close, got.clause, b.code, b.close, b.clause)
		}
		if b.on == "tcp" || b.on == "ws-raw" || b.where == "json session" && b.on == "ws-binary" {
			continue // wrong before its content is looked at
		}
		f := &petrelv1.ClientFrame{}
		err := proto.Unmarshal(b.content, f)
		if b.on == "ws-text" {
			err = protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: 16}.Unmarshal(b.content, f)
		}
		unreadable := err != nil || f.Body == nil
		if want := b.answer != 0 && strings.HasPrefix(b.clause, "P-2.") || b.code == "bad_frame" || b.code == "bad_utf8" || b.code == "unknown_codec"; unreadable != want {
			t.Errorf("%s: unreadable = %v, want %v (%v)", b.name, unreadable, want, err)
		}
	}
}

// newFrame is an empty frame of the direction that the file's name tells.
func newFrame(name string) proto.Message {
	if strings.Contains(name, "-client-") {
		return &petrelv1.ClientFrame{}
	}
	return &petrelv1.ServerFrame{}
}

func encode(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return byNumber(t, b, m.ProtoReflect().Descriptor())
}

// byNumber sorts the fields of an encoded message, and of the messages in it, by their
// numbers, as most encoders write them. That of Go writes the members of a oneof last.
func byNumber(t *testing.T, b []byte, d protoreflect.MessageDescriptor) []byte {
	t.Helper()
	type field struct {
		number  protowire.Number
		encoded []byte
	}
	var fields []field
	for len(b) > 0 {
		number, kind, tag := protowire.ConsumeTag(b)
		value := protowire.ConsumeFieldValue(number, kind, b[max(tag, 0):])
		if tag < 0 || value < 0 {
			t.Fatalf("%s: %x is no field", d.FullName(), b)
		}
		encoded := b[:tag+value]
		if f := d.Fields().ByNumber(number); f != nil && f.Message() != nil {
			content, _ := protowire.ConsumeBytes(b[tag:])
			encoded = protowire.AppendBytes(protowire.AppendTag(nil, number, kind), byNumber(t, content, f.Message()))
		}
		fields = append(fields, field{number, encoded})
		b = b[tag+value:]
	}
	slices.SortStableFunc(fields, func(a, b field) int { return cmp.Compare(a.number, b.number) })
	var out []byte
	for _, f := range fields {
		out = append(out, f.encoded...)
	}
	return out
}

// canonical is the proto3 JSON of m without the spaces that protojson varies.
func canonical(t *testing.T, m proto.Message) string {
	t.Helper()
	b, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// hexFile is the content of a .hex file: the frame, and the frame on TCP.
func hexFile(b []byte) string {
	framed := append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
	return hex.EncodeToString(b) + "\n" + hex.EncodeToString(framed) + "\n"
}

// readHex returns the first line of a .hex file and checks the second.
func readHex(t *testing.T, name string) []byte {
	t.Helper()
	lines := strings.Fields(read(t, name))
	if len(lines) != 2 {
		t.Fatalf("%s has %d lines, want 2", name, len(lines))
	}
	b, err := hex.DecodeString(lines[0])
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if got := hexFile(b); got != read(t, name) {
		t.Errorf("%s: the second line is not the TCP frame of the first", name)
	}
	return b
}

func vectorFiles(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("vectors", pattern))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// file is the text of a bad frame's file: one "key: value" on each line.
func (b badFrame) file() string {
	content := "text: " + string(b.content)
	if !utf8.Valid(b.content) || b.on == "ws-binary" || b.on == "ws-raw" || bytes.ContainsAny(b.content, "\r\n\x00") {
		content = "hex: " + hex.EncodeToString(b.content)
	}
	outcome := "\nclose: " + strconv.Itoa(b.close)
	if b.answer != 0 {
		outcome = "\nanswer: " + strconv.Itoa(b.answer)
	}
	return "where: " + b.where + "\non: " + b.on + "\n" + content + "\ncode: " + b.code + outcome + "\nclause: " + b.clause + "\n"
}
