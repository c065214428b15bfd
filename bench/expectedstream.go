package bench

import "bytes"

// script is the stream of bytes that the members of a group get. Members that do not send get the same frames in
// the same order. So the first member that reads a frame has it audited and appends it here; for the others a
// comparison of bytes is enough. A member that gets other bytes leaves the script and is audited frame by frame.
// So the generator can check millions of deliveries a second without taking the CPU that the server needs.
//
// No reader points to a part that all members have passed, so the garbage collector frees it.
type script struct{ last *part }

// part is a piece of the stream: whole frames, unchanged once written.
type part struct {
	data   []byte
	frames []scriptFrame
	msgs   []scriptMessage
	next   *part // set when the part is full
}

type scriptFrame struct {
	end int // offset behind the frame
	msg int // number of messages up to here
}

// scriptMessage is an audited message. sentNs is negative if the audit did not take it as new and right.
type scriptMessage struct {
	seq    uint64
	sentNs int64
}

const partBytes = 1 << 20

func newScript() *script { return &script{last: &part{}} }

// reader is a connection's place in the script.
type reader struct {
	part  *part // nil: the connection does not follow the script
	off   int
	frame int // frames[frame] ends behind off
	msg   int // messages before frame
}

// turn goes to the next part if this one is read and full.
func (r *reader) turn() {
	if r.part.next != nil && r.off == len(r.part.data) {
		*r = reader{part: r.part.next}
	}
}

// atEnd reports whether the reader has read all that is written.
func (r *reader) atEnd() bool {
	r.turn()
	return r.off == len(r.part.data)
}

// match moves r over the bytes of b that equal the script, and returns the rest of b. diverged says that the rest
// differs from the script. Otherwise r is at the end of its part: the caller calls passed, and then match again for the
// rest.
func (r *reader) match(b []byte) (rest []byte, diverged bool) {
	for len(b) > 0 {
		r.turn()
		n := min(len(b), len(r.part.data)-r.off)
		if n == 0 {
			return b, false
		}
		if !bytes.Equal(b[:n], r.part.data[r.off:r.off+n]) {
			return b, true
		}
		r.off += n
		b = b[n:]
		if r.off == len(r.part.data) && len(b) > 0 {
			return b, false // passed has to be called before r turns to the next part
		}
	}
	return nil, false
}

// passed returns the messages of the frames that the reader has passed since the last call.
func (r *reader) passed() []scriptMessage {
	from := r.msg
	for r.frame < len(r.part.frames) && r.part.frames[r.frame].end <= r.off {
		r.msg = r.part.frames[r.frame].msg
		r.frame++
	}
	return r.part.msgs[from:r.msg]
}

// open returns the beginning of the frame that the reader is in.
func (r *reader) open() []byte {
	start := 0
	if r.frame > 0 {
		start = r.part.frames[r.frame-1].end
	}
	return r.part.data[start:r.off]
}

// rewind goes back to the beginning of the frame that the reader is in.
func (r *reader) rewind() { r.off -= len(r.open()) }

// write appends a frame and its messages, and moves r behind the frame. r is the reader of the connection that
// got the frame, and stands at the end.
func (s *script) write(r *reader, frame []byte, msgs []scriptMessage) {
	p := s.last
	if len(p.data) > 0 && len(p.data)+len(frame) > partBytes {
		p.next = &part{}
		p = p.next
		s.last = p
	}
	if p.data == nil {
		p.data = make([]byte, 0, max(partBytes, len(frame)))
	}
	p.data = append(p.data, frame...)
	p.msgs = append(p.msgs, msgs...)
	p.frames = append(p.frames, scriptFrame{end: len(p.data), msg: len(p.msgs)})
	r.turn()
	r.off = len(p.data)
	r.frame, r.msg = len(p.frames), len(p.msgs)
}
