package console

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The thresholds of incidents. docs/guide/console.md has these numbers too.
const (
	lowDisk     = 2                // times store.min_free
	filling     = 15 * time.Minute // or less until only store.min_free is free, at the pace of the last minutes
	filledPart  = 20               // that pace counts if at least 1/20 of the free space was taken,
	filledLeast = 128 << 20        // and at least so many bytes: stores take as much for a ballast, logs and tables,
	// and if no measurement is lower than the one before by more than 1/3 of it all: one large file is no pace
	filledFalls = 3
	slowCommit  = 100                 // ms, the mean of 10 s
	greedy      = 300                 // refusals of one user or address in a minute
	turnedDown  = 10                  // refusals in a minute because the server has too much to do
	nearlyFull  = 0.95                // of a budget
	auditTime   = 10 * time.Minute    // how long the incident lasts after a loss of records
	certificate = 14 * 24 * time.Hour // before its end
	skewed      = time.Second         // between clocks

	wrongLogins  = 60  // in a minute
	wrongPart    = 5   // at least 1/5 of the logins has to be wrong: many people make many mistakes
	manyRefusals = 600 // with one code in a minute
	refusedPart  = 20  // at least 1/20 of the sends and calls has to be refused

	inboxesLate  = 10 * time.Second // lag of the lists of conversations
	backupsEvery = 10 * time.Second
	earlyBackup  = 2 * 24 * time.Hour // the least time from a backup until the next one is late
	lateBackup   = 8 * 24 * time.Hour // the most, also from the start of the store
)

// minute has the counters of about the last minute, which are read each second, the free space of the last five
// minutes, and the states of backups and audit log.
type minute struct {
	counted  [60]counted
	at       int
	backups  backups
	free     []freeSpace // every freeEvery, oldest first
	auditWas uint64
	auditAt  time.Time // when records of the audit log were lost last
}

// freeSpace is a measurement of the free space on the disk of store.dir.
type freeSpace struct {
	at    time.Time
	bytes uint64
}

const (
	freeEvery = 5 * time.Second
	freeKept  = 60
)

// noteFree records the free space, once in freeEvery; 0 is not known, and not recorded.
func (m *minute) noteFree(now time.Time, bytes uint64) {
	if n := len(m.free); n > 0 && now.Sub(m.free[n-1].at) < freeEvery || bytes == 0 {
		return
	}
	if len(m.free) == freeKept {
		m.free = m.free[:copy(m.free, m.free[1:])]
	}
	m.free = append(m.free, freeSpace{now, bytes})
}

// fills returns how long it takes until the free space has fallen to least; 0 if the pace does not count. soon: the
// pace counts, and it takes less than filling.
func (m *minute) fills(least uint64) (left time.Duration, soon bool) {
	if len(m.free) < 4 {
		return 0, false
	}
	first, last := m.free[0], m.free[len(m.free)-1]
	if last.bytes >= first.bytes || last.bytes < least {
		return 0, false
	}
	taken := first.bytes - last.bytes
	if taken < max(last.bytes/filledPart, filledLeast) {
		return 0, false
	}
	for i, is := range m.free[1:] {
		if was := m.free[i]; was.bytes > is.bytes && (was.bytes-is.bytes)*filledFalls > taken {
			return 0, false
		}
	}
	pace := float64(taken) / last.at.Sub(first.at).Seconds()
	left = time.Duration(float64(last.bytes-least)/pace) * time.Second
	return left, left < filling
}

// take reads the counters and the other figures.
func (m *minute) take(c *Console, now time.Time, counted counted) {
	m.noteFree(now, c.o.FreeBytes())
	m.at = (m.at + 1) % len(m.counted)
	m.counted[m.at] = counted
	if c.embedded() {
		m.backups.look(c.o.Store, now)
	}
	dropped, failed := c.o.AuditLost()
	if lost := dropped + failed; lost > m.auditWas {
		m.auditWas, m.auditAt = lost, now
	}
}

// embedded reports whether the store is an embedded one, which only this node uses.
func (c *Console) embedded() bool { return len(c.o.Databases()) == 0 }

// last returns the counts of the last minute.
func (m *minute) last() counted {
	return m.counted[m.at].since(&m.counted[(m.at+1)%len(m.counted)])
}

// incidentList collects incidents.
type incidentList struct {
	node string
	all  []*petrelv1.Incident
}

const (
	degraded = petrelv1.Verdict_VERDICT_DEGRADED
	critical = petrelv1.Verdict_VERDICT_CRITICAL
)

func (l *incidentList) add(v petrelv1.Verdict, code, text string, details ...string) *petrelv1.Incident {
	x := &petrelv1.Incident{Severity: v, Code: code, Node: l.node, Text: text, Details: details}
	l.all = append(l.all, x)
	return x
}

