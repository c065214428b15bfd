package walk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	petrel "github.com/petrel-im/petrel/sdk/go"
)

// patience is how long a client may take for what it can do at once. Only a fault meets it.
const patience = eventually.Limit

// A device is an application on the SDK: it composes messages, and notes what it is told.
type device struct {
	w    *walk
	name string
	user string
	keep int // Options.Keep; 0: everything
	bot  bool

	net    *network
	disk   *disk
	login  login
	logins int // each one is another device for the server

	c         *petrel.Client // nil: it does not run
	sub       *petrel.Subscription
	stop      context.CancelFunc
	ctx       context.Context // ends when the client does
	ended     chan error      // capacity 1; of Run
	doing     sync.WaitGroup  // calls, and the loop of a bot
	slots     chan struct{}   // capacity 2; full: the application makes no further call
	loggedOut bool            // another device has voided the tokens of this one
	crashed   bool            // the client was ended in the middle of what it did
	closely   bool            // everything that a Change names is read anew

	shown    shown
	open     map[string]*composed // that are neither shown as entries nor given up, by id
	composed []*composed          // all

	mu   sync.Mutex // tier 0; guards got and life
	got  []incoming // of Incoming, in the order in which it came
	life int
}

// composed is a message that an application has composed.
type composed struct {
	id, to string // to: a conversation, or "@" and a user
	text   string
	login  int
	sure   bool // a text to a conversation that the user never leaves: it is stored exactly once
	lost   bool // a loss of power has taken it before it was sent: it is never stored
	maybe  bool // the server went back, or the device was logged out, after it was stored: it may be gone
	gone   bool // the application was told that it is rejected
	acked  bool // the application was told that it is stored
	seen   bool // and was shown the entry
}

// incoming is a message that the loop of a bot got.
type incoming struct {
	life              int
	history, conv, id string
	seq               uint64
}

// shown is what the application knows, by reading only what a Change names.
type shown struct {
	history string
	status  petrel.Status
	unread  petrel.Unread
	list    []string
	convs   map[string]*view
}

// view is one conversation as it was when a Change named it last.
type view struct {
	petrel.Conversation
	told  []uint64 // seqs, in the order in which they came
	ids   map[string]uint64
	all   []petrel.Message // of the newest read of everything
	fresh bool             // nothing was told since
}

func (d *device) fail(format string, a ...any) {
	d.w.fail("%s: %s", d.name, fmt.Sprintf(format, a...))
}

// start runs a client on the store of the device.
func (d *device) start() {
	d.net.goUp()
	failed := d.disk.hasFailed()
	o := petrel.Options{
		URL: "tcp://walk.test:1", JSON: d.net.json, NetDial: d.net.dial, Token: d.login.token, Store: d.disk.open(),
		Keep: d.keep, Newest: 5, ManualDelivered: d.w.seed%3 == 0,
	}
	if d.keep == 0 {
		o.Keep = 1 << 20
	}
	c, err := petrel.New(o)
	if err != nil {
		d.fail("open the store: %v", err)
		return
	}
	d.w.log("%s starts, life %d, open %d", d.name, d.life+1, len(d.open))
	d.c, d.sub, d.ended, d.slots = c, c.Subscribe(), make(chan error, 1), make(chan struct{}, 2)
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.reload(failed)
	ended, ctx := d.ended, d.ctx
	go func() { ended <- c.Run(ctx) }()
	d.mu.Lock()
	d.life++
	d.mu.Unlock()
	if d.bot {
		d.doing.Go(func() { d.read(ctx, c) })
	}
}

// reload compares what the new client shows with what the application knows. failed: the
// last client ended without writing what its snapshots showed.
func (d *device) reload(failed bool) {
	rows, lost := d.disk.keys(), d.crashed
	d.crashed = false
	for id, v := range d.shown.convs {
		last := uint64(0)
		for _, m := range d.c.Messages(id, 0, 0) {
			last = m.Seq
		}
		if !failed && d.keep == 0 && last < v.last() && d.c.Status().History == d.shown.history {
			d.fail("%s: seq %d was shown, and is not there after a restart, only %d", id, v.last(), last)
		}
		v.Read, v.Receipts = 0, nil // an unsynced cursor is gone, and those of others are not stored
		for len(v.told) > 0 && v.last() > last {
			v.told = v.told[:len(v.told)-1]
		}
		for id, seq := range v.ids {
			if seq > last {
				delete(v.ids, id)
			}
		}
	}
	for _, m := range d.composed {
		_, kept := rows["o/"+m.id]
		switch {
		case m.id == "":
		case kept && failed:
			m.seen, m.gone = false, false
			d.open[m.id] = m
		case lost && !kept && d.open[m.id] != nil && !d.holds(m):
			m.lost = true
			delete(d.open, m.id)
		}
	}
}

