package presence

import (
	"context"
	"errors"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/user"
)

// A watcher who may ask for the profile of a target without a look-up is told the version that they see. Whether
// the target has the watcher as a contact is read only if contacts see more than others. Spec: P-14.5.

// standing says which version of a target's profile a watcher sees.
type standing uint8

const (
	unread standing = iota // contacts saw what others see when the watch was read last
	other
	contact // the target has the watcher as a contact
	oneself
)

// versions are those of a profile, by the standing of a watcher. While contacts see more than others, that of unread
// is the version from before: it is told until the standing is read.
type versions [4]string

// versionsAfter returns the versions of a profile that had the versions was before.
func versionsAfter(was versions, p user.ProfileVersions) versions {
	v := versions{other: p.ForOthers, contact: p.ForContacts, oneself: p.Own}
	if v[unread] = v[other]; v.differ() {
		v[unread] = was[unread]
	}
	return v
}

// differ tells whether contacts see more than others.
func (v *versions) differ() bool { return v[contact] != v[other] }

// profile returns the version that the watcher of x is told; empty: none.
func (x *watching) profile() string {
	if !x.told {
		return ""
	}
	return x.t.versions[x.standing]
}

// readKnown reads of which targets the watcher is told the profiles, and which of them have the watcher as a contact.
func (p *Presence) readKnown(ctx context.Context, j *job) error {
	if !j.w.out.Profiles {
		return nil
	}
	users := make([]im.User, len(j.reads))
	for i := range j.reads {
		users[i] = j.reads[i].t.account.User
	}
	known, err := p.o.Knows(ctx, j.watcher, j.in, users)
	if errors.Is(err, store.ErrCorrupt) { // nobody is known then
		return nil
	}
	var asks []*reading
	users = nil
	for i := range known {
		r := &j.reads[i]
		r.told = known[i]
		switch {
		case r.t.account == j.watcher:
			r.standing = oneself
		case r.told && r.differ:
			asks, users = append(asks, r), append(users, r.t.account.User)
		}
	}
	if err != nil || len(asks) == 0 {
		return err
	}
	have, err := p.o.HaveAsContact(ctx, j.watcher, users)
	for i := range have {
		if asks[i].standing = other; have[i] {
			asks[i].standing = contact
		}
	}
	return err
}

// setProfile takes over the profile of t, and queues the presence of t for those of its watchers who are told of
// profiles, and who had another version before. Others must not learn that a field has changed that they do not see.
func (s *step) setProfile(t *target, p user.ProfileVersions) {
	was := t.versions
	t.versions = versionsAfter(was, p)
	if !t.known || t.versions == was {
		return
	}
	for _, x := range t.watchers {
		switch {
		case !x.told || x.view == untold:
		case x.standing == unread && t.versions.differ():
			s.p.askFor(question{x.w, x})
		case t.versions[x.standing] != was[x.standing]:
			s.tell(x)
		}
	}
}
