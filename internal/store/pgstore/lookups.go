package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// joinedReads is the most statements of one lookup under way at a time. With two, a statement that the network
// has lost does not hold up everybody.
const joinedReads = 2

// joinedKeys bounds the keys of one statement.
const joinedKeys = 256

// lookup reads single values by their keys. Lookups that come while the statements are under way share the next
// one: a sync of a user with 1,000 conversations asks for 2,000 cursors, many at a time. A lookup that comes
// alone does not wait. A statement always begins after the questions that it answers.
type lookup[K any] struct {
	read  func(ctx context.Context, keys []K) ([][]byte, error) // nil elements: there is none
	tasks sync.WaitGroup                                        // readers

	mu      sync.Mutex     // tier 0; guards the fields below
	readers int            // readers that run, each with a statement under way
	waiting []*question[K] // not in a statement yet; at most one of each caller
}

// question is a caller that waits for the value of a key.
type question[K any] struct {
	key   K
	done  chan struct{} // closed when the fields below are set
	value []byte
	err   error
}

// get reads the value of a key; nil: there is none.
func (l *lookup[K]) get(ctx context.Context, k K) ([]byte, error) {
	q := &question[K]{key: k, done: make(chan struct{})}
	l.mu.Lock()
	l.waiting = append(l.waiting, q)
	if l.readers < joinedReads {
		l.readers++
		l.tasks.Go(l.answer)
	}
	l.mu.Unlock()
	select {
	case <-q.done:
		return q.value, q.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) { // the caller's time is over
			return nil, fmt.Errorf("%w: %w", store.ErrStalled, ctx.Err())
		}
		return nil, ctx.Err()
	}
}

