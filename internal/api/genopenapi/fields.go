package main

// texts describe fields without a comment in the schema.
var texts = map[string]string{
	"requestId":   "chosen by the client, new for each call: a repeat with the same one changes nothing more and gets the same answer; at most 60 bytes, clause P-12.4",
	"tenant":      "empty: default",
	"password":    "8 to 1024 bytes",
	"newPassword": "8 to 1024 bytes",
	"conv":        "conversation id, 21 characters",
	"user":        "user id, 1 to 64 of A-Z a-z 0-9 . _ @ + -",
	"clientMsgId": "1 to 64 bytes, new for each message: 128 random bits, for example",
	"type":        "what kind of text or data it is, at most 64 bytes; empty: text",
	"after":       "exclusive: what the page begins behind",
	"before":      "exclusive; set: the page is the last entries below it",
	"title":       "at most 256 bytes",
	"more":        "there is more: ask again behind the last one",
	"timeMs":      "the server's clock, Unix milliseconds",
	"createdMs":   "Unix milliseconds",
	"head":        "seq of the newest entry",
}

// required are the fields without which a request is refused.
var required = map[string][]any{
	"RegisterRequest":              {"user", "password", "device"},
	"LoginRequest":                 {"user", "password", "device"},
	"RefreshRequest":               {"refreshToken"},
	"ExchangeRequest":              {"token", "device"},
	"ChangePasswordRequest":        {"oldPassword", "newPassword"},
	"RenameDeviceRequest":          {"device"},
	"RevokeDeviceRequest":          {"device"},
	"GetUserRequest":               {"user"},
	"ChangeSettingsRequest":        {"values"},
	"RenameGroupRequest":           {"conv", "title"},
	"AddMembersRequest":            {"conv", "users"},
	"RemoveMembersRequest":         {"conv", "users"},
	"LeaveGroupRequest":            {"conv"},
	"SetRoleRequest":               {"conv", "user", "role"},
	"TransferOwnershipRequest":     {"conv", "user"},
	"DissolveGroupRequest":         {"conv"},
	"GetConversationRequest":       {"conv"},
	"ListMembersRequest":           {"conv"},
	"Send":                         {"clientMsgId"},
	"GetHistory":                   {"conv"},
	"MoveCursor":                   {"conv"},
	"ListReceiptsRequest":          {"conv"},
	"RedeemRequest":                {"code"},
	"CreateUsersRequest":           {"users"},
	"RevokeTokensRequest":          {"user"},
	"AdminCreateGroupRequest":      {"members"},
	"ChangeMembersRequest":         {"conv", "change"},
	"SendAsRequest":                {"from", "send"},
	"AdminGetHistoryRequest":       {"history"},
	"AdminGetUserRequest":          {"user"},
	"DisableUserRequest":           {"user"},
	"EnableUserRequest":            {"user"},
	"SetPasswordRequest":           {"user", "password"},
	"AdminRevokeDeviceRequest":     {"user", "device"},
	"MintTokenRequest":             {"user", "device"},
	"CreateKeyRequest":             {"name", "scopes"},
	"RevokeKeyRequest":             {"id"},
	"ListUserConversationsRequest": {"user"},
	"AdminListMembersRequest":      {"conv"},
	"AdminRenameGroupRequest":      {"conv", "title"},
	"AdminDissolveGroupRequest":    {"conv"},
	"Edit":                         {"target"},
	"Recall":                       {"target"},
	"ReactRequest":                 {"conv", "seq", "emoji"},
	"PinRequest":                   {"conv", "seq"},
	"ListReactionsRequest":         {"conv", "seq"},
	"ListPinsRequest":              {"conv"},
	"MemberRef":                    {"user"},
	"DeviceRef":                    {"id"},
}

const (
	userPattern = `^[A-Za-z0-9._@+-]{1,64}$`
	uint64s     = `^(0|[1-9][0-9]{0,18}|1[0-7][0-9]{18}|18446744073709551615)$`
	limits      = `^(0|-?[1-9][0-9]{0,9})$`
)

