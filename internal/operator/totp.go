package operator

import (
	"crypto/hmac"
	"crypto/sha1" // RFC 6238 says so, and many apps know no other
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

// The second factor of operators follows RFC 6238, in the form that every app knows: HMAC-SHA-1, six digits,
// steps of 30 s.
const (
	totpStep    = 30 * time.Second
	totpDigits  = 6
	totpSecret  = 20 // bytes, as RFC 4226 advises
	totpModulus = 1_000_000
)

var base32Text = base32.StdEncoding.WithPadding(base32.NoPadding)

// totp returns the digits that an app shows in a step.
func totp(secret []byte, step uint64) string {
	mac := hmac.New(sha1.New, secret)
	mac.Write(binary.BigEndian.AppendUint64(nil, step))
	sum := mac.Sum(nil)
	at := sum[len(sum)-1] & 15
	return fmt.Sprintf("%0*d", totpDigits, (binary.BigEndian.Uint32(sum[at:])&0x7fffffff)%totpModulus)
}

// Digits returns the digits that an app shows now.
func Digits(secret []byte, now time.Time) string {
	return totp(secret, uint64(now.Unix())/uint64(totpStep/time.Second))
}

// checkTOTP returns the step to which digits belong; 0: no valid one. Valid are the present step and, because
// clocks differ, the ones before and after. A step up to spent is not valid, so that digits work once.
func checkTOTP(secret []byte, digits string, now time.Time, spent uint64) uint64 {
	at, found := uint64(now.Unix())/uint64(totpStep/time.Second), uint64(0)
	for _, step := range []uint64{at - 1, at, at + 1} {
		if subtle.ConstantTimeCompare([]byte(totp(secret, step)), []byte(digits)) == 1 && step > spent {
			found = step
		}
	}
	return found
}

// SecretText returns the secret of a second factor in the form that people type.
func SecretText(secret []byte) string { return base32Text.EncodeToString(secret) }

// SecretURI returns the URI of a secret, which an app reads as a QR code. name is the operator's; "": not known.
func SecretURI(secret []byte, name string) string {
	const issuer = "Petrel"
	label := issuer
	if name != "" {
		label += ":" + name
	}
	return "otpauth://totp/" + url.PathEscape(label) + "?secret=" + SecretText(secret) + "&issuer=" + issuer
}

// parseSecret reads SecretText. Codes: invalid.
func parseSecret(text string) ([]byte, error) {
	b, err := base32Text.DecodeString(strings.ToUpper(strings.ReplaceAll(text, " ", "")))
	if err != nil || len(b) < 16 || len(b) > 64 {
		return nil, im.Errorf(im.CodeInvalid, "secret is that of BeginEnrollment, in base32")
	}
	return b, nil
}
