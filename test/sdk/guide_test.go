package sdk

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// frame is what the pieces of the guide rely on, as the guide says: a function with ctx and
// client that returns an error, and what is the application's own.
const frame = `package main

import (
	"context"
	"fmt"

	petrel "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

var (
	_ = fmt.Sprint
	_ *petrelv1.DeviceRef
)

func showList([]petrel.Conversation) {}

func showMessages([]petrel.Message, []*petrel.Outgoing) {}
`

// Every piece of Go in the guide compiles as it stands: the first one is a program, and the
// others are the bodies of functions.
func TestGuideCompiles(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide", "go-sdk.md"))
	if err != nil {
		t.Fatal(err)
	}
	pieces := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(guide, -1)
	if len(pieces) != 5 {
		t.Fatalf("the guide has %d pieces of Go, want 5", len(pieces))
	}
	var bodies strings.Builder
	bodies.WriteString(frame)
	for i, p := range pieces[1:] {
		fmt.Fprintf(&bodies, "\nfunc piece%d(ctx context.Context, client *petrel.Client, conv, device, password string) error {\n\t{\n%s\n\t}\n\treturn nil\n}\n", i+2, p[1])
	}
	folder := t.TempDir()
	for name, text := range map[string]string{"main.go": string(pieces[0][1]), "pieces.go": bodies.String()} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", os.DevNull, filepath.Join(folder, "main.go"), filepath.Join(folder, "pieces.go"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
