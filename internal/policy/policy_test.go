package policy_test

import (
	"testing"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestFrozenConversationsTakeNothingButLeaving(t *testing.T) {
	for _, k := range []im.Kind{im.Direct, im.Group, im.Inbox} {
		p := policy.Frozen(k)
		if p.Write != policy.Nobody || !p.Leave || p.Refusal.Code != im.CodeFrozen {
			t.Errorf("frozen %c: write %d, leave %v, refusal %s", k, p.Write, p.Leave, p.Refusal.Code)
		}
		if before := policy.Of(k); before.Leave || p.Pin != before.Pin || p.Members != before.Members {
			t.Errorf("frozen %c is %+v, before %+v", k, p, before)
		}
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
}
