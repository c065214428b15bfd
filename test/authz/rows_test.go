package authz

import (
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Outcomes that many rows share.
const (
	//            anonymous other left member admin owner revoked foreign noscope scope
	anybody    = "ok        ok    ok   ok     ok    ok    ok      ok      ok      ok"
	ownAccount = "U         ok    ok   ok     ok    ok    U       ok      U       U"
	admins     = "U         NC    NM   F      ok    ok    U       NC      U       U"
	ownerOnly  = "U         NC    NM   F      F     ok    U       NC      U       U"
	members    = "U         NC    NM   ok     ok    ok    U       NC      U       U"
	pastToo    = "U         NC    ok   ok     ok    ok    U       NC      U       U"
	operator   = "U         U     U    U      U     U     U       U       F       ok"
	alone      = "U         U     U    U      U     U     U       U       F       NN" // this server is no cluster
)

// same is a request that does not depend on the world.
func same(m proto.Message) func(*world) proto.Message {
	return func(*world) proto.Message { return m }
}

func to[M proto.Message](f func(*world) M) func(*world) proto.Message {
	return func(w *world) proto.Message { return f(w) }
}

// toContact is a request of the ContactService that names one of the world's users.
func toContact(name string) func(*world) proto.Message {
	return to(func(w *world) *petrelv1.ContactRequest { return &petrelv1.ContactRequest{User: w.name(name)} })
}

const (
	auth    = "petrel.v1.AuthService/"
	account = "petrel.v1.AccountService/"
	contact = "petrel.v1.ContactService/"
	convs   = "petrel.v1.ConversationService/"
	message = "petrel.v1.MessageService/"
	admin   = "petrel.v1.AdminService/"

	operators = "petrel.v1.OperatorService/"
)

var methods = map[string]row{
	"petrel.v1.SetupService/Redeem": {same(&petrelv1.RedeemRequest{Code: "x"}), "SC SC SC SC SC SC SC SC SC SC"},

	auth + "Register": {to(func(w *world) *petrelv1.RegisterRequest {
		return &petrelv1.RegisterRequest{User: w.name("new"), Password: password, Device: device("new")}
	}), anybody},
	auth + "Login": {to(func(w *world) *petrelv1.LoginRequest {
		return &petrelv1.LoginRequest{User: w.name("member2"), Password: "not the " + password, Device: device("x")}
	}), "BC BC BC BC BC BC BC BC BC BC"},
	auth + "Refresh":  {same(&petrelv1.RefreshRequest{RefreshToken: "pr_default.member.x"}), "U U U U U U U U U U"},
	auth + "Exchange": {same(&petrelv1.ExchangeRequest{Token: "x", Device: device("x")}), "US US US US US US US US US US"},

	account + "GetAccount":        {same(&petrelv1.GetAccountRequest{}), ownAccount},
	account + "UpdateAccount":     {same(&petrelv1.UpdateAccountRequest{DisplayName: new("x")}), ownAccount},
	account + "SetAddPolicy":      {same(&petrelv1.SetAddPolicyRequest{Policy: petrelv1.AddPolicy_ADD_POLICY_NOBODY}), ownAccount},
	account + "SetForwardPolicy":  {same(&petrelv1.SetForwardPolicyRequest{Policy: petrelv1.ForwardPolicy_FORWARD_POLICY_UNNAMED}), ownAccount},
	account + "SetFirstMessages":  {same(&petrelv1.SetFirstMessagesRequest{}), ownAccount},
	account + "SetPresencePolicy": {same(&petrelv1.SetPresencePolicyRequest{Policy: petrelv1.PresencePolicy_PRESENCE_POLICY_NOBODY}), ownAccount},
	account + "SetPrivateReading": {same(&petrelv1.SetPrivateReadingRequest{Private: true}), ownAccount},
	account + "ChangePassword": {same(&petrelv1.ChangePasswordRequest{OldPassword: password, NewPassword: "another " + password}),
		"U BC BC BC BC BC U BC U U"}, // nobody here has a password
	account + "ListDevices": {same(&petrelv1.ListDevicesRequest{}), ownAccount},
	account + "RenameDevice": {to(func(w *world) *petrelv1.RenameDeviceRequest {
		return &petrelv1.RenameDeviceRequest{Device: w.name("owner"), Name: "x"}
	}), "U ND ND ND ND ok U ND U U"},
	account + "RevokeDevice": {to(func(w *world) *petrelv1.RevokeDeviceRequest {
		return &petrelv1.RevokeDeviceRequest{Device: w.name("owner")}
	}), "U ND ND ND ND ok U ND U U"},
	account + "Logout": {same(&petrelv1.LogoutRequest{}), ownAccount},
	account + "GetUser": {to(func(w *world) *petrelv1.GetUserRequest {
		return &petrelv1.GetUserRequest{User: w.name("member2")}
	}), "U ok ok ok ok ok U NU U U"},
	account + "GetUser by handle": {to(func(w *world) *petrelv1.GetUserRequest {
		return &petrelv1.GetUserRequest{Handle: w.handle()}
	}), "U ok ok ok ok ok U NU U U"},
	account + "GetUsers": {to(func(w *world) *petrelv1.GetUsersRequest {
		return &petrelv1.GetUsersRequest{Users: []*petrelv1.UserVersion{{User: w.name("member2")}}, Conv: w.conv}
	}), ownAccount}, // what the answer has for whom: TestWhoSeesAProfile
	account + "GetSettings":    {same(&petrelv1.GetSettingsRequest{}), ownAccount},
	account + "ChangeSettings": {same(&petrelv1.ChangeSettingsRequest{Values: map[string]string{"a": "b"}}), ownAccount},
	account + "Report": {to(func(w *world) *petrelv1.ReportRequest {
		return &petrelv1.ReportRequest{Conv: w.conv, Seq: w.ownersMessage, Reason: spam}
	}), "U NC ok ok ok I U NC U U"}, // what else is no target: TestWhoReportsAMessage
	account + "Report a user": {to(func(w *world) *petrelv1.ReportRequest {
		return &petrelv1.ReportRequest{User: w.name("member2"), Reason: spam}
	}), "U ok ok ok ok ok U NU U U"},
	account + "DeleteAccount": {same(&petrelv1.DeleteAccountRequest{}), ownAccount},

	contact + "RequestContact": {to(func(w *world) *petrelv1.RequestContactRequest {
		return &petrelv1.RequestContactRequest{User: w.name("member2")}
	}), "U ok ok ok ok ok U NU U U"},
	contact + "AcceptContact":   {toContact("other2"), "U CT CT CT CT CT U CT U U"},
	contact + "RefuseContact":   {toContact("member2"), ownAccount},
	contact + "WithdrawContact": {toContact("member2"), ownAccount},
	contact + "RemoveContact":   {toContact("member2"), ownAccount},
	contact + "AcceptMessages":  {toContact("member2"), ownAccount},
	contact + "RefuseMessages":  {toContact("member2"), ownAccount},
	contact + "SetRemark": {to(func(w *world) *petrelv1.SetRemarkRequest {
		return &petrelv1.SetRemarkRequest{User: w.name("other2"), Remark: "x"}
	}), "U CT CT CT CT CT U CT U U"},
	contact + "ListContacts": {same(&petrelv1.ListContactsRequest{}), ownAccount},

	convs + "CreateGroup": {same(&petrelv1.CreateGroupRequest{Title: "x"}), ownAccount},
	convs + "RenameGroup": {to(func(w *world) *petrelv1.RenameGroupRequest {
		return &petrelv1.RenameGroupRequest{Conv: w.conv, Title: "x"}
	}), admins},
	convs + "AddMembers": {to(func(w *world) *petrelv1.AddMembersRequest {
		return &petrelv1.AddMembersRequest{Conv: w.conv, Users: []string{w.name("other2")}}
	}), admins},
	convs + "RemoveMembers": {to(func(w *world) *petrelv1.RemoveMembersRequest {
		return &petrelv1.RemoveMembersRequest{Conv: w.conv, Users: []string{w.name("member2")}}
	}), admins},
	convs + "LeaveGroup": {to(func(w *world) *petrelv1.LeaveGroupRequest { return &petrelv1.LeaveGroupRequest{Conv: w.conv} }), "U NC NM ok ok F U NC U U"},
	convs + "SetRole": {to(func(w *world) *petrelv1.SetRoleRequest {
		return &petrelv1.SetRoleRequest{Conv: w.conv, User: w.name("member2"), Role: petrelv1.Role_ROLE_ADMIN}
	}), ownerOnly},
	convs + "TransferOwnership": {to(func(w *world) *petrelv1.TransferOwnershipRequest {
		return &petrelv1.TransferOwnershipRequest{Conv: w.conv, User: w.name("member2")}
	}), ownerOnly},
	convs + "DissolveGroup":   {to(func(w *world) *petrelv1.DissolveGroupRequest { return &petrelv1.DissolveGroupRequest{Conv: w.conv} }), ownerOnly},
	convs + "GetConversation": {to(func(w *world) *petrelv1.GetConversationRequest { return &petrelv1.GetConversationRequest{Conv: w.conv} }), pastToo},
	convs + "ListMembers":     {to(func(w *world) *petrelv1.ListMembersRequest { return &petrelv1.ListMembersRequest{Conv: w.conv} }), members},
	convs + "ListMembers with profiles": {to(func(w *world) *petrelv1.ListMembersRequest {
		return &petrelv1.ListMembersRequest{Conv: w.conv, Profiles: true}
	}), members},

	message + "Send":       {to(func(w *world) *petrelv1.Send { return w.send() }), members},
	message + "GetHistory": {to(func(w *world) *petrelv1.GetHistory { return &petrelv1.GetHistory{Conv: w.conv} }), pastToo},
	message + "Sync":       {same(&petrelv1.Sync{}), ownAccount},
	message + "MoveCursor": {to(func(w *world) *petrelv1.MoveCursor { return &petrelv1.MoveCursor{Conv: w.conv, Read: 1} }), pastToo},
	message + "React": {to(func(w *world) *petrelv1.ReactRequest {
		return &petrelv1.ReactRequest{Conv: w.conv, Seq: w.ownersMessage, Emoji: "👍"}
	}), members},
	message + "Pin": {to(func(w *world) *petrelv1.PinRequest { return &petrelv1.PinRequest{Conv: w.conv, Seq: w.ownersMessage} }), admins},
	message + "ListReactions": {to(func(w *world) *petrelv1.ListReactionsRequest {
		return &petrelv1.ListReactionsRequest{Conv: w.conv, Seq: w.ownersMessage}
	}), members},
	message + "ListPins":     {to(func(w *world) *petrelv1.ListPinsRequest { return &petrelv1.ListPinsRequest{Conv: w.conv} }), members},
	message + "ListReceipts": {to(func(w *world) *petrelv1.ListReceiptsRequest { return &petrelv1.ListReceiptsRequest{Conv: w.conv} }), members},

	admin + "CreateUsers": {to(func(w *world) *petrelv1.CreateUsersRequest {
		return &petrelv1.CreateUsersRequest{Users: []string{w.name("made")}}
	}), operator},
	admin + "RevokeTokens": {to(func(w *world) *petrelv1.RevokeTokensRequest {
		return &petrelv1.RevokeTokensRequest{User: w.name("member2")}
	}), operator},
	admin + "CreateGroup": {to(func(w *world) *petrelv1.AdminCreateGroupRequest {
		return &petrelv1.AdminCreateGroupRequest{Title: "x", Members: []*petrelv1.MemberRef{{User: w.name("member2")}}}
	}), operator},
	admin + "ChangeMembers": {to(func(w *world) *petrelv1.ChangeMembersRequest {
		return &petrelv1.ChangeMembersRequest{Conv: w.conv, Change: &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{{User: w.name("other2")}}}}
	}), operator},
	admin + "SendAs": {to(func(w *world) *petrelv1.SendAsRequest {
		return &petrelv1.SendAsRequest{From: w.name("member2"), Send: w.send()}
	}), operator},
	admin + "GetHistory": {to(func(w *world) *petrelv1.AdminGetHistoryRequest {
		return &petrelv1.AdminGetHistoryRequest{History: &petrelv1.GetHistory{Conv: w.conv}}
	}), operator},
	admin + "ListAudit":        {same(&petrelv1.ListAuditRequest{Limit: 1}), operator},
	admin + "VerifyAudit":      {same(&petrelv1.VerifyAuditRequest{}), operator},
	admin + "GetLimits":        {same(&petrelv1.GetLimitsRequest{}), operator},
	admin + "SetLimits":        {same(&petrelv1.ServerLimits{}), operator},
	admin + "GetStats":         {same(&petrelv1.GetStatsRequest{}), operator},
	admin + "CreateCheckpoint": {same(&petrelv1.CreateCheckpointRequest{}), operator},
	admin + "Compact":          {same(&petrelv1.CompactRequest{}), operator},
	admin + "ListUsers":        {same(&petrelv1.ListUsersRequest{Limit: 1}), operator},
	admin + "GetUser": {to(func(w *world) *petrelv1.AdminGetUserRequest {
		return &petrelv1.AdminGetUserRequest{User: w.name("member2")}
	}), operator},
	admin + "DisableUser": {to(func(w *world) *petrelv1.DisableUserRequest {
		return &petrelv1.DisableUserRequest{User: w.name("member2")}
	}), operator},
	admin + "EnableUser": {to(func(w *world) *petrelv1.EnableUserRequest {
		return &petrelv1.EnableUserRequest{User: w.name("member2")}
	}), operator},
	admin + "SetPassword": {to(func(w *world) *petrelv1.SetPasswordRequest {
		return &petrelv1.SetPasswordRequest{User: w.name("member2"), Password: password}
	}), operator},
	admin + "RevokeDevice": {to(func(w *world) *petrelv1.AdminRevokeDeviceRequest {
		return &petrelv1.AdminRevokeDeviceRequest{User: w.name("member2"), Device: w.name("member2")}
	}), operator},
	admin + "MintToken": {to(func(w *world) *petrelv1.MintTokenRequest {
		return &petrelv1.MintTokenRequest{User: w.name("member2"), Device: device("minted")}
	}), operator},
	admin + "LinkUser": {to(func(w *world) *petrelv1.LinkUserRequest {
		return &petrelv1.LinkUserRequest{User: w.name("member2")}
	}), "U U U U U U U U F US"}, // this server has no identity provider
	admin + "GetTenant":           {same(&petrelv1.GetTenantRequest{}), operator},
	admin + "SetRegistration":     {same(&petrelv1.SetRegistrationRequest{Registration: petrelv1.Registration_REGISTRATION_OPEN}), operator},
	admin + "SetFirstMessageRule": {same(&petrelv1.SetFirstMessageRuleRequest{Tenant: "ruled", FirstMessages: petrelv1.FirstMessages_FIRST_MESSAGES_REQUEST}), operator},
	admin + "SetProfileRules":     {same(&petrelv1.SetProfileRulesRequest{Tenant: "ruled", Managed: []string{"about"}}), operator},
	admin + "SetProfiles": {to(func(w *world) *petrelv1.SetProfilesRequest {
		return &petrelv1.SetProfilesRequest{Profiles: []*petrelv1.ProfileChange{{User: w.name("member2"), About: new("x")}}}
	}), operator},
	admin + "SetContacts": {to(func(w *world) *petrelv1.SetContactsRequest {
		return &petrelv1.SetContactsRequest{Pairs: []*petrelv1.ContactPair{{User: w.name("member"), Other: w.name("admin")}}}
	}), operator},
	admin + "ListContacts": {to(func(w *world) *petrelv1.ListUserContactsRequest {
		return &petrelv1.ListUserContactsRequest{User: w.name("member2")}
	}), operator},
	admin + "ListReports": {same(&petrelv1.ListReportsRequest{Limit: 1}), operator},
	admin + "GetReport": {to(func(w *world) *petrelv1.GetReportRequest {
		return &petrelv1.GetReportRequest{Report: w.report(), Context: true}
	}), operator},
	admin + "ResolveReport": {to(func(w *world) *petrelv1.ResolveReportRequest {
		return &petrelv1.ResolveReportRequest{Report: w.report(), Action: petrelv1.ReportAction_REPORT_ACTION_DISMISS}
	}), operator},
	admin + "SetReportRules": {same(&petrelv1.SetReportRulesRequest{Tenant: "ruled", Context: 3}), operator},
	admin + "MuteUser": {to(func(w *world) *petrelv1.MuteUserRequest {
		return &petrelv1.MuteUserRequest{User: w.name("member2")}
	}), operator},
	admin + "RestoreUser": {to(func(w *world) *petrelv1.RestoreUserRequest {
		return &petrelv1.RestoreUserRequest{User: w.name("member2")}
	}), operator},
	admin + "CreateInvitation": {same(&petrelv1.CreateInvitationRequest{}), operator},
	admin + "CreateKey":        {same(&petrelv1.CreateKeyRequest{Name: "x", Scopes: []string{"server"}}), operator},
	admin + "ListKeys":         {same(&petrelv1.ListKeysRequest{}), operator},
	admin + "RevokeKey": {to(func(w *world) *petrelv1.RevokeKeyRequest {
		return &petrelv1.RevokeKeyRequest{Id: w.makeKey("x", "server").Info.Id}
	}), operator},
	admin + "ListUserConversations": {to(func(w *world) *petrelv1.ListUserConversationsRequest {
		return &petrelv1.ListUserConversationsRequest{User: w.name("member2")}
	}), operator},
	admin + "ListMembers": {to(func(w *world) *petrelv1.AdminListMembersRequest {
		return &petrelv1.AdminListMembersRequest{Conv: w.conv}
	}), operator},
	admin + "RenameGroup": {to(func(w *world) *petrelv1.AdminRenameGroupRequest {
		return &petrelv1.AdminRenameGroupRequest{Conv: w.conv, Title: "x"}
	}), operator},
	admin + "DissolveGroup": {to(func(w *world) *petrelv1.AdminDissolveGroupRequest {
		return &petrelv1.AdminDissolveGroupRequest{Conv: w.conv}
	}), operator},
	admin + "GetOverview":   {same(&petrelv1.GetOverviewRequest{}), operator},
	admin + "ListRefusals":  {same(&petrelv1.ListRefusalsRequest{}), operator},
	admin + "ReadLog":       {same(&petrelv1.ReadLogRequest{}), operator},
	admin + "PreviewLimits": {same(&petrelv1.ServerLimits{}), operator},
	admin + "ListTenants":   {same(&petrelv1.ListTenantsRequest{}), operator},
	admin + "ListSessions": {to(func(w *world) *petrelv1.ListSessionsRequest {
		return &petrelv1.ListSessionsRequest{User: w.name("member2")}
	}), operator},
	admin + "TraceUser": {to(func(w *world) *petrelv1.TraceUserRequest {
		return &petrelv1.TraceUserRequest{User: w.name("member2")}
	}), operator},
	admin + "ListConversations": {same(&petrelv1.ListConversationsRequest{Limit: 1}), operator},
	admin + "GetConversation": {to(func(w *world) *petrelv1.AdminGetConversationRequest {
		return &petrelv1.AdminGetConversationRequest{Conv: w.conv}
	}), operator},
	admin + "FreezeConversation": {to(func(w *world) *petrelv1.FreezeConversationRequest {
		return &petrelv1.FreezeConversationRequest{Conv: w.conv, Frozen: true}
	}), operator},
	admin + "TraceMessage": {to(func(w *world) *petrelv1.TraceMessageRequest {
		return &petrelv1.TraceMessageRequest{Conv: w.conv, Seq: w.ownersMessage}
	}), operator},
	admin + "NoteBackup":    {same(&petrelv1.NoteBackupRequest{Backup: &petrelv1.BackupInfo{Name: "x", MadeMs: 1}}), operator},
	admin + "ListBackups":   {same(&petrelv1.ListBackupsRequest{}), operator},
	admin + "ListOperators": {same(&petrelv1.ListOperatorsRequest{}), operator},
	admin + "CreateOperator": {to(func(w *world) *petrelv1.CreateOperatorRequest {
		return &petrelv1.CreateOperatorRequest{Name: w.operatorName(), Scopes: []string{"users"}}
	}), operator},
	admin + "ChangeOperator": {to(func(w *world) *petrelv1.ChangeOperatorRequest {
		return &petrelv1.ChangeOperatorRequest{Name: w.makeOperator(), Disabled: true}
	}), operator},
	admin + "ResetOperator": {to(func(w *world) *petrelv1.ResetOperatorRequest {
		return &petrelv1.ResetOperatorRequest{Name: w.makeOperator()}
	}), operator},
	admin + "RemoveOperator": {to(func(w *world) *petrelv1.RemoveOperatorRequest {
		return &petrelv1.RemoveOperatorRequest{Name: w.makeOperator()}
	}), operator},

	operators + "BeginEnrollment": {same(&petrelv1.BeginEnrollmentRequest{Code: "x"}), "SC SC SC SC SC SC SC SC SC SC"},
	operators + "Enroll": {same(&petrelv1.EnrollRequest{Code: "x", Name: "carol", Password: "not the " + password, Secret: "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"}),
		"SC SC SC SC SC SC SC SC SC SC"},
	operators + "LogIn":      {same(&petrelv1.OperatorLogInRequest{Key: "x"}), "BC BC BC BC BC BC BC BC BC BC"},
	operators + "GetSession": {same(&petrelv1.GetOperatorSessionRequest{}), "U U U U U U U U ok ok"}, // whatever the key may do
	operators + "LogOut":     {same(&petrelv1.OperatorLogOutRequest{}), "U U U U U U U U ok ok"},

	admin + "GetCluster":       {same(&petrelv1.GetClusterRequest{}), operator},
	admin + "DrainNode":        {same(&petrelv1.DrainNodeRequest{Node: "x"}), alone},
	admin + "ResumeNode":       {same(&petrelv1.ResumeNodeRequest{Node: "x"}), alone},
	admin + "RebalanceCluster": {same(&petrelv1.RebalanceClusterRequest{}), alone},
	admin + "MovePartition":    {same(&petrelv1.MovePartitionRequest{Database: 1}), alone},
	admin + "FinalizeCluster":  {same(&petrelv1.FinalizeClusterRequest{}), alone},
}

