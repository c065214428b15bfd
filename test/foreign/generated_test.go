package foreign_test

import (
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Generators of Python, TypeScript and Java make clients of /openapi.json without a word
// about something left out. Each client has all methods, and a program in its language
// calls some of them and judges the answers. Spec: P-12.1, P-12.3.
func TestGeneratedClientsCallTheServer(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	g := generation{root: root, build: filepath.Join(root, "build"), programs: filepath.Join(root, "test/foreign/generated")}
	srv := startServer(t)
	g.description = filepath.Join(t.TempDir(), "openapi.json")
	paths := fetchDescription(t, "http://"+srv.http+"/openapi.json", g.description)
	g.env = append(os.Environ(), "PETREL_HTTP=http://"+srv.http, "PETREL_ADMIN=http://"+srv.admin, "PETREL_ADMIN_KEY="+srv.adminKey, "PYTHONDONTWRITEBYTECODE=1")
	for _, c := range []struct {
		language string
		generate func(t *testing.T, dir string) (generated string)
		call     func(t *testing.T, dir string)
	}{
		{"python", g.generatePython, g.callPython},
		{"typescript", g.generateTypeScript, g.callTypeScript},
		{"java", g.generateJava, g.callJava},
	} {
		t.Run(c.language, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if got := pathsIn(t, c.generate(t, dir)); !slices.Equal(got, paths) {
				t.Errorf("the client has %d methods of %d: %v, want %v", len(got), len(paths), got, paths)
			}
			c.call(t, dir)
		})
	}
}

// fetchDescription saves the description of the API and returns its paths, sorted.
func fetchDescription(t *testing.T, url, file string) (paths []string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	_ = res.Body.Close() // read to its end
	var doc struct{ Paths map[string]json.RawMessage }
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for path := range doc.Paths {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

// pathsIn are the paths of methods that a generated client has, sorted.
func pathsIn(t *testing.T, dir string) (paths []string) {
	t.Helper()
	quoted := regexp.MustCompile(`["'](/petrel\.v1\.\w+/\w+)["']`)
	err := filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		for _, m := range quoted.FindAllSubmatch(text, -1) {
			paths = append(paths, string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// generation is what the generators and programs need. All paths are absolute.
type generation struct {
	root, build string
	programs    string // folder of the programs, by language
	description string // file
	env         []string
}

func (g generation) generatePython(t *testing.T, dir string) string {
	bin := filepath.Join(g.build, "venv/bin/openapi-python-client")
	needs(t, bin, "make build/venv/.installed")
	g.run(t, dir, bin, "generate", "--path", g.description, "--meta", "none", "--output-path", "generated",
		"--config", filepath.Join(g.programs, "python/config.yaml"), "--fail-on-warning")
	return filepath.Join(dir, "generated")
}

func (g generation) callPython(t *testing.T, dir string) {
	g.env = append(slices.Clone(g.env), "PYTHONPATH="+dir)
	g.run(t, dir, filepath.Join(g.build, "venv/bin/python"), filepath.Join(g.programs, "python/calls.py"))
}

func (g generation) generateTypeScript(t *testing.T, dir string) string {
	modules := filepath.Join(g.build, "node/node_modules")
	needs(t, filepath.Join(modules, "@hey-api/openapi-ts"), "make build/node/.installed")
	link(t, modules, filepath.Join(dir, "node_modules"))
	for _, name := range []string{"calls.ts", "tsconfig.json"} {
		link(t, filepath.Join(g.programs, "ts", name), filepath.Join(dir, name))
	}
	out := g.run(t, dir, "node_modules/.bin/openapi-ts", "-i", g.description, "-o", "generated")
	if regexp.MustCompile(`(?i)warn|error|skip|unsupported`).MatchString(out) {
		t.Errorf("openapi-ts:\n%s", out)
	}
	return filepath.Join(dir, "generated")
}

func (g generation) callTypeScript(t *testing.T, dir string) {
	g.run(t, dir, "node_modules/.bin/tsc", "--preserveSymlinks")
	g.run(t, dir, "node", "calls.js")
}

// quick are the options with which a Java program that runs for seconds takes the least CPU time.
var quick = []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}

func (g generation) generateJava(t *testing.T, dir string) string {
	jars, err := filepath.Glob(filepath.Join(g.build, "java/openapi-generator-cli-*.jar"))
	if err != nil || len(jars) != 1 {
		t.Fatalf("the generator is missing: %v, %v; run `make test`, or: make build/java/.installed", jars, err)
	}
	out := g.run(t, dir, "java", append(slices.Clone(quick), "-jar", jars[0], "generate", "-i", g.description, "-g", "java", "--library", "native", "-o", "generated",
		"--global-property=apis,models,supportingFiles,apiTests=false,modelTests=false,apiDocs=false,modelDocs=false")...)
	for line := range strings.Lines(out) {
		if strings.Contains(line, "ERROR") || strings.Contains(line, "WARN") &&
			// All descriptions of version 3.1 get the first, all empty requests the second.
			!strings.Contains(line, "OpenAPI 3.1 support is still in beta") && !strings.Contains(line, "Ignoring complex example on request body") {
			t.Errorf("openapi-generator: %s", line)
		}
	}
	return filepath.Join(dir, "generated/src/main/java")
}

func (g generation) callJava(t *testing.T, dir string) {
	var sources []string
	err := filepath.WalkDir(filepath.Join(dir, "generated/src/main/java"), func(file string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(file, ".java") {
			sources = append(sources, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	libraries := filepath.Join(g.build, "java/*")
	args := []string{"-J" + quick[0], "-J" + quick[1], "-nowarn", "-proc:none", "-d", "classes", "-cp", libraries, filepath.Join(g.programs, "java/Calls.java")}
	g.run(t, dir, "javac", append(args, sources...)...)
	g.run(t, dir, "java", append(slices.Clone(quick), "-cp", "classes:"+libraries, "Calls")...)
}

// run runs a program, which must succeed, and returns its output.
func (g generation) run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	if strings.HasPrefix(program, "node_modules/") {
		cmd.Path = filepath.Join(dir, program)
	}
	cmd.Dir, cmd.Env = dir, g.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(program), err, out)
	}
	return string(out)
}

func link(t *testing.T, to, from string) {
	t.Helper()
	if err := os.Symlink(to, from); err != nil {
		t.Fatal(err)
	}
}
