package chat

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/petrel-im/petrel/internal/terminal"
	petrel "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.Local)

// newTestView is a view of alice's two conversations, of which one is open.
func newTestView(t testing.TB, width, height int) *view {
	t.Helper()
	c, err := petrel.New(petrel.Options{URL: "http://127.0.0.1:1", Token: petrel.StaticToken("x")})
	if err != nil {
		t.Fatal(err)
	}
	v := newView(t.Context(), newTalk(c), c.Subscribe())
	v.width, v.height = width, height
	v.now = func() time.Time { return noon }
	v.link = link{live: true, user: "alice"}
	v.list = []conversation{
		{id: "g1", name: "Boat ⛵ 出海", at: noon, preview: "you: 好", head: 4},
		{id: "d1", name: "bob", direct: true, at: noon.AddDate(0, 0, -2), preview: "海燕 ☀️ and more than fits into the list", unread: 1200},
	}
	v.members["g1"] = 3
	v.open = "g1"
	v.entries = []entry{
		{key: "1", seq: 1, notice: true, text: "alice made the group with bob and carol", at: noon.AddDate(0, 0, -1)},
		{key: "2", seq: 2, from: "bob", at: noon, text: "hi all 👩‍👩‍👧‍👦 ☀️", edited: true, reactions: "👍 carol"},
		{key: "3", seq: 3, from: "alice", own: true, at: noon, text: "今天下午出海吗？我们十点在码头见面，记得带水和防晒霜。", mark: read},
		{key: "4", seq: 4, from: "alice", own: true, at: noon, text: "first\nsecond", mark: delivered},
		{key: "5", from: "alice", own: true, at: noon, text: "later", mark: sending},
		{key: "6", from: "alice", own: true, at: noon, text: "no", mark: rejected, why: "not_member"},
	}
	return v
}

// screen is what the view shows, without colours.
func screen(v *view) []string {
	lines, _, _ := v.frame()
	for i, s := range lines {
		lines[i] = strings.TrimRight(ansi.Strip(s), " ")
	}
	return lines
}

