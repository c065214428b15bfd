package checker

import (
	"cmp"
	"hash/maphash"
	"maps"
	"math"
	"slices"
)

// conversation has what the logs say of one conversation. It takes its ops in the order invokes, answers,
// entries, arrivals. Within each of these the ops of one log keep their order, except those that name the other
// user instead of the conversation: they come last.
type conversation struct {
	part *part
	id   string

	index    map[uint64]uint32 // message by key
	messages Pages[message]    // from 1
	count    uint32
	others   map[uint32][]attempts // attempts of a message with another body than its first

	places   Places
	rows     Pages[row]             // of the history, by seq
	foreign  map[uint64]foreignRow  // entries that no message of the logs made
	rewrites map[uint64][]rewrite   // by target, ascending
	targets  map[uint32]uint64      // the targets of messages that are edits or recalls
	history  *span                  // the range in which the history was read; nil: it was not
	members  map[string][]span      // stays by user; nil: not known
	changes  []change               // of members, until settle
	streams  map[string]*follower   // by device
	sessions map[string]*sent       // by connection
	heads    []told                 // that clients were told
	cursors  map[string]*cursorBook // by user
	notes    map[[2]uint64]uint64   // by seq and version: digest
}

// message is a message that a client sent. It takes 64 bytes.
type message struct {
	key      uint64
	body     uint64
	invoked  int64  // 0: not known
	acked    int64  // when somebody was first told that it is stored; 0: not known
	offset   int64  // of its first Invoke in the part
	where    uint64 // place of that Invoke in the log
	last     uint64 // its last Invoke in the log
	seq      uint32
	tries    uint16
	rejected uint16
}

// attempts counts the attempts of a message that have the same body.
type attempts struct {
	body            uint64
	last            uint64 // the last one in the log
	tries, rejected uint16
}

// row is the entry that the history has at a seq.
type row struct {
	body      uint64
	rewritten uint32
	where     uint64
}

type foreignRow struct {
	from      uint64 // hash of the sender and the client message id
	body      uint64
	rewritten uint64
	history   bool
}

type rewrite struct {
	seq   uint64
	body  uint64 // 0: a recall
	acked int64  // 0: not known
}

type change struct {
	seq  uint64
	user string
	gone bool
}

// follower is a device and the entries that it has got.
type follower struct {
	Stream
	user  string
	owed  bool // it has to get everything
	where uint64
}

// sent is the last message of a connection that was acked.
type sent struct {
	last, seq uint64
	once      bool // it had only one attempt
}

// told is a value that was told at a moment.
type told struct {
	began, at int64
	value     uint64
	user      string
	where     uint64
}

// cursorBook has what clients were told of one user's cursors.
type cursorBook struct {
	pushed   map[string][2]uint64 // by session: the last pair
	answers  []told               // value: read
	delivery []told               // value: delivered
}

func newConversation(p *part, id string) *conversation {
	return &conversation{
		part: p, id: id, index: map[uint64]uint32{}, streams: map[string]*follower{}, sessions: map[string]*sent{},
		others:  map[uint32][]attempts{},
		foreign: map[uint64]foreignRow{}, rewrites: map[uint64][]rewrite{}, targets: map[uint32]uint64{},
		cursors: map[string]*cursorBook{}, notes: map[[2]uint64]uint64{},
	}
}

func keyOf(user, id string) uint64 {
	var h maphash.Hash
	h.SetSeed(keySeed)
	_, _ = h.WriteString(user) // a hash takes everything
	_ = h.WriteByte(0)
	_, _ = h.WriteString(id)
	return h.Sum64()
}

var keySeed = maphash.MakeSeed()

func (c *conversation) convict(class Class, n uint64, seq uint64, op *Op, format string, args ...any) {
	c.part.verdict.convict(class, n, op, Witness{Conv: c.id, Seq: seq}, format, args...)
}

// name returns the name of a message for a witness.
func (c *conversation) name(i uint32) string {
	m := c.messages.At(uint64(i))
	return c.part.name(m)
}

