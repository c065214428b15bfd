package console

import (
	"github.com/petrel-im/petrel/internal/im"
)

// counted has the counters that incidents need: of this node since its start, or what was added since an earlier
// time.
type counted struct {
	accepted    uint64 // entries
	right       uint64 // logins
	wrong       uint64 // logins refused because of a wrong name or password, or of too many logins
	refused     uint64 // calls and frames
	refusedWith map[im.Code]uint64
}

// count reads the counters.
func (c *Console) count(accepted uint64) counted {
	t := counted{accepted: accepted, refusedWith: map[im.Code]uint64{}}
	refused := func(code string, n uint64) {
		t.refused += n
		t.refusedWith[im.Code(code)] += n
	}
	c.o.FrameRefusals.Each(refused)
	c.o.CallRefusals().Each(refused)
	for way, counts := range c.o.Logins() {
		counts.Each(func(outcome string, n uint64) {
			switch {
			case outcome == "ok" && way != "minted" && way != "refresh":
				t.right += n
			case outcome == string(im.CodeBadCredentials), tooMany(outcome) && (way == "password" || way == "operator"):
				t.wrong += n
			}
		})
	}
	return t
}

// tooMany reports whether a code says that there were too many tries.
func tooMany(outcome string) bool {
	return outcome == string(im.CodeRateLimited) || outcome == string(im.CodeOverloaded)
}

// since returns the difference to an earlier counted.
func (t *counted) since(was *counted) counted {
	d := counted{t.accepted - was.accepted, t.right - was.right, t.wrong - was.wrong, t.refused - was.refused,
		map[im.Code]uint64{}}
	for code, n := range t.refusedWith {
		d.refusedWith[code] = n - was.refusedWith[code]
	}
	return d
}

// guessing reports whether somebody seems to guess passwords: many logins are wrong, and they are more than a
// small part of all.
func (t *counted) guessing() bool {
	return t.wrong >= wrongLogins && t.wrong*wrongPart >= t.wrong+t.right
}

// turnedDown returns how many refusals an overload has caused.
func (t *counted) turnedDown() uint64 {
	return t.refusedWith[im.CodeOverloaded] + t.refusedWith[im.CodeStoreStalled]
}

// spike returns the most frequent code of refusals and their number, without the codes that have incidents of their
// own; "" and 0 if they are not many.
func (t *counted) spike() (code im.Code, n uint64) {
	for c, k := range t.refusedWith {
		switch c {
		case im.CodeOverloaded, im.CodeStoreStalled, im.CodeDiskFull, im.CodeBadCredentials:
			continue
		}
		if k > n || k == n && c < code {
			code, n = c, k
		}
	}
	if n < manyRefusals || n*refusedPart < t.refused+t.accepted {
		return "", 0
	}
	return code, n
}
