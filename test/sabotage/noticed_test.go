package sabotage

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"
)

// noticedFile has, by the name of each rule, the digest of what its guards noticed it in.
const noticedFile = "noticed.json"

var everyRule = flag.Bool("all", false, "break all rules, and write "+noticedFile+"; without it, those whose packages have changed since")

// due are the rules that have to be broken: all, or those that changed since their guards
// last noticed them: they themselves, or a file of a package that they patch or that guards
// them. Changes of other packages do not count, so `make long` breaks all.
func due() ([]rule, error) {
	if *everyRule {
		return all(), nil
	}
	noticed := map[string]string{}
	b, err := os.ReadFile(noticedFile)
	if err == nil {
		err = json.Unmarshal(b, &noticed)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", noticedFile, err)
	}
	of, err := digests(filepath.Join("..", ".."), all())
	return slices.DeleteFunc(all(), func(r rule) bool { return noticed[r.name] == of[r.name] }), err
}

// digests are those of rules: of what they say, and of the files of their packages.
func digests(root string, rules []rule) (map[string]string, error) {
	packages := map[string]string{}
	of := map[string]string{}
	for _, r := range rules {
		dirs := make([]string, 0, len(r.patches)+len(r.guards))
		for _, p := range r.patches {
			dirs = append(dirs, path.Dir(p.file))
		}
		for _, g := range r.guards {
			dirs = append(dirs, g.pkg)
		}
		slices.Sort(dirs)
		h := sha256.New()
		fmt.Fprintf(h, "%q", r)
		for _, dir := range slices.Compact(dirs) {
			if packages[dir] == "" {
				d, err := digestOfFiles(filepath.Join(root, filepath.FromSlash(dir)))
				if err != nil {
					return nil, fmt.Errorf("rule %s: %w", r.name, err)
				}
				packages[dir] = d
			}
			fmt.Fprintf(h, "%s %s\n", dir, packages[dir])
		}
		of[r.name] = hex.EncodeToString(h.Sum(nil))[:16]
	}
	return of, nil
}

// digestOfFiles is that of the files in a folder, without its subfolders.
func digestOfFiles(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n", e.Name(), len(b))
		_, _ = h.Write(b) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// writeNoticed writes noticedFile: all rules of digests but those that nothing noticed.
func writeNoticed(of map[string]string, unnoticed []string) error {
	for _, name := range unnoticed {
		delete(of, name)
	}
	b, err := json.MarshalIndent(of, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(noticedFile, append(b, '\n'), 0o644)
}

func TestRulesAreDueWhenTheirPackagesChange(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a/a.go", "a/deep/a.go", "b/b_test.go", "c/c.go"} {
		write(name, "package x")
	}
	r := rule{name: "break-it", patches: []patch{{"a/a.go", "x", "y"}}, guards: []guard{{"b", "^TestX$"}}}
	digest := func(r rule) string {
		t.Helper()
		of, err := digests(root, []rule{r})
		if err != nil {
			t.Fatal(err)
		}
		return of[r.name]
	}
	was := digest(r)
	write("c/c.go", "package y")
	write("a/deep/a.go", "package y")
	if digest(r) != was {
		t.Error("a rule is due because of a package that it neither patches nor is guarded by")
	}
	for _, name := range []string{"a/a.go", "a/new.go", "b/b_test.go"} {
		write(name, "package "+name)
		if now := digest(r); now == was {
			t.Errorf("a rule is not due though %s changed", name)
		} else {
			was = now
		}
	}
	r.patches = []patch{{"a/a.go", "x", "z"}}
	if digest(r) == was {
		t.Error("a rule is not due though its patch changed")
	}
}
