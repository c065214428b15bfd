package petrel

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Optional capabilities of a server. Spec: P-2.6.
const (
	capEdit   = "edit"
	capCursor = "cursor"
	capFocus  = "focus"
	capNewest = "newest"
	capCall   = "call"
	capRel    = "rel"
	capSignal = "signal"
	capNotes  = "notes"

	capPresence = "presence"
	capPersonal = "personal"
	capProfiles = "profiles"
	capMentions = "mentions"
	capLarge    = "large"
)

const (
	maxReads  = 6           // history requests under way; see readsFull
	maxMoves  = 3           // cursor requests under way
	maxAsked  = 4           // requests of the application under way
	retryWait = time.Second // after a refusal that names no time
	minPage   = 10          // entries of a history page over a link that breaks
)

// live is one connection from its welcome on.
type live struct {
	conn    uint64 // its number
	addr    string
	began   time.Time
	welcome *petrelv1.Welcome
	pulse

	nextID  uint64
	waiting map[uint64]request // by id

	sends, sendBytes int // unanswered, P-4.6
	synced           bool
	syncing, again   bool // a sync is under way; another is needed after it
	syncAt           time.Time
	newest           uint32 // newest entries of a conversation that the sync under way asks for
	reads, moving    int
	pages            int                // history requests that were answered
	back             bool               // the server has fewer or other entries than it had sent before
	missing          []*conv            // wait for a request for their missing entries, in this order
	focused          *petrelv1.SetFocus // sent on this connection
	focusAt          time.Time          // when it has to be sent again; zero: not
	watchDue         bool               // the server does not know whom the application watches
	watchAt          time.Time          // the watched users are not sent before this time
	pushed           map[string]bool    // keys of settings that came as events since the last lagged; nil: none did
}

// readsFull reports whether no further history request may be sent: maxReads are open, or half of the requests
// that the server allows. The rest is left for cursors, syncs and the application.
func (lv *live) readsFull() bool {
	limit := maxReads
	if n := int(lv.welcome.GetLimits().GetOpenRequests()); n > 0 {
		limit = min(limit, max(1, n/2))
	}
	return lv.reads >= limit
}

func (lv *live) offers(capability string) bool {
	return slices.Contains(lv.welcome.Capabilities, capability)
}

// request is a request that waits for its answer.
type request struct {
	at     time.Time
	kind   asked
	bytes  int
	answer func(*petrelv1.ServerFrame) // called once; nil: the connection ended before the answer
}

// asked is the kind of a request.
type asked int

const (
	asksOther asked = iota + 1
	asksPing
	asksSend
	asksPage // of a sync or of a history
)

func kindOf(f *petrelv1.ClientFrame) asked {
	switch f.Body.(type) {
	case *petrelv1.ClientFrame_Sync, *petrelv1.ClientFrame_History:
		return asksPage
	case *petrelv1.ClientFrame_Ping:
		return asksPing
	}
	return asksOther
}

// ask sends a request. It calls answer with the server's answer, with nil when the connection ends, or at once
// with nil if the frame cannot be encoded.
func (c *core) ask(f *petrelv1.ClientFrame, answer func(*petrelv1.ServerFrame)) {
	f.Id = c.live.nextID + 1
	b, err := encode(c.o.json, f)
	if err != nil { // this package makes no such frame; without this call its caller would wait for ever
		c.remark(fmt.Sprintf("encode a frame: %v", err))
		answer(nil)
		return
	}
	c.askEncoded(kindOf(f), b, answer)
}

// askEncoded sends the request b, which was encoded with the id after nextID.
func (c *core) askEncoded(kind asked, b []byte, answer func(*petrelv1.ServerFrame)) {
	lv := c.live
	lv.nextID++
	lv.waiting[lv.nextID] = request{c.now, kind, len(b), answer}
	lv.order, lv.bytes = append(lv.order, lv.nextID), lv.bytes+len(b)
	c.out.frames = append(c.out.frames, frame{lv.conn, lv.nextID, b})
}

// call sends a request of the application. need is the required capability, or "". Without it nothing is sent.
// Codes: unsupported.
func (c *core) call(need string, f *petrelv1.ClientFrame, answer func(*petrelv1.ServerFrame)) error {
	if need != "" && !c.live.offers(need) {
		return &Error{Code: CodeUnsupported, Message: "the server does not offer " + need, Settled: true}
	}
	c.ask(f, answer)
	c.out.woken = true // step has to set the alarm for an answer that does not come
	return nil
}