// holds tells whether the message is among the entries of the client.
func (d *device) holds(m *composed) bool {
	return slices.ContainsFunc(d.c.Messages(d.convOf(m.to), 0, 0), func(x petrel.Message) bool { return x.ClientMsgId == m.id && x.From == d.user })
}

// end ends the client. want tells whether Run may have ended with this error.
func (d *device) end(want func(error) bool) {
	if d.c == nil {
		return
	}
	d.stop()
	d.net.goDown()
	var err error
	select {
	case err = <-d.ended:
	case <-time.After(patience):
		d.fail("the client does not end")
		return
	}
	if !within(patience, d.doing.Wait) {
		d.fail("a call of the application, or the loop of the bot, does not end")
		return
	}
	if err != nil && !want(err) {
		d.fail("run: %v", err)
	}
	d.sub.Close()
	d.c = nil
}

// mayEnd tells whether the walk has done something for which Run ends with an error.
func (d *device) mayEnd(err error) bool {
	code := petrel.CodeOf(err)
	switch {
	case d.disk.hasFailed():
		return errors.Is(err, errDisk)
	case d.loggedOut:
		return code == petrel.CodeRevoked || code == petrel.CodeUnauthenticated
	}
	return false
}

// restart ends the client and starts another one on its store.
func (d *device) restart() {
	d.end(d.mayEnd)
	if d.w.failed() {
		return
	}
	d.start()
}

// crash ends the client in the middle of what it does. Without power what was not synced is
// gone too.
func (d *device) crash(power bool) {
	d.disk.crash()
	d.end(d.mayEnd)
	if power {
		d.crashed = true
		d.disk.losePower()
	}
	if !d.w.failed() {
		d.start()
	}
}

// relogin logs the device in as another one, with an empty store.
func (d *device) relogin() {
	d.end(d.mayEnd)
	if d.w.failed() {
		return
	}
	d.disk.wipe()
	d.logins++
	for _, m := range d.open {
		m.maybe = true
	}
	clear(d.open)
	d.shown = shown{convs: map[string]*view{}}
	d.loggedOut = false
	d.logIn()
	d.start()
}

// logIn gets tokens for the device, in the place of those that it has.
func (d *device) logIn() {
	tokens := d.w.world.mint(d.user, fmt.Sprintf("%s-%d", d.name, d.logins))
	file, err := petrel.SaveTokens(filepath.Join(d.w.dir, d.name), d.w.auth(), tokens)
	if err != nil {
		d.fail("save tokens: %v", err)
		return
	}
	d.login.use(file)
}

// reopen reads the tokens from their file, as a new process does.
func (d *device) reopen() {
	file, err := petrel.OpenTokens(filepath.Join(d.w.dir, d.name), d.w.auth())
	if err != nil {
		d.fail("open tokens: %v", err)
		return
	}
	d.login.use(file)
}

// tend takes what has changed, and starts the client again if it has ended.
func (d *device) tend() {
	select {
	case err := <-d.ended:
		d.ended <- err
		switch {
		case d.loggedOut && d.mayEnd(err):
			d.relogin()
		case d.disk.hasFailed():
			d.restart()
		default:
			d.fail("run ended by itself: %v", err)
		}
	default:
	}
	if d.c != nil && !d.w.failed() {
		d.look(d.closely || d.w.random(16) == 0)
	}
}

// look reads what a Change names.
func (d *device) look(closely bool) {
	ch := d.sub.Take()
	if ch.Empty() {
		return
	}
	for {
		status := d.c.Status()
		if status.History != d.shown.history {
			d.shown = shown{history: status.History, convs: map[string]*view{}}
			ch.List, ch.Unread = true, true
		}
		if ch.Status {
			d.shown.status = status
		}
		if ch.Unread {
			d.shown.unread = d.c.Unread()
		}
		if ch.List {
			d.shown.list = d.list()
		}
		for _, id := range ch.Conversations {
			d.lookAt(id, closely)
		}
		if d.c.Status().History == status.History || d.w.failed() {
			return
		}
	}
}

// list are the conversations that the client shows, sorted.
func (d *device) list() []string {
	var ids []string
	for _, v := range d.c.Conversations() {
		ids = append(ids, v.ID)
	}
	slices.Sort(ids)
	return ids
}

