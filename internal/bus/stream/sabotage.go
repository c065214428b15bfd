package stream

import "github.com/petrel-im/petrel/internal/sabotage"

// The rules of this package that the sabotage build can break.
var (
	sabotageHidesNumber  = sabotage.On("beat-without-number")
	sabotageDropsFrames  = sabotage.On("drop-overflow")
	sabotageForgetsNames = sabotage.On("forget-incarnation")
	sabotageTakesHeard   = sabotage.On("assume-heard")
	sabotageAppliesAhead = sabotage.On("apply-ahead")
	sabotageAppliesTwice = sabotage.On("apply-twice")
	sabotageServesAhead  = sabotage.On("serve-ahead")
)
