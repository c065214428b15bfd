package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Tests show that the pages about security are true. So each sentence of the list in
// SECURITY.md names one, the table of the ASVS has every requirement of level 1 and 2 once,
// and the tests that both name exist.
const (
	securityPage = "SECURITY.md"
	asvsPage     = "docs/security/asvs.md"
)

var (
	testName     = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	leadOfItem   = regexp.MustCompile(`^- \*\*[^*]+\*\* ?`)
	sentenceEnd  = regexp.MustCompile("[.!?](?:\\s+|$)([A-Z*`[]|$)")
)

func securityClaims(files []file) []string {
	tests := map[string]bool{}
	for _, f := range files {
		if strings.HasSuffix(f.path, "_test.go") {
			for _, m := range testFunction.FindAllStringSubmatch(f.text, -1) {
				tests[m[1]] = true
			}
		}
	}
	var found []string
	for _, f := range files {
		if f.path != securityPage && f.path != asvsPage {
			continue
		}
		for _, m := range testName.FindAllStringSubmatch(f.text, -1) {
			if !tests[m[1]] {
				found = append(found, fmt.Sprintf("%s: `%s`: no such test", f.path, m[1]))
			}
		}
		if f.path == securityPage {
			found = append(found, untested(f)...)
		} else {
			found = append(found, asvsTable(f)...)
		}
	}
	return found
}

// untested finds the sentences of the first list without a test.
func untested(f file) (found []string) {
	const heading = "## What is protected, and how\n"
	_, text, ok := strings.Cut(f.text, heading)
	if !ok {
		return []string{fmt.Sprintf("%s: there is no part %q", f.path, strings.TrimSpace(heading))}
	}
	text, _, _ = strings.Cut(text, "\n## ")
	for _, item := range strings.Split("\n"+strings.TrimSpace(text), "\n- ")[1:] { // the text before them introduces the list
		item = strings.Join(strings.Fields(item), " ")
		for _, s := range sentences(leadOfItem.ReplaceAllString("- "+item, "")) {
			if !testName.MatchString(s) {
				found = append(found, fmt.Sprintf("%s: no test shows: %s", f.path, s))
			}
		}
	}
	return found
}

func sentences(text string) (all []string) {
	for text != "" {
		m := sentenceEnd.FindStringSubmatchIndex(text)
		if m == nil {
			return append(all, text)
		}
		all = append(all, strings.TrimSpace(text[:m[2]]))
		text = text[m[2]:]
	}
	return all
}

// asvsSections are the parts of ASVS 5.0.0 with requirements of level 1 or 2, and how many
// these are: within a part they come first.
var asvsSections = map[string]int{
	"V1.1": 2, "V1.2": 9, "V1.3": 11, "V1.4": 3, "V1.5": 2, "V2.1": 3, "V2.2": 3, "V2.3": 4, "V2.4": 1,
	"V3.2": 2, "V3.3": 4, "V3.4": 6, "V3.5": 5, "V3.7": 2, "V4.1": 3, "V4.2": 1, "V4.3": 2, "V4.4": 4, "V5.1": 1, "V5.2": 3, "V5.3": 2, "V5.4": 3,
	"V6.1": 3, "V6.2": 12, "V6.3": 4, "V6.4": 4, "V6.5": 5, "V6.6": 3, "V6.8": 4, "V7.1": 3, "V7.2": 4, "V7.3": 2, "V7.4": 5, "V7.5": 2, "V7.6": 2,
	"V8.1": 2, "V8.2": 3, "V8.3": 1, "V8.4": 1, "V9.1": 3, "V9.2": 4, "V10.1": 2, "V10.2": 2, "V10.3": 4, "V10.4": 11, "V10.5": 5, "V10.6": 2, "V10.7": 3,
	"V11.1": 2, "V11.2": 3, "V11.3": 3, "V11.4": 4, "V11.5": 1, "V11.6": 1, "V12.1": 3, "V12.2": 2, "V12.3": 4, "V13.1": 1, "V13.2": 5, "V13.3": 2, "V13.4": 5,
	"V14.1": 2, "V14.2": 4, "V14.3": 3, "V15.1": 3, "V15.2": 3, "V15.3": 7, "V16.1": 1, "V16.2": 5, "V16.3": 4, "V16.4": 3, "V16.5": 3, "V17.1": 1, "V17.2": 4, "V17.3": 2,
}

var asvsStates = []string{"kept", "partly", "operator", "not yet", "no subject"}

var asvsRow = regexp.MustCompile(`(?m)^\| (V[^|]*) \| ([^|]*) \|(.*)\|(.*)\|$`)

// asvsTable checks the rows: every requirement once, and each one that is kept has a test.
func asvsTable(f file) (found []string) {
	seen := map[string]int{}
	for _, m := range asvsRow.FindAllStringSubmatch(f.text, -1) {
		ids, state, where, test := m[1], m[2], strings.TrimSpace(m[3]), m[4]
		for id := range strings.SplitSeq(ids, ", ") {
			for _, id := range idsOf(id) {
				seen[id]++
			}
		}
		switch {
		case !slices.Contains(asvsStates, state):
			found = append(found, fmt.Sprintf("%s: %s: there is no state %q", f.path, ids, state))
		case where == "":
			found = append(found, fmt.Sprintf("%s: %s: nothing says where, or why not", f.path, ids))
		case state == "kept" && !testName.MatchString(test):
			found = append(found, fmt.Sprintf("%s: %s: no test shows it", f.path, ids))
		}
	}
	for section, n := range asvsSections {
		for i := 1; i <= n; i++ {
			id := section + "." + strconv.Itoa(i)
			if seen[id] != 1 {
				found = append(found, fmt.Sprintf("%s: %s is there %d times", f.path, id, seen[id]))
			}
			delete(seen, id)
		}
	}
	for id := range seen {
		found = append(found, fmt.Sprintf("%s: %s is no requirement of level 1 or 2", f.path, id))
	}
	slices.Sort(found)
	return found
}

// idsOf are the ids of a row: one, or as V1.2.6–V1.2.8 those from one to another.
func idsOf(text string) []string {
	from, to, several := strings.Cut(text, "–")
	first, e1 := strconv.Atoi(strings.TrimPrefix(path.Ext(from), "."))
	last, e2 := strconv.Atoi(strings.TrimPrefix(path.Ext(to), "."))
	section := strings.TrimSuffix(from, path.Ext(from))
	if !several || e1 != nil || e2 != nil || strings.TrimSuffix(to, path.Ext(to)) != section {
		return []string{text}
	}
	var all []string
	for i := first; i <= last; i++ {
		all = append(all, section+"."+strconv.Itoa(i))
	}
	return all
}