func (d *device) lookAt(id string, closely bool) {
	v := d.shown.convs[id]
	if v == nil {
		v = &view{ids: map[string]uint64{}}
		d.shown.convs[id] = v
	}
	s, known := d.c.Conversation(id)
	if !known {
		delete(d.shown.convs, id)
		return
	}
	if s.Read < v.Read {
		d.fail("%s: read up to %d, and then up to %d", id, v.Read, s.Read)
	}
	for user, r := range v.Receipts {
		if now := s.Receipts[user]; now.GetRead() < r.Read || now.GetDelivered() < r.Delivered {
			d.fail("%s: %s was at %v, and then at %v", id, user, r, now)
		}
	}
	v.Conversation, v.fresh = s, false
	to := id
	if s.Peer != "" {
		to = "@" + s.Peer
	}
	pending := d.pending(to) // first: a message leaves them when it becomes an entry
	last, first := v.last(), len(v.told)
	for _, m := range d.c.Messages(id, last, 0) {
		if m.Seq <= v.last() {
			d.fail("%s: seq %d was shown after %d", id, m.Seq, v.last())
		}
		v.told = append(v.told, m.Seq)
		if m.ClientMsgId == "" {
			continue
		}
		key := m.From + "/" + m.ClientMsgId
		if other, twice := v.ids[key]; twice {
			d.fail("%s: message %s is shown at %d and at %d", id, key, other, m.Seq)
		}
		v.ids[key] = m.Seq
	}
	d.outbox(v, to, pending, first > 0 && len(v.told) > first && v.told[first] > last+1)
	if closely {
		v.all, v.fresh = d.c.Messages(id, 0, 0), true
	}
}

func describe(o *petrel.Outgoing) string {
	state, _, seq, err := o.State()
	return fmt.Sprint(state, " ", seq, " ", err)
}

func (v *view) last() uint64 {
	if len(v.told) == 0 {
		return 0
	}
	return v.told[len(v.told)-1]
}

// outbox looks at the messages to a conversation that the application has composed: each is
// among those on their way or among the entries, and not in both. skipped: the client has
// dropped entries.
func (d *device) outbox(v *view, to string, all []*petrel.Outgoing, skipped bool) {
	pending := map[string]*petrel.Outgoing{}
	for _, o := range all {
		if pending[o.ID] != nil {
			d.fail("%s: message %s is on its way twice", v.ID, o.ID)
		}
		pending[o.ID] = o
		if seq, stored := v.ids[d.user+"/"+o.ID]; stored && slices.ContainsFunc(d.pending(to), func(x *petrel.Outgoing) bool { return x.ID == o.ID }) {
			d.fail("%s: message %s is on its way, and stored at %d: %s", v.ID, o.ID, seq, describe(o))
		}
	}
	for _, m := range d.open {
		if m.to != to {
			continue
		}
		if v.ids[d.user+"/"+m.id] != 0 {
			m.seen = true
			delete(d.open, m.id)
			continue
		}
		o := pending[m.id]
		if o == nil {
			if m.maybe || !m.sure { // carol may no longer read messages that she sent before her removal
				m.maybe = true
				delete(d.open, m.id)
				continue
			}
			if first := d.first(v.ID); first == 1 && !skipped { // otherwise it may be among those that are not loaded
				d.fail("%s: message %s is neither on its way nor stored; %+v, last told %d, status %+v", v.ID, m.id, m, v.last(), d.c.Status())
			}
			m.seen = true
			delete(d.open, m.id)
			continue
		}
		switch state, _, _, err := o.State(); {
		case state == petrel.Rejected && m.sure:
			d.fail("%s: message %s is rejected: %v", v.ID, m.id, err)
		case state == petrel.Unknowable && m.sure:
			d.fail("%s: the fate of message %s is not known", v.ID, m.id)
		case state == petrel.Unknowable: // refused, and an earlier attempt may still come
			m.maybe = true
			delete(d.open, m.id)
			d.w.count["unknowable"]++
			o.Discard()
		case state == petrel.Sent: // its entry is not there yet
			m.acked = true
		case state == petrel.Rejected:
			m.gone = true
			delete(d.open, m.id)
			o.Discard()
		}
	}
}

// pending are the messages on their way to a conversation, or to "@" and a user.
func (d *device) pending(to string) []*petrel.Outgoing {
	if user, direct := strings.CutPrefix(to, "@"); direct {
		return d.c.PendingTo(user)
	}
	return d.c.Pending(to)
}

// sending is how many of them have no fate yet.
func (d *device) sending(to string) (n int) {
	for _, o := range d.pending(to) {
		if state, _, _, _ := o.State(); state == petrel.Sending {
			n++
		}
	}
	return n
}

// convOf is the conversation of "@" and a user; "" before there is one.
func (d *device) convOf(to string) string {
	if user, direct := strings.CutPrefix(to, "@"); direct {
		return d.c.Direct(user)
	}
	return to
}

