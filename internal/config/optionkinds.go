package config

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// option is one thing that can be set.
type option struct {
	name    string // section.key
	doc     string // sentences for the operator
	def     string // the default, as an operator would write it
	allowed string // the allowed values, for the operator
	literal bool   // the value stands without quotes in the file
	secret  bool   // the value is never shown, and name_file may name a file that has it
	live    bool   // a running server applies a new value
	holds   string // of a secret: what that file holds, like "the token of …"

	set func(raw) error // the error says why the value is not allowed
	get func() string   // the value, as an operator would write it
}

// raw is a value as it was written.
type raw struct {
	text string
	form form
}

// form is the kind of literal a value was written as.
type form int

const (
	formAny    form = iota // environment and flags: only text
	formString             // the rest: in the file
	formInt
	formBool
	formList // of strings; the text has commas between them
	formOther
)

// errForm says that a value is another kind of literal than its option takes.
type errForm struct{ want string }

func (e errForm) Error() string { return "it is not " + e.want }

func (r raw) must(want string, forms ...form) error {
	if r.form == formAny || slices.Contains(forms, r.form) {
		return nil
	}
	return errForm{want}
}

func text(name string, p *string, def, doc string) option {
	*p = def
	return option{
		name: name, doc: doc, def: def, allowed: "a text",
		set: func(r raw) error {
			if err := r.must("a text in quotes", formString); err != nil {
				return err
			}
			*p = r.text
			return nil
		},
		get: func() string { return *p },
	}
}

// live marks an option whose new value a running server applies; see Differences.
func live(o option) option {
	o.live = true
	return o
}

// minSecret is the length of the shortest secret that is allowed, in bytes.
const minSecret = 16

// secret is a text that is never shown. holds describes it for the flag that names its file: "the token that …".
func secret(name string, p *string, holds, doc string) option {
	o := text(name, p, "", doc)
	o.secret, o.holds = true, holds
	o.allowed = fmt.Sprintf("a text of at least %d characters, or nothing", minSecret)
	set := o.set
	o.set = func(r raw) error {
		if 0 < len(r.text) && len(r.text) < minSecret {
			return fmt.Errorf("it has %d characters", len(r.text))
		}
		return set(r)
	}
	return o
}

func choice(name string, p *string, def string, of []string, doc string) option {
	o := text(name, p, def, doc)
	o.allowed = strings.Join(of, ", ")
	set := o.set
	o.set = func(r raw) error {
		if err := r.must("a text in quotes", formString); err != nil {
			return err
		}
		if !slices.Contains(of, r.text) {
			return fmt.Errorf("it is not an allowed value")
		}
		return set(r)
	}
	return o
}

func address(name string, p *string, def, doc string) option {
	o := text(name, p, def, doc)
	o.allowed = `host:port, or "" for none`
	set := o.set
	o.set = func(r raw) error {
		if r.form != formInt && r.text != "" {
			if err := checkAddress(r.text); err != nil {
				return err
			}
		}
		return set(r)
	}
	return o
}

// list is a list of texts without commas.
func list(name string, p *[]string, def []string, doc string) option {
	return listOf(name, p, def, `a list like ["a", "b"]; in the environment and flags a,b`, splitList, doc)
}

// listOf is a list of texts. The file may have it as an array. The file, the environment and flags may have it as one
// text, which split divides.
func listOf(name string, p *[]string, def []string, allowed string, split func(string) ([]string, error),
	doc string) option {
	*p = def
	return option{
		name: name, doc: doc, def: formatList(def), allowed: allowed, literal: true,
		set: func(r raw) error {
			if err := r.must("a list of texts", formList, formString); err != nil {
				return err
			}
			parts, err := split(r.text)
			if err != nil {
				return err
			}
			*p = parts
			return nil
		},
		get: func() string { return formatList(*p) },
	}
}

func splitList(s string) (parts []string, err error) {
	for part := range strings.SplitSeq(strings.Trim(s, "[] "), ",") {
		if part = strings.Trim(part, ` "`); part != "" {
			parts = append(parts, part)
		}
	}
	return parts, nil
}

