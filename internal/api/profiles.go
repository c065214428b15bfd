package api

import (
	"context"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// GetUser describes another user of the caller's tenant. Spec: P-14.4.
func (s *Server) GetUser(ctx context.Context, r *petrelv1.GetUserRequest) (*petrelv1.Account, error) {
	if (r.User == "") == (r.Handle == "") {
		return nil, im.Errorf(im.CodeInvalid, "set user or handle")
	}
	a := identity(ctx).Account
	name := im.User(r.User)
	if r.Handle != "" {
		name = handleName(r.Handle)
	}
	if err := s.takeLookUp(ctx, a, name); err != nil {
		return nil, err
	}
	i, p, err := s.users.Find(ctx, a, im.User(r.User), r.Handle)
	if err != nil {
		return nil, err
	}
	return account(i, p), nil
}

// handleName is the name by which a look-up of a handle is counted. It is no user id.
func handleName(handle string) im.User { return im.User("@" + handle) }

// takeLookUp counts one look-up. Codes: rate_limited, and those of the router.
func (s *Server) takeLookUp(ctx context.Context, a im.Account, name im.User) error {
	later, wait, err := s.route.TakeLookUps(ctx, a, []im.User{name})
	if err == nil && len(later) > 0 {
		err = &im.Error{Code: im.CodeRateLimited, RetryAfter: wait}
	}
	return err
}

// GetUsers tells the profiles whose versions differ from those that the caller has. Spec: P-14.2, P-14.4.
func (s *Server) GetUsers(ctx context.Context, r *petrelv1.GetUsersRequest) (*petrelv1.GetUsersResponse, error) {
	a := identity(ctx).Account
	users, has, err := namedUsers(r.Users)
	if err != nil {
		return nil, err
	}
	var in im.Key
	if r.Conv != "" {
		id, err := im.ParseConvID(r.Conv)
		if err != nil {
			return nil, err
		}
		in = im.Key{Tenant: a.Tenant, Conv: id}
	}
	known, err := s.users.Acquaintances(ctx, a, in, users)
	if err != nil {
		return nil, err
	}
	var strangers []im.User
	for i, u := range users {
		if !known[i] {
			strangers = append(strangers, u)
		}
	}
	res := &petrelv1.GetUsersResponse{}
	if len(strangers) > 0 {
		later, wait, err := s.route.TakeLookUps(ctx, a, strangers)
		switch {
		case err != nil:
			return nil, err
		case len(later) == len(users):
			return nil, &im.Error{Code: im.CodeRateLimited, RetryAfter: wait}
		}
		for _, i := range later {
			res.Later = append(res.Later, string(strangers[i]))
		}
		res.RetryAfterMs = uint32(wait / time.Millisecond)
		users = without(users, res.Later)
	}
	differ, unknown, err := s.users.Profiles(ctx, a, has, users)
	for _, p := range differ {
		res.Users = append(res.Users, profile(p))
	}
	for _, u := range unknown {
		res.Unknown = append(res.Unknown, string(u))
	}
	return res, err
}

// namedUsers returns the users of a request, and the versions that its caller has. Codes: invalid.
func namedUsers(list []*petrelv1.UserVersion) (users []im.User, has map[im.User]string, err error) {
	if n := len(list); n == 0 || n > user.MaxProfiles {
		return nil, nil, im.Errorf(im.CodeInvalid, "users has 1 to %d entries", user.MaxProfiles)
	}
	has = make(map[im.User]string, len(list))
	for _, x := range list {
		u := im.User(x.User)
		if err := u.Check(); err != nil {
			return nil, nil, err
		}
		if _, twice := has[u]; twice {
			return nil, nil, im.Errorf(im.CodeInvalid, "users has %.64s twice", u)
		}
		has[u] = x.Version
		users = append(users, u)
	}
	return users, has, nil
}

// without returns users without those that are left out, which are in the same order.
func without(users []im.User, left []string) (rest []im.User) {
	for _, u := range users {
		if len(left) > 0 && left[0] == string(u) {
			left = left[1:]
			continue
		}
		rest = append(rest, u)
	}
	return rest
}

// SetFirstMessageRule sets what becomes of first messages in a tenant. Spec: P-14.11.
func (s *Server) SetFirstMessageRule(ctx context.Context,
	r *petrelv1.SetFirstMessageRuleRequest) (*petrelv1.TenantInfo, error) {
	return tenantInfo(s.users.SetFirstMessageRule(ctx, r.Tenant, user.FirstMessages(r.FirstMessages)))
}

// SetProfileRules sets which fields of profiles only the back end changes. Spec: P-14.6.
func (s *Server) SetProfileRules(ctx context.Context,
	r *petrelv1.SetProfileRulesRequest) (*petrelv1.TenantInfo, error) {
	return tenantInfo(s.users.SetProfileRules(ctx, r.Tenant, r.Managed))
}

// SetProfiles changes profiles for the back end. Spec: P-14.6.
func (s *Server) SetProfiles(ctx context.Context, t im.Tenant,
	r *petrelv1.SetProfilesRequest) (*petrelv1.SetProfilesResponse, error) {
	var users []im.User
	var changes []*user.ProfileChange
	for _, p := range r.Profiles {
		users = append(users, im.User(p.User))
		changes = append(changes, &user.ProfileChange{DisplayName: p.DisplayName, About: p.About, Handle: p.Handle,
			Fields: p.Fields, Visibility: visibility(p.Visibility)})
	}
	changed, err := s.users.SetProfiles(ctx, t, users, changes)
	if err != nil {
		return nil, err
	}
	for _, u := range changed {
		s.o.UserChanged(im.Account{Tenant: t, User: u})
	}
	return &petrelv1.SetProfilesResponse{Changed: uint32(len(changed))}, nil
}

// account returns what a reader sees of a user.
func account(i user.Info, p user.Profile) *petrelv1.Account {
	res := profile(p)
	if !p.Deleted {
		res.CreatedMs = uint64(i.Created.UnixMilli())
	}
	return res
}

func profile(p user.Profile) *petrelv1.Account {
	res := &petrelv1.Account{User: string(p.User), DisplayName: p.Shown, About: p.About, Handle: p.Handle,
		Fields: p.Fields, Version: p.Version, Deleted: p.Deleted}
	for field, v := range p.Visibility {
		if res.Visibility == nil {
			res.Visibility = map[string]petrelv1.Visibility{}
		}
		res.Visibility[field] = petrelv1.Visibility(v)
	}
	return res
}

func visibility(of map[string]petrelv1.Visibility) map[string]user.Visibility {
	all := make(map[string]user.Visibility, len(of))
	for field, v := range of {
		all[field] = user.Visibility(v)
	}
	return all
}
