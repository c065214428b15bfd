package fanout

import (
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/petrel-im/petrel/internal/cluster/clusterpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
)

// Names are the users whom an entry mentions, or, if it is a recall, whom the recalled entry
// mentioned. Their sessions get the entry whole, whatever they have in focus. Spec: P-5.13.
type Names struct {
	Seq   uint64   // of the entry
	Users []string // ascending; may contain users who are not members: they get nothing
	All   bool     // all members
	But   im.User  // the sender, whom an entry never mentions
}

func (n *Names) has(u im.User) bool {
	if u == n.But || n.All {
		return u != n.But
	}
	_, found := slices.BinarySearch(n.Users, string(u))
	return found
}

// named has the rows of one delivery that mention users. Most deliveries have none.
type named struct {
	all []namedRow
	one namedRows // last result of named.of
}

type namedRow struct {
	*Names
	at  int // its place among the rows of the delivery
	row []byte
}

// namedRows has the rows that mention one user.
type namedRows struct {
	newest uint64 // seq of the newest of them
	at     []int
	rows   [][]byte

	// Rows that mention many users are encoded once.
	encoded [wire.Encodings][]byte
}

func (n *named) reset() {
	clear(n.all)
	*n = named{all: n.all[:0]}
}

func (n *named) add(names *Names, at int, row []byte) {
	n.all = append(n.all, namedRow{names, at, row})
}

// of returns those rows that mention u among the rows with the indexes from
// to from+rows−1; nil: none does. The result is valid until the next call.
func (n *named) of(u im.User, from, rows int) *namedRows {
	var places [4]int // there are seldom more
	at := places[:0]
	for i, x := range n.all {
		if from <= x.at && x.at < from+rows && x.has(u) {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return nil
	}
	if !slices.Equal(at, n.one.at) {
		n.one = namedRows{at: slices.Clone(at)}
		for _, i := range at {
			n.one.newest = n.all[i].Seq
			n.one.rows = append(n.one.rows, n.all[i].row)
		}
	}
	return &n.one
}

// newestOf returns the seq of the newest row that mentions u; 0: none does.
func (n *named) newestOf(u im.User) (seq uint64) {
	for _, x := range n.all {
		if x.has(u) {
			seq = max(seq, x.Seq)
		}
	}
	return seq
}

// frames returns the rows that mention users, in the form for other nodes.
func (n *named) frames() []*clusterpb.Names {
	var all []*clusterpb.Names
	for _, x := range n.all {
		all = append(all, &clusterpb.Names{Seq: x.Seq, Row: uint32(x.at), Users: x.Users, All: x.All,
			But: string(x.But)})
	}
	return all
}

// hash returns a hash that is the same for deliveries that mention the same users.
func (n *named) hash() uint64 {
	if len(n.all) == 0 {
		return 0
	}
	h := fnv.New64a()
	add := func(s string) { _, _ = h.Write(append([]byte(s), 0)) } // never fails
	for _, x := range n.all {
		for _, u := range x.Users {
			add(u)
		}
		add(strconv.FormatBool(x.All))
		add(string(x.But))
	}
	return h.Sum64()
}

// encode returns the rows as an Events frame.
func (r *namedRows) encode(e wire.Encoding) []byte {
	b := &r.encoded[e.Index()]
	if *b == nil {
		*b = wire.AppendEvents(nil, e, r.rows)
	}
	return *b
}
