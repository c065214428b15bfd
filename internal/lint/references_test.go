package lint

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"
)

// A page that names a file, a function or a lock which is gone misleads its
// reader. So each thing that a page or a comment names has to exist. These words are
// references; all others are prose:
//
//   - `a path`, in a page: a word with a slash in it whose first element exists
//     in the root, in internal/ or beside the page; or a word that ends as the
//     name of a source file does (.go, .md, .proto, .yaml, .py, .js). Files that
//     make puts into build/ are no part of the tree.
//   - `a.name`, in a page: a word of identifiers with dots between them, if the
//     first one is a package or a section of the configuration, if it begins with
//     a capital and has small letters, or if the last one is a lock (mu, or …Mu). It is a package's
//     declaration, a member of a type or of its fields, or an option.
//   - `AnIdentifier`, in a page: a word with a capital at its beginning and a
//     second one after a small letter, or followed by a parenthesis, as
//     `Older(ctx, conv, n)`. Something of that name is declared in Go or in a
//     schema.
//   - in a comment of Go: a path of a source file, or one that begins with a
//     folder of the root; Type.member, package.Exported; and X in "guarded by
//     X", "closed by X", "closed when X is set" and "closed when X has ended",
//     if a comment at a field or variable says so.
//   - folder/ in a block of a page that is in no language, as in a map of the
//     tree.
//
// Generated code is left alone, and so are the change log, which tells of what
// was, and the pages of test/, which are about texts.

var (
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	fence      = regexp.MustCompile("(?m)^[ \t]*```")
	pathWord   = regexp.MustCompile(`^(\./)?[A-Za-z0-9_.@-]+(/[A-Za-z0-9_.@-]+)*/?$`)
	sourceFile = regexp.MustCompile(`\.(go|md|proto|yaml|py|js)$`)
	dottedWord = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+(\(\))?$`)
	lockWord   = regexp.MustCompile(`(^|\.)(mu|\w*Mu)$`)
	capital    = regexp.MustCompile(`^[A-Z]\w*[a-z0-9][A-Z]\w*$`)
	called     = regexp.MustCompile(`^([A-Z][a-z]\w*)\([^)]*\)$`)
	folderWord = regexp.MustCompile(`(?m)(?:^|[ \t])([A-Za-z0-9_-]+)/(?:[ \t]|$)`)
)

// pageReferences finds what pages name and the tree does not have.
func pageReferences(files []file) []string {
	n := newNames(files)
	var found []string
	for _, f := range files {
		if path.Ext(f.path) != ".md" || f.path == "CHANGELOG.md" || f.isTest() {
			continue
		}
		prose, blocks := page(f.text)
		for line, text := range prose {
			for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
				if what := n.missing(f, m[1]); what != "" {
					found = append(found, fmt.Sprintf("%s:%d: `%s`: %s", f.path, line+1, m[1], what))
				}
			}
		}
		for line, text := range blocks {
			for _, m := range folderWord.FindAllStringSubmatch(text, -1) {
				if !n.bases[m[1]] {
					found = append(found, fmt.Sprintf("%s:%d: %s/: no such folder", f.path, line+1, m[1]))
				}
			}
		}
	}
	return found
}

// page parts a page into lines of prose and lines of blocks in no language; a
// line of the other kind is empty.
func page(text string) (prose, blocks []string) {
	const outside, plain, foreign = 0, 1, 2
	in := outside
	for line := range strings.Lines(text) {
		p, b := "", ""
		switch {
		case fence.MatchString(line) && in != outside:
			in = outside
		case fence.MatchString(line):
			if in = foreign; strings.Trim(line, "` \t\n") == "" {
				in = plain
			}
		case in == outside:
			p = line
		case in == plain:
			b = line
		}
		prose, blocks = append(prose, p), append(blocks, b)
	}
	return prose, blocks
}

// missing says what is wrong with a word of a page; "": nothing, or it is no
// reference.
func (n *names) missing(f file, word string) string {
	if m := called.FindStringSubmatch(word); m != nil {
		word = m[1]
		if !n.words[word] {
			return "nothing is declared by this name"
		}
		return ""
	}
	first, rest, slash := strings.Cut(strings.TrimPrefix(word, "./"), "/")
	switch {
	case slash && n.messages[first] != nil:
		if !n.messages[first].members[rest] {
			return "the schema has no such method"
		}
	case pathWord.MatchString(word) && slash && first != "build" && n.at(first, f.dir()):
		if !n.at(word, f.dir()) {
			return "no such file or folder"
		}
	case pathWord.MatchString(word) && !slash && sourceFile.MatchString(word):
		if !n.bases[word] {
			return "no such file"
		}
	case dottedWord.MatchString(word):
		word = strings.TrimSuffix(word, "()")
		head, tail, _ := strings.Cut(word, ".")
		mine := n.packages[head] != nil || head[0] >= 'A' && head[0] <= 'Z' && head != strings.ToUpper(head) || lockWord.MatchString(word)
		option := n.sections[head] && tail == strings.ToLower(tail)
		if (mine || option) && !n.find(nil, word) && !n.options[word] && !n.options[strings.TrimSuffix(word, "_file")] {
			return "no such declaration, member of a type, or option"
		}
	case capital.MatchString(word):
		if !n.words[word] {
			return "nothing is declared by this name"
		}
	}
	return ""
}

