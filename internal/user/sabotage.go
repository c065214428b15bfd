package user

import "github.com/petrel-im/petrel/internal/sabotage"

// sabotageWritesUnchecked has a change write over what another node wrote since
// it read.
var sabotageWritesUnchecked = sabotage.On("write-unchecked")
