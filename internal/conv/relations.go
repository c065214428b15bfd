package conv

import (
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// maxNamed is how many users a message can mention by name. Spec: P-5.13.
const maxNamed = 50

// maxNeeds is how many capabilities a send may need.
const maxNeeds = 16

// prepareRelations returns the rel of a send's frame, and checks its needs. An empty rel becomes
// nil. Fields that this version does not know are left out, because it cannot check them. Codes:
// invalid, unsupported. Spec: P-4.10, P-5.8.
func prepareRelations(f *petrelv1.Send) (*petrelv1.Relations, *im.Error) {
	if len(f.Needs) > maxNeeds {
		return nil, im.Errorf(im.CodeInvalid, "a send needs at most %d capabilities", maxNeeds)
	}
	for _, need := range f.Needs {
		if need != "edit" && need != "rel" && need != "mentions" {
			return nil, im.Errorf(im.CodeUnsupported, "this server does not know %.32q in sends", need)
		}
	}
	rel := known(f.Rel)
	if rel.SizeVT() == 0 {
		return nil, nil
	}
	if err := checkRelations(rel); err != nil {
		return nil, err
	}
	switch f.Body.(type) {
	case *petrelv1.Send_Text, *petrelv1.Send_Data:
		if rel.ForwardOf != nil {
			return nil, im.Errorf(im.CodeInvalid, "a forward has no body: it copies that of the message")
		}
	case nil:
		if rel.ForwardOf != nil && f.Type != "" {
			return nil, im.Errorf(im.CodeInvalid, "a forward has no type: it copies that of the message")
		}
	default:
		return nil, im.Errorf(im.CodeInvalid, "only messages have a rel; that of an edit is in the edit")
	}
	return rel, nil
}

// known returns rel without the fields that this version does not know.
func known(rel *petrelv1.Relations) *petrelv1.Relations {
	if rel == nil {
		return nil
	}
	n := &petrelv1.Relations{
		ReplyTo: rel.ReplyTo, Thread: rel.Thread, AlsoMain: rel.AlsoMain, Mentions: rel.Mentions,
		MentionAll: rel.MentionAll, Silent: rel.Silent,
	}
	if r := rel.ForwardOf; r != nil {
		n.ForwardOf = &petrelv1.Ref{Conv: r.Conv, Seq: r.Seq}
	}
	if r := rel.Forwarded; r != nil {
		n.Forwarded = &petrelv1.Forwarded{From: r.From, TimeMs: r.TimeMs}
	}
	return n
}

// checkRelations checks a rel as far as that needs no conversation. Mentions must be sorted, so that the
// sender's own copy equals everybody's. Codes: invalid.
func checkRelations(rel *petrelv1.Relations) *im.Error {
	switch {
	case rel.Forwarded != nil:
		return im.Errorf(im.CodeInvalid, "only the server says what was forwarded")
	case rel.AlsoMain && rel.Thread == 0:
		return im.Errorf(im.CodeInvalid, "only a message of a thread is also in the main conversation")
	case len(rel.Mentions) > maxNamed:
		return im.Errorf(im.CodeInvalid, "a message names at most %d users in its mentions", maxNamed)
	}
	for i, u := range rel.Mentions {
		if err := im.User(u).Check(); err != nil {
			return asError(err)
		}
		if i > 0 && u <= rel.Mentions[i-1] {
			return im.Errorf(im.CodeInvalid, "mentions are ascending, and name nobody twice")
		}
	}
	return nil
}

// prepareEditRelations checks the rel of an edit, which may name only the answered entry. Codes:
// invalid. Spec: P-5.8.
func prepareEditRelations(e *petrelv1.Edit) *im.Error {
	if e.GetRel() == nil {
		return nil
	}
	e.Rel = known(e.Rel)
	if err := checkRelations(e.Rel); err != nil {
		return err
	}
	if e.Rel.ForwardOf != nil || e.Rel.Silent || e.Rel.Thread != 0 || len(e.Rel.Mentions) > 0 || e.Rel.MentionAll {
		return im.Errorf(im.CodeInvalid, "an edit changes only what a message answers")
	}
	return nil
}

// placeIn returns the part of a rel about the thread of the message; nil: there is none. This part stays when the
// rest of the message is removed, so the message keeps its place. Spec: P-5.12.
func placeIn(rel *petrelv1.Relations) *petrelv1.Relations {
	if rel.GetThread() == 0 {
		return nil
	}
	return &petrelv1.Relations{Thread: rel.Thread, AlsoMain: rel.AlsoMain}
}

// besideMain tells whether a message with this rel is in its thread only. Such a message is not counted as
// unread. Spec: P-5.12, P-8.7.
func besideMain(rel *petrelv1.Relations) bool { return rel.GetThread() != 0 && !rel.AlsoMain }
