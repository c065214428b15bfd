package user

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// A profile is what others see of a user. Its version is a hash of what one reader sees of it. So two readers who
// see different fields have different versions, a change that a reader does not see leaves their version as it
// is, and a store that was put back has the version of what it holds. Spec: P-14.

// Bounds of a profile. Spec: P-14.1.
const (
	maxAbout        = 140 // characters
	maxFields       = 16
	maxFieldName    = 32  // bytes
	maxFieldValue   = 512 // bytes
	maxManaged      = 64
	maxVisibility   = 64 // fields with a visibility
	maxProfileBatch = 1000
)

// Visibility says who sees a field of a profile. The numbers are those of petrel.v1.Visibility, and stored.
type Visibility uint32

// These values of Visibility say who sees a field of a profile. The user always does.
const (
	SeenByEverybody Visibility = 1 // also 0
	SeenByContacts  Visibility = 2
	SeenByNobody    Visibility = 3
)

// Profile is what a reader sees of a user.
type Profile struct {
	User       im.User
	Shown      string // the display name
	About      string
	Handle     string
	Fields     map[string]string
	Version    string                // compared for equality only
	Deleted    bool                  // the user has deleted the account; there is nothing else to see
	Visibility map[string]Visibility // of the user's own profile: those that were set
}

// ProfileChange is a change of a profile. nil: the value stays.
type ProfileChange struct {
	DisplayName, About, Handle *string
	Fields                     map[string]string // an empty value removes the field
	Visibility                 map[string]Visibility
}

// manageable are the values of Managed of a tenant, beside single fields of the application: "fields" is all of
// these. avatar has no value to change yet. contacts and account are no fields of a profile: see MayChangeContacts and
// Leave.
var manageable = []string{managedAccount, "about", "avatar", "display_name", "fields", "handle", managedContacts}

// SetProfileRules sets which fields of profiles only the back end changes in a tenant, and makes the tenant if there
// is none. Codes: invalid. Spec: P-14.6.
func (us *Users) SetProfileRules(ctx context.Context, tenant string, managed []string) (TenantInfo, error) {
	for _, field := range managed {
		name, custom := strings.CutPrefix(field, fieldPrefix)
		if custom {
			if err := checkFieldName(name); err != nil {
				return TenantInfo{}, err
			}
		} else if !slices.Contains(manageable, field) {
			return TenantInfo{}, im.Errorf(im.CodeInvalid, "managed has fields of %s, and fields.NAME, not %.64q",
				strings.Join(manageable, ", "), field)
		}
	}
	if len(managed) > maxManaged {
		return TenantInfo{}, im.Errorf(im.CodeInvalid, "managed has at most %d fields", maxManaged)
	}
	return us.changeTenant(ctx, tenant, func(rec *storepb.Tenant) {
		rec.Managed = slices.Compact(slices.Sorted(slices.Values(managed)))
	})
}

// mayChange refuses a change by a user of fields that only the back end changes. Codes: forbidden. Spec: P-14.6.
func (us *Users) mayChange(ctx context.Context, t im.Tenant, ch *ProfileChange) error {
	rec, err := us.tenantRecord(ctx, t)
	if err != nil {
		return err
	}
	refuse := func(field string) error {
		custom := strings.HasPrefix(field, fieldPrefix) && slices.Contains(rec.Managed, "fields")
		if custom || slices.Contains(rec.Managed, field) {
			return im.Errorf(im.CodeForbidden, "only the application changes %.64q", field)
		}
		return nil
	}
	for field, v := range map[string]*string{"about": ch.About, "display_name": ch.DisplayName, "handle": ch.Handle} {
		if err := refuse(field); v != nil && err != nil {
			return err
		}
	}
	for name := range ch.Fields {
		if err := refuse(fieldPrefix + name); err != nil {
			return err
		}
	}
	for field := range ch.Visibility {
		if err := refuse(field); err != nil {
			return err
		}
	}
	return nil
}

// tenantRecord reads the record of a tenant.
func (us *Users) tenantRecord(ctx context.Context, t im.Tenant) (*storepb.Tenant, error) {
	name, err := us.TenantName(ctx, t)
	if err != nil {
		return nil, err
	}
	value, err := us.store.Record(ctx, store.Tenants, 0, []byte(name))
	if err != nil {
		return nil, err
	}
	return parseTenant(value)
}

// fieldPrefix stands before the name of a field of the application, where the other fields have names too.
const fieldPrefix = "fields."

