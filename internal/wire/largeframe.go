package wire

import (
	"bytes"
	"encoding/binary"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// LargeFrame is the size of the largest frame that the server sends without announcing it, in bytes. Over 50
// kbit/s it takes 1.3 s. Spec: P-7.4.
const LargeFrame = 8 << 10

// AnnounceLarge puts a Large frame before each large frame of b that has none yet. b has whole WebSocket frames
// of the server. It is not modified, and is itself the result if nothing has to be added.
func AnnounceLarge(b []byte, c Codec) []byte {
	var out []byte
	from := 0 // b[from:] is not in out yet
	for at, before := 0, 0; at < len(b); {
		n, header := frameSize(b[at:])
		if n > LargeFrame {
			large := AppendFrame(nil, Encoding{c, WebSocket},
				&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Large{Large: &petrelv1.Large{Bytes: uint32(n)}}})
			if !bytes.Equal(b[before:at], large) {
				if out == nil {
					out = make([]byte, 0, len(b)+64)
				}
				out = append(append(out, b[from:at]...), large...)
				from = at
			}
		}
		before = at
		at += header + n
	}
	if out == nil {
		return b
	}
	return append(out, b[from:]...)
}

// frameSize reads the WebSocket header at the beginning of b, which appendHeader wrote. It returns the lengths of
// the frame and of the header.
func frameSize(b []byte) (n, header int) {
	switch n = int(b[1]); n {
	case 126:
		return int(binary.BigEndian.Uint16(b[2:])), 4
	case 127:
		return int(binary.BigEndian.Uint64(b[2:])), 10
	default:
		return n, 2
	}
}
