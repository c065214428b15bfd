package inbox

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// subject says what a setting is about: a conversation, another user, or, if both are empty, the account.
type subject struct{ conv, user string }

// nameOf identifies a setting: there is at most one with this name and subject.
type nameOf struct {
	subject
	name string
}

// setting is the newest value of a name. A removed one stays, without a value, until the inbox is
// compacted, so that devices with an older value learn of the removal.
type setting struct {
	nameOf
	value string
	seq   im.Seq // of the entry of the inbox
}

func (s *setting) bytes() int {
	return SettingBytes + len(s.conv) + len(s.user) + len(s.name) + len(s.value)
}

// answerBytes returns about how many bytes s takes in an answer in JSON.
func (s *setting) answerBytes() int { return s.bytes() + wire.Escapes(s.name) + wire.Escapes(s.value) }

// setOne notes the value of one name in an entry. It copies it, so that the entry's row is not kept
// in memory.
func (f *folding) setOne(of subject, name, value string, q im.Seq) {
	key := nameOf{subject{strings.Clone(of.conv), strings.Clone(of.user)}, strings.Clone(name)}
	if old, ok := f.named[key]; ok && old.seq > q {
		return
	}
	if f.named == nil {
		f.named = map[nameOf]setting{}
	}
	f.named[key] = setting{key, strings.Clone(value), q}
}

// mergeSettings adds news to the settings of l. Each of news comes from an entry that l has not
// read, or from a snapshot. The cost depends on the new and recent settings: of the stored ones it
// reads only the sizes of the subjects of news. Errors: errGone.
func (y *Syncer) mergeSettings(ctx context.Context, a im.Account, l *list, news map[nameOf]setting) error {
	known := map[subject]sizes{}
	for key := range news {
		if known[key.subject] == nil {
			k, err := y.storedSizes(ctx, a, l, key.subject)
			if err != nil {
				return err
			}
			known[key.subject] = k
		}
	}
	all := make([]setting, 0, len(l.recent)+len(news))
	for _, s := range l.recent {
		if k := known[s.subject]; k != nil {
			k.note(&s)
		}
		switch n, ok := news[s.nameOf]; {
		case ok && n.seq >= s.seq:
			l.held -= s.bytes()
			if s.value == "" {
				l.set -= s.bytes()
			}
			continue
		case ok:
			delete(news, s.nameOf)
		}
		all = append(all, s)
	}
	from := len(all)
	for _, s := range news {
		all = append(all, s)
		l.held += s.bytes()
		l.set += s.bytes()
		l.sums.change(known[s.subject], &s, &l.set)
	}
	slices.SortFunc(all[from:], bySeq)
	if from > 0 && from < len(all) && all[from].seq < all[from-1].seq {
		slices.SortFunc(all, bySeq)
	}
	l.recent, l.newest = all, max(l.newest, all[len(all)-1].seq)
	return nil
}

// bySeq orders settings by seq. The settings of one entry are in a fixed order, too: a page may end between
// two of them, and the next one begins there.
func bySeq(a, b setting) int {
	return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.conv, b.conv), cmp.Compare(a.user, b.user),
		cmp.Compare(a.name, b.name))
}

// pagePersonal is about the most bytes of settings in a page of a sync.
const pagePersonal = 64 << 10

// personal adds new settings to the page: ascending by seq, whole entries of the inbox at a time,
// so that a seq in the token marks the progress of the client. It reports whether none are left.
// Spec: P-6.2, P-8.10.
func (p *pager) personal(ctx context.Context) (all bool, err error) {
	t, l := p.token, p.list
	switch {
	case t.Told > 0 && t.Told >= t.Next.Personal: // on an earlier page, or nothing is new
		return true, nil
	case !t.Reset_ && (t.Told == 0 || t.Told+1 < uint64(l.first)):
		// The client has no settings yet, or the removals since its token are not known any more.
		t.Told, t.Reset_, p.page.PersonalReset = 0, true, true
	}
	if l.newest <= im.Seq(t.Told) {
		t.Told = t.Next.Personal
		return true, nil
	}
	bytes, all := 0, true
	err = p.y.eachSetting(ctx, p.account, l, im.Seq(t.Told), func(s *setting) bool {
		if all = bytes <= pagePersonal || uint64(s.seq) == t.Told; !all {
			return false
		}
		t.Told = uint64(s.seq)
		if s.value != "" || !t.Reset_ {
			bytes += s.answerBytes()
			p.page.Personal = append(p.page.Personal, s.personal())
		}
		return true
	})
	if all && err == nil {
		t.Told = max(t.Told, t.Next.Personal)
	}
	return all && err == nil, err
}

