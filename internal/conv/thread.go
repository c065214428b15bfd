package conv

import (
	"context"
	"fmt"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// A message of a thread names the first message of the thread, its root, and has a number in the thread. So
// the committer must know the size of the thread, and that the root may have one. Both are in the store, as
// the root's row and a mark beside it, but the committer does not read them. If it does not know the thread
// of a message, the conversation's queue waits while a loader reads. From then on the thread is in memory.
// Spec: P-5.12.

// maxThreads is how many threads of one conversation stay in memory, about.
const maxThreads = 256

// threadBytes is about how many bytes one of them takes.
const threadBytes = 96

// thread has what the committer knows of a thread, also of one without messages yet.
type thread struct {
	size    uint64  // messages, durable or not
	pos     im.Pos  // of the commit that brings the newest of them; 0: the store had all of them when they were read
	only    im.User // the one user who may read the root; "": all members of its time
	refusal error   // the reason why nothing can be in the thread; nil: there is none
}

// threads are the threads of one conversation that the committer knows, by their roots.
type threads map[im.Seq]thread

// add takes threads that a loader has read. If there are too many, it forgets others whose messages
// are all durable.
func (t *threads) add(read threads, durable im.Pos) {
	if *t == nil {
		*t = threads{}
	}
	if len(*t)+len(read) > maxThreads {
		for q, th := range *t {
			if th.pos <= durable {
				delete(*t, q)
			}
		}
	}
	for q, th := range read {
		(*t)[q] = th
	}
}

// admit decides whether a message of u may be in the thread of q. known is false if
// the thread has to be read first. Codes: no_target; damaged, unsettled.
func (t threads) admit(u im.User, q im.Seq) (known bool, err error) {
	th, known := t[q]
	switch {
	case !known:
		return false, nil
	case th.refusal != nil:
		if im.CodeOf(th.refusal) == im.CodeDamaged {
			delete(t, q) // it may be mended when the next one comes
		}
		return true, th.refusal
	case th.only != "" && u != "" && u != th.only:
		return true, noTarget(q)
	}
	return true, nil
}

// readThread reads the thread of the entry q for admit. Errors: ErrCorrupt, and others.
func readThread(ctx context.Context, st store.Store, key im.Key, q im.Seq) (thread, error) {
	th, err := readRoot(ctx, st, key, q)
	if err != nil || th.refusal != nil {
		return th, err
	}
	of, err := st.MarksOf(ctx, key, store.MarkThread, "", []im.Seq{q})
	if err != nil || of[0] == nil {
		return th, err
	}
	var mark storepb.Thread
	if err := mark.UnmarshalVT(of[0]); err != nil {
		return th, fmt.Errorf("read the thread of %s seq %d: %w", key, q, store.ErrCorrupt)
	}
	th.size = mark.Size
	return th, nil
}

// readRoot reads whether the entry q can be a root: it must be a message, recalled or not, that is
// in no thread itself.
func readRoot(ctx context.Context, st store.Store, key im.Key, q im.Seq) (th thread, err error) {
	bad := fmt.Errorf("read %s seq %d: %w", key, q, store.ErrCorrupt)
	err = st.Rows(ctx, key, q, q, func(r store.Row) bool {
		head, stored, failure := store.SplitRow(r.Value)
		var m petrelv1.Message
		if failure != nil || wire.ParseMessage(stored, &m) != nil {
			return false
		}
		bad = nil
		if head.Flags&store.RowWithheld != 0 {
			th.only = im.User(m.From)
		}
		_, text := m.Body.(*petrelv1.Message_Text)
		_, data := m.Body.(*petrelv1.Message_Data)
		if !text && !data && m.RecalledBy == 0 || m.Rel.GetThread() != 0 {
			th.refusal = noTarget(q)
		}
		return false
	})
	if err == nil {
		err = bad
	}
	return th, err
}
