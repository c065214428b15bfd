package bench

import (
	"bytes"
	"math/rand/v2"
)

// proof is the header of a body: its sender, its number, and its time.
type proof struct {
	sender uint32 // ordinal of the sender, below maxSenders
	number uint64 // of the sender's message: 1, 2, 3, …
	sentNs int64  // on the generator's clock; in open loop the moment it was due
}

const (
	proofBytes = 24      // characters of the proof at the start of a body
	maxSenders = 1 << 24 // 4 characters
	// idBytes is the length of a client message id: 108 bits that look random, like those of real clients. A
	// pattern in them could help the server.
	idBytes = 18

	corpusBytes = 1 << 20 // a power of two
)

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

var digitValue = func() (t [256]uint8) {
	for i := range t {
		t[i] = 0xFF
	}
	for i := range digits {
		t[digits[i]] = uint8(i)
	}
	return t
}()

// corpus makes the bodies of a run and recognises them. A body is its proof and words after it, taken from a long
// made-up text at a place that depends on the message. So bodies compress like text with ids in it, no two are
// equal, and any alteration is noticed.
type corpus struct {
	seed uint64
	size int    // bytes of a body
	text []byte // corpusBytes + size
}

func newCorpus(seed uint64, size int) *corpus {
	r := rand.New(rand.NewPCG(seed, 1))
	const letters = "eeeeeeetttttaaaaooooiiiinnnnsssshhhrrrddllucmwfgypbvk"
	words := make([][]byte, 4096)
	for i := range words {
		w := make([]byte, 2+r.IntN(8))
		for j := range w {
			w[j] = letters[r.IntN(len(letters))]
		}
		words[i] = append(w, ' ')
	}
	frequency := rand.NewZipf(r, 1.1, 8, uint64(len(words)-1))
	text := make([]byte, 0, corpusBytes+size+16)
	for len(text) < corpusBytes+size {
		text = append(text, words[frequency.Uint64()]...)
	}
	return &corpus{seed: seed, size: size, text: text}
}

// mix is the finisher of splitmix64: every bit of the result depends on every bit of x.
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

func (c *corpus) hash(sender uint32, number uint64) uint64 {
	return mix(mix(c.seed^uint64(sender)<<40) + number)
}

func appendDigits(dst []byte, v uint64, n int) []byte {
	for range n {
		dst = append(dst, digits[v&63])
		v >>= 6
	}
	return dst
}

func readDigits(b []byte) (v uint64, ok bool) {
	bad := uint8(0)
	for i := len(b) - 1; i >= 0; i-- {
		d := digitValue[b[i]]
		bad |= d
		v = v<<6 | uint64(d&63)
	}
	return v, bad < 64
}

// appendBody appends the body with the proof p.
func (c *corpus) appendBody(dst []byte, p proof) []byte {
	h := c.hash(p.sender, p.number)
	dst = appendDigits(dst, uint64(p.sentNs), 8)
	dst = appendDigits(dst, uint64(p.sender), 4)
	dst = appendDigits(dst, p.number, 6)
	dst = appendDigits(dst, mix(h^uint64(p.sentNs)), 6)
	return append(dst, c.words(h)...)
}

func (c *corpus) words(h uint64) []byte {
	at := h & (corpusBytes - 1)
	return c.text[at : at+uint64(c.size-proofBytes)]
}

// read returns the proof of a body; false: this run never made that body.
func (c *corpus) read(b []byte) (proof, bool) {
	if len(b) != c.size {
		return proof{}, false
	}
	sent, ok1 := readDigits(b[:8])
	sender, ok2 := readDigits(b[8:12])
	number, ok3 := readDigits(b[12:18])
	check, ok4 := readDigits(b[18:24])
	p := proof{sender: uint32(sender), number: number, sentNs: int64(sent)}
	h := c.hash(p.sender, p.number)
	if !ok1 || !ok2 || !ok3 || !ok4 || check != mix(h^sent)&(1<<36-1) {
		return proof{}, false
	}
	return p, bytes.Equal(b[proofBytes:], c.words(h))
}

// appendID appends the client message id of a message.
func (c *corpus) appendID(dst []byte, sender uint32, number uint64) []byte {
	h := mix(c.hash(sender, number))
	dst = appendDigits(dst, h, 10)
	return appendDigits(dst, mix(h), idBytes-10)
}

func (c *corpus) isID(id []byte, sender uint32, number uint64) bool {
	var want [idBytes]byte
	return bytes.Equal(id, c.appendID(want[:0], sender, number))
}
