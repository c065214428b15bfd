package conv

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func textOf(s string, rel *petrelv1.Relations) *petrelv1.Message {
	return &petrelv1.Message{Body: &petrelv1.Message_Text{Text: s}, Rel: rel}
}

// A field that a message does not use costs it nothing, and does not change its hash.
func TestMessageWithoutRelIsHashedFromItsTypeAndBodyAlone(t *testing.T) {
	h := hasher{[16]byte{1, 2, 3}}
	if got, want := h.body(textOf("hello", nil)), h.sum([]byte("\x00thello")); got != want {
		t.Errorf("hash %x, want %x", got, want)
	}
}

// Spec: P-4.4.
func TestEveryFieldOfARelIsHashed(t *testing.T) {
	h := hasher{[16]byte{1, 2, 3}}
	rels := []*petrelv1.Relations{
		nil, {ReplyTo: 1}, {ReplyTo: 2}, {Silent: true}, {ReplyTo: 1, Silent: true},
		{ForwardOf: &petrelv1.Ref{Conv: "g1", Seq: 1}}, {ForwardOf: &petrelv1.Ref{Conv: "g1", Seq: 2}}, {ForwardOf: &petrelv1.Ref{Conv: "g2", Seq: 1}},
	}
	messages := map[string]*petrelv1.Message{}
	for _, rel := range rels {
		enc, err := proto.Marshal(rel)
		if err != nil {
			t.Fatal(err)
		}
		messages["text with "+rel.String()] = textOf("hello", rel)
		messages["nothing with "+rel.String()] = &petrelv1.Message{Rel: rel}
		if rel != nil {
			messages["edit with "+rel.String()] = &petrelv1.Message{Body: &petrelv1.Message_Edit{Edit: &petrelv1.Edit{Target: 1, Rel: rel}}}
			messages["text that ends with "+rel.String()] = textOf("hello"+string(enc), nil)
			messages["text that begins with "+rel.String()] = textOf(string(enc)+"hello", nil)
		}
	}
	seen := map[uint64]string{}
	for what, m := range messages {
		hash := h.body(m)
		if other, there := seen[hash]; there {
			t.Errorf("%s and %s have one hash", what, other)
		}
		seen[hash] = what
	}
}