// invoke takes an attempt of a send. The body of a message is that of its first attempt,
// which may come last here: ops that do not name the conversation are dealt after the others.
func (c *conversation) invoke(op *Op, offset int64) {
	key := keyOf(op.User, op.ID)
	i := c.index[key]
	if i == 0 {
		c.count++
		i = c.count
		c.index[key] = i
		*c.messages.At(uint64(i)) = message{key: key, body: op.Body}
	}
	m := c.messages.At(uint64(i))
	first := m.tries == 0 || op.before(m.invoked, m.where)
	if op.Body != m.body {
		o := c.other(i, op.Body)
		if !first {
			o.tries, o.last = o.tries+b2u(o.tries < math.MaxUint16), max(o.last, op.where)
			return
		}
		m.body, m.tries, m.last, *o = o.body, o.tries, o.last, attempts{body: m.body, tries: m.tries, last: m.last}
	}
	if first {
		m.invoked, m.where, m.offset = op.At, op.where, offset
		delete(c.targets, i) // the target of a later attempt, which was read before this one
		if t := max(op.Edits, op.Recalls); t > 0 {
			c.targets[i] = t
		}
	}
	m.tries, m.last = m.tries+b2u(m.tries < math.MaxUint16), max(m.last, op.where)
}

// before reports whether op came before the op at a moment and a line. If a moment is not known, the lines
// decide, which is right within one log.
func (op *Op) before(at int64, where uint64) bool {
	if op.At != 0 && at != 0 {
		return op.At < at
	}
	return op.where < where
}

func b2u(b bool) uint16 {
	if b {
		return 1
	}
	return 0
}

// other returns the attempts of message i that have this body, which is not its first one. It begins to count
// them if there are none yet.
func (c *conversation) other(i uint32, body uint64) *attempts {
	list := c.others[i]
	for n := range list {
		if list[n].body == body {
			return &list[n]
		}
	}
	c.others[i] = append(list, attempts{body: body})
	return &c.others[i][len(list)]
}

// answer takes an OK, a Rejected, and the other ops about a conversation that are no entries.
func (c *conversation) answer(op *Op) {
	switch op.Kind {
	case OK:
		c.ok(op)
	case Rejected:
		i := c.index[keyOf(op.User, op.ID)]
		if i == 0 {
			return // it has no Invoke, so it decides nothing
		}
		if m := c.messages.At(uint64(i)); op.Body == 0 || op.Body == m.body {
			m.rejected += b2u(m.rejected < math.MaxUint16)
		} else {
			c.other(i, op.Body).rejected++
		}
	case Conv:
		for _, u := range op.Added {
			c.changes = append(c.changes, change{seq: max(op.Since, 1), user: u})
		}
	case History:
		c.history = &span{max(op.Since, 1), op.Seq}
	case Follow:
		c.streams[op.stream()] = &follower{Stream: NewStream(op.Seq), user: op.User, owed: true, where: op.where}
	case Head:
		c.heads = append(c.heads, told{op.Began, op.At, op.Seq, op.User, op.where})
	case Receipt:
		c.receipt(op)
	case Note:
		k := [2]uint64{op.Seq, op.Version}
		if was, ok := c.notes[k]; ok && was != op.Body {
			c.convict(Altered, 1, op.Seq, op, "%s: two clients were told two notes of seq %d as version %d", c.id,
				op.Seq, op.Version)
		}
		c.notes[k] = op.Body
	}
}

func (c *conversation) ok(op *Op) {
	i := c.index[keyOf(op.User, op.ID)]
	if i == 0 {
		c.convict(Ghost, 1, op.Seq, op, "%s: %s has an ack of %s, which was not sent", c.id, op.User, op.ID)
		return
	}
	m := c.messages.At(uint64(i))
	if op.Body != 0 && op.Body != m.body {
		c.convict(Altered, 1, op.Seq, op, "%s: %s is acked at seq %d with another body than it had first", c.id,
			c.name(i), op.Seq)
	}
	had := m.seq
	c.placed(c.places.Place(op.Seq, uint64(i), ByAck, &m.seq), i, op.Seq, uint64(had), op)
	if m.acked == 0 || op.At != 0 && op.At < m.acked {
		m.acked = op.At
	}
	// The messages of a connection are stored in the order in which it sends them, except those that an earlier
	// attempt has stored.
	is := sent{m.last, op.Seq, m.tries == 1}
	was := c.sessions[op.Session]
	if was != nil && (is.last > was.last && is.once && is.seq < was.seq ||
		is.last < was.last && was.once && is.seq > was.seq) {
		c.convict(Reordered, 1, op.Seq, op, "%s: %s is acked at seq %d, and one that its connection sent %s at seq %d",
			c.id, c.name(i), op.Seq, earlier(was.last < is.last), was.seq)
	}
	if was == nil {
		c.sessions[op.Session] = &is
	} else if is.last > was.last {
		*was = is
	}
}

