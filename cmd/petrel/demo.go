package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

//go:embed demo.txt
var demoText string

func newDemo(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Fill an empty server with three users who talk",
		Long: "Makes the users alice, bob and carol on a running, empty server of this host, with groups and some history in English\n" +
			"and Chinese, and says how to join them. The messages are sent like those of any application. The command refuses a\n" +
			"server that has users already, or that other hosts can reach.",
		Example: "  petrel demo\n  petrel demo --server http://127.0.0.1:9000 --json",
		Args:    cobra.NoArgs,
		RunE: command(func(cmd *cobra.Command, _ []string) error {
			t, err := c.target(cmd)
			if err != nil {
				return err
			}
			if u, err := url.Parse(t.url); err != nil || !config.Loopback(withPort(u)) {
				return &fault{exit: exitFailed, code: "not_loopback",
					what: "the demo is for a server of this host only",
					why:  "other hosts can reach " + t.url + ", and could log in as alice",
					fix:  "start one here: petrel serve --data petrel-demo"}
			}
			api, err := c.admin(cmd.Context(), t)
			if err != nil {
				return err
			}
			s, err := seed(cmd.Context(), api)
			if err != nil {
				return err
			}
			s.link(cmd.Context(), api.public)
			for _, u := range s.Users[:2] {
				s.chats = append(s.chats, sameWay(cmd, "chat --as "+u.User))
			}
			return c.print(s, s.write)
		}),
	}
}

// withPort returns host:port of u. If u has no port, the port is 0: callers only use the host.
func withPort(u *url.URL) string {
	if u.Port() == "" {
		return u.Host + ":0"
	}
	return u.Host
}

// seeded is the answer of `demo`.
type seeded struct {
	Users    []issued   `json:"users"`
	Convs    []demoConv `json:"convs"`
	Messages int        `json:"messages"`
	Links    []demoLink `json:"links,omitempty"` // none: the server does not serve the web chat
	chats    []string   // commands that join as the first two users
}

// demoLink opens the web chat as a user. The token stands after the #, which browsers send to no server, and
// the page takes it on an address of this host only.
type demoLink struct {
	User string `json:"user"`
	URL  string `json:"url"`
}

// link asks the server for a file of the web chat. If it is there, link makes a link to the web chat for each user.
func (s *seeded) link(ctx context.Context, public string) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, public+"/sw.js", nil)
	if err != nil {
		return
	}
	res, err := httpClient().Do(q)
	if err != nil {
		return // the links are an extra
	}
	_ = res.Body.Close() // nothing of it is read
	if res.StatusCode != http.StatusOK {
		return
	}
	for _, u := range s.Users {
		s.Links = append(s.Links, demoLink{User: u.User, URL: public + "/#t=" + u.Token})
	}
}

func (s *seeded) write(w io.Writer) {
	names := make([]string, len(s.Users))
	groups := 0
	for i, u := range s.Users {
		names[i] = u.User
	}
	for _, v := range s.Convs {
		if v.Title != "" {
			groups++
		}
	}
	fmt.Fprintf(w, "seeded %s: %s, %s (en + zh)\n", strings.Join(names, ", "), plural(groups, "group"),
		plural(s.Messages, "message"))
	if len(s.Links) > 0 {
		fmt.Fprintf(w, "open two of these side by side, also in one browser:\n")
		for _, l := range s.Links {
			fmt.Fprintf(w, "  %-6s %s\n", l.User, l.URL)
		}
	}
	fmt.Fprintf(w, "join in two terminals, side by side:\n  %s\n  %s\n", s.chats[0], s.chats[1])
}

// demoConv is one conversation of the demo.
type demoConv struct {
	Conv  string `json:"conv"`
	Title string `json:"title,omitempty"` // of a group
	With  string `json:"with"`            // its members

	key     string
	members []*petrelv1.MemberRef
	steps   []demoStep
	sent    int // messages
}

// demoStep is one line of a conversation.
type demoStep struct {
	from string
	verb byte // ':' message, '~' edit of the last one, '!' its recall, 'r' the users in text have read up to here
	text string
}

// parseDemo reads the format described at the head of demo.txt.
func parseDemo(text string) ([]demoConv, error) {
	var convs []demoConv
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		words := strings.Fields(line)
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '=':
			v, err := parseDemoConv(line, words)
			if err != nil {
				return nil, err
			}
			convs = append(convs, v)
		case words[0] == "read":
			v := &convs[len(convs)-1]
			v.steps = append(v.steps, demoStep{verb: 'r', text: strings.TrimPrefix(line, "read ")})
		default:
			from, rest, ok := strings.Cut(line, " ")
			if !ok || len(convs) == 0 {
				return nil, fmt.Errorf("demo: %q is no line of a conversation", line)
			}
			s := demoStep{from: from[:len(from)-1], verb: from[len(from)-1], text: strings.ReplaceAll(rest, `\n`, "\n")}
			v := &convs[len(convs)-1]
			v.steps = append(v.steps, s)
		}
	}
	return convs, nil
}

