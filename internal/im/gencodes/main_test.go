package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGeneratedFilesAreFresh(t *testing.T) {
	const root = "../../../"
	dir := t.TempDir()
	code, sdk, ts, doc := filepath.Join(dir, "codes.go"), filepath.Join(dir, "sdk.go"), filepath.Join(dir, "codes.ts"), filepath.Join(dir, "errors.md")
	if err := run(root+"proto/errors.yaml", code, sdk, ts, doc); err != nil {
		t.Fatal(err)
	}
	for made, kept := range map[string]string{
		code: root + "internal/im/codes_gen.go", sdk: root + "sdk/go/codes_gen.go", ts: root + "sdk/ts/src/wire/codes_gen.ts", doc: root + "docs/reference/errors.md",
	} {
		want, err := os.ReadFile(made)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(kept)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), string(got)); d != "" {
			t.Errorf("%s is stale, go run ./internal/im/gencodes (-fresh +kept):\n%s", kept, d)
		}
	}
}