var (
	commentPath   = regexp.MustCompile(`(?:^|[\s(])([A-Za-z0-9_./-]*[A-Za-z0-9_-]\.(?:go|md|proto|yaml))\b`)
	commentFolder = regexp.MustCompile(`(?:^|[\s(])((?:bench|cmd|docs|internal|proto|sdk|test)/[A-Za-z0-9_/-]*[A-Za-z0-9_-])`)
	commentName   = regexp.MustCompile(`(?:^|[\s(\[])([A-Z]\w*(?:\.[A-Za-z_]\w*)+)`)
	commentMember = regexp.MustCompile(`(?:^|[\s(\[])([a-z][a-z0-9]*(?:\.[A-Z]\w*)+)`)
	commentWord   = regexp.MustCompile(`(?i:guarded by|closed by) ([A-Za-z_]\w*)|closed when ([A-Za-z_]\w*) (?:is set|has returned|has ended)`)
)

// commentReferences finds what comments name and the tree does not have.
func commentReferences(files []file) []string {
	n := newNames(files)
	var found []string
	for _, f := range goFiles(files) {
		if f.isLint() {
			continue
		}
		set, a := f.parse()
		s := n.folders[f.dir()]
		for _, group := range a.Comments {
			at := set.Position(group.Pos())
			say := func(word, what string) {
				found = append(found, fmt.Sprintf("%s: comment: %s: %s", at, word, what))
			}
			text := group.Text()
			for _, m := range commentPath.FindAllStringSubmatch(text, -1) {
				if !n.at(m[1], f.dir()) {
					say(m[1], "no such file")
				}
			}
			for _, m := range commentFolder.FindAllStringSubmatch(text, -1) {
				if !n.begins(m[1]) {
					say(m[1], "no such file or folder")
				}
			}
			for _, m := range commentName.FindAllStringSubmatch(text, -1) {
				if !sourceFile.MatchString(m[1]) && !n.find(s, m[1]) {
					say(m[1], "no such member of a type")
				}
			}
			for _, m := range commentMember.FindAllStringSubmatch(text, -1) {
				head, _, _ := strings.Cut(m[1], ".")
				if n.packages[head] != nil && !n.find(s, m[1]) {
					say(m[1], "no such declaration")
				}
			}
		}
		ast.Inspect(a, func(node ast.Node) bool {
			var comments []*ast.CommentGroup
			switch node := node.(type) {
			case *ast.Field:
				comments = []*ast.CommentGroup{node.Doc, node.Comment}
			case *ast.ValueSpec:
				comments = []*ast.CommentGroup{node.Doc, node.Comment}
			}
			for _, c := range comments {
				for _, m := range commentWord.FindAllStringSubmatch(c.Text(), -1) {
					if word := m[1] + m[2]; word != "it" && !s.words[word] && !n.isType(word) {
						found = append(found, fmt.Sprintf("%s: comment: %s: the package declares no such name", set.Position(c.Pos()), word))
					}
				}
			}
			return true
		})
	}
	return found
}

var linkWithText = regexp.MustCompile(`\[([^\]\n]*)\]\(([^)#:\s]*)(#[^)\s]*)?\)`)

// links finds links to a part of a page that it does not have, and links whose
// text names another file than the one they lead to.
func links(files []file) []string {
	anchors := map[string]map[string]bool{}
	for _, f := range files {
		if path.Ext(f.path) == ".md" {
			anchors[f.path] = headings(f.text)
		}
	}
	var found []string
	for _, f := range files {
		if path.Ext(f.path) != ".md" {
			continue
		}
		prose, _ := page(f.text)
		for line, text := range prose {
			for _, m := range linkWithText.FindAllStringSubmatch(text, -1) {
				to := f.path
				if m[2] != "" {
					to = path.Join(f.dir(), m[2])
				}
				if m[3] != "" && anchors[to] != nil && !anchors[to][m[3][1:]] {
					found = append(found, fmt.Sprintf("%s:%d: link to %s%s: the page has no such part", f.path, line+1, m[2], m[3]))
				}
				if label := strings.Trim(m[1], "`"); pathWord.MatchString(label) && sourceFile.MatchString(label) && to != label && !strings.HasSuffix(to, "/"+label) {
					found = append(found, fmt.Sprintf("%s:%d: a link that says %s leads to %s", f.path, line+1, label, to))
				}
			}
		}
	}
	return found
}

var (
	heading   = regexp.MustCompile(`^#+ +(.*?)\s*$`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// headings are the anchors that a page's headings have.
func headings(text string) map[string]bool {
	out := map[string]bool{}
	prose, _ := page(text)
	for _, line := range prose {
		if m := heading.FindStringSubmatch(line); m != nil {
			slug := notInSlug.ReplaceAllString(strings.ToLower(m[1]), "")
			out[strings.ReplaceAll(slug, " ", "-")] = true
		}
	}
	return out
}
