package session

import (
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/session/sessionpb"
)

// encode encodes a message of sessionpb for another node.
func encode(m interface{ MarshalVT() ([]byte, error) }) []byte {
	b, err := m.MarshalVT()
	im.Assert(err == nil, "encode a message about sessions: %v", err)
	return b
}

func encodeAccount(a im.Account) *sessionpb.Account {
	return &sessionpb.Account{Tenant: uint32(a.Tenant), User: string(a.User)}
}

func decodeAccount(a *sessionpb.Account) im.Account {
	return im.Account{Tenant: im.Tenant(a.GetTenant()), User: im.User(a.GetUser())}
}
