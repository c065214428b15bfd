// Command genschema writes the JSON Schema of the reports of `petrel bench --json` to the
// file that its argument names. It is run in the top folder of the tree: descriptions are
// the comments of the source. Its dependency is none of the server's.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/petrel-im/petrel/bench"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: genschema FILE")
	}
	r := &jsonschema.Reflector{}
	if err := r.AddGoComments("github.com/petrel-im/petrel", "bench"); err != nil {
		return fmt.Errorf("read comments: %w", err)
	}
	for name, text := range r.CommentMap {
		r.CommentMap[name] = strings.Join(strings.Fields(text), " ")
	}
	s := r.Reflect(&bench.Report{})
	s.ID = ""
	s.Title = "Report of petrel bench"
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(os.Args[1], append(b, '\n'), 0o644)
}
