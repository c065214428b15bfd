package pgstore

import "github.com/petrel-im/petrel/internal/sabotage"

// The rules of this package that the sabotage build can break.
var (
	sabotageAppendsUnfenced = sabotage.On("append-unfenced")
	sabotageFencesByRead    = sabotage.On("fence-by-snapshot")
	sabotageSettlesByRead   = sabotage.On("settle-by-reading")
	sabotageBelievesFatal   = sabotage.On("believe-fatal")
	sabotageIgnoresWarnings = sabotage.On("ignore-warnings")
	sabotageTrimsUnraised   = sabotage.On("delete-above-floor")
	sabotageDropsFromMoving = sabotage.On("drop-from-moving")
	sabotageLeavesTail      = sabotage.On("leave-tail")
	sabotageOpensNewer      = sabotage.On("open-newer")
)