// wait tends the device until cond holds, and reports whether it does.
func (d *device) wait(long time.Duration, cond func() bool) bool {
	deadline := time.NewTimer(long)
	defer deadline.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !d.w.failed() {
		d.tend()
		if d.c == nil || cond() {
			return true
		}
		select {
		case <-d.sub.Ready():
		case <-poll.C:
		case <-deadline.C:
			return false
		}
	}
	return true
}

// live tells whether the client is connected, as far as it knows.
func (d *device) live() bool { return d.c.Status().State == petrel.Live }

// compose sends a message.
func (d *device) compose(to string, sure bool, x petrel.Draft) {
	x.Conv = d.convOf(to) // once: with another history id there is none any more
	if user, direct := strings.CutPrefix(to, "@"); direct && (x.Conv == "" || d.w.random(2) == 0) {
		x.Conv, x.User = "", user
	}
	o, err := d.c.Send(x)
	switch {
	case err != nil && d.disk.hasFailed(): // nobody knows whether its row is there
		d.composed = append(d.composed, &composed{to: to, text: cmp.Or(x.Text, x.Edit.GetText()), login: d.logins, maybe: true})
		return
	case err != nil:
		d.fail("send %+v: %v", x, err)
		return
	}
	m := &composed{id: o.ID, to: to, text: cmp.Or(x.Text, x.Edit.GetText()), login: d.logins, sure: sure}
	d.open[m.id] = m
	d.composed = append(d.composed, m)
	if x.ID != "" && d.w.random(2) == 0 { // the application is not sure that it has sent it
		if again, err := d.c.Send(x); err != nil && petrel.CodeOf(err) != "" {
			d.fail("send %+v again: %v", x, err)
		} else if err == nil && again.ID != o.ID {
			d.fail("send %+v again: got %s, want %s", x, again.ID, o.ID)
		}
	}
}

// call makes a call of the application beside the walk.
func (d *device) call(name string, f func(ctx context.Context, c *petrel.Client) error) {
	select {
	case d.slots <- struct{}{}:
	default:
		return
	}
	ctx, c, slots := d.ctx, d.c, d.slots
	d.doing.Go(func() {
		defer func() { <-slots }()
		err := f(ctx, c)
		if err == nil || ctx.Err() != nil || errors.Is(err, petrel.ErrConnectionLost) {
			return
		}
		if !slices.Contains([]string{
			petrel.CodeNoTarget, petrel.CodeForbidden, petrel.CodeNotMember, petrel.CodeNoConversation, petrel.CodeInvalid, petrel.CodeRateLimited,
			petrel.CodeDraining, petrel.CodeStoreStalled, petrel.CodeUnauthenticated, petrel.CodeRevoked, petrel.CodeNoDevice, petrel.CodeOverloaded,
		}, petrel.CodeOf(err)) {
			d.fail("%s: %v", name, err)
		}
	})
}

// read is the loop of a bot.
func (d *device) read(ctx context.Context, c *petrel.Client) {
	for m, err := range c.Incoming(ctx) {
		if err != nil {
			if !d.disk.hasFailed() && ctx.Err() == nil {
				d.fail("read incoming messages: %v", err)
			}
			return
		}
		d.mu.Lock()
		d.got = append(d.got, incoming{d.life, c.Status().History, m.Conv, m.From + "/" + m.ClientMsgId, m.Seq})
		d.mu.Unlock()
	}
}

// serverWentBack notes the messages that may be gone: those that were shown as stored.
func (d *device) serverWentBack() {
	for _, m := range d.composed {
		if m.seen || m.acked {
			m.maybe = true
		}
	}
	d.login.use(nil)
}

// login is where the application gets its tokens.
type login struct {
	mu     sync.Mutex        // tier 0; guards the fields below
	file   *petrel.TokenFile // nil: the person has to log in first
	expire bool              // the next token is not valid any more
	renew  bool              // the pair has to be renewed
}

func (l *login) use(file *petrel.TokenFile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file = file
}

func (l *login) expires() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire = true
}

// token is a TokenSource. One that has expired is what it gives first; the server refuses
// it, and the file gets another pair.
func (l *login) token(ctx context.Context, refused string) (string, error) {
	l.mu.Lock()
	l.renew = l.renew || refused != ""
	file, expire, renew := l.file, l.expire && !l.renew, l.renew
	l.expire = l.expire && !expire
	l.mu.Unlock()
	switch {
	case file == nil:
		return "", errors.New("nobody is logged in")
	case expire:
		token := []byte(file.Tokens().Access)
		token[len(token)-2] ^= 1
		return string(token), nil
	case !renew:
		return file.Token(ctx, "")
	}
	token, err := file.Token(ctx, file.Tokens().Access)
	if err == nil {
		l.mu.Lock()
		l.renew = false
		l.mu.Unlock()
	}
	return token, err
}