// check refuses a change with values that no profile may have. Codes: invalid.
func (ch *ProfileChange) check() error {
	if ch.DisplayName != nil {
		if err := checkDisplayName(*ch.DisplayName); err != nil {
			return err
		}
	}
	if ch.About != nil {
		if err := im.CheckLine("about", *ch.About, maxAbout); err != nil {
			return err
		}
	}
	if ch.Handle != nil && *ch.Handle != "" {
		if err := checkHandle(*ch.Handle); err != nil {
			return err
		}
	}
	for name, value := range ch.Fields {
		if err := checkFieldName(name); err != nil {
			return err
		}
		if strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
			return im.Errorf(im.CodeInvalid, "the value of a field has no control characters but line feeds and tabs")
		}
		if len(value) > maxFieldValue || !utf8.ValidString(value) {
			return im.Errorf(im.CodeInvalid, "the value of a field has at most %d bytes of UTF-8", maxFieldValue)
		}
	}
	for field, v := range ch.Visibility {
		name, custom := strings.CutPrefix(field, fieldPrefix)
		if custom {
			if err := checkFieldName(name); err != nil {
				return err
			}
		} else if !slices.Contains(hideable, field) {
			return im.Errorf(im.CodeInvalid, "visibility is that of %s, or of fields.NAME, not of %.64q",
				strings.Join(hideable, ", "), field)
		}
		if v > SeenByNobody {
			return im.Errorf(im.CodeInvalid, "the visibility of %.64s is everybody, contacts or nobody", field)
		}
	}
	return nil
}

// checkFieldName refuses a text that is no name of a field of the application. Codes: invalid.
func checkFieldName(name string) error {
	if name == "" {
		return im.Errorf(im.CodeInvalid, "the name of a field is empty")
	}
	return im.CheckShown("the name of a field", name, maxFieldName)
}

// hideable are the fields that a user may hide, beside those of the application.
var hideable = []string{"about", "avatar", "handle"}

// apply changes the profile in a user's record. Codes: invalid, if the profile has too many fields then.
func (ch *ProfileChange) apply(u *storepb.User) error {
	if ch.DisplayName != nil {
		u.DisplayName = *ch.DisplayName
	}
	if ch.About != nil {
		u.About = *ch.About
	}
	if ch.Handle != nil {
		u.Handle = *ch.Handle
	}
	if len(ch.Fields) > 0 {
		fields := fieldsOf(u)
		for name, value := range ch.Fields {
			if value == "" {
				delete(fields, name)
			} else {
				fields[name] = value
			}
		}
		if len(fields) > maxFields {
			return im.Errorf(im.CodeInvalid, "a profile has at most %d fields", maxFields)
		}
		u.Fields = nil
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			u.Fields = append(u.Fields, &storepb.ProfileField{Name: name, Value: fields[name]})
		}
	}
	seen := visibilityOf(u)
	maps.Copy(seen, ch.Visibility)
	u.Visibility = nil
	for _, field := range slices.Sorted(maps.Keys(seen)) {
		if v := seen[field]; v > SeenByEverybody { // also of a field that is not there yet
			u.Visibility = append(u.Visibility, &storepb.FieldVisibility{Field: field, Visible: uint32(v)})
		}
	}
	if len(u.Visibility) > maxVisibility {
		return im.Errorf(im.CodeInvalid, "a profile has at most %d fields with a visibility", maxVisibility)
	}
	return nil
}

func fieldsOf(u *storepb.User) map[string]string {
	all := make(map[string]string, len(u.GetFields()))
	for _, f := range u.GetFields() {
		all[f.Name] = f.Value
	}
	return all
}

func visibilityOf(u *storepb.User) map[string]Visibility {
	all := make(map[string]Visibility, len(u.GetVisibility()))
	for _, v := range u.GetVisibility() {
		all[v.Field] = Visibility(v.Visible)
	}
	return all
}

// sight is how much of a profile a reader sees.
type sight uint8

const (
	asStranger sight = iota
	asContact
	asOneself
)

// sees tells whether a reader sees a field.
func (s sight) sees(u *storepb.User, field string) bool {
	i, found := slices.BinarySearchFunc(u.GetVisibility(), field,
		func(v *storepb.FieldVisibility, f string) int { return cmp.Compare(v.Field, f) })
	if !found || s == asOneself {
		return true
	}
	return s == asContact && Visibility(u.Visibility[i].Visible) == SeenByContacts
}

// showsToContacts tells whether some fields of a profile are for contacts alone.
func showsToContacts(u *storepb.User) bool {
	return slices.ContainsFunc(u.GetVisibility(), func(v *storepb.FieldVisibility) bool {
		return Visibility(v.Visible) == SeenByContacts
	})
}

// profile returns what a reader sees of a user.
func (us *Users) profile(a im.Account, u *storepb.User, s sight) Profile {
	p := seenProfile(a, u, s)
	p.Version = us.profileVersion(a, u, s)
	return p
}

// seenProfile returns what a reader sees of a user, without the version.
func seenProfile(a im.Account, u *storepb.User, s sight) Profile {
	if u.GetLeavingMs() > 0 && s != asOneself {
		return Profile{User: a.User, Deleted: true}
	}
	p := Profile{User: a.User, Shown: u.GetDisplayName()}
	if s.sees(u, "about") {
		p.About = u.GetAbout()
	}
	if s.sees(u, "handle") {
		p.Handle = u.GetHandle()
	}
	for _, f := range u.GetFields() {
		if s.sees(u, fieldPrefix+f.Name) {
			if p.Fields == nil {
				p.Fields = map[string]string{}
			}
			p.Fields[f.Name] = f.Value
		}
	}
	if s == asOneself {
		p.Visibility = visibilityOf(u)
	}
	return p
}

