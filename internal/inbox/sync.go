package inbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dchest/siphash"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Syncer answers syncs: the questions of clients what has changed since a token.
type Syncer struct {
	Router *route.Router
	Store  store.Store
	Refute func(proof string) // ends the service on all nodes; nil: Store.Refute
	Convs  *conv.Convs        // takes the snapshots of inboxes; nil: no inbox is compacted

	// Profiles returns the versions of what a reader sees of users. nil: "" of all.
	Profiles func(ctx context.Context, reader im.Account, users []im.User) ([]string, error)

	CompactFrom int // from how many entries on an inbox may be compacted (dueToCompact); 0: 1024

	Compacted atomic.Uint64 // inboxes that were compacted here

	lists      lists
	compacting sync.Map // im.Account → struct{}: their inboxes are being compacted
}

// pageConvs is the most conversations of one page of a sync.
const pageConvs = 200

// pageBytes is about the most bytes of newest messages in one page.
const pageBytes = 64 << 10

// Wants are the parts of a sync that a client wants beside its conversations.
type Wants struct {
	Newest     conv.Newest // messages of each
	Personal   bool        // settings of the user
	Profiles   bool        // versions of the profiles of peers
	NoReceipts bool        // the cursors of peers are left out, and their moves list nothing. Spec: P-14.14
}

