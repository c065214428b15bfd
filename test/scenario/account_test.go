package scenario

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// accountCommand runs a call of the AuthService or the AccountService; false:
// it is none.
func (s *session) accountCommand(a args) bool {
	s.w.t.Helper()
	request := a.values["request"]
	switch a.word(0) {
	case "register", "login", "exchange", "refresh":
		s.logIn(a)
	case "logout":
		_, err := invoke[petrelv1.LogoutRequest, petrelv1.LogoutResponse](s, "AccountService/Logout", &petrelv1.LogoutRequest{RequestId: request})
		s.reply(err, "")
	case "account":
		r, err := invoke[petrelv1.GetAccountRequest, petrelv1.Account](s, "AccountService/GetAccount", &petrelv1.GetAccountRequest{})
		s.reply(err, "%s", accountText(r))
	case "name":
		r, err := invoke[petrelv1.UpdateAccountRequest, petrelv1.Account](s, "AccountService/UpdateAccount", &petrelv1.UpdateAccountRequest{DisplayName: new(a.body()), RequestId: request})
		s.reply(err, "%s", accountText(r))
	case "presence":
		policy := petrelv1.PresencePolicy(petrelv1.PresencePolicy_value["PRESENCE_POLICY_"+strings.ToUpper(a.word(1))])
		r, err := invoke[petrelv1.SetPresencePolicyRequest, petrelv1.Account](s, "AccountService/SetPresencePolicy", &petrelv1.SetPresencePolicyRequest{Policy: policy, RequestId: request})
		s.reply(err, "%s", accountText(r))
	case "first": // first closed
		r, err := invoke[petrelv1.SetFirstMessagesRequest, petrelv1.Account](s, "AccountService/SetFirstMessages", &petrelv1.SetFirstMessagesRequest{FirstMessages: firstMessages(a.word(1)), RequestId: request})
		s.reply(err, "%s", accountText(r))
	case "adds": // adds contacts
		policy := petrelv1.AddPolicy(petrelv1.AddPolicy_value["ADD_POLICY_"+strings.ToUpper(a.word(1))])
		r, err := invoke[petrelv1.SetAddPolicyRequest, petrelv1.Account](s, "AccountService/SetAddPolicy", &petrelv1.SetAddPolicyRequest{Policy: policy, RequestId: request})
		s.reply(err, "%s", accountText(r))
	case "private": // private on
		r, err := invoke[petrelv1.SetPrivateReadingRequest, petrelv1.Account](s, "AccountService/SetPrivateReading", &petrelv1.SetPrivateReadingRequest{Private: a.word(1) == "on", RequestId: request})
		s.reply(err, "%s", accountText(r))
	case "lookup":
		r, err := invoke[petrelv1.GetUserRequest, petrelv1.Account](s, "AccountService/GetUser", &petrelv1.GetUserRequest{User: a.word(1)})
		s.reply(err, "%s", accountText(r))
	case "password":
		if len(a.bodies) != 2 {
			s.w.fatalf("want: password \"old\" \"new\"")
		}
		r, err := invoke[petrelv1.ChangePasswordRequest, petrelv1.ChangePasswordResponse](s, "AccountService/ChangePassword",
			&petrelv1.ChangePasswordRequest{OldPassword: a.bodies[0], NewPassword: a.bodies[1], RequestId: request})
		s.reply(err, "sessions=%d", r.GetSessions())
	case "devices":
		r, err := invoke[petrelv1.ListDevicesRequest, petrelv1.ListDevicesResponse](s, "AccountService/ListDevices", &petrelv1.ListDevicesRequest{})
		s.reply(err, "%s", devicesText(r.GetDevices()))
	case "device": // device alice-phone "my phone"
		r, err := invoke[petrelv1.RenameDeviceRequest, petrelv1.Device](s, "AccountService/RenameDevice", &petrelv1.RenameDeviceRequest{Device: a.word(1), Name: a.body(), RequestId: request})
		s.reply(err, "%s %q", r.GetId(), r.GetName())
	case "revoke":
		r, err := invoke[petrelv1.RevokeDeviceRequest, petrelv1.RevokeDeviceResponse](s, "AccountService/RevokeDevice", &petrelv1.RevokeDeviceRequest{Device: a.word(1), RequestId: request})
		s.reply(err, "sessions=%d", r.GetSessions())
	case "settings":
		s.settings(a)
	default:
		return false
	}
	return true
}

