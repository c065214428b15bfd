package petrel

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// request waits until the client is live, sends one request over the long connection, and returns the answer. An
// error frame is returned as an *Error. If the connection ends before the answer, the error is ErrConnectionLost.
// At most maxAsked requests run at once; further ones wait. need is the required capability, or "".
func (c *Client) request(ctx context.Context, need string,
	frame func() *petrelv1.ClientFrame) (*petrelv1.ServerFrame, error) {
	select { // the application's share of the open requests of P-2.2
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	answer := make(chan *petrelv1.ServerFrame, 1) // one answer
	for {
		up, err := c.call(need, frame, func(f *petrelv1.ServerFrame) { answer <- f })
		if err != nil {
			return nil, err
		}
		if up == nil {
			break
		}
		select {
		case <-up:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	select {
	case f := <-answer:
		switch {
		case f == nil:
			return nil, ErrConnectionLost
		case f.GetError() != nil:
			return nil, fromWire(f.GetError())
		}
		return f, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// call sends a request, if the client is live. Otherwise it returns a channel that is closed when the client is
// live.
func (c *Client) call(need string, frame func() *petrelv1.ClientFrame,
	answer func(*petrelv1.ServerFrame)) (up <-chan struct{}, err error) {
	c.do(func(k *core) {
		if k.live == nil {
			up = c.up
			return
		}
		err = k.call(need, frame(), answer)
	})
	return up, err
}

// Call waits until the client is live, and then calls a method of the server's API, like
// "petrel.v1.Service/Method", over the long connection, or over HTTP if the server does not offer that. Call
// fills in an empty request id of the request, so that it can repeat a call whose connection ends before the
// answer. Refusals are an [*Error]. Spec: P-10.4, P-12.4.
func (c *Client) Call(ctx context.Context, method string, request, response proto.Message) error {
	setRequestID(request)
	b, err := proto.Marshal(request)
	if err != nil {
		return fmt.Errorf("call %s: %w", method, err)
	}
	for {
		f, err := c.request(ctx, capCall, func() *petrelv1.ClientFrame {
			return &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Call{Call: &petrelv1.Call{
				Method: method, Request: &petrelv1.Call_Proto{Proto: b},
			}}}
		})
		switch {
		case err == nil:
			if err := proto.Unmarshal(f.GetAnswer().GetProto(), response); err != nil {
				return fmt.Errorf("call %s: %w", method, err)
			}
			return nil
		case err == ErrConnectionLost && repeatable(request):
			continue
		case CodeOf(err) == CodeUnsupported && c.base != "":
			return c.callHTTP(ctx, method, b, response)
		}
		return err
	}
}

// callHTTP is Call over HTTP. When the token is refused, it asks the source once for another one.
func (c *Client) callHTTP(ctx context.Context, method string, request []byte, response proto.Message) error {
	refused := ""
	for asked := false; ; asked = true {
		token, err := c.token.get(ctx, refused)
		if err != nil {
			return fmt.Errorf("call %s: %w", method, err)
		}
		err = c.post(ctx, method, token, request, response)
		if CodeOf(err) == CodeUnauthenticated && !asked {
			refused = token
			continue
		}
		return err
	}
}

func (c *Client) post(ctx context.Context, method, token string, request []byte, response proto.Message) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/"+method, bytes.NewReader(request))
	if err != nil {
		return fmt.Errorf("call %s: %w", method, err)
	}
	q.Header.Set("Content-Type", "application/proto")
	q.Header.Set("Authorization", "Bearer "+token)
	r, err := c.http.Do(q)
	if err != nil {
		return fmt.Errorf("call %s: %w", method, err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(io.LimitReader(r.Body, maxFrame))
	if err != nil {
		return fmt.Errorf("call %s: %w", method, err)
	}
	if r.StatusCode == http.StatusOK {
		if err := proto.Unmarshal(b, response); err != nil {
			return fmt.Errorf("call %s: %w", method, err)
		}
		return nil
	}
	return httpRefusal(method, r, b)
}

// httpRefusal reads the error of a refused call. Spec: P-12.3.
func httpRefusal(method string, r *http.Response, body []byte) error {
	var answer struct {
		Message string `json:"message"`
		Details []struct {
			Type  string `json:"type"`
			Value string `json:"value"`
		} `json:"details"`
	}
	if json.Unmarshal(body, &answer) == nil {
		for _, d := range answer.Details {
			b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(d.Value, "="))
			e := new(petrelv1.Error)
			if err == nil && d.Type == "petrel.v1.Error" && e.UnmarshalVT(b) == nil {
				return fromWire(e)
			}
		}
	}
	if code := r.Header.Get("Petrel-Error"); code != "" {
		return &Error{Code: code, Message: answer.Message}
	}
	return fmt.Errorf("call %s: %s", method, r.Status)
}

// setRequestID sets the request id to a new one, if the request has the field and it is empty.
func setRequestID(m proto.Message) {
	r := m.ProtoReflect()
	f := r.Descriptor().Fields().ByName("request_id")
	if f != nil && f.Kind() == protoreflect.StringKind && r.Get(f).String() == "" {
		r.Set(f, protoreflect.ValueOfString(newID()))
	}
}

// repeatable reports whether a call of unknown outcome may be repeated: its request has a request id, or no such
// field.
func repeatable(m proto.Message) bool {
	r := m.ProtoReflect()
	if f := r.Descriptor().Fields().ByName("request_id"); f != nil {
		return r.Get(f).String() != ""
	}
	return true // without the field, a method only reads, or a repeat does no harm
}

// Credentials is an option for Connect clients, those of petrelv1connect. With it they call as the user of the
// token, or as the operator with an admin key. When a token is refused, the client asks the source once for
// another one. Spec: P-12.2.
func Credentials(source TokenSource) connect.ClientOption {
	cache := newTokenCache(source)
	return connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			refused := ""
			var why error // the server's refusal of it
			for asked := false; ; asked = true {
				token, err := cache.get(ctx, refused)
				if asked && CodeOf(err) == CodeUnauthenticated { // the source has no other token
					return nil, why
				}
				if err != nil {
					return nil, connect.NewError(connect.CodeUnauthenticated, err)
				}
				r.Header().Set("Authorization", "Bearer "+token)
				a, err := next(ctx, r)
				if connect.CodeOf(err) == connect.CodeUnauthenticated && !asked {
					refused, why = token, err
					continue
				}
				return a, err
			}
		}
	}))
}
