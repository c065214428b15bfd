package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	traceWait = 2 * time.Second // for the owner of a conversation
	traceScan = 5000            // entries of a known conversation that are searched for one without a dedupe key
	// conversations of the sender that are searched when the request names none, and entries in each that are
	// searched
	traceGuess   = 200
	traceDefault = 50 // recipients of a page
	traceAtOnce  = 16 // questions under way
)

// TraceMessage shows how far a message has come, and why it did not arrive. No trace is stored when a message
// passes: the method asks the conversation for the message and the cursors, and all nodes for their refusals
// and sessions.
func (s *Server) TraceMessage(ctx context.Context,
	r *petrelv1.TraceMessageRequest) (*petrelv1.TraceMessageResponse, error) {
	q := r
	t, err := s.users.Tenant(ctx, q.Tenant)
	if err != nil {
		return nil, err
	}
	switch {
	case q.ClientMsgId != "" && q.User != "" && q.Seq == 0:
	case q.Conv != "" && q.Seq != 0 && q.ClientMsgId == "":
	default:
		return nil, im.Errorf(im.CodeInvalid, "a message is named by user and client_msg_id, or by conv and seq")
	}
	tr := &messageTrace{s: s, tenant: t, q: q, res: &petrelv1.TraceMessageResponse{}}
	if q.ClientMsgId != "" {
		refused := s.o.Console.Refusals(ctx, &petrelv1.ListRefusalsRequest{
			Tenant: cmp.Or(q.Tenant, user.DefaultTenantName), User: q.User, ClientMsgId: q.ClientMsgId,
			Limit: maxTracedRefusals,
		})
		tr.res.Refusals = refused.Refusals
		tr.silent(refused.Silent)
	}
	if err := tr.find(ctx); err != nil {
		return nil, err
	}
	if tr.traced != nil && tr.traced.Found {
		if err := tr.recipients(ctx); err != nil {
			return nil, err
		}
	}
	tr.conclude()
	return tr.res, nil
}

// messageTrace is one trace.
type messageTrace struct {
	s       *Server
	tenant  im.Tenant
	q       *petrelv1.TraceMessageRequest
	res     *petrelv1.TraceMessageResponse
	key     im.Key
	owner   im.Node        // owner of the conversation when ask asked it; "": none is known
	traced  *convpb.Traced // nil: no conversation has answered
	stalled bool           // a conversation that may have the message does not answer
}

func (tr *messageTrace) silent(nodes []string) {
	for _, n := range nodes {
		if !slices.Contains(tr.res.Silent, n) {
			tr.res.Silent = append(tr.res.Silent, n)
		}
	}
}

// find looks for the message. Codes: invalid, no_user, no_conversation.
func (tr *messageTrace) find(ctx context.Context) error {
	q := &convpb.Trace{Seq: tr.q.Seq, User: tr.q.User, ClientMsgId: tr.q.ClientMsgId, Scan: traceScan,
		After: tr.q.After, Limit: min(cmp.Or(tr.q.Limit, traceDefault), conv.MaxTraced), Only: tr.q.Recipient}
	if tr.q.Conv != "" {
		id, err := im.ParseConvID(tr.q.Conv)
		if err != nil {
			return err
		}
		return tr.ask(ctx, id, q)
	}
	for _, x := range tr.res.Refusals { // a conversation that has refused it is the right one
		if id, err := im.ParseConvID(x.Conv); err == nil {
			return tr.ask(ctx, id, q)
		}
	}
	return tr.guess(ctx, q)
}

// ask asks one conversation. If no node answers for it, ask notes that and returns nil.
func (tr *messageTrace) ask(ctx context.Context, id im.ConvID, q *convpb.Trace) error {
	within, cancel := context.WithTimeout(ctx, traceWait)
	defer cancel()
	tr.key = im.Key{Tenant: tr.tenant, Conv: id}
	_, tr.owner = tr.s.o.Console.Owner(id) // now: another node may begin to take over while this waits
	t, err := route.Ask(within, tr.s.route, conv.Query{Conv: tr.key}, (*conv.Owner).Trace, q)
	if tr.unanswered(err) {
		if tr.owner != "" && string(tr.owner) != tr.s.o.Node {
			tr.silent([]string{string(tr.owner)})
		}
		return nil
	}
	tr.traced = t
	return err
}

