package conv

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// ChangeIndex tells which conversations of a feed may have changed since a position, without reading them.
// For a user with 10,000 conversations, of which 3 have news, it names these 3 and hardly any other. It takes
// some 30 ns for each one that it rules out.
//
// It is a table of fixed size. A conversation has one line in it, by a hash. For those of its conversations
// that changed last, the line holds a fingerprint and the newest position. A conversation that does not fit
// raises the floor of the line: of conversations that are not in the line, the index knows only that they did
// not change after the floor. So it may name a conversation that has not changed, and never leaves out one
// that has. The caller reads those that it names.
//
// A publisher touches the index before it publishes. Readers take no lock.
type ChangeIndex struct {
	pages []atomic.Pointer[changePage] // nil: nothing there was touched

	// Changes at or below this position (im.Pos) may be missing from the index. A takeover sets it to the
	// newest position, and SetKnownAfter lowers it when the stored index is loaded.
	unknown atomic.Uint64

	// The newest position in each page, and in each block of lines. They rule out most conversations without
	// a look at the line: they take 32 KB and 256 KB, which stay in the cache of the processor. The lines
	// take 16 MB, and the load of one takes 0.3 us.
	newest, newestOfBlock []atomic.Uint64

	mu sync.Mutex // tier 0; held by writers: a publisher for a commit, Load for a page
}

const (
	// changeLines is how many lines the indexes of all feeds have: 16 MB, which hold
	// the 1.8 million conversations that changed last.
	changeLines = 1 << 18

	linesPerPage  = 64
	linesPerBlock = 8
	blocksPerPage = linesPerPage / linesPerBlock
	slotsPerLine  = 7
)

// changeLine is a cache line. A slot is a fingerprint in its highest 16 bits and the
// position below them; 0: it is empty.
type changeLine struct {
	slots [slotsPerLine]atomic.Uint64
	floor atomic.Uint64
}

type changePage [linesPerPage]changeLine

const slotPos = 1<<48 - 1

// NewChangeIndex makes the index of one feed; feeds is the number of all feeds of the store. Changes up to
// the position unknown may be missing from it.
func NewChangeIndex(feeds int, unknown im.Pos) *ChangeIndex {
	pages := max(1, changeLines/linesPerPage/max(1, feeds))
	x := &ChangeIndex{pages: make([]atomic.Pointer[changePage], pages), newest: make([]atomic.Uint64, pages),
		newestOfBlock: make([]atomic.Uint64, pages*blocksPerPage)}
	x.unknown.Store(uint64(unknown))
	return x
}

// place returns the page, line and fingerprint of a conversation.
func (x *ChangeIndex) place(key im.Key) (page, line int, print uint64) {
	// Ids are hashes or random. The first bytes are the kind and the partition, which
	// are the same for all conversations of some feeds.
	h := binary.LittleEndian.Uint64(key.Conv[8:]) ^ uint64(key.Tenant)*0x9e3779b97f4a7c15
	print = h >> 48
	if print == 0 {
		print = 1
	}
	n := uint32(h) // 32 bits are divided faster than 64
	return int(n / linesPerPage % uint32(len(x.pages))), int(n % linesPerPage), print
}

// touch notes that a conversation changed at pos. The caller holds mu.
func (x *ChangeIndex) touch(key im.Key, pos im.Pos) {
	page, line, print := x.place(key)
	x.pageOf(page)[line].touch(print, uint64(pos))
	x.noteNewest(page, line, uint64(pos))
}

// noteNewest raises the newest positions of a page and a block to pos. The caller holds mu.
func (x *ChangeIndex) noteNewest(page, line int, pos uint64) {
	for _, n := range [...]*atomic.Uint64{&x.newest[page], &x.newestOfBlock[page*blocksPerPage+line/linesPerBlock]} {
		if n.Load() < pos {
			n.Store(pos)
		}
	}
}

// pageOf returns a page, and makes it if it is not there. The caller holds mu.
func (x *ChangeIndex) pageOf(i int) *changePage {
	p := x.pages[i].Load()
	if p == nil {
		p = &changePage{}
		x.pages[i].Store(p)
	}
	return p
}

func (l *changeLine) touch(print, pos uint64) {
	im.Assert(pos <= slotPos, "position %d is above 2^48", pos)
	oldest, at := uint64(math.MaxUint64), 0
	for i := range l.slots {
		v := l.slots[i].Load()
		if v>>48 == print {
			if v&slotPos < pos {
				l.slots[i].Store(print<<48 | pos)
			}
			return
		}
		if v&slotPos < oldest {
			oldest, at = v&slotPos, i
		}
	}
	// The floor first: a reader that misses the dropped conversation must see the raised floor.
	l.raise(min(pos, oldest))
	if pos > oldest {
		l.slots[at].Store(print<<48 | pos)
	}
}

