package report

import (
	"bytes"
	"context"
	"encoding/binary"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// State chooses reports. The numbers are those of petrel.v1.ReportState.
type State uint32

// The values of State.
const (
	All        State = 0
	OnlyOpen   State = 1
	OnlyClosed State = 2
)

// MaxPage is the longest page of List.
const MaxPage = 100

// maxLooked is how many reports of one user a page looks at.
const maxLooked = 1000

// Query chooses the reports of a list.
type Query struct {
	State State
	User  im.User // only reports of this user; "": of all
	Token []byte  // of the page before
	Limit int     // 0 or too large: MaxPage
}

// List returns a page of reports, the newest first, and the token of the next one; nil: there is none. Codes:
// invalid.
func (rs *Reports) List(ctx context.Context, t im.Tenant, q Query) (page []Report, next []byte, err error) {
	if q.Limit <= 0 || q.Limit > MaxPage {
		q.Limit = MaxPage
	}
	prefix := []byte{keyReport}
	switch {
	case q.State > OnlyClosed:
		return nil, nil, im.Errorf(im.CodeInvalid, "there is no state %d", q.State)
	case q.User != "":
		prefix = userPrefix(keyUser, string(q.User))
	case q.State == OnlyOpen:
		prefix = []byte{keyOpen}
	case q.State == OnlyClosed:
		prefix = []byte{keyClosed}
	}
	if len(q.Token) > 0 && (!bytes.HasPrefix(q.Token, prefix) || len(q.Token) > len(prefix)+16) {
		return nil, nil, im.Errorf(im.CodeInvalid, "token is not of this list")
	}
	most := q.Limit
	if q.User != "" {
		most = maxLooked
	}
	var keys [][]byte
	more := false
	err = rs.store.RecordsDown(ctx, store.Reports, t, prefix, q.Token, func(k, _ []byte) bool {
		if more = len(keys) == most; !more {
			keys = append(keys, bytes.Clone(k))
		}
		return !more
	})
	for i := 0; i < len(keys) && err == nil; i++ {
		k := keys[i]
		if len(page) == q.Limit {
			return page, keys[i-1], nil
		}
		r, failed := rs.Get(ctx, t, binary.BigEndian.Uint64(k[len(k)-8:]))
		switch {
		case im.CodeOf(failed) == im.CodeNoReport: // it was deleted meanwhile
		case failed != nil:
			err = failed
		case q.State == OnlyOpen && r.ClosedMs > 0 || q.State == OnlyClosed && r.ClosedMs == 0:
		default:
			page = append(page, r)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if more {
		next = keys[len(keys)-1]
	}
	return page, next, nil
}
