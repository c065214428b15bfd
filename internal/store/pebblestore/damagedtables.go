package pebblestore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wake"
)

// damage lists the unreadable tables of a running store. Only the read that meets such a table fails. Then
// mendtable.go rewrites the table.
type damage struct {
	log *slog.Logger
	met atomic.Uint64 // how often something met damage

	news chan struct{} // capacity 1; a token: files has a new one

	mu    sync.Mutex           // tier 0; guards files
	files map[string]time.Time // damaged tables that are not mended yet, and when the mender last tried
}

func (d *damage) init(log *slog.Logger) {
	d.log, d.news, d.files = log, make(chan struct{}, 1), map[string]time.Time{}
}

// found counts a meeting with damage in the table in file. The first time it also logs err and wakes the mender.
func (d *damage) found(file string, err error) {
	d.met.Add(1)
	d.mu.Lock()
	_, known := d.files[file]
	if !known {
		d.files[file] = time.Time{}
	}
	d.mu.Unlock()
	if !known {
		d.log.Error("stored data is damaged", "file", file, "err", err)
		wake.Set(d.news)
	}
}

// listen makes Pebble report damage to found.
func (d *damage) listen(l *pebble.EventListener) {
	l.DataCorruption = func(i pebble.DataCorruptionInfo) { d.found(path.Base(i.Path), plain{i.Details}) }
}

// next returns the file of a table to be mended, empty if there is none, and notes that the mender tries it now. It
// returns a table again only after the time retry.
func (d *damage) next(retry time.Duration) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for file, tried := range d.files {
		if time.Since(tried) >= retry {
			d.files[file] = time.Now()
			return file
		}
	}
	return ""
}

// mended removes a table from the damaged ones.
func (d *damage) mended(file string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.files, file)
}

// maxPlaces bounds the list of damaged places.
const maxPlaces = 20

// places describes the data that cannot be read, for people.
func (d *damage) places(known damagedRanges) []string {
	var all []string
	d.mu.Lock()
	for file := range d.files {
		all = append(all, file+": its lost data is not known yet")
	}
	d.mu.Unlock()
	for _, r := range known {
		all = append(all, r.String())
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if n := len(all) - maxPlaces; n > 0 {
		all = append(all[:maxPlaces], fmt.Sprintf("%d more", n))
	}
	return all
}

// String names the file and the data that may be lost, for people.
func (r damagedRange) String() string { return r.File + ": " + r.keyRange.String() }

// String names the data that may be lost in a range.
func (r keyRange) String() string {
	from, to := nameOfKey(r.From), nameOfKey(r.To)
	if len(r.From) >= convKeyLen && bytes.HasPrefix(r.To, r.From[:convKeyLen]) && r.From[0] == kindRow {
		return fmt.Sprintf("%s to seq %d", from, lastSeqBelow(r.To))
	}
	return from + " to " + to
}

// lastSeqBelow returns the highest seq that a row below key can have, in the conversation of key.
func lastSeqBelow(key []byte) uint64 {
	seq := seqBytes(key)
	if len(key) <= rowKeyLen && seq > 0 {
		seq-- // key itself is excluded
	}
	return seq
}

func seqBytes(key []byte) uint64 {
	var b [8]byte
	if len(key) > convKeyLen {
		copy(b[:], key[convKeyLen:])
	}
	return binary.BigEndian.Uint64(b[:])
}

var kindNames = map[byte]string{
	kindConversation: "conversation", kindMember: "members of", kindRow: "conversation", kindCursor: "cursors in",
	kindDedupe: "message ids in",
	kindMark:   "reactions, pins, threads and mentions in",
}

// nameOfKey describes one key for people.
func nameOfKey(key []byte) string {
	if len(key) == 0 {
		return "the beginning"
	}
	name, ok := kindNames[key[0]]
	switch {
	case ok && len(key) >= convKeyLen:
		text := name + " " + im.ConvID(key[5:convKeyLen]).String()
		if key[0] == kindRow {
			seq := seqBytes(key)
			if len(key) > rowKeyLen {
				seq++
			}
			text += fmt.Sprintf(" seq %d", seq)
		}
		return text
	case key[0] == kindFeed && len(key) >= feedKeyLen:
		return fmt.Sprintf("feed entry %d", binary.BigEndian.Uint64(key[3:]))
	case key[0] == kindRecord && len(key) >= tableKeyLen:
		return nameOfRecord(store.Table(key[1]), binary.BigEndian.Uint32(key[2:]),
			strings.TrimRight(string(key[tableKeyLen:]), "\x00"))
	}
	return fmt.Sprintf("key %q", key)
}

var tableNames = map[store.Table]string{
	store.Tenants: "tenant", store.Users: "user", store.Tokens: "token", store.Consumers: "position of the consumer",
	store.Settings: "setting",
	store.Devices:  "device", store.Requests: "answer to the request", store.Nodes: "node",
	store.Lists: "list of conversations", store.Invitations: "invitation",
	store.Names: "look of the user id", store.Audit: "record of the audit log",
	store.AuditHeads: "end of the audit log of",
	store.LastSeen:   "last seen time of", store.Blocks: "block by", store.Peers: "contact of", store.Reports: "report",
}

// nameOfRecord names one record by its table, key and tenant. A hash means nothing to people; its first bytes
// tell one record from others.
func nameOfRecord(t store.Table, tenant uint32, key string) string {
	name, ok := tableNames[t]
	switch {
	case !ok:
		name = fmt.Sprintf("record of table %d", t)
	case t == store.Tokens && tenant == 0:
		name = "admin key"
	}
	switch t {
	case store.Tokens, store.Requests, store.Invitations:
		return fmt.Sprintf("%s with the hash %x", name, key[:min(len(key), 8)])
	case store.Audit: // package audit makes the key
		if len(key) >= 16 {
			return fmt.Sprintf("record %d of node %q in the audit log", binary.BigEndian.Uint64([]byte(key[8:])),
				key[16:])
		}
	}
	name = fmt.Sprintf("%s %q", name, key)
	if tenant > 1 {
		name += fmt.Sprintf(" in tenant %d", tenant)
	}
	return name
}
