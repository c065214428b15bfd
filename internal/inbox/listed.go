package inbox

import (
	"context"

	"github.com/petrel-im/petrel/internal/im"
)

// Listed tells which of some conversations are in a user's list: the user is a member of
// them, or was.
func (y *Syncer) Listed(ctx context.Context, a im.Account, ids []im.ConvID) (listed []bool, err error) {
	err = y.withList(ctx, a, func(l *list) error {
		listed = make([]bool, len(ids))
		parts := map[int]*items{}
		for i, id := range ids {
			n := l.from(id)
			if n >= len(l.parts) {
				continue
			}
			if parts[n] == nil {
				all, err := y.items(ctx, a, l, n)
				if err != nil {
					return err
				}
				parts[n] = all
			}
			_, listed[i] = parts[n].find(id)
		}
		return nil
	})
	return listed, err
}
