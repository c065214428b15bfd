package petrel

import (
	"context"
	"net/http"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// The methods of this file are the calls that chat clients need most; the rest
// go by Client.Call. They wait until the client is live, are
// repeated without harm when a connection ends before the answer, and are
// refused with an *Error.

const (
	conversationService = "petrel.v1.ConversationService/"
	accountService      = "petrel.v1.AccountService/"
	messageService      = "petrel.v1.MessageService/"
)

// change calls a method that makes one entry.
func (c *Client) change(ctx context.Context, method string, q proto.Message) error {
	return c.Call(ctx, conversationService+method, q, new(petrelv1.ChangeResponse))
}

// CreateGroup makes a group of the user, who owns it, and of others.
// Codes: invalid, no_user, rate_limited.
func (c *Client) CreateGroup(ctx context.Context, title string, users ...string) (conv string, err error) {
	r := new(petrelv1.CreateGroupResponse)
	err = c.Call(ctx, conversationService+"CreateGroup", &petrelv1.CreateGroupRequest{Title: title, Users: users}, r)
	return r.Conv, err
}

// RenameGroup gives a group another title. It takes an admin or the owner.
func (c *Client) RenameGroup(ctx context.Context, conv, title string) error {
	return c.change(ctx, "RenameGroup", &petrelv1.RenameGroupRequest{Conv: conv, Title: title})
}

// AddMembers adds users to a group. It takes an admin or the owner.
func (c *Client) AddMembers(ctx context.Context, conv string, users ...string) error {
	return c.change(ctx, "AddMembers", &petrelv1.AddMembersRequest{Conv: conv, Users: users})
}

// RemoveMembers removes users from a group. Admins remove members, the owner
// everybody else.
func (c *Client) RemoveMembers(ctx context.Context, conv string, users ...string) error {
	return c.change(ctx, "RemoveMembers", &petrelv1.RemoveMembersRequest{Conv: conv, Users: users})
}

// LeaveGroup leaves a group; its owner hands it over first.
func (c *Client) LeaveGroup(ctx context.Context, conv string) error {
	return c.change(ctx, "LeaveGroup", &petrelv1.LeaveGroupRequest{Conv: conv})
}

// SetRole makes a member an admin or an admin a member. It takes the owner.
func (c *Client) SetRole(ctx context.Context, conv, user string, role petrelv1.Role) error {
	return c.change(ctx, "SetRole", &petrelv1.SetRoleRequest{Conv: conv, User: user, Role: role})
}

// TransferOwnership makes a member the owner and the owner an admin.
func (c *Client) TransferOwnership(ctx context.Context, conv, user string) error {
	return c.change(ctx, "TransferOwnership", &petrelv1.TransferOwnershipRequest{Conv: conv, User: user})
}

// DissolveGroup ends a group for all. It takes the owner.
func (c *Client) DissolveGroup(ctx context.Context, conv string) error {
	return c.change(ctx, "DissolveGroup", &petrelv1.DissolveGroupRequest{Conv: conv})
}

// Members are those of a conversation, ascending by user: all pages of them.
func (c *Client) Members(ctx context.Context, conv string) ([]*petrelv1.MemberRef, error) {
	var out []*petrelv1.MemberRef
	q := &petrelv1.ListMembersRequest{Conv: conv}
	for {
		r := new(petrelv1.ListMembersResponse)
		if err := c.Call(ctx, conversationService+"ListMembers", q, r); err != nil {
			return nil, err
		}
		out = append(out, r.Members...)
		if !r.More || len(r.Members) == 0 {
			return out, nil
		}
		q.After = r.Members[len(r.Members)-1].User
	}
}

// LoadReceipts asks how far the members of a conversation are, for the ticks of
// a group; those of a direct conversation come by themselves. Spec: P-8.6.
func (c *Client) LoadReceipts(ctx context.Context, conv string) error {
	r := new(petrelv1.ListReceiptsResponse)
	if err := c.Call(ctx, messageService+"ListReceipts", &petrelv1.ListReceiptsRequest{Conv: conv}, r); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range r.Receipts {
		x.Conv = conv
		c.takeReceipt(x)
	}
	c.notify()
	return nil
}

// Devices are those of the user, the newest login first.
func (c *Client) Devices(ctx context.Context) ([]*petrelv1.Device, error) {
	r := new(petrelv1.ListDevicesResponse)
	err := c.Call(ctx, accountService+"ListDevices", &petrelv1.ListDevicesRequest{}, r)
	return r.Devices, err
}

// RevokeDevice voids the tokens of a device of the user and ends its sessions.
// Code: no_device.
func (c *Client) RevokeDevice(ctx context.Context, device string) error {
	return c.Call(ctx, accountService+"RevokeDevice", &petrelv1.RevokeDeviceRequest{Device: device}, new(petrelv1.RevokeDeviceResponse))
}

// GetUser finds a user by the exact id. Code: no_user.
func (c *Client) GetUser(ctx context.Context, user string) (*petrelv1.Account, error) {
	r := new(petrelv1.Account)
	err := c.Call(ctx, accountService+"GetUser", &petrelv1.GetUserRequest{User: user}, r)
	return r, err
}

// EditText replaces the text of an own message. It is sent like a message; the
// target shows it once it is stored. Spec: P-5.6.
func (c *Client) EditText(conv string, target uint64, text string) (*Outgoing, error) {
	return c.Send(Draft{Conv: conv, Edit: &petrelv1.Edit{Target: target, Body: &petrelv1.Edit_Text{Text: text}}})
}

// Recall empties a message. Spec: P-5.6.
func (c *Client) Recall(conv string, target uint64) (*Outgoing, error) {
	return c.Send(Draft{Conv: conv, Recall: &petrelv1.Recall{Target: target}})
}

// API are the generated clients of the server's HTTP API.
type API struct {
	Account       petrelv1connect.AccountServiceClient
	Conversations petrelv1connect.ConversationServiceClient
	Messages      petrelv1connect.MessageServiceClient
}

// NewAPI makes clients of the HTTP API at url (http:// or https://, host:port)
// that call as the user of the token, for programs without a long connection. h
// may be nil. Their errors are those of Connect; CodeOf reads them.
func NewAPI(url string, h *http.Client, source TokenSource) API {
	if h == nil {
		h = http.DefaultClient
	}
	as := Credentials(source)
	return API{
		Account:       petrelv1connect.NewAccountServiceClient(h, url, as),
		Conversations: petrelv1connect.NewConversationServiceClient(h, url, as),
		Messages:      petrelv1connect.NewMessageServiceClient(h, url, as),
	}
}
