package store

import (
	"bytes"
	"context"

	"github.com/petrel-im/petrel/internal/im"
)

// RecordsBehind calls fn for the records whose key begins with prefix, until fn returns false: in ascending
// order of their keys or, with down, in descending order. In this order it begins with the record after the key last;
// if last is empty, with the first one.
func RecordsBehind(ctx context.Context, st Store, t Table, tenant im.Tenant, prefix, last []byte, down bool,
	fn func(key, value []byte) bool) error {
	if down {
		return st.RecordsDown(ctx, t, tenant, prefix, last, fn)
	}
	from := prefix
	if len(last) > 0 && bytes.Compare(last, prefix) >= 0 {
		from = append(bytes.Clone(last), 0) // the least key above last
	}
	return st.RecordsFrom(ctx, t, tenant, from, func(key, value []byte) bool {
		return bytes.HasPrefix(key, prefix) && fn(key, value)
	})
}
