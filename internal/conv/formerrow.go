package conv

import (
	"slices"
	"sync"

	"github.com/petrel-im/petrel/internal/im"
)

// former is a row as it was before a commit rewrote it. The store shows the new row as soon as the
// commit is written; until the commit is published, readers get the former row.
type former struct {
	seq   im.Seq
	pos   im.Pos // of the commit that rewrites the row
	wire  []byte
	flags byte // of the row's head
}

// formers are the former rows of commits that are not published yet. They are kept before the commit is appended,
// and dropped after it is published or refused.
type formers struct {
	mu     sync.Mutex // tier 0; guards byConv
	byConv map[im.Key][]former
}

func (f *formers) keep(key im.Key, row former) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byConv == nil {
		f.byConv = map[im.Key][]former{}
	}
	f.byConv[key] = append(f.byConv[key], row)
}

// drop forgets the rows of a conversation that the commit at pos replaced.
func (f *formers) drop(key im.Key, pos im.Pos) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rest := slices.DeleteFunc(f.byConv[key], func(row former) bool { return row.pos == pos })
	if len(rest) > 0 {
		f.byConv[key] = rest
	} else {
		delete(f.byConv, key)
	}
}

// at returns the row q as it was when the commit at pos was the newest published one. nil: no later
// commit has rewritten the row, or that commit is published by now.
func (f *formers) at(key im.Key, q im.Seq, pos im.Pos) *former {
	f.mu.Lock()
	defer f.mu.Unlock()
	var oldest *former
	for i := range f.byConv[key] {
		if row := &f.byConv[key][i]; row.seq == q && row.pos > pos && (oldest == nil || row.pos < oldest.pos) {
			oldest = row
		}
	}
	if oldest == nil {
		return nil
	}
	row := *oldest // the slice changes
	return &row
}
