package inbox

import (
	"bytes"
	"context"
	"errors"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/user"
)

// Operators search the titles of groups. The consumer makes the index for it from the feed, like the lists of
// users: a crash loses nothing of it, and it is no later than the lists. It has two records of each group:
//
//	't', the title as it is searched, 0, the conversation → the title
//	'c', the conversation                                  → the title as it is searched
const (
	byTitle = 't'
	byConv  = 'c'
)

// TitlesByConv is the key prefix of one record of each group.
var TitlesByConv = []byte{byConv}

func titleKey(searched string, c im.ConvID) []byte {
	return append(append(append([]byte{byTitle}, searched...), 0), c[:]...)
}

// noteTitles writes the present titles of groups into the index.
func (c *Consumer) noteTitles(ctx context.Context, groups []im.Key) error {
	var puts []store.RecordPut
	for _, key := range groups {
		rec, err := c.owner.Record(ctx, conv.Query{Conv: key}, &convpb.GetRecord{})
		if errors.Is(err, store.ErrCorrupt) || im.CodeOf(err) == im.CodeNoConversation {
			continue
		}
		if err != nil {
			return err
		}
		at := append([]byte{byConv}, key.Conv[:]...)
		was, err := c.store.Record(ctx, store.Titles, key.Tenant, at)
		if err != nil {
			return err
		}
		now := user.Searched(rec.Title)
		if was != nil && string(was[1:]) != now {
			puts = append(puts, store.RecordPut{Table: store.Titles, Tenant: key.Tenant,
				Key: titleKey(string(was[1:]), key.Conv)})
		}
		puts = append(puts,
			store.RecordPut{Table: store.Titles, Tenant: key.Tenant, Key: titleKey(now, key.Conv),
				Value: append([]byte{byTitle}, rec.Title...)},
			store.RecordPut{Table: store.Titles, Tenant: key.Tenant, Key: at, Value: append([]byte{byConv}, now...)})
	}
	if len(puts) == 0 {
		return nil
	}
	return c.store.Update(ctx, puts)
}

// Titled is a group with its title.
type Titled struct {
	Conv  im.ConvID
	Title string
}

// Titles lists at most limit groups of a tenant whose title begins with a prefix, ordered by title, or with
// down in the opposite order. token is that of the page before; empty: the first page. next is the token of
// the next page; empty: there is none. Codes: invalid.
func Titles(ctx context.Context, st store.Store, t im.Tenant, prefix string, token []byte, down bool,
	limit int) (list []Titled, next []byte, err error) {
	begins := append([]byte{byTitle}, user.Searched(prefix)...)
	if !bytes.HasPrefix(token, begins) && len(token) > 0 {
		return nil, nil, im.Errorf(im.CodeInvalid, "the page token belongs to another search")
	}
	var last []byte
	err = store.RecordsBehind(ctx, st, store.Titles, t, begins, token, down, func(key, value []byte) bool {
		if len(list) == limit {
			next = last
			return false
		}
		last = bytes.Clone(key)
		x := Titled{Title: string(value[1:])}
		copy(x.Conv[:], key[len(key)-len(x.Conv):])
		list = append(list, x)
		return true
	})
	return list, next, err
}
