package config

import "strings"

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Origin  Origin
	Key     string // the option or the variable, as it was written
	Value   string // empty: the value is not the problem
	Unknown bool   // there is no such option
	Why     string
	Fix     string // what is allowed or what to do
}

func (p Problem) String() string {
	var w strings.Builder
	w.WriteString(p.Origin.String())
	w.WriteString(": ")
	switch {
	case p.Unknown:
		w.WriteString("unknown option " + p.Key + ": ")
	case p.Value != "":
		w.WriteString(p.Key + " = " + p.Value + ": ")
	case p.Key != "":
		w.WriteString(p.Key + ": ")
	}
	w.WriteString(p.Why)
	if p.Fix != "" {
		w.WriteString("; " + p.Fix)
	}
	return w.String()
}

// Problems is everything that is wrong with a configuration; as an error it
// has one line for each.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}
