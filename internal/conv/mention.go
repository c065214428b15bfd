package conv

import (
	"context"
	"errors"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/note"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// A message can mention some members, or all of them. For each member that it names, the commit
// writes a mark beside its row. A mention of everybody is noted in the conversation's record, which
// is in memory: the committer reads nothing, and a group of 10,000 needs one note, not 10,000
// marks. The record also has the last entry that mentioned anybody: users who have read that one
// need no look for marks. Unread mentions are not counted anywhere: they are the marks above the
// user's read cursor.
//
// A mark of a recalled message stays, and notes the recall. If it were removed, a reader could miss
// it before the recall is durable. Spec: P-5.13.

// maxMentions is how many unread mentions of one conversation a user gets, and how
// many entries that mention everybody a conversation remembers.
const maxMentions = 50

// mentionLooks is the most marks at which a search for unread mentions looks. Marks of recalled messages
// count.
const mentionLooks = 1000

// mentioning has the writes of a commit for an entry that mentions users, or recalls one that did.
type mentioning struct {
	next  *info // the conversation from the entry on
	marks []store.MarkPut
	names *fanout.Names // users who get the entry whole, in or out of focus
}

// mention returns the writes for the mentions of the entry q, which from has sent; nil: it mentions nobody.
// in is the conversation after the entry, rel is that of the entry, and pos the position of its commit. Only
// members other than the sender are mentioned.
func mention(c *conv, in *info, from im.User, rel *petrelv1.Relations, q im.Seq, pos im.Pos) *mentioning {
	if len(rel.GetMentions()) == 0 && !rel.GetMentionAll() {
		return nil
	}
	m := &mentioning{names: &fanout.Names{Seq: uint64(q), Users: rel.Mentions, All: rel.MentionAll, But: from}}
	value := note.EncodeMark(&storepb.Mention{Pos: uint64(pos)})
	for _, u := range rel.Mentions {
		if im.User(u) != from && in.members.Role(im.User(u)) != 0 {
			m.marks = append(m.marks, store.MarkPut{Conv: c.key, Kind: store.MarkMention, Seq: q, Name: u,
				Value: value})
		}
	}
	if len(m.marks) == 0 && !rel.MentionAll {
		return nil
	}
	record := proto.CloneOf(in.record)
	record.Mentioned = uint64(q)
	if rel.MentionAll {
		if n := len(record.MentionAll) + 1 - maxMentions; n > 0 {
			record.MentionAll = slices.Delete(record.MentionAll, 0, n)
		}
		record.MentionAll = append(record.MentionAll, &storepb.MentionAll{Seq: uint64(q),
			From: strings.Clone(string(from))})
	}
	m.next = &info{record: record, members: in.members}
	return m
}

// unmention returns the writes for a recall of the entry t, which end its mentions; nil: t mentions nobody.
// by is the seq of the recall.
func unmention(c *conv, in *info, t *petrelv1.Message, by im.Seq, pos im.Pos) *mentioning {
	rel := t.Rel
	if len(rel.GetMentions()) == 0 && !rel.GetMentionAll() {
		return nil
	}
	m := &mentioning{next: in, names: &fanout.Names{Seq: uint64(by), Users: rel.Mentions, All: rel.MentionAll,
		But: im.User(t.From)}}
	value := note.EncodeMark(&storepb.Mention{Pos: uint64(pos), Recalled: true})
	for _, u := range rel.Mentions {
		if _, known := in.members.standing(im.User(u)); known && u != t.From {
			m.marks = append(m.marks, store.MarkPut{Conv: c.key, Kind: store.MarkMention, Seq: im.Seq(t.Seq), Name: u,
				Value: value})
		}
	}
	if rel.MentionAll {
		record := proto.CloneOf(in.record)
		record.MentionAll = slices.DeleteFunc(record.MentionAll,
			func(x *storepb.MentionAll) bool { return x.Seq == t.Seq })
		m.next = &info{record: record, members: in.members}
	}
	return m
}

// mentions returns the entries that mention u: those above read, in the newest stay of u, and up to the head of
// at; the lowest maxMentions of them. A former member does not learn how many entries came later (P-8.3).
// mentions does not read the store if nobody was mentioned above read.
func (r *reader) mentions(ctx context.Context, c *conv, at point, in *info, u im.User, read im.Seq) (Mentions, error) {
	found := Mentions{Head: in.members.readableUpTo(u, at.head)}
	if stays := in.members.staysOf(u); len(stays) > 0 {
		if first := stays[len(stays)-1].from; first > read+1 { // as in the count of unread messages. Spec: P-8.7
			read = first - 1
		}
	}
	if in.record == nil || im.Seq(in.record.Mentioned) <= read {
		return found, nil
	}
	add := func(q im.Seq) {
		if in.mayRead(u, q, at.head) {
			found.Seqs = append(found.Seqs, q)
		}
	}
	looks, bad := 0, error(nil)
	err := r.store.MarksBy(ctx, c.key, store.MarkMention, string(u), read+1, at.head, func(q im.Seq, v []byte) bool {
		var m *storepb.Mention
		if m, bad = note.DecodeMark[storepb.Mention](v); bad != nil {
			return false
		}
		if !m.Recalled || im.Pos(m.Pos) > at.pos { // a recall that is not published yet did not happen
			add(q)
		}
		looks++
		return len(found.Seqs) < maxMentions && looks < mentionLooks
	})
	if err = errors.Join(err, bad); err != nil {
		return Mentions{}, err
	}
	for _, x := range in.record.MentionAll {
		if q := im.Seq(x.Seq); q > read && x.From != string(u) {
			add(q)
		}
	}
	slices.Sort(found.Seqs)
	found.Seqs = slices.Compact(found.Seqs) // a message can mention a user and everybody
	found.Seqs = found.Seqs[:min(len(found.Seqs), maxMentions)]
	return found, nil
}

// mentionsOf returns the unread mentions of u, who is or was a member and has read up to read. Codes:
// no_conversation.
func (r *reader) mentionsOf(ctx context.Context, key im.Key, u im.User, read im.Seq) (Mentions, error) {
	c, at, in, end, err := r.enterKnown(ctx, key, u)
	if err != nil {
		return Mentions{}, err
	}
	defer end()
	return r.mentions(ctx, c, at, in, u, read)
}
