package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

var fileName = regexp.MustCompile(`[^\w/.-]([a-z]\w*\.go)\b`)

// fileLists finds comments at a package that list its files and leave some out: a comment
// that names half of them is a list, and one that names fewer says where to begin. The file
// with the comment, tests, and what a program wrote need no place in the list, and of
// files for several systems the first word of the name is enough.
func fileLists(files []file) []string {
	var found []string
	for _, f := range goFiles(files) {
		_, a := f.parse()
		if a.Doc == nil || f.isTest() {
			continue
		}
		named := map[string]bool{path.Base(f.path): true}
		for _, m := range fileName.FindAllStringSubmatch(" "+a.Doc.Text(), -1) {
			named[m[1]] = true
		}
		all, missing := 0, []string{}
		for _, x := range goFiles(files) {
			if x.dir() != f.dir() || x.isTest() {
				continue
			}
			all++
			name := path.Base(x.path)
			if system, _, _ := strings.Cut(name, "_"); !named[name] && !named[system+".go"] {
				missing = append(missing, fmt.Sprintf("%s: the comment lists the files of the package, but not %s", f.path, name))
			}
		}
		if 2*len(missing) <= all && len(named) > 1 {
			found = append(found, missing...)
		}
	}
	return found
}

// thePage is the page with the map of the tree.
const thePage = "docs/architecture.md"

// inMap are the folders whose own folders stand in the map one by one; "": the root, of
// which each begins a line.
var inMap = []string{"", "internal", "cmd", "test"}

// outsideMap are the folders of the root that hold none of what the map is about.
var outsideMap = []string{".ci", ".github", "docs"}

// treeMap finds folders that the map of the tree leaves out. That those which it names
// exist is found by pageReferences.
func treeMap(files []file) []string {
	var text string
	for _, f := range files {
		if f.path == thePage {
			_, blocks := page(f.text)
			text = strings.Join(blocks, "")
		}
	}
	if text == "" {
		return nil
	}
	named := map[string]bool{}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \n(),;:", r) }) {
		if name, ok := strings.CutSuffix(word, "/"); ok {
			named[name] = true
		}
	}
	for line := range strings.Lines(text) {
		root, _, _ := strings.Cut(line, "/")
		named[root+"/"] = true
	}
	var found []string
	for _, f := range files {
		parts := strings.Split(f.dir(), "/")
		for i, name := range parts {
			above := strings.Join(parts[:i], "/")
			word := name
			if i == 0 {
				word += "/"
			}
			if name == "." || slices.Contains(outsideMap, parts[0]) || !slices.Contains(inMap, above) || named[word] {
				continue
			}
			named[word] = true // once
			found = append(found, fmt.Sprintf("%s: the map of the tree lacks %s/", thePage, path.Join(above, name)))
		}
	}
	return found
}