// answer reads for the waiting callers until there are none. A caller that gives up does not end the
// statement of the others.
func (l *lookup[K]) answer() {
	for {
		l.mu.Lock()
		n := min(len(l.waiting), joinedKeys)
		now := l.waiting[:n:n]
		l.waiting = l.waiting[n:]
		if n == 0 {
			l.readers--
			l.waiting = nil
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		keys := make([]K, n)
		for i, q := range now {
			keys[i] = q.key
		}
		values, err := l.read(context.Background(), keys) // bounded by the patience of the database
		for i, q := range now {
			if q.err = err; err == nil {
				q.value = values[i]
			}
			close(q.done)
		}
	}
}

// lookups are the lookups of one database.
type lookups struct {
	cursors lookup[userKey]
	members lookup[userKey]
	convs   lookup[im.Key]
	records lookup[recordKey]
}

// wait returns when no statement is under way.
func (l *lookups) wait() {
	for _, tasks := range []*sync.WaitGroup{&l.cursors.tasks, &l.members.tasks, &l.convs.tasks, &l.records.tasks} {
		tasks.Wait()
	}
}

// userKey is the key of a conversation's record of one user.
type userKey struct {
	conv im.Key
	user im.User
}

// recordKey names a record.
type recordKey struct {
	table  store.Table
	tenant im.Tenant
	key    string
}

func (l *lookups) init(d *database) {
	l.cursors.read, l.members.read = d.readUsers(oneCursor, allCursors), d.readUsers(oneMember, allMembers)
	l.convs.read, l.records.read = d.readConversations, d.readRecords
}

// Each statement finds a row by its whole key. OFFSET 0 keeps the subquery from becoming a join, so each key is
// looked up in the index, however few rows the planner expects in the table.
const (
	oneCursor  = `SELECT record FROM petrel.cursors WHERE part = $1 AND tenant = $2 AND conv = $3 AND member = $4`
	allCursors = `SELECT k.i, c.record FROM unnest($1::int[], $2::int[], $3::uuid[], $4::text[]) WITH ORDINALITY AS k(part, tenant, conv, member, i),
LATERAL (SELECT record FROM petrel.cursors AS c WHERE c.part = k.part AND c.tenant = k.tenant AND c.conv = k.conv AND c.member = k.member OFFSET 0) AS c`

	oneMember  = `SELECT record FROM petrel.members WHERE part = $1 AND tenant = $2 AND conv = $3 AND member = $4`
	allMembers = `SELECT k.i, m.record FROM unnest($1::int[], $2::int[], $3::uuid[], $4::text[]) WITH ORDINALITY AS k(part, tenant, conv, member, i),
LATERAL (SELECT record FROM petrel.members AS m WHERE m.part = k.part AND m.tenant = k.tenant AND m.conv = k.conv AND m.member = k.member OFFSET 0) AS m`

	oneConversation  = `SELECT record FROM petrel.convs WHERE part = $1 AND tenant = $2 AND conv = $3`
	allConversations = `SELECT k.i, c.record FROM unnest($1::int[], $2::int[], $3::uuid[]) WITH ORDINALITY AS k(part, tenant, conv, i),
LATERAL (SELECT record FROM petrel.convs AS c WHERE c.part = k.part AND c.tenant = k.tenant AND c.conv = k.conv OFFSET 0) AS c`

	oneRecord  = `SELECT value FROM petrel.records WHERE tbl = $1 AND tenant = $2 AND key = $3`
	allRecords = `SELECT k.i, r.value FROM unnest($1::int[], $2::int[], $3::bytea[]) WITH ORDINALITY AS k(tbl, tenant, key, i),
LATERAL (SELECT value FROM petrel.records AS r WHERE r.tbl = k.tbl AND r.tenant = k.tenant AND r.key = k.key OFFSET 0) AS r`
)

// readUsers returns a function that reads records of users in conversations. For a single key it runs the statement
// in the parameter one, for more keys that in several.
func (d *database) readUsers(one, several string) func(context.Context, []userKey) ([][]byte, error) {
	return func(ctx context.Context, keys []userKey) ([][]byte, error) {
		if len(keys) == 1 {
			part, tenant, conv := key(keys[0].conv)
			v, err := collectOne(ctx, d, scanBytes, one, part, tenant, conv, string(keys[0].user))
			return [][]byte{v}, err
		}
		var a keyArrays
		users := make([]string, len(keys))
		for i, k := range keys {
			a.add(k.conv)
			users[i] = string(k.user)
		}
		return d.collectAll(ctx, len(keys), several, a.parts, a.tenants, a.convs, users)
	}
}

func (d *database) readConversations(ctx context.Context, keys []im.Key) ([][]byte, error) {
	if len(keys) == 1 {
		part, tenant, conv := key(keys[0])
		v, err := collectOne(ctx, d, scanBytes, oneConversation, part, tenant, conv)
		return [][]byte{v}, err
	}
	var a keyArrays
	for _, k := range keys {
		a.add(k)
	}
	return d.collectAll(ctx, len(keys), allConversations, a.parts, a.tenants, a.convs)
}

func (d *database) readRecords(ctx context.Context, keys []recordKey) ([][]byte, error) {
	if len(keys) == 1 {
		v, err := collectOne(ctx, d, scanBytes, oneRecord, int32(keys[0].table), int32(keys[0].tenant),
			[]byte(keys[0].key))
		return [][]byte{v}, err
	}
	tables, tenants, names := make([]int32, len(keys)), make([]int32, len(keys)), make([][]byte, len(keys))
	for i, k := range keys {
		tables[i], tenants[i], names[i] = int32(k.table), int32(k.tenant), []byte(k.key)
	}
	return d.collectAll(ctx, len(keys), allRecords, tables, tenants, names)
}

// keyArrays holds conversations as the first three arguments of a statement.
type keyArrays struct {
	parts, tenants []int32
	convs          [][16]byte
}

func (a *keyArrays) add(c im.Key) {
	part, tenant, conv := key(c)
	a.parts, a.tenants, a.convs = append(a.parts, part), append(a.tenants, tenant), append(a.convs, conv)
}

// collectAll reads the values of n keys with a statement that numbers the keys from 1. A nil value: there is
// none.
func (d *database) collectAll(ctx context.Context, n int, sql string, args ...any) ([][]byte, error) {
	rows, err := collect(ctx, d, scanNumbered, sql, args...)
	values := make([][]byte, n)
	for _, r := range rows {
		values[r.n-1] = r.value
	}
	return values, err
}