// begin makes t, which got the welcome w, the live connection, and starts a sync. If the history id has changed,
// it drops the former state. It returns an error if the store belongs to another user. Spec: P-3.4.
func (c *core) begin(t *try, w *petrelv1.Welcome) error {
	if c.meta.User != "" && c.meta.User != w.User {
		return &Error{Code: CodeInvalid, Message: fmt.Sprintf("the store belongs to %s, the token to %s", c.meta.User,
			w.User)}
	}
	c.live = &live{conn: t.conn, addr: t.addr, began: c.now, welcome: w, pulse: pulse{heard: c.now}, nextID: 1,
		waiting: map[uint64]request{}}
	c.live.tripped(c.now.Sub(t.greeted))
	if c.meta.User != w.User || c.meta.Inbox != w.Inbox {
		c.meta.User, c.meta.Inbox, c.metaDirty = w.User, w.Inbox, true
	}
	if c.meta.History != w.HistoryId {
		c.forget()
		c.meta.History = w.HistoryId
	}
	c.status.User, c.status.Server, c.status.History = w.User, w.Server, w.HistoryId
	c.setStatus(Status{State: Live})
	c.changed.Account = true // a sync does not list the inbox entries that were added while the client was offline
	for _, v := range c.convs {
		v.before = v.have
	}
	for _, l := range c.lanes {
		if len(l.queue) > 0 && CodeOf(l.queue[0].err) == CodeDraining { // this is another server
			l.at = time.Time{}
		}
	}
	c.startSync()
	c.sendFocus()
	c.live.watchDue = len(c.lossy.watch) > 0
	c.sendWatch(c.now)
	return nil
}

// finish drops the state of the live connection, and adapts the size of history pages to it. Requests that wait
// for an answer get nil.
func (c *core) finish() {
	lv := c.live
	switch { // a link that breaks before the first page has arrived gets smaller pages
	case lv.reads > 0 && lv.pages == 0:
		c.pageLimit = max(c.pageSize(lv)/2, minPage)
	case lv.pages > 0 && c.pageLimit > 0:
		c.pageLimit = min(2*c.pageLimit, int(lv.welcome.GetLimits().GetHistoryMessages()))
	}
	for _, id := range slices.Sorted(maps.Keys(lv.waiting)) {
		lv.waiting[id].answer(nil)
	}
	for _, v := range c.convs {
		v.queued, v.moving = false, false
	}
	c.endLossy()
	c.live = nil
	c.out.woken = true
}

// pageSize returns the number of entries of a history page.
func (c *core) pageSize(lv *live) int {
	if c.pageLimit > 0 {
		return c.pageLimit
	}
	return int(lv.welcome.GetLimits().GetHistoryMessages())
}

// take applies one frame. After an error the connection is given up.
func (c *core) take(f *petrelv1.ServerFrame) error {
	lv := c.live
	if q, asked := lv.waiting[f.Id]; asked {
		delete(lv.waiting, f.Id)
		c.answeredIn(q)
		q.answer(f)
		return nil
	}
	switch b := f.Body.(type) {
	case *petrelv1.ServerFrame_Events:
		c.takeEvents(b.Events)
	case *petrelv1.ServerFrame_Ping: // P-7.1
		p, err := encode(c.o.json,
			&petrelv1.ClientFrame{Id: f.Id, Body: &petrelv1.ClientFrame_Pong{Pong: &petrelv1.Pong{}}})
		if err != nil {
			return err
		}
		c.out.frames = append(c.out.frames, frame{lv.conn, 0, p})
	case *petrelv1.ServerFrame_Lagged: // P-6.4
		lv.pushed = nil // events are missing, perhaps of removed settings: the next sync lists them all
		c.startSync()
	case *petrelv1.ServerFrame_Large: // S-5.7
		lv.heard = c.now.Add(secondsOf(int(b.Large.Bytes), slowestFrames))
	case *petrelv1.ServerFrame_Kick: // P-3.5
		return fromKick(b.Kick)
	case *petrelv1.ServerFrame_Error:
		return fromWire(b.Error)
	}
	return nil
}

// stepLive carries out everything that is due on the connection.
func (c *core) stepLive() {
	if err := c.beat(); err != nil {
		c.lost(err)
		return
	}
	lv, now := c.live, c.now
	if lv.back && !lv.syncing { // P-6.8
		lv.back = false
		c.remark("the server has gone back to an earlier state: the client drops its copies and syncs again")
		c.forget()
		c.startSync()
	}
	if !lv.syncing && !lv.syncAt.IsZero() {
		if now.Before(lv.syncAt) {
			c.alarmAt(lv.syncAt)
		} else {
			c.startSync()
		}
	}
	if !lv.focusAt.IsZero() {
		if now.Before(lv.focusAt) {
			c.alarmAt(lv.focusAt)
		} else {
			lv.focusAt = time.Time{}
			c.sendFocus()
		}
	}
	c.sendWatch(now)
	c.typingEnds(now)
	c.repairAll(now)
	c.askQuotes()
	c.askProfiles()
	c.moveAll(now)
	c.sendAll(now)
	if at := c.beatAt(); !at.IsZero() {
		c.alarmAt(at)
	}
}

// retryAt returns the time at which a request refused with e may be repeated: after retryWait if e names no wait.
func (c *core) retryAt(e *petrelv1.Error) time.Time {
	wait := time.Duration(e.RetryAfterMs) * time.Millisecond
	if wait == 0 {
		wait = retryWait
	}
	return c.now.Add(wait)
}
