package store

import (
	"fmt"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// CheckFeedEntry checks that each conversation id in a feed entry has its full length: readers make keys of the
// ids. Errors: ErrCorrupt.
func CheckFeedEntry(e *storepb.FeedEntry) error {
	for _, it := range e.Items {
		if len(it.Conv) != len(im.ConvID{}) {
			return fmt.Errorf("the id of a conversation has %d bytes: %w", len(it.Conv), ErrCorrupt)
		}
	}
	return nil
}