// profileVersion returns the version of what a reader sees of a user: 11 characters. Spec: P-14.2.
func (us *Users) profileVersion(a im.Account, u *storepb.User, s sight) string {
	if u.GetLeavingMs() > 0 && s != asOneself { // nothing is left to see but that
		u = &storepb.User{LeavingMs: 1}
	}
	seen := storepb.User{DisplayName: u.GetDisplayName(), LeavingMs: u.GetLeavingMs()}
	if s.sees(u, "about") {
		seen.About = u.GetAbout()
	}
	if s.sees(u, "handle") {
		seen.Handle = u.GetHandle()
	}
	for _, f := range u.GetFields() {
		if s.sees(u, fieldPrefix+f.Name) {
			seen.Fields = append(seen.Fields, f)
		}
	}
	if s == asOneself {
		seen.Visibility = u.GetVisibility()
	}
	content, err := seen.MarshalVT()
	im.Assert(err == nil, "encode a profile: %v", err)
	sum := us.mac("profile", binary.BigEndian.AppendUint32(nil, uint32(a.Tenant)), []byte(a.User), content)
	return base64.RawURLEncoding.EncodeToString(sum[:8])
}

// Own describes a user as this user sees it. Codes: no_user.
func (us *Users) Own(ctx context.Context, a im.Account) (Info, Profile, error) {
	u, err := us.must(ctx, a)
	if err != nil {
		return Info{}, Profile{}, err
	}
	return describe(a.User, u), us.profile(a, u, asOneself), nil
}

// UpdateAccount changes the profile of a user on their own behalf. Codes: invalid, handle_taken, no_user, forbidden
// (only the back end changes that field). Spec: P-14.1, P-14.6.
func (us *Users) UpdateAccount(ctx context.Context, a im.Account, ch *ProfileChange) (Info, Profile, error) {
	err := ch.check()
	byOperator := readsAsOneOf(string(a.User), reserved) // only the operator makes users of such ids
	if err == nil && ch.DisplayName != nil && !byOperator {
		err = checkShown(*ch.DisplayName)
	}
	if err == nil && ch.Handle != nil && readsAsOneOf(*ch.Handle, reserved) {
		err = im.Errorf(im.CodeInvalid, "the handle %.64s is reserved", *ch.Handle)
	}
	if err == nil {
		err = us.mayChange(ctx, a.Tenant, ch)
	}
	if err != nil {
		return Info{}, Profile{}, err
	}
	var p Profile
	i, err := us.changeUser(ctx, a, func(c *change, u *storepb.User) error {
		if err := c.changeProfile(ctx, a, u, ch); err != nil {
			return err
		}
		p = us.profile(a, u, asOneself)
		return nil
	})
	return i, p, err
}

// changeProfile changes the profile in a user's record, which the caller puts. Codes: invalid, handle_taken.
func (c *change) changeProfile(ctx context.Context, a im.Account, u *storepb.User, ch *ProfileChange) error {
	if ch.Handle != nil && *ch.Handle != u.Handle {
		rec, err := c.us.tenantRecord(ctx, a.Tenant)
		if err == nil {
			err = c.moveHandle(ctx, a, u.Handle, *ch.Handle, rec.StrictIds)
		}
		if err != nil {
			return err
		}
	}
	return ch.apply(u)
}

// SetProfiles changes profiles for the back end, all or none of them, and returns the users whose profile has
// changed. Codes: invalid, no_user, handle_taken. Spec: P-14.6.
func (us *Users) SetProfiles(ctx context.Context, t im.Tenant, users []im.User,
	changes []*ProfileChange) (changed []im.User, err error) {
	if n := len(users); n == 0 || n > maxProfileBatch {
		return nil, im.Errorf(im.CodeInvalid, "profiles has 1 to %d entries", maxProfileBatch)
	}
	accounts := make([]im.Account, len(users))
	seen := make(map[im.User]bool, len(users))
	for i, u := range users {
		if seen[u] {
			return nil, im.Errorf(im.CodeInvalid, "profiles has user %.64s twice", u)
		}
		seen[u] = true
		if err := changes[i].check(); err != nil {
			return nil, im.Errorf(im.CodeInvalid, "the profile of %.64s: %v", u, err)
		}
		accounts[i] = im.Account{Tenant: t, User: u}
	}
	err = us.change(ctx, accounts, func(c *change) error {
		changed = changed[:0]
		there, err := c.users(ctx, accounts)
		if err != nil {
			return err
		}
		for i, a := range accounts {
			u := there[a.User]
			if u == nil {
				return noUser(a)
			}
			was := us.profileVersion(a, u, asOneself)
			if err := c.changeProfile(ctx, a, u, changes[i]); err != nil {
				return err
			}
			if us.profileVersion(a, u, asOneself) == was {
				continue
			}
			changed = append(changed, a.User)
			if err := c.putUser(a, u); err != nil {
				return err
			}
		}
		return nil
	})
	return changed, err
}
