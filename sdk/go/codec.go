package petrel

import (
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// encode returns f in its wire form. Spec: P-1.3.
func encode(asJSON bool, f *petrelv1.ClientFrame) ([]byte, error) {
	if asJSON {
		return protojson.Marshal(f)
	}
	return f.MarshalVT()
}

// decode reads a frame of the server. Spec: P-2.7.
func decode(asJSON bool, b []byte) (*petrelv1.ServerFrame, error) {
	f := new(petrelv1.ServerFrame)
	if asJSON {
		return f, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(b, f)
	}
	return f, f.UnmarshalVT(b)
}
