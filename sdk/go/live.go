package petrel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// What a server may offer beyond the base. Spec: P-2.6.
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
	capMentions = "mentions"
)

const (
	maxReads    = 6                // history requests under way, if the server takes as many (P-2.2)
	maxMoves    = 3                // cursor requests under way
	maxAsked    = 4                // requests of the application under way
	retryWait   = time.Second      // after a refusal that names no time
	pongTimeout = 10 * time.Second // P-7.3
	minPage     = 10               // entries of a history page over a link that breaks
	together    = 64               // frames applied before what they say is stored and told
)

// live is one connection from its welcome on. Client.mu guards all of it.
type live struct {
	link    *link
	welcome *petrelv1.Welcome

	nextID  uint64
	waiting map[uint64]func(*petrelv1.ServerFrame) // by id; called once under Client.mu, with nil when the connection ended

	sends, sendBytes int // unanswered, P-4.6
	synced           bool
	syncing, again   bool // a sync is under way; another is needed after it
	syncAt           time.Time
	newest           uint32 // asked of the sync under way
	reads, moving    int
	pages            int     // history pages that came
	back             bool    // the server holds less than it told, or something else
	missing          []*conv // to be repaired, first come first served
	pinged           time.Time
	focused          *petrelv1.SetFocus // sent on this connection
	focusAt          time.Time          // when it has to be sent again; zero: not
	watchDue         bool               // the server does not know whom the application watches
	watchAt          time.Time          // not before
	pushed           map[string]bool    // keys of settings that came as events since the last lagged; nil: none did
}

// readsFull reports whether no further history request may be sent. A server that names
// no limit takes 16 requests. Some are left for cursors, syncs and the application.
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

// ask sends a request; answer gets its answer, or nil. c.mu is held.
func (c *Client) ask(f *petrelv1.ClientFrame, answer func(*petrelv1.ServerFrame)) {
	lv := c.live
	lv.nextID++
	f.Id = lv.nextID
	b, err := lv.link.encode(f)
	if err != nil { // nothing this package makes; the answer that never comes would hang its asker
		c.log.Error("encode a frame", "err", err)
		answer(nil)
		return
	}
	lv.waiting[f.Id] = answer
	lv.link.push(b)
}

// serve keeps one connection until it ends, and says why it ended.
func (c *Client) serve(ctx context.Context, l *link, w *petrelv1.Welcome) error {
	if err := c.begin(l, w); err != nil {
		return err
	}
	defer c.finish()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := c.flush(); err != nil {
			return err
		}
		if err := c.work(timer); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.wake:
		case <-timer.C:
		case f, ok := <-l.frames:
			for n := 1; ; n++ {
				if !ok {
					return fmt.Errorf("connection ended: %w", l.ended())
				}
				if err := c.take(f); err != nil {
					return err
				}
				if n == together {
					break
				}
				select {
				case f, ok = <-l.frames:
					continue
				default:
				}
				break
			}
		}
	}
}

// begin makes the connection the client's. Spec: P-3.4.
func (c *Client) begin(l *link, w *petrelv1.Welcome) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.meta.User != "" && c.meta.User != w.User {
		return &Error{Code: CodeInvalid, Message: fmt.Sprintf("the store belongs to %s, the token to %s", c.meta.User, w.User)}
	}
	c.live = &live{link: l, welcome: w, nextID: 1, waiting: map[uint64]func(*petrelv1.ServerFrame){}}
	if c.meta.User != w.User || c.meta.Inbox != w.Inbox {
		c.meta.User, c.meta.Inbox, c.metaDirty = w.User, w.Inbox, true
	}
	if c.meta.History != w.HistoryId {
		c.forget()
		c.meta.History = w.HistoryId
	}
	c.setStatus(Status{State: Live, User: w.User, Server: w.Server, History: w.HistoryId})
	c.changed.Account = true // what happened meanwhile in the inbox is not listed
	close(c.up)
	for _, v := range c.convs {
		v.before = v.have
	}
	c.startSync()
	c.sendFocus()
	c.live.watchDue = len(c.lossy.watch) > 0
	c.sendWatch(time.Now())
	return nil
}

// finish ends the connection for all who wait for it.
func (c *Client) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	lv := c.live
	switch { // a link that breaks before a page is through gets smaller ones
	case lv.reads > 0 && lv.pages == 0:
		c.pageLimit = max(c.pageSize(lv)/2, minPage)
	case lv.pages > 0 && c.pageLimit > 0:
		c.pageLimit = min(2*c.pageLimit, int(lv.welcome.GetLimits().GetHistoryMessages()))
	}
	for _, answer := range lv.waiting {
		answer(nil)
	}
	for _, v := range c.convs {
		v.queued, v.moving = false, false
	}
	c.endLossy()
	c.live = nil
	c.up = make(chan struct{})
}

