package proto_test

import (
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/petrel-im/petrel/sdk/go/petrelv1"
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
