package route

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
)

// A question that nobody would answer between nodes is not asked on one node either. That
// every question that somebody asks is in the table is a rule of internal/lint.
func TestQuestionsAreInTheTable(t *testing.T) {
	r := &Router{}
	list := r.answers()
	if n := len(byName(list)); n != len(list) {
		t.Errorf("%d names for %d questions", n, len(list))
	}
	wantPanic(t, "two questions are called GetHistory", func() { byName(append(list, list[0])) })
	wantPanic(t, "question GetHistory is not in Router.answers", func() {
		_, _ = Ask(context.Background(), r, conv.Query{}, (*conv.Owner).History, &convpb.GetHistory{})
	})
}

func wantPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		if p := fmt.Sprint(recover()); !strings.Contains(p, want) {
			t.Errorf("panic %q, want %q", p, want)
		}
	}()
	f()
}
