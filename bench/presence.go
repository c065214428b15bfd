package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/HdrHistogram/hdrhistogram-go"

	sdk "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// presences are the presence events of the run's watchers.
type presences struct {
	mu     sync.Mutex             // tier 0; guards the fields below
	told   int                    // number of presences in all events
	online map[string][]time.Time // by user: when each watcher was told
}

// take records the presences of an Events frame, with the time for each user who is online.
func (p *presences) take(all []*petrelv1.Presence) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told += len(all)
	for _, one := range all {
		if one.Online {
			p.online[one.User] = append(p.online[one.User], time.Now())
		}
	}
}

// watchOthers runs the steps of Presence: the first Params.Receivers users connect and watch all others, and then the
// others come online.
func (r *run) watchOthers(ctx context.Context) error {
	watchers := r.p.Receivers
	watched := r.users[watchers:]
	for _, token := range r.tokens[watchers:] {
		if err := r.showPresence(ctx, token); err != nil {
			return err
		}
	}
	if err := r.enter(ctx, measuring); err != nil {
		return err
	}
	all, task, err := r.come(ctx, 0, watchers)
	if err = r.add(task, err); err == nil {
		err = r.hand(ctx, all, 0)
	}
	if err != nil {
		return err
	}
	request := func(*conn) *petrelv1.ClientFrame {
		return &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Watch{Watch: &petrelv1.SetWatch{Users: watched}}}
	}
	isWatch := func(f *petrelv1.ClientFrame) bool { return f.GetWatch() != nil }
	task, err = r.measure(ctx, taskWatch, func() (int, *hdrhistogram.Histogram, error) {
		e := r.gen.ask(taskWatch, r.gen.conns[:watchers], r.p.AtOnce, 1, request, isWatch)
		_, err := r.send(ctx, e)
		if err == nil {
			err = r.awaitPresences(ctx, watchers*len(watched))
		}
		return watchers, e.times, err
	})
	if err := r.add(task, err); err != nil {
		return err
	}
	task, err = r.measure(ctx, taskPresence, func() (int, *hdrhistogram.Histogram, error) {
		all, _, err := r.come(ctx, watchers, len(r.users))
		if err == nil {
			err = r.hand(ctx, all, watchers)
		}
		if err == nil {
			err = r.awaitPresences(ctx, 2*watchers*len(watched))
		}
		if err != nil {
			return 0, nil, err
		}
		p, times, n := r.gen.presences, newTimes(3), 0
		p.mu.Lock()
		defer p.mu.Unlock()
		for i, user := range watched {
			for _, at := range p.online[user] {
				observe(times, int64(at.Sub(all[i].began)))
				n++
			}
		}
		return n, times, nil
	})
	return r.add(task, err)
}

// awaitPresences waits until the watchers have got n presences since the start of the run; an error after a minute.
func (r *run) awaitPresences(ctx context.Context, n int) error {
	for end := time.Now().Add(time.Minute); ; {
		r.gen.presences.mu.Lock()
		told := r.gen.presences.told
		r.gen.presences.mu.Unlock()
		if told >= n {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d presences were told after a minute", told, n)
		}
		if err := r.pause(ctx, 0.005); err != nil {
			return err
		}
	}
}

// showPresence makes a user visible to everybody.
func (r *run) showPresence(ctx context.Context, token string) error {
	url := r.p.URL
	if r.own() {
		url = "http://" + r.nodes[0].HTTP
	}
	account := petrelv1connect.NewAccountServiceClient(r.ops[0].http, url, sdk.Credentials(sdk.StaticToken(token)))
	everybody := &petrelv1.SetPresencePolicyRequest{Policy: petrelv1.PresencePolicy_PRESENCE_POLICY_EVERYBODY}
	_, err := account.SetPresencePolicy(ctx, connect.NewRequest(everybody))
	if err != nil {
		return fmt.Errorf("show the presence of a user: %w", err)
	}
	return nil
}