// ownIncidents returns the incidents of this node.
func (c *Console) ownIncidents(now time.Time) []*petrelv1.Incident {
	l := &incidentList{node: string(c.o.Bus.Self())}
	c.storeIncidents(l)
	c.mu.Lock()
	inMinute, backups, lost := c.minute.last(), c.minute.backups, c.minute.auditAt
	c.mu.Unlock()
	c.refusalIncidents(l, now, &inMinute)
	c.loadIncidents(l, &inMinute)
	backupIncidents(l, now, &backups)
	if c.o.Draining() {
		l.add(degraded, "node_draining",
			"the node is drained: it takes no clients and owns no partitions until somebody resumes or restarts it")
	}
	if c.o.Failing() && c.o.Store.Writable() == nil {
		l.add(critical, "not_ready", "the store refuses most commits")
	}
	if !lost.IsZero() && now.Sub(lost) < auditTime {
		n, _ := c.o.AuditLost()
		l.add(degraded, "audit_lost",
			fmt.Sprintf("records of the audit log were lost or could not be written; %d are lost since the start", n),
			strconv.FormatUint(n, 10))
	}
	if end, ok := c.o.Certificate(); ok {
		if left := end.Sub(now); left < certificate {
			v, day := degraded, end.UTC().Format(time.DateOnly)
			if left <= 0 {
				v = critical
			}
			l.add(v, "certificate_ends", "the certificate of tls.cert_file ends on "+day, day)
		}
	}
	return l.all
}

func (c *Console) storeIncidents(l *incidentList) {
	if err := c.o.Behind(); err != nil {
		l.add(critical, "database_behind", err.Error(), err.Error())
	}
	switch err := c.o.Store.Writable(); {
	case errors.Is(err, store.ErrFull):
		free := c.o.FreeBytes()
		l.add(critical, "disk_full",
			fmt.Sprintf("%d MiB are free on the disk of store.dir, less than store.min_free: sends are refused",
				free>>20), strconv.FormatUint(free, 10))
	case err != nil && c.embedded():
		l.add(critical, "store_stopped", "the store takes no writes: "+err.Error(), err.Error())
	}
	for _, d := range c.o.Databases() {
		if !d.Up {
			l.add(critical, "database_down", fmt.Sprintf("database %d does not answer; %d partitions are in it",
				d.Number, d.Partitions), fmt.Sprint(d.Number), fmt.Sprint(d.Partitions))
		}
	}
	if free, least := c.o.FreeBytes(), max(0, c.o.MinFreeBytes); c.embedded() && free > 0 &&
		c.o.Store.Writable() == nil {
		c.mu.Lock()
		left, soon := c.minute.fills(uint64(least))
		c.mu.Unlock()
		switch {
		case free < uint64(lowDisk*least):
			l.add(degraded, "disk_low",
				fmt.Sprintf("%d MiB are free on the disk of store.dir; below %d MiB sends are refused", free>>20,
					least>>20), strconv.FormatUint(free, 10), strconv.FormatInt(least, 10))
		case soon:
			l.add(degraded, "disk_filling",
				fmt.Sprintf("%d MiB are free on the disk of store.dir, and it fills up: sends are refused in %s",
					free>>20, left), strconv.FormatUint(free, 10), strconv.FormatFloat(left.Seconds(), 'f', 0, 64))
		}
	}
	if mean := c.Samples.CommitMean(10); mean > slowCommit {
		code, what := "disk_slow", "disk"
		if !c.embedded() {
			code, what = "database_slow", "database"
		}
		l.add(degraded, code, fmt.Sprintf("a commit takes %.0f ms: the %s is slow", mean, what),
			fmt.Sprintf("%.0f", mean))
	}
	if d := c.o.Store.Stats().Damage; len(d) > 0 {
		l.add(critical, "store_damaged", fmt.Sprintf("%d places of the store cannot be read: %s", len(d), d[0]),
			strconv.Itoa(len(d)), d[0])
	}
}

// refusalIncidents adds incidents caused by clients.
func (c *Console) refusalIncidents(l *incidentList, now time.Time, t *counted) {
	loudest := c.Refusals.Loudest(now, 20)
	if t.guessing() {
		wrong, all := strconv.FormatUint(t.wrong, 10), strconv.FormatUint(t.wrong+t.right, 10)
		from, most := "–", uint64(0)
		tries := map[netip.Addr]uint64{}
		for _, x := range loudest {
			if !isLoginRefused(&x) {
				continue
			}
			tries[x.Address] += x.Count
			if n := min(tries[x.Address], t.wrong); n > most {
				from, most = x.Address.String(), n
			}
		}
		l.add(degraded, "logins_wrong",
			fmt.Sprintf("%s of %s logins in a minute had a wrong password or exceeded a limit; most from one address: %d, from %s", wrong,
				all, most, from), wrong, all, strconv.FormatUint(most, 10), from)
	}
	blamed := im.Code("")
	for _, x := range loudest[:min(len(loudest), 1)] {
		if x.Count < greedy || x.Code == im.CodeBadCredentials {
			break
		}
		blamed = x.Code
		if t.guessing() && isLoginRefused(&x) {
			break // a guesser of passwords: logins_wrong says so
		}
		who := cmp.Or(string(x.Account.User), address(x.Address))
		l.add(degraded, "greedy_user", fmt.Sprintf("%s was refused %d times in a minute with %s", who, x.Count, x.Code),
			who, strconv.FormatUint(x.Count, 10), string(x.Code))
	}
	if code, n := t.spike(); n > 0 && code != blamed {
		l.add(degraded, "refusals_many", fmt.Sprintf("%d frames and calls were refused in a minute with %s", n, code),
			strconv.FormatUint(n, 10), string(code))
	}
}

