// Package store is the storage contract: the operations that the conversation owners, the feed's consumers
// and the account tables need from a durable store. It holds no logic of chat. store/pebblestore implements
// it on an embedded store, store/pgstore on PostgreSQL; the tests in storetest define a correct
// implementation.
//
// Two rules bind every implementation. A batch is one unit: all of it is durable, or none of it is ever
// visible. And the store does not limit reads to durable rows: a row may be readable before its sync has
// returned, so callers give the upper end of every read and take it from a published head.
package store

import (
	"context"
	"errors"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// FormatLevel is the level of the keys and records that this code writes. A store records its level and the
// oldest level that may read it; a store whose oldest reader is newer than this is refused.
const FormatLevel = 1

// Errors that callers tell apart. All others mean that the outcome of a write
// is unknown, or that a read met damage.
var (
	ErrStale   = errors.New("stale epoch or position") // nothing of the batch was written
	ErrChanged = errors.New("record has changed")      // from Update with Check; nothing was written
	ErrFull    = errors.New("disk nearly full")        // nothing was written; reads go on
	// nothing was written or read; it ends when the store answers again
	ErrStalled = errors.New("store does not answer")
	ErrUnknown = errors.New("outcome of commit unknown") // of an append: only a Takeover of its feed settles it
	ErrCorrupt = errors.New("stored data is damaged")
	ErrTrimmed = errors.New("feed is trimmed") // from ScanFeed: the commits are no longer kept
	// it holds less than was acked; comes with ErrFailed
	ErrRewound = errors.New("store has gone back to an earlier state")
	// a write or sync error came before: outcome unknown, nothing more is served
	ErrFailed = errors.New("store has failed")
)

// Feed names one log of commits. Every partition belongs to one feed; an
// embedded store has a single one, a SQL store one per partition.
type Feed uint16

// Store is the contract. All methods may be called from any goroutine. A read that meets damage returns
// ErrCorrupt (wrapped), never a shorter answer.
type Store interface {
	// Info returns the identity of the store; it does not change while the store is open.
	Info() Info

	// Feeds lists the feeds; FeedOf returns the feed of a partition.
	Feeds() []Feed
	FeedOf(p im.Partition) Feed

	// Takeover makes the caller the writer of a feed: it raises the epoch, which ends every earlier writer,
	// and returns it with the position of the last durable commit, which it does not move. holder names the
	// writer: a random number of this process start. A takeover waits for a commit under way, so its result
	// is final: a writer that got ErrUnknown takes the feed over from itself and reads again. On an error the
	// epoch may have been raised.
	Takeover(ctx context.Context, f Feed, holder uint64) (im.Epoch, im.Pos, error)

	// Holders returns who may write the feeds, in their order. The answer was true at a moment after the call
	// began, and decides: if the caller is the holder, its memory has all acked commits of this feed.
	Holders(ctx context.Context, feeds []Feed) ([]Holder, error)

	// Append commits a batch and returns when the next call for its feed may be made: on an embedded store
	// the batch is readable by then, and its outcome may still be open. Calls for one feed follow each other;
	// calls for several may overlap, and share one sync. done is called exactly once, for one feed in the
	// order of the calls and never two at a time; it may be called before Append returns.
	//
	// A nil result means durable. ErrStale, ErrFull and ErrStalled mean that nothing was written; ErrUnknown
	// that only a Takeover of the feed tells the outcome. ErrFailed means unknown as well; after it an
	// embedded store serves nothing more, and others nothing more of this feed until it is taken over.
	//
	// The batch and all it points to belong to the store until done.
	Append(b *Batch, done func(error))

	// LastRow returns the row with the highest seq of c, nil if c has none.
	// Only the owner of an idle conversation may ask: it may be unsynced.
	LastRow(ctx context.Context, c im.Key) (*Row, error)

	// Rows calls fn for the rows with from <= Seq <= to, ascending, until fn
	// returns false. The row's value is valid during the call only. A seq that
	// is missing between two rows, or at either end, is ErrCorrupt; callers
	// ask for no more than exists.
	Rows(ctx context.Context, c im.Key, from, to im.Seq, fn func(Row) bool) error

	// RowsDown is Rows, descending. Both read little more than fn takes.
	RowsDown(ctx context.Context, c im.Key, from, to im.Seq, fn func(Row) bool) error

	// Sizes calls fn for each conversation that has rows, in no certain order, until fn
	// returns false. It reads at most SizeSamples rows of each, so it takes as long as there
	// are conversations, and no longer for long ones. Rows may be written meanwhile.
	Sizes(ctx context.Context, fn func(im.Key, Size) bool) error

	// Dedupe returns the seqs filed under a hash, in the order of filing. More than one means that hashes
	// collided; the rows tell them apart.
	Dedupe(ctx context.Context, c im.Key, hash uint64) ([]im.Seq, error)

	// Conversation returns the head record, nil if there is none.
	Conversation(ctx context.Context, c im.Key) (*storepb.Conversation, error)

	// Members and Cursors call fn for the records of c, ordered by user, until fn returns false. Cursors
	// begins after the user id after; "" leaves none out. It reads little more than fn takes.
	Members(ctx context.Context, c im.Key, fn func(im.User, *storepb.Member) bool) error
	Cursors(ctx context.Context, c im.Key, after im.User, fn func(im.User, *storepb.Cursor) bool) error

	// Member returns one user's record, nil if the user never was a member. It takes the same work whether or
	// not the conversation exists.
	Member(ctx context.Context, c im.Key, u im.User) (*storepb.Member, error)

	// Cursor returns one user's cursor, nil if there is none.
	Cursor(ctx context.Context, c im.Key, u im.User) (*storepb.Cursor, error)

	// Marks calls fn for the marks of one kind beside the rows with from <= Seq <= to, ordered by seq and
	// name, until fn returns false. Beside the row from it begins after the name after; "" leaves none out.
	// The arguments of fn are valid during the call only.
	Marks(ctx context.Context, c im.Key, k MarkKind, from, to im.Seq, after string,
		fn func(q im.Seq, name string, value []byte) bool) error

	// MarksOf returns the marks of one kind and name beside some rows, in the order of
	// seqs; nil: there is none.
	MarksOf(ctx context.Context, c im.Key, k MarkKind, name string, seqs []im.Seq) ([][]byte, error)

	// MarksBy calls fn for the marks of one kind and name beside the rows with from <= Seq <= to, ascending
	// by seq, until fn returns false. The kind is MarkMention, which Marks does not read. The arguments of fn
	// are valid during the call only.
	MarksBy(ctx context.Context, c im.Key, k MarkKind, name string, from, to im.Seq,
		fn func(q im.Seq, value []byte) bool) error

	// DropRows removes the rows of c below a seq, the marks beside them, and their dedupe entries. After a
	// crash some marks may be left. The caller has made the new first_seq durable before.
	DropRows(ctx context.Context, c im.Key, below im.Seq) error

	// ScanFeed calls fn for the commits with after < Pos <= upTo, ascending,
	// until fn returns false. A commit that was trimmed is ErrTrimmed.
	ScanFeed(ctx context.Context, f Feed, after, upTo im.Pos, fn func(im.Pos, *storepb.FeedEntry) bool) error

	// TrimFeed forgets the commits up to and including upTo.
	TrimFeed(ctx context.Context, f Feed, upTo im.Pos) error

	// Record returns the value of a record, nil if there is none. Records
	// calls fn for those whose key begins with prefix, ordered by key, until fn
	// returns false. RecordsFrom does so for all whose key is from or greater. RecordsDown
	// begins with the greatest key, of those that begin with prefix and are less than below;
	// with an empty below, of all that begin with prefix.
	Record(ctx context.Context, t Table, tenant im.Tenant, key []byte) ([]byte, error)
	Records(ctx context.Context, t Table, tenant im.Tenant, prefix []byte, fn func(key, value []byte) bool) error
	RecordsFrom(ctx context.Context, t Table, tenant im.Tenant, from []byte, fn func(key, value []byte) bool) error
	RecordsDown(ctx context.Context, t Table, tenant im.Tenant, prefix, below []byte,
		fn func(key, value []byte) bool) error

	// Update writes records as one durable unit; any node may. ErrChanged: one
	// of them has Check and is not as it was; nothing was written. A context of ForOperators may
	// use the reserve of a full disk.
	Update(ctx context.Context, puts []RecordPut) error

	// Writable is nil while appends are taken, ErrFull while the disk is nearly full, ErrStalled while a
	// commit hangs or the database is out of reach, and ErrFailed for good after a write or sync error. The
	// call costs nothing.
	Writable() error

	// Failed is closed when the store has failed and no retry can mend it. The process must exit: its memory
	// beyond the last durable commit may be wrong.
	Failed() <-chan struct{}

	// Refute ends the store for good: outside proof has come that it lacks acked commits, because it was put
	// back to an earlier state. Failed is closed when it returns, the error is ErrRewound, and every node
	// refuses the store until it has a new history id. proof is for the operator, and names the witness and
	// the observation.
	Refute(proof string)

	Stats() Stats
	Close() error
}

// SizeSamples is how many rows of a conversation are read to estimate its bytes.
const SizeSamples = 8

// Size is the size of a conversation.
type Size struct {
	Rows  uint64
	Bytes uint64 // of the values of rows, without keys and marks; an estimate from SizeSamples rows if there are more
}

// SizeStep returns the distance between the sampled ones of n rows.
func SizeStep(n uint64) uint64 { return max(1, (n+SizeSamples-1)/SizeSamples) }

// Info is the identity of a store.
type Info struct {
	StoreID   uint64
	HistoryID uint64   // a new one is drawn when acked data may be gone
	Secret    [16]byte // key of the hashes in rows and dedupe keys
	Level     uint32
}

// Stats are totals since the store was opened.
type Stats struct {
	Commits     uint64
	Checkpoints uint64 // made for backups; an embedded store only
	DiskBytes   uint64 // what the store takes on disk now
	TableBytes  uint64 // of it, in tables; the rest is log, of bounded size
	MemoryBytes uint64 // of caches and of rows that are not in a table yet; an embedded store only

	DamageMet uint64   // times that something met damage
	Damage    []string // what cannot be read, for people, as far as known; at most about 20

	ScrubMs    uint64 // when everything was last read in search of damage, Unix milliseconds; 0: never
	ScrubBytes uint64 // read for that since the start
	ScrubFound uint64 // damaged files found so since the start
}

// Holder is the state of a feed.
type Holder struct {
	Epoch  im.Epoch
	Holder uint64 // who took it over last; 0: nobody yet
	Pos    im.Pos // of the last durable commit
	State  FeedState
}

// FeedState tells whether a feed takes batches.
type FeedState uint8

// The states of a feed. Their numbers are part of the format.
const (
	FeedOpen   FeedState = 0
	FeedMoving FeedState = 1 // it is copied to another database, and takes batches still
	FeedSealed FeedState = 2 // it takes none: it is, or is about to be, somewhere else
	// it takes none: its database lacks commits that were acked. Stores keep it to themselves: they have failed
	// (ErrRewound)
	FeedLost FeedState = 3
)

// Takes tells whether a feed in the state takes batches and takeovers.
func (s FeedState) Takes() bool { return s < FeedSealed }

// Batch is one commit to one feed; all of its conversations are of partitions of that feed. It is accepted
// only if the feed stands at From and Holder took it over last, in Epoch, and moves it to From+1. Entry names
// every conversation that the batch changes: copies of a feed rely on that.
type Batch struct {
	Feed   Feed
	Epoch  im.Epoch
	Holder uint64
	From   im.Pos
	Entry  *storepb.FeedEntry

	Rows    []RowPut // new rows, and rewrites of old ones; each row once
	Dedupe  []DedupePut
	Convs   []ConvPut
	Members []MemberPut
	Cursors []CursorPut
	Marks   []MarkPut
}

// RowPut stores a row: the result of AppendRowHead, and the wire message.
type RowPut struct {
	Conv    im.Key
	Seq     im.Seq
	Value   []byte
	Rewrite bool // the row is there already; a new one that is there is a broken invariant
}

// DedupePut files a seq under a hash. Slot is the number of seqs that Dedupe
// returned for it.
type DedupePut struct {
	Conv im.Key
	Hash uint64
	Slot uint8
	Seq  im.Seq
}

// ConvPut writes a conversation's head record.
type ConvPut struct {
	Conv   im.Key
	Record *storepb.Conversation
}

// MemberPut writes a member's record.
type MemberPut struct {
	Conv   im.Key
	User   im.User
	Record *storepb.Member
}

// CursorPut writes a cursor.
type CursorPut struct {
	Conv   im.Key
	User   im.User
	Record *storepb.Cursor
}

// MarkPut writes a mark: a value beside a row, under a kind and a name. Unlike a row it can change any number
// of times, and no entry records that.
type MarkPut struct {
	Conv  im.Key
	Kind  MarkKind
	Seq   im.Seq
	Name  string
	Value []byte // empty: the mark is removed
}

// MarkKind is a kind of marks.
type MarkKind byte

// The kinds of marks. Their numbers are part of the format.
const (
	MarkNote      MarkKind = 1 // storepb.Note; without a name
	MarkReactions MarkKind = 2 // storepb.Reactions of the user who is the name
	MarkPin       MarkKind = 3 // storepb.Pinned; without a name
	MarkThread    MarkKind = 4 // storepb.Thread; without a name
	MarkMention   MarkKind = 5 // storepb.Mention of the user who is the name; ordered by name and seq: see ByName
	lastMarkKind           = MarkMention
)

// ByName tells whether the marks of a kind are ordered by name and seq: MarksBy reads those of one name, and
// those of several names are not read together.
// name are read by MarksBy, and those of several are not read together.
func (k MarkKind) ByName() bool { return k == MarkMention }

// MarkKinds are all of them.
func MarkKinds() []MarkKind {
	var all []MarkKind
	for k := MarkNote; k <= lastMarkKind; k++ {
		all = append(all, k)
	}
	return all
}

// Table is a kind of record.
type Table byte

// The tables. Their numbers are part of the format.
const (
	Tenants   Table = 1 // tenant 0; key: name
	Users     Table = 2 // key: user id
	Tokens    Table = 3 // tenant 0 for admin keys; key: SHA-256 of the token
	Consumers Table = 4 // tenant 0; key: name of a consumer of the feed and its feed
	Settings  Table = 5 // tenant 0; key: name
	Devices   Table = 6 // key: user id, 0, device id
	Requests  Table = 7 // tenant 0; key: SHA-256 of caller, method and request id
	Nodes     Table = 8 // tenant 0; key: id of the node
	Lists     Table = 9 // key: user id, 0, and what package inbox stores of the user's list

	Invitations Table = 10 // key: SHA-256 of the code
	Names       Table = 11 // key: how a user id looks; value: the user id

	Audit      Table = 12 // tenant 0; key: when, number and node, see package audit
	AuditHeads Table = 13 // tenant 0; key: node

	LastSeen Table = 14 // key: user id; value: Unix milliseconds, big endian
	// key: im.PairKey of who blocks and whom; value: one byte. A block that has ended is still there
	Blocks Table = 15

	Operators        Table = 16 // tenant 0; key: name
	OperatorSessions Table = 17 // tenant 0; key: SHA-256 of the token
	Backups          Table = 18 // tenant 0; key: when it was made, Unix milliseconds, big endian, and its name
	DisplayNames     Table = 19 // key: the display name as it is searched, 0 and the user id; value: one byte
	Titles           Table = 20 // key: see package inbox: the titles of groups as they are searched
	Peers            Table = 21 // key: im.PairKey of a user and of another one who has written to them; value: one byte
)

// RecordPut writes or deletes one record. With Check it does so only while the record has the value Was; nil:
// while there is none.
type RecordPut struct {
	Table  Table
	Tenant im.Tenant
	Key    []byte
	Value  []byte // nil deletes
	Check  bool
	Was    []byte
}
