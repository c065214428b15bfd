package petrel

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The values that a script compares, as the JSON of the vectors.

func (s *script) changedView() any {
	if !s.got.told {
		return nil
	}
	ch := s.got.changed
	return jsonOf(map[string]any{
		"conversations": slices.Sorted(maps.Keys(ch.convs)), "list": ch.List, "status": ch.Status, "account": ch.Account,
		"unread": ch.Unread, "signals": ch.Signals, "presence": ch.Presence, "pending": ch.Pending,
	})
}

func jsonOf(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		panic(err)
	}
	return out
}

func errorView(err error) any {
	switch e := refusal(err); {
	case err == nil:
		return nil
	case e != nil:
		return jsonOf(map[string]any{
			"code": e.Code, "message": e.Message, "settled": e.Settled, "retryable": e.Retryable,
			"retryAfterMs": e.RetryAfter.Milliseconds(), "head": e.Head,
		})
	case errors.Is(err, errStore):
		return jsonOf(map[string]any{"code": "store"})
	case errors.Is(err, errSilent):
		return jsonOf(map[string]any{"code": "silent"})
	}
	return jsonOf(map[string]any{"text": err.Error()})
}

// shows compares a snapshot with what a step says of it.
func (s *script) shows(what string, want any) (got any, wrong string) {
	k := s.k
	of := func(keys map[string]any, view func(key string) any) (any, string) {
		out := map[string]any{}
		for key := range keys {
			out[key] = view(key)
		}
		return out, match(want, out)
	}
	keys, _ := want.(map[string]any)
	switch what {
	case "status":
		st := k.status
		v := map[string]any{"state": st.State.String(), "user": st.User, "history": st.History, "synced": st.Synced, "error": errorView(st.Err)}
		if !st.Retry.IsZero() {
			v["retryInMs"] = st.Retry.Sub(k.now).Milliseconds()
		}
		got = jsonOf(v)
	case "conversations":
		return of(keys, func(id string) any {
			if k.convs[id] == nil {
				return nil
			}
			return s.conversationView(id)
		})
	case "messages":
		return of(keys, func(id string) any {
			out := []any{}
			if v := k.convs[id]; v != nil {
				for _, m := range k.messages(v, 0, 0) {
					out = append(out, messageView(m))
				}
			}
			return out
		})
	case "pending":
		return of(keys, func(id string) any {
			peer := ""
			if v := k.convs[id]; v != nil {
				peer = v.peer
			}
			out := []any{}
			for _, o := range k.pending(id, peer) {
				out = append(out, outgoingView(o))
			}
			return out
		})
	case "outgoing":
		return of(keys, func(id string) any {
			if s.waiting[id] == nil {
				return nil
			}
			return outgoingView(s.waiting[id])
		})
	case "unread":
		k.countUnread()
		got = jsonOf(map[string]any{"messages": k.unread.total.Messages, "conversations": k.unread.total.Conversations, "mentions": k.unread.total.Mentions})
	case "signals":
		out := []any{}
		for _, g := range k.signals() {
			out = append(out, jsonOf(map[string]any{"conv": g.Conv, "from": g.From, "kind": g.Kind, "id": strconv.FormatUint(g.Id, 10)}))
		}
		got = out
	case "presence":
		return of(keys, func(user string) any {
			p, known := k.lossy.presence[user]
			if !known {
				return nil
			}
			return map[string]any{"online": p.Online}
		})
	case "settings":
		return of(keys, func(name string) any { // "g1//pinned", "/mallory/blocked"
			part := strings.SplitN(name, "/", 3)
			return k.settings.value(subject{part[0], part[1]}, part[2])
		})
	case "quotes":
		return of(keys, func(name string) any { // "g1/3"
			conv, seq, _ := strings.Cut(name, "/")
			n, _ := strconv.ParseUint(seq, 10, 64) // of a vector
			q, known := k.quote(conv, n)
			switch {
			case !known:
				return "unknown"
			case q == nil:
				return "none"
			}
			return jsonOf(map[string]any{"from": q.From, "text": q.GetText(), "recalledBy": q.RecalledBy, "editedBy": q.EditedBy})
		})
	case "count":
		return of(keys, s.count)
	default:
		return nil, "no snapshot is called " + what
	}
	return got, match(want, got)
}

// count is how many there are of something, "messages g1".
func (s *script) count(name string) any {
	what, conv, _ := strings.Cut(name, " ")
	v := s.k.convs[conv]
	n := 0
	switch {
	case what == "signals":
		n = len(s.k.signals())
	case what == "typing":
		n = len(s.k.typists(v))
	default:
		for _, m := range s.k.messages(v, 0, 0) {
			if what == "messages" || len(m.Reactions) > 0 {
				n++
			}
		}
	}
	return float64(n)
}

func (s *script) conversationView(id string) any {
	v := s.k.snapshot(s.k.convs[id])
	receipts := map[string]any{}
	for u, r := range v.Receipts {
		receipts[u] = map[string]any{"delivered": r.Delivered, "read": r.Read}
	}
	return jsonOf(map[string]any{
		"title": v.Title, "peer": v.Peer, "left": v.Left, "head": v.Head, "have": v.Have, "unread": v.Unread, "read": v.Read, "known": v.Known,
		"typing": v.Typing, "mentions": v.Mentions, "damaged": v.Damaged, "receipts": receipts,
	})
}

func messageView(m Message) any {
	v := map[string]any{
		"seq": m.Seq, "from": m.From, "id": m.ClientMsgId, "type": m.Type, "counted": m.Counted, "threadN": m.ThreadN, "replyTo": m.Rel.GetReplyTo(), "timeMs": m.TimeMs,
		"editedBy": m.EditedBy, "recalledBy": m.RecalledBy, "pinned": m.Pinned, "delivered": m.Delivered, "read": m.Read, "newerVersion": m.NeedsNewerVersion(),
	}
	if t, ok := m.Body.(*petrelv1.Message_Text); ok {
		v["text"] = t.Text
	}
	var reactions []any
	for _, r := range m.Reactions {
		reactions = append(reactions, map[string]any{"emoji": r.Emoji, "count": r.Count, "mine": r.Mine})
	}
	v["reactions"] = reactions
	return jsonOf(v)
}

func outgoingView(o *outgoing) any {
	v := map[string]any{"id": o.id, "state": o.state.String(), "conv": o.conv, "seq": o.seq, "text": o.send.GetText()}
	if o.send.After != nil {
		v["after"] = fmt.Sprint(*o.send.After)
	}
	if o.err != nil && o.err != ErrUnknowable {
		v["error"] = errorView(o.err)
	}
	return jsonOf(v)
}
