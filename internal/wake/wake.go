// Package wake wakes goroutines.
package wake

// Set leaves a token in c, a channel of capacity 1, unless one is there already, and never blocks.
// The receiver of the token does all waiting work, so one token is enough for any number of calls.
func Set(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
