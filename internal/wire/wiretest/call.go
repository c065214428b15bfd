package wiretest

import (
	"context"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Call runs a method of the API, as "petrel.v1.Service/Method", in the codec of
// the connection, and reads its answer into res. Errors: *im.Error, *Closed.
// Spec: P-10.4.
func (c *Conn) Call(ctx context.Context, method string, req, res proto.Message) error {
	f := &petrelv1.Call{Method: method}
	if c.link.enc.Codec == wire.JSON {
		b, err := protojson.Marshal(req)
		if err != nil {
			return err
		}
		f.Request = &petrelv1.Call_Json{Json: string(b)}
	} else {
		b, err := proto.Marshal(req)
		if err != nil {
			return err
		}
		f.Request = &petrelv1.Call_Proto{Proto: b}
	}
	a, err := c.ask(ctx, &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Call{Call: f}})
	if err != nil {
		return err
	}
	if j, ok := a.GetAnswer().GetResponse().(*petrelv1.Answer_Json); ok {
		return protojson.Unmarshal([]byte(j.Json), res)
	}
	return proto.Unmarshal(a.GetAnswer().GetProto(), res)
}
