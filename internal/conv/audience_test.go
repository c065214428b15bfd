package conv

import (
	"testing"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// A member gets the notes of entries of their stays. A former member gets none. Spec: P-5.11, P-8.3.
func TestNotesAreForMembersWhoMayRead(t *testing.T) {
	m := &Members{all: []member{{"ann", petrelv1.Role_ROLE_MEMBER, []stay{{from: 3}}}, {"bob", 0, []stay{{1, 5}}}}, current: []im.User{"ann"}}
	c := &conv{}
	c.info.Store(&info{members: m})
	for _, x := range []struct {
		user im.User
		seq  im.Seq
		want bool
	}{{"ann", 2, false}, {"ann", 3, true}, {"bob", 2, false}, {"eve", 3, false}} {
		if _, mayRead := c.Audience(); mayRead(x.user, x.seq) != x.want {
			t.Errorf("%s gets notes of entry %d: %v, want %v", x.user, x.seq, !x.want, x.want)
		}
	}
}
