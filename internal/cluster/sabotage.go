package cluster

import "github.com/petrel-im/petrel/internal/sabotage"

// The rules of this package that the sabotage build can break.
var (
	sabotageCountsOldClaims = sabotage.On("count-old-claims")
	sabotageCountsOutages   = sabotage.On("expire-through-outage")
	sabotageOpensSealed     = sabotage.On("open-sealed")
	sabotageSealsNothing    = sabotage.On("hand-over-unsealed")
	sabotageBelievesStale   = sabotage.On("open-on-stale-release")
	sabotageClings          = sabotage.On("cling-to-epochs")
	sabotageStaysApart      = sabotage.On("stay-apart")
	sabotageTrustsMemory    = sabotage.On("trust-memory")
)
