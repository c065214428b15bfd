// Package password says which passwords may be chosen, hashes them, and bounds how often they may be guessed.
//
// password.go hashes, rules.go has the rules, stolen.go the file of stolen passwords, attempts.go the bounds.
package password

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/argon2"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// Work is the cost of a hash.
type Work struct {
	Memory  uint32 // KiB
	Time    uint32 // passes over the memory
	Threads uint8
}

// today is the default cost of new hashes: about 30 ms of one core.
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
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, w.Memory, w.Time, w.Threads,
		b64.EncodeToString(salt), b64.EncodeToString(hash))
}

func parsePHC(s string) (w Work, salt, hash []byte, err error) {
	var version int
	f := strings.Split(s, "$")
	if len(f) != 6 || f[0] != "" || f[1] != "argon2id" {
		return w, nil, nil, fmt.Errorf("read password hash: %w", store.ErrCorrupt)
	}
	_, err = fmt.Sscanf(f[2]+" "+f[3], "v=%d m=%d,t=%d,p=%d", &version, &w.Memory, &w.Time, &w.Threads)
	if err == nil {
		salt, err = base64.RawStdEncoding.DecodeString(f[4])
	}
	if err == nil {
		hash, err = base64.RawStdEncoding.DecodeString(f[5])
	}
	if err != nil || version != argon2.Version || w.Time == 0 || w.Threads == 0 || len(hash) == 0 {
		return w, nil, nil, fmt.Errorf("read password hash: %w", store.ErrCorrupt)
	}
	return w, salt, hash, nil
}

// maxWaitingHashes is how many hashes may wait in each lane: in that of strangers, and in that of the cores.
const maxWaitingHashes = 64

// Passwords checks and hashes passwords. It bounds the memory and the cores that this takes. If there are several
// cores, strangers never have the last one, so they do not delay known users.
type Passwords struct {
	stolen string   // file of stolen passwords; "": none
	words  []string // that must not be a password, even with digits and signs around them

	work      Work   // of new hashes
	DummyHash string // a hash that no password fits; checked for a user without a password, to take as long
	cores     lane
	strangers lane // they pass it before they wait for a core
}

// lane lets only as many pass at once as it has slots.
type lane struct {
	slots   chan struct{} // a token for each hash that has passed
	waiting atomic.Int32
}

// New makes Passwords with the work of new hashes (zero: what OWASP advises), the file of stolen passwords
// ("": none), and words that must not be a password.
func New(w Work, stolen string, words []string) (*Passwords, error) {
	if w == (Work{}) {
		w = today
	}
	if err := checkStolen(stolen); err != nil {
		return nil, err
	}
	n := runtime.NumCPU()
	return &Passwords{
		stolen: stolen, words: words, work: w, DummyHash: phc(w, make([]byte, saltBytes), random(hashBytes)),
		cores: lane{slots: make(chan struct{}, n)}, strangers: lane{slots: make(chan struct{}, max(1, n-1))},
	}, nil
}

// enter waits for a core. known: the caller is no stranger. Codes: overloaded.
func (p *Passwords) enter(ctx context.Context, known bool) error {
	if known {
		return p.cores.enter(ctx)
	}
	if err := p.strangers.enter(ctx); err != nil {
		return err
	}
	err := p.cores.enter(ctx)
	if err != nil {
		p.strangers.leave()
	}
	return err
}

func (p *Passwords) leave(known bool) {
	p.cores.leave()
	if !known {
		p.strangers.leave()
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

// Hash returns the hash of a password, as a PHC string. Codes: overloaded.
func (p *Passwords) Hash(ctx context.Context, known bool, password string) (string, error) {
	if err := p.enter(ctx, known); err != nil {
		return "", err
	}
	defer p.leave(known)
	salt := random(saltBytes)
	return phc(p.work, salt, p.work.key([]byte(password), salt, hashBytes)), nil
}

// Verify reports whether a password fits a stored PHC string, and whether that string is old: made with other
// work than new ones. Codes: overloaded.
func (p *Passwords) Verify(ctx context.Context, known bool, stored, password string) (ok, old bool, err error) {
	w, salt, want, err := parsePHC(stored)
	if err != nil {
		return false, false, err
	}
	if err := p.enter(ctx, known); err != nil {
		return false, false, err
	}
	defer p.leave(known)
	// A password that is too long costs no more than another one, and does not fit.
	got := w.key([]byte(password[:min(len(password), maxPassword)]), salt, uint32(len(want)))
	ok = subtle.ConstantTimeCompare(got, want) == 1 && len(password) <= maxPassword
	return ok, w != p.work, nil
}

// Stretch derives 32 bytes from a secret that could be guessed; the same salt gives the same bytes. A guess at
// the secret costs as much as one at a hashed password. Codes: overloaded.
func (p *Passwords) Stretch(ctx context.Context, known bool, secret, salt []byte) ([]byte, error) {
	if err := p.enter(ctx, known); err != nil {
		return nil, err
	}
	defer p.leave(known)
	return p.work.key(secret, salt, hashBytes), nil
}
