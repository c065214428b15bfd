package proto_test

import (
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The ids are those of tenant 1: the conversation of alice and bob, alice's
// inbox, and a group.
const (
	aliceBob   = "d8RN7iMNITU0mIb0XxQAv"
	aliceInbox = "iDZyNF3ZHqisvWUE89S2_"
	team       = "gKQtYt3wSdI4pbTbl9KK9"
	historyID  = "9f86d081884c7d65"
	noon       = 1795262400000 // ms
)

// vector is a golden frame. Its name says who sends it.
type vector struct {
	name  string
	frame proto.Message
}

func vectors() []vector {
	return slices.Concat(clientVectors(), serverVectors(), laterVectors(), relationVectors(), lossyVectors())
}

func clientVectors() []vector {
	hello := &pb.Hello{
		VersionMin: 1, VersionMax: 1, Token: "pt_default.alice.Zm9vYmFyYmF6cXV4",
		Device: "laptop-1", DeviceKind: "desktop", Client: "example/0.1",
	}
	long := proto.Clone(hello).(*pb.Hello)
	for proto.Size(&pb.ClientFrame{Id: 1, Body: &pb.ClientFrame_Hello{Hello: long}}) < '{' {
		long.Client += "x"
	}
	return []vector{
		{"01-client-hello", &pb.ClientFrame{Id: 1, Body: &pb.ClientFrame_Hello{Hello: hello}}},
		{"03-client-send-conv", &pb.ClientFrame{Id: 3, Body: &pb.ClientFrame_Send{Send: &pb.Send{
			Conv: team, ClientMsgId: "5f0c1e9ab24d4e0f", After: proto.Uint64(0), Body: &pb.Send_Text{Text: "hello 海燕"},
		}}}},
		{"04-client-send-user", &pb.ClientFrame{Id: 4, Body: &pb.ClientFrame_Send{Send: &pb.Send{
			User: "bob", ClientMsgId: "5f0c1e9ab24d4e10", After: proto.Uint64(41), Type: "application/x-sketch",
			Body: &pb.Send_Data{Data: []byte{0, 1, 0xfe, 0xff}},
		}}}},
		{"08-client-history", &pb.ClientFrame{Id: 6, Body: &pb.ClientFrame_History{History: &pb.GetHistory{Conv: aliceBob, After: 40, Limit: 2}}}},
		{"10-client-sync", &pb.ClientFrame{Id: 2, Body: &pb.ClientFrame_Sync{Sync: &pb.Sync{Token: []byte{1, 2, 3}}}}},
		{"12-client-ping", &pb.ClientFrame{Id: 7, Body: &pb.ClientFrame_Ping{Ping: &pb.Ping{}}}},
		{"13-client-pong", &pb.ClientFrame{Body: &pb.ClientFrame_Pong{Pong: &pb.Pong{}}}},
		{"16-client-hello-123-bytes", &pb.ClientFrame{Id: 1, Body: &pb.ClientFrame_Hello{Hello: long}}},
		{"17-client-send-without-after", &pb.ClientFrame{Id: 9, Body: &pb.ClientFrame_Send{Send: &pb.Send{
			User: "bob", ClientMsgId: "script-2026-11-21-1", Body: &pb.Send_Text{Text: ""},
		}}}},
	}
}

func serverVectors() []vector {
	third := &pb.Message{
		Conv: team, Seq: 3, From: "carol", ClientMsgId: "c3", TimeMs: noon + 1, Counted: 2,
		Body: &pb.Message_Text{Text: "good morning"},
	}
	fourth := &pb.Message{
		Conv: team, Seq: 4, TimeMs: noon + 2, Counted: 2,
		Body: &pb.Message_Members{Members: &pb.MemberChange{
			Added: []*pb.MemberRef{{User: "dave", Role: pb.Role_ROLE_MEMBER}}, Removed: []string{"eve"},
		}},
	}
	return []vector{
		{"02-server-welcome", &pb.ServerFrame{Id: 1, Body: &pb.ServerFrame_Welcome{Welcome: &pb.Welcome{
			Version: 1, Session: "s1", User: "alice", Inbox: aliceInbox, HistoryId: historyID, ServerTimeMs: noon,
			HeartbeatMs: 30000, HeartbeatMisses: 2, Window: &pb.Window{Sends: 64, Bytes: 262144},
			Limits: &pb.Limits{FrameBytes: 352256, BodyBytes: 49152, HistoryMessages: 200, OpenRequests: 16}, Server: "petrel/0.1.0",
		}}}},
		{"05-server-ack", &pb.ServerFrame{Id: 4, Body: &pb.ServerFrame_Ack{Ack: &pb.Ack{Conv: aliceBob, Seq: 42, TimeMs: noon}}}},
		{"06-server-error-conflict", &pb.ServerFrame{Id: 5, Body: &pb.ServerFrame_Error{Error: &pb.Error{
			Code: "conflict", Message: "this client message id was used before with another body",
			Settled: true, Hint: "use a new id for each message",
		}}}},
		{"07-server-events", &pb.ServerFrame{Body: &pb.ServerFrame_Events{Events: &pb.Events{Messages: []*pb.Message{third, fourth}}}}},
		{"09-server-history-page", &pb.ServerFrame{Id: 6, Body: &pb.ServerFrame_History{History: &pb.HistoryPage{
			Conv: aliceBob, Head: 43, FirstSeq: 1, More: true,
			Messages: []*pb.Message{
				{Conv: aliceBob, Seq: 41, From: "bob", ClientMsgId: "b7", TimeMs: noon - 1, Counted: 41, Body: &pb.Message_Text{Text: "are you there?"}},
				{Conv: aliceBob, Seq: 42, From: "alice", ClientMsgId: "5f0c1e9ab24d4e10", TimeMs: noon, Counted: 42, Type: "application/x-sketch", Body: &pb.Message_Data{Data: []byte{0, 1, 0xfe, 0xff}}},
			},
		}}}},
		{"51-server-sync-personal", &pb.ServerFrame{Id: 9, Body: &pb.ServerFrame_Sync{Sync: &pb.SyncPage{
			Token: []byte{1, 2, 4}, PersonalReset: true, Personal: []*pb.Personal{
				{Seq: 57, Conv: team, Name: "pinned", Value: "3"}, {Seq: 58, Name: "acme.theme", Value: "海"}, {Seq: 61, User: "mallory", Name: "blocked", Value: "1"},
			},
		}}}},
		{"52-server-events-settings", &pb.ServerFrame{Body: &pb.ServerFrame_Events{Events: &pb.Events{Messages: []*pb.Message{
			{Conv: "iDZyNF3ZHqisvWUE89S2_", Seq: 61, ClientMsgId: "r:1", TimeMs: noon, Body: &pb.Message_Inbox{Inbox: &pb.InboxEntry{Entry: &pb.InboxEntry_Settings{
				Settings: &pb.InboxSettings{User: "mallory", Values: map[string]string{"blocked": "1"}},
			}}}},
		}}}}},
		{"11-server-sync-page", &pb.ServerFrame{Id: 2, Body: &pb.ServerFrame_Sync{Sync: &pb.SyncPage{
			Convs: []*pb.ConvState{
				{Conv: aliceBob, Kind: pb.ConvKind_CONV_KIND_DIRECT, Peer: "bob", Head: 43, Counted: 43, FirstSeq: 1, Role: pb.Role_ROLE_MEMBER, Joined: 1},
				{Conv: team, Kind: pb.ConvKind_CONV_KIND_GROUP, Title: "team", Head: 4, Counted: 2, FirstSeq: 1, Role: pb.Role_ROLE_OWNER, Joined: 1},
			},
			Token: []byte{1, 2, 4},
		}}}},
		{"54-server-events-defaults", &pb.ServerFrame{Body: &pb.ServerFrame_Events{Events: &pb.Events{Messages: []*pb.Message{
			{Conv: team, Seq: 5, From: "carol", ClientMsgId: "c5", TimeMs: noon + 5, Counted: 3, Body: &pb.Message_Text{Text: ""}},
			{Conv: team, Seq: 6, From: "carol", ClientMsgId: "c6", TimeMs: noon + 6, Counted: 4, Body: &pb.Message_Data{Data: []byte{}}},
			{Conv: team, Seq: 7, From: "carol", ClientMsgId: "c7", TimeMs: noon + 7, Counted: 4, Body: &pb.Message_Edit{Edit: &pb.Edit{Target: 6, Body: &pb.Edit_Text{Text: ""}}}},
			{Conv: team, Seq: 8, ClientMsgId: "f8", TimeMs: noon + 8, Counted: 4, Body: &pb.Message_Group{Group: &pb.GroupChange{Title: "team", Frozen: proto.Bool(false)}}},
		}}}}},
		{"14-server-lagged", &pb.ServerFrame{Body: &pb.ServerFrame_Lagged{Lagged: &pb.Lagged{}}}},
		{"53-server-large", &pb.ServerFrame{Body: &pb.ServerFrame_Large{Large: &pb.Large{Bytes: 49310}}}},
		{"15-server-kick", &pb.ServerFrame{Body: &pb.ServerFrame_Kick{Kick: &pb.Kick{
			Code: "draining", Message: "this node is going away", Reconnect: true, ReconnectAfterMs: 2000,
		}}}},
		{"18-server-error-behind", &pb.ServerFrame{Id: 8, Body: &pb.ServerFrame_Error{Error: &pb.Error{
			Code: "behind", Message: "there are too many entries above after to search all of them for the message",
			Hint: "read the history from after up to the head in this error and send the message with that head as after if it is not there", Head: 25000,
		}}}},
		{"19-server-ping", &pb.ServerFrame{Body: &pb.ServerFrame_Ping{Ping: &pb.Ping{}}}},
	}
}

// laterVectors are frames that this version of the server does not offer yet.
// They are kept so that what announces them changes nothing of them: an entry
// that was edited and one that was recalled, with the entries that did it, and
// one that is withheld (P-5.3, P-5.4); cursors, focus, hints and calls.
func laterVectors() []vector {
	return []vector{
		{"23-server-history-rewritten", &pb.ServerFrame{Id: 12, Body: &pb.ServerFrame_History{History: &pb.HistoryPage{
			Conv: aliceBob, Head: 48, FirstSeq: 40,
			Messages: []*pb.Message{
				{Conv: aliceBob, Seq: 44, From: "bob", ClientMsgId: "b8", TimeMs: noon + 3, Counted: 44, Body: &pb.Message_Text{Text: "corrected"}, EditedBy: 46},
				{Conv: aliceBob, Seq: 45, From: "bob", ClientMsgId: "b9", TimeMs: noon + 4, Counted: 45, RecalledBy: 47},
				{Conv: aliceBob, Seq: 46, From: "bob", ClientMsgId: "b10", TimeMs: noon + 5, Counted: 45, Body: &pb.Message_Edit{Edit: &pb.Edit{Target: 44, Body: &pb.Edit_Text{Text: "corrected"}}}},
				{Conv: aliceBob, Seq: 47, From: "bob", ClientMsgId: "b11", TimeMs: noon + 6, Counted: 45, Body: &pb.Message_Recall{Recall: &pb.Recall{Target: 45}}},
				{Conv: aliceBob, Seq: 48, TimeMs: noon + 7, Counted: 45, Withheld: true},
			},
		}}}},
		{"24-client-send-recall", &pb.ClientFrame{Id: 13, Body: &pb.ClientFrame_Send{Send: &pb.Send{
			Conv: aliceBob, ClientMsgId: "5f0c1e9ab24d4e11", After: proto.Uint64(48), Body: &pb.Send_Recall{Recall: &pb.Recall{Target: 42}},
		}}}},
		{"25-client-cursor", &pb.ClientFrame{Id: 14, Body: &pb.ClientFrame_Cursor{Cursor: &pb.MoveCursor{Conv: aliceBob, Read: 43}}}},
		{"26-server-cursor", &pb.ServerFrame{Id: 14, Body: &pb.ServerFrame_Cursor{Cursor: &pb.CursorMoved{Conv: aliceBob, Delivered: 43, Read: 43}}}},
		{"27-client-focus", &pb.ClientFrame{Id: 15, Body: &pb.ClientFrame_Focus{Focus: &pb.SetFocus{Convs: []string{aliceBob}}}}},
		{"28-server-focus", &pb.ServerFrame{Id: 15, Body: &pb.ServerFrame_Focus{Focus: &pb.Focused{Heads: []*pb.Hint{{Conv: aliceBob, Head: 48, Counted: 45}}}}}},
		{"29-server-events-hint-receipt", &pb.ServerFrame{Body: &pb.ServerFrame_Events{Events: &pb.Events{
			Hints:    []*pb.Hint{{Conv: team, Head: 9, Counted: 6}},
			Receipts: []*pb.Receipt{{Conv: aliceBob, User: "bob", Delivered: 48, Read: 41}},
		}}}},
		{"30-server-events-inbox", &pb.ServerFrame{Body: &pb.ServerFrame_Events{Events: &pb.Events{Messages: []*pb.Message{{
			Conv: aliceInbox, Seq: 2, TimeMs: noon, Body: &pb.Message_Inbox{Inbox: &pb.InboxEntry{Entry: &pb.InboxEntry_Joined{
				Joined: &pb.InboxJoined{Conv: team, Kind: pb.ConvKind_CONV_KIND_GROUP, Seq: 1, Title: "team"},
			}}},
		}}}}}},
		{"31-client-call", &pb.ClientFrame{Id: 16, Body: &pb.ClientFrame_Call{Call: &pb.Call{Method: "petrel.v1.Service/Method", Request: &pb.Call_Json{Json: "{}"}}}}},
	}
}

// relationVectors are frames about messages that name others. P-4.10, P-5.8 to P-5.10,
// P-5.12.
func relationVectors() []vector {
	forwarded := &pb.Message{
		Conv: aliceBob, Seq: 43, From: "alice", ClientMsgId: "5f0c1e9ab24d4e13", TimeMs: noon + 9, Counted: 43, Body: &pb.Message_Text{Text: "good morning"},
		Rel: &pb.Relations{Forwarded: &pb.Forwarded{From: "carol", TimeMs: noon + 1}},
	}
	return []vector{
		{"32-client-send-reply", &pb.ClientFrame{Id: 4, Body: &pb.ClientFrame_Send{Send: &pb.Send{
			Conv: team, ClientMsgId: "5f0c1e9ab24d4e12", After: proto.Uint64(4), Body: &pb.Send_Text{Text: "a fine one"},
			Needs: []string{"rel"}, Rel: &pb.Relations{ReplyTo: 3, Silent: true},
		}}}},
		{"33-server-ack-counted", &pb.ServerFrame{Id: 4, Body: &pb.ServerFrame_Ack{Ack: &pb.Ack{Seq: 5, TimeMs: noon + 3, Counted: 3}}}},
		{"34-server-events-reply", &pb.ServerFrame{Body: &pb.ServerFrame_Events{Events: &pb.Events{Messages: []*pb.Message{{
			Conv: team, Seq: 5, From: "alice", ClientMsgId: "5f0c1e9ab24d4e12", TimeMs: noon + 3, Counted: 3, Body: &pb.Message_Text{Text: "a fine one"},
			Rel: &pb.Relations{ReplyTo: 3, Silent: true},
		}}}}}},
		{"35-client-send-edit-reply", &pb.ClientFrame{Id: 5, Body: &pb.ClientFrame_Send{Send: &pb.Send{
			Conv: team, ClientMsgId: "5f0c1e9ab24d4e14", After: proto.Uint64(5), Needs: []string{"edit", "rel"},
			Body: &pb.Send_Edit{Edit: &pb.Edit{Target: 5, Body: &pb.Edit_Text{Text: "a fine morning"}, Rel: &pb.Relations{}}},
		}}}},
		{"36-client-send-forward", &pb.ClientFrame{Id: 5, Body: &pb.ClientFrame_Send{Send: &pb.Send{
			User: "bob", ClientMsgId: "5f0c1e9ab24d4e13", After: proto.Uint64(42), Needs: []string{"rel"},
			Rel: &pb.Relations{ForwardOf: &pb.Ref{Conv: team, Seq: 3}},
		}}}},
		{"37-server-ack-forward", &pb.ServerFrame{Id: 5, Body: &pb.ServerFrame_Ack{Ack: &pb.Ack{Conv: aliceBob, Seq: 43, TimeMs: noon + 9, Counted: 43, Message: forwarded}}}},
		{"38-server-history-refs", &pb.ServerFrame{Id: 6, Body: &pb.ServerFrame_History{History: &pb.HistoryPage{
			Conv: team, Head: 9, FirstSeq: 1,
			Messages: []*pb.Message{{
				Conv: team, Seq: 9, From: "alice", ClientMsgId: "a9", TimeMs: noon + 20, Counted: 6, Body: &pb.Message_Text{Text: "look"},
				Rel: &pb.Relations{ReplyTo: 3},
			}},
			Refs: []*pb.Quote{
				{Seq: 3, From: "carol", TimeMs: noon + 1, Body: &pb.Quote_Text{Text: "good m"}, Cut: true, EditedBy: 7},
				{Seq: 5, From: "alice", TimeMs: noon + 3, RecalledBy: 8},
			},
		}}}},
		{"39-client-history-around", &pb.ClientFrame{Id: 6, Body: &pb.ClientFrame_History{History: &pb.GetHistory{Conv: team, Around: 41, Limit: 50}}}},
		{"47-client-history-notes", &pb.ClientFrame{Id: 7, Body: &pb.ClientFrame_History{History: &pb.GetHistory{Conv: team, Before: math.MaxUint64, OnlyNotes: true}}}},
		{"48-server-history-notes", &pb.ServerFrame{Id: 6, Body: &pb.ServerFrame_History{History: &pb.HistoryPage{
			Conv: team, Head: 5, FirstSeq: 1, CoveredFrom: 2, CoveredTo: 3,
			Messages: []*pb.Message{{Conv: team, Seq: 3, From: "carol", ClientMsgId: "c3", TimeMs: noon + 1, Counted: 2, Body: &pb.Message_Text{Text: "good morning"}}},
			Notes: []*pb.Note{{
				Seq: 3, Version: 7, Pinned: true, Reactions: []*pb.ReactionCount{{Emoji: "👍", Count: 2, Mine: true}, {Emoji: "🐦", Count: 1}},
			}},
		}}}},
		{"49-server-events-notes", &pb.ServerFrame{Body: &pb.ServerFrame_Events{Events: &pb.Events{Notes: []*pb.Note{
			{Seq: 3, Version: 8, Reactions: []*pb.ReactionCount{{Emoji: "👍", Count: 3}}, ForAll: true, Conv: team},
		}}}}},
		{"60-client-send-thread", &pb.ClientFrame{Id: 6, Body: &pb.ClientFrame_Send{Send: &pb.Send{
			Conv: team, ClientMsgId: "5f0c1e9ab24d4e15", After: proto.Uint64(9), Needs: []string{"rel"}, Body: &pb.Send_Text{Text: "so late?"},
			Rel: &pb.Relations{Thread: 5, AlsoMain: true},
		}}}},
		{"61-server-ack-thread", &pb.ServerFrame{Id: 6, Body: &pb.ServerFrame_Ack{Ack: &pb.Ack{Seq: 10, TimeMs: noon + 11, Counted: 7, ThreadN: 1}}}},
		{"62-server-events-thread", &pb.ServerFrame{Body: &pb.ServerFrame_Events{Events: &pb.Events{Messages: []*pb.Message{{
			Conv: team, Seq: 10, From: "alice", ClientMsgId: "5f0c1e9ab24d4e15", TimeMs: noon + 11, Counted: 7, ThreadN: 1, Body: &pb.Message_Text{Text: "so late?"},
			Rel: &pb.Relations{Thread: 5, AlsoMain: true},
		}}}}}},
		{"70-client-send-mentions", &pb.ClientFrame{Id: 7, Body: &pb.ClientFrame_Send{Send: &pb.Send{
			Conv: team, ClientMsgId: "5f0c1e9ab24d4e16", After: proto.Uint64(10), Needs: []string{"mentions"}, Body: &pb.Send_Text{Text: "@bob @carol who rows?"},
			Rel: &pb.Relations{Mentions: []string{"bob", "carol"}},
		}}}},
		{"71-server-events-mention-all", &pb.ServerFrame{Body: &pb.ServerFrame_Events{Events: &pb.Events{
			Messages: []*pb.Message{{
				Conv: team, Seq: 12, From: "alice", ClientMsgId: "5f0c1e9ab24d4e17", TimeMs: noon + 13, Counted: 8, Body: &pb.Message_Text{Text: "we go"},
				Rel: &pb.Relations{MentionAll: true, Silent: true},
			}},
			Hints: []*pb.Hint{{Conv: aliceBob, Head: 49, Counted: 46, MentionSeq: 49}},
		}}}},
		{"72-server-sync-mentions", &pb.ServerFrame{Id: 2, Body: &pb.ServerFrame_Sync{Sync: &pb.SyncPage{
			Convs: []*pb.ConvState{
				{Conv: team, Kind: pb.ConvKind_CONV_KIND_GROUP, Title: "team", Head: 12, Counted: 8, FirstSeq: 1, Role: pb.Role_ROLE_MEMBER, Joined: 1, Mentions: []uint64{11, 12}},
				{Conv: aliceBob, Kind: pb.ConvKind_CONV_KIND_DIRECT, Peer: "bob", Head: 49, Counted: 46, FirstSeq: 1, Role: pb.Role_ROLE_MEMBER, Joined: 1, MentionsMissing: true},
			},
			Token: []byte{1, 2, 5},
		}}}},
		{"73-server-cursor-mentions", &pb.ServerFrame{Id: 14, Body: &pb.ServerFrame_Cursor{Cursor: &pb.CursorMoved{Conv: team, Delivered: 12, Read: 11, Mentions: []uint64{12}, Head: 12}}}},
	}
}

// lossyVectors are signals and presence: P-13.
func lossyVectors() []vector {
	return []vector{
		{"40-client-signal", &pb.ClientFrame{Id: 13, Body: &pb.ClientFrame_Signal{Signal: &pb.SendSignal{Conv: team, Kind: "typing"}}}},
		{"41-client-signal-held", &pb.ClientFrame{Id: 15, Body: &pb.ClientFrame_Signal{Signal: &pb.SendSignal{
			User: "bob", Kind: "call", Data: []byte{0, 1, 0xfe, 0xff}, HoldMs: 30000,
		}}}},
		{"42-server-signal", &pb.ServerFrame{Id: 13, Body: &pb.ServerFrame_Signal{Signal: &pb.Signaled{}}}},
		{"43-server-events-signals", &pb.ServerFrame{Body: &pb.ServerFrame_Events{Events: &pb.Events{Signals: []*pb.Signal{
			{Conv: team, From: "carol", Kind: "typing", Head: 42, Id: 0x123456789abcdef, TimeMs: noon},
			{Conv: aliceBob, From: "alice", Kind: "call", Data: []byte{0, 1, 0xfe, 0xff}, Head: 43, Id: 1 << 63, TimeMs: noon + 1, HoldMs: 30000},
		}}}}},
		{"44-client-watch", &pb.ClientFrame{Id: 14, Body: &pb.ClientFrame_Watch{Watch: &pb.SetWatch{Users: []string{"bob", "carol"}}}}},
		{"45-server-watch", &pb.ServerFrame{Id: 14, Body: &pb.ServerFrame_Watch{Watch: &pb.Watching{}}}},
		{"46-server-events-presences", &pb.ServerFrame{Body: &pb.ServerFrame_Events{Events: &pb.Events{Presences: []*pb.Presence{
			{User: "bob", Online: true}, {User: "carol", LastMs: noon - 600000}, {User: "nobody"},
		}}}}},
	}
}

// unknown is a frame with fields that this version does not know. Readers
// ignore them in both codecs; a protobuf reader that writes the frame again
// keeps them.
type unknown struct {
	name  string
	known proto.Message
	extra []byte // protobuf fields behind those of known
	json  string
}

func unknowns() []unknown {
	extra := protowire.AppendTag(nil, 1000, protowire.BytesType)
	extra = protowire.AppendString(extra, "from the future")
	return []unknown{
		{"20-client-unknown-field", &pb.ClientFrame{Id: 7, Body: &pb.ClientFrame_Ping{Ping: &pb.Ping{}}}, extra,
			`{"id":"7","ping":{"sent":[1,{"a":null}]},"fromTheFuture":"yes"}`},
		{"21-server-unknown-field", &pb.ServerFrame{Id: 4, Body: &pb.ServerFrame_Ack{Ack: &pb.Ack{Seq: 42, TimeMs: noon}}}, extra,
			`{"id":"4","ack":{"seq":"42","timeMs":"1795262400000","shard":{"x":1}},"fromTheFuture":"yes"}`},
		{"22-server-unknown-body", &pb.ServerFrame{}, extra, `{"fromTheFuture":{"x":1}}`},
	}
}

// badFrame is one that the server does not take. It closes the connection, or, where
// answer is the id of the frame, answers it with a settled error.
type badFrame struct {
	name    string
	where   string // "first", "json session", "protobuf session"
	on      string // "ws-text", "ws-binary", "ws-raw" (with WebSocket framing), "tcp" (with its framing)
	content []byte
	code    string
	close   int
	answer  int
	clause  string
}

var badFrames = []badFrame{
	{"bad-01-neither-codec", "first", "ws-text", []byte("hello"), "unknown_codec", 4415, 0, "P-1.3"},
	{"bad-02-http-on-tcp", "first", "tcp", []byte("GET / HTTP/1.1\r\n\r\n"), "unknown_codec", 4415, 0, "P-1.3"},
	{"bad-73-blank-before-json-on-tcp", "first", "tcp", []byte(" {\"id\":\"1\",\"ping\":{}}\n"), "unknown_codec", 4415, 0, "P-1.3"},
	{"bad-74-empty-line-on-tcp", "first", "tcp", []byte("\n{\"id\":\"1\",\"ping\":{}}\n"), "unknown_codec", 4415, 0, "P-1.3"},
	{"bad-03-cut-json", "json session", "ws-text", []byte(`{"id":"2","send":`), "bad_frame", 4400, 0, "P-2.3"},
	{"bad-04-no-body", "json session", "ws-text", []byte(`{"id":"2"}`), "invalid", 0, 2, "P-2.3"},
	{"bad-05-two-bodies", "json session", "ws-text", []byte(`{"id":"2","ping":{},"pong":{}}`), "invalid", 0, 2, "P-2.3"},
	{"bad-06-wrong-type", "json session", "ws-text", []byte(`{"id":"2","send":{"conv":7}}`), "invalid", 0, 2, "P-2.3"},
	{"bad-07-cut-protobuf", "protobuf session", "ws-binary", []byte{0x08, 0x02, 0x1a, 0x20, 0x0a}, "bad_frame", 4400, 0, "P-2.3"},
	{"bad-08-utf8-in-json", "json session", "ws-text", []byte("{\"id\":\"2\",\"send\":{\"user\":\"bob\",\"clientMsgId\":\"k\",\"text\":\"\xff\xfe\"}}"), "bad_utf8", 1007, 0, "P-2.4"},
	{"bad-09-utf8-in-protobuf", "protobuf session", "ws-binary", []byte("\x08\x02\x1a\x0c\x12\x03bob\x1a\x01k\x32\x02\xff\xfe"), "invalid", 0, 2, "P-2.4"},
	{"bad-10-length-over-limit", "first", "tcp", []byte{0x00, 0x10, 0x00, 0x01}, "frame_too_large", 1009, 0, "P-2.5"},
	{"bad-11-empty-frame", "first", "tcp", []byte{0, 0, 0, 0}, "bad_frame", 4400, 0, "P-2.3"},
	{"bad-12-other-codec", "json session", "ws-binary", []byte{0x08, 0x02, 0x42, 0x00}, "bad_frame", 4400, 0, "P-2.3"},
	{"bad-13-send-before-hello", "first", "ws-text", []byte(`{"id":"1","send":{"user":"bob","clientMsgId":"k","after":"0","text":"hi"}}`), "hello_expected", 4400, 0, "P-3.1"},
	{"bad-14-second-hello", "json session", "ws-text", []byte(`{"id":"2","hello":{"versionMin":1,"versionMax":1,"token":"t"}}`), "hello_expected", 4400, 0, "P-3.1"},
	{"bad-15-version", "first", "ws-text", []byte(`{"id":"1","hello":{"versionMin":7,"versionMax":9,"token":"t"}}`), "version_unsupported", 4406, 0, "P-3.2"},
	{"bad-16-token", "first", "ws-text", []byte(`{"id":"1","hello":{"versionMin":1,"versionMax":1,"token":"pt_default.alice.wrong"}}`), "unauthenticated", 4401, 0, "P-3.3"},
	{"bad-17-unmasked", "json session", "ws-raw", []byte("\x81\x15{\"id\":\"2\",\"ping\":{}}\n"), "unmasked", 1002, 0, "P-1.5"},
	{"bad-18-half-a-surrogate", "json session", "ws-text", []byte(`{"id":"2","send":{"user":"bob","clientMsgId":"k","text":"\ud800"}}`), "invalid", 0, 2, "P-2.3"},
	{"bad-19-deep", "json session", "ws-text", []byte(`{"id":"2","ping":{"x":[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]}}`), "invalid", 0, 2, "P-2.3"},
	{"bad-20-utf8-in-needs", "protobuf session", "ws-binary", []byte("\x08\x02\x1a\x11\x12\x03bob\x1a\x01k\x32\x02hi\x62\x03r\xffl"), "invalid", 0, 2, "P-2.4"},
	{"bad-21-utf8-in-rel", "protobuf session", "ws-binary", []byte("\x08\x02\x1a\x14\x12\x03bob\x1a\x01k\x6a\x0a\x3a\x08\x0a\x04g\xff\xfe1\x10\x03"), "invalid", 0, 2, "P-2.4"},
	{"bad-22-forward-with-a-body", "json session", "ws-text", []byte(`{"id":"2","send":{"user":"bob","clientMsgId":"k","text":"hi","rel":{"forwardOf":{"conv":"gKQtYt3wSdI4pbTbl9KK9","seq":"3"}}}}`), "invalid", 0, 2, "P-5.10"},
	{"bad-23-forwarded-in-a-send", "json session", "ws-text", []byte(`{"id":"2","send":{"user":"bob","clientMsgId":"k","text":"hi","rel":{"forwarded":{"from":"carol"}}}}`), "invalid", 0, 2, "P-5.8"},
	{"bad-24-mentions-in-another-order", "json session", "ws-text", []byte(`{"id":"2","send":{"user":"bob","clientMsgId":"k","text":"hi","rel":{"mentions":["carol","bob"]}}}`), "invalid", 0, 2, "P-5.13"},
	{"bad-70-mentions-no-user-id", "json session", "ws-text", []byte(`{"id":"2","send":{"user":"bob","clientMsgId":"k","text":"hi","rel":{"mentions":["bob smith"]}}}`), "invalid", 0, 2, "P-5.13"},
	{"bad-71-utf8-in-mentions", "protobuf session", "ws-binary", []byte("\x08\x02\x1a\x12\x12\x03bob\x1a\x01k\x32\x02hi\x6a\x04\x22\x02b\xff"), "invalid", 0, 2, "P-2.4"},
	{"bad-72-mentions-in-an-edit", "json session", "ws-text", []byte(`{"id":"2","send":{"user":"bob","clientMsgId":"k","edit":{"target":"1","text":"hi","rel":{"mentionAll":true}}}}`), "invalid", 0, 2, "P-5.8"},
	{"bad-25-unknown-need", "json session", "ws-text", []byte(`{"id":"2","send":{"user":"bob","clientMsgId":"k","text":"hi","needs":["time-travel"]}}`), "unsupported", 0, 2, "P-4.10"},
	{"bad-60-also-main-without-thread", "json session", "ws-text", []byte(`{"id":"2","send":{"user":"bob","clientMsgId":"k","text":"hi","rel":{"alsoMain":true}}}`), "invalid", 0, 2, "P-5.12"},
	{"bad-40-signal-without-kind", "json session", "ws-text", []byte(`{"id":"2","signal":{"user":"bob"}}`), "invalid", 0, 2, "P-13.1"},
	{"bad-41-signal-to-two", "json session", "ws-text", []byte(`{"id":"2","signal":{"user":"bob","conv":"gKQtYt3wSdI4pbTbl9KK9","kind":"x"}}`), "invalid", 0, 2, "P-13.1"},
	{"bad-42-signal-too-large", "json session", "ws-text", []byte(`{"id":"2","signal":{"user":"bob","kind":"x","data":"` + strings.Repeat("AAAA", 342) + `"}}`), "too_large", 0, 2, "P-13.1"},
	{"bad-43-held-in-a-group", "json session", "ws-text", []byte(`{"id":"2","signal":{"conv":"gKQtYt3wSdI4pbTbl9KK9","kind":"x","holdMs":1}}`), "invalid", 0, 2, "P-13.4"},
	{"bad-44-typing-with-data", "json session", "ws-text", []byte(`{"id":"2","signal":{"user":"bob","kind":"typing","data":"AAAA"}}`), "invalid", 0, 2, "P-13.2"},
	{"bad-45-watch-no-user-id", "json session", "ws-text", []byte(`{"id":"2","watch":{"users":["bob","no/id"]}}`), "invalid", 0, 2, "P-13.5"},
}
