package flood

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	defaultConversations = 2500
	talkers              = 50   // connections that begin conversations
	atOnce               = 16   // sends of each that wait for their acks
	memory               = 1024 // MiB, memory.total, of which an eighth is for conversations
)

// The memory of a server does not follow the number of conversations that are touched:
// each gets one message, within ten minutes in all. PETREL_FLOOD_CONVERSATIONS sets how many (2,500).
func TestTouchedConversationsTakeNoMoreThanTheirBudget(t *testing.T) {
	n := number(t, "PETREL_FLOOD_CONVERSATIONS", defaultConversations)
	s := imtest.Start(t, imtest.Options{Process: true, Config: map[string]string{
		"log.level": "error", "memory.total": fmt.Sprintf("%dMiB", memory), "memory.conversations": fmt.Sprintf("%dMiB", memory/8), "store.cache": fmt.Sprintf("%dMiB", memory/8),
	}})
	each := (n + talkers - 1) / talkers
	friends := make([]string, each)
	for i := range friends {
		friends[i] = fmt.Sprintf("friend%d", i)
	}
	for done := 0; done < each; done += 1000 {
		s.Users("", friends[done:min(done+1000, each)]...)
	}
	names := make([]string, talkers)
	for i := range names {
		names[i] = fmt.Sprintf("talker%d", i)
	}
	tokens := s.Users("", names...)
	before, begin := rss(t, s), time.Now()
	var sent, refused atomic.Int64
	var senders sync.WaitGroup
	g, ctx := errgroup.WithContext(t.Context())
	listening, hush := context.WithCancel(ctx)
	for i := range talkers {
		c := s.Dial(wire.WebSocket, wire.Proto, tokens[i], "phone")
		g.Go(func() error { // the server tells them what they begin
			for {
				if _, err := c.Recv(listening); err != nil {
					return nil //nolint:nilerr // a send tells why
				}
			}
		})
		var next atomic.Int64
		for range atOnce {
			senders.Add(1)
			g.Go(func() error {
				defer senders.Done()
				for k := next.Add(1) - 1; k < int64(each); k = next.Add(1) - 1 {
					if err := say(ctx, c, friends[k], &refused); err != nil {
						return err
					}
					sent.Add(1)
				}
				return nil
			})
		}
	}
	peak, said, done := before, int64(n)/10, make(chan error, 1)
	go func() {
		senders.Wait()
		hush()
		done <- g.Wait()
	}()
	for tick := time.Tick(time.Second); ; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			took := time.Since(begin)
			peak = max(peak, rss(t, s))
			t.Logf("conversations=%d seconds=%.0f rate=%.0f/s refused_for_the_moment=%d rss before=%d MiB peak=%d MiB", sent.Load(), took.Seconds(),
				float64(sent.Load())/took.Seconds(), refused.Load(), before>>20, peak>>20)
			if peak > memory<<20 {
				t.Errorf("the server took %d MiB, and may reckon with %d", peak>>20, memory)
			}
			return
		case <-tick:
			now := rss(t, s)
			if peak = max(peak, now); sent.Load() >= said {
				t.Logf("conversations=%d rss=%d MiB", sent.Load(), now>>20)
				said += max(int64(n)/10, 1)
			}
		}
	}
}

// say begins a conversation, however often the server asks to come later.
func say(ctx context.Context, c *wiretest.Conn, to string, refused *atomic.Int64) error {
	for {
		_, err := c.Send(ctx, &petrelv1.Send{User: to, ClientMsgId: "to-" + to, Body: &petrelv1.Send_Text{Text: "hello"}})
		if closed, ok := errors.AsType[*wiretest.Closed](err); ok {
			return closed
		}
		e, ok := errors.AsType[*im.Error](err)
		if !ok || e.RetryAfter == 0 {
			return err
		}
		refused.Add(1)
		select {
		case <-time.After(e.RetryAfter):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
