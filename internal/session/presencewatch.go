package session

import (
	"slices"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/presence"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// How often a session may set its watch. Spec: P-13.5.
const (
	watchesPerSecond = 1
	watchBurst       = 10
)

// watch sets the users that the session watches, and answers at once. Spec: P-13.5.
func (s *Session) watch(id uint64, f *petrelv1.SetWatch, k *fanout.WakeUps) {
	users, in, err := s.checkWatch(f)
	if err == nil {
		l := s.rareStateOrNew()
		if l.watch == nil {
			l.watch = presence.NewWatch(&s.Out)
		}
		if !s.hub.presence.Set(l.watch, users, in) {
			err = &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}
		}
	}
	if err != nil {
		s.noteRefusal("watch", err)
		s.refuse(id, err, k)
		return
	}
	s.Out.Answer(&petrelv1.ServerFrame{Id: id, Body: &petrelv1.ServerFrame_Watch{Watch: &petrelv1.Watching{}}}, k)
}

// checkWatch returns the users of a list, sorted and each once, and the conversation that it names (the zero key:
// none), or why the session may not watch them.
func (s *Session) checkWatch(f *petrelv1.SetWatch) (users []im.User, in im.Key, refusal *im.Error) {
	switch wait := s.rareStateOrNew().watches.Take(s.hub.o.Now(),
		rate.Per(watchesPerSecond, time.Second, watchBurst)); {
	case wait > 0:
		return nil, im.Key{}, &im.Error{Code: im.CodeRateLimited, RetryAfter: wait}
	case s.Out.Unconfirmed():
		return nil, im.Key{}, errUnconfirmed
	case len(f.Users) > presence.MaxWatched:
		return nil, im.Key{}, im.Errorf(im.CodeInvalid, "a session watches at most %d users", presence.MaxWatched)
	}
	if f.Conv != "" {
		id, err := im.ParseConvID(f.Conv)
		if err != nil {
			return nil, im.Key{}, &im.Error{Code: im.CodeNoConversation}
		}
		in = im.Key{Tenant: s.Out.Account.Tenant, Conv: id}
	}
	users = make([]im.User, 0, len(f.Users))
	for _, u := range f.Users {
		if im.User(u).Check() != nil {
			return nil, im.Key{}, im.Errorf(im.CodeInvalid, "%.64q is no user id", u)
		}
		users = append(users, im.User(strings.Clone(u))) // a watch outlives the frame
	}
	if s.hub.presence == nil {
		return nil, im.Key{}, im.Errorf(im.CodeUnsupported, "this server has no presence")
	}
	if !s.Out.Presences {
		return nil, im.Key{}, im.Errorf(im.CodeUnsupported, "the hello did not list %s", capPresence)
	}
	slices.Sort(users)
	return slices.Compact(users), in, nil
}
