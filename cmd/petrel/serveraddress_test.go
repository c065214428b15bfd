package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
)

func TestHangupReloadsAndEndsNothing(t *testing.T) {
	s := serveShared(t)
	figure := func() string {
		_, figures := get(t, s, "/metrics")
		_, rest, _ := strings.Cut(figures, "\npetrel_reloads_total ")
		line, _, _ := strings.Cut(rest, "\n")
		return line
	}
	before := figure()
	if before == "" {
		t.Fatal("/metrics does not count the reloads")
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the signal has reloaded the configuration", func() bool { return figure() != before })
	petrel(t, s.env(), "user", "create", "alice-hup").want(t, exitOK)
}

// A command goes to the server that was named, and to no other one.
func TestOperatorsAddressFollowsTheServer(t *testing.T) {
	file := fileWith(t, "[listen]\nhttp = \"127.0.0.1:9000\"\nadmin = \"127.0.0.1:9002\"\n")
	for _, c := range []struct {
		env           []string
		server, admin string // flags
		conf          string
		want, wantAdm string
	}{
		{nil, "", "", "", "http://127.0.0.1:8080", "http://127.0.0.1:8082"},
		{nil, "", "", file, "http://127.0.0.1:9000", "http://127.0.0.1:9002"},
		{nil, "http://localhost:8080/", "", "", "http://localhost:8080", "http://127.0.0.1:8082"},
		{nil, "http://localhost:9000", "", file, "http://localhost:9000", "http://127.0.0.1:9002"},
		{nil, "http://127.0.0.1:9001", "", file, "http://127.0.0.1:9001", "http://127.0.0.1:9001"},
		{nil, "https://chat.example.org", "", "", "https://chat.example.org", "https://chat.example.org"},
		{[]string{"PETREL_SERVER=https://chat.example.org"}, "", "http://127.0.0.1:18082", "", "https://chat.example.org", "http://127.0.0.1:18082"},
		{[]string{"PETREL_ADMIN_SERVER=http://10.0.0.1:8082"}, "", "", "", "http://127.0.0.1:8080", "http://10.0.0.1:8082"},
		{nil, "", "", fileWith(t, "[listen]\nadmin = \"\"\n"), "http://127.0.0.1:8080", "http://127.0.0.1:8080"},
		{nil, "", "", fileWith(t, "[listen]\nhttp = \":8443\"\nadmin = \"127.0.0.1:8082\"\n[tls]\ncert_file = \"c\"\nkey_file = \"k\"\n"), "https://127.0.0.1:8443", "http://127.0.0.1:8082"},
		{nil, "", "", fileWith(t, "[listen]\nhttp = \":8443\"\nadmin = \":8444\"\n[tls]\ncert_file = \"c\"\nkey_file = \"k\"\n"), "https://127.0.0.1:8443", "https://127.0.0.1:8444"},
	} {
		got, err := (&cli{env: c.env, server: c.server, adminServer: c.admin, configFile: c.conf}).target(&cobra.Command{})
		if err != nil || got.url != c.want || got.admin != c.wantAdm {
			t.Errorf("%+v: %s and %s, %v", c, got.url, got.admin, err)
		}
	}
}

// The setup link has the address of its server, so the first command finds a server on other ports too.
func TestSetupLinkKnowsItsServer(t *testing.T) {
	s := serveHere(t, filepath.Join(t.TempDir(), "data"), "127.0.0.1:0")
	env := []string{"PETREL_SERVER=http://" + s.http, "PETREL_STORE__DIR=" + s.data}
	petrel(t, env, "user", "create", "alice").want(t, exitOK, "alice")
	env = []string{"PETREL_SERVER=http://" + s.http, "PETREL_STORE__DIR=" + t.TempDir()}
	key := filepath.Join(s.data, adminKeyName)
	petrel(t, env, "key", "list", "--admin-key-file", key).want(t, exitFailed, "error no_method", "listen.admin", "--admin-server")
	petrel(t, env, "key", "list", "--admin-key-file", key, "--admin-server", "http://"+s.admin).want(t, exitOK, "admin")
}

// Commands find a server whose addresses were given by flags by its data folder. When the server has ended, the folder
// says nothing about addresses.
func TestDataFolderKnowsTheAddressesOfItsServer(t *testing.T) {
	s := serveHere(t, filepath.Join(t.TempDir(), "data"), "127.0.0.1:0")
	petrel(t, nil, "--data", s.data, "user", "create", "alice").want(t, exitOK, "alice")
	petrel(t, nil, "--data", s.data, "key", "list").want(t, exitOK, "admin")
	petrel(t, nil, "--data", s.data, "key", "list", "--server", "http://"+s.http).want(t, exitOK, "admin")
	name := filepath.Join(s.data, addressesName)
	if i, err := os.Stat(name); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v; want mode 0600", name, i, err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	s.stop()
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("%s is there after the stop: %v", name, err)
	}
	if err := os.WriteFile(name, text, 0o600); err != nil { // as a server leaves it that is killed
		t.Fatal(err)
	}
	petrel(t, nil, "--data", s.data, "key", "list").want(t, exitUnreachable, "error unreachable", "no server runs on the data folder "+s.data, "killed", "petrel serve --data "+s.data)
	petrel(t, nil, "--data", s.data, "key", "list", "--server", "http://127.0.0.1:1").want(t, exitUnreachable, "http://127.0.0.1:1")
}
