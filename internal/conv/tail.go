package conv

import "github.com/petrel-im/petrel/internal/im"

// MaxScan is how many rows below the head are searched for a repeat before the
// client is told to catch up first. Spec: P-4.7.
const MaxScan = 10_000

// minTail is how many hashes a busy conversation keeps.
const minTail = 1024

// tail holds the hashes of (sender, client message id) of the newest rows, so
// that a repeat is found without a second index: it covers the seqs above from.
type tail struct {
	from   im.Seq
	hashes []uint64 // of from+1, from+2, ...
	keep   int      // how many survive trimming; a scan for an old after raises it
}

func (t *tail) add(h uint64) {
	keep := max(t.keep, minTail)
	if len(t.hashes) >= 2*keep {
		n := copy(t.hashes, t.hashes[len(t.hashes)-keep:])
		t.from += im.Seq(len(t.hashes) - n)
		t.hashes = t.hashes[:n]
	}
	t.hashes = append(t.hashes, h)
}

// extend puts older hashes, of from+1 up to the old from, in front.
func (t *tail) extend(from im.Seq, older []uint64) {
	t.hashes = append(older, t.hashes...)
	t.from = from
	t.keep = max(t.keep, len(t.hashes))
}

// find calls match for each seq above after whose hash is h, newest first,
// until it returns true.
func (t *tail) find(after im.Seq, h uint64, match func(im.Seq) bool) bool {
	low := 0
	if after > t.from {
		low = int(after - t.from)
	}
	for i := len(t.hashes) - 1; i >= low; i-- {
		if t.hashes[i] == h && match(t.from+1+im.Seq(i)) {
			return true
		}
	}
	return false
}
