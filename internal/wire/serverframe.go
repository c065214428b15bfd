package wire

import (
	"bytes"
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// ReadServerFrame decodes the first frame of b, which this package has encoded. It returns the frame, its bytes,
// and the bytes after it. The frame does not share the memory of b.
func ReadServerFrame(b []byte, e Encoding) (f *petrelv1.ServerFrame, frame, rest []byte, err error) {
	n, header := 0, 0
	switch {
	case e.Framing == WebSocket:
		n, header = frameSize(b)
	case e.Codec == JSON:
		n = bytes.IndexByte(b, '\n') + 1
	default:
		n, header = int(binary.BigEndian.Uint32(b)), 4
	}
	frame, rest = b[:header+n], b[header+n:]
	f = &petrelv1.ServerFrame{}
	if e.Codec == JSON {
		err = protojson.Unmarshal(frame[header:], f)
	} else {
		err = f.UnmarshalVT(frame[header:])
	}
	return f, frame, rest, err
}
