package im

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

func TestCatalogueIsComplete(t *testing.T) {
	clause := regexp.MustCompile(`^P-\d+\.\d+$`)
	for code, i := range catalogue {
		if i.Text == "" || i.Hint == "" || !clause.MatchString(i.Clause) {
			t.Errorf("%s: text %q, hint %q, clause %q", code, i.Text, i.Hint, i.Clause)
		}
		if r := []rune(i.Text)[0]; unicode.IsUpper(r) || strings.HasSuffix(i.Text, ".") {
			t.Errorf("%s: text %q begins with a capital or ends with a full stop", code, i.Text)
		}
		if i.HTTP < 400 || i.HTTP > 599 {
			t.Errorf("%s: HTTP status %d", code, i.HTTP)
		}
		if i.Close != 0 && (i.Close < 1000 || i.Close > 4999) {
			t.Errorf("%s: close code %d", code, i.Close)
		}
		if i.Reconnect && i.Close == 0 {
			t.Errorf("%s: says to come back and does not close", code)
		}
		if i.Settled && (i.Retryable || i.Close != 0) {
			t.Errorf("%s: settled, and retryable (%t) or closing (%d)", code, i.Retryable, i.Close)
		}
	}
}

// Only these codes reject a send (promise I3). Before you add one, be sure that the message
// is not stored and that this attempt will never store it.
func TestSettledCodesAreThese(t *testing.T) {
	want := map[Code]bool{
		CodeConflict: true, CodeNotMember: true, CodeNoConversation: true, CodeNoUser: true, CodeForbidden: true,
		CodeInvalid: true, CodeTooLarge: true, CodeUnsupported: true, CodeNoTarget: true, CodeTooLate: true, CodeFrozen: true,
		CodeMuted: true,
	}
	got := map[Code]bool{}
	for code, i := range catalogue {
		if i.Settled {
			got[code] = true
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("settled codes (-want +got):\n%s", d)
	}
}

func TestCatalogueIsThatOfTheContract(t *testing.T) {
	b, err := os.ReadFile("../../proto/errors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Errors []struct {
			Code     Code
			CodeInfo `yaml:",inline"`
		}
	}
	if err := yaml.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	want := map[Code]CodeInfo{}
	for _, e := range f.Errors {
		if _, twice := want[e.Code]; twice {
			t.Errorf("%s is twice in the catalogue", e.Code)
		}
		want[e.Code] = e.CodeInfo
	}
	if d := cmp.Diff(want, catalogue); d != "" {
		t.Errorf("generated catalogue is stale: make gen (-errors.yaml +codes_gen.go):\n%s", d)
	}
}

func TestErrorTextIsItsOwnOrTheCatalogues(t *testing.T) {
	if got, want := (&Error{Code: CodeNotMember}).Error(), CodeNotMember.Info().Text; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if got := Errorf(CodeInvalid, "title has at most %d bytes", 9).Error(); got != "title has at most 9 bytes" {
		t.Errorf("text %q", got)
	}
}

func TestCodeOf(t *testing.T) {
	e := &Error{Code: CodeRateLimited, RetryAfter: time.Second}
	for _, c := range []struct {
		err  error
		want Code
	}{
		{e, CodeRateLimited}, {fmt.Errorf("send: %w", e), CodeRateLimited}, {errors.Join(errors.New("a"), e), CodeRateLimited},
		{errors.New("disk"), CodeInternal}, {nil, CodeInternal},
	} {
		if got := CodeOf(c.err); got != c.want {
			t.Errorf("code of %v is %s, want %s", c.err, got, c.want)
		}
	}
}

func TestUnknownCodeIsAnInternalError(t *testing.T) {
	if got, want := Code("of a later version").Info(), CodeInternal.Info(); got != want {
		t.Errorf("info %+v, want %+v", got, want)
	}
}

func TestAssertPanicsOnlyWhenBroken(t *testing.T) {
	Assert(true, "fine")
	defer func() {
		if p := fmt.Sprint(recover()); p != "petrel: seq 7" {
			t.Errorf("panic %q", p)
		}
	}()
	Assert(false, "seq %d", 7)
}