func (s *setting) personal() *petrelv1.Personal {
	return &petrelv1.Personal{Seq: uint64(s.seq), Conv: s.conv, User: s.user, Name: s.name, Value: s.value}
}

// Settings returns a page of a user's settings: the oldest ones that entries of the inbox above after have set,
// grouped and ordered by subject. From the second page on it has removed settings, too, as empty values. next is
// the after of the next page; 0: there is none.
func (y *Syncer) Settings(ctx context.Context, a im.Account,
	after im.Seq) (page []*petrelv1.Settings, next im.Seq, err error) {
	err = y.withList(ctx, a, func(l *list) error {
		page, next, err = y.settingsAfter(ctx, a, l, after)
		return err
	})
	return page, next, err
}

func (y *Syncer) settingsAfter(ctx context.Context, a im.Account, l *list,
	after im.Seq) (page []*petrelv1.Settings, next im.Seq, err error) {
	of := map[subject]*petrelv1.Settings{}
	told, bytes := after, 0
	err = y.eachSetting(ctx, a, l, after, func(s *setting) bool {
		if bytes > pagePersonal && s.seq > told {
			next = told
			return false
		}
		told = s.seq
		if s.value == "" && after == 0 {
			return true
		}
		bytes += s.answerBytes()
		if of[s.subject] == nil {
			of[s.subject] = &petrelv1.Settings{Conv: s.conv, User: s.user, Values: map[string]string{}}
		}
		of[s.subject].Values[s.name] = s.value
		return true
	})
	return slices.SortedFunc(maps.Values(of), func(a, b *petrelv1.Settings) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Conv, b.Conv))
	}), next, err
}

// firstAfter returns the index of the first setting after q; they are ascending by seq.
func firstAfter(settings []setting, q im.Seq) int {
	i, _ := slices.BinarySearchFunc(settings, q+1, func(s setting, q im.Seq) int { return cmp.Compare(s.seq, q) })
	return i
}

// eachSetting calls f with the settings of l above after, ascending by seq, until f returns false. It reads
// only those records of the store that it needs for these calls. Errors: errGone.
func (y *Syncer) eachSetting(ctx context.Context, a im.Account, l *list, after im.Seq, f func(*setting) bool) error {
	var newer map[nameOf]struct{}
	for i := l.base.from(after); i < len(l.base.parts); i++ {
		all, err := y.settingsPart(ctx, a, l, i)
		if err != nil {
			return err
		}
		if newer == nil {
			newer = make(map[nameOf]struct{}, len(l.recent))
			for _, s := range l.recent {
				newer[s.nameOf] = struct{}{}
			}
		}
		for j := firstAfter(all, after); j < len(all); j++ {
			if _, changed := newer[all[j].nameOf]; !changed && !f(&all[j]) {
				return nil
			}
		}
	}
	for i := firstAfter(l.recent, after); i < len(l.recent); i++ {
		if !f(&l.recent[i]) {
			return nil
		}
	}
	return nil
}

// allSettings returns the settings of l. Errors: errGone.
func (y *Syncer) allSettings(ctx context.Context, a im.Account, l *list) (all []setting, err error) {
	err = y.eachSetting(ctx, a, l, 0, func(s *setting) bool {
		all = append(all, *s)
		return true
	})
	return all, err
}
