// Command genschema writes the JSON Schema of the reports of `petrel bench --json` to the file in its argument.
// Run it in the top folder of the tree: it takes the descriptions from the comments of the source. Only this command
// imports invopop/jsonschema; the server does not.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/petrel-im/petrel/bench"
	"github.com/petrel-im/petrel/internal/checker"
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
	r := &jsonschema.Reflector{Mapper: findings}
	for _, folder := range []string{"bench", "internal/checker"} {
		if err := r.AddGoComments("github.com/petrel-im/petrel", folder); err != nil {
			return fmt.Errorf("read comments: %w", err)
		}
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

// findings is the schema of checker.Findings, an array that is written as an object.
func findings(t reflect.Type) *jsonschema.Schema {
	if t != reflect.TypeFor[checker.Findings]() {
		return nil
	}
	s := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(),
		AdditionalProperties: jsonschema.FalseSchema}
	for _, c := range checker.Classes() {
		s.Properties.Set(c.String(), &jsonschema.Schema{Type: "integer"})
		s.Required = append(s.Required, c.String())
	}
	return s
}
