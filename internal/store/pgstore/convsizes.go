package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// sizesSQL reads the number of rows of the next $4 conversations, the number of sampled rows, and their
// bytes. PostgreSQL knows the length of a value without reading it.
var sizesSQL = fmt.Sprintf(`SELECT c.part, c.tenant, c.conv, coalesce(newest.seq - oldest.seq + 1, 0), sample.n, sample.bytes
	FROM (SELECT part, tenant, conv FROM petrel.convs WHERE (part, tenant, conv) > ($1, $2, $3) ORDER BY part, tenant, conv LIMIT $4) AS c
	LEFT JOIN LATERAL (SELECT seq FROM petrel.msg WHERE part = c.part AND tenant = c.tenant AND conv = c.conv ORDER BY seq LIMIT 1) AS oldest ON true
	LEFT JOIN LATERAL (SELECT seq FROM petrel.msg WHERE part = c.part AND tenant = c.tenant AND conv = c.conv ORDER BY seq DESC LIMIT 1) AS newest ON true
	CROSS JOIN LATERAL (SELECT count(*) AS n, coalesce(sum(octet_length(value) - %d), 0)::bigint AS bytes
		FROM generate_series(oldest.seq, newest.seq, greatest(1, (newest.seq - oldest.seq + %[2]d) / %[2]d)) AS at
		JOIN petrel.msg ON part = c.part AND tenant = c.tenant AND conv = c.conv AND seq = at) AS sample
	ORDER BY c.part, c.tenant, c.conv`, sumLen, store.SizeSamples)

// sized is a conversation and its sampled size.
type sized struct {
	part, tenant int32
	conv         [16]byte
	rows         int64
	read, bytes  int64
}

func scanSized(r pgx.CollectableRow) (x sized, err error) {
	return x, r.Scan(&x.part, &x.tenant, &x.conv, &x.rows, &x.read, &x.bytes)
}

// Sizes implements store.Store.
func (s *Store) Sizes(ctx context.Context, fn func(im.Key, store.Size) bool) error {
	more := true
	for n := 0; more && n < len(s.dbs); n++ {
		d := s.dbs[n]
		err := pages(ctx, d, chunk, scanSized, func(at *sized) (string, []any) {
			if at == nil {
				at = &sized{part: -1}
			}
			return sizesSQL, []any{at.part, at.tenant, at.conv, chunk}
		}, func(x *sized) (bool, error) {
			c := im.Key{Tenant: im.Tenant(x.tenant), Conv: x.conv}
			if x.read > 0 && s.holding(c) == d { // a partition that has moved leaves its rows for a while
				more = fn(c, store.Size{Rows: uint64(x.rows), Bytes: uint64(x.bytes * x.rows / x.read)})
			}
			return more, nil
		})
		if err != nil {
			return failed(err, "read sizes")
		}
	}
	return nil
}
