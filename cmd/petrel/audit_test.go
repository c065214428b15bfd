package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
)

// Spec: P-10.9.
func TestAuditLogIsListedAndVerified(t *testing.T) {
	s := serveHere(t, filepath.Join(t.TempDir(), "data"), "127.0.0.1:0")
	petrel(t, s.env(), "user", "create", "alice").want(t, exitOK)
	petrel(t, s.env(), "user", "disable", "alice").want(t, exitOK)
	petrel(t, append(s.env(), "PETREL_ADMIN_KEY=pk_not_a_key"), "user", "list").want(t, exitAuth)

	eventually.True(t, "the refusal is listed", func() bool {
		return strings.Contains(petrel(t, s.env(), "audit", "list", "--refused").out, "unauthenticated")
	})
	petrel(t, s.env(), "audit", "list").want(t, exitOK, "EVENT", "start", "ListUsers", "Redeem", "CreateUsers", "users=alice", "DisableUser", "user=alice", "127.0.0.1", "(setup)")
	if all := jsonLines(t, petrel(t, s.env(), "audit", "list", "--since", "0", "--json")); len(all) < 4 || all[0]["event"] != "start" || all[0]["number"] != "1" {
		t.Errorf("as JSON: %v", all)
	}
	r := petrel(t, s.env(), "audit", "verify")
	r.want(t, exitOK, "head  local:", "records were read")
	head, _, _ := strings.Cut(strings.TrimPrefix(r.out, "head  "), "\n")
	petrel(t, s.env(), "audit", "verify", "--head", head).want(t, exitOK)
	petrel(t, s.env(), "audit", "verify", "--head", head[:len(head)-1]+"x").want(t, exitViolated, "changed", "error violated")
	petrel(t, s.env(), "audit", "verify", "--head", "nonsense").want(t, exitUsage)
}
