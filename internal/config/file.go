package config

import (
	"bytes"
	"errors"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// entry is one key of a file.
type entry struct {
	key    string // section.key
	value  raw
	origin Origin
}

// parseFile reads the keys of a TOML file, each with its line.
func parseFile(name string, b []byte) ([]entry, *Problem) {
	// The decoder finds everything that is not TOML, doubled keys included; the parser below knows the lines.
	var whole map[string]any
	if err := toml.Unmarshal(b, &whole); err != nil {
		p := &Problem{Origin: Origin{Place: name}, Why: strings.TrimPrefix(err.Error(), "toml: "),
			Fix: "write TOML: [section], then key = value"}
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			p.Origin.Line, _ = at.Position()
		}
		return nil, p
	}
	var (
		p       unstable.Parser
		section string
		entries []entry
	)
	p.Reset(b)
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			section, _ = path(b, e.Key())
		case unstable.KeyValue:
			entries = collect(entries, name, b, section, e)
		}
	}
	if err := p.Error(); err != nil { // the decoder read it: cannot happen
		return nil, &Problem{Origin: Origin{Place: name}, Why: err.Error()}
	}
	return entries, nil
}

// collect adds the entry of a key and its value, or, when the value is a table
// in braces, of the keys in it.
func collect(entries []entry, name string, b []byte, section string, kv *unstable.Node) []entry {
	key, line := path(b, kv.Key())
	if section != "" {
		key = section + "." + key
	}
	v := kv.Value()
	if v.Kind == unstable.InlineTable {
		for it := v.Children(); it.Next(); {
			entries = collect(entries, name, b, key, it.Node())
		}
		return entries
	}
	r := raw{text: string(v.Data)}
	switch v.Kind {
	case unstable.String:
		r.form = formString
	case unstable.Integer:
		r.form = formInt
	case unstable.Bool:
		r.form = formBool
	case unstable.Array:
		r = arrayOf(v)
	default:
		r.form = formOther
	}
	return append(entries, entry{key: key, value: r, origin: Origin{Place: name, Line: line}})
}

// arrayOf reads an array of texts.
func arrayOf(v *unstable.Node) raw {
	var parts []string
	for it := v.Children(); it.Next(); {
		n := it.Node()
		if n.Kind == unstable.Comment {
			continue
		}
		if n.Kind != unstable.String {
			return raw{text: "[…]", form: formOther}
		}
		parts = append(parts, string(n.Data))
	}
	return raw{text: strings.Join(parts, ","), form: formList}
}

// path returns a dotted key and the line of its last part.
func path(b []byte, key unstable.Iterator) (dotted string, line int) {
	var parts []string
	for key.Next() {
		n := key.Node()
		parts = append(parts, string(n.Data))
		line = 1 + bytes.Count(b[:n.Raw.Offset], []byte("\n"))
	}
	return strings.Join(parts, "."), line
}
