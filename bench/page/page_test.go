package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/bench"
	"github.com/petrel-im/petrel/internal/checker"
)

func TestPageHoldsTheReportWhateverItSays(t *testing.T) {
	r := &bench.Report{Scenario: bench.Direct, Audit: bench.Audit{Witnesses: []checker.Witness{{Text: "</script><!--data-->&\u2028"}}}}
	var b bytes.Buffer
	if err := Run(&b, r, errors.Join(errors.New("one\ntwo"), bench.FailedCheck{Check: bench.Check{Name: "idle"}})); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(b.String(), `<script type="application/json" id="data">`)
	written, rest, _ := strings.Cut(rest, "</script>")
	var got data
	if err := json.Unmarshal([]byte(written), &got); err != nil {
		t.Fatal(err)
	}
	if got.Kind != "run" || got.Report.Audit.Witnesses[0] != r.Audit.Witnesses[0] || len(got.Problems) != 3 || got.Problems[1] != "two" {
		t.Errorf("the page holds %+v", got)
	} else if check, ok := got.Problems[2].(map[string]any); !ok || check["name"] != "idle" {
		t.Errorf("the page says of a check that was not met: %v", got.Problems[2])
	}
	if !strings.Contains(rest, "<script>") {
		t.Error("the page ends before its program")
	}
	for _, other := range []string{"http://", "https://", "src=", "@import", "url("} {
		if i := bytes.Index(page, []byte(other)); i >= 0 && !bytes.HasPrefix(page[i:], []byte("http://www.w3.org/")) {
			t.Errorf("the page may ask for something else: %.80s", page[i:])
		}
	}
}
