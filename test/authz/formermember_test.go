package authz

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// A former member is answered the same whatever happens in the group later: by every
// method and by every frame, word for word. Spec: P-8.3.
func TestNoAnswerTellsAFormerMemberWhatCameLater(t *testing.T) {
	srv := imtest.Start(t, imtest.Options{})
	w := newWorld(t, srv, "left")
	p := newProber(t, srv, w.credential)
	asks := slices.DeleteFunc(questions(t, w, "conversation"), func(q question) bool { // these change what a sync tells them
		return strings.HasPrefix(q.name, "frame send forward") || strings.HasPrefix(q.name, account+"ChangeSettings")
	})
	token := regexp.MustCompile(`"token": *"[^"]*"`) // says nothing to a client
	asks = append(asks, question{message + "Sync", func(p *prober, _ string) string {
		return token.ReplaceAllString(p.call(message+"Sync", &petrelv1.Sync{Newest: 50}), "TOKEN")
	}}, question{"frame sync", func(p *prober, _ string) string {
		f := &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Sync{Sync: &petrelv1.Sync{Newest: 50}}}
		return token.ReplaceAllString(protojson.Format(p.frame(f)), "TOKEN")
	}})
	before := make([]string, len(asks))
	for range 2 { // the first time moves the cursor
		for i, q := range asks {
			before[i] = q.ask(p, w.conv)
		}
	}
	w.goesOn()
	answered := 0
	for i, q := range asks {
		after := q.ask(p, w.conv)
		if strings.Contains(after, `"head"`) {
			answered++
		}
		if after != before[i] {
			t.Errorf("%s: a former member is told after the entry that removed them:\n%s\nand later:\n%s", q.name, before[i], after)
		}
	}
	if answered < 5 {
		t.Errorf("of %d answers, %d have a head", len(asks), answered)
	}
}

// goesOn lets the members of the group do what a group does.
func (w *world) goesOn() {
	w.t.Helper()
	ctx := w.t.Context()
	named := w.send()
	named.Rel = &petrelv1.Relations{Mentions: []string{w.name("left")}}
	_, err := w.srv.Admin.SendAs(ctx, connect.NewRequest(&petrelv1.SendAsRequest{From: w.name("owner"), Send: named}))
	if err == nil {
		w.sendAs("member2")
		_, err = w.srv.Admin.RenameGroup(ctx, connect.NewRequest(&petrelv1.AdminRenameGroupRequest{Conv: w.conv, Title: "without them"}))
	}
	if err == nil {
		_, err = w.srv.Admin.ChangeMembers(ctx, connect.NewRequest(&petrelv1.ChangeMembersRequest{Conv: w.conv, Change: &petrelv1.MemberChange{
			Added: []*petrelv1.MemberRef{{User: w.name("other2")}}, Roles: []*petrelv1.MemberRef{{User: w.name("member2"), Role: petrelv1.Role_ROLE_ADMIN}}}}))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	owner := newProber(w.t, w.srv, w.mint("", "owner"))
	for _, answer := range []string{
		owner.call(message+"React", &petrelv1.ReactRequest{Conv: w.conv, Seq: w.membersMessage, Emoji: "👍"}),
		owner.call(message+"Pin", &petrelv1.PinRequest{Conv: w.conv, Seq: w.ownersMessage}),
		owner.call(message+"MoveCursor", &petrelv1.MoveCursor{Conv: w.conv, Read: 1 << 40}),
	} {
		if !strings.HasPrefix(answer, "200") {
			w.t.Fatal(answer)
		}
	}
	if _, err := w.srv.Admin.FreezeConversation(ctx, connect.NewRequest(&petrelv1.FreezeConversationRequest{Conv: w.conv, Frozen: true})); err != nil {
		w.t.Fatal(err)
	}
}
