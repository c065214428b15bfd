// Package api_test calls every method of the schema on a whole server.
package api_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	byCallJSON  imtest.Way = "call in JSON"
	byCallProto imtest.Way = "call in protobuf"
	byPython    imtest.Way = "gRPC of Python" // without TLS
)

var ways = []imtest.Way{imtest.ByJSON, imtest.ByGRPC, imtest.ByGRPCWeb, imtest.ByProto, byCallJSON, byCallProto}

// row is one method, called by every way with the same request. Where a
// repeat changes nothing more, the answers are the same to the letter.
type row struct {
	request func(*parties) proto.Message
	as      func(*parties) string // the credential; nil: alice's token, the admin key or none, as the service has it
	masks   []protoreflect.Name   // fields of the answer that differ from call to call, at any depth
	ends    bool                  // the call ends its credential: every way has one of its own
	code    im.Code               // of the answer; empty: none
}

// parties are a server and the users of one row.
type parties struct {
	t    *testing.T
	srv  *imtest.Server
	py   *python
	n    int
	conv string
}

// name is a user of this row.
func (p *parties) name(u string) string { return fmt.Sprintf("%s%d", u, p.n) }

// message is the seq of a message in the group, which is pinned, and has a reaction: one
// that is put there again is unchanged.
func (p *parties) message() uint64 {
	p.t.Helper()
	alice := p.token("alice", "desk")
	p.must("petrel.v1.MessageService/Send", alice, &petrelv1.Send{Conv: p.conv, ClientMsgId: "m0", Body: &petrelv1.Send_Text{Text: "hello"}})
	p.must("petrel.v1.MessageService/React", alice, &petrelv1.ReactRequest{Conv: p.conv, Seq: 2, Emoji: "👍"})
	p.must("petrel.v1.MessageService/Pin", alice, &petrelv1.PinRequest{Conv: p.conv, Seq: 2})
	return 2
}

// token logs a device of a user in.
func (p *parties) token(u, device string) string {
	p.t.Helper()
	r, err := p.srv.Admin.MintToken(p.t.Context(), connect.NewRequest(&petrelv1.MintTokenRequest{User: p.name(u), Device: &petrelv1.DeviceRef{Id: device}}))
	if err != nil {
		p.t.Fatalf("mint a token: %v", err)
	}
	return r.Msg.AccessToken
}

// makeContacts makes alice and bob contacts.
func (p *parties) makeContacts() {
	p.t.Helper()
	if _, err := p.srv.Admin.SetContacts(p.t.Context(), connect.NewRequest(&petrelv1.SetContactsRequest{
		Pairs: []*petrelv1.ContactPair{{User: p.name("alice"), Other: p.name("bob")}}})); err != nil {
		p.t.Fatalf("make contacts: %v", err)
	}
}

// reported has alice report bob, and returns the number of the report.
func (p *parties) reported() uint64 {
	p.t.Helper()
	p.must("petrel.v1.AccountService/Report", p.token("alice", "desk"), &petrelv1.ReportRequest{User: p.name("bob"), Reason: petrelv1.ReportReason_REPORT_REASON_OTHER})
	r, err := p.srv.Admin.ListReports(p.t.Context(), connect.NewRequest(&petrelv1.ListReportsRequest{User: p.name("bob"), Limit: 1}))
	if err != nil || len(r.Msg.Reports) == 0 {
		p.t.Fatalf("list reports: %v, %v", r, err)
	}
	return r.Msg.Reports[0].Report
}

// leavers returns a function that makes a user with a password each time.
func leavers() func(*parties) string {
	var n atomic.Int32
	return func(p *parties) string { return p.registered(fmt.Sprint("leaves", n.Add(1))).AccessToken }
}

func (p *parties) key() string {
	p.t.Helper()
	r, err := p.srv.Admin.CreateKey(p.t.Context(), connect.NewRequest(&petrelv1.CreateKeyRequest{Name: "spare", Scopes: []string{"users"}}))
	if err != nil {
		p.t.Fatalf("make a key: %v", err)
	}
	return r.Msg.Info.Id
}

// operator makes an operator who has not enrolled, and returns their code.
func (p *parties) operator() string {
	p.t.Helper()
	r, err := p.srv.Admin.CreateOperator(p.t.Context(), connect.NewRequest(&petrelv1.CreateOperatorRequest{Name: p.name("op"), Scopes: []string{"users"}}))
	if err != nil {
		p.t.Fatalf("make an operator: %v", err)
	}
	return r.Msg.Code
}

// session is one of an operator, begun with the admin key.
func (p *parties) session() string {
	p.t.Helper()
	r, err := p.srv.Call(p.t.Context(), imtest.ByJSON, "petrel.v1.OperatorService/LogIn", "", &petrelv1.OperatorLogInRequest{Key: p.srv.Key()})
	if err != nil {
		p.t.Fatalf("log in: %v", err)
	}
	m := r.ProtoReflect()
	return m.Get(m.Descriptor().Fields().ByName("token")).String()
}