func earlier(yes bool) string {
	if yes {
		return "before"
	}
	return "later"
}

// placed records the finding, if there is one, of placing message i at a seq.
func (c *conversation) placed(p Placing, i uint32, seq, had uint64, op *Op) {
	switch p {
	case NoSeq:
		c.convict(Ghost, 1, seq, op, "%s: %d is not a valid seq", c.id, seq)
	case Taken:
		c.convict(Reordered, 1, seq, op, "%s: two entries stand at seq %d, one of them %s", c.id, seq, c.name(i))
	case Twice:
		c.convict(Duplicate, 1, seq, op, "%s: %s stands at seq %d and at %d", c.id, c.name(i), had, seq)
	case Moved:
		class := Reordered
		if op.Kind == OK {
			class = Duplicate // every ack of a message has the same seq
		}
		c.convict(class, 1, seq, op, "%s: %s has seq %d, and is reported at seq %d", c.id, c.name(i), had, seq)
	}
}

// definite reports whether every attempt of a message with its first body was rejected.
func (m *message) definite() bool { return m.tries > 0 && m.rejected >= m.tries }

// readBack takes an entry of the history.
func (c *conversation) readBack(op *Op) {
	for _, u := range op.Added {
		c.changes = append(c.changes, change{op.Seq, u, false})
	}
	for _, u := range op.Removed {
		c.changes = append(c.changes, change{op.Seq, u, true})
	}
	if op.Seq >= uint64(None) {
		c.convict(Ghost, 1, op.Seq, op, "%s: %d is not a valid seq", c.id, op.Seq)
		return
	}
	*c.rows.At(op.Seq) = row{op.Body, uint32(op.Rewritten), op.where}
	i, sent := c.identify(op, ByHistory)
	if !sent {
		return
	}
	m := c.messages.At(uint64(i))
	had := m.seq
	p := c.places.Place(op.Seq, uint64(i), ByHistory, &m.seq)
	c.placed(p, i, op.Seq, uint64(had), op)
	if m.definite() && !c.otherStands(i) {
		c.convict(Ghost, 1, op.Seq, op, "%s: %s was rejected, and stands at seq %d", c.id, c.name(i), op.Seq)
	}
}

// otherStands reports whether an attempt with another body may be stored.
func (c *conversation) otherStands(i uint32) bool {
	return slices.ContainsFunc(c.others[i], func(a attempts) bool { return a.rejected < a.tries })
}

// identify finds the message that made an entry; false: no message of the logs did, or the entry contradicts
// the logs. An entry that no message made is remembered and compared with what other clients were shown.
func (c *conversation) identify(op *Op, how uint64) (i uint32, sent bool) {
	if op.From != "" {
		if i = c.index[keyOf(op.From, op.ID)]; i > 0 {
			return i, true
		}
		if c.part.covered[op.From] && op.Body != 0 { // an entry without a body may come from a call
			c.convict(Ghost, 1, op.Seq, op, "%s: seq %d is %q of %s, who never sent that", c.id, op.Seq, op.ID, op.From)
			c.places.Foreign(op.Seq, how)
			return 0, false
		}
	}
	if c.places.Foreign(op.Seq, how) {
		c.convict(Altered, 1, op.Seq, op, "%s: at seq %d stands a message that a client sent, and here an entry of %q",
			c.id, op.Seq, op.From)
		return 0, false
	}
	is := foreignRow{keyOf(op.From, op.ID), op.Body, op.Rewritten, how == ByHistory}
	was, known := c.foreign[op.Seq]
	switch {
	case op.Hidden: // it says nothing of the body
	case !known || is.history && !was.history && is.rewritten >= was.rewritten:
		c.foreign[op.Seq] = is
	case was.from != is.from || was.rewritten == is.rewritten && was.body != is.body:
		c.convict(Altered, 1, op.Seq, op, "%s: two clients were shown two entries at seq %d", c.id, op.Seq)
	}
	return 0, false
}

// settle computes the stays of the members, and the edits and recalls of each target, after all answers and
// entries are read.
func (c *conversation) settle() {
	slices.SortStableFunc(c.changes, func(a, b change) int { return cmp.Compare(a.seq, b.seq) })
	if len(c.changes) > 0 {
		c.members = map[string][]span{}
	}
	for _, x := range c.changes {
		s := c.members[x.user]
		open := len(s) > 0 && s[len(s)-1].to == math.MaxUint64
		switch {
		case x.gone && open:
			s[len(s)-1].to = x.seq
		case !x.gone && !open:
			c.members[x.user] = append(s, span{x.seq, math.MaxUint64})
		}
	}
	c.changes = nil
	for i, target := range c.targets {
		if m := c.messages.At(uint64(i)); m.seq != 0 {
			c.rewrites[target] = append(c.rewrites[target], rewrite{uint64(m.seq), m.body, m.acked})
		}
	}
	for _, list := range c.rewrites {
		slices.SortFunc(list, func(a, b rewrite) int { return cmp.Compare(a.seq, b.seq) })
	}
}

