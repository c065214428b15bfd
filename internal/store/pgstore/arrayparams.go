package pgstore

import (
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgtype"
)

// array is a parameter for one column of many rows, in PostgreSQL's binary form: a header of 5 numbers, then
// each element after its length. There are millions of elements a second, so each is encoded right into the
// buffer that is sent. reset makes an array ready for the next statement.
type array struct {
	oid uint32
	n   int
	buf []byte
}

const arrayHeaderLen = 5 * 4

func (a *array) reset() {
	a.n = 0
	a.buf = append(a.buf[:0], make([]byte, arrayHeaderLen)...)
}

// encode fills in the header and returns the buffer of a as the parameter.
func (a *array) encode() []byte {
	h := a.buf[:arrayHeaderLen]
	binary.BigEndian.PutUint32(h, 1)     // dimensions
	binary.BigEndian.PutUint32(h[4:], 0) // no NULL
	binary.BigEndian.PutUint32(h[8:], a.oid)
	binary.BigEndian.PutUint32(h[12:], uint32(a.n))
	binary.BigEndian.PutUint32(h[16:], 1) // number of the first
	return a.buf
}

// grow adds an element of n bytes and returns the slice to fill.
func (a *array) grow(n int) []byte {
	a.n++
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(n))
	at := len(a.buf)
	if cap(a.buf)-at < n {
		a.buf = append(a.buf, make([]byte, n)...)
	}
	a.buf = a.buf[:at+n]
	return a.buf[at:]
}

func (a *array) int4(v int)      { binary.BigEndian.PutUint32(a.grow(4), uint32(v)) }
func (a *array) int8(v uint64)   { binary.BigEndian.PutUint64(a.grow(8), v) }
func (a *array) text(v string)   { copy(a.grow(len(v)), v) }
func (a *array) uuid(v [16]byte) { copy(a.grow(16), v[:]) }

// message is the interface that vtprotobuf generates for a record.
type message interface {
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
}

// message adds a record with its checksum.
func (a *array) message(s *sums, at address, m message) error {
	n := m.SizeVT()
	b := a.grow(n + sumLen)
	if _, err := m.MarshalToSizedBufferVT(b[:n]); err != nil {
		return err
	}
	binary.BigEndian.PutUint32(b[n:], s.of(at, b[:n]))
	return nil
}

// sealed adds a value with its checksum.
func (a *array) sealed(s *sums, at address, v []byte) {
	b := a.grow(len(v) + sumLen)
	binary.BigEndian.PutUint32(b[copy(b, v):], s.of(at, v))
}

// columnTypes maps the types of columns, as a statement names them, to those of array elements.
var columnTypes = map[string]uint32{
	"int": pgtype.Int4OID, "bigint": pgtype.Int8OID, "uuid": pgtype.UUIDOID, "bytea": pgtype.ByteaOID,
	"text": pgtype.TextOID,
}
