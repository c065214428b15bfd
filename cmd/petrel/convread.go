package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/text/width"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/terminal"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func newConvList(c *cli) *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use:     "list USER",
		Short:   "List the conversations of a user",
		Long:    "Lists the conversations of a user, also those that the user has left, with the user's role, the head and how far the user\nhas read.",
		Example: "  petrel conv list alice\n  petrel conv list alice --json | jq -r .conv",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			q := &petrelv1.ListUserConversationsRequest{Tenant: tenant, User: args[0]}
			t := c.table("CONV", "WHAT", "ROLE", "HEAD", "READ")
			for {
				r, err := call(ctx, api, "list the conversations of "+q.User, api.ListUserConversations, q)
				if err != nil {
					return err
				}
				for _, s := range r.Convs {
					role := roleName(s.Role)
					if s.Left {
						role = "(left)"
					}
					if err := t.row(s, s.Conv, convName(s), role, s.Head, s.Read); err != nil {
						return err
					}
				}
				if q.Token = r.Token; len(q.Token) == 0 {
					return t.end()
				}
			}
		}),
	}
	addTenant(cmd, &tenant)
	return cmd
}

// convName returns a name of the conversation s for people.
func convName(s *petrelv1.ConvState) string {
	switch {
	case s.Kind == petrelv1.ConvKind_CONV_KIND_DIRECT:
		return "@" + s.Peer
	case s.Title != "":
		return s.Title
	}
	return "(without title)"
}

// table prints rows as a table for people, all of them at the end. With --json it prints each row as a line of JSON at
// once.
type table struct {
	c     *cli
	rows  [][]string
	width []int // of the columns, in cells
}

func (c *cli) table(columns ...string) *table {
	t := &table{c: c}
	if !c.json {
		t.add(columns)
	}
	return t
}

func (t *table) add(cells []string) {
	for i, cell := range cells {
		if i == len(t.width) {
			t.width = append(t.width, 0)
		}
		t.width[i] = max(t.width[i], cellsOf(cell))
	}
	t.rows = append(t.rows, cells)
}

// row adds the cells as a row. With --json it writes m instead.
func (t *table) row(m proto.Message, cells ...any) error {
	if t.c.json {
		return writeLine(t.c.out, m)
	}
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = terminal.Line(fmt.Sprint(cell))
	}
	t.add(texts)
	return nil
}

