package gateway

import (
	"bytes"
	"encoding/binary"

	"github.com/petrel-im/petrel/internal/im"
)

// lengthSize is the size of the length that precedes a protobuf frame on TCP, in bytes.
const lengthSize = 4

// cutTCP cuts b into protobuf frames, which follow their lengths, or into lines of JSON. The first byte of the
// connection decides which. old is how many bytes of b earlier calls have searched for the end of a line. Spec:
// P-1.2, P-1.3.
func (f *framer) cutTCP(b []byte, old int, emit func(frame) *fault) (int, *fault) {
	if f.codec == noCodec {
		switch b[0] {
		case 0:
			f.codec = protoCodec
		case '{':
			f.codec = jsonCodec
		default:
			return 0, &fault{err: &im.Error{Code: im.CodeUnknownCodec}}
		}
	}
	if f.codec == jsonCodec {
		return f.cutLines(b, old, emit)
	}
	return f.cutLengths(b, emit)
}

func (f *framer) cutLines(b []byte, old int, emit func(frame) *fault) (n int, ft *fault) {
	if end := bytes.LastIndexByte(b[old:], '\n') + 1; end > 0 {
		end += old
		whole := append([]byte(nil), b[:end]...) // one buffer, which the session keeps slices of
		for n < end {
			size := bytes.IndexByte(whole[n:], '\n')
			if ft := f.tooLarge(uint64(size)); ft != nil {
				return n, ft
			}
			line := whole[n : n+size : n+size]
			n += size + 1
			if ft := emit(frame{opText, line}); ft != nil {
				return n, ft
			}
		}
	}
	return n, f.tooLarge(uint64(len(b) - n))
}

func (f *framer) cutLengths(b []byte, emit func(frame) *fault) (n int, ft *fault) {
	end := 0
	for len(b)-end >= lengthSize {
		size := uint64(binary.BigEndian.Uint32(b[end:]))
		if size > uint64(len(b)-end-lengthSize) {
			break
		}
		end += lengthSize + int(size)
	}
	if end > 0 {
		whole := append([]byte(nil), b[:end]...) // one buffer, which the session keeps slices of
		for n < end {
			size := int(binary.BigEndian.Uint32(whole[n:]))
			if ft := f.tooLarge(uint64(size)); ft != nil {
				return n, ft
			}
			n += lengthSize
			payload := whole[n : n+size : n+size]
			n += size
			if ft := emit(frame{opBinary, payload}); ft != nil {
				return n, ft
			}
		}
	}
	if len(b)-n >= lengthSize {
		ft = f.tooLarge(uint64(binary.BigEndian.Uint32(b[n:])))
	}
	return n, ft
}
