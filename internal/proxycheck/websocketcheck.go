package proxycheck

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/gobwas/ws"

	"github.com/petrel-im/petrel/internal/im"
)

// hello is a hello with an invalid token. The server refuses it, and the answer shows that frames pass in both
// directions.
const hello = `{"id":"1","hello":{"versionMin":1,"versionMax":1,"token":"none","device":"doctor","client":"petrel doctor"}}`

// silence is advice about long silence, for which no check can wait.
const silence = "No check can wait for a long silence: set the proxy's read timeout to more than 90 s (nginx: proxy_read_timeout)"

// checkWebSocket connects as a page of the server does, and sends a hello.
func (v *visit) checkWebSocket(ctx context.Context) {
	const check = "WebSocket"
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, v.base.String()+"/v1/ws", http.NoBody)
	if err != nil {
		v.note(check, Fail, "look at the URL", "%v", err)
		return
	}
	q.Header = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key": {"cGV0cmVsIGRvY3RvciA6LSk="},
		"Origin":            {v.base.Scheme + "://" + v.base.Host},
	}
	res, err := v.http1.Do(q)
	if err != nil {
		v.note(check, Fail, "look at the log of the proxy", "%v", err)
		return
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		defer func() { _ = res.Body.Close() }() // it is read
		a, err := read(res)
		if err != nil {
			v.note(check, Fail, "look at the log of the proxy", "%v", err)
			return
		}
		v.refused(check, a)
		return
	}
	link, ok := res.Body.(io.ReadWriteCloser) // net/http promises it for this status
	if !ok {
		v.note(check, Fail, "look at the log of the proxy", "no connection comes with the status 101")
		return
	}
	end := time.AfterFunc(patience, func() { _ = link.Close() }) // ends the read
	defer end.Stop()
	defer func() { _ = link.Close() }() // the check is over
	if err = ws.WriteFrame(link, ws.MaskFrame(ws.NewTextFrame([]byte(hello)))); err == nil {
		_, err = ws.ReadHeader(link)
	}
	if err != nil {
		v.note(check, Fail, "look at the log of the proxy: it takes the connection and passes no frames on",
			"a hello gets no answer: %v", err)
		return
	}
	v.note(check, OK, "", "clients connect. %s", silence)
}

// refused judges the answer to a handshake that made no connection.
func (v *visit) refused(check string, a *answered) {
	switch {
	case a.status == http.StatusUpgradeRequired:
		v.note(check, Fail, "have the proxy pass Upgrade and Connection on, over HTTP/1.1 (nginx: proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade); "+recipes, "no client connects: %s", a.text)
	case a.code == im.CodeDraining, a.code == im.CodeTooManyConnections:
		v.note(check, Warn, "look again in a minute", "the handshake is refused for now: %s", a.text)
	case a.code != "":
		v.note(check, Fail, "have the proxy pass Host and Origin on as the client sent them; "+recipes,
			"the handshake is refused with %s: %s", a.code, a.text)
	default:
		v.note(check, Fail, "have the proxy pass /v1/ws on to the server; "+recipes,
			"the handshake is answered with %s, and not by Petrel", a.from())
	}
}
