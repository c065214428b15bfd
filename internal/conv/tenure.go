package conv

import (
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/note"
	"github.com/petrel-im/petrel/internal/store"
)

// tenure is the time in which this node serves a feed. It ends in one of two ways. The feed is
// given away (sealed), after a commit of the sends that were taken. Or it is lost: another node has
// taken it over, or a commit has an unknown outcome, or the store takes no more commits of the feed
// until the next takeover. Then the memory may be wrong, and nobody may use it.
//
// When the process stops, the committer ends too, and the feed is neither given away
// nor lost.
type tenure struct {
	mem    *memory
	notes  *note.Notes
	feed   store.Feed
	epoch  im.Epoch      // of the takeover
	sealed chan struct{} // closed when nothing more is taken
	lost   chan struct{} // closed when the feed is lost
	ended  chan struct{} // closed when the Owner is out of service
}

func newTenure(m *memory, notes *note.Notes, f store.Feed, epoch im.Epoch) *tenure {
	return &tenure{mem: m, notes: notes, feed: f, epoch: epoch, sealed: make(chan struct{}), lost: make(chan struct{}),
		ended: make(chan struct{})}
}

// Feed returns the feed that this Owner serves.
func (t *tenure) Feed() store.Feed { return t.feed }

// Epoch returns the number of this Owner's takeover.
func (t *tenure) Epoch() im.Epoch { return t.epoch }

// seal ends the intake of sends, signals, and changes of cursors and notes. The committer ends when all that
// was taken before is answered.
func (t *tenure) seal() {
	t.mem.mu.Lock()
	defer t.mem.mu.Unlock()
	t.sealLocked()
}

func (t *tenure) sealLocked() {
	if !t.mem.sealed {
		t.mem.sealed = true
		t.notes.Seal()
		close(t.sealed)
	}
}

// loseLocked ends the tenure at once; false: it was lost before.
func (t *tenure) loseLocked() bool {
	t.sealLocked()
	if t.Lost() {
		return false
	}
	close(t.lost)
	return true
}

// Sealed tells whether the feed was given away or is lost.
func (t *tenure) Sealed() bool { return isClosed(t.sealed) }

// Lost tells whether the feed is lost, so that nobody may use the memory.
func (t *tenure) Lost() bool { return isClosed(t.lost) }

func isClosed(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
