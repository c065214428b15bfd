package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	petrel "github.com/petrel-im/petrel/sdk/go"
)

// Options say where the client is shown.
type Options struct {
	Client *petrel.Client
	In     io.Reader
	Out    io.Writer
	Env    []string // NAME=value
	To     string   // a user to begin with, or
	Conv   string   // a conversation
}

// Run shows the client on a terminal until the person or ctx ends it. The error
// is what ended the client by itself.
func Run(ctx context.Context, o Options) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	v := newView(ctx, newTalk(o.Client), o.Client.Subscribe())
	if v.open = o.Conv; o.To != "" {
		v.open = toUser + o.To
	}
	p := tea.NewProgram(v, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Env), tea.WithoutSignalHandler())
	ended := make(chan error, 1)
	go func() {
		err := o.Client.Run(ctx)
		ended <- err
		if err != nil {
			p.Quit() // the reason is told once the terminal is as it was
		}
	}()
	_, err := p.Run()
	stop()
	if errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(<-ended, err)
}

// view is the screen. It belongs to the event loop of its program.
type view struct {
	ctx    context.Context
	t      *talk
	sub    *petrel.Subscription
	now    func() time.Time
	w      metrics
	s      *styles
	width  int
	height int
	away   bool // the terminal is not looked at

	// Snapshots of the client.
	link    link
	synced  bool
	list    []conversation
	entries []entry // of the conversation that is open
	members map[string]int

	open      string // conversation id, or toUser and a user; "": none
	newFrom   uint64 // entries above were new when it was opened; 0: none
	jumped    uint64 // the last message there that mentions the person and was gone to; 0: none
	wanted    uint64 // a message that is shown once older ones are there; 0: none
	drafts    map[string]string
	edit      editor
	numbers   bool
	unmark    func(context.Context) error // ends the mark that what was opened is unread; nil: there is none
	downSince time.Time                   // zero: live
	ticking   bool

	inList  bool // keys go to the list
	cursor  int  // in it
	listTop int
	overlay []string // laid over the messages; nil: nothing
	overTop int
	said    string // what the last order did
	wrong   bool   // it failed

	// The messages on the screen.
	top    *anchor // nil: the newest are shown
	shown  []line
	drawn  map[drawing][]string // the rows of the last frame
	begin  int                  // of shown, the first row on the screen
	total  int                  // rows
	page   int                  // rows on the screen
	below  int                  // entries below the screen
	paging bool
	noted  string          // the conversation whose reactions and pins were asked for last
	whole  map[string]bool // conversations of which nothing older is left
}

// anchor is the row of an entry that stays where it is on the screen.
type anchor struct {
	key   string
	n     int
	below int // rows below the top of the screen
}

func newView(ctx context.Context, t *talk, sub *petrel.Subscription) *view {
	w := metrics(ansi.WcWidth)
	return &view{
		ctx: ctx, t: t, sub: sub, now: time.Now, w: w, s: newStyles(true), width: 80, height: 24,
		members: map[string]int{}, drafts: map[string]string{}, whole: map[string]bool{}, edit: editor{w: w},
	}
}

// Messages to the view from what it has begun.
type (
	changed struct{} // the client has
	second  struct{}
	paged   struct {
		conv string
		more bool
		err  error
	}
	learned struct {
		conv string
		g    *group
		show bool
		err  error
	}
	done struct {
		said, open, text string
		err              error
	}
)

func (v *view) Init() tea.Cmd {
	return tea.Batch(v.changes(), tea.RequestBackgroundColor)
}

// changes waits for the client to change.
func (v *view) changes() tea.Cmd {
	return func() tea.Msg {
		select {
		case <-v.sub.Ready():
			return changed{}
		case <-v.ctx.Done():
			return nil
		}
	}
}

func (v *view) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		v.width, v.height = max(msg.Width, 20), max(msg.Height, 6)
	case tea.BackgroundColorMsg:
		v.s = newStyles(msg.IsDark())
	case tea.ModeReportMsg:
		if msg.Mode == ansi.ModeUnicodeCore && (msg.Value == ansi.ModeReset || msg.Value == ansi.ModeSet || msg.Value == ansi.ModePermanentlySet) {
			v.w = metrics(ansi.GraphemeWidth) // as the renderer decides
			v.edit.w = v.w
		}
	case tea.FocusMsg:
		v.away = false
	case tea.BlurMsg:
		v.away = true
	case tea.PasteMsg:
		v.said = ""
		v.inList, v.overlay = false, nil
		v.edit.insert(msg.Content)
	case tea.KeyPressMsg:
		cmd = v.press(msg)
	case changed:
		v.sub.Take()
		v.refresh()
		cmd = tea.Batch(v.changes(), v.tick(), v.learn(false))
	case second:
		v.ticking = false
		cmd = v.tick()
	case paged:
		v.paging = false
		v.whole[msg.conv] = !msg.more && msg.err == nil
		v.fail(msg.err)
		v.refresh()
		if v.wanted > 0 && msg.conv == v.open && msg.err == nil {
			cmd = v.goTo(v.wanted)
		}
	case learned:
		v.t.learned(msg.conv, msg.g)
		if msg.g != nil {
			v.members[msg.conv] = len(msg.g.members)
			if msg.show {
				v.overlay, v.overTop = membersLines(msg.g), 0
			}
		}
		if msg.show {
			v.fail(msg.err)
		}
		v.refresh()
	case done:
		cmd = v.finish(msg)
	}
	v.markRead()
	if unmark := v.unmark; unmark != nil {
		v.unmark = nil
		cmd = tea.Batch(cmd, func() tea.Msg { return done{err: unmark(v.ctx)} })
	}
	return v, cmd
}

