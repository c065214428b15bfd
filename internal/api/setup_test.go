package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"testing"
)

func TestSetupPolicyNamesThePagesOwnScriptAndStyle(t *testing.T) {
	for tag, want := range map[string]string{"script": setupScriptHash, "style": setupStyleHash} {
		_, rest, ok := bytes.Cut(setupPage, []byte("<"+tag+">"))
		body, _, ok2 := bytes.Cut(rest, []byte("</"+tag+">"))
		if !ok || !ok2 {
			t.Fatalf("the page has no %s", tag)
		}
		sum := sha256.Sum256(body)
		if got := base64.StdEncoding.EncodeToString(sum[:]); got != want {
			t.Errorf("hash of the %s is %s, the policy says %s", tag, got, want)
		}
	}
}
