package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/terminal"
	sdk "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// keepEntries is the least number of entries of a conversation that the client of `petrel tail` holds. If more came
// while the connection was lost, it reads the others from the history.
const keepEntries = 1000

func newTail(c *cli) *cobra.Command {
	var (
		as   session
		conv string
		last int
		n    int
	)
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print the messages of a user as they come",
		Long: "Connects as a user and prints every entry of the user's conversations, each once and in order. Entries that were not\n" +
			"pushed are read from the history. A lost connection is made again.",
		Example: "  petrel tail --as alice\n  petrel tail --as alice --last 20 --json\n  petrel tail --as alice --conv gKQtYt3wSdI4pbTbl9KK9 --count 1",
		Args:    cobra.NoArgs,
		RunE: command(func(cmd *cobra.Command, _ []string) error {
			t, err := c.target(cmd)
			if err != nil {
				return err
			}
			o, err := as.options(c, t)
			if err != nil {
				return err
			}
			o.Newest, o.Keep = cmp.Or(last, -1), max(last, keepEntries)
			client, err := sdk.New(o)
			if err != nil {
				return err
			}
			f := &follower{client: client, only: conv, limit: n, show: c.showEntry}
			f.online = func(user string) {
				if !c.json {
					fmt.Fprintf(c.err, "showing the messages of %s on %s; Ctrl-C ends\n", user, t.url)
				}
			}
			f.offline = func(err error) { fmt.Fprintf(c.err, "offline: %v; connecting again\n", err) }
			return f.run(cmd.Context(), o.URL)
		}),
	}
	as.addFlags(cmd)
	cmd.Flags().StringVar(&conv, "conv", "", "only this `CONV`")
	cmd.Flags().IntVar(&last, "last", 0, "first print the last `N` entries of each conversation")
	cmd.Flags().IntVar(&n, "count", 0, "end after `N` entries (0: do not end)")
	return cmd
}

// showEntry prints one entry.
func (c *cli) showEntry(m *petrelv1.Message, where sdk.Conversation) error {
	return c.printEntry(m, where, sender(m))
}

func (c *cli) printEntry(m *petrelv1.Message, where sdk.Conversation, from string) error {
	if c.json {
		return writeLine(c.out, m)
	}
	_, err := fmt.Fprintf(c.out, "%s  %s #%d  %s: %s\n",
		when(m, time.TimeOnly), terminal.Line(place(m, where)), m.Seq, terminal.Line(from),
		terminal.Line(content(m)))
	return err
}

// when formats the time of an entry, as wide as layout. An entry that was lost by damage has no time. Spec: P-5.7.
func when(m *petrelv1.Message, layout string) string {
	if m.TimeMs == 0 {
		return fmt.Sprintf("%-*s", len(layout), "-")
	}
	return time.UnixMilli(int64(m.TimeMs)).Format(layout)
}

// writeLine writes m as JSON by the mapping of P-1.4, on one line.
func writeLine(w io.Writer, m proto.Message) error {
	b, err := protojson.Marshal(m)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, b); err != nil { // protojson puts in spaces at random
		return err
	}
	line.WriteByte('\n')
	_, err = line.WriteTo(w)
	return err
}

// place returns a name of the conversation of m for people.
func place(m *petrelv1.Message, s sdk.Conversation) string {
	switch {
	case s.Title != "":
		return fmt.Sprintf("%q", s.Title)
	case s.Peer != "":
		return "@" + s.Peer
	}
	return m.Conv
}

// sender names the sender of an entry. An entry that was lost by damage has no sender. Spec: P-5.7.
func sender(m *petrelv1.Message) string {
	if m.Lost {
		return "(nobody knows)"
	}
	if m.From == "" {
		return "(server)"
	}
	return m.From
}

// related describes the relations of an entry in words.
func related(r *petrelv1.Relations) string {
	s := ""
	if q := r.GetReplyTo(); q != 0 {
		s = fmt.Sprintf("(answers #%d) ", q)
	}
	if q := r.GetThread(); q != 0 {
		s += fmt.Sprintf("(in the thread of #%d) ", q)
	}
	switch f := r.GetForwarded(); {
	case f.GetFrom() != "":
		s += fmt.Sprintf("(forwarded from %s) ", f.From)
	case f != nil:
		s += "(forwarded) "
	}
	switch users := r.GetMentions(); {
	case r.GetMentionAll():
		s += "(mentions everybody) "
	case len(users) > 0:
		s += fmt.Sprintf("(mentions %s) ", strings.Join(users, ", "))
	}
	return s
}

// content describes the body of an entry in words.
func content(m *petrelv1.Message) string {
	switch b := m.Body.(type) {
	case *petrelv1.Message_Text:
		return related(m.Rel) + b.Text
	case *petrelv1.Message_Data:
		return related(m.Rel) + fmt.Sprintf("(%d bytes of %s)", len(b.Data), m.Type)
	case *petrelv1.Message_Members:
		return members(b.Members)
	case *petrelv1.Message_Group:
		return fmt.Sprintf("title %q", b.Group.Title)
	case *petrelv1.Message_Edit:
		switch e := b.Edit.Body.(type) {
		case *petrelv1.Edit_Text:
			return fmt.Sprintf("(edited #%d) %s", b.Edit.Target, e.Text)
		case *petrelv1.Edit_Data:
			return fmt.Sprintf("(edited #%d) (%d bytes of %s)", b.Edit.Target, len(e.Data), b.Edit.Type)
		}
		return fmt.Sprintf("(edited #%d)", b.Edit.Target)
	case *petrelv1.Message_Recall:
		return fmt.Sprintf("(recalled #%d)", b.Recall.Target)
	case nil:
		switch {
		case m.Withheld:
			return "(withheld)"
		case m.Lost:
			return "(lost)"
		case sdk.Message{Message: m}.NeedsNewerVersion():
			return "(a newer version of petrel can show this)"
		case m.RecalledBy == 0:
			return "(edited after the user left)"
		}
		return "(recalled)"
	}
	b, err := protojson.Marshal(m)
	if err != nil {
		return "(unreadable)"
	}
	return string(b)
}

// members describes a change of members in words.
func members(c *petrelv1.MemberChange) string {
	var words []string
	for _, m := range c.Added {
		words = append(words, "added "+m.User)
	}
	for _, u := range c.Removed {
		words = append(words, "removed "+u)
	}
	for _, u := range c.Left {
		words = append(words, u+" left")
	}
	for _, m := range c.Roles {
		words = append(words, m.User+" is "+roleName(m.Role))
	}
	if c.Dissolved {
		words = append(words, "dissolved")
	}
	return "(" + strings.Join(words, ", ") + ")"
}

func roleName(r petrelv1.Role) string {
	return strings.ToLower(strings.TrimPrefix(r.String(), "ROLE_"))
}