// pageSize is how many entries of a history page are asked for.
func (c *Client) pageSize(lv *live) int {
	if c.pageLimit > 0 {
		return c.pageLimit
	}
	return int(lv.welcome.GetLimits().GetHistoryMessages())
}

// take applies one frame.
func (c *Client) take(f *petrelv1.ServerFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	lv := c.live
	if f.Id != 0 {
		answer := lv.waiting[f.Id]
		delete(lv.waiting, f.Id)
		if answer != nil {
			answer(f)
			return nil
		}
	}
	switch b := f.Body.(type) {
	case *petrelv1.ServerFrame_Events:
		c.takeEvents(b.Events)
	case *petrelv1.ServerFrame_Ping: // P-7.1
		p, err := lv.link.encode(&petrelv1.ClientFrame{Id: f.Id, Body: &petrelv1.ClientFrame_Pong{Pong: &petrelv1.Pong{}}})
		if err != nil {
			return err
		}
		lv.link.push(p)
	case *petrelv1.ServerFrame_Lagged: // P-6.4
		lv.pushed = nil // what was removed meanwhile was not pushed
		c.startSync()
	case *petrelv1.ServerFrame_Kick: // P-3.5
		return fromKick(b.Kick)
	case *petrelv1.ServerFrame_Error:
		return fromWire(b.Error)
	}
	return nil
}

// work does what the state asks for and sets timer to when more is due.
func (c *Client) work(timer *time.Timer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.alarm = time.Time{}
	if err := c.heartbeat(now); err != nil {
		return err
	}
	lv := c.live
	if lv.back && !lv.syncing { // P-6.8
		lv.back = false
		c.log.Error("the server has gone back to an earlier state: what it said is dropped")
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
	c.moveAll(now)
	c.sendAll(now)
	if !timer.Stop() {
		select {
		case <-timer.C:
		default:
		}
	}
	if !c.alarm.IsZero() {
		timer.Reset(max(0, time.Until(c.alarm)))
	}
	return nil
}

// heartbeat probes a silent link and gives up a dead one. Spec: P-7.3.
func (c *Client) heartbeat(now time.Time) error {
	lv := c.live
	every := time.Duration(lv.welcome.HeartbeatMs) * time.Millisecond
	if every == 0 {
		return nil
	}
	heard := time.Unix(0, lv.link.heard.Load())
	if !lv.pinged.IsZero() && !heard.Before(lv.pinged) {
		lv.pinged = time.Time{}
	}
	switch silent := now.Sub(heard); {
	case !lv.pinged.IsZero() && now.Sub(lv.pinged) >= pongTimeout:
		return errors.New("the server is silent")
	case !lv.pinged.IsZero():
		c.alarmAt(lv.pinged.Add(pongTimeout))
	case silent >= every:
		lv.pinged = now
		c.ask(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Ping{Ping: &petrelv1.Ping{}}}, func(*petrelv1.ServerFrame) {})
		c.alarmAt(now.Add(pongTimeout))
	default:
		c.alarmAt(heard.Add(every))
	}
	return nil
}

// retryAt is when a request that was refused with e may be repeated.
func retryAt(e *petrelv1.Error) time.Time {
	wait := time.Duration(e.RetryAfterMs) * time.Millisecond
	if wait == 0 {
		wait = retryWait
	}
	return time.Now().Add(wait)
}

// flush stores what has changed, lets the messages that are stored go out, and
// tells the subscriptions.
func (c *Client) flush() error {
	c.mu.Lock()
	c.countUnread()
	rows := c.takeRows()
	fresh := c.toSync
	c.toSync = nil
	changed := c.changed
	c.changed = Change{}
	c.mu.Unlock()
	if c.o.Store != nil {
		if len(rows) > 0 {
			if err := c.o.Store.Write(rows); err != nil {
				return fmt.Errorf("%w: %w", errStore, err)
			}
		}
		if len(fresh) > 0 {
			if err := c.o.Store.Sync(); err != nil {
				return fmt.Errorf("%w: %w", errStore, err)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range fresh {
		o.safe = true
		c.wakeLane(o.lane)
	}
	if !changed.Empty() {
		for s := range c.subs {
			s.add(&changed)
		}
	}
	return nil
}