// logIn gets tokens for the session's device, which its next hello and calls
// carry: "register "password"", "login "password"", "exchange "JWT"",
// "refresh", "refresh spent".
func (s *session) logIn(a args) {
	s.w.t.Helper()
	if k, ok := a.values["kind"]; ok {
		s.kind = k
	}
	request, tenant := a.values["request"], s.user.tenant.id
	var r *petrelv1.LoginResponse
	var err error
	switch a.word(0) {
	case "register":
		r, err = invoke[petrelv1.RegisterRequest, petrelv1.LoginResponse](s, "AuthService/Register",
			&petrelv1.RegisterRequest{Tenant: tenant, User: s.user.name, Password: a.body(), DisplayName: a.values["name"], Device: s.device(), RequestId: request})
	case "login":
		r, err = invoke[petrelv1.LoginRequest, petrelv1.LoginResponse](s, "AuthService/Login",
			&petrelv1.LoginRequest{Tenant: tenant, User: s.user.name, Password: a.body(), Device: s.device(), RequestId: request,
				Restore: a.values["restore"] == "yes"})
	case "exchange":
		token := a.body()
		if token == "" {
			token = s.jwt(a.values)
		}
		r, err = invoke[petrelv1.ExchangeRequest, petrelv1.LoginResponse](s, "AuthService/Exchange",
			&petrelv1.ExchangeRequest{Tenant: tenant, Token: token, Device: s.device(), RequestId: request})
	case "refresh":
		token := s.logged.GetRefreshToken()
		if a.word(1) == "spent" {
			token = s.spent
		}
		r, err = invoke[petrelv1.RefreshRequest, petrelv1.LoginResponse](s, "AuthService/Refresh", &petrelv1.RefreshRequest{RefreshToken: token, RequestId: request})
		if err == nil && token == s.logged.GetRefreshToken() {
			s.spent = token
		}
	}
	if err != nil {
		s.reply(err, "")
		return
	}
	if r.AccessToken == s.logged.GetAccessToken() && r.RefreshToken == s.logged.GetRefreshToken() {
		s.reply(nil, "the same tokens")
		return
	}
	s.logged = r
	s.reply(nil, "tokens of %s for %s", r.User, r.Device)
}

// jwtSecret is what the server and the identity provider of a scenario share.
const jwtSecret = "the guillemots share one ledge of rock"

// jwt is a JWT for the session's user as that provider makes it, with values of
// the line in the place of its own: "exchange aud=elsewhere". Its clock is two
// seconds ahead, within what servers bear: iat is in whole seconds, so a token
// made in the second of a revocation would count as made before it.
func (s *session) jwt(values map[string]string) string {
	s.w.t.Helper()
	now := time.Now().Add(2 * time.Second)
	claims := map[string]any{"iss": "scenario", "aud": "petrel", "sub": s.user.name, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	for name := range claims {
		if v, ok := values[name]; ok {
			claims[name] = v
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				claims[name] = n
			}
		}
	}
	if shown, ok := values["name"]; ok {
		claims["name"] = shown
	}
	b, err := json.Marshal(claims)
	if err != nil {
		s.w.fatalf("make a JWT: %v", err)
	}
	e := base64.RawURLEncoding
	text := e.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + e.EncodeToString(b)
	mac := hmac.New(sha256.New, []byte(jwtSecret))
	mac.Write([]byte(text)) // never fails
	return text + "." + e.EncodeToString(mac.Sum(nil))
}

// settings merges what the line says, or reads: "settings g1 mute=yes",
// "settings account lang=fr", "settings @bob blocked=1", "settings".
func (s *session) settings(a args) {
	s.w.t.Helper()
	if a.word(1) == "" {
		r, err := invoke[petrelv1.GetSettingsRequest, petrelv1.GetSettingsResponse](s, "AccountService/GetSettings", &petrelv1.GetSettingsRequest{})
		var list []string
		for _, x := range r.GetSettings() {
			list = append(list, s.settingsPlace(x.Conv, x.User)+valuesText(x.Values))
		}
		slices.Sort(list)
		s.reply(err, "%s", strings.Join(list, ", "))
		return
	}
	q := &petrelv1.ChangeSettingsRequest{RequestId: a.values["request"], Values: maps.Clone(a.values)}
	delete(q.Values, "request")
	if name, ok := strings.CutPrefix(a.word(1), "@"); ok {
		q.User = name
	} else if a.word(1) != "account" {
		q.Conv, _ = s.w.resolve(s.user, a.word(1))
	}
	_, err := invoke[petrelv1.ChangeSettingsRequest, petrelv1.ChangeResponse](s, "AccountService/ChangeSettings", q)
	s.reply(err, "")
}

