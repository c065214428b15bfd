package pebblestore

import "fmt"

// Examined is the result of Examine.
type Examined struct {
	Tables  int
	Bytes   uint64   // of the tables
	Damage  []string // for people: damaged ranges, and damaged tables with what is lost in them
	Refused error    // why Open would refuse the store; nil: it would not
}

// Examine reads the state and all tables of the store in o.Dir, and changes nothing in the store. If Open would
// refuse the store, it sets Refused and does not read the tables. If the store is in use, it fails.
func Examine(o Options) (Examined, error) {
	o = o.withDefaults()
	p := o.place()
	var v Examined
	lock, err := p.acquire()
	if err != nil {
		return v, err
	}
	defer func() { _ = lock.Close() }() // nothing was written
	if _, err := p.fs.Stat(p.db); err != nil {
		return v, err
	}
	f, err := inspect(o, p)
	if err != nil {
		v.Refused = err
		return v, nil
	}
	for _, r := range f.ranges {
		v.Damage = append(v.Damage, r.String())
	}
	l, err := p.tables(o)
	if err != nil {
		return v, err
	}
	for _, t := range l.tables {
		v.Tables++
		v.Bytes += t.size
	}
	bad, err := p.damagedTables(o, l.tables)
	if err != nil {
		return v, err
	}
	po := tableOptions(o)
	for _, t := range bad {
		lost, err := salvage(po, p.fs, p.fs.PathJoin(p.db, t.name), t, nil)
		if err != nil {
			return v, fmt.Errorf("read table %s: %w", t.name, err)
		}
		if lost == nil {
			v.Damage = append(v.Damage, t.name+": all entries can be read")
		} else {
			v.Damage = append(v.Damage, lost.of(t, 0).String())
		}
	}
	return v, nil
}