// unanswered reports whether an error means that no node answers for a conversation, and notes it in stalled.
func (tr *messageTrace) unanswered(err error) bool {
	code := im.CodeOf(err)
	if err == nil || code != im.CodeStoreStalled && code != im.CodeOverloaded && code != im.CodeDraining &&
		!errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	tr.stalled = true
	return true
}

// guess asks the conversations of the sender for the message, at most traceGuess of them. Codes: no_user.
func (tr *messageTrace) guess(ctx context.Context, q *convpb.Trace) error {
	a := im.Account{Tenant: tr.tenant, User: im.User(tr.q.User)}
	if _, err := tr.s.users.Get(ctx, a); err != nil {
		return err
	}
	q.Scan = traceGuess
	var ids []im.ConvID
	var token []byte
	for len(ids) < traceGuess {
		page, err := tr.s.o.Inbox.Sync(ctx, a, token, inbox.Wants{})
		if tr.unanswered(err) {
			break
		}
		if err != nil {
			return err
		}
		for _, c := range page.Convs {
			if id, err := im.ParseConvID(c.Conv); err == nil {
				ids = append(ids, id)
			}
		}
		if token = page.Token; !page.More {
			break
		}
	}
	var mu sync.Mutex // tier 0; guards tr and failed
	var wg sync.WaitGroup
	slots := make(chan struct{}, traceAtOnce)
	within, cancel := context.WithTimeout(ctx, traceWait)
	defer cancel()
	var failed error
	for _, id := range ids[:min(len(ids), traceGuess)] {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			key := im.Key{Tenant: tr.tenant, Conv: id}
			t, err := route.Ask(within, tr.s.route, conv.Query{Conv: key}, (*conv.Owner).Trace, q)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case tr.unanswered(err):
			case err != nil:
				failed = err
			case t.Found:
				tr.key, tr.traced = key, t
			}
		})
	}
	wg.Wait()
	if tr.traced == nil {
		return failed
	}
	return nil
}

// recipients describes the entry in the answer, and how far it has come to each recipient.
func (tr *messageTrace) recipients(ctx context.Context) error {
	t := tr.traced
	p, owner := tr.s.o.Console.Owner(tr.key.Conv)
	tr.res.Entry = &petrelv1.TracedEntry{
		Conv: tr.key.Conv.String(), Seq: t.Seq, User: t.User, ClientMsgId: t.ClientMsgId, AcceptedMs: t.TimeMs,
		Bytes: t.Bytes, Recalled: t.Recalled, Edited: t.Edited,
		Head: t.Head, Partition: uint32(p), Owner: string(owner),
	}
	tr.res.More = t.More
	list := make([]*petrelv1.TracedRecipient, len(t.Places))
	errs := make([]error, len(t.Places))
	quiet := make([][]string, len(t.Places))
	var wg sync.WaitGroup
	slots := make(chan struct{}, traceAtOnce)
	for i, x := range t.Places {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			list[i], quiet[i], errs[i] = tr.recipient(ctx, x)
		})
	}
	wg.Wait()
	for _, n := range quiet {
		tr.silent(n)
	}
	tr.res.Recipients = list
	return errors.Join(errs...)
}

func (tr *messageTrace) recipient(ctx context.Context,
	x *convpb.Traced_Place) (*petrelv1.TracedRecipient, []string, error) {
	r := &petrelv1.TracedRecipient{User: x.User, Role: x.Role, Delivered: x.Delivered, Read: x.Read}
	say := func(s petrelv1.TraceState, text string) { r.State, r.Text = s, text }
	seq := tr.traced.Seq
	switch {
	case x.User == tr.traced.User:
		say(petrelv1.TraceState_TRACE_STATE_SENDER, "has sent it")
		return r, nil, nil
	case x.MayNot:
		say(petrelv1.TraceState_TRACE_STATE_MAY_NOT, "was no member when it was written")
		return r, nil, nil
	}
	a := im.Account{Tenant: tr.tenant, User: im.User(x.User)}
	at := tr.s.o.Console.Sessions(ctx, &petrelv1.ListSessionsRequest{Tenant: tr.q.Tenant, User: x.User,
		Conv: tr.key.Conv.String()})
	connected := map[string]bool{}
	for _, o := range at.Sessions {
		r.Sessions = append(r.Sessions, &petrelv1.TracedSession{Session: o, State: stateOf(o)})
		connected[o.Device] = true
	}
	devices, err := tr.s.users.Devices(ctx, a)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range devices {
		if !d.Revoked && !connected[d.ID] {
			r.Away = append(r.Away, d.ID)
		}
	}
	switch {
	case x.Read >= seq:
		say(petrelv1.TraceState_TRACE_STATE_READ, "has read it")
	case x.Delivered >= seq:
		say(petrelv1.TraceState_TRACE_STATE_DELIVERED, "a device has it")
	case len(r.Sessions) > 0:
		r.Inferred = true
		best := slices.MinFunc(r.Sessions, func(p, q *petrelv1.TracedSession) int {
			return cmp.Compare(p.State, q.State)
		})
		say(best.State, stateTexts[best.State])
	default:
		return r, at.Silent, tr.away(ctx, a, r, at.Silent)
	}
	return r, at.Silent, nil
}

