package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// opLog is what all clients have seen, in the order in which they saw it. Its clock moves
// with each op, also when no time passes.
type opLog struct {
	began time.Time

	mu  sync.Mutex // tier 0; guards the fields below
	at  int64
	ops []checker.Op
}

func (l *opLog) stampLocked() int64 {
	l.at = max(l.at+1, int64(time.Since(l.began)))
	return l.at
}

// stamp is now, later than everything before.
func (l *opLog) stamp() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stampLocked()
}

func (l *opLog) add(op checker.Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	op.At = l.stampLocked()
	l.ops = append(l.ops, op)
}

// healTime is how long the world may take, after the last fault, until all is settled.
const healTime = 90 * time.Second

// settled waits until everybody has what they should have, and convicts what is missing.
func (w *world) settled() {
	for end := time.Now().Add(healTime); ; sleep(500 * time.Millisecond) {
		problem := w.unsettled()
		if problem == "" {
			return
		}
		if time.Now().After(end) {
			w.convict("%v after the last fault: %s", healTime, problem)
			return
		}
	}
}

// unsettled is what is not as it should be when nothing is broken; "": nothing.
func (w *world) unsettled() string {
	up := w.up()
	if len(up) < len(ids) {
		return fmt.Sprintf("only %d nodes take part%s", len(up), w.missing())
	}
	owner, epoch, _ := up[0].cluster.Route(0)
	for _, n := range up {
		if o, e, ok := n.cluster.Route(0); !ok || o != owner || e != epoch {
			return fmt.Sprintf("node %s says that %s owns the feed in epoch %d, and %s says %s in %d", n.id, o, e, up[0].id, owner, epoch)
		}
		if n.id == owner && len(n.Convs.Owners()) != 1 {
			return fmt.Sprintf("all say that %s owns the feed, and it does not", owner)
		}
	}
	heads := map[string]uint64{}
	for _, d := range w.devices {
		if p := w.unsettledDevice(d, up[0], heads); p != "" {
			return d.name + " " + p
		}
	}
	return ""
}

// missing tells how the nodes stand that do not take part.
func (w *world) missing() (s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if n := w.nodes[id]; n == nil {
			s += fmt.Sprintf(", %s does not run", id)
		} else if !n.joined.Load() || n.dead.Load() {
			s += fmt.Sprintf(", %s has joined %v, is dead %v", id, n.joined.Load(), n.dead.Load())
		}
	}
	return s
}

func (w *world) unsettledDevice(d *device, at *node, heads map[string]uint64) string {
	d.mu.Lock()
	c, waiting := d.conn, len(d.queue)
	synced := c != nil && c.complete && c.synced == c.lagged
	first := ""
	if waiting > 0 {
		first = d.queue[0].id
	}
	d.mu.Unlock()
	switch {
	case c == nil:
		return "has no connection"
	case !synced:
		return "has not synced"
	case waiting > 0:
		return fmt.Sprintf("has %d sends without a fate, %s first", waiting, first)
	}
	for key, v := range d.views {
		k := string(d.account.User) + key.String()
		head, known := heads[k]
		if !known {
			ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
			st, err := route.Ask(ctx, at.router, conv.Query{Conv: key, User: d.account.User}, (*conv.Owner).State, &convpb.GetState{})
			cancel()
			switch {
			case im.CodeOf(err) == im.CodeNoConversation:
			case err != nil:
				return fmt.Sprintf("does not hear of %s: %v", w.name(key), err)
			default:
				head = st.Head
			}
			heads[k] = head
		}
		d.mu.Lock()
		have := uint64(v.have)
		d.mu.Unlock()
		if have < head {
			return fmt.Sprintf("on connection %s to %s has %s up to %d, of %d, and nobody told it", c.name, c.at.id, w.name(key), have, head)
		}
	}
	return ""
}

// readBack reads all conversations as the operator does, from each node, and has members ask
// for the cursors once more. It leaves the entries in the log.
func (w *world) readBack() {
	for _, d := range w.devices {
		d.mu.Lock()
		c := d.conn
		d.mu.Unlock()
		if c != nil {
			for key := range d.views {
				c.receipts(key)
			}
		}
	}
	keys := map[im.Key]bool{}
	for _, u := range w.o.users {
		for _, key := range w.keysOf(u) {
			keys[key] = true
			if v := w.peerOf(key, u); v != "" {
				w.log.add(checker.Op{Kind: checker.Conv, Conv: key.Conv.String(), User: string(u), To: string(v), Added: []string{string(u), string(v)}})
			}
		}
	}
	for key := range keys {
		var first []*petrelv1.Message
		for i, n := range w.up() {
			all, err := n.entries(key)
			if err != nil {
				w.convict("node %s reads %s: %v", n.id, w.name(key), err)
				return
			}
			if i == 0 {
				first = all
				for _, m := range all {
					w.log.add(checker.Shown(checker.Entry, m))
				}
				w.log.add(checker.Op{Kind: checker.History, Conv: key.Conv.String(), Seq: uint64(len(all))})
			} else if !slices.EqualFunc(first, all, func(a, b *petrelv1.Message) bool { return proto.Equal(a, b) }) {
				w.convict("I4: nodes read two histories of %s", w.name(key))
			}
		}
		w.judgeMembers(key, first)
	}
}

