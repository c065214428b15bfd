package operator

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/transaction"
	"github.com/petrel-im/petrel/internal/user"
)

// ScopeAdmin covers every other scope. Only with it can keys be made.
const ScopeAdmin = "admin"

// scopes are the scopes that a key may have. Spec: P-10.6.
var scopes = []string{ScopeAdmin, "users", "tokens", "conversations", "messages", "server", "backup"}

// Key is an admin key without its secret.
type Key struct {
	ID         string    // names the key, and does not reveal it
	Name       string    // for people
	Tenant     im.Tenant // the only one it may act on; 0: all
	TenantName string    // "": all
	Scopes     []string
	Created    time.Time

	Operator string // name of the operator whose session this is; then ID and Name are theirs; else ""
}

// Covers reports whether the key may do what needs a scope.
func (k *Key) Covers(scope string) bool {
	return slices.Contains(k.Scopes, scope) || slices.Contains(k.Scopes, ScopeAdmin)
}

// keyPrefix makes keys recognisable to secret scanners.
const keyPrefix = "pk_"

// putKey stores a new admin key, of which it keeps only the hash.
func (c *change) putKey(key string, rec *storepb.Token) error {
	rec.CreatedMs = c.os.nowMs()
	value, err := rec.MarshalVT()
	sum := sha256.Sum256([]byte(key))
	c.Create(store.Tokens, 0, sum[:], value)
	return err
}

func (c *change) hasKey(ctx context.Context, key string) (bool, error) {
	sum := sha256.Sum256([]byte(key))
	value, err := c.Record(ctx, store.Tokens, 0, sum[:])
	return value != nil, err
}

// keyIDBytes is how many bytes of a key's hash make its ID.
const keyIDBytes = 8

func (os *Operators) key(ctx context.Context, sum []byte, rec *storepb.Token) (Key, error) {
	name, err := os.users.TenantName(ctx, im.Tenant(rec.Tenant))
	return Key{
		ID: hex.EncodeToString(sum[:keyIDBytes]), Name: rec.Name, Tenant: im.Tenant(rec.Tenant), TenantName: name,
		Scopes: rec.Scopes, Created: time.UnixMilli(int64(rec.CreatedMs)).UTC(),
	}, err
}

// CreateKey makes an admin key and returns it with its description. The key can be shown only this once.
// tenantName is the only tenant that it may act on; "": all. Codes: invalid.
func (os *Operators) CreateKey(ctx context.Context, name, tenantName string, of []string) (string, Key, error) {
	if name == "" || len(name) > 64 || !utf8.ValidString(name) {
		return "", Key{}, im.Errorf(im.CodeInvalid, "name has 1 to 64 bytes")
	}
	of, err := checkScopes(of)
	if err != nil {
		return "", Key{}, err
	}
	rec := &storepb.Token{Name: name, Scopes: of}
	if tenantName != "" {
		t, err := os.users.EnsureTenant(ctx, tenantName)
		if err != nil {
			return "", Key{}, err
		}
		rec.Tenant = uint32(t)
	}
	key := keyPrefix + secret()
	err = os.change(ctx, func(c *change) error { return c.putKey(key, rec) })
	if err != nil {
		return "", Key{}, err
	}
	sum := sha256.Sum256([]byte(key))
	k, err := os.key(ctx, sum[:], rec)
	return key, k, err
}

// checkScopes sorts scopes, and refuses unknown ones. Codes: invalid.
func checkScopes(of []string) ([]string, error) {
	if len(of) == 0 {
		return nil, im.Errorf(im.CodeInvalid, "scopes has at least one of %s", strings.Join(scopes, ", "))
	}
	for _, s := range of {
		if !slices.Contains(scopes, s) {
			return nil, im.Errorf(im.CodeInvalid, "there is no scope %.32q; the scopes are %s", s,
				strings.Join(scopes, ", "))
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(of))), nil
}

// Keys lists the admin keys, oldest first.
func (os *Operators) Keys(ctx context.Context) ([]Key, error) {
	type found struct {
		sum []byte
		rec *storepb.Token
	}
	var all []found
	err := transaction.Each(ctx, os.store, "key", store.Tokens, 0, nil,
		func(sum, _ []byte, rec *storepb.Token) { all = append(all, found{sum, rec}) })
	var keys []Key
	for _, f := range all {
		if err != nil {
			return nil, err
		}
		var k Key
		k, err = os.key(ctx, f.sum, f.rec)
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y Key) int { return cmp.Or(x.Created.Compare(y.Created), cmp.Compare(x.ID, y.ID)) })
	return keys, err
}

// revocations is the key of the setting that counts revoked keys. Each revocation rewrites it, so if two nodes
// revoke the last two keys at once, one of them fails and begins anew.
var revocations = []byte("revocations")

// RevokeKey makes an admin key void. It does not revoke the last key that may make keys for all tenants: without it
// nobody could make one. Codes: no_key, invalid. Spec: P-10.6.
func (os *Operators) RevokeKey(ctx context.Context, id string) error {
	return os.change(ctx, func(c *change) error {
		count, err := c.Record(ctx, store.Settings, 0, revocations)
		if err != nil {
			return err
		}
		keys, err := os.Keys(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(keys, func(k Key) bool { return k.ID == id })
		if i < 0 {
			return im.Errorf(im.CodeNoKey, "there is no key %.32q", id)
		}
		others := slices.Delete(slices.Clone(keys), i, i+1)
		if unbound(keys[i]) && !slices.ContainsFunc(others, unbound) {
			return im.Errorf(im.CodeInvalid, "this is the last key with the scope %s; make another one first",
				ScopeAdmin)
		}
		prefix, err := hex.DecodeString(id)
		if err != nil {
			return err
		}
		var n [8]byte
		copy(n[:], count)
		c.Put(store.Settings, 0, revocations, binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(n[:])+1))
		return os.store.Records(ctx, store.Tokens, 0, prefix, func(sum, _ []byte) bool {
			c.Put(store.Tokens, 0, slices.Clone(sum), nil)
			return true
		})
	})
}

func unbound(k Key) bool { return k.Tenant == 0 && k.Covers(ScopeAdmin) }

// AuthenticateKey checks an admin key and returns what it may do. Codes: unauthenticated. Spec: P-10.2.
func (os *Operators) AuthenticateKey(ctx context.Context, key string) (Key, error) {
	if !strings.HasPrefix(key, keyPrefix) || len(key) > user.MaxToken {
		return Key{}, im.Errorf(im.CodeUnauthenticated, "this call needs an admin key")
	}
	sum := sha256.Sum256([]byte(key))
	value, err := os.store.Record(ctx, store.Tokens, 0, sum[:])
	if err != nil {
		return Key{}, err
	}
	rec, err := transaction.Parse[storepb.Token]("key", value)
	if err != nil {
		return Key{}, err
	}
	if rec == nil || rec.User != "" {
		return Key{}, im.Errorf(im.CodeUnauthenticated,
			"this server does not know the admin key: it was revoked, or belongs to another store")
	}
	return os.key(ctx, sum[:], rec)
}
