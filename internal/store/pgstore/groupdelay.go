package pgstore

import "time"

const (
	paceOf     = 2 * time.Millisecond // how long a group waits for others
	paceEnough = 32                   // a group of so many batches does not wait
	paceProbe  = 256                  // after so many groups without a wait, one waits to measure the gain
)

// pace decides when a group of batches waits for others. A statement with one batch costs the node and the
// database almost as much as one with ten, so without waiting a few thousand sends a second keep a database
// busy with statements of one row. A batch does not wait if it comes after a pause, or if waits have gained
// nothing.
type pace struct {
	last  time.Time // when the last statement began
	gain  float64   // batches that came while one waited, on average
	tries int       // groups since the last wait
}

// waits tells whether the n queued batches should wait. It counts them as a group.
func (p *pace) waits(n int, now time.Time) bool {
	if n == 0 || n >= paceEnough || now.Sub(p.last) >= paceOf {
		return false
	}
	p.tries++
	return p.gain >= 1 || p.tries >= paceProbe
}

// learn notes the number of batches that a wait has gained.
func (p *pace) learn(came int) {
	p.gain, p.tries = (3*p.gain+float64(came))/4, 0
}
