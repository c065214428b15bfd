package sabotage

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// rule is something that the server promises.
type rule struct {
	name    string
	holds   string  // the promise
	patches []patch // together they break it
	guards  []guard // each of them alone notices
}

// patch is an edit that is wrong.
type patch struct {
	file string // from the root of the module
	// old is in the file exactly once, inside a function. Its lines may be
	// indented otherwise there. new is what stands there instead.
	old, new string
}

// guard is a test, or some of a package.
type guard struct {
	pkg string // from the root of the module
	run string // of go test -run
}

func all() []rule {
	return slices.Concat(
		postgresRules, clusterRules, gatewayRules, appRules, sessionRules, inboxRules, // whose guards wait longest
		apiRules, auditRules, checkerRules, clauseRules(), convRules, decoderRules, fanoutRules, lossyRules, mentionRules, noteRules, pebbleRules, peopleRules, reportRules,
		personalRules, relationRules, routeRules, sdkRules, streamRules, terminalRules, userRules, webRules)
}

// find returns where in the text of its file the patch applies.
func (p patch) find(text string) (from, to int, err error) {
	found := p.pattern().FindAllStringIndex(text, -1)
	switch len(found) {
	case 0:
		line, want := nearest(text, p.old)
		return 0, 0, fmt.Errorf("%s:%d: the patch does not apply\n\tit looks for %s\n\tthe line is  %s",
			p.file, line, want, strings.TrimSpace(strings.Split(text, "\n")[line-1]))
	case 1:
		return found[0][0], found[0][1], nil
	default:
		return 0, 0, fmt.Errorf("%s:%d: the patch applies here and at line %d, give it more text: %s",
			p.file, lineAt(text, found[0][0]), lineAt(text, found[1][0]), p.old)
	}
}

func (p patch) pattern() *regexp.Regexp {
	lines := trimmedLines(p.old)
	for i := range lines {
		lines[i] = regexp.QuoteMeta(lines[i])
	}
	return regexp.MustCompile(strings.Join(lines, `[ \t]*\n[ \t]*`))
}

func lineAt(text string, offset int) int { return strings.Count(text[:offset], "\n") + 1 }

func trimmedLines(text string) []string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines
}

// nearest returns the first line of text that differs, where text is most like
// old, and the line of old that was looked for there.
func nearest(text, old string) (line int, want string) {
	has, wants := trimmedLines(text), trimmedLines(old)
	best, at := math.Inf(-1), 0
	for i := range has {
		sum := 0.0
		for j, w := range wants {
			if i+j < len(has) {
				sum += alike(has[i+j], w)
			}
		}
		if sum > best {
			best, at = sum, i
		}
	}
	for j, w := range wants {
		if at+j >= len(has) {
			return len(has), w
		}
		if !strings.Contains(has[at+j], w) {
			return at + j + 1, w
		}
	}
	return at + 1, wants[0]
}

var word = regexp.MustCompile(`\w+|[^\w\s]`)

// alike is higher the more words of want are in line, and the fewer others. A
// line that has not changed counts twice.
func alike(line, want string) float64 {
	if strings.Contains(line, want) {
		return float64(2 * len(word.FindAllString(want, -1)))
	}
	others, both := word.FindAllString(line, -1), 0
	for _, w := range word.FindAllString(want, -1) {
		if i := slices.Index(others, w); i >= 0 {
			others = slices.Delete(others, i, i+1)
			both++
		}
	}
	return float64(both) - float64(len(others))/100
}
