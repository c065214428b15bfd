package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	sdk "github.com/petrel-im/petrel/sdk/go"
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
		d       sdk.Draft
		forward string
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "send [TEXT]",
		Short: "Send a message and wait until it is durable",
		Long: "Sends a text to a user or to a conversation, and prints its seq when the message is durable. With - as TEXT, the text is\n" +
			"read from the standard input. If the connection ends before the ack, or the server cannot take the message now, the\n" +
			"command sends it again with the same client message id, so it is stored only once.\n\n" +
			"With --forward, the message is a copy of another one, which the user may read. The server fills in the text and its author.",
		Example: "  petrel send --as bob --to alice \"hi\"\n  petrel send --as alice --conv gKQtYt3wSdI4pbTbl9KK9 \"hi all\"\n" +
			"  date | petrel send --as bob --to alice --id date-1 -\n  petrel send --as alice --to bob --forward gKQtYt3wSdI4pbTbl9KK9:3",
		Args: cobra.MaximumNArgs(1),
		RunE: command(func(cmd *cobra.Command, args []string) error {
			if (d.User == "") == (d.Conv == "") {
				return usage("to whom?", "give one of --to USER and --conv CONV")
			}
			var err error
			switch {
			case forward != "":
				d.Forward, err = entryNamed(forward, args)
			case len(args) == 0:
				err = usage("what?", "give a TEXT, or --forward CONV:SEQ")
			default:
				d.Text, err = c.textOf(args[0])
			}
			if err != nil {
				return err
			}
			d.ID = cmp.Or(d.ID, rand.Text())
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
			s, err := sendOnce(ctx, o, d)
			if err != nil {
				return err
			}
			return c.print(s, func(w io.Writer) {
				fmt.Fprintf(w, "✓ stored  seq %d  conv %s  %.1f ms\n", s.Seq, s.Conv, s.Took)
			})
		}),
	}
	as.addFlags(cmd)
	cmd.Flags().StringVar(&d.User, "to", "", "`USER` to write to")
	cmd.Flags().StringVar(&d.Conv, "conv", "", "`CONV` to write to")
	cmd.Flags().StringVar(&d.ID, "id", "",
		"client message `ID`; a message that is sent again with its id is not stored again (default: random)")
	cmd.Flags().StringVar(&forward, "forward", "", "`CONV:SEQ` of a message to copy, instead of TEXT")
	cmd.Flags().Uint64Var(&d.ReplyTo, "reply-to", 0, "seq of the entry that the message answers")
	cmd.Flags().Uint64Var(&d.Thread, "thread", 0,
		"seq of the message to whose thread the message belongs; it does not count as unread")
	cmd.Flags().BoolVar(&d.AlsoMain, "also-main", false, "with --thread: the message counts as unread all the same")
	cmd.Flags().StringSliceVar(&d.Mentions, "mention", nil,
		"`USERS` whom the message mentions, with commas between them")
	cmd.Flags().BoolVar(&d.MentionAll, "mention-all", false,
		"the message mentions all members; in a group only admins and the owner may do that")
	cmd.Flags().BoolVar(&d.Silent, "silent", false, "ask clients to notify nobody of the message")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "give up after this long")
	return cmd
}

// textOf returns arg. If arg is "-", it returns the text on the standard input, without a line feed at its end.
func (c *cli) textOf(arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	b, err := io.ReadAll(c.in)
	return strings.TrimSuffix(string(b), "\n"), err
}

// entryNamed returns the entry that the flag --forward names. args has the arguments of the command: a TEXT beside
// --forward is an error.
func entryNamed(forward string, args []string) (*petrelv1.Ref, error) {
	if len(args) > 0 {
		return nil, usage("a forward has no text", "leave out TEXT, or send it as a message of its own")
	}
	conv, seq, _ := strings.Cut(forward, ":")
	q, err := strconv.ParseUint(seq, 10, 64)
	if conv == "" || err != nil || q == 0 {
		return nil, usage(fmt.Sprintf("%q names no message", forward),
			"give a conversation and a seq, as in gKQtYt3wSdI4pbTbl9KK9:3")
	}
	return &petrelv1.Ref{Conv: conv, Seq: q}, nil
}

// sendOnce sends d until its fate is known or ctx ends. The client sends it under the same id whenever a
// connection breaks, so it is stored at most once. Spec: P-4.8.
func sendOnce(ctx context.Context, o sdk.Options, d sdk.Draft) (*sent, error) {
	client, err := sdk.New(o)
	if err != nil {
		return nil, err
	}
	var (
		m      *sdk.Outgoing
		began  = time.Now() // when the message was sent last
		tried  bool         // the message may have been sent
		putOff error        // why there is no answer yet
	)
	err = client.While(ctx, func(ctx context.Context) (err error) {
		changes := client.Subscribe()
		defer changes.Close()
		if m, err = client.Send(d); err != nil {
			return err
		}
		for {
			select {
			case <-m.Done():
				_, err := m.Wait(ctx)
				return err
			case <-changes.Ready():
				if !changes.Take().Status {
					break
				}
				s := client.Status()
				tried = tried || s.User != "" // User is set by the first welcome
				switch {
				case s.State == sdk.Live:
					began = time.Now()
				case s.State == sdk.Offline && s.Err != nil:
					putOff = s.Err
					if _, ok := errors.AsType[*net.OpError](s.Err); ok && !tried {
						return s.Err // the server could not be reached at all: give up
					}
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	took := time.Since(began)
	switch {
	case err == nil:
		_, conv, seq, _ := m.State()
		return &sent{Conv: conv, Seq: seq, ID: m.ID, Time: uint64(m.Time().UnixMilli()),
			Took: float64(took) / float64(time.Millisecond)}, nil
	case m == nil || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled):
		return nil, fromServer(o.URL, "send", err)
	}
	if _, _, _, refused := m.State(); refused != nil {
		putOff = refused
	}
	f := fromServer(o.URL, "send", cmp.Or(putOff, err))
	if tried {
		f.what = "it is not known whether the message is stored"
		f.fix = fmt.Sprintf("send it again with --id %s: it will not be stored twice", m.ID)
	}
	return nil, f
}