// bounds are the bounds of request fields, by "Type.field". Bounds in bytes are in the texts, because a schema
// counts characters.
var bounds = map[string]object{
	"RegisterRequest.user":            {"pattern": userPattern},
	"MintTokenRequest.user":           {"pattern": userPattern},
	"MintTokenRequest.ttlS":           {"maximum": 2592000},
	"CreateUsersRequest.users":        {"maxItems": 1000, "items": object{"type": "string", "pattern": userPattern}},
	"AdminCreateGroupRequest.members": {"maxItems": 10000},
	"AddMembersRequest.users":         {"maxItems": 1000},
	"RemoveMembersRequest.users":      {"maxItems": 1000},
	"CreateKeyRequest.scopes": {"items": object{"type": "string",
		"enum": []any{"admin", "users", "tokens", "conversations", "messages", "server", "backup"}}},
	"ChangeSettingsRequest.values": {"minProperties": 1, "maxProperties": 64,
		"propertyNames": object{"minLength": 1}},
	"SetRoleRequest.role":      {"$ref": nil, "type": "string", "enum": []any{"ROLE_MEMBER", "ROLE_ADMIN"}},
	"Edit.target":              {"pattern": `^[1-9][0-9]{0,18}$`},
	"Recall.target":            {"pattern": `^[1-9][0-9]{0,18}$`},
	"ReactRequest.seq":         {"pattern": `^[1-9][0-9]{0,18}$`},
	"PinRequest.seq":           {"pattern": `^[1-9][0-9]{0,18}$`},
	"ListReactionsRequest.seq": {"pattern": `^[1-9][0-9]{0,18}$`},
	"ReactRequest.emoji":       {"maxLength": 8},
	"Send.needs":               {"maxItems": 16},
}

// skipped are the fields that an example leaves out.
var skipped = map[string][]string{
	"Send":         {"conv", "after", "data", "edit", "recall", "type", "needs", "rel"},
	"GetHistory":   {"before"},
	"Sync":         {"token"},
	"MemberChange": {"removed", "left", "roles", "dissolved"},
	"ServerLimits": {"connections", "connectionsPerUser", "connectionsPerIp", "newConnectionsPerIpPerS",
		"unauthenticated", "unauthenticatedPerIp", "windowSends", "windowBytes", "outboxBytes"},
	"CreateKeyRequest":             {"tenant"},
	"ChangeSettingsRequest":        {"conv"},
	"ListUserConversationsRequest": {"token"},
	"ListAuditRequest":             {"token", "sinceMs", "untilMs", "event", "who", "about", "descending"},
	"ListUsersRequest":             {"token", "namePrefix", "prefix", "byName", "descending"},
	"ListConversationsRequest":     {"token", "descending"},
	"VerifyAuditRequest":           {"heads"},
}

// examples are values of fields, by "Type.field" or by field.
var examples = object{
	"user": "alice", "from": "alice", "password": "correct horse battery staple", "displayName": "Alice",
	"oldPassword": "correct horse battery staple", "newPassword": "a better one still",
	"refreshToken": "pr_default.alice.…", "token": "eyJ…", "requestId": "5f0c1e9ab24d4e0f",
	"conv": "gKQtYt3wSdI4pbTbl9KK9", "title": "boat", "key": "team-7", "name": "phone of the kitchen", "kind": "phone",
	"id":          "phone-1",
	"clientMsgId": "7d1e02c94f3b4a55", "text": "hello", "limit": 50, "role": "ROLE_ADMIN", "read": "43", "newest": 1,
	"after": "0",
	"code":  "the code behind #k= of the setup link", "ttlS": 3600, "sendsPerS": "20", "sendBurst": "80",
	"device": "phone-1", "values": object{"theme": "dark"}, "seq": "43", "emoji": "👍",

	"DeviceRef.name": "phone of Alice", "MemberRef.user": "bob", "MemberRef.role": "ROLE_MEMBER", "Send.user": "bob",
	"TransferOwnershipRequest.user": "bob", "SetRoleRequest.user": "bob", "GetUserRequest.user": "bob",
	"ListMembersRequest.after": "bob", "ListReactionsRequest.after": "bob", "AdminListMembersRequest.after": "bob",
	"ListUsersRequest.after":   "alice",
	"CreateUsersRequest.users": []any{"alice", "bob"},
	"CreateKeyRequest.name":    "back end of the shop", "CreateKeyRequest.scopes": []any{"users", "tokens"},
	"RevokeKeyRequest.id": "53aa81f1dc019cdc",
}
