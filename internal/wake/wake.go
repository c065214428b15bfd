// Package wake wakes goroutines.
package wake

// Set leaves a token in c, a channel of capacity 1, unless one is there already.
// Whoever takes the token looks at all there is to do, so one token is enough
// for any number of calls; and nobody waits for the one who takes it.
func Set(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