func TestScreenOfAWideTerminal(t *testing.T) {
	want := strings.TrimPrefix(`
 petrel · alice          │ Boat ⛵ 出海  3 members
▌Boat ⛵ 出海      12:00 │
▌you: 好                 │ ────────────────── yesterday ───────────────────
 @bob                Thu │   alice made the group with bob and carol
 海燕 ☀ and more…  999+  │ ──────────────────── today ─────────────────────
                         │ bob  12:00
                         │   hi all 👩‍👩‍👧‍👦 ☀ (edited)
                         │   👍 carol
                         │
                         │ you  12:00
                         │   今天下午出海吗？我们十点在码头见面，记得带
                         │   水和防晒霜。 ✓✓
                         │   first
                         │   second ✓✓
                         │   later …
                         │   no ✗
                         │   not sent: not_member · /retry or /drop
────────────────────────────────────────────────────────────────────────────
 › write to Boat ⛵ 出海   /help
 Tab next · Alt+A unread · PgUp older · Esc list · Alt+Enter new line · Ctr…`, "\n")
	if got := strings.Join(screen(newTestView(t, 76, 20)), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A message stands below what it answers and whose it is. Only what was recalled says so.
func TestMessagesOnTheScreenSayWhatTheyAnswer(t *testing.T) {
	v := newTestView(t, 76, 12)
	show := func(m *petrelv1.Message) entry {
		e, _ := v.t.entry(&petrel.Message{Message: m}, "alice")
		return e
	}
	text := &petrelv1.Message_Text{Text: "so do I"}
	v.entries = []entry{
		show(&petrelv1.Message{Seq: 2, From: "bob", TimeMs: uint64(noon.UnixMilli()), Body: text, Rel: &petrelv1.Relations{Forwarded: &petrelv1.Forwarded{From: "carol"}}}),
		{key: "3", seq: 3, from: "bob", at: noon, text: "me too", quote: "#2 bob: so do I"},
		show(&petrelv1.Message{Seq: 4, From: "bob", TimeMs: uint64(noon.UnixMilli())}),
		show(&petrelv1.Message{Seq: 5, From: "bob", TimeMs: uint64(noon.UnixMilli()), RecalledBy: 6}),
	}
	want := []string{"bob  12:00", "↪ forwarded from carol", "so do I", "↪ #2 bob: so do I", "me too", "(a newer version of petrel can show this)", "recalled"}
	var got []string
	for _, s := range screen(v)[2:9] {
		_, pane, _ := strings.Cut(s, "│")
		got = append(got, strings.TrimSpace(pane))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The bar and the list say who is typing, and whether the other user is online.
func TestTypingAndOnlineAreShown(t *testing.T) {
	for what, c := range map[string]struct {
		of    conversation
		about string
		list  string // the rows of the conversation in the list
	}{
		"typing":       {conversation{direct: true, online: true, typing: []string{"bob"}, preview: "hi"}, "typing …", "▌•bob|▌typing …"},
		"online":       {conversation{direct: true, online: true, preview: "hi"}, "online", "▌•bob|▌hi"},
		"seen":         {conversation{direct: true, seen: noon.Add(-time.Hour)}, "last seen 11:00", "▌@bob|▌"},
		"nobody knows": {conversation{direct: true}, "direct", "▌@bob|▌"},
		"one types":    {conversation{typing: []string{"carol"}}, "carol is typing …", "▌bob|▌carol is typing …"},
		"three":        {conversation{typing: []string{"a", "b", "c"}}, "a, b, c are typing …", "▌bob|▌a, b, c are typing …"},
		"four":         {conversation{typing: []string{"a", "b", "c", "d"}}, "4 are typing …", "▌bob|▌4 are typing …"},
	} {
		v := newTestView(t, 80, 20)
		c.of.id, c.of.name = "d1", "bob"
		v.list, v.open = []conversation{c.of}, "d1"
		rows := v.listItem(0, 30)
		for i := range rows {
			rows[i] = strings.TrimRight(ansi.Strip(rows[i]), " ")
		}
		if got := strings.Join(rows, "|"); got != c.list {
			t.Errorf("%s: the list shows %q, want %q", what, got, c.list)
		}
		if bar := screen(v)[0]; !strings.HasSuffix(bar, "bob  "+c.about) {
			t.Errorf("%s: the bar is %q, want it to end with %q", what, bar, c.about)
		}
	}
}

func TestNoRowIsWiderThanTheTerminal(t *testing.T) {
	for _, w := range []metrics{metrics(ansi.WcWidth), metrics(ansi.GraphemeWidth)} {
		for _, width := range []int{20, 31, 71, 72, 80, 100, 200} {
			for _, height := range []int{6, 7, 10, 24, 60} {
				v := newTestView(t, width, height)
				v.w, v.edit.w = w, w
				check := func(what string) {
					t.Helper()
					lines, x, y := v.frame()
					if len(lines) != height {
						t.Errorf("%dx%d %s: %d rows", width, height, what, len(lines))
					}
					for _, s := range lines {
						if n := w.width(s); n > width {
							t.Errorf("%dx%d %s: %d cells in %q", width, height, what, n, ansi.Strip(s))
						}
					}
					if x >= width || y >= height {
						t.Errorf("%dx%d %s: the cursor is at %d, %d", width, height, what, x, y)
					}
				}
				check("open")
				v.edit.insert(strings.Repeat("海燕 and ⛵ ", 40) + "\n\nend")
				check("editing")
				v.inList = true
				check("list")
				v.inList, v.overlay = false, helpLines()
				check("help")
				v.overlay = nil
				v.link = link{user: "alice", why: strings.Repeat("海", 300)}
				v.downSince = noon.Add(-time.Minute)
				check("offline")
				v.list, v.entries, v.open = nil, nil, ""
				check("empty")
			}
		}
	}
}

func TestALostConnectionIsNotMentionedAtOnce(t *testing.T) {
	v := newTestView(t, 100, 24)
	v.link = link{user: "alice", why: "connection refused", next: noon.Add(7 * time.Second)}
	for after, want := range map[time.Duration]string{
		0:                "",
		quiet - 1:        "",
		quiet:            "offline, next try in 7 s · connection refused",
		24 * time.Hour:   "offline, next try in 7 s · connection refused",
		-1 * time.Second: "",
	} {
		v.downSince = noon.Add(-after)
		if got := v.banner(); got != want {
			t.Errorf("after %s: got %q, want %q", after, got, want)
		}
	}
	v.link.live = true
	if got := v.banner(); got != "" {
		t.Errorf("connected: got %q", got)
	}
}

// visible are the entries whose first row is on the screen.
func visible(v *view) []string {
	v.frame()
	var keys []string
	for _, l := range v.shown[v.begin:min(len(v.shown), v.begin+v.page)] {
		if l.key != "" && l.n == 0 {
			keys = append(keys, l.key)
		}
	}
	return keys
}

func TestWhatIsReadStaysWhereItIs(t *testing.T) {
	v := newTestView(t, 100, 20)
	fill := func(from, to int) (es []entry) {
		for i := from; i < to; i++ {
			es = append(es, entry{key: fmt.Sprint(i), seq: uint64(i), from: "bob", at: noon, text: "text"})
		}
		return es
	}
	v.entries = fill(100, 200)
	if keys := visible(v); keys[len(keys)-1] != "199" {
		t.Errorf("at first: got %v, want the newest", keys)
	}
	v.scroll(1 - v.page)
	before := visible(v)
	if before[len(before)-1] == "199" {
		t.Fatalf("scrolled up: got %v", before)
	}
	v.entries = append(v.entries, fill(200, 230)...)
	if after := visible(v); !slices.Equal(after, before) {
		t.Errorf("messages came below: got %v, want %v", after, before)
	}
	v.entries = append(fill(50, 100), v.entries...)
	if after := visible(v); !slices.Equal(after, before) {
		t.Errorf("messages were put in front: got %v, want %v", after, before)
	}
	v.entries[60].text = strings.Repeat("longer ", 40) // above
	if after := visible(v); !slices.Equal(after, before) {
		t.Errorf("a message above grew: got %v, want %v", after, before)
	}
	if !strings.Contains(strings.Join(screen(v), "\n"), "below · End") {
		t.Error("the screen does not say that there is more below")
	}
	v.scroll(1000)
	if keys := visible(v); keys[len(keys)-1] != "229" {
		t.Errorf("scrolled down: got %v, want the newest", keys)
	}
}

func TestMarksTellOfAllTheOthers(t *testing.T) {
	members := func(users ...string) *group {
		g := &group{receipts: map[string]*petrelv1.Receipt{}}
		for _, u := range users {
			g.members = append(g.members, &petrelv1.MemberRef{User: u})
		}
		return g
	}
	at := func(got, seen uint64) *petrelv1.Receipt { return &petrelv1.Receipt{Delivered: got, Read: seen} }
	direct, kindGroup := petrelv1.ConvKind_CONV_KIND_DIRECT, petrelv1.ConvKind_CONV_KIND_GROUP
	for _, tc := range []struct {
		what     string
		kind     petrelv1.ConvKind
		g        *group
		asked    map[string]*petrelv1.Receipt
		receipts map[string]*petrelv1.Receipt
		want     mark
	}{
		{what: "nobody has it", kind: direct, want: stored},
		{what: "delivered", kind: direct, receipts: map[string]*petrelv1.Receipt{"bob": at(5, 4)}, want: delivered},
		{what: "read", kind: direct, receipts: map[string]*petrelv1.Receipt{"bob": at(5, 5)}, want: read},
		{what: "members unknown", kind: kindGroup, receipts: map[string]*petrelv1.Receipt{"bob": at(5, 5)}, want: stored},
		{what: "one of two", kind: kindGroup, g: members("alice", "bob", "carol"), receipts: map[string]*petrelv1.Receipt{"bob": at(5, 5)}, want: stored},
		{what: "one read, one has it", kind: kindGroup, g: members("alice", "bob", "carol"), receipts: map[string]*petrelv1.Receipt{"bob": at(5, 5), "carol": at(9, 0)}, want: delivered},
		{what: "asked for and pushed", kind: kindGroup, g: members("alice", "bob", "carol"), asked: map[string]*petrelv1.Receipt{"bob": at(9, 9)}, receipts: map[string]*petrelv1.Receipt{"carol": at(5, 5)}, want: read},
		{what: "one who left", kind: kindGroup, g: members("alice", "bob", "carol"), receipts: map[string]*petrelv1.Receipt{"bob": at(5, 5), "dave": at(9, 9)}, want: stored},
	} {
		tl := &talk{}
		if tc.g != nil && tc.asked != nil {
			tc.g.receipts = tc.asked
		}
		v := &petrel.Conversation{Kind: tc.kind, Receipts: tc.receipts}
		if got := tl.markOf(v, tc.g, 5); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.what, got, tc.want)
		}
	}
}

func TestOrdersAreRead(t *testing.T) {
	for _, tc := range []struct {
		line string
		want string // verb users seq text; "": a message; "!": an error
	}{
		{"hello", ""},
		{"//etc is a folder", ""},
		{"/dm bob", "/dm [bob] 0 "},
		{"/dm @bob hi there", "/dm [bob] 0 hi there"},
		{"/dm", "!"},
		{"/mention", "/mention [] 0 "},
		{"/mention bob", "!"},
		{`/group "Two words" bob, @carol`, "/group [bob carol] 0 Two words"},
		{"/group Team bob", "/group [bob] 0 Team"},
		{"/group Team", "!"},
		{`/group "Team bob`, "!"},
		{"/edit new text", "/edit [] 0 new text"},
		{"/edit #12 new text", "/edit [] 12 new text"},
		{"/edit #x new text", "!"},
		{"/edit", "!"},
		{"/recall", "/recall [] 0 "},
		{"/recall #3", "/recall [] 3 "},
		{"/recall that", "!"},
		{"/reply #3 so do I", "/reply [] 3 so do I"},
		{"/reply so do I", "!"},
		{"/reply #3", "!"},
		{"/forward #3 @bob", "/forward [] 3 @bob"},
		{"/forward #3", "!"},
		{"/react #3 👍", "/react [] 3 👍"},
		{"/react #3", "!"},
		{"/react 👍", "!"},
		{"/pin #3", "/pin [] 3 "},
		{"/pin", "!"},
		{"/pin #3 now", "!"},
		{"/rename A new title", "/rename [] 0 A new title"},
		{"/add", "!"},
		{"/leave", "/leave [] 0 "},
		{"/leave now", "!"},
		{"/frobnicate", "!"},
	} {
		o, isOrder, err := parse(tc.line)
		got := ""
		switch {
		case err != nil:
			got = "!"
		case isOrder:
			got = fmt.Sprintf("%s %v %d %s", o.verb, o.users, o.seq, o.text)
		}
		if got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.line, got, tc.want)
		}
	}
}

