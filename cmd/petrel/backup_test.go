package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pageCommands returns the lines of the code blocks in a page of the guide.
func pageCommands(t *testing.T, page string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../docs/guide", page))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for i, block := range strings.Split(string(b), "```\n") {
		if i%2 == 1 {
			list = append(list, strings.Split(strings.TrimSpace(block), "\n")...)
		}
	}
	return list
}

// The commands of the page work in the order in which they stand there.
func TestBackupByTheWordsOfTheGuide(t *testing.T) {
	dir := t.TempDir()
	s := serveHere(t, filepath.Join(dir, "srv/petrel"), "127.0.0.1:0")
	petrel(t, s.env(), "user", "create", "alice", "bob").want(t, exitOK)
	petrel(t, s.env(), "send", "--as", "bob", "--to", "alice", "kept").want(t, exitOK)
	places := strings.NewReplacer("/srv/", dir+"/srv/", "/var/", dir+"/var/", "/etc/", dir+"/etc/", "127.0.0.1:18080", "127.0.0.1:0", "127.0.0.1:18081", "127.0.0.1:0")
	env := []string{"PETREL_SERVER=http://" + s.admin}
	var served []string
	done := 0
	for _, line := range pageCommands(t, "backup.md") {
		args := strings.Fields(places.Replace(line))[1:]
		switch {
		case args[0] == "serve":
			again := serveHere(t, args[2], "127.0.0.1:0")
			served = append(served, again.http)
		case strings.Contains(line, "--adopt"): // see TestRestoredDatabasesGetANewHistory
		default:
			petrel(t, append(env, "PETREL_STORE__DIR="+s.data), args...).want(t, exitOK)
		}
		done++
	}
	if done < 7 || len(served) != 1 {
		t.Errorf("%d commands were found, and %d servers", done, len(served))
	}
	r := petrel(t, []string{"PETREL_SERVER=http://" + served[0], "PETREL_STORE__DIR=" + s.data}, "tail", "--as", "alice", "--last", "1", "--count", "1")
	r.want(t, exitOK, "bob: kept")
}

func TestBackupSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	data, to := filepath.Join(dir, "data"), filepath.Join(dir, "backups")
	at := []string{"PETREL_STORE__DIR=" + data}
	petrel(t, at, "backup", "--to", to).want(t, exitFailed, "there is no store")
	s := serveHere(t, data, "127.0.0.1:0")
	petrel(t, s.env(), "backup").want(t, exitUsage, "to")
	petrel(t, s.env(), "backup", "--to", to, "--rate", "fast").want(t, exitUsage, "--rate fast")
	petrel(t, s.env(), "backup", "--to", filepath.Join(data, "backups")).want(t, exitUsage, "is in the data folder")
	petrel(t, append(at, "PETREL_SERVER=http://127.0.0.1:1"), "backup", "--to", to, "--admin-key-file", fileWith(t, "pk_x")).want(t, exitUnreachable, "error unreachable")
	petrel(t, s.env(), "key", "create", "other", "--scope", "messages", "--out", filepath.Join(dir, "other.key")).want(t, exitOK)
	petrel(t, s.env(), "backup", "--to", to, "--admin-key-file", filepath.Join(dir, "other.key")).want(t, exitAuth, "error forbidden")
	petrel(t, s.env(), "backup", "--to", to, "--json").want(t, exitOK, `"name":"backup-000001"`)
	petrel(t, s.env(), "restore", "--from", to).want(t, exitFailed, "locked by")
	other := serveHere(t, filepath.Join(dir, "other"), "127.0.0.1:0")
	petrel(t, []string{"PETREL_SERVER=http://" + other.admin, "PETREL_STORE__DIR=" + data, "PETREL_ADMIN_KEY=" + adminKeyOf(t, other)}, "backup", "--to", to).want(t, exitFailed, "--server")
	s.stop()
	petrel(t, at, "restore", "--from", to).want(t, exitFailed, "not empty")
	petrel(t, at, "restore").want(t, exitUsage, "--from")
	petrel(t, at, "restore", "--adopt").want(t, exitUsage, "store.postgres is not set")
	petrel(t, at, "backup", "verify", filepath.Join(to, "nothing")).want(t, exitFailed, "nothing")
	file := filepath.Join(to, "backup-000001", "manifest.json")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.Replace(b, []byte("commit"), []byte("Commit"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	petrel(t, at, "backup", "verify", to).want(t, exitViolated, "manifest.json", "error bad_backup")
	petrel(t, at, "restore", "--from", to, "--data", filepath.Join(dir, "new")).want(t, exitViolated, "manifest.json", "error bad_backup")

	databases := append(at, "PETREL_STORE__POSTGRES=postgres://127.0.0.1:1/x")
	petrel(t, databases, "backup", "--to", to).want(t, exitUsage, "pg_basebackup", "petrel restore --adopt")
	petrel(t, databases, "restore", "--from", to).want(t, exitUsage, "--adopt")
	petrel(t, databases, "restore", "--adopt").want(t, exitUnreachable, "database_unreachable")
}

func adminKeyOf(t *testing.T, s *live) string {
	t.Helper()
	petrel(t, s.env(), "setup").want(t, exitOK)
	key, err := readSecret(filepath.Join(s.data, adminKeyName))
	if err != nil {
		t.Fatal(err)
	}
	return key
}
