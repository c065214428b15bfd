package store

import (
	"fmt"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// CheckFeedEntry says whether what a feed has of a commit names its conversations by
// whole ids. Those who read it make keys of them. Errors: ErrCorrupt.
func CheckFeedEntry(e *storepb.FeedEntry) error {
	for _, it := range e.Items {
		if len(it.Conv) != len(im.ConvID{}) {
			return fmt.Errorf("the id of a conversation has %d bytes: %w", len(it.Conv), ErrCorrupt)
		}
	}
	return nil
}
