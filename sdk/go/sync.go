package petrel

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// startSync asks for the changes since the last sync; if one is under way, another follows it.
// Spec: P-6.2, P-6.4.
func (c *core) startSync() {
	lv := c.live
	if lv == nil {
		return
	}
	if lv.syncing {
		lv.again = true
		return
	}
	lv.syncing, lv.again, lv.syncAt, lv.newest = true, false, time.Time{}, 0
	if lv.offers(capNewest) {
		lv.newest = uint32(c.o.newest)
	}
	c.askSync()
}

func (c *core) askSync() {
	lv := c.live
	q := &petrelv1.Sync{Token: c.meta.Token, Newest: lv.newest}
	c.ask(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Sync{Sync: q}}, func(f *petrelv1.ServerFrame) {
		switch {
		case f.GetSync() != nil:
			c.takeSync(f.GetSync())
		case f.GetError().GetCode() == CodeBadToken && c.meta.Token != nil:
			c.meta.Token, c.metaDirty = nil, true
			c.askSync()
		case f.GetError() != nil:
			lv.syncing, lv.syncAt = false, c.retryAt(f.GetError())
			c.alarmAt(lv.syncAt)
		}
	})
}

// takeSync applies one page. Its token is stored together with its content.
func (c *core) takeSync(p *petrelv1.SyncPage) {
	lv := c.live
	c.takePersonal(p)
	for _, s := range p.Convs {
		c.takeState(s)
	}
	c.meta.Token, c.metaDirty = p.Token, true
	if p.More {
		c.askSync()
		return
	}
	lv.syncing = false
	if lv.again { // another sync was requested meanwhile
		c.startSync()
	}
	c.meta.Synced = true
	c.repairAny() // also those whose repair an earlier connection did not finish
	if !lv.synced {
		lv.synced = true
		c.status.Synced = true
		c.changed.Status = true
		for _, l := range c.lanesByAge() {
			c.wakeLane(l)
		}
	}
}

// takeState applies the state of one conversation from a sync.
func (c *core) takeState(s *petrelv1.ConvState) {
	if s.Damaged { // the state is otherwise empty: keep what is held. Spec: P-9.5
		return
	}
	v := c.convs[s.Conv]
	if v == nil {
		v = c.addConv(s.Conv)
	}
	newest := s.Newest
	if s.Head < v.before && !s.Left { // a head never goes back
		c.live.back = true
	}
	v.merge(s)
	if v.peer != "" {
		c.direct[v.peer] = v.id
		c.profileTold(v.peer, s.PeerProfile)
		c.join(v)
	}
	if !s.MentionsMissing && c.live.offers(capMentions) {
		c.takeMentions(v, s.Mentions, s.Head)
	}
	c.touch(v)
	c.changed.List = true
	if !v.known {
		c.meet(v, s, newest)
	} else {
		c.extend(v, newest)
	}
	v.takeQuotes(s.Refs)
	c.takeNotes(v, s.Notes)
	c.repair(v)
}

// meet sets where the held entries of a new conversation begin. In the first sync of the client that is Newest
// entries below the head. Later it is the first entry that the user may read, at most Keep entries below the
// head. Entries in newest and pushed ones are held in any case. Spec: P-6.7.
func (c *core) meet(v *conv, s *petrelv1.ConvState, newest []*petrelv1.Message) {
	v.known = true
	floor := v.floor()
	from := max(floor, v.head-min(v.head, uint64(c.o.keep)))
	if !c.meta.Synced {
		from = max(floor, s.Head-min(s.Head, uint64(c.o.newest)))
	}
	if len(newest) > 0 {
		from = min(from, newest[0].Seq-1)
	}
	for seq := range v.held { // pushed before this sync
		from = min(from, seq-1)
	}
	v.low, v.have = from, from
	c.extend(v, newest)
	c.passed(v)
}

// extend applies the newest entries of a sync. If entries are missing below them, they wait in held.
func (c *core) extend(v *conv, newest []*petrelv1.Message) {
	if len(newest) == 0 {
		c.takeHeld(v)
		return
	}
	if newest[0].Seq > v.have+1 {
		for _, m := range newest {
			v.hold(m)
		}
		return
	}
	for _, m := range newest {
		c.entry(v, m)
	}
	c.takeHeld(v)
}

// dropReplyReference removes the reply reference of a message that waits to be sent, after a change of the history:
// another entry may have that seq now. It does not change a message that the server looks up by its id, because
// an earlier attempt may have stored it with the reference. Spec: P-6.6.
func (c *core) dropReplyReference(o *outgoing) {
	if o.state != Sending || o.send.Rel.GetReplyTo() == 0 || o.aims() || o.tried && o.send.After == nil {
		return
	}
	s := proto.CloneOf(o.send)
	if s.Rel.ReplyTo = 0; s.Rel.SizeVT() == 0 {
		s.Rel = nil
	}
	o.send, o.safe = s, false
	c.store(o)
}

// forget drops the state of the former history, when the history id has changed or the server went back. It keeps
// the messages that are still to be sent. Spec: P-3.4, P-6.6.
func (c *core) forget() {
	for id, v := range c.convs {
		c.dropEntries(v)
		c.put(convKey(id), nil)
		c.changed.touch(id)
	}
	clear(c.convs)
	clear(c.direct)
	clear(c.dirty)
	c.moves = nil
	for of, names := range c.settings {
		for name := range names {
			c.dropSetting(of, name)
		}
	}
	c.meta.Token, c.meta.Synced, c.metaDirty = nil, false, true
	c.changed.List = true
	c.forgetProfiles()
	clear(c.asking)
	// before its first welcome the client has shown no seqs: the drafts have theirs from elsewhere
	had := c.meta.History != ""
	for _, o := range c.byAge() {
		if had {
			c.dropReplyReference(o)
		}
		switch {
		case had && o.state == Sending && o.aims():
			o.stale, o.look, o.from, o.until = true, o.tried, 0, 0
		case o.state == Sent: // its entry has not arrived, and will not
			c.remove(o)
			continue
		case o.state != Sending, o.send.After == nil: // the server looks up the id of the latter
			continue
		case o.tried:
			o.look, o.from, o.until = true, 0, 0
		default:
			o.fresh = true
		}
		o.safe = false
		c.store(o)
	}
}
