package natsbus

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// knocking is a connection that says who it is.
type knocking struct {
	server.ClientAuthentication
	opts server.ClientOpts
}

func (p *knocking) GetOpts() *server.ClientOpts { return &p.opts }

// Guesses are refused four a second, and a node that knows the secret does not wait for them.
func TestGuessesAtTheSecretAreSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &guard{secret: "right", turn: make(chan struct{}, 1)}
		try := func(user, secret string) bool {
			return g.Check(&knocking{opts: server.ClientOpts{Username: user, Password: secret}})
		}
		began := time.Now()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if try(routeUser, "wrong") {
					t.Error("a wrong secret is taken")
				}
			})
		}
		synctest.Wait()
		if !try(routeUser, "right") || time.Since(began) != 0 {
			t.Errorf("the right secret is not taken at once: after %s", time.Since(began))
		}
		wg.Wait()
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("20 guesses took %s, want 5 s", took)
		}
		if try("somebody", "right") {
			t.Error("another user is taken")
		}
	})
}
