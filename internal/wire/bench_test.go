package wire_test

import (
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// benchTexts are bodies of 100 bytes or a little more.
var benchTexts = map[string]string{
	"plain":   strings.Repeat("a message of plain text. ", 4),
	"chinese": strings.Repeat("海燕在大海上飞翔", 4),
	"escaped": strings.Repeat("a \"message\"\nof two lines\n", 4),
}

// BenchmarkDecode reads a send.
func BenchmarkDecode(b *testing.B) {
	after := uint64(1000)
	for name, text := range benchTexts {
		f := &petrelv1.ClientFrame{Id: 12345, Body: &petrelv1.ClientFrame_Send{Send: &petrelv1.Send{
			Conv: "gKQtYt3wSdI4pbTbl9KK9", ClientMsgId: "5f0c1e9ab24d4e0f5f0c1e9ab24d4e0f", After: &after, Body: &petrelv1.Send_Text{Text: text},
		}}}
		for _, c := range codecs {
			content := encode(b, c, f)
			b.Run(name+"/"+c.String(), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					var f petrelv1.ClientFrame
					if err := wire.Decode(c, content, &f); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkAppendEvents writes a stored message.
func BenchmarkAppendEvents(b *testing.B) {
	for name, text := range benchTexts {
		stored := [][]byte{wire.AppendMessage(nil, &petrelv1.Message{
			Conv: "gKQtYt3wSdI4pbTbl9KK9", Seq: 1001, From: "alice", ClientMsgId: "5f0c1e9ab24d4e0f5f0c1e9ab24d4e0f", TimeMs: 1795262400000, Counted: 1001,
			Body: &petrelv1.Message_Text{Text: text},
		})}
		for _, c := range codecs {
			b.Run(name+"/"+c.String(), func(b *testing.B) {
				b.ReportAllocs()
				var out []byte
				for b.Loop() {
					out = wire.AppendEvents(out[:0], wire.Encoding{Codec: c}, stored)
				}
			})
		}
	}
}

// BenchmarkAppendFrame writes a page of 50 messages.
func BenchmarkAppendFrame(b *testing.B) {
	page := &petrelv1.HistoryPage{Conv: "gKQtYt3wSdI4pbTbl9KK9", Head: 1001, FirstSeq: 1}
	for i := range uint64(50) {
		page.Messages = append(page.Messages, &petrelv1.Message{
			Conv: page.Conv, Seq: i + 1, From: "alice", ClientMsgId: "5f0c1e9ab24d4e0f", TimeMs: 1795262400000, Counted: i + 1,
			Body: &petrelv1.Message_Text{Text: benchTexts["plain"]},
		})
	}
	f := &petrelv1.ServerFrame{Id: 7, Body: &petrelv1.ServerFrame_History{History: page}}
	for _, c := range codecs {
		b.Run(c.String(), func(b *testing.B) {
			b.ReportAllocs()
			var out []byte
			for b.Loop() {
				out = wire.AppendFrame(out[:0], wire.Encoding{Codec: c}, f)
			}
		})
	}
}
