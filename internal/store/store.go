// Package store is the storage contract: the operations that the owners of conversations, the consumers of the
// feed and the account tables need from a durable store. It holds no logic of chat. store/pebblestore
// implements it on an embedded store, store/pgstore on PostgreSQL. The tests in storetest define a correct
// implementation.
//
// Two rules bind every implementation. A batch is one unit: all of it becomes durable, or none of it is ever
// visible. And reads are not limited to durable rows: a row may be readable before its sync has returned. So
// callers give the upper end of every read, and take it from a published head.
package store

import (
	"context"
	"errors"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// FormatLevel is the level of the keys and records that this code writes. A store records its level, and the
// lowest level of a program that may open it; a program below that is refused.
const FormatLevel = 1

// Errors that callers tell apart. Any other error of a write leaves its outcome unknown; any other error of a read
// only says that the read has failed.
var (
	ErrStale   = errors.New("stale epoch or position") // nothing of the batch was written
	ErrChanged = errors.New("record has changed")      // from Update with Check; nothing was written
	ErrFull    = errors.New("disk nearly full")        // nothing was written; reads go on
	// nothing was written or read; a retry succeeds when the store answers again
	ErrStalled = errors.New("store does not answer")
	ErrUnknown = errors.New("outcome of commit unknown") // after an append, only a Takeover of its feed tells it
	ErrCorrupt = errors.New("stored data is damaged")
	ErrTrimmed = errors.New("feed is trimmed") // from ScanFeed: the commits were removed
	// the store holds less than was acked; comes with ErrFailed
	ErrRewound = errors.New("store has gone back to an earlier state")
	// a write or sync has failed: its outcome is unknown, and nothing more is served
	ErrFailed = errors.New("store has failed")
)

// Feed names one log of commits. Every partition belongs to one feed. An embedded store has a single feed, a
// SQL store has one for each partition.
type Feed uint16

// Store is the contract. All methods may be called from any goroutine. A read that meets damage returns
// ErrCorrupt (wrapped), never a shorter answer.
type Store interface {
	// Info returns the identity of the store; it does not change while the store is open.
	Info() Info

	// Feeds lists the feeds; FeedOf returns the feed of a partition.
	Feeds() []Feed
	FeedOf(p im.Partition) Feed

	// Takeover makes the caller the writer of a feed: it raises the epoch, so that batches of earlier writers
	// are refused. It returns the new epoch, and the position of the last durable commit, which stays as it is.
	// holder identifies the writer: a random number of this process start. A takeover waits for a commit under
	// way, so the position is final. A writer that got ErrUnknown takes over its own feed and reads its rows
	// again. After an error the epoch may have been raised.
	Takeover(ctx context.Context, f Feed, holder uint64) (im.Epoch, im.Pos, error)

	// Holders returns the holder, epoch, position and state of each feed, in the order of feeds, as they were
	// at a moment after the call began. If the caller is the holder, no other node has committed since its
	// takeover, so its memory has all acked commits of the feed.
	Holders(ctx context.Context, feeds []Feed) ([]Holder, error)

	// Append commits a batch and passes the outcome to done. It returns when the next batch of the feed may be
	// appended; on an embedded store the batch is readable by then, although its outcome may still be open. A
	// caller makes one call at a time for a feed. Calls for several feeds may overlap, and share one sync. done
	// is called exactly once, perhaps before Append returns. For one feed the calls of done come one at a time,
	// in the order of the appends.
	//
	// A nil result means durable. After ErrStale, ErrFull and ErrStalled nothing was written. After ErrUnknown
	// only a Takeover of the feed tells the outcome. ErrFailed means an unknown outcome as well: if Failed is
	// closed, the store serves nothing more; else it takes no batch of this feed before a Takeover.
	//
	// The batch and all it points to belong to the store until done is called.
	Append(b *Batch, done func(error))

	// LastRow returns the row with the highest seq of c, nil if c has none. Only the owner of c may call it, and
	// only while no append to c is under way: otherwise the row may not be durable yet.
	LastRow(ctx context.Context, c im.Key) (*Row, error)

	// Rows calls fn for the rows with from <= Seq <= to, ascending, until fn returns false. The row's value is
	// valid during the call only. A seq that is missing between two rows, or at either end, is ErrCorrupt, so
	// callers ask for no more than exists.
	Rows(ctx context.Context, c im.Key, from, to im.Seq, fn func(Row) bool) error

	// RowsDown calls fn like Rows, in descending order. Both read few rows beyond the last one that fn gets.
	RowsDown(ctx context.Context, c im.Key, from, to im.Seq, fn func(Row) bool) error

	// Sizes calls fn for each conversation that has rows, in no certain order, until fn returns false. It reads
	// at most SizeSamples rows of each, so its time depends on the number of conversations and not on their
	// length. Rows may be written meanwhile.
	Sizes(ctx context.Context, fn func(im.Key, Size) bool) error

	// Dedupe returns the seqs that were stored under a hash, oldest first. Several seqs are a collision of
	// hashes, which the rows resolve.
	Dedupe(ctx context.Context, c im.Key, hash uint64) ([]im.Seq, error)

	// Conversation returns the record of a conversation, nil if there is none.
	Conversation(ctx context.Context, c im.Key) (*storepb.Conversation, error)

	// Members and Cursors call fn for the records of c, ordered by user, until fn returns false. Cursors leaves out
	// the users with ids up to the parameter after; "" leaves out nobody. It reads few records beyond the last one
	// that fn gets.
	Members(ctx context.Context, c im.Key, fn func(im.User, *storepb.Member) bool) error
	Cursors(ctx context.Context, c im.Key, after im.User, fn func(im.User, *storepb.Cursor) bool) error

	// Member returns one user's record, nil if the user never was a member. It takes the same work whether or
	// not the conversation exists.
	Member(ctx context.Context, c im.Key, u im.User) (*storepb.Member, error)

	// Cursor returns one user's cursor, nil if there is none.
	Cursor(ctx context.Context, c im.Key, u im.User) (*storepb.Cursor, error)

	// Marks calls fn for the marks of one kind beside the rows with from <= Seq <= to, ordered by seq and name,
	// until fn returns false. Beside the first row, Seq == from, it leaves out the marks with names up to the
	// parameter after; "" leaves out none. k must not be MarkMention. The arguments of fn are valid during the call
	// only.
	Marks(ctx context.Context, c im.Key, k MarkKind, from, to im.Seq, after string,
		fn func(q im.Seq, name string, value []byte) bool) error

	// MarksOf returns the marks of one kind and name beside the rows with these seqs, in their order; nil: the
	// row has no such mark.
	MarksOf(ctx context.Context, c im.Key, k MarkKind, name string, seqs []im.Seq) ([][]byte, error)

	// MarksBy calls fn for the marks of one kind and name beside the rows with from <= Seq <= to, ascending by
	// seq, until fn returns false. k must be MarkMention, the kind that Marks does not read. The arguments of
	// fn are valid during the call only.
	MarksBy(ctx context.Context, c im.Key, k MarkKind, name string, from, to im.Seq,
		fn func(q im.Seq, value []byte) bool) error

	// DropRows removes the rows of c below a seq, the marks beside them, and their dedupe entries, except those
	// whose hash a kept row has too. After a crash some marks and dedupe entries may be left. Before the call
	// the caller has made the new first_seq durable.
	DropRows(ctx context.Context, c im.Key, below im.Seq) error

	// ScanFeed calls fn for the commits with after < Pos <= upTo, ascending, until fn returns false. It returns
	// ErrTrimmed if one of them was trimmed.
	ScanFeed(ctx context.Context, f Feed, after, upTo im.Pos, fn func(im.Pos, *storepb.FeedEntry) bool) error

	// TrimFeed removes the commits up to and including upTo. If upTo is above the newest commit, it fails.
	TrimFeed(ctx context.Context, f Feed, upTo im.Pos) error

	// Record returns the value of a record, nil if there is none. Records calls fn for the records whose key
	// begins with prefix, ordered by key, until fn returns false. RecordsFrom does the same for the keys that are
	// not less than the parameter from. RecordsDown does it in descending order, for the keys that begin with prefix
	// and are less than the parameter below; an empty one sets no limit.
	Record(ctx context.Context, t Table, tenant im.Tenant, key []byte) ([]byte, error)
	Records(ctx context.Context, t Table, tenant im.Tenant, prefix []byte, fn func(key, value []byte) bool) error
	RecordsFrom(ctx context.Context, t Table, tenant im.Tenant, from []byte, fn func(key, value []byte) bool) error
	RecordsDown(ctx context.Context, t Table, tenant im.Tenant, prefix, below []byte,
		fn func(key, value []byte) bool) error

	// Update writes records as one durable unit. Any node may call it. ErrChanged means that a record with
	// Check has another value than expected, and that nothing was written. With a context of ForOperators an
	// update may use the reserve of a full disk.
	Update(ctx context.Context, puts []RecordPut) error

	// Writable returns nil while appends are taken, ErrFull while the disk is nearly full, ErrStalled while a
	// commit hangs or the database is out of reach, and ErrFailed for good after a write or sync error. It only
	// reads memory.
	Writable() error

	// Failed returns a channel that is closed when the store has failed and no retry can mend it. The process
	// must exit then: its memory beyond the last durable commit may be wrong.
	Failed() <-chan struct{}

	// Refute ends the store for good, because proof has come from outside that it lacks acked commits: it was
	// put back to an earlier state. When Refute returns, Failed is closed, and the error of the store is
	// ErrRewound. Every node refuses the store until it has a new history id. proof is a text for the operator:
	// who observed what.
	Refute(proof string)

	Stats() Stats
	Close() error
}

// SizeSamples is the greatest number of rows of a conversation that are read to estimate its bytes.
const SizeSamples = 8

// Size is the size of a conversation.
type Size struct {
	Rows  uint64
	Bytes uint64 // of the values of rows, without keys and marks; an estimate from SizeSamples rows if there are more
}

// SizeStep returns the distance between two sampled rows of a conversation with n rows.
func SizeStep(n uint64) uint64 { return max(1, (n+SizeSamples-1)/SizeSamples) }

// Info is the identity of a store.
type Info struct {
	StoreID   uint64
	HistoryID uint64   // a new one is drawn when acked data may be gone
	Secret    [16]byte // key of the hashes in rows and dedupe keys
	Level     uint32
}

// Stats are the figures of a store. Counters begin when it is opened.
type Stats struct {
	Commits     uint64
	Checkpoints uint64 // made for backups; an embedded store only
	DiskBytes   uint64 // what the store takes on disk now
	TableBytes  uint64 // the part of DiskBytes in tables; the rest is log, of bounded size
	MemoryBytes uint64 // of caches and of rows that are not in a table yet; an embedded store only

	DamageMet uint64   // times that something met damage
	Damage    []string // what cannot be read, for people, as far as known; at most about 20

	ScrubMs    uint64 // when everything was last read in search of damage, Unix milliseconds; 0: never
	ScrubBytes uint64 // bytes that the scrub has read since the start
	ScrubFound uint64 // damaged files that the scrub has found since the start
}

// Holder says who may write a feed, and how far the feed has come.
type Holder struct {
	Epoch  im.Epoch
	Holder uint64 // the process that took the feed over last; 0: none yet
	Pos    im.Pos // of the last durable commit
	State  FeedState
}

// FeedState tells whether a feed takes batches.
type FeedState uint8

// The states of a feed. Their numbers are part of the format.
const (
	FeedOpen   FeedState = 0
	FeedMoving FeedState = 1 // it is being copied to another database, and still takes batches
	FeedSealed FeedState = 2 // it takes no batches: another database has it, or will soon
	// it takes no batches: its database lacks acked commits. Holders never returns this state: it returns
	// ErrRewound, and the store has failed
	FeedLost FeedState = 3
)

// Takes tells whether a feed in the state takes batches and takeovers.
func (s FeedState) Takes() bool { return s < FeedSealed }

// Batch is one commit to one feed. All its conversations are in partitions of that feed. The store accepts it
// only if the feed stands at From and Holder took it over last, in Epoch. The batch moves the feed to From+1.
// Entry names every conversation that the batch changes: a copy of the feed to another database relies on that.
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
	Rewrite bool // the row exists already; without Rewrite it must not exist
}

