package pebblestore

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A table file is a row of blocks without anything between them: first those with
// the entries, in the order of their keys, then the index and others, and the footer.
// Behind each block stand one byte, how it is compressed, and four, the checksum of the
// block and of that byte. So a block can be found and read without the index.

const (
	sumLen    = block.TrailerLen - 1
	minBlock  = 32        // bytes; a block with an entry is longer
	maxBlock  = 8 << 20   // bytes; blocks end at 16 KiB, but an entry is never divided
	findStep  = 256 << 10 // bytes in which the beginning of a block is looked for at once
	maxFound  = 256 << 10 // bytes; a longer block is not found again behind damage
	maxInside = 64 << 20  // bytes of a block that is not compressed
)

// dataBlocks reads the blocks with entries of a table file.
type dataBlocks struct {
	schema *colblk.KeySchema
	file   vfs.File

	known bool // the index can be read
	at    []block.HandleWithProperties

	content []byte // without the index: of the file
	off     int    // what is before it was looked at
}

// next is the next block that can be read, nil at the end. behind: what cannot be
// read lies before it.
func (d *dataBlocks) next() (b *colblk.DataBlockDecoder, behind bool, err error) {
	if !d.known {
		b, behind = d.find()
		return b, behind, nil
	}
	for len(d.at) > 0 && b == nil {
		h := d.at[0]
		d.at = d.at[1:]
		raw := make([]byte, h.Length+block.TrailerLen)
		_, err := d.file.ReadAt(raw, int64(h.Offset))
		if err != nil && !errors.Is(err, io.EOF) && !pebble.IsCorruptionError(err) {
			return nil, false, err
		}
		if n := h.Length + 1; err == nil && crc32.Checksum(raw[:n], castagnoli) == blockSum(raw[n:]) {
			b = decodeBlock(d.schema, raw[:n])
		}
		behind = behind || b == nil
	}
	return b, behind, nil
}

// find is next without the index.
func (d *dataBlocks) find() (b *colblk.DataBlockDecoder, behind bool) {
	if end, ok := d.follows(); ok {
		if b = decodeBlock(d.schema, d.content[d.off:end]); b == nil {
			d.off = len(d.content) // one of the others: there are no more with entries
			return nil, false
		}
		d.off = end + sumLen
		return b, false
	}
	for ; d.off+minBlock < len(d.content); d.off += findStep {
		for _, f := range d.fits(d.off+1, d.off+1+findStep) {
			if b = decodeBlock(d.schema, d.content[f.from:f.end]); b != nil {
				d.off = f.end + sumLen
				return b, true
			}
		}
	}
	d.off = len(d.content)
	return nil, true
}

// follows tells where the block ends that begins at off: where its checksum fits.
func (d *dataBlocks) follows() (end int, ok bool) {
	sum := ^uint32(0)
	limit := min(len(d.content)-sumLen, d.off+maxBlock)
	for end = d.off + 1; end <= limit; end++ {
		sum = sumWith(sum, d.content[end-1])
		if isKind(d.content[end-1]) && ^sum == blockSum(d.content[end:]) {
			return end, true
		}
	}
	return 0, false
}

// extent is where a block may lie: content[from:end], with its last byte.
type extent struct{ from, end int }

// fits are the places between which the checksum fits, of blocks that begin in
// from <= x < to, each beginning once, in the order of their ends.
//
// To try each beginning with each end would take days. But the checksum of a part is
// that of all before its end, less that of all before its beginning times a power of x
// for the bytes between. Multiplied with the power for the bytes up to one common
// place, the two sides depend on the end and on the beginning alone, and are looked up.
func (d *dataBlocks) fits(from, to int) (all []extent) {
	last := min(len(d.content)-sumLen, to+maxFound)
	to = min(to, last)
	if from >= to {
		return nil
	}
	powers := make([]uint32, last-from+1) // powers[n]: of n bytes
	for i := range powers {
		if powers[i] = 1 << 31; i > 0 {
			powers[i] = sumWith(powers[i-1], 0)
		}
	}
	begins := make(map[uint32]int32, to-from)
	sum := uint32(0)
	for at := from; at <= last; at++ {
		if at > from {
			sum = sumWith(sum, d.content[at-1])
			if isKind(d.content[at-1]) {
				begin, ok := begins[product(sum^^blockSum(d.content[at:]), powers[last-at])]
				if begin := from + int(begin); ok && at-begin >= minBlock {
					all = append(all, extent{begin, at})
				}
			}
		}
		if at < to {
			begins[product(^sum, powers[last-at])] = int32(at - from)
		}
	}
	return all
}

// sumWith is the state of CRC-32C after one more byte.
func sumWith(sum uint32, b byte) uint32 { return castagnoli[byte(sum)^b] ^ sum>>8 }

// product multiplies two polynomials modulo that of CRC-32C; the highest bit is the
// coefficient of x to the 0.
func product(a, b uint32) (p uint32) {
	for ; a != 0; a <<= 1 {
		if a>>31 == 1 {
			p ^= b
		}
		b = b>>1 ^ crc32.Castagnoli&-(b&1)
	}
	return p
}

// blockSum is the CRC-32C in a block's trailer, where it is stored rotated and with a
// number added.
func blockSum(b []byte) uint32 {
	v := binary.LittleEndian.Uint32(b) - 0xa282ead8
	return v>>17 | v<<15
}

// isKind tells whether a byte says how a block is compressed.
func isKind(b byte) bool {
	switch block.CompressionIndicator(b) {
	case block.NoCompressionIndicator, block.SnappyCompressionIndicator, block.ZstdCompressionIndicator, block.MinLZCompressionIndicator:
		return true
	}
	return false
}

// decodeBlock reads a block with entries; raw ends with the byte that says how it is
// compressed. nil: it is none.
func decodeBlock(schema *colblk.KeySchema, raw []byte) *colblk.DataBlockDecoder {
	raw, kind := raw[:len(raw)-1], block.CompressionIndicator(raw[len(raw)-1])
	if !isKind(byte(kind)) {
		return nil
	}
	n, err := block.DecompressedLen(kind, raw)
	types := append(append([]colblk.DataType(nil), schema.ColumnTypes...),
		colblk.DataTypeUint, colblk.DataTypeBool, colblk.DataTypeBytes, colblk.DataTypeBool, colblk.DataTypeBool)
	const longestKey = 4 // bytes before the header
	if err != nil || n < longestKey+int(colblk.HeaderSize(len(types), 0)) || n > maxInside {
		return nil
	}
	data := make([]byte, n)
	if block.DecompressInto(kind, raw, data) != nil {
		return nil
	}
	h := colblk.DecodeHeader(data[longestKey:])
	if h.Version != colblk.Version1 || int(h.Columns) != len(types) || h.Rows == 0 {
		return nil
	}
	var form colblk.BlockDecoder
	form.Init(data, longestKey)
	for i, t := range types {
		if form.DataType(i) != t {
			return nil
		}
	}
	b := new(colblk.DataBlockDecoder)
	b.Init(schema, data)
	return b
}

// readWhole reads a file. Parts that the disk cannot read are zeros.
func readWhole(f vfs.File) ([]byte, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, st.Size())
	const sector = 4 << 10
	for at := 0; at < len(b); at += sector {
		part := b[at:min(at+sector, len(b))]
		if _, err := f.ReadAt(part, int64(at)); pebble.IsCorruptionError(err) {
			clear(part)
		} else if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	return b, nil
}