// listed gives the group a title of its own, and returns it when the list of groups shows it.
func (p *parties) listed() string {
	p.t.Helper()
	title := p.name("list") + "."
	p.must("petrel.v1.ConversationService/RenameGroup", p.token("alice", "desk"), &petrelv1.RenameGroupRequest{Conv: p.conv, Title: title})
	eventually.True(p.t, "the list of groups shows the title", func() bool {
		r, err := p.srv.Admin.ListConversations(p.t.Context(), connect.NewRequest(&petrelv1.ListConversationsRequest{TitlePrefix: title}))
		if err != nil {
			p.t.Fatalf("list groups: %v", err)
		}
		return len(r.Msg.Conversations) > 0
	})
	return title
}

const secret = "a secret that the provider and the server share"

// jwt is a token of the identity provider.
func jwt(sub string) string {
	enc := base64.RawURLEncoding.EncodeToString
	end := eventually.Deadline().Add(time.Hour).Unix() // a day at most is accepted
	body := enc([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + enc(fmt.Appendf(nil, `{"iss":"idp","aud":"petrel","sub":%q,"iat":1700000000,"exp":%d}`, sub, end))
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(body))
	return body + "." + enc(h.Sum(nil))
}

func register(p *parties, u string) *petrelv1.RegisterRequest {
	return &petrelv1.RegisterRequest{User: p.name(u), Password: "correct horse battery", DisplayName: "Reg", Device: &petrelv1.DeviceRef{Id: "d", Kind: "phone"}, RequestId: "r1"}
}

// registered makes a user with a password.
func (p *parties) registered(u string) *petrelv1.LoginResponse {
	p.t.Helper()
	r, err := p.srv.Call(p.t.Context(), imtest.ByJSON, "petrel.v1.AuthService/Register", "", &petrelv1.RegisterRequest{
		User: p.name(u), Password: "correct horse battery", Device: &petrelv1.DeviceRef{Id: "d"}})
	if err != nil {
		p.t.Fatalf("register: %v", err)
	}
	l := &petrelv1.LoginResponse{}
	b, err := proto.Marshal(r)
	if err == nil {
		err = proto.Unmarshal(b, l)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return l
}

func fixed(m proto.Message) func(*parties) proto.Message {
	return func(*parties) proto.Message { return m }
}

var rows = map[string]row{
	"SetupService/Redeem": {request: fixed(&petrelv1.RedeemRequest{Code: "used"}), code: im.CodeSetupClosed},

	"AuthService/Register": {request: func(p *parties) proto.Message { return register(p, "reg") }},
	"AuthService/Login": {request: func(p *parties) proto.Message {
		p.registered("logs")
		return &petrelv1.LoginRequest{User: p.name("logs"), Password: "correct horse battery", Device: &petrelv1.DeviceRef{Id: "d"}, RequestId: "r1"}
	}},
	"AuthService/Refresh": {request: func(p *parties) proto.Message {
		return &petrelv1.RefreshRequest{RefreshToken: p.registered("fresh").RefreshToken, RequestId: "r1"}
	}},
	"AuthService/Exchange": {request: func(p *parties) proto.Message {
		return &petrelv1.ExchangeRequest{Token: jwt(p.name("alice")), Device: &petrelv1.DeviceRef{Id: "d"}, RequestId: "r1"}
	}},

	"AccountService/GetAccount": {request: fixed(&petrelv1.GetAccountRequest{})},
	"AccountService/UpdateAccount": {request: fixed(&petrelv1.UpdateAccountRequest{
		DisplayName: new("Alice 海燕"), About: new(""), Fields: map[string]string{"city": "Bergen"}, Visibility: map[string]petrelv1.Visibility{"fields.city": petrelv1.Visibility_VISIBILITY_NOBODY}, RequestId: "r1"})},
	"AccountService/ChangePassword": {
		request: fixed(&petrelv1.ChangePasswordRequest{OldPassword: "correct horse battery", NewPassword: "staple of a new kind", RequestId: "r1"}),
		as:      func(p *parties) string { return p.registered("changes").AccessToken },
	},
	"AccountService/SetAddPolicy":      {request: fixed(&petrelv1.SetAddPolicyRequest{Policy: petrelv1.AddPolicy_ADD_POLICY_NOBODY, RequestId: "r1"})},
	"AccountService/SetForwardPolicy":  {request: fixed(&petrelv1.SetForwardPolicyRequest{Policy: petrelv1.ForwardPolicy_FORWARD_POLICY_UNNAMED, RequestId: "r1"})},
	"AccountService/SetFirstMessages":  {request: fixed(&petrelv1.SetFirstMessagesRequest{RequestId: "r1f"})},
	"AccountService/SetPresencePolicy": {request: fixed(&petrelv1.SetPresencePolicyRequest{Policy: petrelv1.PresencePolicy_PRESENCE_POLICY_EVERYBODY, RequestId: "r1p"})},
	"AccountService/SetPrivateReading": {request: fixed(&petrelv1.SetPrivateReadingRequest{RequestId: "r1s"})},
	"AccountService/ListDevices":       {request: fixed(&petrelv1.ListDevicesRequest{}), masks: []protoreflect.Name{"sessions", "client"}},
	"AccountService/RenameDevice": {request: func(p *parties) proto.Message {
		p.token("alice", "tablet")
		return &petrelv1.RenameDeviceRequest{Device: "tablet", Name: "of the kitchen", RequestId: "r1"}
	}},
	"AccountService/RevokeDevice": {request: func(p *parties) proto.Message {
		p.token("alice", "tablet")
		return &petrelv1.RevokeDeviceRequest{Device: "tablet", RequestId: "r1"}
	}},
	"AccountService/Logout":  {request: fixed(&petrelv1.LogoutRequest{RequestId: "r1"}), ends: true},
	"AccountService/GetUser": {request: func(p *parties) proto.Message { return &petrelv1.GetUserRequest{User: p.name("bob")} }},
	"AccountService/GetUsers": {request: func(p *parties) proto.Message {
		return &petrelv1.GetUsersRequest{Users: []*petrelv1.UserVersion{{User: p.name("bob")}, {User: "nobody", Version: "x"}}, Conv: p.conv}
	}},
	"AccountService/GetSettings": {request: func(p *parties) proto.Message {
		p.must("petrel.v1.AccountService/ChangeSettings", p.token("alice", "desk"), &petrelv1.ChangeSettingsRequest{Conv: p.conv, Values: map[string]string{"muted": "1"}})
		return &petrelv1.GetSettingsRequest{}
	}},
	"AccountService/ChangeSettings": {request: fixed(&petrelv1.ChangeSettingsRequest{Values: map[string]string{"theme": "dark"}, RequestId: "r1"})},

	"AccountService/Report": {request: func(p *parties) proto.Message {
		return &petrelv1.ReportRequest{User: p.name("bob"), Reason: petrelv1.ReportReason_REPORT_REASON_SPAM, Text: "sells boats 海燕", RequestId: "r1"}
	}},
	"AccountService/DeleteAccount": {
		request: fixed(&petrelv1.DeleteAccountRequest{Password: "correct horse battery"}), as: leavers(), ends: true,
		masks: []protoreflect.Name{"restorable_until_ms"},
	},

	"ContactService/RequestContact": {request: func(p *parties) proto.Message {
		return &petrelv1.RequestContactRequest{User: p.name("bob"), Greeting: "hi 海燕", RequestId: "r1"}
	}, masks: []protoreflect.Name{"sent_ms"}},
	"ContactService/AcceptContact": {request: func(p *parties) proto.Message {
		p.must("petrel.v1.ContactService/RequestContact", p.token("bob", "laptop"), &petrelv1.RequestContactRequest{User: p.name("alice")})
		return &petrelv1.ContactRequest{User: p.name("bob"), RequestId: "r1"}
	}, masks: []protoreflect.Name{"since_ms"}},
	"ContactService/RefuseContact":   {request: func(p *parties) proto.Message { return &petrelv1.ContactRequest{User: p.name("bob"), RequestId: "r1"} }},
	"ContactService/WithdrawContact": {request: func(p *parties) proto.Message { return &petrelv1.ContactRequest{User: p.name("bob"), RequestId: "r1"} }},
	"ContactService/RemoveContact":   {request: func(p *parties) proto.Message { return &petrelv1.ContactRequest{User: p.name("bob"), RequestId: "r1"} }},
	"ContactService/SetRemark": {request: func(p *parties) proto.Message {
		p.makeContacts()
		return &petrelv1.SetRemarkRequest{User: p.name("bob"), Remark: "the tenor", RequestId: "r1"}
	}, masks: []protoreflect.Name{"since_ms"}},
	"ContactService/AcceptMessages": {request: func(p *parties) proto.Message { return &petrelv1.ContactRequest{User: p.name("bob"), RequestId: "r1a"} }},
	"ContactService/RefuseMessages": {request: func(p *parties) proto.Message { return &petrelv1.ContactRequest{User: p.name("bob"), RequestId: "r1b"} }},
	"ContactService/ListContacts": {request: func(p *parties) proto.Message {
		p.makeContacts()
		return &petrelv1.ListContactsRequest{}
	}, masks: []protoreflect.Name{"since_ms"}},

	"ConversationService/CreateGroup": {request: func(p *parties) proto.Message {
		return &petrelv1.CreateGroupRequest{Title: "boat", Users: []string{p.name("bob")}, RequestId: "r1"}
	}},
	"ConversationService/RenameGroup": {request: func(p *parties) proto.Message {
		return &petrelv1.RenameGroupRequest{Conv: p.conv, Title: "ship", RequestId: "r1"}
	}},
	"ConversationService/AddMembers": {request: func(p *parties) proto.Message {
		return &petrelv1.AddMembersRequest{Conv: p.conv, Users: []string{p.name("dave")}, RequestId: "r1"}
	}},
	"ConversationService/RemoveMembers": {request: func(p *parties) proto.Message {
		return &petrelv1.RemoveMembersRequest{Conv: p.conv, Users: []string{p.name("carol")}, RequestId: "r1"}
	}},
	"ConversationService/LeaveGroup": {
		request: func(p *parties) proto.Message { return &petrelv1.LeaveGroupRequest{Conv: p.conv, RequestId: "r1"} },
		as:      func(p *parties) string { return p.token("carol", "phone") },
	},
	"ConversationService/SetRole": {request: func(p *parties) proto.Message {
		return &petrelv1.SetRoleRequest{Conv: p.conv, User: p.name("carol"), Role: petrelv1.Role_ROLE_ADMIN, RequestId: "r1"}
	}},
	"ConversationService/TransferOwnership": {request: func(p *parties) proto.Message {
		return &petrelv1.TransferOwnershipRequest{Conv: p.conv, User: p.name("bob"), RequestId: "r1"}
	}},
	"ConversationService/DissolveGroup":   {request: func(p *parties) proto.Message { return &petrelv1.DissolveGroupRequest{Conv: p.conv, RequestId: "r1"} }},
	"ConversationService/GetConversation": {request: func(p *parties) proto.Message { return &petrelv1.GetConversationRequest{Conv: p.conv} }},
	"ConversationService/ListMembers": {request: func(p *parties) proto.Message {
		return &petrelv1.ListMembersRequest{Conv: p.conv, Limit: 2, Profiles: true}
	}},

	"MessageService/Send": {request: func(p *parties) proto.Message {
		return &petrelv1.Send{User: p.name("bob"), ClientMsgId: "m1", Body: &petrelv1.Send_Text{Text: "hello 海燕"}}
	}},
	"MessageService/GetHistory": {request: func(p *parties) proto.Message { return &petrelv1.GetHistory{Conv: p.conv} }},
	"MessageService/Sync":       {request: fixed(&petrelv1.Sync{Newest: 3})},
	"MessageService/MoveCursor": {request: func(p *parties) proto.Message { return &petrelv1.MoveCursor{Conv: p.conv, Read: 1} }},
	"MessageService/React": {request: func(p *parties) proto.Message {
		return &petrelv1.ReactRequest{Conv: p.conv, Seq: p.message(), Emoji: "👍"}
	}},
	"MessageService/Pin":           {request: func(p *parties) proto.Message { return &petrelv1.PinRequest{Conv: p.conv, Seq: p.message()} }},
	"MessageService/ListReactions": {request: func(p *parties) proto.Message { return &petrelv1.ListReactionsRequest{Conv: p.conv, Seq: p.message()} }},
	"MessageService/ListPins":      {request: func(p *parties) proto.Message { p.message(); return &petrelv1.ListPinsRequest{Conv: p.conv} }},
	"MessageService/ListReceipts": {request: func(p *parties) proto.Message {
		p.must("petrel.v1.MessageService/MoveCursor", p.token("carol", "phone"), &petrelv1.MoveCursor{Conv: p.conv, Delivered: 1})
		return &petrelv1.ListReceiptsRequest{Conv: p.conv}
	}},

	"AdminService/CreateUsers": {
		request: func(p *parties) proto.Message { return &petrelv1.CreateUsersRequest{Users: []string{p.name("alice")}} },
		masks:   []protoreflect.Name{"token"},
	},
	"AdminService/RevokeTokens": {request: func(p *parties) proto.Message { return &petrelv1.RevokeTokensRequest{User: p.name("bob")} }},
	"AdminService/CreateGroup": {request: func(p *parties) proto.Message {
		return &petrelv1.AdminCreateGroupRequest{Key: p.name("team"), Members: []*petrelv1.MemberRef{{User: p.name("bob")}}}
	}, masks: []protoreflect.Name{"created"}},
	"AdminService/ChangeMembers": {request: func(p *parties) proto.Message {
		return &petrelv1.ChangeMembersRequest{Conv: p.conv, RequestId: "r1", Change: &petrelv1.MemberChange{Removed: []string{p.name("carol")}}}
	}},
	"AdminService/SendAs": {request: func(p *parties) proto.Message {
		return &petrelv1.SendAsRequest{From: p.name("bob"), Send: &petrelv1.Send{Conv: p.conv, ClientMsgId: "m1", Body: &petrelv1.Send_Data{Data: []byte{0, 255}}}}
	}},
	"AdminService/GetHistory": {request: func(p *parties) proto.Message {
		return &petrelv1.AdminGetHistoryRequest{History: &petrelv1.GetHistory{Conv: p.conv}}
	}},
	"AdminService/GetLimits": {request: fixed(&petrelv1.GetLimitsRequest{})},
	"AdminService/SetLimits": {request: fixed(&petrelv1.ServerLimits{WindowSends: 65})},
	"AdminService/GetStats": {request: fixed(&petrelv1.GetStatsRequest{}), masks: []protoreflect.Name{
		"cpu_s", "rss_bytes", "heap_bytes", "connections", "accepted", "delivered", "commits", "disk_bytes", "lagged", "table_bytes"}},
	"AdminService/CreateCheckpoint": {request: fixed(&petrelv1.CreateCheckpointRequest{}), masks: []protoreflect.Name{"name"}},
	"AdminService/Compact":          {request: fixed(&petrelv1.CompactRequest{}), masks: []protoreflect.Name{"disk_bytes", "table_bytes"}},
	"AdminService/GetCluster":       {request: fixed(&petrelv1.GetClusterRequest{})},
	"AdminService/DrainNode":        {request: fixed(&petrelv1.DrainNodeRequest{Node: "x"}), code: im.CodeNotNow},
	"AdminService/ResumeNode":       {request: fixed(&petrelv1.ResumeNodeRequest{Node: "x"}), code: im.CodeNotNow},
	"AdminService/RebalanceCluster": {request: fixed(&petrelv1.RebalanceClusterRequest{}), code: im.CodeNotNow},
	"AdminService/MovePartition":    {request: fixed(&petrelv1.MovePartitionRequest{Database: 1}), code: im.CodeNotNow},
	"AdminService/FinalizeCluster":  {request: fixed(&petrelv1.FinalizeClusterRequest{}), code: im.CodeNotNow},
	"AdminService/ListUsers": {request: func(p *parties) proto.Message {
		return &petrelv1.ListUsersRequest{After: p.name("alice"), Limit: 2}
	}},
	"AdminService/GetUser": {request: func(p *parties) proto.Message { return &petrelv1.AdminGetUserRequest{User: p.name("alice")} }},
	"AdminService/DisableUser": {request: func(p *parties) proto.Message {
		return &petrelv1.DisableUserRequest{User: p.name("bob"), RequestId: "r1"}
	}},
	"AdminService/EnableUser": {request: func(p *parties) proto.Message {
		return &petrelv1.EnableUserRequest{User: p.name("bob"), RequestId: "r1"}
	}},
	"AdminService/LinkUser": {request: func(p *parties) proto.Message {
		return &petrelv1.LinkUserRequest{User: p.name("bob"), RequestId: "r1"}
	}},
	"AdminService/GetTenant":           {request: fixed(&petrelv1.GetTenantRequest{})},
	"AdminService/SetRegistration":     {request: fixed(&petrelv1.SetRegistrationRequest{Registration: petrelv1.Registration_REGISTRATION_OPEN, RequestId: "r1"})},
	"AdminService/SetProfileRules":     {request: fixed(&petrelv1.SetProfileRulesRequest{Tenant: "ruled", Managed: []string{"fields.city", "handle"}, RequestId: "r1"})},
	"AdminService/SetFirstMessageRule": {request: fixed(&petrelv1.SetFirstMessageRuleRequest{Tenant: "ruled", FirstMessages: petrelv1.FirstMessages_FIRST_MESSAGES_REQUEST, RequestId: "r1f"})},
	"AdminService/SetProfiles": {request: func(p *parties) proto.Message {
		return &petrelv1.SetProfilesRequest{Profiles: []*petrelv1.ProfileChange{{User: p.name("bob"), DisplayName: new("Bob 海燕"), Fields: map[string]string{"city": "Bergen"}}}}
	}, masks: []protoreflect.Name{"changed"}}, // by the first way
	"AdminService/SetContacts": {request: func(p *parties) proto.Message {
		return &petrelv1.SetContactsRequest{Pairs: []*petrelv1.ContactPair{{User: p.name("alice"), Other: p.name("bob")}}, RequestId: "r1"}
	}},
	"AdminService/ListContacts": {request: func(p *parties) proto.Message {
		p.makeContacts()
		return &petrelv1.ListUserContactsRequest{User: p.name("alice")}
	}, masks: []protoreflect.Name{"since_ms"}},
	"AdminService/ListReports": {request: func(p *parties) proto.Message {
		p.reported()
		return &petrelv1.ListReportsRequest{User: p.name("bob"), Limit: 1}
	}, masks: []protoreflect.Name{"open"}},
	"AdminService/GetReport": {request: func(p *parties) proto.Message { return &petrelv1.GetReportRequest{Report: p.reported(), Context: true} }},
	"AdminService/ResolveReport": {request: func(p *parties) proto.Message {
		return &petrelv1.ResolveReportRequest{Report: p.reported(), Action: petrelv1.ReportAction_REPORT_ACTION_DISMISS, Note: "no 海燕", RequestId: "r1"}
	}},
	"AdminService/SetReportRules": {request: fixed(&petrelv1.SetReportRulesRequest{Tenant: "ruled", Context: 3, RequestId: "r1"})},
	"AdminService/MuteUser":       {request: func(p *parties) proto.Message { return &petrelv1.MuteUserRequest{User: p.name("bob"), RequestId: "r1"} }},
	"AdminService/RestoreUser": {request: func(p *parties) proto.Message {
		return &petrelv1.RestoreUserRequest{User: p.name("bob"), RequestId: "r1"}
	}},
	"AdminService/CreateInvitation": {request: fixed(&petrelv1.CreateInvitationRequest{RequestId: "r1"})},
	"AdminService/SetPassword": {request: func(p *parties) proto.Message {
		return &petrelv1.SetPasswordRequest{User: p.name("bob"), Password: "correct horse battery", RequestId: "r1"}
	}},
	"AdminService/RevokeDevice": {request: func(p *parties) proto.Message {
		p.token("bob", "tablet")
		return &petrelv1.AdminRevokeDeviceRequest{User: p.name("bob"), Device: "tablet", RequestId: "r1"}
	}},
	"AdminService/MintToken": {request: func(p *parties) proto.Message {
		return &petrelv1.MintTokenRequest{User: p.name("bob"), Device: &petrelv1.DeviceRef{Id: "phone"}, TtlS: 60, RequestId: "r1"}
	}},
	"AdminService/CreateKey": {request: func(p *parties) proto.Message {
		return &petrelv1.CreateKeyRequest{Name: p.name("key"), Scopes: []string{"users"}, RequestId: p.name("r")}
	}},
	"AdminService/ListKeys":    {request: fixed(&petrelv1.ListKeysRequest{})},
	"AdminService/ListAudit":   {request: fixed(&petrelv1.ListAuditRequest{Limit: 1})},
	"AdminService/VerifyAudit": {request: fixed(&petrelv1.VerifyAuditRequest{}), masks: []protoreflect.Name{"records", "heads"}},
	"AdminService/RevokeKey": {request: func(p *parties) proto.Message {
		return &petrelv1.RevokeKeyRequest{Id: p.key(), RequestId: p.name("r")}
	}},
	"AdminService/ListUserConversations": {request: func(p *parties) proto.Message { return &petrelv1.ListUserConversationsRequest{User: p.name("alice")} }},
	"AdminService/ListMembers":           {request: func(p *parties) proto.Message { return &petrelv1.AdminListMembersRequest{Conv: p.conv} }},
	"AdminService/RenameGroup": {request: func(p *parties) proto.Message {
		return &petrelv1.AdminRenameGroupRequest{Conv: p.conv, Title: "ship", RequestId: "r1"}
	}},
	"AdminService/DissolveGroup": {request: func(p *parties) proto.Message {
		return &petrelv1.AdminDissolveGroupRequest{Conv: p.conv, RequestId: "r1"}
	}},
	"AdminService/GetOverview": {request: fixed(&petrelv1.GetOverviewRequest{}), masks: []protoreflect.Name{
		"totals", "accepted", "online", // counted in the background, what others send, and connections that end late
		"verdict", "incidents", "samples", "time_ms", "now", "queues", "budgets", "refused", "storage", "cpu", "rss_bytes", "loud"}},
	"AdminService/ListRefusals": {request: func(p *parties) proto.Message {
		p.registered("errs")
		_, err := p.srv.Call(p.t.Context(), imtest.ByJSON, "petrel.v1.AuthService/Login", "", &petrelv1.LoginRequest{User: p.name("errs"), Password: "a guess", Device: &petrelv1.DeviceRef{Id: "d"}})
		if im.CodeOf(err) != im.CodeBadCredentials {
			p.t.Fatalf("a guess: %v", err)
		}
		return &petrelv1.ListRefusalsRequest{User: p.name("errs")}
	}},
	"AdminService/ReadLog":       {request: fixed(&petrelv1.ReadLogRequest{Limit: 1})},
	"AdminService/PreviewLimits": {request: fixed(&petrelv1.ServerLimits{WindowSends: 66})},
	"AdminService/ListTenants":   {request: fixed(&petrelv1.ListTenantsRequest{})},
	"AdminService/ListSessions": {request: func(p *parties) proto.Message {
		c := p.srv.Dial(wire.WebSocket, wire.Proto, p.token("bob", "phone"), "phone")
		p.t.Cleanup(func() { _ = c.Close() })
		return &petrelv1.ListSessionsRequest{User: p.name("bob"), Conv: p.conv}
	}, masks: []protoreflect.Name{"pending_bytes"}},
	"AdminService/TraceUser": {request: func(p *parties) proto.Message {
		p.token("bob", "phone")
		return &petrelv1.TraceUserRequest{User: p.name("bob")}
	}},
	"AdminService/ListConversations": {request: func(p *parties) proto.Message {
		return &petrelv1.ListConversationsRequest{TitlePrefix: p.listed()}
	}},
	"AdminService/GetConversation": {request: func(p *parties) proto.Message { return &petrelv1.AdminGetConversationRequest{Conv: p.conv} }},
	"AdminService/FreezeConversation": {request: func(p *parties) proto.Message {
		return &petrelv1.FreezeConversationRequest{Conv: p.conv, Frozen: true, RequestId: "r1"}
	}},
	"AdminService/TraceMessage": {request: func(p *parties) proto.Message {
		return &petrelv1.TraceMessageRequest{Conv: p.conv, Seq: p.message()}
	}},
	"AdminService/NoteBackup": {request: fixed(&petrelv1.NoteBackupRequest{Backup: &petrelv1.BackupInfo{Name: "noted", MadeMs: 2, Commit: 1}})},
	"AdminService/ListBackups": {request: func(p *parties) proto.Message {
		p.must("petrel.v1.AdminService/NoteBackup", p.srv.Key(), &petrelv1.NoteBackupRequest{Backup: &petrelv1.BackupInfo{Name: "listed", Folder: "海燕", MadeMs: 1, Commit: 1, Sound: true}})
		return &petrelv1.ListBackupsRequest{}
	}},
	"AdminService/ListOperators": {request: func(p *parties) proto.Message { p.operator(); return &petrelv1.ListOperatorsRequest{} }},
	"AdminService/CreateOperator": {request: func(p *parties) proto.Message {
		return &petrelv1.CreateOperatorRequest{Name: p.name("op"), Scopes: []string{"users"}, RequestId: p.name("r")}
	}},
	"AdminService/ChangeOperator": {request: func(p *parties) proto.Message {
		p.operator()
		return &petrelv1.ChangeOperatorRequest{Name: p.name("op"), Scopes: []string{"server"}, Disabled: true, RequestId: p.name("r")}
	}},
	"AdminService/ResetOperator": {request: func(p *parties) proto.Message {
		p.operator()
		return &petrelv1.ResetOperatorRequest{Name: p.name("op"), RequestId: p.name("r")}
	}},
	"AdminService/RemoveOperator": {request: func(p *parties) proto.Message {
		p.operator()
		return &petrelv1.RemoveOperatorRequest{Name: p.name("op"), RequestId: p.name("r")}
	}},

	"OperatorService/BeginEnrollment": {
		request: func(p *parties) proto.Message { return &petrelv1.BeginEnrollmentRequest{Code: p.operator()} },
		masks:   []protoreflect.Name{"secret", "secret_uri", "secret_png"},
	},
	"OperatorService/Enroll": {request: fixed(&petrelv1.EnrollRequest{ // a code works once
		Code: "used", Name: "olga", Password: "correct horse battery", Secret: "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ", Digits: "123456"}), code: im.CodeSetupClosed},
	"OperatorService/LogIn": {
		request: func(p *parties) proto.Message { return &petrelv1.OperatorLogInRequest{Key: p.srv.Key()} }, // digits work once
		masks:   []protoreflect.Name{"token", "expires_ms"},
	},
	"OperatorService/GetSession": {request: fixed(&petrelv1.GetOperatorSessionRequest{}), as: (*parties).session},
	"OperatorService/LogOut":     {request: fixed(&petrelv1.OperatorLogOutRequest{}), as: (*parties).session, ends: true},
}

func (p *parties) must(method, credential string, req proto.Message) {
	p.t.Helper()
	if _, err := p.srv.Call(p.t.Context(), imtest.ByJSON, method, credential, req); err != nil {
		p.t.Fatalf("%s: %v", method, err)
	}
}

// Every method of the schema gives the same answer to JSON, protobuf, gRPC,
// gRPC-Web and, if it may be called there, over the long connection. A method
// without a row fails. Spec: P-12.1, P-10.4.
func TestEveryMethodGivesTheSameAnswerByEveryWay(t *testing.T) {
	keyFile := filepath.Join(t.TempDir(), "jwt")
	if err := os.WriteFile(keyFile, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	srv := imtest.Start(t, imtest.Options{Config: map[string]string{
		"jwt.key_file": keyFile, "jwt.algorithm": "HS256", "jwt.issuer": "idp", "jwt.audience": "petrel",
	}})
	py := startPython(t, srv)
	for i, name := range slices.Sorted(maps.Keys(imtest.Methods())) {
		short := strings.TrimPrefix(name, "petrel.v1.")
		t.Run(short, func(t *testing.T) {
			r, ok := rows[short]
			if !ok {
				t.Fatal("the method has no row in this test")
			}
			p := &parties{t: t, srv: srv, py: py, n: i}
			srv.Users("", p.name("alice"), p.name("bob"), p.name("carol"), p.name("dave"))
			p.conv = srv.Group("", p.name("group"), p.name("alice"), p.name("bob"), p.name("carol"))
			p.same(name, r)
		})
	}
	for short := range rows {
		if _, ok := imtest.Methods()["petrel.v1."+short]; !ok {
			t.Errorf("%s is no method any more", short)
		}
	}
}

// same calls one method by every way.
func (p *parties) same(name string, r row) {
	service, _, _ := strings.Cut(strings.TrimPrefix(name, "petrel.v1."), "/")
	as := r.as
	if as == nil {
		as = func(p *parties) string {
			switch service {
			case "AdminService":
				return p.srv.Key()
			case "AccountService", "ContactService", "ConversationService", "MessageService":
				return p.token("alice", fmt.Sprint("phone", len(p.name(""))))
			}
			return ""
		}
	}
	credential, req := as(p), r.request(p)
	var first proto.Message
	for i, way := range append(slices.Clone(ways), byPython) {
		switch {
		case r.ends && i > 0 && r.as != nil:
			credential = r.as(p)
		case r.ends && i > 0:
			credential = p.token("alice", fmt.Sprint("device", i))
		}
		callable := !slices.Contains([]string{"AdminService", "AuthService", "OperatorService", "SetupService"}, service)
		byCall := way == byCallJSON || way == byCallProto
		token := credential
		if byCall && !callable {
			token = p.token("dave", "caller")
		}
		res, err := p.call(way, name, token, req)
		want := r.code
		switch {
		case byCall && !callable:
			want = im.CodeNoMethod
		case byCall && r.ends:
			want = im.CodeRevoked // the kick says that it is done
		}
		if err != nil && im.CodeOf(err) != want || err == nil && want != "" {
			p.t.Errorf("by %s: %v, %v; want the code %q", way, res, err, want)
		}
		if err != nil {
			continue
		}
		mask(res.ProtoReflect(), r.masks)
		if first == nil {
			first = res
			p.t.Logf("%v", res)
		}
		if !proto.Equal(res, first) {
			p.t.Errorf("by %s: %v\nwant, as by %s: %v", way, res, ways[0], first)
		}
	}
}

// call calls a method by one way. If the call ends the session, the result is an error with
// the code of the kick.
func (p *parties) call(way imtest.Way, name, credential string, req proto.Message) (proto.Message, error) {
	p.t.Helper()
	codec := wire.JSON
	switch way {
	case byCallProto:
		codec = wire.Proto
	case byCallJSON:
	case byPython:
		return p.py.call(name, credential, req)
	default:
		return p.srv.Call(p.t.Context(), way, name, credential, req)
	}
	c := p.srv.Dial(wire.WebSocket, codec, credential, "phone")
	defer func() { _ = c.Close() }()
	res := dynamicpb.NewMessage(imtest.Methods()[name].Output())
	if err := c.Call(eventually.Context(p.t), name, req, res); err != nil {
		if e, ok := errors.AsType[*im.Error](err); ok {
			return nil, e
		}
		return nil, err
	}
	return res, nil
}

// mask clears what differs from call to call.
func mask(m protoreflect.Message, names []protoreflect.Name) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case slices.Contains(names, f.Name()):
			m.Clear(f)
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				mask(v.List().Get(i).Message(), names)
			}
		case !f.IsMap() && !f.IsList() && f.Message() != nil:
			mask(v.Message(), names)
		}
		return true
	})
}

// gRPC finds HTTP/2 by ALPN, and WebSocket HTTP/1.1 on the same port. Spec: P-12.1.
func TestEveryWayWorksWithTLS(t *testing.T) {
	srv := imtest.Start(t, imtest.Options{TLS: true})
	p := &parties{t: t, srv: srv, n: 1}
	srv.Users("", p.name("alice"))
	for _, way := range ways {
		res, err := p.call(way, "petrel.v1.AccountService/GetAccount", p.token("alice", "phone"), &petrelv1.GetAccountRequest{})
		if err != nil || res.ProtoReflect().Get(res.ProtoReflect().Descriptor().Fields().ByName("user")).String() != p.name("alice") {
			t.Errorf("by %s: %v, %v", way, res, err)
		}
	}
}