func parseDemoConv(line string, words []string) (demoConv, error) {
	if words[1] == "direct" {
		return demoConv{With: strings.Join(words[2:], " "), members: []*petrelv1.MemberRef{{User: words[2]},
			{User: words[3]}}}, nil
	}
	parts := strings.Split(line, " | ")
	if len(parts) != 3 {
		return demoConv{}, fmt.Errorf("demo: %q is no conversation", line)
	}
	members, err := parseMembers(strings.Fields(parts[2]))
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.User
	}
	return demoConv{key: "demo-" + words[2], Title: parts[1], With: strings.Join(names, " "), members: members}, err
}

// seed makes the users and conversations on an empty server, and plays the conversations. It keeps the tokens of the
// users in the data folder.
func seed(ctx context.Context, api *admin) (*seeded, error) {
	if err := checkEmpty(ctx, api); err != nil {
		return nil, err
	}
	convs, err := parseDemo(demoText)
	if err != nil {
		return nil, err
	}
	r, err := call(ctx, api, "make users", api.CreateUsers,
		&petrelv1.CreateUsersRequest{Users: []string{"alice", "bob", "carol"}})
	if err != nil {
		return nil, err
	}
	s := &seeded{Convs: convs}
	tokens := map[string]string{}
	for _, u := range r.Tokens {
		s.Users = append(s.Users, issued{User: u.User, Token: u.Token, Created: u.Created})
		tokens[u.User] = u.Token
	}
	if err := keepTokens(api.data, "", s.Users); err != nil {
		return nil, err
	}
	for i := range convs {
		v := &convs[i]
		if v.Title == "" {
			continue // the first message makes it: P-8.4
		}
		g, err := call(ctx, api, "make the group "+v.Title, api.CreateGroup,
			&petrelv1.AdminCreateGroupRequest{Key: v.key, Title: v.Title, Members: v.members})
		if err != nil {
			return nil, err
		}
		v.Conv = g.Conv
	}
	d := &demo{api: api, tokens: tokens, messages: petrelv1connect.NewMessageServiceClient(httpClient(), api.public)}
	var playing errgroup.Group // in parallel: each message waits for the disk
	for i := range convs {
		playing.Go(func() error { return d.play(ctx, &convs[i]) })
	}
	if err := playing.Wait(); err != nil {
		return nil, err
	}
	for _, v := range convs {
		s.Messages += v.sent
	}
	return s, nil
}

// checkEmpty returns a fault with the code not_empty if the server has a user.
func checkEmpty(ctx context.Context, api *admin) error {
	r, err := call(ctx, api, "list users", api.ListUsers, &petrelv1.ListUsersRequest{Limit: 1})
	if err != nil || len(r.Users) == 0 {
		return err
	}
	return &fault{exit: exitFailed, code: "not_empty", what: "the demo is for an empty server",
		why: fmt.Sprintf("%s has users already, %s for one", api.url, r.Users[0].User),
		fix: "start another one: petrel serve --data petrel-demo"}
}

// demo plays conversations.
type demo struct {
	api      *admin
	messages petrelv1connect.MessageServiceClient
	tokens   map[string]string // by user
}

func (d *demo) play(ctx context.Context, v *demoConv) error {
	own := map[string]uint64{} // seq of a user's last message
	seen := map[string]uint64{}
	head := uint64(0)
	for i, s := range v.steps {
		if s.verb == 'r' {
			for _, user := range strings.Fields(s.text) {
				seen[user] = head
			}
			continue
		}
		m := &petrelv1.Send{Conv: v.Conv, ClientMsgId: fmt.Sprintf("demo-%d", i+1)}
		if m.Conv == "" {
			m.User = v.members[0].User
			if m.User == s.from {
				m.User = v.members[1].User
			}
		}
		switch s.verb {
		case ':':
			m.Body = &petrelv1.Send_Text{Text: s.text}
		case '~':
			m.Body = &petrelv1.Send_Edit{Edit: &petrelv1.Edit{Target: own[s.from],
				Body: &petrelv1.Edit_Text{Text: s.text}}}
		case '!':
			m.Body = &petrelv1.Send_Recall{Recall: &petrelv1.Recall{Target: own[s.from]}}
		default:
			return fmt.Errorf("demo: %s%c says nothing", s.from, s.verb)
		}
		r, err := call(ctx, d.api, "send as "+s.from, d.api.SendAs, &petrelv1.SendAsRequest{From: s.from, Send: m})
		if err != nil {
			return err
		}
		v.Conv, head = r.Conv, r.Seq
		if s.verb == ':' {
			own[s.from] = r.Seq
			v.sent++
		}
	}
	var reading errgroup.Group // in parallel: the server stores the cursors of a conversation once a second (P-8.6)
	for user, seq := range seen {
		reading.Go(func() error { return d.read(ctx, v.Conv, seq, user) })
	}
	return reading.Wait()
}

// read moves the read cursor of a user, with their own token.
func (d *demo) read(ctx context.Context, conv string, seq uint64, user string) error {
	q := connect.NewRequest(&petrelv1.MoveCursor{Conv: conv, Read: seq})
	q.Header().Set("Authorization", "Bearer "+d.tokens[user])
	if _, err := d.messages.MoveCursor(ctx, q); err != nil {
		return fromServer(d.api.url, "read as "+user, err)
	}
	return nil
}