// DedupePut stores a seq under a hash. Slot is the number of seqs that Dedupe returned for the hash.
type DedupePut struct {
	Conv im.Key
	Hash uint64
	Slot uint8
	Seq  im.Seq
}

// ConvPut writes the record of a conversation: its kind, users, title, blocks and first seq, but not its head.
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

// ByName tells whether the marks of a kind are ordered by name and then by seq. MarksBy reads those of one
// name; no method reads those of several names together.
func (k MarkKind) ByName() bool { return k == MarkMention }

// MarkKinds returns all kinds of marks.
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
	// key: im.PairKey of the blocker and the blocked user; value: one byte. A block that has ended keeps its
	// record
	Blocks Table = 15

	Operators        Table = 16 // tenant 0; key: name
	OperatorSessions Table = 17 // tenant 0; key: SHA-256 of the token
	Backups          Table = 18 // tenant 0; key: when it was made, Unix milliseconds, big endian, and its name
	DisplayNames     Table = 19 // key: the display name as it is searched, 0 and the user id; value: one byte
	Titles           Table = 20 // key: see package inbox: the titles of groups as they are searched
	Peers            Table = 21 // key: im.PairKey of a user and of another one who has written to them; value: one byte
	Handles          Table = 22 // key: the handle; value: the user id
	Reports          Table = 26 // key: see package report
)

// RecordPut writes or deletes one record. With Check it does so only if the record has the value Was; with a
// nil Was, only if there is no record.
type RecordPut struct {
	Table  Table
	Tenant im.Tenant
	Key    []byte
	Value  []byte // nil deletes
	Check  bool
	Was    []byte
}
