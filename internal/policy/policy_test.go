package policy_test

import (
	"testing"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestFrozenGroupsTakeNothingButLeaving(t *testing.T) {
	p, before := policy.Frozen(), policy.Of(im.Group)
	if p.Write != policy.Nobody || !p.Leave || p.Refusal.Code != im.CodeFrozen {
		t.Errorf("frozen: write %d, leave %v, refusal %s", p.Write, p.Leave, p.Refusal.Code)
	}
	if before.Write == policy.Nobody || before.Leave || p.Pin != before.Pin || p.Members != before.Members {
		t.Errorf("frozen is %+v, before %+v", p, before)
	}
}

// A conversation whose kind nobody knows, of a newer server, is closed to users.
func TestUnknownKindsAllowUsersNothing(t *testing.T) {
	p := policy.Of(im.Channel)
	for _, least := range []petrelv1.Role{p.Write, p.MentionAll, p.Pin, p.RecallOthers, p.Rename, p.Add, p.GiveRoles} {
		if least != policy.Nobody {
			t.Errorf("an unknown kind allows something to role %d: %+v", least, p)
		}
	}
	if p.Signals || p.Members || p.Pair || p.List || p.Refusal.Code != im.CodeForbidden {
		t.Errorf("an unknown kind is %+v", p)
	}
}

func TestRecordsAndIDsHaveOnePolicy(t *testing.T) {
	for id, record := range map[im.Kind]petrelv1.ConvKind{
		im.Direct: petrelv1.ConvKind_CONV_KIND_DIRECT,
		im.Group:  petrelv1.ConvKind_CONV_KIND_GROUP,
		im.Inbox:  petrelv1.ConvKind_CONV_KIND_INBOX,
	} {
		if policy.Of(id) != policy.OfRecord(record) {
			t.Errorf("kind %c: %+v by the id, %+v by the record", id, policy.Of(id), policy.OfRecord(record))
		}
	}
	for _, k := range []petrelv1.ConvKind{-1, 0, 3, 4, 1000} {
		if p := policy.OfRecord(k); p != policy.Of(im.Channel) {
			t.Errorf("a record of kind %d has policy %+v", k, p)
		}
	}
}
