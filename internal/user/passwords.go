package user

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed" // commonest
	"encoding/base64"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"golang.org/x/crypto/argon2"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// Passwords have minPassword to maxPassword bytes.
const (
	minPassword = 8
	maxPassword = 1024
)

// checkPassword says why a password is not taken. Codes: weak_password; others are failures of
// the file of stolen passwords. Spec: P-11.1.
func (us *Users) checkPassword(u im.User, password string) error {
	if len(password) < minPassword || len(password) > maxPassword {
		return im.Errorf(im.CodeWeakPassword, "a password has %d to %d bytes", minPassword, maxPassword)
	}
	if isCommon(u, password) {
		return im.Errorf(im.CodeWeakPassword, "this password is one of the first that somebody would try; choose another one")
	}
	if us.o.StolenPasswords == "" {
		return nil
	}
	stolen, err := isStolen(us.o.StolenPasswords, password)
	if err == nil && stolen {
		return im.Errorf(im.CodeWeakPassword, "this password was stolen elsewhere and is in public lists; choose another one")
	}
	return err
}

// isCommon tells whether a password is among the first that somebody would try for a user.
func isCommon(u im.User, password string) bool {
	lower := strings.ToLower(password)
	// A name of the product or of an operator, or the user's own one, with what people add to it.
	word := strings.TrimFunc(lower, func(r rune) bool { return !unicode.IsLetter(r) })
	return lower == strings.ToLower(string(u)) || slices.Contains(reserved, word) ||
		!strings.Contains(lower, "\n") && strings.Contains(commonest, "\n"+lower+"\n")
}

// commonest are the passwords of at least minPassword bytes that lists of stolen
// ones have most often, in lower case, one a line: the first 4,000 of those in zxcvbn
// (MIT License, Copyright Dropbox), and some that are common in China or with servers.
//
//go:embed commonest.txt
var commonest string

// Work is how dear a hash is.
type Work struct {
	Memory  uint32 // KiB
	Time    uint32 // passes over it
	Threads uint8
}

// today is what new hashes are made with: about 30 ms of one core.
var today = Work{Memory: 19456, Time: 2, Threads: 1}

const (
	saltBytes = 16
	hashBytes = 32
)

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

func (w Work) key(secret, salt []byte, n uint32) []byte {
	return argon2.IDKey(secret, salt, w.Time, w.Memory, w.Threads, n)
}

func phc(w Work, salt, hash []byte) string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, w.Memory, w.Time, w.Threads, b64.EncodeToString(salt), b64.EncodeToString(hash))
}

func parsePHC(s string) (w Work, salt, hash []byte, err error) {
	var version int
	p := strings.Split(s, "$")
	if len(p) != 6 || p[0] != "" || p[1] != "argon2id" {
		return w, nil, nil, fmt.Errorf("read password hash: %w", store.ErrCorrupt)
	}
	_, err = fmt.Sscanf(p[2]+" "+p[3], "v=%d m=%d,t=%d,p=%d", &version, &w.Memory, &w.Time, &w.Threads)
	if err == nil {
		salt, err = base64.RawStdEncoding.DecodeString(p[4])
	}
	if err == nil {
		hash, err = base64.RawStdEncoding.DecodeString(p[5])
	}
	if err != nil || version != argon2.Version || w.Time == 0 || w.Threads == 0 || len(hash) == 0 {
		return w, nil, nil, fmt.Errorf("read password hash: %w", store.ErrCorrupt)
	}
	return w, salt, hash, nil
}

// maxWaitingHashes is how many logins of one kind may wait for the cores that
// hash: of strangers, and of known devices.
const maxWaitingHashes = 64

// hasher bounds the memory and the cores that passwords take. Strangers never
// have the last core, so what they ask for does not hold up who is known.
type hasher struct {
	work      Work   // of new hashes
	nobodys   string // checked for who has no password, so that they take as long; its bytes were drawn, so none fits
	cores     lane
	strangers lane // through which they come to the cores
}

// lane lets as many pass at once as fit into slots.
type lane struct {
	slots   chan struct{} // a token for each that has passed
	waiting atomic.Int32
}

func newHasher(w Work) hasher {
	n := runtime.NumCPU()
	return hasher{
		work: w, nobodys: phc(w, make([]byte, saltBytes), random(hashBytes)),
		cores: lane{slots: make(chan struct{}, n)}, strangers: lane{slots: make(chan struct{}, max(1, n-1))},
	}
}

// enter waits for a core. Codes: overloaded.
func (h *hasher) enter(ctx context.Context, known bool) error {
	if known {
		return h.cores.enter(ctx)
	}
	if err := h.strangers.enter(ctx); err != nil {
		return err
	}
	err := h.cores.enter(ctx)
	if err != nil {
		h.strangers.leave()
	}
	return err
}

func (h *hasher) leave(known bool) {
	h.cores.leave()
	if !known {
		h.strangers.leave()
	}
}

func (l *lane) enter(ctx context.Context) error {
	select {
	case l.slots <- struct{}{}:
		return nil
	default:
	}
	defer l.waiting.Add(-1)
	if l.waiting.Add(1) > maxWaitingHashes {
		return &im.Error{Code: im.CodeOverloaded, RetryAfter: 2 * time.Second}
	}
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait to hash a password: %w", ctx.Err())
	}
}

func (l *lane) leave() { <-l.slots }

// hash makes a PHC string. Codes: overloaded.
func (h *hasher) hash(ctx context.Context, known bool, password string) (string, error) {
	if err := h.enter(ctx, known); err != nil {
		return "", err
	}
	defer h.leave(known)
	salt := random(saltBytes)
	return phc(h.work, salt, h.work.key([]byte(password), salt, hashBytes)), nil
}

// verify tells whether a password fits a PHC string, and whether that was made
// with other work than new ones are. Codes: overloaded.
func (h *hasher) verify(ctx context.Context, known bool, stored, password string) (ok, old bool, err error) {
	w, salt, want, err := parsePHC(stored)
	if err != nil {
		return false, false, err
	}
	if err := h.enter(ctx, known); err != nil {
		return false, false, err
	}
	defer h.leave(known)
	// One that is too long costs no more than another one, and does not fit.
	got := w.key([]byte(password[:min(len(password), maxPassword)]), salt, uint32(len(want)))
	ok = subtle.ConstantTimeCompare(got, want) == 1 && len(password) <= maxPassword
	return ok, w != h.work, nil
}

// Stretch makes of a low-entropy secret what is as dear to guess as a password
// is from its hash: 32 bytes, the same for the same salt. known: somebody with a
// token asks for it. Codes: overloaded.
func (us *Users) Stretch(ctx context.Context, known bool, secret, salt []byte) ([]byte, error) {
	if err := us.hasher.enter(ctx, known); err != nil {
		return nil, err
	}
	defer us.hasher.leave(known)
	return us.hasher.work.key(secret, salt, hashBytes), nil
}