// rowAsItIs checks the body that an entry has in the history.
func (c *conversation) rowAsItIs(op *Op) {
	if i, sent := c.index[keyOf(op.From, op.ID)], op.From != ""; sent && i > 0 {
		c.content(i, op, math.MaxInt64, nil)
	}
}

// content checks the body with which message i is shown, on a request at began. by is the device that is shown
// it, nil for the operator.
func (c *conversation) content(i uint32, op *Op, began int64, by *follower) {
	m := c.messages.At(uint64(i))
	if op.Hidden {
		if op.Body != 0 {
			c.convict(Leaked, 1, op.Seq, op, "%s: %s is shown the body of %s, which is said to be hidden", c.id,
				op.User, c.name(i))
		}
		return
	}
	if t := c.targets[i]; t > 0 && op.Body != 0 && op.User != "" && !c.may(op.User, t, t) {
		c.convict(Leaked, 1, op.Seq, op, "%s: %s is shown what the edit %s says of seq %d, and may not read that", c.id,
			op.User, c.name(i), t)
		return
	}
	rewrites := c.rewrites[op.Seq]
	shown := slices.IndexFunc(rewrites, func(r rewrite) bool { return r.seq == op.Rewritten })
	if m.body == 0 && c.targets[i] == 0 { // a forward: the server made the body
		m.body = op.Body
	}
	want := m.body
	if shown >= 0 {
		want = rewrites[shown].body
		if op.Body != want && (op.Body == m.body ||
			slices.ContainsFunc(rewrites[:shown], func(r rewrite) bool { return r.body == op.Body })) {
			c.convict(Recalled, 1, op.Seq, op,
				"%s: %s is shown with a former body, and with the mark of the entry at seq %d that rewrote it", c.id,
				c.name(i), op.Rewritten)
			return
		}
	}
	switch {
	case op.Rewritten > 0 && c.targets[i] > 0 && op.Body == 0: // a former edit, which was emptied
	case op.Rewritten > 0 && shown < 0 && op.Body != m.body: // rewritten by a user who is in no log
	case op.Body != want && !slices.ContainsFunc(c.others[i],
		func(a attempts) bool { return a.body == op.Body && a.rejected < a.tries }):
		c.convict(Altered, 1, op.Seq, op, "%s: %s is shown with the digest %016x, and has %016x", c.id, c.name(i),
			op.Body, want)
	}
	for _, r := range rewrites {
		if r.seq <= op.Rewritten || op.Body == 0 || op.Body == r.body {
			continue
		}
		if r.acked != 0 && began > r.acked || by != nil && op.Kind == Deliver && by.Has(r.seq) {
			c.convict(Recalled, 1, op.Seq, op,
				"%s: the former body of %s is shown to %s after the entry at seq %d had rewritten it", c.id, c.name(i),
				cmp.Or(op.User, "the operator"), r.seq)
			return
		}
	}
}

