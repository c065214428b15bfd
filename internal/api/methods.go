package api

// access says whose credential a method asks for.
type access uint8

const (
	nobody  access = iota // the zero value: a method without a line below is denied
	anybody               // no credential
	aUser                 // an access token
	aKey                  // an admin key with the method's scope
)

// repetition says what makes a repeated call safe. Spec: P-12.4.
type repetition uint8

const (
	reads    repetition = iota // changes nothing
	recorded                   // the answer is kept under its request id
	entry                      // an entry of a conversation, whose id follows from the request id
	natural                    // without a request id: another id of its own, or the same state after it
)

// method is what the table says of one method.
type method struct {
	access access
	scope  string // of an admin key; "admin" covers all
	repeat repetition
	slow   bool // may take minutes
	inside bool // for operators, though it needs no scope of theirs
	follow bool // can be answered again and again: the timeMs of an answer is the afterMs of the next request
	trace  tracing
	login  string // logs somebody in: how
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

	scopeAny = "any" // whatever the key may do
)

// table is of all methods that are served. It decides who may
// call what; a method of the schema without a line here is denied, and a test
// fails.
var table = map[string]method{
	"petrel.v1.SetupService/Redeem": {access: anybody, repeat: natural, inside: true, trace: durably},

	"petrel.v1.OperatorService/BeginEnrollment": {access: anybody, inside: true},
	"petrel.v1.OperatorService/Enroll":          {access: anybody, repeat: natural, inside: true, trace: durably},
	"petrel.v1.OperatorService/LogIn":           {access: anybody, repeat: natural, inside: true, trace: durably, login: "operator"},
	"petrel.v1.OperatorService/GetSession":      {access: aKey, scope: scopeAny, inside: true},
	"petrel.v1.OperatorService/LogOut":          {access: aKey, scope: scopeAny, repeat: natural, inside: true},

	"petrel.v1.AuthService/Register": {access: anybody, repeat: recorded, trace: lazily, login: "register"},
	"petrel.v1.AuthService/Login":    {access: anybody, repeat: recorded, trace: lazily, login: "password"},
	"petrel.v1.AuthService/Refresh":  {access: anybody, repeat: natural, login: "refresh"},
	"petrel.v1.AuthService/Exchange": {access: anybody, repeat: recorded, trace: lazily, login: "jwt"},

	"petrel.v1.AccountService/GetAccount":        {access: aUser},
	"petrel.v1.AccountService/UpdateAccount":     {access: aUser, repeat: recorded},
	"petrel.v1.AccountService/SetAddPolicy":      {access: aUser, repeat: recorded},
	"petrel.v1.AccountService/SetForwardPolicy":  {access: aUser, repeat: recorded},
	"petrel.v1.AccountService/SetPresencePolicy": {access: aUser, repeat: recorded},
	"petrel.v1.AccountService/ChangePassword":    {access: aUser, repeat: recorded, trace: lazily},
	"petrel.v1.AccountService/ListDevices":       {access: aUser},
	"petrel.v1.AccountService/RenameDevice":      {access: aUser, repeat: recorded},
	"petrel.v1.AccountService/RevokeDevice":      {access: aUser, repeat: recorded, trace: lazily},
	"petrel.v1.AccountService/Logout":            {access: aUser, repeat: recorded, trace: lazily},
	"petrel.v1.AccountService/GetUser":           {access: aUser},
	"petrel.v1.AccountService/GetSettings":       {access: aUser},
	"petrel.v1.AccountService/ChangeSettings":    {access: aUser, repeat: recorded},

	"petrel.v1.ConversationService/CreateGroup":       {access: aUser, repeat: entry},
	"petrel.v1.ConversationService/RenameGroup":       {access: aUser, repeat: entry},
	"petrel.v1.ConversationService/AddMembers":        {access: aUser, repeat: entry},
	"petrel.v1.ConversationService/RemoveMembers":     {access: aUser, repeat: entry},
	"petrel.v1.ConversationService/LeaveGroup":        {access: aUser, repeat: entry},
	"petrel.v1.ConversationService/SetRole":           {access: aUser, repeat: entry},
	"petrel.v1.ConversationService/TransferOwnership": {access: aUser, repeat: entry},
	"petrel.v1.ConversationService/DissolveGroup":     {access: aUser, repeat: entry},
	"petrel.v1.ConversationService/GetConversation":   {access: aUser},
	"petrel.v1.ConversationService/ListMembers":       {access: aUser},

	"petrel.v1.MessageService/Send":          {access: aUser, repeat: natural},
	"petrel.v1.MessageService/GetHistory":    {access: aUser},
	"petrel.v1.MessageService/Sync":          {access: aUser},
	"petrel.v1.MessageService/MoveCursor":    {access: aUser, repeat: natural},
	"petrel.v1.MessageService/ListReceipts":  {access: aUser},
	"petrel.v1.MessageService/React":         {access: aUser, repeat: natural},
	"petrel.v1.MessageService/Pin":           {access: aUser, repeat: natural},
	"petrel.v1.MessageService/ListReactions": {access: aUser},
	"petrel.v1.MessageService/ListPins":      {access: aUser},

	"petrel.v1.AdminService/CreateUsers":           {access: aKey, scope: scopeTokens, repeat: natural},
	"petrel.v1.AdminService/RevokeTokens":          {access: aKey, scope: scopeTokens, repeat: natural},
	"petrel.v1.AdminService/MintToken":             {access: aKey, scope: scopeTokens, repeat: recorded, login: "minted"},
	"petrel.v1.AdminService/ListUsers":             {access: aKey, scope: scopeUsers},
	"petrel.v1.AdminService/GetUser":               {access: aKey, scope: scopeUsers},
	"petrel.v1.AdminService/DisableUser":           {access: aKey, scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/EnableUser":            {access: aKey, scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/SetPassword":           {access: aKey, scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/LinkUser":              {access: aKey, scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/GetTenant":             {access: aKey, scope: scopeUsers},
	"petrel.v1.AdminService/SetRegistration":       {access: aKey, scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/CreateInvitation":      {access: aKey, scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/RevokeDevice":          {access: aKey, scope: scopeUsers, repeat: recorded},
	"petrel.v1.AdminService/CreateGroup":           {access: aKey, scope: scopeConversations, repeat: natural},
	"petrel.v1.AdminService/ChangeMembers":         {access: aKey, scope: scopeConversations, repeat: entry},
	"petrel.v1.AdminService/RenameGroup":           {access: aKey, scope: scopeConversations, repeat: entry},
	"petrel.v1.AdminService/DissolveGroup":         {access: aKey, scope: scopeConversations, repeat: entry},
	"petrel.v1.AdminService/ListUserConversations": {access: aKey, scope: scopeConversations, trace: durably},
	"petrel.v1.AdminService/ListMembers":           {access: aKey, scope: scopeConversations},
	"petrel.v1.AdminService/SendAs":                {access: aKey, scope: scopeMessages, repeat: natural, trace: summed},
	"petrel.v1.AdminService/GetHistory":            {access: aKey, scope: scopeMessages, trace: durably},
	"petrel.v1.AdminService/GetLimits":             {access: aKey, scope: scopeServer},
	"petrel.v1.AdminService/SetLimits":             {access: aKey, scope: scopeServer, repeat: natural},
	"petrel.v1.AdminService/GetStats":              {access: aKey, scope: scopeServer},
	"petrel.v1.AdminService/Compact":               {access: aKey, scope: scopeServer, repeat: natural, slow: true},
	"petrel.v1.AdminService/CreateCheckpoint":      {access: aKey, scope: scopeBackup, repeat: natural, slow: true},
	"petrel.v1.AdminService/GetCluster":            {access: aKey, scope: scopeServer},
	"petrel.v1.AdminService/DrainNode":             {access: aKey, scope: scopeServer, repeat: natural, slow: true},
	"petrel.v1.AdminService/ResumeNode":            {access: aKey, scope: scopeServer, repeat: natural, slow: true},
	"petrel.v1.AdminService/RebalanceCluster":      {access: aKey, scope: scopeServer, repeat: natural, slow: true},
	"petrel.v1.AdminService/MovePartition":         {access: aKey, scope: scopeServer, repeat: natural, slow: true},
	"petrel.v1.AdminService/FinalizeCluster":       {access: aKey, scope: scopeServer, repeat: natural, slow: true},
	"petrel.v1.AdminService/CreateKey":             {access: aKey, scope: scopeAdmin, repeat: recorded},
	"petrel.v1.AdminService/ListKeys":              {access: aKey, scope: scopeAdmin},
	"petrel.v1.AdminService/RevokeKey":             {access: aKey, scope: scopeAdmin, repeat: recorded},
	"petrel.v1.AdminService/GetOverview":           {access: aKey, scope: scopeServer, follow: true},
	"petrel.v1.AdminService/ListRefusals":          {access: aKey, scope: scopeServer},
	"petrel.v1.AdminService/ReadLog":               {access: aKey, scope: scopeServer},
	"petrel.v1.AdminService/PreviewLimits":         {access: aKey, scope: scopeServer},
	"petrel.v1.AdminService/ListTenants":           {access: aKey, scope: scopeUsers},
	"petrel.v1.AdminService/ListSessions":          {access: aKey, scope: scopeUsers},
	"petrel.v1.AdminService/TraceUser":             {access: aKey, scope: scopeUsers},
	"petrel.v1.AdminService/ListConversations":     {access: aKey, scope: scopeConversations},
	"petrel.v1.AdminService/GetConversation":       {access: aKey, scope: scopeConversations},
	"petrel.v1.AdminService/FreezeConversation":    {access: aKey, scope: scopeConversations, repeat: entry},
	"petrel.v1.AdminService/TraceMessage":          {access: aKey, scope: scopeMessages},
	"petrel.v1.AdminService/NoteBackup":            {access: aKey, scope: scopeBackup, repeat: natural},
	"petrel.v1.AdminService/ListBackups":           {access: aKey, scope: scopeBackup},
	"petrel.v1.AdminService/ListOperators":         {access: aKey, scope: scopeAdmin},
	"petrel.v1.AdminService/CreateOperator":        {access: aKey, scope: scopeAdmin, repeat: recorded},
	"petrel.v1.AdminService/ChangeOperator":        {access: aKey, scope: scopeAdmin, repeat: recorded},
	"petrel.v1.AdminService/ResetOperator":         {access: aKey, scope: scopeAdmin, repeat: recorded},
	"petrel.v1.AdminService/RemoveOperator":        {access: aKey, scope: scopeAdmin, repeat: recorded},
	"petrel.v1.AdminService/ListAudit":             {access: aKey, scope: scopeAdmin},
	"petrel.v1.AdminService/VerifyAudit":           {access: aKey, scope: scopeAdmin, slow: true},
}

// Credential tells what a call of a method, "petrel.v1.Service/Method", carries:
// "" nothing, "token" an access token, "key" an admin key with a scope; "any": with whichever.
func Credential(method string) (kind, scope string) {
	switch m := table[method]; m.access {
	case aUser:
		return "token", ""
	case aKey:
		return "key", m.scope
	}
	return "", ""
}
