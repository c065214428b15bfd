package api

// access is the kind of credential that a method needs.
type access uint8

const (
	nobody  access = iota // the zero value: a method without a line below is denied
	anybody               // no credential
	aUser                 // an access token
	aKey                  // an admin key with the method's scope
)

// repetition says why a repeated call is safe. Spec: P-12.4.
type repetition uint8

const (
	reads    repetition = iota // changes nothing
	recorded                   // the answer is kept under its request id
	entry                      // the id of the conversation entry that it makes follows from the request id
	natural                    // safe without a request id: it has another id, or leaves the same state
)

// method is the row of one method in the table.
type method struct {
	serve  handler // the function that answers it
	access access
	scope  string // of an admin key; "admin" covers all
	repeat repetition
	paced  bool // counts as a send of the user
	turn   bool // an expensive read: waits for its turn among them
	public bool // others read what the caller writes by it: refused while the caller is muted
	slow   bool // may take minutes
	inside bool // for operators, though it needs none of their scopes
	follow bool // can be answered again and again: the timeMs of an answer is the afterMs of the next request
	trace  tracing
	login  string // how it logs somebody in, as metrics call it; "": it does not
}

// The scopes of admin keys. Spec: P-10.6.
const (
	scopeAdmin         = "admin"
	scopeUsers         = "users"
	scopeTokens        = "tokens"
	scopeConversations = "conversations"
	scopeMessages      = "messages"
	scopeServer        = "server"
	scopeBackup        = "backup"

	scopeAny = "any" // every key may call, whatever its scopes
)

