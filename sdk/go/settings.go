package petrel

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Names of settings with a meaning to every client. Spec: P-8.10.
const (
	settingMutedUntil = "muted_until"
	settingNotify     = "notify"
	settingPinned     = "pinned"
	settingArchived   = "archived"
	settingUnread     = "unread"
	settingClearedTo  = "cleared_to"
	settingHidden     = "hidden"
	settingBlocked    = "blocked"
)

// Personal has the user's settings of a conversation, from any device. Spec: P-8.10.
type Personal struct {
	MutedUntil time.Time // until then the person is not disturbed; zero: never muted
	Notify     string    // of which messages the person is told: "all", "mentions", "nothing"; "": not set
	Pinned     uint64    // above 0: at the top of the list, in the order of these numbers
	Archived   bool
	Unread     bool   // the person wants it to look unread
	ClearedTo  uint64 // nothing up to this seq is shown
	Hidden     string // seqs that are not shown either, like "3,7-9"; see Hides
	Blocked    bool   // of a direct conversation: the user blocks the other one

	// FirstMessages is "waiting" while the messages of the other user of a direct conversation wait for this user to
	// accept them, and "refused" after this user has refused them. Such a conversation belongs into a list of its own.
	// Spec: P-14.12.
	FirstMessages string
}

// Hides tells whether an entry is hidden from the user, because they cleared the conversation or deleted the
// message for themselves. Spec: P-8.10.
func (p Personal) Hides(seq uint64) bool {
	if seq <= p.ClearedTo {
		return true
	}
	for part := range strings.SplitSeq(p.Hidden, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, _ := strconv.ParseUint(first, 10, 63) // the server lets no other value through
		to, _ := strconv.ParseUint(last, 10, 63)
		if from <= seq && seq <= to {
			return true
		}
	}
	return false
}

// subject is the conversation or user of a setting; both empty: the account.
type subject struct{ conv, user string }

// setting is the newest known value of a name.
type setting struct {
	value string // "": the name was removed
	seq   uint64 // of the entry of the inbox
}

// settings are the settings of the user, by subject and name.
type settings map[subject]map[string]setting

func (s settings) value(of subject, name string) string { return s[of][name].value }

// newest returns the seq of the newest known value; 0: there is none.
func (s settings) newest() (seq uint64) {
	for _, names := range s {
		for _, x := range names {
			seq = max(seq, x.seq)
		}
	}
	return seq
}

// settingKey is the key of a setting in the store. Ids of conversations and users have
// no slash.
func settingKey(of subject, name string) string {
	return settingPrefix + of.conv + "/" + of.user + "/" + name
}

// takePersonal applies the settings on a page of a sync. Spec: P-8.10.
func (c *core) takePersonal(p *petrelv1.SyncPage) {
	if p.PersonalReset {
		for of, names := range c.settings {
			for name := range names {
				if !c.live.pushed[settingKey(of, name)] { // a pushed value may be newer than the page
					c.dropSetting(of, name)
				}
			}
		}
	}
	for _, s := range p.Personal {
		c.takeSetting(s)
	}
}

// takePushed applies an entry of the inbox that changes settings.
func (c *core) takePushed(seq uint64, s *petrelv1.InboxSettings) {
	for name, value := range s.Values {
		c.takeSetting(&petrelv1.Personal{Seq: seq, Conv: s.Conv, User: s.User, Name: name, Value: value})
		if c.live.pushed == nil {
			c.live.pushed = map[string]bool{}
		}
		c.live.pushed[settingKey(subject{s.Conv, s.User}, name)] = true
	}
}

// takeSetting applies a value, unless the client has a newer one. A removed value stays in memory, so that an
// older one that comes late is ignored.
func (c *core) takeSetting(s *petrelv1.Personal) {
	of := subject{s.Conv, s.User}
	if c.settings[of][s.Name].seq > s.Seq {
		return
	}
	if c.settings[of] == nil {
		c.settings[of] = map[string]setting{}
	}
	c.settings[of][s.Name] = setting{s.Value, s.Seq}
	if s.Value == "" {
		c.put(settingKey(of, s.Name), nil)
	} else if b, err := s.MarshalVT(); err == nil { // it came over the wire: it can be encoded
		c.put(settingKey(of, s.Name), b)
	}
	c.settingChanged(of)
}

func (c *core) dropSetting(of subject, name string) {
	delete(c.settings[of], name)
	if len(c.settings[of]) == 0 {
		delete(c.settings, of)
	}
	c.put(settingKey(of, name), nil)
	c.settingChanged(of)
}

func (c *core) settingChanged(of subject) {
	c.changed.Account = true
	id := of.conv
	if of.user != "" {
		id, c.contacts.listed = c.direct[of.user], false
	}
	if c.convs[id] != nil {
		c.changed.touch(id)
	}
}

// loadSetting reads a setting of the store.
func (c *core) loadSetting(b []byte) error {
	s := new(petrelv1.Personal)
	if err := s.UnmarshalVT(b); err != nil {
		return err
	}
	c.takeSetting(s)
	return nil
}

// personal returns the user's settings of v.
func (c *core) personal(v *conv) Personal {
	names := c.settings[subject{conv: v.id}]
	number := func(name string) uint64 {
		n, err := strconv.ParseUint(names[name].value, 10, 63)
		if err != nil {
			return 0 // the server lets no other value through
		}
		return n
	}
	p := Personal{
		Notify: names[settingNotify].value, Pinned: number(settingPinned), Archived: names[settingArchived].value != "",
		Unread: names[settingUnread].value != "", ClearedTo: number(settingClearedTo),
		Hidden:        names[settingHidden].value,
		Blocked:       v.peer != "" && c.settings.value(subject{user: v.peer}, settingBlocked) != "",
		FirstMessages: c.firstMessages(v.peer),
	}
	if ms := number(settingMutedUntil); ms > 0 {
		p.MutedUntil = time.UnixMilli(int64(ms))
	}
	return p
}

// firstMessages returns what becomes of the messages of a stranger: "waiting", "refused", or "".
func (c *core) firstMessages(peer string) string {
	value := ""
	if peer != "" {
		value = c.settings.value(subject{user: peer}, settingFirst)
	}
	switch {
	case value == "":
		return ""
	case strings.HasSuffix(value, " "+wordRefused):
		return "refused"
	}
	return "waiting"
}

// blocked returns the users that the user blocks, sorted.
func (c *core) blocked() []string {
	var out []string
	for of, names := range c.settings {
		if of.user != "" && names[settingBlocked].value != "" {
			out = append(out, of.user)
		}
	}
	slices.Sort(out)
	return out
}
