package conv

import (
	"sync/atomic"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// conv is one conversation in memory.
type conv struct {
	key  im.Key
	id   string        // text form of key.Conv
	done chan struct{} // closed when loading has ended; err and the rest are valid then
	err  error         // why it could not be loaded; the conv is not in the registry then

	// Guarded by Convs.mu.
	queue      []*Send
	queueBytes int
	state      state
	users      int      // readers and commits under way: it must stay in memory
	lastUse    int64    // Unix seconds
	cursors    *cursors // nil: nobody has moved one lately

	// The log's side: what the rows appended so far say. Only the committer
	// touches it, and a loader before done is closed or while state is
	// scanning. It runs ahead of what is published.
	log logState

	// The readers' side: it moves when a commit is durable. The info goes out
	// before the point, and is read behind it.
	point atomic.Pointer[point]
	info  atomic.Pointer[info]
}

// point is where a conversation stands for its readers. It never changes; a
// commit makes a new one.
type point struct {
	head    im.Seq
	counted uint64 // at head
	pos     im.Pos // of the newest row
}

// state tells who may touch a conv's log.
type state uint8

const (
	loading  state = iota // a loader
	idle                  // nobody; nothing is queued
	ready                 // in the ring, waiting for the committer
	scanning              // a loader extends the tail; the queue waits
)

// logState is the newest state of a conversation, durable or not.
type logState struct {
	head    im.Seq
	counted uint64
	info    *info
	tail    tail
}

// staged is a row of the batch being built.
type staged struct {
	seq   im.Seq
	value []byte
	row   int // in the batch's rows
	item  int // in the commit's items; -1: a rewrite of a row that was there
}

// info is what is known of a conversation beside its rows. It never changes; a
// change makes a new one.
type info struct {
	record  *storepb.Conversation // nil: nothing was ever written
	members *Members
}

func (i *info) firstSeq() im.Seq {
	if i.record == nil || i.record.FirstSeq == 0 {
		return 1
	}
	return im.Seq(i.record.FirstSeq)
}
