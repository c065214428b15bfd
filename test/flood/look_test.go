package flood

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// lookEnv is set in the process of those who look at a group.
const lookEnv = "PETREL_FLOOD_LOOK"

const (
	emojis  = 20               // that a message may have
	callers = 32               // that react at a time
	patient = 60 * time.Second // until everybody has been told the newest
)

// lookChild is the process of those who look at a group, which does not return.
func lookChild() {
	if _, ok := os.LookupEnv(lookEnv); !ok {
		return
	}
	if err := lookOn(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func lookOn(ctx context.Context) error {
	g := &gallery{moved: make(chan struct{}, 1)}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	if err := in.Decode(&g.look); err != nil {
		return err
	}
	if err := g.connect(ctx); err != nil {
		return err
	}
	half := len(g.all) / 2
	r, err := g.react(ctx, half*standing, 0, func(i int) (int, string, bool) {
		u := i % half
		return u, emoji(u + i/half), false
	})
	if err != nil {
		return err
	}
	if err := out.Encode(r); err != nil {
		return err
	}
	var begin string
	if err := in.Decode(&begin); err != nil {
		return err
	}
	g.pushed.Store(0)
	r, err = g.react(ctx, half*changes, g.look.Lasts, func(i int) (int, string, bool) {
		u := i % half
		return u, emoji(u), i/half%2 == 0
	})
	if err != nil {
		return err
	}
	return out.Encode(r)
}

func emoji(i int) string { return fmt.Sprintf("e%02d", i%emojis) }

// gallery is those who look.
type gallery struct {
	look    look
	all     []*viewer
	moved   chan struct{} // capacity 1; a token: somebody was told something
	bytes   atomic.Int64  // that came from the server
	pushed  atomic.Int64  // frames with reactions
	version atomic.Uint64 // the newest of the reactions that an answer had
}

// viewer is one connection.
type viewer struct {
	*wiretest.Conn
	version atomic.Uint64 // the newest of the reactions that was pushed
}

// counted counts what is read.
type counted struct {
	net.Conn
	n *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func (g *gallery) connect(ctx context.Context) error {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &counted{c, &g.bytes}, err
	}
	for _, token := range g.look.Tokens {
		c, err := wiretest.Open(ctx, wiretest.Options{URL: g.look.URL, Codec: wire.Proto, NetDial: dial})
		if err != nil {
			return err
		}
		h := &petrelv1.Hello{VersionMin: wiretest.Version, VersionMax: wiretest.Version, Token: token, Device: "phone", Capabilities: []string{"focus", "notes"}}
		if err := c.Hello(ctx, h); err != nil {
			return err
		}
		v := &viewer{Conn: c}
		g.all = append(g.all, v)
		if _, err := c.Write(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Focus{Focus: &petrelv1.SetFocus{Convs: []string{g.look.Conv}}}}); err != nil {
			return err
		}
		for f := (*petrelv1.ServerFrame)(nil); f.GetFocus() == nil; { // earlier pushes are for nobody who looks
			if f, err = c.Recv(ctx); err != nil {
				return err
			}
		}
		go g.watch(ctx, v) // until the process ends
	}
	return nil
}

func (g *gallery) watch(ctx context.Context, v *viewer) {
	for {
		f, err := v.Recv(ctx)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if len(f.GetEvents().GetNotes()) == 0 {
			continue
		}
		g.pushed.Add(1)
		for _, n := range f.GetEvents().Notes {
			if n.Seq == g.look.Seq {
				v.version.Store(n.Version)
			}
		}
		select {
		case g.moved <- struct{}{}:
		default:
		}
	}
}

// react makes n changes within a time, and waits until everybody was told how the reactions
// stand then. which says who does the i-th.
func (g *gallery) react(ctx context.Context, n int, within time.Duration, which func(i int) (viewer int, emoji string, removed bool)) (*looked, error) {
	took, begun := make([]time.Duration, n), time.Now()
	var next atomic.Int64
	var all errgroup.Group
	for range callers {
		all.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				<-time.After(time.Until(begun.Add(time.Duration(i) * within / time.Duration(n))))
				at := time.Now()
				u, emoji, removed := which(i)
				var a petrelv1.NoteResponse
				q := &petrelv1.ReactRequest{Conv: g.look.Conv, Seq: g.look.Seq, Emoji: emoji, Removed: removed}
				if err := g.all[u].Call(ctx, "petrel.v1.MessageService/React", q, &a); err != nil {
					return fmt.Errorf("react: %w", err)
				}
				took[i] = time.Since(at)
				for old := g.version.Load(); old < a.Note.Version && !g.version.CompareAndSwap(old, a.Note.Version); old = g.version.Load() {
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	timeout := time.After(patient)
	for {
		newest := g.version.Load()
		i := slices.IndexFunc(g.all, func(v *viewer) bool { return v.version.Load() < newest })
		if i < 0 {
			break
		}
		select {
		case <-g.moved:
		case <-timeout:
			return nil, fmt.Errorf("viewer %d was told version %d of the reactions, want %d", i, g.all[i].version.Load(), newest)
		}
	}
	slices.SortFunc(took, cmp.Compare[time.Duration])
	return &looked{Reacted: n, Pushed: g.pushed.Load(), Bytes: g.bytes.Load(), P50: times(took).at(0.5), P99: times(took).at(0.99)}, nil
}