// Sync lists the conversations of a user that changed since token, and the other parts that the client wants. The
// caller has put the session into the online table before. Codes: bad_token, and store_stalled if the token
// refutes the store. Spec: P-6.2, P-6.3.
//
// The cost of a page depends on its content. The user's list, which is kept, has the conversations, and the
// owners' indexes of changes name those that may have changed. Only these are read.
func (y *Syncer) Sync(ctx context.Context, a im.Account, token []byte,
	wants Wants) (page *petrelv1.SyncPage, err error) {
	err = y.withList(ctx, a, func(l *list) error {
		t, err := y.open(a, token)
		if err != nil {
			return err
		}
		if err := y.checkInbox(ctx, a, t, l.head); err != nil {
			return err
		}
		if t.Next == nil {
			t.Next = &storepb.SyncPlace{Inbox: uint64(l.head), Personal: t.Known.GetPersonal()}
			t.Told, t.Reset_ = t.Known.GetPersonal(), false
			if wants.Personal {
				t.Next.Personal = uint64(l.head)
			}
		}
		t.Next.Own = t.Next.Own || wants.NoReceipts
		p := pager{y: y, account: a, list: l, token: t, newest: wants.Newest, own: wants.NoReceipts,
			again: t.Known.GetOwn() && !wants.NoReceipts}
		told := true
		if wants.Personal {
			if told, err = p.personal(ctx); err != nil {
				return err
			}
		}
		page = &p.page
		if told {
			err = p.fill(ctx)
		}
		if err == nil && wants.Profiles && y.Profiles != nil {
			err = p.profiles(ctx)
		}
		switch {
		case err != nil:
			return err
		case !told:
			page.More = true
		case page.More:
			t.Resume = p.last[:]
		default:
			t = &storepb.SyncToken{Known: t.Next}
		}
		page.Token, err = y.seal(a, t)
		return err
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// pager fills one page of a sync.
type pager struct {
	y       *Syncer
	account im.Account
	list    *list
	token   *storepb.SyncToken
	newest  conv.Newest
	own     bool // the cursors of peers are not told
	again   bool // they were not in the sync before, so each direct conversation is told

	page  petrelv1.SyncPage
	bytes int       // of newest messages in page
	read  int       // how many conversations the page has dealt with
	last  im.ConvID // the last of these
}

// profiles adds the versions of the profiles of peers. Spec: P-14.5.
func (p *pager) profiles(ctx context.Context) error {
	var direct []*petrelv1.ConvState
	var users []im.User
	for _, c := range p.page.Convs {
		if c.Peer != "" {
			direct, users = append(direct, c), append(users, im.User(c.Peer))
		}
	}
	if len(users) == 0 {
		return nil
	}
	versions, err := p.y.Profiles(ctx, p.account, users)
	for i := range versions {
		direct[i].PeerProfile = versions[i]
	}
	return err
}

// full tells whether the page takes no more.
func (p *pager) full() bool { return len(p.page.Convs) >= pageConvs || p.bytes > pageBytes }

func (p *pager) fill(ctx context.Context) error {
	l := *p.list
	l.parts = slices.Clone(l.parts)
	first, after := 0, im.ConvID{}
	if len(p.token.Resume) == len(after) {
		after = im.ConvID(p.token.Resume)
		first = l.from(after)
	}
	loaded := 0
	for i := first; i < len(l.parts) && !p.page.More; i++ {
		all, err := p.y.items(ctx, p.account, p.list, i)
		if err != nil {
			return err
		}
		if l.parts[i].items == nil {
			l.parts[i].items = all
			loaded++
		}
		begin, found := all.find(after)
		if found {
			begin++
		}
		if err := p.part(ctx, all, begin); err != nil {
			return err
		}
	}
	if loaded > 0 && loaded == len(l.parts) { // for the next sync
		p.y.lists.put(p.account, &l)
	}
	return nil
}

// part adds the conversations of a part that have news, from the index begin on.
func (p *pager) part(ctx context.Context, all *items, begin int) error {
	left, err := p.candidates(ctx, all, begin)
	if err != nil {
		return err
	}
	for len(left) > 0 {
		if p.full() {
			p.page.More = true
			return nil
		}
		n, err := p.ask(ctx, all, left[:min(len(left), p.atOnce())])
		if err != nil {
			return err
		}
		left = left[n:]
	}
	return nil
}

// candidates returns the indexes in all, from begin on, of the conversations that may have news.
func (p *pager) candidates(ctx context.Context, all *items, begin int) ([]int, error) {
	known := p.token.Known
	isNew := func(at im.Seq) bool { return known == nil || uint64(at) > known.Inbox }
	var left, old []int
	ids := all.ids[begin:] // of old
	if p.again || slices.ContainsFunc(all.at[begin:], isNew) {
		ids = nil
		for i := begin; i < len(all.ids); i++ {
			if isNew(all.at[i]) || p.again && all.item(i).isPair() {
				left = append(left, i)
			} else {
				old = append(old, i)
				ids = append(ids, all.ids[i])
			}
		}
	}
	maybe, places, err := p.y.Router.Candidates(ctx, p.account, ids,
		func(f store.Feed) im.Pos { return posOf(known, f) })
	if err != nil {
		return nil, err
	}
	if err := p.note(ctx, places); err != nil {
		return nil, err
	}
	for _, i := range maybe {
		if old != nil {
			i = old[i]
		} else { // all of them are old
			i += begin
		}
		left = append(left, i)
	}
	slices.Sort(left)
	return left, nil
}

// atOnce returns about how many more conversations fit into the page.
func (p *pager) atOnce() int {
	n := pageConvs - len(p.page.Convs)
	switch {
	case p.newest.Messages == 0:
		return n
	case p.read == 0:
		return min(n, 8)
	}
	each := max(1, p.bytes/p.read)
	return min(n, 1+(pageBytes-p.bytes)/each, 4*p.read)
}

// ask asks the owners about some conversations, and adds their answers to the page until it is full. n is how
// many it has dealt with; the others are asked about again for the next page.
func (p *pager) ask(ctx context.Context, all *items, places []int) (n int, err error) {
	asks := make([]*convpb.Ask, len(places))
	for i, at := range places {
		it := all.item(at)
		asks[i] = it.ask(p.token.Known, p.y.Router, p.own)
		asks[i].Always = asks[i].Always || p.again && it.isPair()
	}
	changes, positions, err := p.y.Router.Changes(ctx, p.account, asks, p.newest)
	if err != nil {
		return 0, err
	}
	if err := p.note(ctx, positions); err != nil {
		return 0, err
	}
	for n < len(changes) && (n == 0 || !p.full()) {
		if state := changes[n]; state != nil {
			p.bytes += newestBytes(state)
			p.page.Convs = append(p.page.Convs, state)
		}
		n++
	}
	p.read += n
	p.last = all.ids[places[n-1]]
	return n, nil
}

// newestBytes returns about how many bytes the newest messages of a conversation take in an answer
// in JSON.
func newestBytes(state *petrelv1.ConvState) (n int) {
	for _, m := range state.Newest {
		n += m.SizeVT() + wire.Escapes(m.GetText()) + wire.Escapes(m.GetEdit().GetText())
	}
	for _, q := range state.Refs {
		n += q.SizeVT()
	}
	for _, x := range state.Notes {
		n += x.SizeVT()
	}
	return n
}

// note puts the positions of feeds into the next token. The positions were read before the conversations of these
// feeds. It first checks them against the client's token (checkFeeds).
func (p *pager) note(ctx context.Context, places route.Places) error {
	if err := p.y.checkFeeds(ctx, p.account, p.token, places); err != nil {
		return err
	}
	p.token.Next.Feeds = addPlaces(p.token.Next.Feeds, places)
	return nil
}

// addPlaces adds the positions of the feeds that are not in feeds yet.
func addPlaces(feeds []*storepb.FeedPos, places route.Places) []*storepb.FeedPos {
	for f, pos := range places {
		if !slices.ContainsFunc(feeds, func(have *storepb.FeedPos) bool { return have.Feed == uint32(f) }) {
			feeds = append(feeds, &storepb.FeedPos{Feed: uint32(f), Pos: uint64(pos)})
		}
	}
	slices.SortFunc(feeds, func(a, b *storepb.FeedPos) int { return cmp.Compare(a.Feed, b.Feed) })
	return feeds
}

func posOf(p *storepb.SyncPlace, feed store.Feed) im.Pos {
	for _, f := range p.GetFeeds() {
		if f.Feed == uint32(feed) {
			return im.Pos(f.Pos)
		}
	}
	return 0
}

// ask makes the question what has changed in a conversation since known; nil: the question for its whole
// state.
func (it *item) ask(known *storepb.SyncPlace, r *route.Router, own bool) *convpb.Ask {
	return &convpb.Ask{
		Conv: it.id[:], Kind: it.kind, Peer: it.peer, Title: it.title, Left: it.left,
		Always: known == nil || uint64(it.at) > known.Inbox, Since: uint64(posOf(known, r.FeedOf(it.id))), Own: own,
	}
}

// open reads a token that seal has made for a. A token of another history, from before a repair or a restore,
// counts as none. Codes: bad_token.
func (y *Syncer) open(a im.Account, token []byte) (*storepb.SyncToken, error) {
	t := &storepb.SyncToken{}
	if len(token) == 0 {
		return t, nil
	}
	if err := t.UnmarshalVT(token); err != nil {
		return nil, &im.Error{Code: im.CodeBadToken}
	}
	check := t.Check
	if again, err := y.seal(a, t); err != nil || t.Check != check || !bytes.Equal(again, token) {
		return nil, &im.Error{Code: im.CodeBadToken}
	}
	if t.HistoryId != y.Store.Info().HistoryID {
		return &storepb.SyncToken{}, nil
	}
	return t, nil
}

// seal signs a token for a. All positions in it are published, and so durable: checkInbox and checkFeeds can
// take them for proof.
//
// The account is signed too: the inbox of one user is longer than that of another, and a token in the wrong
// hands must prove nothing. SipHash is a keyed hash made for signing. 64 bits are enough here, because a
// forger has to try online: at 100,000 tries a second one succeeds once in three million years.
func (y *Syncer) seal(a im.Account, t *storepb.SyncToken) ([]byte, error) {
	info := y.Store.Info()
	if t.HistoryId == 0 {
		t.HistoryId = info.HistoryID
	}
	t.Check = 0
	m, err := t.MarshalVT()
	if err != nil {
		return nil, err
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(a.Tenant))
	b = binary.BigEndian.AppendUint32(b, uint32(len(a.User)))
	b = append(append(b, a.User...), m...)
	s := info.Secret
	t.Check = siphash.Hash(binary.LittleEndian.Uint64(s[:8]), binary.LittleEndian.Uint64(s[8:]), b)
	return t.MarshalVT()
}
