package api

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// changing has the changes of settings under way on this node, by user. The zero value is ready.
type changing struct {
	mu sync.Mutex // tier 0; guards the field below
	of map[im.Account][]*petrelv1.ChangeSettingsRequest
}

// enter adds a change, and returns the others of the user that are under way.
func (c *changing) enter(a im.Account, m *petrelv1.ChangeSettingsRequest) (others []*petrelv1.ChangeSettingsRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[im.Account][]*petrelv1.ChangeSettingsRequest{}
	}
	others = slices.Clone(c.of[a])
	c.of[a] = append(c.of[a], m)
	return others
}

func (c *changing) leave(a im.Account, m *petrelv1.ChangeSettingsRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.of[a], m); i >= 0 {
		c.of[a] = slices.Delete(c.of[a], i, i+1)
	}
	if len(c.of[a]) == 0 {
		delete(c.of, a)
	}
}

// takeRoom refuses a change with which a user would have more settings than the bounds allow. Until leave is
// called, the user's other changes count this one as stored, so concurrent changes do not exceed the bounds
// together. Codes: invalid, overloaded (other changes under way decide). Spec: P-8.10.
func (s *Server) takeRoom(ctx context.Context, a im.Account,
	m *petrelv1.ChangeSettingsRequest) (leave func(), err error) {
	others := s.changing.enter(a, m)
	leave = func() { s.changing.leave(a, m) }
	room, err := read(ctx, s, func() (*inbox.Room, error) { return s.o.Inbox.SettingsRoom(ctx, a, m.Conv, m.User) })
	if err == nil {
		err = checkRoom(m, room, nil)
	}
	if err == nil && checkRoom(m, room, others) != nil {
		err = &im.Error{Code: im.CodeOverloaded, RetryAfter: 100 * time.Millisecond}
	}
	if err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// checkRoom checks a change against the bounds, with the present settings and the most that other changes may
// add. A change that only removes or shortens values is always allowed. Codes: invalid.
func checkRoom(m *petrelv1.ChangeSettingsRequest, room *inbox.Room, others []*petrelv1.ChangeSettingsRequest) error {
	names, bytes, users, grows, adds := room.Names(), room.Bytes, room.Users, false, false
	for name, v := range m.Values {
		size, set := room.Size(name)
		grows = grows || len(v) > size
		switch bytes += len(v) - size; {
		case set && v == "":
			names--
			bytes -= settingBytes(m, name)
		case !set && v != "":
			names++
			adds = true
			bytes += settingBytes(m, name)
		}
	}
	if m.User != "" && room.Names() == 0 && names > 0 {
		users++
	}
	for _, other := range others {
		if other.User != "" && other.User != m.User {
			users++
		}
		for name, v := range other.Values {
			bytes += settingBytes(other, name) + len(v)
			if other.Conv == m.Conv && other.User == m.User {
				names++
			}
		}
	}
	switch {
	case adds && names > maxSettings:
		return im.Errorf(im.CodeInvalid,
			"there are at most %d settings of the account, of each conversation and of each user", maxSettings)
	case m.User != "" && room.Names() == 0 && adds && users > maxSettingUsers:
		return im.Errorf(im.CodeInvalid, "there are settings of at most %d other users", maxSettingUsers)
	case grows && bytes > maxAllSettings:
		return im.Errorf(im.CodeInvalid, "all settings of a user take at most %d bytes, with 100 for each",
			maxAllSettings)
	}
	return nil
}

// settingBytes returns how many bytes the bound counts for a setting besides its value.
func settingBytes(m *petrelv1.ChangeSettingsRequest, name string) int {
	return inbox.SettingBytes + len(m.Conv) + len(m.User) + len(name)
}

// changeBytes returns the stored size of a change.
func changeBytes(m *petrelv1.ChangeSettingsRequest) (n int) {
	for name, value := range m.Values {
		n += len(name) + len(value)
	}
	return n
}