// end prints the table; with --json nothing.
func (t *table) end() error {
	var b strings.Builder
	for _, cells := range t.rows {
		line := ""
		for i, cell := range cells {
			line += cell + strings.Repeat(" ", t.width[i]-cellsOf(cell)+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(t.c.out, b.String())
	return err
}

// cellsOf returns the number of terminal columns of a text.
func cellsOf(s string) (n int) {
	for _, r := range s {
		switch width.LookupRune(r).Kind() {
		case width.EastAsianWide, width.EastAsianFullwidth:
			n++
		}
		n++
	}
	return n
}

func newConvMembers(c *cli) *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use:     "members CONV",
		Short:   "List, add and remove the members of a conversation",
		Long:    "Lists the members of a conversation with their roles. The commands `add` and `remove` below it change them.",
		Example: "  petrel conv members gKQtYt3wSdI4pbTbl9KK9\n  petrel conv members add gKQtYt3wSdI4pbTbl9KK9 carol",
		Args:    cobra.MaximumNArgs(1),
	}
	list := c.operator(func(ctx context.Context, api *admin, args []string) error {
		q := &petrelv1.AdminListMembersRequest{Tenant: tenant, Conv: args[0]}
		t := c.table("USER", "ROLE")
		for {
			r, err := call(ctx, api, "list the members of "+q.Conv, api.ListMembers, q)
			if err != nil {
				return err
			}
			for _, m := range r.Members {
				if err := t.row(m, m.User, roleName(m.Role)); err != nil {
					return err
				}
				q.After = m.User
			}
			if !r.More {
				return t.end()
			}
		}
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return list(cmd, args)
	}
	addTenant(cmd, &tenant)
	cmd.AddCommand(newMembersAdd(c), newMembersRemove(c))
	return cmd
}

func newConvHistory(c *cli) *cobra.Command {
	q := &petrelv1.AdminGetHistoryRequest{History: &petrelv1.GetHistory{}}
	h := q.History
	var last uint64
	cmd := &cobra.Command{
		Use:   "history CONV",
		Short: "Print entries of a conversation",
		Long: "Prints the newest entries of a conversation, the oldest of them first. With --after it prints the entries that follow\n" +
			"an entry, with --before those that come before one. An edited or recalled entry is shown as its members see it.",
		Example: "  petrel conv history gKQtYt3wSdI4pbTbl9KK9\n  petrel conv history gKQtYt3wSdI4pbTbl9KK9 --after 40 --last 10 --json",
		Args:    cobra.ExactArgs(1),
	}
	fs := cmd.Flags()
	addTenant(cmd, &q.Tenant)
	fs.Uint64Var(&h.After, "after", 0, "the first entries above `SEQ`")
	fs.Uint64Var(&h.Before, "before", 0, "the last entries below `SEQ`")
	fs.Uint64Var(&last, "last", 20, "at most `N` entries")
	fs.StringVar(&q.Reason, "reason", "", "`WHY` you read what others wrote; the audit log keeps it")
	cmd.RunE = c.operator(func(ctx context.Context, api *admin, args []string) error {
		h.Conv = args[0]
		if !cmd.Flags().Changed("after") && h.Before == 0 {
			h.Before = math.MaxUint64 // the newest page
		}
		entries, failure := readEntries(ctx, api, q, last)
		for _, m := range entries {
			var err error
			if c.json {
				err = writeLine(c.out, m)
			} else {
				_, err = fmt.Fprintf(c.out, "%s  #%d  %s: %s\n", when(m, time.DateTime), m.Seq,
					terminal.Line(sender(m)), terminal.Line(content(m)))
			}
			if err != nil {
				return err
			}
		}
		return failure
	})
	return cmd
}

// readEntries reads up to n entries of the range in q, in as many pages as needed, and returns them in ascending
// order. With an error it returns the entries read before. Spec: P-5.2.
func readEntries(ctx context.Context, api *admin, q *petrelv1.AdminGetHistoryRequest,
	n uint64) ([]*petrelv1.Message, error) {
	h := q.History
	var entries []*petrelv1.Message
	for n > 0 {
		h.Limit = uint32(min(n, maxPageEntries))
		p, err := call(ctx, api, "read "+h.Conv, api.GetHistory, q)
		if err != nil {
			return entries, err
		}
		if h.Before != 0 {
			entries = append(p.Messages, entries...)
		} else {
			entries = append(entries, p.Messages...)
		}
		got := uint64(len(p.Messages))
		if !p.More || got == 0 {
			break
		}
		n -= min(n, got)
		if h.Before != 0 {
			h.Before = p.Messages[0].Seq
		} else {
			h.After = p.Messages[got-1].Seq
		}
	}
	return entries, nil
}

// maxPageEntries is the requested size of a page; the server may give less.
const maxPageEntries = 200

func newConvExport(c *cli) *cobra.Command {
	q := &petrelv1.AdminGetHistoryRequest{History: &petrelv1.GetHistory{}}
	h := q.History
	cmd := &cobra.Command{
		Use:   "export CONV",
		Short: "Write all entries of a conversation as JSON lines",
		Long: "Writes every entry of a conversation, from the oldest up to the head at the time of the call. Each entry is a line of\n" +
			"JSON, in the form that clients get. The command needs the same memory for a short and for a long conversation. If it\n" +
			"breaks off, it says how to go on: call it again with --after and the last SEQ that was written, and append.",
		Example: "  petrel conv export gKQtYt3wSdI4pbTbl9KK9 > boat.jsonl\n  petrel conv export gKQtYt3wSdI4pbTbl9KK9 --after 4711 >> boat.jsonl",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			h.Conv = args[0]
			n, err := export(ctx, api, q, c.out)
			if err != nil {
				f, on := failed(err), max(h.After, detailOf(err).GetDamagedTo())
				if on > h.After {
					f.why += fmt.Sprintf("; the entries up to %d are not in the file", on)
				}
				if on > 0 {
					f.fix = strings.TrimPrefix(f.fix+"\n", "\n") +
						fmt.Sprintf("go on with: petrel conv export %s --after %d", h.Conv, on)
				}
				return f
			}
			if !c.json {
				fmt.Fprintf(c.err, "%s of %s\n", plural(n, "entry"), h.Conv)
			}
			return nil
		}),
	}
	addTenant(cmd, &q.Tenant)
	cmd.Flags().Uint64Var(&h.After, "after", 0, "begin above `SEQ`")
	cmd.Flags().StringVar(&q.Reason, "reason", "", "`WHY` you read what others wrote; the audit log keeps it")
	return cmd
}

// export writes the entries above q.History.After to w, and sets After to the seq of the last one written. It ends at
// the head that the first page names, even if others go on writing. n is the number of entries written.
func export(ctx context.Context, api *admin, q *petrelv1.AdminGetHistoryRequest, w io.Writer) (n int, err error) {
	h := q.History
	end := uint64(0)
	for {
		p, err := call(ctx, api, "export "+h.Conv, api.GetHistory, q)
		if err != nil {
			return n, err
		}
		if end == 0 {
			end = p.Head
		}
		for _, m := range p.Messages {
			if m.Seq > end {
				return n, nil
			}
			if err := writeLine(w, m); err != nil {
				return n, err
			}
			h.After = m.Seq
			n++
		}
		if !p.More || len(p.Messages) == 0 {
			return n, nil
		}
	}
}
