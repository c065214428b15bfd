package sdk

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/wire"
	petrel "github.com/petrel-im/petrel/sdk/go"
)

// programs are those of sdk/go/example. The first test that needs one builds all, into a
// folder that TestMain removes.
var programs struct {
	sync.Once
	dir string
	err error
}

func buildPrograms() {
	if programs.dir, programs.err = os.MkdirTemp("", "petrel-examples-"); programs.err != nil {
		return
	}
	build := exec.Command("go", "build", "-o", programs.dir+string(filepath.Separator), "./example/...")
	build.Dir = filepath.Join("..", "..", "sdk", "go")
	if out, err := build.CombinedOutput(); err != nil {
		programs.err = fmt.Errorf("build the examples: %w\n%s", err, out)
	}
}

// example is a program of sdk/go/example that has not started.
func example(t *testing.T, name, server, token string) *exec.Cmd {
	t.Helper()
	programs.Do(buildPrograms)
	if programs.err != nil {
		t.Fatal(programs.err)
	}
	bin := filepath.Join(programs.dir, name)
	cmd := exec.Command(bin, strings.TrimPrefix(server, "ws://"))
	cmd.Dir = t.TempDir() // for its store
	cmd.Env = append(os.Environ(), "PETREL_TOKEN="+token)
	return cmd
}

func TestExamplesDoWhatTheySay(t *testing.T) {
	t.Parallel()
	s := imtest.Start(t, imtest.Options{})
	tokens := s.Users("", "alice", "bob")
	url := s.URL(wire.WebSocket)
	out, err := example(t, "hello", url, tokens[0]).CombinedOutput()
	if err != nil || string(out) != "stored with seq 1\n" {
		t.Errorf("hello: got %q, %v", out, err)
	}
	out, err = example(t, "hello", url, "pt_default.alice.wrong").CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte(petrel.CodeUnauthenticated)) {
		t.Errorf("hello with a wrong token: got %q, %v", out, err)
	}

	echo := example(t, "echo", url, tokens[1])
	var said bytes.Buffer
	echo.Stderr = &said
	alice := run(t, petrel.Options{URL: url, Token: petrel.StaticToken(tokens[0])}).synced()
	for i, want := range []string{"[hello You said: hello]", "[hello You said: hello again You said: again]"} {
		cmd := *echo // a second start
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		conv := alice.Direct("bob")
		if i == 1 {
			alice.send(petrel.Draft{User: "bob", Text: "again"})
		}
		alice.until("the echo "+want, func() bool { return strings.Join(alice.texts(conv), " ") == strings.Trim(want, "[]") })
		alice.until("the echo has moved on", func() bool {
			ms := alice.Messages(conv, 0, 0)
			return ms[len(ms)-2].Read == 1
		})
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("echo: %v\n%s", err, said.String())
		}
	}
}

// A bot that is killed again and again answers each message once, in order.
func TestEchoAnswersOnceWhenItIsKilled(t *testing.T) {
	t.Parallel()
	s := imtest.Start(t, imtest.Options{})
	tokens := s.Users("", "alice", "bob")
	url := s.URL(wire.WebSocket)
	echo := example(t, "echo", url, tokens[1])
	alice := run(t, petrel.Options{URL: url, Token: petrel.StaticToken(tokens[0])}).synced()
	const messages, kills = 60, 4
	var want []string
	for i := range messages {
		alice.send(petrel.Draft{User: "bob", Text: fmt.Sprint(i)})
		want = append(want, fmt.Sprint("You said: ", i))
	}
	answers := func() (texts []string) {
		for _, m := range alice.Messages(alice.Direct("bob"), 0, 0) {
			if m.From == "bob" {
				texts = append(texts, m.GetText())
			}
		}
		return texts
	}
	for k := range kills + 1 {
		cmd := *echo
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		enough := messages * (k + 1) / (kills + 1)
		alice.until(fmt.Sprint(enough, " answers"), func() bool { return len(answers()) >= enough })
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil || said.Len() > 0 {
			t.Errorf("echo ended with %v: %s", err, said.String())
		}
	}
	if got := answers(); !slices.Equal(got, want) {
		t.Errorf("the answers are %q", got)
	}
}

// Messages of two conversations have the same seqs, and each gets its answer.
func TestEchoAnswersInEachConversation(t *testing.T) {
	s := imtest.Start(t, imtest.Options{})
	tokens := s.Users("", "alice", "bob", "carol")
	url := s.URL(wire.WebSocket)
	const messages = 10
	writers := []*device{run(t, petrel.Options{URL: url, Token: petrel.StaticToken(tokens[0])}), run(t, petrel.Options{URL: url, Token: petrel.StaticToken(tokens[2])})}
	for range messages {
		for _, w := range writers {
			w.synced().send(petrel.Draft{User: "bob", Text: "hi"})
		}
	}
	echo := example(t, "echo", url, tokens[1])
	var said bytes.Buffer
	echo.Stderr = &said
	if err := echo.Start(); err != nil {
		t.Fatal(err)
	}
	for _, w := range writers {
		w.until("the answers", func() bool { return len(w.texts(w.Direct("bob"))) >= 2*messages })
	}
	if err := echo.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := echo.Wait(); err != nil {
		t.Errorf("echo: %v\n%s", err, said.String())
	}
}

func TestReadmeShowsTheExample(t *testing.T) {
	folder := filepath.Join("..", "..", "sdk", "go")
	readme, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(filepath.Join(folder, "example", "hello", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(code), "func main()")
	if body == "" || !strings.Contains(string(readme), "func main()"+body) {
		t.Error("the program in the README is not the one in example/hello")
	}
	code, err = os.ReadFile(filepath.Join(folder, "example", "echo", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	from := strings.Index(string(code), "\t\tfor m, err := range")
	to := strings.Index(string(code), "\t\treturn nil")
	if from < 0 || to < from || !strings.Contains(string(readme), strings.TrimPrefix(strings.ReplaceAll(string(code[from:to]), "\n\t\t", "\n"), "\t\t")) {
		t.Error("the loop in the README is not the one in example/echo")
	}
}
