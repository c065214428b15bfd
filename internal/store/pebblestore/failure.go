package pebblestore

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/petrel-im/petrel/internal/store"
)

// failure holds the error that has ended a store: the first one of a write or sync, the proof of Refute, or the loss
// of the folder. After a failed write the state of the disk is unknown, so no write is tried again.
type failure struct {
	log  *slog.Logger
	once sync.Once
	ch   chan struct{} // closed when the store has failed
	why  error         // set before ch is closed
}

func newFailure(log *slog.Logger) *failure {
	return &failure{log: log, ch: make(chan struct{})}
}

// fail ends the store; only the first error counts.
func (o *failure) fail(err error) {
	o.once.Do(func() {
		o.why = fmt.Errorf("%w: %w", store.ErrFailed, err)
		o.log.Error("store has failed", "err", err)
		close(o.ch)
	})
}

// err returns the error that has ended the store; nil: it has not failed.
func (o *failure) err() error {
	select {
	case <-o.ch:
		return o.why
	default:
		return nil
	}
}

// park waits until the store has failed, and then blocks its goroutine of Pebble for ever. Pebble relies on Fatalf
// not to return, and retries a failed flush at once: without park it would go on writing. The process exits soon.
func (o *failure) park() {
	<-o.ch
	select {}
}

// Infof implements pebble.Logger.
func (o *failure) Infof(string, ...any) {} // Pebble reports its events, which are not logged

// Errorf implements pebble.Logger.
func (o *failure) Errorf(format string, args ...any) {
	o.log.Warn("pebble", "err", fmt.Sprintf(format, args...))
}

// Fatalf implements pebble.Logger. It does not return.
func (o *failure) Fatalf(format string, args ...any) {
	o.fail(fmt.Errorf("pebble: "+format, args...))
	o.park()
}

// events returns a listener that ends the store when background work of Pebble fails. If the work has met damage, the
// store goes on: Pebble gives the work up, and the damage stays where it is. The store also goes on if the work fails
// because the database is being closed.
func (o *failure) events() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			if pebble.IsCorruptionError(err) || errors.Is(err, errEnding) {
				return
			}
			o.fail(fmt.Errorf("background work: %w", err))
			o.park()
		},
		DataCorruption: func(pebble.DataCorruptionInfo) {}, // without this Pebble calls Fatalf
	}
}

// caught runs f and turns a panic of Pebble into an error.
func caught(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("pebble: panic: %v", r)
		}
	}()
	return f()
}
