package lint

import (
	"fmt"
	"regexp"
	"strings"
)

// featuresPage has a table with a row for each feature of the server.
const featuresPage = "docs/guide/features.md"

// The columns of its first table that a test can check, after the feature.
const (
	featureClauses = iota + 1
	featureCalls
	featureGo
	featureScript
	featureShown
	featurePages
	featureColumns
)

var clauseCell = regexp.MustCompile(`^P-\d+\.\d+(, P-\d+\.\d+)*$`)

// featureRows finds rows of the table of features with cells that name nothing, or something that does not exist. It
// checks more than pageReferences, to which a word is prose unless it looks like a name. That clauses and files which
// links name exist is found by citedClauses and deadLinks.
func featureRows(files []file) []string {
	var rows [][]string
	for _, f := range files {
		if f.path == featuresPage {
			rows = featureTable(f.text)
			if len(rows) == 0 {
				return []string{featuresPage + ": there is no table under ## Features"}
			}
		}
	}
	n := newNames(files)
	ts := scriptSDK(files)
	var found []string
	for _, cells := range rows {
		say := func(format string, a ...any) {
			found = append(found, fmt.Sprintf("%s: %s: %s", featuresPage, cells[0], fmt.Sprintf(format, a...)))
		}
		if len(cells) != featureColumns {
			say("%d cells, not %d", len(cells), featureColumns)
			continue
		}
		if c := cells[featureClauses]; c != "–" && !clauseCell.MatchString(c) {
			say("clauses %q", c)
		}
		if c := cells[featurePages]; c != "–" && !strings.Contains(c, "](") {
			say("no link to a page in %q", c)
		}
		for column, exists := range map[int]func(word string) bool{
			featureCalls: func(w string) bool { return n.isCall(files, w) }, featureGo: n.inSDK, featureScript: ts.inScript,
			featureShown: func(w string) bool { return n.at(w, ".") },
		} {
			words := codeSpan.FindAllStringSubmatch(cells[column], -1)
			if len(words) == 0 && (cells[column] != "–" || column == featureShown) {
				say("column %d names nothing: %q", column+1, cells[column])
			}
			for _, w := range words {
				if !exists(w[1]) {
					say("%s does not exist", w[1])
				}
			}
		}
	}
	return found
}

// featureTable returns the cells of the rows under the heading Features, but for those with a title only.
func featureTable(text string) (rows [][]string) {
	_, text, _ = strings.Cut(text, "\n## Features\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if strings.HasPrefix(line, "|") && strings.Trim(strings.Join(cells[1:], ""), "- ") != "" && cells[0] != "feature" {
			rows = append(rows, cells)
		}
	}
	return rows
}

// isCall reports whether a word is Service/Method, the name of a frame, Message.field, or a command.
func (n *names) isCall(files []file, word string) bool {
	if service, method, ok := strings.Cut(word, "/"); ok {
		return n.hasMember(service, method)
	}
	if message, field, ok := strings.Cut(word, "."); ok {
		return n.hasMember(message, field)
	}
	if strings.HasPrefix(word, "petrel ") {
		for _, f := range files {
			if f.path == "docs/reference/cli.md" {
				return strings.Contains(f.text, "\n## "+word+"\n") || strings.Contains(f.text, "\n## "+word+" ")
			}
		}
		return false
	}
	return n.hasMember("ClientFrame", word) || n.hasMember("ServerFrame", word)
}

// inSDK reports whether the SDK for Go has a type, a function, or a member of a type.
func (n *names) inSDK(word string) bool {
	s := n.folders["sdk/go"]
	if s == nil {
		return false
	}
	name, member, ok := strings.Cut(word, ".")
	if !ok {
		return s.objects[name] || s.types[name] != nil
	}
	return s.types[name] != nil && n.member(s, name, s.types[name], strings.Split(member, "."))
}

// scriptSDK is what the SDK for TypeScript declares.
func scriptSDK(files []file) *names {
	var own []file
	for _, f := range files {
		if strings.HasPrefix(f.path, "sdk/ts/src/") {
			own = append(own, f)
		}
	}
	return newNames(own)
}

// inScript reports whether there is such a name, or such a member of a class or of those that it extends.
func (n *names) inScript(word string) bool {
	class, member, ok := strings.Cut(word, ".")
	return !ok && n.words[word] || ok && n.hasMember(class, member)
}
