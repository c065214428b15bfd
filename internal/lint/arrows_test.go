package lint

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
)

// layered are the packages whose files stand on each other: a file uses what is in files
// below it, and none of those uses anything of it. Then a reader who knows what is below
// a file understands it, and a change of it breaks nothing below.
var layered = []string{"internal/conv", "internal/route"}

// listed are those of them whose comment lists the files from the top to the bottom.
var listed = []string{"internal/conv"}

// arrow is that a file uses a name that another file of its package declares.
type arrow struct{ from, to string }

// fileCycles finds the arrows of cycles between the files of a package.
func fileCycles(files []file) []string {
	c := check(files, layered...)
	var found []string
	for _, dir := range layered {
		arrows := c.arrows(dir)
		below := reached(arrows)
		for _, a := range slices.SortedFunc(maps.Keys(arrows), func(a, b arrow) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) }) {
			if below[arrow{a.to, a.from}] {
				use := arrows[a]
				found = append(found, fmt.Sprintf("%s: %s is in %s, and from there names lead back to %s: move one of them, so that no file below knows one above",
					c.set.Position(use.Pos()), use.Name, a.to, a.from))
			}
		}
	}
	return found
}

// listOrder finds files that use something of one which stands before them in the list of
// the package's comment.
func listOrder(files []file) []string {
	c := check(files, listed...)
	var found []string
	for _, dir := range listed {
		place := map[string]int{}
		for _, f := range goFiles(files) {
			if _, a := f.parse(); f.dir() == dir && !f.isTest() && a.Doc != nil {
				for i, m := range fileName.FindAllStringSubmatch(" "+a.Doc.Text(), -1) {
					place[m[1]] = i + 1
				}
			}
		}
		for a, use := range c.arrows(dir) {
			if from, to := place[a.from], place[a.to]; from > 0 && to > 0 && from > to {
				found = append(found, fmt.Sprintf("%s: %s is in %s, which stands above %s in the list of the package's comment", c.set.Position(use.Pos()), use.Name, a.to, a.from))
			}
		}
	}
	slices.Sort(found)
	return found
}

// arrows are those between the files of a package, each with its first use.
func (c *checked) arrows(dir string) map[arrow]*ast.Ident {
	found := map[arrow]*ast.Ident{}
	p := c.byDir[dir]
	if p == nil {
		return found
	}
	name := func(pos token.Pos) string { return path.Base(c.set.Position(pos).Filename) }
	for _, f := range p.files {
		from := name(f.Pos())
		ast.Inspect(f, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			if of := c.info.Uses[id]; of != nil && of.Pkg() == p.types && of.Pos().IsValid() {
				if a := (arrow{from, name(of.Pos())}); a.from != a.to && found[a] == nil {
					found[a] = id
				}
			}
			return true
		})
	}
	return found
}

// reached are the pairs of files of which the second is reached from the first.
func reached(arrows map[arrow]*ast.Ident) map[arrow]bool {
	next := map[string][]string{}
	for a := range arrows {
		next[a.from] = append(next[a.from], a.to)
	}
	all := map[arrow]bool{}
	var walk func(from, at string)
	walk = func(from, at string) {
		for _, to := range next[at] {
			if a := (arrow{from, to}); !all[a] {
				all[a] = true
				walk(from, to)
			}
		}
	}
	for from := range next {
		walk(from, from)
	}
	return all
}