// formatList writes a list as it stands in the file.
func formatList(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = strconv.Quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// urls is a list of URLs that have passwords in them, so it is a secret. like is an example of one.
func urls(name string, p *[]string, like, holds, doc string) option {
	o := listOf(name, p, nil,
		`a list of URLs like ["`+like+`"]; in the environment and in the file of a secret with commas between them`,
		splitURLs, doc)
	o.secret, o.holds = true, holds
	return o
}

// nextURL matches the comma in front of a URL. Other commas are part of a URL: those between the hosts of one
// database, as in postgres://a.example,b.example/chat.
var nextURL = regexp.MustCompile(`\s*,\s*([a-z][a-z0-9+.-]*://)`)

func splitURLs(s string) (parts []string, err error) {
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") { // as it stands in the file
		s = strings.ReplaceAll(s[1:len(s)-1], `"`, "")
	}
	begin := 0
	for _, at := range nextURL.FindAllStringSubmatchIndex(s, -1) {
		parts = append(parts, s[begin:at[0]])
		begin = at[2]
	}
	if begin < len(s) {
		parts = append(parts, strings.TrimRight(s[begin:], ", \n"))
	}
	for _, u := range parts {
		switch {
		case strings.ContainsAny(u, " \t\r\n"):
			return nil, errors.New("a URL has a space in it; write a comma between two URLs")
		case !strings.Contains(u, "://"):
			return nil, errors.New("a URL does not begin with its scheme and ://")
		}
	}
	return parts, nil
}

// prefixes is a list of networks, each an address or a CIDR.
func prefixes(name string, p *[]netip.Prefix, doc string) option {
	var texts []string
	o := list(name, &texts, nil, doc)
	*p = nil
	o.get = func() string { // from p, not from texts: Values copies another Config over this one
		all := make([]string, len(*p))
		for i, n := range *p {
			if all[i] = n.String(); n.IsSingleIP() {
				all[i] = n.Addr().String()
			}
		}
		return formatList(all)
	}
	set := o.set
	o.allowed = `a list like ["10.0.0.0/8", "192.0.2.7"]; in the environment and flags a,b`
	o.set = func(r raw) error {
		if err := set(r); err != nil {
			return err
		}
		*p = nil
		for _, s := range texts {
			n, err := parsePrefix(s)
			if err != nil {
				return err
			}
			*p = append(*p, n)
		}
		return nil
	}
	return o
}

func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	n, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return n, fmt.Errorf("%q is neither an address nor a network like 10.0.0.0/8", s)
	case n != n.Masked():
		return n, fmt.Errorf("%q has bits after its length; the network is %s", s, n.Masked())
	case n.Addr().Is4In6():
		return n, fmt.Errorf("%q is an IPv4 network: write it as one", s)
	case n.Bits() == 0:
		return n, fmt.Errorf("%q is everybody", s)
	}
	return n, nil
}

func boolean(name string, p *bool, def bool, doc string) option {
	*p = def
	return option{
		name: name, doc: doc, def: strconv.FormatBool(def), allowed: "true or false", literal: true,
		set: func(r raw) error {
			if err := r.must("true or false without quotes", formBool); err != nil {
				return err
			}
			switch r.text {
			case "true":
				*p = true
			case "false":
				*p = false
			default:
				return fmt.Errorf("it is neither")
			}
			return nil
		},
		get: func() string { return strconv.FormatBool(*p) },
	}
}

func count(name string, p *int64, def, low, high int64, doc string) option {
	*p = def
	return option{
		name: name, doc: doc, def: strconv.FormatInt(def, 10), literal: true,
		allowed: fmt.Sprintf("a number from %d to %d", low, high),
		set: func(r raw) error {
			n, err := r.int()
			if err != nil {
				return err
			}
			if n < low || high < n {
				return fmt.Errorf("it is out of range")
			}
			*p = n
			return nil
		},
		get: func() string { return strconv.FormatInt(*p, 10) },
	}
}

