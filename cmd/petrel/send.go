package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/client"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// sent is the answer of `send`.
type sent struct {
	Conv string  `json:"conv"`
	Seq  uint64  `json:"seq,string"`
	ID   string  `json:"client_msg_id"`
	Time uint64  `json:"time_ms,string"`
	Took float64 `json:"took_ms"` // from the send to its ack
}

func newSend(c *cli) *cobra.Command {
	var (
		as      session
		m       petrelv1.Send
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "send TEXT",
		Short: "Send a message and wait until it is durable",
		Long: "Sends a text to a user or to a conversation, and prints its seq when the message is durable. With - as TEXT, the text is\n" +
			"read from the standard input. If the connection ends before the ack, or the server cannot take the message now, the\n" +
			"command sends it again with the same client message id, so it is stored only once.",
		Example: "  petrel send --as bob --to alice \"hi\"\n  petrel send --as alice --conv gKQtYt3wSdI4pbTbl9KK9 \"hi all\"\n" +
			"  date | petrel send --as bob --to alice --id date-1 -",
		Args: cobra.ExactArgs(1),
		RunE: command(func(cmd *cobra.Command, args []string) error {
			if (m.User == "") == (m.Conv == "") {
				return usage("to whom?", "give one of --to USER and --conv CONV")
			}
			text := args[0]
			if text == "-" {
				b, err := io.ReadAll(c.in)
				if err != nil {
					return err
				}
				text = strings.TrimSuffix(string(b), "\n")
			}
			m.Body = &petrelv1.Send_Text{Text: text}
			if m.ClientMsgId == "" {
				m.ClientMsgId = rand.Text()
			}
			t, err := c.target(cmd)
			if err != nil {
				return err
			}
			o, err := as.options(c, t)
			if err != nil {
				return err
			}
			ctx, stop := context.WithTimeout(cmd.Context(), timeout)
			defer stop()
			s, err := sendOnce(ctx, o, &m)
			if err != nil {
				return err
			}
			return c.print(s, func(w io.Writer) {
				fmt.Fprintf(w, "✓ stored  seq %d  conv %s  %.1f ms\n", s.Seq, s.Conv, s.Took)
			})
		}),
	}
	as.addFlags(cmd)
	cmd.Flags().StringVar(&m.User, "to", "", "`USER` to write to")
	cmd.Flags().StringVar(&m.Conv, "conv", "", "`CONV` to write to")
	cmd.Flags().StringVar(&m.ClientMsgId, "id", "", "client message `ID`; a message that is sent again with its id is not stored again (default: random)")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "give up after this long")
	return cmd
}

// sendOnce sends m until its fate is known or ctx ends. Every attempt carries
// the same frame, so it is stored at most once. Spec: P-4.8.
func sendOnce(ctx context.Context, o client.Options, m *petrelv1.Send) (*sent, error) {
	const doing = "send"
	tried := false // a frame left, and nothing definite came back
	for wait := 500 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		s, left, err := attempt(ctx, o, m)
		if err == nil {
			return s, nil
		}
		f := fromServer(o.URL, doing, err)
		tried = tried || left
		if !unsettled(err) || !tried && f.exit != exitFailed {
			return nil, f
		}
		if e, ok := errors.AsType[*im.Error](err); ok {
			wait = max(wait, e.RetryAfter)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			if !tried {
				return nil, f
			}
			f.what = "it is not known whether the message is stored"
			f.fix = fmt.Sprintf("send it again with --id %s: it will not be stored twice", m.ClientMsgId)
			return nil, f
		}
	}
}

// attempt sends m over a connection of its own; left tells whether the frame
// may have reached the server.
func attempt(ctx context.Context, o client.Options, m *petrelv1.Send) (s *sent, left bool, err error) {
	conn, err := client.Dial(ctx, o)
	if err != nil {
		return nil, false, err
	}
	defer conn.Close()
	began := time.Now()
	ack, err := conn.Send(ctx, m)
	if err != nil {
		return nil, true, err
	}
	s = &sent{Conv: ack.Conv, Seq: ack.Seq, ID: m.ClientMsgId, Time: ack.TimeMs, Took: float64(time.Since(began)) / float64(time.Millisecond)}
	if s.Conv == "" {
		s.Conv = m.Conv
	}
	return s, true, nil
}
