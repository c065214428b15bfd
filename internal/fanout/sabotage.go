package fanout

import "github.com/petrel-im/petrel/internal/sabotage"

// The rules of this package that the sabotage build can break.
var (
	sabotageKeepsRecipients = sabotage.On("keep-recipients")
	sabotagePushesBlindly   = sabotage.On("push-without-trust")
	sabotageAnswersFirst    = sabotage.On("answer-first")
	sabotageHidesBlindness  = sabotage.On("hide-blindness")
)
