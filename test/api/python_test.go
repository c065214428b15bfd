package api_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest"
)

// python is a gRPC client that knows nothing of our Go code: Python's grpcio,
// generated from the schema.
type python struct {
	in  io.Writer
	out *bufio.Scanner
}

func startPython(t *testing.T, srv *imtest.Server) *python {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	interpreter := filepath.Join(root, "build/venv/bin/python")
	if _, err := os.Stat(interpreter); err != nil {
		t.Fatalf("%s is missing; run `make test`, or: python3 -m venv build/venv && build/venv/bin/pip install -r test/foreign/python/requirements.txt", interpreter)
	}
	cmd := exec.CommandContext(t.Context(), interpreter, "grpc_client.py", strings.TrimPrefix(srv.BaseURL(), "http://"), strings.TrimPrefix(srv.AdminURL(), "http://"), filepath.Join(root, "proto"))
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // the client ends with its input
		if err := cmd.Wait(); err != nil && t.Context().Err() == nil {
			t.Errorf("the Python client ended with %v", err)
		}
	})
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	return &python{in, lines}
}

// call is a call by the Python client; []byte is base64 in JSON.
func (c *python) call(name, credential string, req proto.Message) (proto.Message, error) {
	b, err := proto.Marshal(req)
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(map[string]any{"method": name, "token": credential, "request": b})
	if err != nil {
		return nil, err
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	if !c.out.Scan() {
		return nil, io.ErrUnexpectedEOF
	}
	var answer struct {
		Response      *[]byte
		Code, Message string
	}
	if err := json.Unmarshal(c.out.Bytes(), &answer); err != nil {
		return nil, err
	}
	if answer.Response == nil {
		return nil, im.Errorf(im.Code(answer.Code), "%s", answer.Message)
	}
	res := dynamicpb.NewMessage(imtest.Methods()[name].Output())
	return res, proto.Unmarshal(*answer.Response, res)
}