// raise raises the floor of a line. The caller holds mu.
func (l *changeLine) raise(floor uint64) {
	if l.floor.Load() < floor {
		l.floor.Store(floor)
	}
}

// MayHaveChanged tells whether a conversation may have changed after since. It takes into account every change
// that was published before the call.
func (x *ChangeIndex) MayHaveChanged(key im.Key, since im.Pos) bool {
	if uint64(since) < x.unknown.Load() {
		return true
	}
	page, line, print := x.place(key)
	if x.newest[page].Load() <= uint64(since) ||
		x.newestOfBlock[page*blocksPerPage+line/linesPerBlock].Load() <= uint64(since) {
		return false
	}
	l := &x.pages[page].Load()[line]
	for i := range l.slots {
		if v := l.slots[i].Load(); v>>48 == print {
			return v&slotPos > uint64(since)
		}
	}
	return l.floor.Load() > uint64(since) // after the slots, see touch
}

// Touch notes a change of a conversation that the feed has at pos.
func (x *ChangeIndex) Touch(key im.Key, pos im.Pos) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.touch(key, pos)
}

// Unknown returns the position up to which changes may be missing from the index.
func (x *ChangeIndex) Unknown() im.Pos { return im.Pos(x.unknown.Load()) }

// SetKnownAfter says that the index has every change after a position.
func (x *ChangeIndex) SetKnownAfter(after im.Pos) { x.unknown.Store(uint64(after)) }

// Ranges returns the number of parts into which Range divides the index.
func (x *ChangeIndex) Ranges() int { return min(64, len(x.pages)) }

// Range encodes the part n of the index, from 0 to Ranges()-1.
func (x *ChangeIndex) Range(n int) []byte {
	size := len(x.pages) / x.Ranges()
	var b []byte
	for i := n * size; i < (n+1)*size; i++ {
		b = x.appendPage(b, i, 0)
	}
	return b
}

// News encodes the lines that have a slot or a floor above a position, with their slots above it.
func (x *ChangeIndex) News(after im.Pos) []byte {
	var b []byte
	for i := range x.pages {
		if x.newest[i].Load() > uint64(after) {
			b = x.appendPage(b, i, uint64(after))
		}
	}
	return b
}

// appendPage encodes the lines of a page that have anything after a position:
//
//	uvarint  number of the line in the index
//	uvarint  floor
//	uvarint  number of slots
//	and for each slot: 2 bytes fingerprint, uvarint position
func (x *ChangeIndex) appendPage(b []byte, page int, after uint64) []byte {
	p := x.pages[page].Load()
	if p == nil {
		return b
	}
	for i := range p {
		l := &p[i]
		var slots [slotsPerLine]uint64
		n := 0
		for j := range l.slots {
			if v := l.slots[j].Load(); v&slotPos > after {
				slots[n] = v
				n++
			}
		}
		floor := l.floor.Load() // after the slots, see touch
		if n == 0 && floor <= after {
			continue
		}
		b = binary.AppendUvarint(b, uint64(page*linesPerPage+i))
		b = binary.AppendUvarint(b, floor)
		b = binary.AppendUvarint(b, uint64(n))
		for _, v := range slots[:n] {
			b = binary.BigEndian.AppendUint16(b, uint16(v>>48))
			b = binary.AppendUvarint(b, v&slotPos)
		}
	}
	return b
}

// Load adds the output of Range or News. Errors: ErrCorrupt.
func (x *ChangeIndex) Load(b []byte) error {
	number := func() (v uint64) {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			b = nil
			return math.MaxUint64
		}
		b = b[n:]
		return v
	}
	for len(b) > 0 {
		line, floor, n := number(), number(), number()
		if line >= uint64(len(x.pages)*linesPerPage) || floor > slotPos || n > slotsPerLine {
			return fmt.Errorf("load an index of changes: line %d: %w", line, store.ErrCorrupt)
		}
		slots := make([]uint64, n)
		for i := range slots {
			if len(b) < 3 {
				return fmt.Errorf("load an index of changes: line %d: %w", line, store.ErrCorrupt)
			}
			print := uint64(binary.BigEndian.Uint16(b))
			b = b[2:]
			pos := number()
			if print == 0 || pos > slotPos {
				return fmt.Errorf("load an index of changes: line %d: %w", line, store.ErrCorrupt)
			}
			slots[i] = print<<48 | pos
		}
		// The newest first, so that it stays when the line is full.
		slices.SortFunc(slots, func(a, b uint64) int { return -cmp.Compare(a&slotPos, b&slotPos) })
		x.mu.Lock()
		page, at := int(line)/linesPerPage, int(line%linesPerPage)
		l := &x.pageOf(page)[at]
		l.raise(floor)
		x.noteNewest(page, at, floor)
		for _, v := range slots {
			l.touch(v>>48, v&slotPos)
			x.noteNewest(page, at, v&slotPos)
		}
		x.mu.Unlock()
	}
	return nil
}
