package config

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// hidden stands for a secret wherever values are shown.
const hidden = "(hidden)"

// Value is an option with its present value.
type Value struct {
	Name    string `json:"name"`
	Value   string `json:"value"` // of a secret only "(hidden)", if it is set
	Default string `json:"default"`
	Origin  string `json:"origin"`
	Doc     string `json:"doc"`
	Allowed string `json:"allowed"`
	Live    bool   `json:"live,omitempty"` // a running server applies a new value
	// the flag names a file that holds the value, because every user of the host can see a command line
	Secret bool   `json:"secret,omitempty"`
	Flag   string `json:"-"` // the text of --help for the flag, without a full stop
}

// Values returns all options, in the order of the table.
func (c *Config) Values() []Value {
	var seen Config
	table := options(&seen) // sets the defaults
	seen = *c
	vs := make([]Value, len(table))
	for i, o := range table {
		v := o.get()
		if o.secret && v != o.def {
			v = hidden
		}
		vs[i] = Value{Name: o.name, Value: v, Default: o.def, Origin: c.Origin(o.name).String(), Doc: o.doc,
			Allowed: o.allowed, Live: o.live, Secret: o.secret, Flag: o.flag()}
	}
	return vs
}

// flag returns the text of --help for the option's flag: the first sentence of its explanation, or, for a secret,
// what the file has to hold.
func (o option) flag() string {
	if o.secret {
		return "File with " + o.holds
	}
	first, _, _ := strings.Cut(o.doc, ". ")
	return strings.TrimSuffix(first, ".")
}

// Origin returns where the value of an option comes from.
func (c *Config) Origin(name string) Origin { return c.origins[name] }

// Options returns all options with their defaults.
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
			fmt.Fprintf(&b, "# %s_file = \"\" # file with %s\n", key, o.holds)
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

// comment breaks text into lines that begin with "# " and have at most width
// characters.
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
		"Every option has a default, so nothing has to be set. A value can be set in three places; where two set the same option, the later one of this list wins:\n\n" +
		"1. the file: the one that `--config` names, else `./petrel.toml`, else `/etc/petrel/petrel.toml`;\n" +
		"2. the environment: `PETREL_SECTION__KEY`, for example `PETREL_STORE__DIR`;\n" +
		"3. flags: `--section-key`, for example `--log-level`. The flag of `store.dir` is `--data`.\n\n" +
		"A list is written as `[\"a\", \"b\"]` in the file. Everywhere, the file included, it may also be one text with commas between the elements: `a,b`.\n\n" +
		"A secret can stand in the file or in the environment, or in a file of its own. The option that names such a file ends in `_file`, for example\n" +
		"`metrics.token_file`. Only this one has a flag, for example `--metrics-token-file`, because every user of a host can see its command lines.\n\n" +
		"An unknown option is an error, and so is a value that is not allowed. `petrel config show --origin` shows where each value comes from.\n" +
		"`petrel config default` prints a file with all options.\n\n" +
		"The server reads the file, the files of secrets and the certificate again when one of them has changed, and at SIGHUP. It takes over the options whose\n" +
		"column \"reload\" says yes, without ending a connection. The others wait for a restart, and the log names those that have changed. If anything in\n" +
		"the new configuration is wrong, nothing of it is taken over, and the log says what is wrong.\n")
	section := ""
	for _, o := range options(&Config{}) {
		s, _, _ := strings.Cut(o.name, ".")
		if s != section {
			fmt.Fprintf(
				&b, "\n## %s\n\n%s\n\n| option | default | allowed | reload | what it does |\n|---|---|---|---|---|\n",
				s, sectionDocs[s])
			section = s
		}
		name := "`" + o.name + "`"
		if o.secret {
			name += ", or `" + o.name + "_file`"
		}
		reload := "no"
		if o.live {
			reload = "yes"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s |\n", name, literal(o), o.allowed, reload, o.doc)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
