package sabotage

// checkerRules break what a short run of the load generator shows. The checker has to convict
// the server, from the op log, in the class that the guard names.
var checkerRules = []rule{
	{
		name:  "drop-in-silence",
		holds: "an event that is not pushed is told by lagged",
		patches: []patch{{"internal/fanout/outbox.go", `o.addLocked(b, shared)
		o.markLocked(k)
		return true, false`, `if len(b)%7 != 0 {
			o.addLocked(b, shared)
		}
		o.markLocked(k)
		return true, false`}},
		guards: []guard{convicted("lost")},
	},
	{
		name:  "push-twice",
		holds: "an event is pushed once",
		patches: []patch{{"internal/fanout/outbox.go", `o.addLocked(b, shared)
		o.markLocked(k)
		return true, false`, `o.addLocked(b, shared)
		if len(b)%7 == 0 {
			o.addLocked(b, shared)
		}
		o.markLocked(k)
		return true, false`}},
		guards: []guard{convicted("duplicate")},
	},
	{
		name:  "push-backwards",
		holds: "events come in the order of their seqs",
		patches: []patch{{"internal/fanout/deliver.go", `f.encoded[i] = wire.AppendEvents(nil, o.enc, f.rows)`, `rows := slices.Clone(f.rows)
				slices.Reverse(rows)
				f.encoded[i] = wire.AppendEvents(nil, o.enc, rows)`}},
		guards: []guard{convicted("reordered")},
	},
	{
		name:  "push-another-text",
		holds: "an event has the body that was sent",
		patches: []patch{{"internal/fanout/deliver.go", `f.encoded[i] = wire.AppendEvents(nil, o.enc, f.rows)`, `rows := slices.Clone(f.rows)
				rows[0] = slices.Clone(rows[0])
				rows[0][len(rows[0])-1] ^= 1
				f.encoded[i] = wire.AppendEvents(nil, o.enc, rows)`}},
		guards: []guard{convicted("altered"), convictedByClients},
	},
	{
		name:    "page-without-an-entry",
		holds:   "a page of history has every entry of its range",
		patches: []patch{{"internal/conv/reader.go", `p.rows = append(p.rows, stored)`, `if p.bytes%53 != 0 { p.rows = append(p.rows, stored) }`}},
		guards:  []guard{convicted("lost")},
	},
	{
		name:  "page-with-a-hole",
		holds: "a page of history goes on where it was asked to",
		patches: []patch{{"internal/conv/history.go", `h := &convpb.History{Rows: p.rows,`, `if len(p.rows) > 3 {
			p.rows = slices.Delete(p.rows, 1, 2)
		}
		h := &convpb.History{Rows: p.rows,`}},
		guards: []guard{judged("gap")},
	},
	{
		name:    "tell-an-old-head",
		holds:   "a head is not below what was acked",
		patches: []patch{{"internal/conv/history.go", `Head: uint64(last), FirstSeq`, `Head: uint64(max(last, 3) - 2), FirstSeq`}},
		guards:  []guard{judged("stale")},
	},
	{
		name:  "ack-another-seq",
		holds: "an ack has the seq of its message",
		patches: []patch{{"internal/fanout/deliver.go", `it.Sender.Reply(it.Ack, it.Err, &f.wakeUps)`, `ack := it.Ack
			if ack.Seq%50 == 7 {
				ack.Seq--
			}
			it.Sender.Reply(ack, it.Err, &f.wakeUps)`}},
		guards: []guard{convicted("reordered")},
	},
	{
		name:  "refuse-what-is-stored",
		holds: "what is stored is not refused",
		patches: []patch{{"internal/fanout/deliver.go", `it.Sender.Reply(it.Ack, it.Err, &f.wakeUps)`, `err := it.Err
			if it.Ack.Seq%50 == 7 {
				err = &im.Error{Code: im.CodeForbidden}
			}
			it.Sender.Reply(it.Ack, err, &f.wakeUps)`}},
		guards: []guard{convicted("refused"), convicted("ghost"), convictedByClients},
	},
}

// judged is the guard that fails if the checker finds something of a class in what clients do
// with edits, recalls, pages, heads, cursors and members.
func judged(class string) guard {
	return guard{"test/verdict", "^TestTheOpLogIsClean$/^" + class + "$"}
}

// convicted is the guard that fails if the checker finds something of a class.
func convicted(class string) guard {
	return guard{"cmd/petrel", "^TestTheOpLogOfARunIsClean$/^" + class + "$"}
}

// killedUnderLoad is the guard that fails if the load generator finds something of a class while
// the server is killed again and again.
func killedUnderLoad(class string) guard {
	return guard{"test/bench", "^TestEveryMessageIsFollowedWhenTheServerIsKilled$/^closed$/^" + class + "$"}
}

// convictedByClients is the guard that fails if the checker finds something in the op log of
// clients of the Go SDK.
var convictedByClients = guard{"cmd/petrel", "^TestClientsWhoLogInLateGetEverything$"}