// tick asks for a look at the clock while the connection is down.
func (v *view) tick() tea.Cmd {
	if v.ticking || v.link.live {
		return nil
	}
	v.ticking = true
	return tea.Tick(time.Second, func(time.Time) tea.Msg { return second{} })
}

// refresh reads the client anew.
func (v *view) refresh() {
	v.link, v.synced = v.t.link()
	switch {
	case v.link.live:
		v.downSince = time.Time{}
	case v.downSince.IsZero():
		v.downSince = v.now()
	}
	at := ""
	if 0 <= v.cursor && v.cursor < len(v.list) {
		at = v.list[v.cursor].id
	}
	v.list = v.t.list()
	if v.cursor = v.index(at); v.cursor < 0 {
		v.cursor = 0
	}
	if id := v.t.resolve(v.open); id != v.open {
		v.drafts[id] = v.drafts[v.open]
		v.open = id
	}
	if v.open == "" && len(v.list) > 0 && v.synced {
		v.show(v.list[0].id)
		return
	}
	v.entries = v.t.entries(v.open)
}

// index is the place of a conversation in the list, -1 if it is not there.
func (v *view) index(id string) int {
	for i := range v.list {
		if v.list[i].id == id {
			return i
		}
	}
	return -1
}

// current is the conversation that is open, nil if there is none.
func (v *view) current() *conversation {
	if i := v.index(v.open); i >= 0 {
		return &v.list[i]
	}
	if peer, ok := strings.CutPrefix(v.open, toUser); ok {
		return &conversation{id: v.open, name: peer, direct: true}
	}
	return nil
}

func (v *view) waiting() int { return v.t.waiting(v.list, v.open) }

// show opens a conversation.
func (v *view) show(id string) {
	v.drafts[v.open] = v.edit.value()
	v.open, v.top, v.overlay, v.inList, v.newFrom, v.jumped, v.wanted = id, nil, nil, false, 0, 0, 0
	v.edit.set(v.drafts[id])
	v.edit.back = 0
	if c := v.current(); c != nil && c.unread > 0 {
		v.newFrom = c.read
	}
	v.unmark = v.t.opened(v.current())
	v.entries = v.t.entries(id)
}

// markRead tells the others what the person sees: the newest entry, when it is
// on a screen that is looked at.
func (v *view) markRead() {
	if v.away || v.top != nil || v.wanted > 0 || v.overlay != nil || v.layout().pane == 0 || strings.HasPrefix(v.open, toUser) {
		return
	}
	c := v.current()
	if c == nil {
		return
	}
	for i := len(v.entries) - 1; i >= 0; i-- {
		if seq := v.entries[i].seq; seq > 0 {
			if seq > c.read && !c.left {
				v.t.c.MarkRead(c.id, seq)
			}
			return
		}
	}
}

// learn asks about the conversation that is open, when there is something to learn.
func (v *view) learn(show bool) tea.Cmd {
	id, notes := v.open, v.loadNotes()
	ask := v.t.learn(id)
	if ask == nil {
		return notes
	}
	return tea.Batch(notes, func() tea.Msg {
		g, err := ask(v.ctx)
		return learned{id, g, show, err}
	})
}

// loadNotes asks for the reactions and pins of the conversation that was opened. What
// comes is a change like any other; without an answer they are as they were.
func (v *view) loadNotes() tea.Cmd {
	id := v.open
	if id == v.noted || id == "" || strings.HasPrefix(id, toUser) {
		return nil
	}
	v.noted = id
	return func() tea.Msg {
		_ = v.t.c.LoadNotes(v.ctx, id) // they are shown when they come
		return nil
	}
}

// older asks for what came before the oldest entry that is shown.
func (v *view) older() tea.Cmd {
	id := v.open
	if v.paging || v.whole[id] || id == "" || strings.HasPrefix(id, toUser) {
		return nil
	}
	v.paging = true
	return func() tea.Msg {
		more, err := v.t.c.Older(v.ctx, id, 100)
		return paged{id, more, err}
	}
}

func (v *view) fail(err error) {
	if err != nil && v.ctx.Err() == nil {
		v.said, v.wrong = oneLine(err.Error()), true
	}
}

func (v *view) say(format string, a ...any) { v.said, v.wrong = fmt.Sprintf(format, a...), false }

// View draws the screen.
func (v *view) View() tea.View {
	lines, x, y := v.frame()
	s := tea.NewView(strings.Join(lines, "\n"))
	s.AltScreen, s.ReportFocus = true, true
	s.WindowTitle = "petrel · " + oneLine(v.link.user)
	if n := v.unreadElsewhere(); n > 0 {
		s.WindowTitle = fmt.Sprintf("(%d) %s", n, s.WindowTitle)
	}
	if x >= 0 {
		s.Cursor = tea.NewCursor(x, y)
	}
	return s
}