// table has all methods that are served, and says who may call them. A method of the schema without a row here is
// denied, and a test fails.
var table = map[string]method{
	"petrel.v1.SetupService/Redeem": {serve: unary((*Server).Redeem), access: anybody, repeat: natural, inside: true,
		trace: durably},

	"petrel.v1.OperatorService/BeginEnrollment": {serve: unary((*Server).BeginEnrollment), access: anybody,
		inside: true},
	"petrel.v1.OperatorService/Enroll": {serve: unary((*Server).Enroll), access: anybody, repeat: natural,
		inside: true, trace: durably},
	"petrel.v1.OperatorService/LogIn": {serve: unary((*Server).LogIn), access: anybody, repeat: natural,
		inside: true, trace: durably, login: "operator"},
	"petrel.v1.OperatorService/GetSession": {serve: unary((*Server).GetSession), access: aKey, scope: scopeAny,
		inside: true},
	"petrel.v1.OperatorService/LogOut": {serve: unary((*Server).LogOut), access: aKey, scope: scopeAny,
		repeat: natural, inside: true},

	"petrel.v1.AuthService/Register": {serve: unary((*Server).Register), access: anybody, repeat: recorded,
		trace: lazily, login: "register"},
	"petrel.v1.AuthService/Login": {serve: unary((*Server).Login), access: anybody, repeat: recorded, trace: lazily,
		login: "password"},
	"petrel.v1.AuthService/Refresh": {serve: unary((*Server).Refresh), access: anybody, repeat: natural,
		login: "refresh"},
	"petrel.v1.AuthService/Exchange": {serve: unary((*Server).Exchange), access: anybody, repeat: recorded,
		trace: lazily, login: "jwt"},

	"petrel.v1.AccountService/GetAccount": {serve: unary((*Server).GetAccount), access: aUser},
	"petrel.v1.AccountService/UpdateAccount": {serve: unary((*Server).UpdateAccount), access: aUser,
		repeat: recorded, paced: true, public: true},
	"petrel.v1.AccountService/SetAddPolicy": {serve: unary((*Server).SetAddPolicy), access: aUser,
		repeat: recorded, paced: true},
	"petrel.v1.AccountService/SetForwardPolicy": {serve: unary((*Server).SetForwardPolicy), access: aUser,
		repeat: recorded, paced: true},
	"petrel.v1.AccountService/SetPresencePolicy": {serve: unary((*Server).SetPresencePolicy), access: aUser,
		repeat: recorded, paced: true},
	"petrel.v1.AccountService/SetFirstMessages": {serve: unary((*Server).SetFirstMessages), access: aUser,
		repeat: recorded, paced: true},
	"petrel.v1.AccountService/SetPrivateReading": {serve: unary((*Server).SetPrivateReading), access: aUser,
		repeat: recorded, paced: true},
	"petrel.v1.AccountService/ChangePassword": {serve: unary((*Server).ChangePassword), access: aUser,
		repeat: recorded, trace: lazily},
	"petrel.v1.AccountService/ListDevices": {serve: unary((*Server).ListDevices), access: aUser},
	"petrel.v1.AccountService/RenameDevice": {serve: unary((*Server).RenameDevice), access: aUser,
		repeat: recorded, paced: true},
	"petrel.v1.AccountService/RevokeDevice": {serve: unary((*Server).RevokeDevice), access: aUser,
		repeat: recorded, trace: lazily},
	"petrel.v1.AccountService/Logout": {serve: unary((*Server).Logout), access: aUser, repeat: recorded,
		trace: lazily},
	"petrel.v1.AccountService/GetUser":     {serve: unary((*Server).GetUser), access: aUser},
	"petrel.v1.AccountService/GetUsers":    {serve: unary((*Server).GetUsers), access: aUser, turn: true},
	"petrel.v1.AccountService/GetSettings": {serve: unary((*Server).GetSettings), access: aUser},
	"petrel.v1.AccountService/ChangeSettings": {serve: unary((*Server).ChangeSettings), access: aUser,
		repeat: recorded, paced: true},
	"petrel.v1.AccountService/Report": {serve: unary((*Server).Report), access: aUser, repeat: recorded,
		paced: true},
	"petrel.v1.AccountService/DeleteAccount": {serve: unary((*Server).DeleteAccount), access: aUser,
		repeat: natural, trace: durably},

	"petrel.v1.ContactService/RequestContact": {serve: unary((*Server).RequestContact), access: aUser,
		repeat: recorded, paced: true, public: true},
	"petrel.v1.ContactService/AcceptContact": {serve: unary((*Server).AcceptContact), access: aUser,
		repeat: recorded, paced: true},
	"petrel.v1.ContactService/RefuseContact": {serve: unary((*Server).RefuseContact), access: aUser,
		repeat: recorded, paced: true},
	"petrel.v1.ContactService/WithdrawContact": {serve: unary((*Server).WithdrawContact), access: aUser,
		repeat: recorded, paced: true},
	"petrel.v1.ContactService/RemoveContact": {serve: unary((*Server).RemoveContact), access: aUser,
		repeat: recorded, paced: true},
	"petrel.v1.ContactService/SetRemark": {serve: unary((*Server).SetRemark), access: aUser, repeat: recorded,
		paced: true},
	"petrel.v1.ContactService/AcceptMessages": {serve: unary((*Server).AcceptMessages), access: aUser,
		repeat: recorded, paced: true},
	"petrel.v1.ContactService/RefuseMessages": {serve: unary((*Server).RefuseMessages), access: aUser,
		repeat: recorded, paced: true},
	"petrel.v1.ContactService/ListContacts": {serve: unary((*Server).ListContacts), access: aUser},

	"petrel.v1.ConversationService/CreateGroup": {serve: unary((*Server).CreateGroup), access: aUser,
		repeat: entry},
	"petrel.v1.ConversationService/RenameGroup": {serve: unary((*Server).RenameGroup), access: aUser,
		repeat: entry, paced: true},
	"petrel.v1.ConversationService/AddMembers": {serve: unary((*Server).AddMembers), access: aUser,
		repeat: entry, paced: true},
	"petrel.v1.ConversationService/RemoveMembers": {serve: unary((*Server).RemoveMembers), access: aUser,
		repeat: entry, paced: true},
	"petrel.v1.ConversationService/LeaveGroup": {serve: unary((*Server).LeaveGroup), access: aUser,
		repeat: entry, paced: true},
	"petrel.v1.ConversationService/SetRole": {serve: unary((*Server).SetRole), access: aUser, repeat: entry,
		paced: true},
	"petrel.v1.ConversationService/TransferOwnership": {serve: unary((*Server).TransferOwnership), access: aUser,
		repeat: entry, paced: true},
	"petrel.v1.ConversationService/DissolveGroup": {serve: unary((*Server).DissolveGroup), access: aUser,
		repeat: entry, paced: true},
	"petrel.v1.ConversationService/GetConversation": {serve: unary(inConv((*Server).GetConversation)), access: aUser},
	"petrel.v1.ConversationService/ListMembers":     {serve: unary(inConv((*Server).ListMembers)), access: aUser},

	"petrel.v1.MessageService/Send": {serve: unary((*Server).Send), access: aUser, repeat: natural,
		paced: true},
	"petrel.v1.MessageService/GetHistory": {serve: unary((*Server).GetHistory), access: aUser, turn: true},
	"petrel.v1.MessageService/Sync":       {serve: unary((*Server).Sync), access: aUser, turn: true},
	"petrel.v1.MessageService/MoveCursor": {serve: unary(inConv((*Server).MoveCursor)), access: aUser,
		repeat: natural},
	"petrel.v1.MessageService/ListReceipts": {serve: unary(inConv((*Server).ListReceipts)), access: aUser, turn: true},
	"petrel.v1.MessageService/React": {serve: unary(inConv((*Server).React)), access: aUser, repeat: natural,
		public: true},
	"petrel.v1.MessageService/Pin": {serve: unary(inConv((*Server).Pin)), access: aUser, repeat: natural,
		public: true},
	"petrel.v1.MessageService/ListReactions": {serve: unary(inConv((*Server).ListReactions)), access: aUser,
		turn: true},
	"petrel.v1.MessageService/ListPins": {serve: unary(inConv((*Server).ListPins)), access: aUser, turn: true},

	"petrel.v1.AdminService/CreateUsers": {serve: unary((*Server).CreateUsers), access: aKey,
		scope: scopeTokens, repeat: natural},
	"petrel.v1.AdminService/RevokeTokens": {serve: unary(inTenant((*Server).RevokeTokens)), access: aKey,
		scope: scopeTokens, repeat: natural},
	"petrel.v1.AdminService/MintToken": {serve: unary((*Server).MintToken), access: aKey,
		scope: scopeTokens, repeat: recorded, login: "minted"},
	"petrel.v1.AdminService/ListUsers": {serve: unary(inTenant((*Server).ListUsers)), access: aKey,
		scope: scopeUsers, turn: true},
	"petrel.v1.AdminService/GetUser": {serve: unary(ofUser((*Server).AdminGetUser)), access: aKey,
		scope: scopeUsers},
	"petrel.v1.AdminService/DisableUser": {serve: unary(ofUser((*Server).DisableUser)), access: aKey,
		scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/EnableUser": {serve: unary(ofUser((*Server).EnableUser)), access: aKey,
		scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/SetPassword": {serve: unary(ofUser((*Server).SetPassword)), access: aKey,
		scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/LinkUser": {serve: unary(ofUser((*Server).LinkUser)), access: aKey,
		scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/GetTenant": {serve: unary((*Server).GetTenant), access: aKey,
		scope: scopeUsers},
	"petrel.v1.AdminService/SetRegistration": {serve: unary((*Server).SetRegistration), access: aKey,
		scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/SetProfileRules": {serve: unary((*Server).SetProfileRules), access: aKey,
		scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/SetFirstMessageRule": {serve: unary((*Server).SetFirstMessageRule), access: aKey,
		scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/SetProfiles": {serve: unary(inTenant((*Server).SetProfiles)), access: aKey,
		scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/SetContacts": {serve: unary(inTenant((*Server).SetContacts)), access: aKey,
		scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/ListContacts": {serve: unary(inTenant((*Server).ListContactsOf)), access: aKey,
		scope: scopeUsers, turn: true},
	"petrel.v1.AdminService/ListReports": {serve: unary(inTenant((*Server).ListReports)), access: aKey,
		scope: scopeMessages, turn: true},
	"petrel.v1.AdminService/GetReport": {serve: unary(inTenant((*Server).GetReport)), access: aKey,
		scope: scopeMessages},
	"petrel.v1.AdminService/ResolveReport": {serve: unary(inTenant((*Server).ResolveReport)), access: aKey,
		scope: scopeMessages, repeat: recorded},
	"petrel.v1.AdminService/SetReportRules": {serve: unary((*Server).SetReportRules), access: aKey,
		scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/MuteUser": {serve: unary(ofUser((*Server).MuteUser)), access: aKey,
		scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/RestoreUser": {serve: unary(ofUser((*Server).RestoreUser)), access: aKey,
		scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/CreateInvitation": {serve: unary((*Server).CreateInvitation), access: aKey,
		scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/RevokeDevice": {serve: unary(ofUser((*Server).AdminRevokeDevice)), access: aKey,
		scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/CreateGroup": {serve: unary(inTenant((*Server).AdminCreateGroup)), access: aKey,
		scope: scopeConversations, repeat: natural},
	"petrel.v1.AdminService/ChangeMembers": {serve: unary(ofConv((*Server).ChangeMembers)), access: aKey,
		scope: scopeConversations, repeat: entry},
	"petrel.v1.AdminService/RenameGroup": {serve: unary(ofConv((*Server).AdminRenameGroup)), access: aKey,
		scope: scopeConversations, repeat: entry},
	"petrel.v1.AdminService/DissolveGroup": {serve: unary(ofConv((*Server).AdminDissolveGroup)), access: aKey,
		scope: scopeConversations, repeat: entry},
	"petrel.v1.AdminService/ListUserConversations": {serve: unary(ofUser((*Server).ListUserConversations)),
		access: aKey, scope: scopeConversations, trace: durably, turn: true},
	"petrel.v1.AdminService/ListMembers": {serve: unary(ofConv((*Server).AdminListMembers)), access: aKey,
		scope: scopeConversations},
	"petrel.v1.AdminService/SendAs": {serve: unary(inTenant((*Server).SendAs)), access: aKey,
		scope: scopeMessages, repeat: natural, trace: summed},
	"petrel.v1.AdminService/GetHistory": {serve: unary(inTenant((*Server).AdminGetHistory)), access: aKey,
		scope: scopeMessages, trace: durably, turn: true},
	"petrel.v1.AdminService/GetLimits": {serve: unary((*Server).GetLimits), access: aKey,
		scope: scopeServer},
	"petrel.v1.AdminService/SetLimits": {serve: unary((*Server).SetLimits), access: aKey,
		scope: scopeServer, repeat: natural},
	"petrel.v1.AdminService/GetStats": {serve: unary((*Server).GetStats), access: aKey,
		scope: scopeServer},
	"petrel.v1.AdminService/Compact": {serve: unary((*Server).Compact), access: aKey, scope: scopeServer,
		repeat: natural, slow: true},
	"petrel.v1.AdminService/CreateCheckpoint": {serve: unary((*Server).CreateCheckpoint), access: aKey,
		scope: scopeBackup, repeat: natural, slow: true},
	"petrel.v1.AdminService/GetCluster": {serve: unary((*Server).GetCluster), access: aKey,
		scope: scopeServer},
	"petrel.v1.AdminService/DrainNode": {serve: unary((*Server).DrainNode), access: aKey,
		scope: scopeServer, repeat: natural, slow: true},
	"petrel.v1.AdminService/ResumeNode": {serve: unary((*Server).ResumeNode), access: aKey,
		scope: scopeServer, repeat: natural, slow: true},
	"petrel.v1.AdminService/RebalanceCluster": {serve: unary((*Server).RebalanceCluster), access: aKey,
		scope: scopeServer, repeat: natural, slow: true},
	"petrel.v1.AdminService/MovePartition": {serve: unary((*Server).MovePartition), access: aKey,
		scope: scopeServer, repeat: natural, slow: true},
	"petrel.v1.AdminService/FinalizeCluster": {serve: unary((*Server).FinalizeCluster), access: aKey,
		scope: scopeServer, repeat: natural, slow: true},
	"petrel.v1.AdminService/CreateKey": {serve: unary((*Server).CreateKey), access: aKey, scope: scopeAdmin,
		repeat: recorded},
	"petrel.v1.AdminService/ListKeys": {serve: unary((*Server).ListKeys), access: aKey, scope: scopeAdmin},
	"petrel.v1.AdminService/RevokeKey": {serve: unary((*Server).RevokeKey), access: aKey, scope: scopeAdmin,
		repeat: recorded},
	"petrel.v1.AdminService/GetOverview": {serve: unary((*Server).GetOverview), access: aKey,
		scope: scopeServer, follow: true},
	"petrel.v1.AdminService/ListRefusals": {serve: unary((*Server).ListRefusals), access: aKey,
		scope: scopeServer},
	"petrel.v1.AdminService/ReadLog": {serve: unary((*Server).ReadLog), access: aKey, scope: scopeServer},
	"petrel.v1.AdminService/PreviewLimits": {serve: unary((*Server).PreviewLimits), access: aKey,
		scope: scopeServer},
	"petrel.v1.AdminService/ListTenants": {serve: unary((*Server).ListTenants), access: aKey,
		scope: scopeUsers},
	"petrel.v1.AdminService/ListSessions": {serve: unary(ofUser((*Server).ListSessions)), access: aKey,
		scope: scopeUsers},
	"petrel.v1.AdminService/TraceUser": {serve: unary((*Server).TraceUser), access: aKey,
		scope: scopeUsers},
	"petrel.v1.AdminService/ListConversations": {serve: unary(inTenant((*Server).ListConversations)), access: aKey,
		scope: scopeConversations, turn: true},
	"petrel.v1.AdminService/GetConversation": {serve: unary(ofConv((*Server).AdminGetConversation)), access: aKey,
		scope: scopeConversations, turn: true},
	"petrel.v1.AdminService/FreezeConversation": {serve: unary(ofConv((*Server).FreezeConversation)), access: aKey,
		scope: scopeConversations, repeat: entry},
	"petrel.v1.AdminService/TraceMessage": {serve: unary((*Server).TraceMessage), access: aKey,
		scope: scopeMessages},
	"petrel.v1.AdminService/NoteBackup": {serve: unary((*Server).NoteBackup), access: aKey,
		scope: scopeBackup, repeat: natural},
	"petrel.v1.AdminService/ListBackups": {serve: unary((*Server).ListBackups), access: aKey,
		scope: scopeBackup},
	"petrel.v1.AdminService/ListOperators": {serve: unary((*Server).ListOperators), access: aKey,
		scope: scopeAdmin},
	"petrel.v1.AdminService/CreateOperator": {serve: unary((*Server).CreateOperator), access: aKey,
		scope: scopeAdmin, repeat: recorded},
	"petrel.v1.AdminService/ChangeOperator": {serve: unary((*Server).ChangeOperator), access: aKey,
		scope: scopeAdmin, repeat: recorded},
	"petrel.v1.AdminService/ResetOperator": {serve: unary((*Server).ResetOperator), access: aKey,
		scope: scopeAdmin, repeat: recorded},
	"petrel.v1.AdminService/RemoveOperator": {serve: unary((*Server).RemoveOperator), access: aKey,
		scope: scopeAdmin, repeat: recorded},
	"petrel.v1.AdminService/ListAudit": {serve: unary((*Server).ListAudit), access: aKey, scope: scopeAdmin,
		turn: true},
	"petrel.v1.AdminService/VerifyAudit": {serve: unary((*Server).VerifyAudit), access: aKey,
		scope: scopeAdmin, slow: true},
}

// Credential returns the kind of credential that a method, "petrel.v1.Service/Method", needs: "" none, "token" an
// access token, "key" an admin key with the scope. With the scope "any" every admin key will do.
func Credential(method string) (kind, scope string) {
	switch m := table[method]; m.access {
	case aUser:
		return "token", ""
	case aKey:
		return "key", m.scope
	}
	return "", ""
}