// arrive takes an entry that a client was shown, or an ack, which is the sender's copy of its entry.
func (c *conversation) arrive(op *Op) {
	f := c.streams[op.stream()]
	if f == nil {
		f = &follower{Stream: NewStream(0), user: op.User, where: op.where}
		c.streams[op.stream()] = f
	}
	if op.Kind == OK {
		c.ownCopy(f, op)
		return
	}
	if op.Seq >= uint64(None) {
		c.convict(Ghost, 1, op.Seq, op, "%s: %d is not a valid seq", c.id, op.Seq)
		return
	}
	if !c.may(op.User, op.Seq, op.Seq) {
		c.convict(Leaked, 1, op.Seq, op, "%s: %s is shown seq %d and may not read it", c.id, op.User, op.Seq)
	}
	if i, sent := c.identify(op, ByClient); sent {
		m := c.messages.At(uint64(i))
		had := m.seq
		c.placed(c.places.Place(op.Seq, uint64(i), ByClient, &m.seq), i, op.Seq, uint64(had), op)
		if m.definite() && !c.otherStands(i) {
			c.convict(Refused, 1, op.Seq, op, "%s: every attempt of %s was rejected, and %s is shown it at seq %d",
				c.id, c.name(i), op.User, op.Seq)
		}
		c.content(i, op, op.Began, f)
		if op.At != 0 && m.seq == uint32(op.Seq) && (m.acked == 0 || op.At < m.acked) {
			m.acked = op.At // the first time that it is known to be stored
		}
	}
	if op.Kind == Read {
		if from := op.Since; from > 0 && from < op.Seq && c.may(op.User, from, op.Seq-1) {
			c.convict(Gap, 1, op.Seq, op,
				"%s: %s asked for entries from seq %d on and is shown %d, as if there were none between", c.id, op.User,
				from, op.Seq)
		}
		f.Read(op.Seq)
		return
	}
	switch f.Push(op.Seq) {
	case Late:
		c.convict(Reordered, 1, op.Seq, op, "%s: %s took seq %d as new after a higher one", c.id, who(op), op.Seq)
	case Repeat:
		c.convict(Duplicate, 1, op.Seq, op, "%s: %s took seq %d as new twice", c.id, who(op), op.Seq)
	}
}

func who(op *Op) string {
	if op.Device == "" {
		return op.User
	}
	return op.User + " on " + op.Device
}

// ownCopy takes the ack as the sender's copy of the entry.
func (c *conversation) ownCopy(f *follower, op *Op) {
	i := c.index[keyOf(op.User, op.ID)]
	if m := c.messages.At(uint64(i)); i == 0 || m.tries != 1 || f.Has(op.Seq) {
		f.Read(op.Seq)
	} else if f.Push(op.Seq) == Late {
		c.convict(Reordered, 1, op.Seq, op, "%s: %s has the ack of seq %d after a higher one", c.id, who(op), op.Seq)
	}
}

// may reports whether a user may read any of the entries from one seq to another: true if the members are not
// known.
func (c *conversation) may(user string, from, to uint64) bool {
	if c.members == nil {
		return true
	}
	return slices.ContainsFunc(c.members[user], func(s span) bool { return s.from <= to && from <= s.to })
}

// close looks for missing entries, and checks the order in real time, heads and cursors.
func (c *conversation) close() {
	c.lost()
	c.realTime()
	c.staleHeads()
	c.closeCursors()
	for _, device := range slices.Sorted(maps.Keys(c.streams)) {
		if f := c.streams[device]; f.owed && !f.Gone {
			c.undelivered(f)
		}
	}
}

// head returns the highest seq that is known to be stored.
func (c *conversation) head() uint64 {
	if c.history == nil {
		return c.places.Head
	}
	return max(c.places.Head, c.history.to)
}

// lost compares the messages that were acked or shown with the history.
func (c *conversation) lost() {
	if c.history == nil {
		return
	}
	for seq := c.history.from; seq <= c.head(); seq++ {
		known := c.places.next(seq)
		if to := min(known-1, c.history.to); known > seq && seq <= to {
			c.convict(Gap, to-seq+1, seq, nil, "%s: the history lacks seq %d to %d", c.id, seq, to)
		}
		if seq = known; seq > c.places.Head {
			return
		}
		what, isMessage, how := c.places.known(seq)
		switch {
		case how&ByHistory != 0:
		case isMessage && how&ByAck != 0:
			m := c.messages.At(what)
			c.convict(Lost, 1, seq, &Op{where: m.where}, "%s: %s was acked at seq %d and is not in the history", c.id,
				c.part.name(m), seq)
		case how&ByClient != 0:
			c.convict(Ghost, 1, seq, nil, "%s: a client was shown seq %d, which is not in the history", c.id, seq)
		}
	}
}

// undelivered finds the entries that a device never got, although its user may read them.
func (c *conversation) undelivered(f *follower) {
	missing := append(slices.Clone(f.gaps), span{f.next, c.head()})
	n, first := uint64(0), uint64(0)
	for _, g := range missing {
		stays := []span{{1, math.MaxUint64}}
		if c.members != nil {
			stays = c.members[f.user]
		}
		for _, s := range stays {
			from, to := max(s.from, g.from), min(s.to, g.to)
			if from > to {
				continue
			}
			if n += to - from + 1; first == 0 || from < first {
				first = from
			}
		}
	}
	if n > 0 {
		c.convict(Lost, n, first, &Op{where: f.where},
			"%s: a device of %s never got %d entries that its user may read, the first at seq %d", c.id, f.user, n,
			first)
	}
}
