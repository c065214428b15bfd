package checker

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Class is a way in which a promise is broken.
type Class uint8

// The classes, and the promises that they break.
const (
	// an acked message is not in the history, or a device that had to get it did not (I1, I6, I11)
	Lost      Class = iota
	Duplicate       // a message is stored twice, acked at two seqs, or taken as new twice by one device (I2)
	Ghost           // something is there that nobody sent, or is stored though it was rejected (I3)
	Refused         // somebody was shown a message whose every attempt was rejected (I3)
	// an entry has a lower seq than one that was acked before it was sent, or reached a client after a later
	// one, or two entries stand at one seq (I4, I5)
	Reordered
	Altered  // somebody was shown another body or sender than was sent (I1, I4)
	Gap      // a seq is missing in the history, or in the middle of a page (I4)
	Leaked   // somebody was shown what they may not read (I9)
	Stale    // somebody was told a lower head than was acked or told before they asked (I7)
	Cursor   // a cursor went back, or delivered is below read, or above the head (I8)
	Recalled // a body was shown after its recall or edit was acked (I12)
	classes
)

var classNames = [classes]string{"lost", "duplicate", "ghost", "refused", "reordered", "altered", "gap", "leaked",
	"stale", "cursor", "recalled"}

func (c Class) String() string { return classNames[c] }

// Classes returns all classes, in the order of a report.
func Classes() []Class {
	all := make([]Class, classes)
	for i := range all {
		all[i] = Class(i)
	}
	return all
}

// Findings counts the broken promises of each class.
type Findings [classes]uint64

// Clean reports whether there are none.
func (f Findings) Clean() bool { return f == Findings{} }

// Sum returns the number of findings of all classes.
func (f Findings) Sum() (n uint64) {
	for _, v := range f {
		n += v
	}
	return n
}

// String lists the counts of lost, duplicate, ghost and reordered, and those of all other classes with findings.
func (f Findings) String() string {
	var parts []string
	for c, n := range f {
		if n > 0 || Class(c) <= Ghost || Class(c) == Reordered {
			parts = append(parts, fmt.Sprintf("%s %d", Class(c), n))
		}
	}
	return strings.Join(parts, ", ")
}

// MarshalJSON writes an object with the name of each class.
func (f Findings) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for c, n := range f {
		if c > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "%q:%d", Class(c), n)
	}
	return append(b, '}'), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (f *Findings) UnmarshalJSON(b []byte) error {
	m := map[string]uint64{}
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	for c := range f {
		f[c] = m[Class(c).String()]
	}
	return nil
}

// MaxWitnesses is how many witnesses of each class a report keeps.
const MaxWitnesses = 20

// Witness is one broken promise.
type Witness struct {
	Class Class  `json:"-"`
	Name  string `json:"class"`
	Conv  string `json:"conv,omitempty"`
	Seq   uint64 `json:"seq,omitempty"`
	Text  string `json:"text"`
	Where string `json:"where,omitempty"` // LOG:LINE of an op that shows it

	where uint64
}

func (w Witness) String() string {
	s := w.Name + ": " + w.Text
	if w.Where != "" {
		s += " (" + w.Where + ")"
	}
	return s
}

// Verdict gathers findings. The zero value has none. One goroutine at a time.
type Verdict struct {
	Findings  Findings
	Witnesses []Witness // the first MaxWitnesses of each class

	kept [classes]int
}

// Convict records n findings of a class, with one witness for all of them.
func (v *Verdict) Convict(c Class, n uint64, conv string, seq uint64, format string, args ...any) {
	v.convict(c, n, nil, Witness{Conv: conv, Seq: seq}, format, args...)
}

func (v *Verdict) convict(c Class, n uint64, op *Op, w Witness, format string, args ...any) {
	v.Findings[c] += n
	if v.kept[c] == MaxWitnesses {
		return
	}
	v.kept[c]++
	w.Class, w.Name, w.Text = c, c.String(), fmt.Sprintf(format, args...)
	if op != nil {
		w.where = op.where
	}
	v.Witnesses = append(v.Witnesses, w)
}

// merge adds the findings of o.
func (v *Verdict) merge(o *Verdict) {
	for c, n := range o.Findings {
		v.Findings[c] += n
	}
	for _, w := range o.Witnesses {
		if v.kept[w.Class] < MaxWitnesses {
			v.kept[w.Class]++
			v.Witnesses = append(v.Witnesses, w)
		}
	}
}

// AtMost returns the upper bound of the rate of a fault that did not occur in n tries: at a higher rate, 95 of
// 100 such runs would have seen the fault. It is 1 if n is below 3.
func AtMost(n uint64) float64 {
	if n < 3 {
		return 1
	}
	return 3 / float64(n)
}
