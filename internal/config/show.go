package config

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// hidden stands for a secret wherever values are shown.
const hidden = "(hidden)"

// Value is an option as it is set.
type Value struct {
	Name    string `json:"name"`
	Value   string `json:"value"` // of a secret only whether there is one
	Default string `json:"default"`
	Origin  string `json:"origin"`
	Doc     string `json:"doc"`
	Allowed string `json:"allowed"`
	Secret  bool   `json:"secret,omitempty"` // the flag names its file: a command line is seen by every user of the host
}

// Values are all options in the order of the table.
func (c *Config) Values() []Value {
	var seen Config
	table := options(&seen) // sets the defaults
	seen = *c
	vs := make([]Value, len(table))
	for i, o := range table {
		v := o.get()
		if o.secret && v != "" {
			v = hidden
		}
		vs[i] = Value{Name: o.name, Value: v, Default: o.def, Origin: c.Origin(o.name).String(), Doc: o.doc, Allowed: o.allowed, Secret: o.secret}
	}
	return vs
}

// Origin says where the value of an option comes from.
func (c *Config) Origin(name string) Origin { return c.origins[name] }

// Options are all options with their defaults.
func Options() []Value { return Default().Values() }

// WriteDefault writes a file with every option at its default, explained and
// commented out.
func WriteDefault(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Petrel configuration. Every value here is the default; set only what you change.\n" +
		"# Later wins: this file, then the environment (PETREL_SECTION__KEY), then flags.\n")
	section := ""
	for _, o := range options(&Config{}) {
		s, key, _ := strings.Cut(o.name, ".")
		if s != section {
			fmt.Fprintf(&b, "\n# %s\n[%s]\n", sectionDocs[s], s)
			section = s
		}
		fmt.Fprintf(&b, "\n%s", comment(o.doc, 90))
		fmt.Fprintf(&b, "# Allowed: %s.\n", o.allowed)
		fmt.Fprintf(&b, "# %s = %s\n", key, literal(o))
		if o.secret {
			fmt.Fprintf(&b, "# %s_file = \"\" # a file that holds it\n", key)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func literal(o option) string {
	if o.literal {
		return o.def
	}
	return strconv.Quote(o.def)
}

// comment breaks text into lines of at most width characters behind "# ".
func comment(text string, width int) string {
	var b strings.Builder
	line := "#"
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}

// WriteReference writes the page docs/reference/config.md.
func WriteReference(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Configuration\n\nGenerated from `internal/config/options.go` by `make gen`.\n\n" +
		"Nothing has to be set. Later wins: the default, the file (`./petrel.toml`, else `/etc/petrel/petrel.toml`, or the one named by\n" +
		"`--config`), the environment (`PETREL_SECTION__KEY`, for example `PETREL_STORE__DIR`), flags (`--section-key`, for example\n" +
		"`--log-level`; the folder of the store is `--data`; of a secret only its file, `--metrics-token-file`). An unknown option and a value that is not allowed are errors. `petrel config show --origin` says where each\n" +
		"value comes from, `petrel config default` prints a file with all of them.\n")
	section := ""
	for _, o := range options(&Config{}) {
		s, _, _ := strings.Cut(o.name, ".")
		if s != section {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| option | default | allowed | what it does |\n|---|---|---|---|\n", s, sectionDocs[s])
			section = s
		}
		name := "`" + o.name + "`"
		if o.secret {
			name += ", or `" + o.name + "_file`"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", name, literal(o), o.allowed, o.doc)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
