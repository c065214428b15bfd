package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/petrel-im/petrel/internal/regular"
)

// DefaultFiles are looked for in this order when no file is named; the first
// that exists is read.
var DefaultFiles = []string{"petrel.toml", "/etc/petrel/petrel.toml"}

// EnvPrefix begins the names of environment variables; the option store.dir is
// PETREL_STORE__DIR.
const EnvPrefix = "PETREL_"

// Source is where a configuration is read from; later fields win.
type Source struct {
	File   string            // as named by the operator, and must exist; empty: Search
	Search []string          // files to look for
	Env    []string          // NAME=value, as os.Environ
	Flags  map[string]string // option name → value, for the flags that were given
}

// Origin says where a value comes from.
type Origin struct {
	Place string // default, env, flag, or the name of the file
	Line  int    // in the file
	Via   string // the variable, the flag, or the file that holds a secret
}

func (o Origin) String() string {
	s := o.Place
	if s == "" {
		s = "default"
	}
	if o.Line > 0 {
		s = fmt.Sprintf("%s:%d", s, o.Line)
	}
	if o.Via != "" {
		s += " " + o.Via
	}
	return s
}

// Default returns the configuration in which nothing is set.
func Default() *Config {
	c := &Config{origins: map[string]Origin{}}
	options(c)
	return c
}

// Load reads the configuration. The error is a Problems, which has all that is wrong with it.
func Load(s Source) (*Config, error) {
	c := Default()
	l := loader{c: c, options: options(c)}
	l.readFile(s)
	l.readEnv(s.Env)
	l.readFlags(s.Flags)
	if len(l.problems) == 0 {
		l.problems = c.check()
	}
	if len(l.problems) > 0 {
		return nil, l.problems
	}
	return c, nil
}

type loader struct {
	c        *Config
	options  []option
	problems Problems
	at       map[string]Origin // the keys that the present layer has set, and where
}

func (l *loader) readFile(s Source) {
	files := s.Search
	if s.File != "" {
		files = []string{s.File}
	}
	for _, name := range files {
		b, err := regular.Read(name)
		if errors.Is(err, os.ErrNotExist) && s.File == "" {
			continue
		}
		if err != nil {
			l.problems = append(l.problems, Problem{Origin: Origin{Place: name}, Why: err.Error(),
				Fix: "name a file that exists and that this user may read"})
			return
		}
		l.c.file = name
		entries, problem := parseFile(name, b)
		if problem != nil {
			l.problems = append(l.problems, *problem)
			return
		}
		l.at = map[string]Origin{}
		for _, e := range entries {
			l.set(e.key, e.value, e.origin)
		}
		return
	}
}

func (l *loader) readEnv(env []string) {
	l.at = map[string]Origin{}
	env = slices.Clone(env)
	slices.Sort(env) // problems in a fixed order
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		rest, ours := strings.CutPrefix(name, EnvPrefix)
		if !ours {
			continue
		}
		origin := Origin{Place: "env", Via: name}
		if strings.Contains(rest, "__") {
			key := strings.ToLower(strings.Replace(rest, "__", ".", 1))
			l.set(key, raw{text: value}, origin)
		} else if want := l.oneUnderscore(rest); want != "" {
			l.problems = append(l.problems, Problem{Origin: origin, Key: name, Unknown: true,
				Why: "between section and key stand two underscores", Fix: "did you mean " + want + "?"})
		}
	}
}

// oneUnderscore returns the variable that was meant, if rest has one underscore instead of two between section
// and key. It returns "" for other variables: they begin with PETREL_, but are not configuration.
func (l *loader) oneUnderscore(rest string) string {
	for _, o := range l.options {
		if strings.ReplaceAll(envName(o.name), "__", "_") == EnvPrefix+rest {
			return envName(o.name)
		}
	}
	return ""
}

func (l *loader) readFlags(flags map[string]string) {
	l.at = map[string]Origin{}
	keys := make([]string, 0, len(flags))
	for k := range flags {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		l.set(k, raw{text: flags[k]}, Origin{Place: "flag", Via: "--" + FlagName(k)})
	}
}

// set takes one value of the present layer: the file, the environment or the flags.
func (l *loader) set(key string, v raw, from Origin) {
	fail := func(p Problem) {
		p.Origin, p.Key = from, key
		l.problems = append(l.problems, p)
	}
	name := key
	i := l.find(name)
	if i < 0 { // the file of a secret
		if base, ok := strings.CutSuffix(key, "_file"); ok {
			if i = l.find(base); i >= 0 && !l.options[i].secret {
				i = -1
			}
			name = base
		}
	}
	if i < 0 {
		fail(l.unknown(key, from))
		return
	}
	if was, twice := l.at[name]; twice {
		fail(Problem{Why: fmt.Sprintf("%s is set by %s already", name, was), Fix: "keep one of the two"})
		return
	}
	l.at[name] = from
	if name != key {
		b, err := regular.Read(v.text)
		if err != nil {
			fail(Problem{Value: v.text, Why: err.Error(), Fix: "name a file that exists and that this user may read"})
			return
		}
		from.Via = strings.TrimSpace(from.Via + " " + v.text)
		l.c.secrets = append(l.c.secrets, v.text)
		if v = (raw{text: strings.TrimRight(string(b), "\r\n")}); v.text == "" {
			fail(Problem{Value: name, Why: "the file is empty", Fix: "write the value into it, or leave " + key +
				" out"})
			return
		}
	}
	o := l.options[i]
	if err := o.set(v); err != nil {
		shown := v.text
		if o.secret {
			shown = hidden
		}
		fail(Problem{Value: shown, Why: err.Error(), Fix: "allowed: " + o.allowed})
		return
	}
	l.c.origins[name] = from
}

func (l *loader) find(name string) int {
	return slices.IndexFunc(l.options, func(o option) bool { return o.name == name })
}

// unknown returns the Problem of an unknown option, with the option that was probably meant.
func (l *loader) unknown(key string, from Origin) Problem {
	p := Problem{Unknown: true, Why: "there is no such option", Fix: "`petrel config default` lists all options"}
	best, distance := "", len(key)/3+2 // a more distant option is only a guess
	for _, o := range l.options {
		if d := editDistance(key, o.name); d < distance {
			best, distance = o.name, d
		}
	}
	if best == "" { // the right key in a wrong section
		_, last, _ := strings.Cut(key, ".")
		for _, o := range l.options {
			if _, k, _ := strings.Cut(o.name, "."); k == last {
				best = o.name
			}
		}
	}
	if best == "" {
		return p
	}
	if from.Place == "env" {
		best = envName(best)
	}
	p.Fix = "did you mean " + best + "?"
	return p
}

// editDistance counts the insertions, deletions and substitutions of bytes
// between a and b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// envName returns the variable of an option.
func envName(option string) string {
	return EnvPrefix + strings.ToUpper(strings.Replace(option, ".", "__", 1))
}

// FlagName returns the flag of an option, without the dashes: limits-send-burst for limits.send_burst. The flag
// of store.dir is data, which every command knows.
func FlagName(option string) string {
	if option == "store.dir" {
		return "data"
	}
	return strings.NewReplacer(".", "-", "_", "-").Replace(option)
}
