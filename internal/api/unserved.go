package api

import (
	"context"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

type unservedInner struct {
	petrelv1connect.UnimplementedAdminServiceHandler
}

type unserved struct{ unservedInner }

func (s adminService) GetConversation(ctx context.Context, r *connect.Request[petrelv1.AdminGetConversationRequest]) (*connect.Response[petrelv1.ConversationInfo], error) {
	return s.unservedInner.GetConversation(ctx, r)
}
