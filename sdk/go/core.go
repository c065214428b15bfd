package petrel

import (
	"errors"
	"fmt"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// core is the client without sockets, store, clock, randomness, goroutines and locks: inputs go in, outputs
// come out, and the same inputs always give the same outputs. sdk/SPEC.md specifies it, and sdk/conformance
// has scripts of inputs and their outputs. [Client] drives it, and calls it from one goroutine at a time.
//
// Inputs are its methods: start, stop, tokenCame, opened, closed, frame, step (the clock), stored and
// storeFailed (the answer of the store), wakeUp, and the calls of the application. Before each one the caller
// sets now. Afterwards it carries out the outputs in out, and writes the rows from prepare.
type core struct {
	o      coreOptions
	random func() float64 // from 0 to below 1
	newID  func() string  // 128 random bits as text

	now   time.Time // time of the input that is being applied
	out   outputs   // not taken by the caller yet
	alarm time.Time // latest time of the next call of step; zero: there is none
	reach reach

	status    Status
	changed   Change // since the last prepare
	meta      meta
	convs     map[string]*conv
	direct    map[string]string // other user → direct conversation
	lanes     map[string]*lane
	ready     []*lane              // may have something to send
	sending   map[string]*outgoing // the messages of the outbox, settled ones too, by client message id
	composed  uint64               // number of the newest message composed
	toSync    []*outgoing          // the next turn makes their rows durable
	moves     []*conv              // have a cursor to be sent
	focus     *petrelv1.SetFocus   // nil: all
	live      *live                // nil: not connected
	pageLimit int                  // entries of a history page; 0: the limit of the server
	unread    unreadTotals
	incoming  incoming
	lossy     lossy
	settings  settings
	profiles  *profiles
	contacts  contactViews

	rows      map[string][]byte // to be written; a nil value: to be removed
	dirty     map[*conv]struct{}
	asking    map[*conv]struct{} // with quotes to be asked for
	metaDirty bool
}

// coreOptions are the options that the core needs.
type coreOptions struct {
	url                        string
	device, deviceKind, client string
	json                       bool
	stored                     bool // there is a store
	keep, newest               int  // entries; 0 of newest: none
	manualDelivered            bool
	// wholeFrames says that the transport reports only whole frames, so heard and moved come late and the client
	// waits longer for the server. Spec: S-5.7.
	wholeFrames bool
}

// meta is the stored state besides conversations and messages.
type meta struct {
	User    string `json:"user"`
	Device  string `json:"device"`
	History string `json:"history"` // the history id that all else belongs to
	Inbox   string `json:"inbox"`
	Token   []byte `json:"token"`  // of the newest sync page that was applied
	Synced  bool   `json:"synced"` // a whole sync was applied: a conversation that appears now is new
}

// outputs are the actions that the core asks for.
type outputs struct {
	token   *wantedToken
	dials   []dial
	drops   []uint64    // connections to close, by number
	frames  []frame     // to be written, in this order
	settled []*outgoing // messages whose fate is known now
	remarks []string    // for the log
	ended   bool        // Run is over
	err     error       // why Run is over
	woken   bool        // step and prepare have something to do
}

// wantedToken asks for an access token; refused is the one that the server has just refused, or "".
type wantedToken struct{ refused string }

// dial asks for a connection to an address. All later inputs about the connection carry its number, so that
// late ones of an earlier connection are recognized.
type dial struct {
	conn uint64
	addr string
}

// frame is an encoded frame for a connection.
type frame struct {
	conn uint64
	id   uint64 // of a request; 0: nothing waits for an answer
	b    []byte
}

// written has the rows that one turn writes, and the effects that wait for the write.
type written struct {
	rows    []Row // all or none
	sync    bool  // the store is synced before stored is called
	fresh   []*outgoing
	changed Change
}

// errStore wraps a failure of the store: the client stops.
var errStore = errors.New("the store of the client failed")

func newCore(o coreOptions, random func() float64, newID func() string) *core {
	return &core{
		o: o, random: random, newID: newID, reach: newReach(o.url),
		convs: map[string]*conv{}, direct: map[string]string{}, lanes: map[string]*lane{},
		sending: map[string]*outgoing{},
		rows:    map[string][]byte{}, dirty: map[*conv]struct{}{}, asking: map[*conv]struct{}{},
		unread: unreadTotals{by: map[string]unreadIn{}}, settings: settings{}, profiles: newProfiles(),
		incoming: incoming{positions: map[string]position{}},
		contacts: contactViews{of: map[string]*petrelv1.Contact{}},
	}
}

// open loads the rows of the store, before all other inputs. If they have no device id, it makes one.
func (c *core) open(rows []Row) error {
	if err := c.load(rows); err != nil {
		return err
	}
	if c.o.device != "" {
		c.meta.Device = c.o.device
	}
	if c.meta.Device == "" {
		c.meta.Device = c.newID()
		c.metaDirty = true
	}
	return nil
}

// step carries out everything that is due. Afterwards alarm is the latest time of the next call; zero: there is
// none.
func (c *core) step() {
	c.alarm = time.Time{}
	c.stepReach()
	if c.live != nil {
		c.stepLive()
	}
}

// prepare returns the changes since its last call. The caller writes their rows and then calls stored. Only then
// does the application get the changes, and new messages are sent.
func (c *core) prepare() written {
	c.countUnread()
	w := written{rows: c.takeRows(), sync: len(c.toSync) > 0, fresh: c.toSync, changed: c.changed}
	c.toSync, c.changed = nil, Change{}
	return w
}

// stored tells the core that the rows of w are in the store, durable if w.sync is set. It returns the changes for
// the application.
func (c *core) stored(w written) Change {
	for _, o := range w.fresh {
		o.safe = true
		c.wakeLane(o.lane)
	}
	return w.changed
}

// storeFailed ends Run after a failed write. Nobody knows which rows are stored, so the application does not get
// the changes of this turn.
func (c *core) storeFailed(err error) { c.end(fmt.Errorf("%w: %w", errStore, err)) }

// setStatus sets the status, except user, server and history, and marks it as changed.
func (c *core) setStatus(s Status) {
	s.User, s.Server, s.History = c.status.User, c.status.Server, c.status.History
	c.status = s
	c.changed.Status = true
}

// alarmAt schedules a call of step at t at the latest.
func (c *core) alarmAt(t time.Time) {
	if c.alarm.IsZero() || t.Before(c.alarm) {
		c.alarm = t
	}
}

// remark adds a line to the log.
func (c *core) remark(line string) { c.out.remarks = append(c.out.remarks, line) }