var colours = regexp.MustCompile("\x1b\\[[0-9;:]*m")

// Nothing that users or servers wrote steers the terminal, wherever the screen shows it.
func TestNothingOnTheScreenSteersTheTerminal(t *testing.T) {
	const hostile = "a\x1b[2J\x1b[38;5;199m\u009b31m\u202eb\u200bc\U000e0041\x1b]0;title\x07"
	for _, width := range []int{40, 90, 300} {
		v := newTestView(t, width, 40)
		v.w, v.edit.w = metrics(ansi.GraphemeWidth), metrics(ansi.GraphemeWidth)
		v.link = link{user: hostile, why: hostile}
		v.downSince = noon.Add(-time.Minute)
		for i := range v.list {
			v.list[i].name, v.list[i].preview = hostile, hostile
		}
		for i := range v.entries {
			e := &v.entries[i]
			e.from, e.text, e.why, e.quote, e.origin = hostile, hostile+"\n"+hostile, hostile, hostile, hostile
			if e.reactions != "" {
				e.reactions = hostile
			}
		}
		check := func(what string) {
			t.Helper()
			screen := v.View()
			lines, _, _ := v.frame()
			seen := 0
			for _, s := range append(lines, screen.WindowTitle) {
				if s = colours.ReplaceAllString(s, ""); terminal.Text(s) != s {
					t.Errorf("%d cells, %s: %+q", width, what, s)
				}
				seen += strings.Count(s, "\\u001b")
			}
			if seen == 0 {
				t.Errorf("%d cells, %s: the text is not shown, so this tests nothing", width, what)
			}
			if strings.Contains(strings.Join(lines, ""), "\x1b[38;5;199m") {
				t.Errorf("%d cells, %s: a colour of a user", width, what)
			}
		}
		check("open")
		v.edit.insert("before " + hostile)
		check("editing")
		v.inList = true
		check("list")
		v.inList, v.overlay = false, membersLines(&group{members: []*petrelv1.MemberRef{{User: hostile}}})
		check("members")
		v.overlay = nil
		v.say("added %s", hostile)
		v.link.live = true
		check("said")
	}
}
