package checker

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
)

// section is the content of one file of a part: ops that are judged together.
type section uint8

// The sections, in the order in which they are looked at.
const (
	invokes section = iota
	answers
	entries
	arrivals
	sections
)

// sectionsOf returns the sections to which an op of a kind is written; sections stands for none.
func sectionsOf(k Kind) (first section, also section) {
	switch k {
	case Invoke:
		return invokes, sections
	case OK:
		return answers, arrivals
	case Rejected, Conv, History, Follow, Head, Receipt, Note:
		return answers, sections
	case Entry:
		return entries, sections
	case Deliver, Read, End:
		return arrivals, sections
	}
	return sections, sections // it decides nothing
}

// part is a share of the conversations. Its ops are in temporary files, one for each section that has ops. They
// are removed when the check is done.
type part struct {
	dir     string // of the files
	files   [sections]*os.File
	writers [sections]*Writer

	covered map[string]bool // users whose sends are all in the logs
	convs   map[string]*conversation
	verdict Verdict
	sums    Sums
}

// write adds an op.
func (p *part) write(op *Op) error {
	first, also := sectionsOf(op.Kind)
	for _, s := range [...]section{first, also} {
		if s == sections {
			continue
		}
		if p.files[s] == nil {
			f, err := os.CreateTemp(p.dir, "part-")
			if err != nil {
				return err
			}
			p.files[s], p.writers[s] = f, NewWriter(f)
			p.writers[s].ofPart = true
		}
		if err := p.writers[s].Write(op); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the files.
func (p *part) remove() error {
	var errs []error
	for _, f := range p.files {
		if f != nil {
			errs = append(errs, f.Close(), os.Remove(f.Name()))
		}
	}
	p.files = [sections]*os.File{}
	return errors.Join(errs...)
}

// each calls do for each op of a section, with the place of its line.
func (p *part) each(s section, do func(op *Op, offset int64)) error {
	if p.files[s] == nil {
		return nil
	}
	if err := p.writers[s].Flush(); err != nil {
		return err
	}
	if _, err := p.files[s].Seek(0, io.SeekStart); err != nil {
		return err
	}
	r, err := NewReader(p.files[s])
	if err != nil {
		return err
	}
	r.ofPart = true
	var op Op
	for {
		at := r.offset
		switch err := r.Next(&op); {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("read %s again: %w", p.files[s].Name(), err)
		}
		do(&op, at)
	}
}

func (p *part) conv(op *Op) *conversation {
	c := p.convs[op.Conv]
	if c == nil {
		c = newConversation(p, op.Conv)
		p.convs[op.Conv] = c
	}
	return c
}

// judge judges all ops of the part.
func (p *part) judge(covered map[string]bool) error {
	p.covered, p.convs = covered, map[string]*conversation{}
	ended := map[string]bool{} // devices that want nothing more, in all conversations
	errs := []error{
		p.each(invokes, func(op *Op, offset int64) {
			p.sums.Attempts++
			p.conv(op).invoke(op, offset)
		}),
		p.each(answers, func(op *Op, _ int64) { p.conv(op).answer(op) }),
		p.each(entries, func(op *Op, _ int64) {
			p.sums.Entries++
			p.conv(op).readBack(op)
		}),
	}
	for _, c := range p.convs {
		c.settle()
	}
	errs = append(errs,
		p.each(entries, func(op *Op, _ int64) { p.conv(op).rowAsItIs(op) }),
		p.each(arrivals, func(op *Op, _ int64) {
			switch op.Kind {
			case End:
				if op.Conv == "" {
					ended[op.stream()] = true
				} else if f := p.conv(op).streams[op.stream()]; f != nil {
					f.Gone = true
				}
				return
			case Deliver:
				p.sums.Deliveries++
			case Read:
				p.sums.Reads++
			}
			p.conv(op).arrive(op)
		}))
	for _, id := range slices.Sorted(maps.Keys(p.convs)) {
		c := p.convs[id]
		for device := range ended {
			if f := c.streams[device]; f != nil {
				f.Gone = true
			}
		}
		c.close()
		c.count1(&p.sums)
	}
	return errors.Join(errs...)
}

// name returns the name of a message for a witness.
func (p *part) name(m *message) string {
	var op Op
	if err := again(p.files[invokes], m.offset, &op); err != nil {
		return fmt.Sprintf("a message (%v)", err)
	}
	return fmt.Sprintf("message %s of %s", op.ID, op.User)
}