// unlimited is a count of at least 1, or -1 for no limit.
func unlimited(name string, p *int64, def int64, doc string) option {
	o := count(name, p, def, -1, 1<<40, doc)
	o.allowed = "a number from 1, or -1 for no limit"
	set := o.set
	o.set = func(r raw) error {
		if n, err := r.int(); err == nil && n == 0 {
			return fmt.Errorf("0 would refuse everything")
		}
		return set(r)
	}
	return o
}

// byFiles is a count of connections, where 0 and -1 mean as many as the limit of open files allows.
func byFiles(name string, p *int64, doc string) option {
	o := count(name, p, 0, -1, 1<<40, doc)
	o.allowed = "a number from 0, or -1, which means the same as 0"
	return o
}

func (r raw) int() (int64, error) {
	if err := r.must("a number without quotes", formInt); err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(r.text, "_", ""), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("it is not a whole number")
	}
	return n, nil
}

func size(name string, p *int64, def, low, high int64, doc string) option {
	*p = def
	return option{
		name: name, doc: doc, def: FormatSize(def),
		allowed: fmt.Sprintf("a size from %s to %s, such as \"64KiB\" or \"1MiB\"", FormatSize(low), FormatSize(high)),
		set: func(r raw) error {
			if err := r.must("a size in quotes or a number of bytes", formString, formInt); err != nil {
				return err
			}
			n, err := ParseSize(r.text)
			if err != nil {
				return err
			}
			if n < low || high < n {
				return fmt.Errorf("it is out of range")
			}
			*p = n
			return nil
		},
		get: func() string { return FormatSize(*p) },
	}
}

// share is a size where 0 stands for a part of the memory that the server has.
func share(name string, p *int64, low, high int64, doc string) option {
	o := size(name, p, 0, 0, high, doc)
	o.allowed = fmt.Sprintf("0, or a size from %s to %s, such as \"64MiB\"", FormatSize(low), FormatSize(high))
	set := o.set
	o.set = func(r raw) error {
		if err := set(r); err != nil {
			return err
		}
		if 0 < *p && *p < low {
			return fmt.Errorf("it is out of range")
		}
		return nil
	}
	return o
}

func duration(name string, p *time.Duration, def, low, high time.Duration, doc string) option {
	*p = def
	return option{
		name: name, doc: doc, def: formatDuration(def),
		allowed: fmt.Sprintf("a time from %s to %s, such as \"2s\" or \"500ms\"", formatDuration(low),
			formatDuration(high)),
		set: func(r raw) error {
			if err := r.must("a time with its unit, in quotes", formString); err != nil {
				return err
			}
			d, err := time.ParseDuration(r.text)
			if err != nil {
				return fmt.Errorf("it is not a time with its unit")
			}
			if d < low || high < d {
				return fmt.Errorf("it is out of range")
			}
			*p = d
			return nil
		},
		get: func() string { return formatDuration(*p) },
	}
}

// formatDuration writes 10m0s as 10m.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

var units = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}

// ParseSize reads a size in bytes: "64KiB", "1 MiB", "512B" or "512". Only the
// binary units are known, and only whole numbers of them.
func ParseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "BKMGTPi ")
	n, err := strconv.ParseUint(strings.ReplaceAll(digits, "_", ""), 10, 62)
	if err != nil {
		return 0, fmt.Errorf("it is not a size")
	}
	unit := strings.TrimSpace(s[len(digits):])
	if unit == "" {
		return int64(n), nil
	}
	i := slices.Index(units, unit)
	if i < 0 {
		return 0, fmt.Errorf("its unit is none of B, KiB, MiB, GiB, TiB")
	}
	if n != 0 && bits.Len64(n)+10*i > 62 {
		return 0, fmt.Errorf("it is out of range")
	}
	return int64(n << (10 * i)), nil
}

// FormatSize writes n bytes with the largest unit that n is a whole number of.
func FormatSize(n int64) string {
	i := 0
	for n != 0 && n%1024 == 0 && i < len(units)-1 {
		n /= 1024
		i++
	}
	return strconv.FormatInt(n, 10) + units[i]
}