// Outcomes of frames: without a credential the hello is missing, with a wrong
// one it is refused.
const (
	//               anonymous other left member admin owner revoked foreign noscope scope
	anySession    = "HE        ok    ok   ok     ok    ok    R       ok      U       U"
	frameAdmins   = "HE        NC    NM   F      ok    ok    R       NC      U       U"
	frameMembers  = "HE        NC    NM   ok     ok    ok    R       NC      U       U"
	framePastToo  = "HE        NC    ok   ok     ok    ok    R       NC      U       U"
	frameSender   = "HE        NC    NM   F      F     ok    R       NC      U       U"
	framePosition = framePastToo // up to what they may read
)

var frames = map[string]row{
	"hello": {to(func(w *world) *petrelv1.ClientFrame {
		return &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Hello{Hello: w.hello()}}
	}), "U ok ok ok ok ok R ok U U"},
	"send": {to(func(w *world) *petrelv1.ClientFrame { return sendFrame(w.send()) }), frameMembers},
	"send answer": {to(func(w *world) *petrelv1.ClientFrame {
		s := w.send()
		s.Rel = &petrelv1.Relations{ReplyTo: w.ownersMessage}
		return sendFrame(s)
	}), frameMembers},
	"send forward": {to(func(w *world) *petrelv1.ClientFrame {
		s := w.send()
		s.Conv, s.User, s.Body, s.Rel = "", w.name("member2"), nil, &petrelv1.Relations{ForwardOf: &petrelv1.Ref{Conv: w.conv, Seq: w.ownersMessage}}
		return sendFrame(s)
	}), "HE NT ok ok ok ok R NU U U"},
	"send edit": {to(func(w *world) *petrelv1.ClientFrame {
		s := w.send()
		s.Body = &petrelv1.Send_Edit{Edit: &petrelv1.Edit{Target: w.ownersMessage, Body: &petrelv1.Edit_Text{Text: "x"}}}
		return sendFrame(s)
	}), frameSender},
	"send recall": {to(func(w *world) *petrelv1.ClientFrame {
		s := w.send()
		s.Body = &petrelv1.Send_Recall{Recall: &petrelv1.Recall{Target: w.membersMessage}}
		return sendFrame(s)
	}), frameAdmins},
	"history": {to(func(w *world) *petrelv1.ClientFrame {
		return &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_History{History: &petrelv1.GetHistory{Conv: w.conv}}}
	}), framePastToo},
	"sync": {same(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Sync{Sync: &petrelv1.Sync{}}}), anySession},
	"cursor": {to(func(w *world) *petrelv1.ClientFrame {
		return &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Cursor{Cursor: &petrelv1.MoveCursor{Conv: w.conv, Read: 1}}}
	}), framePosition},
	"focus": {same(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Focus{Focus: &petrelv1.SetFocus{All: true}}}), anySession},
	// Nobody learns whether there is such a conversation.
	"watch": {to(func(w *world) *petrelv1.ClientFrame {
		return &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Watch{Watch: &petrelv1.SetWatch{Users: []string{w.name("member2"), "nobody"}, Conv: w.conv}}}
	}), anySession},
	"signal": {to(func(w *world) *petrelv1.ClientFrame {
		return &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Signal{Signal: &petrelv1.SendSignal{Conv: w.conv, Kind: "x"}}}
	}), anySession},
	"ping": {same(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Ping{Ping: &petrelv1.Ping{}}}), anySession},
	// A pong is not answered: the ping behind it is.
	"pong": {same(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Pong{Pong: &petrelv1.Pong{}}}), anySession},
	"call": {same(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Call{Call: &petrelv1.Call{
		Method: account + "GetAccount", Request: &petrelv1.Call_Json{Json: "{}"}}}}), anySession},
}

func sendFrame(s *petrelv1.Send) *petrelv1.ClientFrame {
	return &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Send{Send: s}}
}
