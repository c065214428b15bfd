package store

import (
	"bytes"
	"context"

	"github.com/petrel-im/petrel/internal/im"
)

// RecordsBehind calls fn for the records whose key begins with prefix, ordered by key, until fn returns
// false: those after the key last, or all of them if last is empty. down goes from the greatest key to the
// least.
func RecordsBehind(ctx context.Context, st Store, t Table, tenant im.Tenant, prefix, last []byte, down bool,
	fn func(key, value []byte) bool) error {
	if down {
		return st.RecordsDown(ctx, t, tenant, prefix, last, fn)
	}
	from := prefix
	if len(last) > 0 && bytes.Compare(last, prefix) >= 0 {
		from = append(bytes.Clone(last), 0) // the least key behind it
	}
	return st.RecordsFrom(ctx, t, tenant, from, func(key, value []byte) bool {
		return bytes.HasPrefix(key, prefix) && fn(key, value)
	})
}
