package pgstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// sayWaitsAfter is how long the start waits for a database before the log names the reason.
const sayWaitsAfter = time.Second

// waits finds out, over connections of its own, why a session waits.
type waits struct {
	d    *database
	pid  uint32
	stop context.CancelFunc
	said chan *Problem // capacity 1; the last reason, nil: none
}

// watchWaits asks every sayWaitsAfter why the session c waits, and logs each new reason.
func (d *database) watchWaits(ctx context.Context, c *pgx.Conn) *waits {
	ctx, stop := context.WithCancel(ctx)
	w := &waits{d: d, pid: c.PgConn().PID(), stop: stop, said: make(chan *Problem, 1)}
	go w.run(ctx) // end waits for it
	return w
}

func (w *waits) run(ctx context.Context) {
	var last *Problem
	defer func() { w.said <- last }()
	for {
		select {
		case <-time.After(sayWaitsAfter):
		case <-ctx.Done():
			return
		}
		p := w.ask(ctx)
		if p != nil && (last == nil || last.What != p.What) {
			w.d.log.Warn("the start waits for the database", "database", w.d.name, "err", p.What, "fix", p.Fix)
		}
		if p != nil {
			last = p
		}
	}
}

// ask returns the reason for which the session waits; nil: it is not known, or the wait ends soon.
func (w *waits) ask(ctx context.Context) *Problem {
	conf := w.d.conf.ConnConfig.Copy()
	conf.ValidateConnect = nil // it reads tables that may be locked
	ctx, cancel := context.WithTimeout(ctx, conf.ConnectTimeout)
	defer cancel()
	c, err := pgx.ConnectConfig(ctx, conf)
	if err != nil {
		return nil
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // it has only read
	var kind, event, names string
	err = c.QueryRow(ctx,
		`SELECT coalesce(wait_event_type, ''), coalesce(wait_event, ''), current_setting('synchronous_standby_names') FROM pg_stat_activity WHERE pid = $1`, w.pid).Scan(&kind, &event, &names)
	switch {
	case err != nil:
		return nil
	case event == "SyncRep":
		return &Problem{
			Code: "database_waits",
			What: fmt.Sprintf("%s has stored the commit and waits for a standby: synchronous_standby_names is %q",
				w.d.host(c), names),
			Fix: "start the standby, or take it out of synchronous_standby_names on the primary",
		}
	case kind == "Lock":
		return &Problem{
			Code: "database_waits", What: w.d.host(c) + " waits for another session that changes the schema",
			Fix: "wait for the other node, or look in pg_locks who holds petrel.migrations",
		}
	}
	return nil
}

// end ends the watch. It replaces an error that only says that the time is over by the reason for the wait.
func (w *waits) end(err error) error {
	w.stop()
	if p := <-w.said; p != nil && errors.Is(err, context.DeadlineExceeded) {
		return p
	}
	return err
}

// hosts returns the addresses in the URL, each once, in its order.
func (d *database) hosts() (all []string) {
	c := d.conf.ConnConfig
	add := func(host string, port uint16) {
		if at := net.JoinHostPort(host, strconv.Itoa(int(port))); !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	add(c.Host, c.Port)
	for _, f := range c.Fallbacks {
		add(f.Host, f.Port)
	}
	return all
}

// host returns the address of the server at the other end of a connection: a URL may name several.
func (d *database) host(c *pgx.Conn) string {
	if a := c.PgConn().Conn().RemoteAddr(); a.Network() == "tcp" {
		return a.String()
	}
	return d.conf.ConnConfig.Host
}
