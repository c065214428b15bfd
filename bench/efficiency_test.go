package bench

import (
	"testing"

	"github.com/petrel-im/petrel/internal/checker"
)

func TestWorkOfSeveralServersIsThatOfAllTheirCPU(t *testing.T) {
	a := &Report{Accepted: 300, Nodes: []Node{{Commits: 30}}}
	a.Server.CPU, a.Total.CPU = 1, 2
	b := &Report{Accepted: 100, Nodes: []Node{{Commits: 70}}}
	b.Server.CPU, b.Total.CPU = 3, 8
	b.Audit.Findings[checker.Lost] = 1
	w := work([]*Report{a, b})
	if w.AcceptedPerCPU != 100 || w.TotalPerCPU != 40 || w.MessagesPerCommit != 4 {
		t.Errorf("got %+v, want 400 messages in 4 s, 10 s and 100 commits", w)
	}
	if e := (&Efficiency{Apart: w}); e.Clean() == nil {
		t.Error("a lost message of a server apart is no finding")
	}
}
