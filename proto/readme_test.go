package proto_test

import (
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/petrel-im/petrel/internal/wire/petrelv1"
)

// TestExamplesOfTheSpecificationAreFrames reads every example without unknown
// keys allowed, so a renamed field shows. An ellipsis stands for what is left
// out.
func TestExamplesOfTheSpecificationAreFrames(t *testing.T) {
	text := strings.NewReplacer(",…", "", `"…"`, `""`).Replace(read(t, "README.md"))
	examples := 0
	for _, block := range regexp.MustCompile("(?s)```\n(.*?)```").FindAllStringSubmatch(text, -1) {
		unwrapped := strings.ReplaceAll(block[1], "\n    ", "")
		for _, line := range strings.Split(unwrapped, "\n") {
			var f proto.Message
			switch {
			case strings.HasPrefix(line, "C> "):
				f = &pb.ClientFrame{}
			case strings.HasPrefix(line, "S> "):
				f = &pb.ServerFrame{}
			default:
				continue
			}
			examples++
			if err := protojson.Unmarshal([]byte(line[3:]), f); err != nil {
				t.Errorf("%v\n%s", err, line)
			}
		}
	}
	if examples < 30 {
		t.Errorf("found %d examples, want at least 30", examples)
	}
}

// TestClausesThatAreCitedExist covers the catalogue, the schema and the
// specification itself.
func TestClausesThatAreCitedExist(t *testing.T) {
	spec := read(t, "README.md")
	exists := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\*\*(P-\d+\.\d+) |^## (P-\d+) `).FindAllStringSubmatch(spec, -1) {
		exists[m[1]+m[2]] = true
	}
	if len(exists) < 60 {
		t.Errorf("found %d clauses and sections, want at least 60", len(exists))
	}
	cited := regexp.MustCompile(`P-\d+(\.\d+)?`)
	for _, name := range []string{"README.md", "errors.yaml", "petrel/v1/frames.proto", "petrel/v1/message.proto", "petrel/v1/admin.proto"} {
		for _, c := range cited.FindAllString(read(t, name), -1) {
			if !exists[c] {
				t.Errorf("%s cites %s, which does not exist", name, c)
			}
		}
	}
}