// ask asks a node. The feed may still be on its way to the node that should own it: then the
// question has no answer for a while.
func (n *node) ask(f func(ctx context.Context) error) (err error) {
	for range 5 {
		ctx, cancel := context.WithTimeout(n.w.ctx, 5*time.Second)
		err = f(ctx)
		cancel()
		if err == nil || im.CodeOf(err) == im.CodeNoConversation {
			break
		}
	}
	return err
}

// entries is the whole history of a conversation.
func (n *node) entries(key im.Key) (all []*petrelv1.Message, err error) {
	for more := true; more; {
		q := &petrelv1.GetHistory{Conv: key.Conv.String()}
		if len(all) > 0 {
			q.After = all[len(all)-1].Seq
		}
		var p *petrelv1.HistoryPage
		err := n.ask(func(ctx context.Context) (err error) {
			p, err = n.router.HistoryPage(ctx, im.Account{Tenant: key.Tenant}, q, conv.MaxPage, conv.Extras{})
			return err
		})
		if im.CodeOf(err) == im.CodeNoConversation {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		all, more = append(all, p.Messages...), p.More
	}
	return all, nil
}

// judgeMembers follows the members of a group through its history: nobody writes who is not
// one, nobody changes the members who may not, and in the end the members are those that the
// entries leave.
func (w *world) judgeMembers(key im.Key, history []*petrelv1.Message) {
	if key.Conv.Kind() != im.Group || len(history) == 0 {
		return
	}
	roles := map[string]petrelv1.Role{}
	for _, m := range history {
		role, change := roles[m.From], m.GetMembers()
		if m.Seq > 1 && role == 0 {
			w.convict("I9: seq %d of %s is of %s, who is no member", m.Seq, w.name(key), m.From)
		}
		if m.Seq > 1 && len(change.GetAdded())+len(change.GetRemoved())+len(change.GetRoles()) > 0 && role < petrelv1.Role_ROLE_ADMIN {
			w.convict("I9: at seq %d of %s, %s changes the members, and is %v", m.Seq, w.name(key), m.From, role)
		}
		for _, r := range change.GetAdded() {
			roles[r.User] = max(r.Role, petrelv1.Role_ROLE_MEMBER)
		}
		for _, r := range change.GetRoles() {
			roles[r.User] = r.Role
		}
		for _, u := range append(slices.Clone(change.GetRemoved()), change.GetLeft()...) {
			delete(roles, u)
		}
	}
	for _, n := range w.up() {
		var all *convpb.Members
		err := n.ask(func(ctx context.Context) (err error) {
			all, err = route.Ask(ctx, n.router, conv.Query{Conv: key}, (*conv.Owner).Members, &convpb.ListMembers{})
			return err
		})
		if err != nil {
			w.convict("node %s lists the members of %s: %v", n.id, w.name(key), err)
			return
		}
		got := map[string]petrelv1.Role{}
		for _, r := range all.Members {
			got[r.User] = r.Role
		}
		if !maps.Equal(got, roles) {
			w.convict("the members of %s are %v, and its entries leave %v", w.name(key), got, roles)
		}
	}
}

// conflicts are messages of which two bodies were acked.
func (w *world) conflicts() {
	texts := map[string]string{} // that were acked, by message
	for _, s := range w.sends {
		if s.state != acked || !s.twin.Load() {
			continue
		}
		id := string(s.user) + " " + s.key.String() + " " + s.id
		if was, ok := texts[id]; ok && was != s.text {
			w.convict("I2: two bodies of message %s of %s are acked", s.id, s.user)
		}
		texts[id] = s.text
	}
}

// judge has the checker look at the logs of some worlds, and returns what is wrong with each.
func judge(worlds []*world) (map[*world][]string, error) {
	wrong, of := map[*world][]string{}, map[string]*world{}
	var b bytes.Buffer
	l := checker.NewWriter(&b)
	for _, w := range worlds {
		w.conflicts()
		if len(w.wrong) > 0 {
			wrong[w] = w.wrong
		}
		for i := range w.log.ops {
			op := &w.log.ops[i]
			if of[op.Conv] = w; op.Device != "" { // worlds have devices of the same names
				op.Device = fmt.Sprintf("%s of seed %d", op.Device, w.o.seed)
			}
			_ = l.Write(op) // the error stays, and Flush returns it
		}
	}
	if err := l.Flush(); err != nil {
		return nil, err
	}
	r, err := checker.Check([]checker.Log{{Name: "log", Reader: &b}}, checker.Options{})
	if err != nil {
		return nil, err
	}
	for _, x := range r.Witnesses {
		w := of[x.Conv]
		if n := len(wrong[w]); n < maxWrong {
			wrong[w] = append(wrong[w], x.String())
		}
	}
	return wrong, nil
}

// maxWrong is how much of what is wrong is told of one seed.
const maxWrong = 6

// writeLog writes the log for petrel check, and for people.
func (w *world) writeLog(name string) error {
	var b bytes.Buffer
	l := checker.NewWriter(&b)
	for i := range w.log.ops {
		_ = l.Write(&w.log.ops[i]) // the error stays, and Flush returns it
	}
	return errors.Join(l.Flush(), os.WriteFile(name, b.Bytes(), 0o644))
}
