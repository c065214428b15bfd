package flood

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	greedy  = 10 // users who ask all the time
	streams = 30 // of each of their connections
)

// ofUsers are the floods of users, and how many connections each has at most.
var ofUsers = map[string]int{"calls": 30, "large calls": 30}

// large is a request of 48 KiB: the settings of an account.
func large() string {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, `,"n%d":"%s"`, i, strings.Repeat("v", 800))
	}
	return `{"values":{` + b.String()[1:] + `}}`
}

// token is that of one of the greedy users.
func (f *crowd) token() string {
	all := strings.Split(os.Getenv("PETREL_FLOOD_TOKENS"), ",")
	return all[int(f.opened.Load())%len(all)]
}

// call has streams of one connection call methods over HTTP/2, one call after the other each:
// one of three is large, and another one calls a method that there is not.
func (f *crowd) call(c net.Conn, tcp bool) {
	if tcp {
		f.ask(c, tcp)
		return
	}
	p := &http.Protocols{}
	p.SetUnencryptedHTTP2(true)
	given := make(chan net.Conn, 1)
	given <- c
	client := &http.Client{Transport: &http.Transport{Protocols: p, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		select {
		case c := <-given:
			return c, nil
		default:
			return nil, net.ErrClosed // one connection
		}
	}}}
	token, body := f.token(), large()
	var all sync.WaitGroup
	for i := range streams {
		all.Go(func() {
			method, body := "AccountService/ChangeSettings", body
			switch i % 3 {
			case 1:
				method, body = "AccountService/GetSettings", "{}"
			case 2:
				method, body = "ConversationService/NoSuchMethod", "{}"
			}
			for f.ctx.Err() == nil {
				q, err := http.NewRequestWithContext(f.ctx, http.MethodPost, "http://"+f.http+"/petrel.v1."+method, strings.NewReader(body))
				if err != nil {
					return
				}
				q.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token}}
				r, err := client.Do(q)
				if err != nil {
					return
				}
				_ = r.Body.Close() // unread: the stream ends
				f.wrote.Add(1)
			}
		})
	}
	all.Wait()
}

// ask has as many calls wait on a long connection as there may be, a large one each time.
func (f *crowd) ask(c net.Conn, tcp bool) {
	url := "ws://" + f.http
	if tcp {
		url = "tcp://" + f.tcp
	}
	conn, err := wiretest.Dial(f.ctx, wiretest.Options{URL: url, Codec: wire.JSON, Token: f.token(), Device: fmt.Sprint("d", f.opened.Load()), NetDial: func(context.Context, string, string) (net.Conn, error) { return c, nil }})
	if err != nil {
		return
	}
	defer conn.Close() //nolint:errcheck // the server may have closed it
	body, open := large(), 0
	for f.ctx.Err() == nil {
		for ; open < 16; open++ {
			call := &petrelv1.Call{Method: "petrel.v1.AccountService/ChangeSettings", Request: &petrelv1.Call_Json{Json: body}}
			if _, err := conn.Write(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Call{Call: call}}); err != nil {
				return
			}
			f.wrote.Add(1)
		}
		r, err := conn.Recv(f.ctx)
		if err != nil {
			return
		}
		if r.Id != 0 {
			open--
		}
	}
}