// isLoginRefused reports whether refusals are of logins from an address, like those of somebody who guesses
// passwords.
func isLoginRefused(x *Loud) bool {
	return x.Address.IsValid() && (x.Code == im.CodeBadCredentials || tooMany(string(x.Code)))
}

// backupIncidents adds incidents of the backups of an embedded store.
func backupIncidents(l *incidentList, now time.Time, b *backups) {
	if b.due.IsZero() {
		return
	}
	day := b.made.UTC().Format(time.DateOnly)
	switch {
	case b.fault != "":
		l.add(degraded, "backup_unsound", "the newest backup, of "+day+", is not sound: "+b.fault, day, b.fault)
	case now.Before(b.due):
	case b.made.IsZero():
		l.add(degraded, "backup_none", "there has never been a backup of the store")
	default:
		l.add(degraded, "backup_old", "the newest backup is of "+day, day)
	}
}

func (c *Console) loadIncidents(l *incidentList, t *counted) {
	if n := t.turnedDown(); n >= turnedDown {
		l.add(degraded, "overloaded",
			fmt.Sprintf("%d frames and calls were refused in a minute because the server cannot keep up", n),
			strconv.FormatUint(n, 10))
	}
	for _, p := range c.o.Budgets() {
		code := "memory_full"
		if p.Name == "connections" {
			code = "connections_full"
		}
		most := p.Limit * nearlyFull
		switch p.Name {
		case "memory/conversations":
			most *= 2 // conversations in use may take twice the budget
		case "memory/store":
			continue // a cache fills its budget
		}
		if p.Limit > 0 && p.Value > most {
			details := []string{p.Name, fmt.Sprintf("%.0f", p.Value), fmt.Sprintf("%.0f", p.Limit)}
			if p.Name == "connections" {
				details = details[1:]
			}
			l.add(degraded, code, fmt.Sprintf("%s: %.0f of %.0f", p.Name, p.Value, p.Limit), details...)
		}
	}
	switch lag, limit := c.o.InboxLag(); {
	case lag > limit:
		l.add(degraded, "inboxes_behind",
			fmt.Sprintf("the lists of conversations are %.0f s behind, so no conversation begins", lag.Seconds()),
			fmt.Sprintf("%.0f", lag.Seconds()))
	case lag > min(inboxesLate, limit/2):
		l.add(degraded, "inboxes_late",
			fmt.Sprintf("the lists of conversations are %.0f s behind: new conversations show late", lag.Seconds()),
			fmt.Sprintf("%.0f", lag.Seconds()))
	}
}

// clusterIncidents returns the incidents of the cluster, as this node sees them. silent are the expected nodes
// that did not answer.
func (c *Console) clusterIncidents(now time.Time, st *cluster.Status, silent []string) []*petrelv1.Incident {
	l := &incidentList{}
	answered := func(n string) (at time.Time) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.answered[im.Node(n)]
	}
	quiet := map[string]bool{}
	for _, n := range silent {
		quiet[n] = true
		l.node = n
		x := l.add(critical, "node_silent",
			"node "+n+" does not answer, and may be gone: its clients and partitions go to the others when it is")
		if at := answered(n); !at.IsZero() {
			x.SinceMs = uint64(at.UnixMilli())
		}
	}
	version := ""
	for i := range st.Nodes {
		n := &st.Nodes[i]
		l.node = string(n.Node)
		switch {
		case !n.Alive && !n.Draining:
			x := l.add(degraded, "node_gone", "node "+l.node+" is gone; the others serve its partitions")
			x.SinceMs = uint64(now.Add(-n.Silent).Truncate(time.Second).UnixMilli())
		case n.Apart && !quiet[l.node]:
			l.add(degraded, "node_apart", "node "+l.node+" does not hear most of the others, so it serves nobody")
		case n.Slow && !quiet[l.node]:
			l.add(degraded, "node_slow",
				"the database answers node "+l.node+" much later than the others, so it owns no partitions")
		}
		if n.Alive && n.Node != c.o.Cluster.Self() && n.Skew.Abs() > skewed {
			l.add(degraded, "clock_skew", fmt.Sprintf("the clock of node %s is %.1f s ahead of that of %s", n.Node,
				n.Skew.Seconds(), c.o.Cluster.Self()), fmt.Sprintf("%.1f", n.Skew.Seconds()),
				string(c.o.Cluster.Self()))
		}
		if n.Alive && version != "" && n.Release != version {
			l.add(degraded, "versions_differ", "node "+l.node+" runs "+n.Release+", others run "+version, n.Release,
				version)
		} else if n.Alive {
			version = n.Release
		}
	}
	l.node = ""
	if k := len(st.Unowned); k > 0 {
		l.add(critical, "partitions_unowned",
			fmt.Sprintf("%d partitions have no owner: sends to their conversations wait", k), strconv.Itoa(k))
	}
	return l.all
}
