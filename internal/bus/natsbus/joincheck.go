package natsbus

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	knockTime = 3 * time.Second        // how long a node may take to answer a knock
	infoTime  = 500 * time.Millisecond // how long to wait for the greeting of a server; then TLS is tried
)

// knock asks the nodes to join whether they accept this one, because the embedded server only logs refusals, or
// does not notice them. there reports whether any of them answered.
func knock(ctx context.Context, o *Options, cluster string) (there bool, err error) {
	errs, met := make([]error, len(o.Routes)), make([]bool, len(o.Routes))
	var wg sync.WaitGroup
	for i, addr := range o.Routes {
		wg.Go(func() { met[i], errs[i] = knockAt(ctx, addr, o, cluster) })
	}
	wg.Wait()
	for i, addr := range o.Routes {
		if errs[i] != nil {
			return false, fmt.Errorf("join %s: %w", addr, errs[i])
		}
		there = there || met[i]
	}
	return there, ctx.Err()
}

// knockAt speaks the beginning of the protocol of NATS routes: the server there introduces itself; this node
// sends its name and secret, and a ping; the server answers the ping, or refuses with a reason.
func knockAt(ctx context.Context, addr string, o *Options, cluster string) (there bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, knockTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false, nil // not yet
	}
	defer func() { _ = conn.Close() }() // nothing is sent any more
	talk, r, err := greeting(ctx, conn, addr, o)
	if err != nil || r == nil {
		return false, err
	}
	user := ""
	if o.Secret != "" {
		user = routeUser
	}
	hello, err := json.Marshal(map[string]any{"user": user, "pass": o.Secret, "name": rand.Text(), "cluster": cluster,
		"tls_required": o.TLS != nil})
	if err != nil {
		return false, err
	}
	_ = talk.SetDeadline(time.Now().Add(knockTime))
	if _, err := fmt.Fprintf(talk, "CONNECT %s\r\nPING\r\n", hello); err != nil {
		return false, refusedTLS(err)
	}
	for {
		line, err := r.ReadString('\n')
		switch {
		case err != nil:
			return false, refusedTLS(err)
		case strings.HasPrefix(line, "PONG"):
			return true, nil
		case strings.Contains(line, "Authorization Violation"):
			return false, fmt.Errorf("%w: set cluster.secret to the secret of the other nodes", ErrRefused)
		case strings.Contains(line, "cluster name"):
			return false, fmt.Errorf("%w: the nodes there have another store", ErrOtherCluster)
		case strings.Contains(line, "Stale Connection"), strings.Contains(line, "Authentication Timeout"):
			return false, nil // this node stood still
		case strings.HasPrefix(line, "-ERR"):
			return false, fmt.Errorf("%w: %s", ErrRefused, strings.TrimSpace(line))
		}
	}
}

// greeting reads the first line of a server, over TLS if that is set. A nil reader means that no server answers
// yet.
func greeting(ctx context.Context, conn net.Conn, addr string, o *Options) (net.Conn, *bufio.Reader, error) {
	if o.TLS != nil { // the greeting comes over TLS
		c := o.TLS.Clone()
		if c.ServerName == "" {
			c.ServerName, _, _ = net.SplitHostPort(addr) // it was dialed
		}
		t := tls.Client(conn, c)
		if err := t.HandshakeContext(ctx); err != nil {
			return nil, nil, refusedTLS(err)
		}
		conn = t
	}
	r := bufio.NewReader(conn)
	_ = conn.SetDeadline(time.Now().Add(infoTime))
	line, err := r.ReadString('\n')
	switch {
	case err == nil && strings.HasPrefix(line, "INFO "):
		return conn, r, nil
	case err == nil:
		return nil, nil, fmt.Errorf("%w: the server there is not a node; its first line is %q", ErrRefused, line)
	case o.TLS != nil:
		return nil, nil, refusedTLS(err) // the server sees our certificate only now, and refuses it
	}
	_ = conn.SetDeadline(time.Time{})
	t := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // only to find out whether the server has TLS
	err = t.HandshakeContext(ctx)
	if e, plain := errors.AsType[tls.RecordHeaderError](err); plain {
		if string(e.RecordHeader[:]) == "INFO " {
			return nil, nil, nil // a node that is slow to start
		}
		return nil, nil, fmt.Errorf("%w: the server there is not a node; it sends nothing by itself and has no TLS",
			ErrRefused)
	}
	if err == nil || refusedTLS(err) != nil {
		return nil, nil, fmt.Errorf(
			"%w: the node there wants TLS; set cluster.bus_cert_file, cluster.bus_key_file and cluster.bus_ca_file",
			ErrRefused)
	}
	return nil, nil, nil
}

// refusedTLS returns err as an ErrRefused if it is about TLS. For another error it returns nil: the node is about
// to start or to end, or it stands still.
func refusedTLS(err error) error {
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
		return fmt.Errorf("%w: the node there has no TLS", ErrRefused)
	}
	if strings.Contains(err.Error(), "tls: ") {
		return fmt.Errorf("%w: TLS: %w", ErrRefused, err)
	}
	return nil
}
