package foreign_test

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// schemathesis makes requests of /openapi.json, good ones and bad ones, and
// holds the answers against it: no server error, no undocumented status, type
// or header, nothing accepted that the schema forbids, nobody let in without a
// credential. PETREL_EXAMPLES is how many requests of each kind it makes, 2 by itself
// and 200 for `make long`. Spec: P-12.1, P-12.3.
func TestSchemathesisFindsNothing(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(root, "build/venv/bin/schemathesis")
	needs(t, bin, "python3 -m venv build/venv && build/venv/bin/pip install -r test/foreign/python/requirements.txt")
	keyFile := filepath.Join(t.TempDir(), "jwt")
	if err := os.WriteFile(keyFile, []byte("a secret that nobody else has, of some length"), 0o600); err != nil {
		t.Fatal(err)
	}
	srv := startServer(t,
		"PETREL_LIMITS__CONNECTIONS_PER_IP=-1", "PETREL_LIMITS__NEW_CONNECTIONS_PER_IP_PER_S=-1", "PETREL_LIMITS__UNAUTHENTICATED_PER_IP=-1",
		"PETREL_LIMITS__SENDS_PER_S=-1", "PETREL_LIMITS__SEND_BURST=-1", "PETREL_LIMITS__GROUPS_PER_H=-1",
		"PETREL_ACCOUNTS__LOGINS_PER_MIN=-1", "PETREL_ACCOUNTS__LOGINS_PER_IP_PER_MIN=-1", "PETREL_ACCOUNTS__REGISTRATIONS_PER_IP_PER_H=-1",
		"PETREL_ACCOUNTS__LOOK_UPS_PER_MIN=-1", "PETREL_ACCOUNTS__REFRESHES_PER_MIN=-1",
		"PETREL_JWT__KEY_FILE="+keyFile, "PETREL_JWT__ALGORITHM=HS256", "PETREL_JWT__ISSUER=idp", "PETREL_JWT__AUDIENCE=petrel")
	text, err := os.ReadFile(srv.tokens)
	if err != nil {
		t.Fatal(err)
	}
	var tokens map[string]string
	if err := json.Unmarshal(text, &tokens); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ who, credential, tags, at string }{
		// Not alice: the examples are about her, and some end her tokens.
		{"user", tokens["carol"], "--exclude-tag", srv.http},
		{"operator", srv.adminKey, "--include-tag", srv.admin},
	} {
		t.Run(c.who, func(t *testing.T) {
			t.Parallel() // these wait for answers; the server has room for both
			cmd := exec.CommandContext(t.Context(), bin, "--config-file", filepath.Join(root, "test/foreign/python/schemathesis.toml"), "run", "http://"+c.at+"/openapi.json",
				"-H", "Authorization: Bearer "+c.credential, c.tags, "AdminService", c.tags, "OperatorService", c.tags, "SetupService", "--max-examples", cmp.Or(os.Getenv("PETREL_EXAMPLES"), "2"), "--workers", "1", "--continue-on-failure", "--no-color")
			// One worker: Python 3.11 loses count of its own recursion when two threads
			// parse at the same time, and that is no finding.
			cmd.Dir = t.TempDir() // it keeps examples where it runs
			cmd.Env = append(os.Environ(), "SCHEMATHESIS_HOOKS="+filepath.Join(root, "test/foreign/python/proto_json.py"), "PYTHONDONTWRITEBYTECODE=1")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%s", c.who, err, lastLines(out, 200))
			} else {
				t.Logf("%s", lastLines(out, 20))
			}
		})
	}
}
