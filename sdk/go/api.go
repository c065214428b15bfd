package petrel

import (
	"context"
	"maps"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// The methods of this file are the API calls that chat clients need most; Client.Call makes the others. They wait
// until the client is live. A call whose connection ends before the answer is repeated without harm. A refusal is
// an *Error.

const (
	conversationService = "petrel.v1.ConversationService/"
	accountService      = "petrel.v1.AccountService/"
	contactService      = "petrel.v1.ContactService/"
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

// RenameGroup gives a group another title. Only an admin or the owner may do so.
func (c *Client) RenameGroup(ctx context.Context, conv, title string) error {
	return c.change(ctx, "RenameGroup", &petrelv1.RenameGroupRequest{Conv: conv, Title: title})
}

// AddMembers adds users to a group. Only an admin or the owner may do so.
func (c *Client) AddMembers(ctx context.Context, conv string, users ...string) error {
	return c.change(ctx, "AddMembers", &petrelv1.AddMembersRequest{Conv: conv, Users: users})
}

// RemoveMembers removes users from a group. An admin may remove members, the owner also admins.
func (c *Client) RemoveMembers(ctx context.Context, conv string, users ...string) error {
	return c.change(ctx, "RemoveMembers", &petrelv1.RemoveMembersRequest{Conv: conv, Users: users})
}

// LeaveGroup leaves a group. The owner has to transfer the ownership first.
func (c *Client) LeaveGroup(ctx context.Context, conv string) error {
	return c.change(ctx, "LeaveGroup", &petrelv1.LeaveGroupRequest{Conv: conv})
}

// SetRole makes a member an admin or an admin a member. Only the owner may do so.
func (c *Client) SetRole(ctx context.Context, conv, user string, role petrelv1.Role) error {
	return c.change(ctx, "SetRole", &petrelv1.SetRoleRequest{Conv: conv, User: user, Role: role})
}

// TransferOwnership makes a member the owner and the owner an admin. Only the owner may do so.
func (c *Client) TransferOwnership(ctx context.Context, conv, user string) error {
	return c.change(ctx, "TransferOwnership", &petrelv1.TransferOwnershipRequest{Conv: conv, User: user})
}

// DissolveGroup ends a group for all. Only the owner may do so.
func (c *Client) DissolveGroup(ctx context.Context, conv string) error {
	return c.change(ctx, "DissolveGroup", &petrelv1.DissolveGroupRequest{Conv: conv})
}

// Members returns the members of a conversation, ascending by user: all pages of them. Profiles that were wanted
// and have changed are asked for again.
func (c *Client) Members(ctx context.Context, conv string) ([]*petrelv1.MemberRef, error) {
	var out []*petrelv1.MemberRef
	q := &petrelv1.ListMembersRequest{Conv: conv, Profiles: true}
	for {
		r := new(petrelv1.ListMembersResponse)
		if err := c.Call(ctx, conversationService+"ListMembers", q, r); err != nil {
			return nil, err
		}
		out = append(out, r.Members...)
		if len(r.Profiles) == len(r.Members) {
			c.do(func(k *core) {
				for i, m := range r.Members {
					k.profileTold(m.User, r.Profiles[i])
				}
			})
		}
		if !r.More || len(r.Members) == 0 {
			return out, nil
		}
		q.After = r.Members[len(r.Members)-1].User
	}
}

// LoadReceipts loads the cursors of all members of a conversation. Message.Delivered and Message.Read in a group
// are counted from them. The cursors of a direct conversation come without a call. Spec: P-8.6.
func (c *Client) LoadReceipts(ctx context.Context, conv string) error {
	q := &petrelv1.ListReceiptsRequest{Conv: conv}
	for {
		r := new(petrelv1.ListReceiptsResponse)
		if err := c.Call(ctx, messageService+"ListReceipts", q, r); err != nil {
			return err
		}
		c.do(func(k *core) {
			for _, x := range r.Receipts {
				x.Conv = conv
				k.takeReceipt(x)
			}
			k.out.woken = true
		})
		if !r.More || r.Next <= q.After {
			return nil
		}
		q.After = r.Next
	}
}

// Devices returns the devices of the user, the newest login first.
func (c *Client) Devices(ctx context.Context) ([]*petrelv1.Device, error) {
	r := new(petrelv1.ListDevicesResponse)
	err := c.Call(ctx, accountService+"ListDevices", &petrelv1.ListDevicesRequest{}, r)
	return r.Devices, err
}

// RevokeDevice voids the tokens of a device of the user and ends its sessions.
// Code: no_device.
func (c *Client) RevokeDevice(ctx context.Context, device string) error {
	return c.Call(ctx, accountService+"RevokeDevice", &petrelv1.RevokeDeviceRequest{Device: device},
		new(petrelv1.RevokeDeviceResponse))
}

// UpdateAccount changes the profile of the user: the fields that q sets. An empty value takes a field away.
// Codes: invalid, handle_taken, forbidden (only the application's back end changes that). Spec: P-14.1, P-14.6.
func (c *Client) UpdateAccount(ctx context.Context, q *petrelv1.UpdateAccountRequest) (*petrelv1.Account, error) {
	r := new(petrelv1.Account)
	err := c.Call(ctx, accountService+"UpdateAccount", q, r)
	if err == nil {
		c.do(func(k *core) { k.profileTold(r.User, r.Version) })
	}
	return r, err
}

// GetUser finds a user by the exact id. It always costs a look-up: [Profiles] is for users whom the application
// shows. Codes: no_user, rate_limited. Spec: P-14.4.
func (c *Client) GetUser(ctx context.Context, user string) (*petrelv1.Account, error) {
	r := new(petrelv1.Account)
	err := c.Call(ctx, accountService+"GetUser", &petrelv1.GetUserRequest{User: user}, r)
	return r, err
}

// GetUserByHandle finds a user by the exact handle. It always costs a look-up. Codes: no_user, also if the user
// hides the handle; invalid, rate_limited. Spec: P-14.3, P-14.4.
func (c *Client) GetUserByHandle(ctx context.Context, handle string) (*petrelv1.Account, error) {
	r := new(petrelv1.Account)
	err := c.Call(ctx, accountService+"GetUser", &petrelv1.GetUserRequest{Handle: handle}, r)
	return r, err
}

// GetUsers returns the profiles of up to 100 users whose versions differ from those in users. Members of conv, a
// conversation of the user, or "", cost no look-up. [Profiles] makes these calls by itself.
// Codes: invalid, rate_limited. Spec: P-14.2, P-14.4.
func (c *Client) GetUsers(ctx context.Context, conv string,
	users ...*petrelv1.UserVersion) (*petrelv1.GetUsersResponse, error) {
	r := new(petrelv1.GetUsersResponse)
	err := c.Call(ctx, accountService+"GetUsers", &petrelv1.GetUsersRequest{Conv: conv, Users: users}, r)
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

// API has the generated clients of the server's HTTP API.
type API struct {
	Account       petrelv1connect.AccountServiceClient
	Contacts      petrelv1connect.ContactServiceClient
	Conversations petrelv1connect.ConversationServiceClient
	Messages      petrelv1connect.MessageServiceClient
}

// NewAPI makes clients of the HTTP API at url (http:// or https://, host:port), for programs without a long
// connection. They call as the user of the token. h may be nil. Their errors are those of Connect; CodeOf reads
// them.
func NewAPI(url string, h *http.Client, source TokenSource) API {
	if h == nil {
		h = http.DefaultClient
	}
	as := Credentials(source)
	return API{
		Account:       petrelv1connect.NewAccountServiceClient(h, url, as),
		Contacts:      petrelv1connect.NewContactServiceClient(h, url, as),
		Conversations: petrelv1connect.NewConversationServiceClient(h, url, as),
		Messages:      petrelv1connect.NewMessageServiceClient(h, url, as),
	}
}

// ChangeSettings sets settings of a conversation, of another user, or, if both are empty, of the account. values
// has them by name; "" removes one. Names that an application invents begin with a word of its own. The snapshots
// have the values once the server has stored them.
// Codes: invalid, no_conversation, rate_limited. Spec: P-8.10.
func (c *Client) ChangeSettings(ctx context.Context, conv, user string, values map[string]string) error {
	return c.Call(ctx, accountService+"ChangeSettings", &petrelv1.ChangeSettingsRequest{Conv: conv, User: user,
		Values: maps.Clone(values)}, new(petrelv1.ChangeResponse))
}

// set sets one setting of a conversation.
func (c *Client) set(ctx context.Context, conv, name, value string) error {
	return c.ChangeSettings(ctx, conv, "", map[string]string{name: value})
}

// one returns the stored value of a boolean setting.
func one(on bool) string {
	if on {
		return "1"
	}
	return ""
}

// Mute silences notifications of a conversation until a time; the zero time ends that.
func (c *Client) Mute(ctx context.Context, conv string, until time.Time) error {
	value := ""
	if !until.IsZero() {
		value = strconv.FormatInt(max(1, until.UnixMilli()), 10)
	}
	return c.set(ctx, conv, settingMutedUntil, value)
}

// Notify sets which messages of a conversation cause a notification: "all", "mentions", "nothing", or "" for
// the application's default.
func (c *Client) Notify(ctx context.Context, conv, level string) error {
	return c.set(ctx, conv, settingNotify, level)
}

// PinConversation pins a conversation to the top of the list, in the order of these numbers; 0 unpins it.
func (c *Client) PinConversation(ctx context.Context, conv string, order uint64) error {
	value := ""
	if order > 0 {
		value = strconv.FormatUint(order, 10)
	}
	return c.set(ctx, conv, settingPinned, value)
}

// Archive archives a conversation, or brings it back.
func (c *Client) Archive(ctx context.Context, conv string, on bool) error {
	return c.set(ctx, conv, settingArchived, one(on))
}

// MarkUnread shows a conversation as unread, or ends that. An application ends it when the person opens the
// conversation.
func (c *Client) MarkUnread(ctx context.Context, conv string, on bool) error {
	return c.set(ctx, conv, settingUnread, one(on))
}

// Clear makes clients hide the entries of a conversation up to a seq. The entries stay stored, also for the
// user.
func (c *Client) Clear(ctx context.Context, conv string, upTo uint64) error {
	return c.set(ctx, conv, settingClearedTo, strconv.FormatUint(upTo, 10))
}

// Block makes the server withhold the messages of another user in the direct conversation, or ends that. It is in
// force when Block returns. The other user is told nothing of it.
// Codes: invalid, rate_limited. Spec: P-5.4.
func (c *Client) Block(ctx context.Context, user string, on bool) error {
	return c.ChangeSettings(ctx, "", user, map[string]string{settingBlocked: one(on)})
}

// React adds a reaction of the user to a message, or takes it away. It waits until the client is live. A
// repeat does no harm. Codes: no_target, forbidden (too many of them), rate_limited. Spec: P-5.11.
func (c *Client) React(ctx context.Context, conv string, seq uint64, emoji string, removed bool) error {
	r := new(petrelv1.NoteResponse)
	q := &petrelv1.ReactRequest{Conv: conv, Seq: seq, Emoji: emoji, Removed: removed}
	return c.changeNote(conv, r, c.Call(ctx, messageService+"React", q, r))
}

// Pin pins a message for all members, or unpins it. In a group only an admin or the owner may do so.
// Codes: no_target, forbidden, rate_limited. Spec: P-5.11.
func (c *Client) Pin(ctx context.Context, conv string, seq uint64, removed bool) error {
	r := new(petrelv1.NoteResponse)
	return c.changeNote(conv, r, c.Call(ctx, messageService+"Pin",
		&petrelv1.PinRequest{Conv: conv, Seq: seq, Removed: removed}, r))
}

func (c *Client) changeNote(conv string, r *petrelv1.NoteResponse, err error) error {
	if err != nil || r.Note == nil {
		return err
	}
	c.do(func(k *core) { k.notesCame(conv, []*petrelv1.Note{r.Note}) })
	return nil
}

// WhoReacted lists the users who reacted to a message, with any emoji if emoji is "", ascending by user: all
// pages of them.
func (c *Client) WhoReacted(ctx context.Context, conv string, seq uint64,
	emoji string) ([]*petrelv1.UserReactions, error) {
	var out []*petrelv1.UserReactions
	q := &petrelv1.ListReactionsRequest{Conv: conv, Seq: seq, Emoji: emoji}
	for {
		r := new(petrelv1.ListReactionsResponse)
		if err := c.Call(ctx, messageService+"ListReactions", q, r); err != nil {
			return nil, err
		}
		out = append(out, r.Users...)
		if !r.More || r.Next == "" {
			return out, nil
		}
		q.After = r.Next
	}
}

// Pins lists the pinned messages of a conversation, the newest first: all pages of them.
func (c *Client) Pins(ctx context.Context, conv string) ([]*petrelv1.PinnedMessage, error) {
	var out []*petrelv1.PinnedMessage
	q := &petrelv1.ListPinsRequest{Conv: conv}
	for {
		r := new(petrelv1.ListPinsResponse)
		if err := c.Call(ctx, messageService+"ListPins", q, r); err != nil {
			return nil, err
		}
		out = append(out, r.Pins...)
		if q.Before = r.Next; q.Before == 0 {
			return out, nil
		}
	}
}

// LoadNotes loads the reactions and pins of the messages that Messages returns. They come with each loaded
// message, and are pushed while the conversation is in focus. So an application calls LoadNotes when it shows a
// conversation that was out of focus, and after the client was offline. Spec: P-5.11.
func (c *Client) LoadNotes(ctx context.Context, conv string) error {
	var after, before uint64
	c.do(func(k *core) {
		if v := k.convs[conv]; v != nil && len(v.entries) > 0 {
			after, before = v.entries[0].m.Seq-1, v.entries[len(v.entries)-1].m.Seq+1
		}
	})
	for before > after+1 {
		p, err := c.History(ctx, &petrelv1.GetHistory{Conv: conv, After: after, Before: before, OnlyNotes: true})
		if err != nil {
			return err
		}
		c.do(func(k *core) { k.notesCame(conv, p.Notes) })
		if !p.More || p.CoveredFrom == 0 || p.CoveredFrom >= before {
			return nil
		}
		before = p.CoveredFrom
	}
	return nil
}