// settingsPlace is what settings are of.
func (s *session) settingsPlace(conv, user string) string {
	switch {
	case user != "":
		return "@" + user
	case conv == "":
		return "account"
	}
	return s.w.nameOf(s.user, conv)
}

// personalLines are the settings of a page of a sync, in its order.
func (s *session) personalLines(p *petrelv1.SyncPage) []string {
	var lines []string
	if p.PersonalReset && len(p.Personal) > 0 {
		lines = append(lines, "settings anew")
	}
	for _, x := range p.Personal {
		if x.Conv == "" && x.User == "" && x.Name == "muted_until" && x.Value != "" {
			x.Value = "*"
		}
		lines = append(lines, fmt.Sprintf("setting %s %s", s.settingsPlace(x.Conv, x.User), settingText(x.Name, x.Value)))
	}
	return lines
}

// valuesText is settings in the order of their names, each behind a space.
func valuesText(values map[string]string) string {
	l := ""
	for _, name := range slices.Sorted(maps.Keys(values)) {
		l += " " + settingText(name, values[name])
	}
	return l
}

func accountText(a *petrelv1.Account) string {
	text := a.GetUser()
	if a.GetDisplayName() != "" {
		text += fmt.Sprintf(" %q", a.DisplayName)
	}
	return text + map[bool]string{true: " private"}[a.GetPrivateReading()]
}

// devicesText is a list of devices in the order of the answer.
func devicesText(devices []*petrelv1.Device) string {
	var list []string
	for _, d := range devices {
		l := d.Id
		if d.Kind != "" {
			l += " " + d.Kind
		}
		if d.Sessions > 0 {
			l += " sessions=" + itoa(d.Sessions)
		}
		if d.Current {
			l += " current"
		}
		list = append(list, l+map[bool]string{true: " revoked"}[d.Revoked])
	}
	return strings.Join(list, ", ")
}

// operate runs a line of the operator about somebody's account: "disable
// alice", "passwd alice "…"", "mint alice/phone", whose session gets the tokens.
func (w *world) operate(s *session, a args) error {
	w.t.Helper()
	w.newcomer(a.word(1))
	ctx, who := w.deadline(), w.session(a.word(1))
	tenant, user := who.user.tenant.id, who.user.name
	var err error
	switch a.word(0) {
	case "passwd":
		_, err = w.node().Admin.SetPassword(ctx, connect.NewRequest(&petrelv1.SetPasswordRequest{Tenant: tenant, User: user, Password: a.body()}))
	case "mint":
		var r *connect.Response[petrelv1.LoginResponse]
		r, err = w.node().Admin.MintToken(ctx, connect.NewRequest(&petrelv1.MintTokenRequest{Tenant: tenant, User: user, Device: who.device(), RequestId: a.values["request"]}))
		if err == nil {
			who.logged = r.Msg
		}
	case "disable":
		_, err = w.node().Admin.DisableUser(ctx, connect.NewRequest(&petrelv1.DisableUserRequest{Tenant: tenant, User: user}))
	case "mute":
		until := uint64(0)
		if s := a.number(w, "s"); s > 0 {
			until = uint64(time.Now().Add(time.Duration(s) * time.Second).UnixMilli())
		}
		_, err = w.node().Admin.MuteUser(ctx, connect.NewRequest(&petrelv1.MuteUserRequest{Tenant: tenant, User: user, UntilMs: until}))
	case "enable":
		_, err = w.node().Admin.EnableUser(ctx, connect.NewRequest(&petrelv1.EnableUserRequest{Tenant: tenant, User: user}))
	}
	if err == nil {
		s.put("ok")
	}
	return err
}
