package session_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// forward is a send that copies the entry q of a conversation.
func forward(id uint64, to, k, from string, q uint64) *petrelv1.ClientFrame {
	f := text(id, to, k, "")
	f.GetSend().Body, f.GetSend().Rel = nil, &petrelv1.Relations{ForwardOf: &petrelv1.Ref{Conv: from, Seq: q}}
	return f
}

// The message that a forward copies is read before the forward is queued. A later send of
// the same session to the same conversation must not pass it meanwhile. All other sends
// need not wait. Spec: P-4.3, P-5.10.
func TestSendsDoNotPassTheForwardBeforeThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release := make(chan struct{})
		w.isNamed = func(context.Context, im.Account) (bool, error) {
			<-release
			return true, nil
		}
		w.start()
		team, other := w.group("team", "alice"), w.group("other", "alice")
		alice, tablet := w.login(w.token("", "alice")), w.login(w.token("", "alice"))
		alice.send(text(2, other, "k1", "source"))
		alice.want("ack 2 of 2")
		tablet.want("2:source")
		alice.send(forward(3, team, "k2", other, 2), text(4, team, "k3", "two"), text(5, other, "k4", "elsewhere"))
		alice.want("ack 3 of 5")
		tablet.want("3:elsewhere")
		alice.send(forward(6, team, "k5", other, 9), text(7, team, "k6", "three"))
		tablet.send(text(2, team, "t1", "of another device"))
		tablet.want("ack 2 of 2")
		alice.want("2:of another device")
		close(release)
		alice.want("ack 3 of 3", "ack 4 of 4", "no_target of 6", "ack 5 of 7")
		tablet.wantMessages("3:source", "4:two", "5:three")
		if got := w.texts(team); !cmp.Equal(got, []string{"alice:of another device", "alice:source", "alice:two", "alice:three"}) {
			t.Errorf("stored %v", got)
		}
		alice.send(text(8, team, "k7", "and on"))
		alice.want("ack 6 of 8")
	})
}