// away sets the state of a recipient without a session, and why there is none.
func (tr *messageTrace) away(ctx context.Context, a im.Account, r *petrelv1.TracedRecipient, silent []string) error {
	for _, n := range tr.s.o.Console.OnlineAt(a) {
		if slices.Contains(silent, string(n)) {
			r.Silent = string(n)
		}
	}
	if r.Silent != "" {
		r.State, r.Inferred = petrelv1.TraceState_TRACE_STATE_SILENT_NODE, true
		r.Text = "is connected to node " + r.Silent + ", which does not answer"
		return nil
	}
	seen, err := tr.s.o.Console.LastSeen(ctx, a)
	r.State, r.SinceMs, r.Inferred = petrelv1.TraceState_TRACE_STATE_OFFLINE, seen, len(silent) > 0
	r.Text = "is not connected; the next sync brings it"
	if seen > 0 {
		r.Text = "was online last about " + when(seen) + "; the next sync brings it"
	}
	return err
}

var stateTexts = map[petrelv1.TraceState]string{
	petrelv1.TraceState_TRACE_STATE_WRITTEN: "was written to a connection; no device has said that it has it",
	petrelv1.TraceState_TRACE_STATE_HINTED:  "a hint was written; the device fetches the conversation when somebody looks at it",
	petrelv1.TraceState_TRACE_STATE_PENDING: "waits: the connection does not take what was sent to it",
	petrelv1.TraceState_TRACE_STATE_LAGGED:  "the client was told to sync, and has not",
}

// stateOf infers how far an entry has come to a session from the session's present state.
func stateOf(s *petrelv1.SessionInfo) petrelv1.TraceState {
	switch {
	case s.Lagged || s.Held:
		return petrelv1.TraceState_TRACE_STATE_LAGGED
	case s.PendingBytes > 0:
		return petrelv1.TraceState_TRACE_STATE_PENDING
	case s.Focused && !s.InFocus:
		return petrelv1.TraceState_TRACE_STATE_HINTED
	}
	return petrelv1.TraceState_TRACE_STATE_WRITTEN
}

// conclude sets the outcome of the message, as a constant and as a text.
func (tr *messageTrace) conclude() {
	r := tr.res
	switch {
	case r.Entry != nil:
		r.Outcome = petrelv1.TraceOutcome_TRACE_OUTCOME_STORED
		r.Text = fmt.Sprintf("is entry %d of %s since %s", r.Entry.Seq, r.Entry.Conv, when(r.Entry.AcceptedMs))
	case tr.stalled:
		r.Outcome = petrelv1.TraceOutcome_TRACE_OUTCOME_NO_ANSWER
		r.Text = "no node answers for a conversation that may have it"
		if tr.owner != "" {
			r.Text = "node " + string(tr.owner) + ", which owns the conversation, does not answer"
		}
	case len(r.Refusals) > 0:
		r.Outcome = petrelv1.TraceOutcome_TRACE_OUTCOME_REFUSED
		r.Text = "was refused with " + r.Refusals[0].Code + ", last at " + when(r.Refusals[0].TimeMs)
	default:
		r.Outcome = petrelv1.TraceOutcome_TRACE_OUTCOME_UNKNOWN
		r.Text = "no node has seen it: it never arrived, or was refused more than an hour ago"
		if tr.q.Seq != 0 {
			r.Text = "the conversation has no such entry"
		}
	}
}
