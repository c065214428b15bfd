package chat

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
)

// Sizes in cells. Below wideFrom the list and the conversation take turns.
const (
	wideFrom    = 72
	maxEditRows = 6
	tickCells   = 3    // that a line of an own message leaves for its mark
	countedFrom = 1000 // characters of what is written; a shorter text is not counted
)

// layout is who gets which part of the screen.
type layout struct {
	list int // columns; 0: not shown
	pane int // columns; 0: not shown
	rows int // of the list and of the messages, between the bars
}

func (v *view) layout() layout {
	edit, _, _ := v.editRows()
	l := layout{pane: v.width, rows: max(1, v.height-3-len(edit))}
	switch {
	case v.width >= wideFrom:
		l.list = min(max(v.width/3, 24), 34)
		l.pane = v.width - l.list - 1
	case v.inList || v.open == "":
		l.list, l.pane = v.width, 0
	}
	return l
}

// frame is the whole screen, and where the cursor is (-1: nowhere).
func (v *view) frame() (lines []string, x, y int) {
	l := v.layout()
	edit, x, y := v.editRows()
	left := v.listRows(l.list, l.rows)
	right := v.paneRows(l.pane, l.rows)
	lines = append(lines, v.topBar(l))
	for i := range l.rows {
		switch {
		case l.pane == 0:
			lines = append(lines, left[i])
		case l.list == 0:
			lines = append(lines, right[i])
		default:
			lines = append(lines, left[i]+v.s.rule.Render("│")+right[i])
		}
	}
	lines = append(lines, v.s.rule.Render(strings.Repeat("─", v.width)))
	y += len(lines)
	lines = append(lines, edit...)
	lines = append(lines, v.bottom())
	if v.inList || v.overlay != nil {
		x = -1
	}
	return lines, x, y
}

func (v *view) topBar(l layout) string {
	left := " petrel · " + v.link.user
	if l.list == 0 {
		left = ""
	}
	title, about := "", ""
	if c := v.current(); c != nil && l.pane > 0 {
		title, about = " "+oneLine(c.name), v.about(c)
		if set := c.setWords(v.now()); set != "" {
			about += " · " + set
		}
	}
	if n := v.unreadElsewhere(); n > 0 && l.list == 0 {
		about = strings.TrimPrefix(about+fmt.Sprintf(" · %d unread elsewhere", n), " · ")
	}
	w := v.width
	bar := ""
	if l.list > 0 {
		n := min(w, l.list)
		bar = v.s.bar.Render(v.w.fill(left, n))
		if w -= n; w > 0 {
			bar += v.s.barDim.Render("│")
			w--
		}
	}
	if w > 0 {
		title = v.w.cut(title, w-1)
		bar += v.s.bar.Render(title) + v.s.barDim.Render(v.w.fill("  "+about, w-v.w.width(title)))
	}
	return bar
}

// about says in a few words what a conversation is.
func (v *view) about(c *conversation) string {
	switch {
	case c.left:
		return "left"
	case len(c.typing) > 0:
		return typists(c)
	case c.online:
		return "online"
	case c.direct && !c.seen.IsZero():
		return "last seen " + v.shortTime(c.seen)
	case c.direct:
		return "direct"
	case v.members[c.id] > 0:
		return plural(v.members[c.id], "member")
	}
	return "group"
}

// typists says who is typing.
func typists(c *conversation) string {
	switch n := len(c.typing); {
	case c.direct:
		return "typing …"
	case n == 1:
		return oneLine(c.typing[0]) + " is typing …"
	case n <= 3:
		return oneLine(strings.Join(c.typing, ", ")) + " are typing …"
	default:
		return fmt.Sprintf("%d are typing …", n)
	}
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func (v *view) unreadElsewhere() (n uint64) {
	for _, c := range v.list {
		if c.id != v.open {
			n += c.unread
		}
	}
	return n
}

// listRows are n rows of w cells with the conversations, two rows each.
func (v *view) listRows(w, n int) []string {
	rows := make([]string, 0, n)
	if w == 0 {
		return rows
	}
	if len(v.list) == 0 {
		hint := "no conversations yet"
		if !v.link.live && !v.synced {
			hint = "connecting …"
		}
		rows = append(rows, v.s.dim.Render(v.w.fill(" "+hint, w)), v.s.dim.Render(v.w.fill(" /dm USER begins one", w)))
	}
	at := v.index(v.open)
	if v.inList {
		at = v.cursor
	}
	fit := max(1, n/2)
	v.listTop = min(max(v.listTop, at-fit+1), max(at, 0))
	v.listTop = max(0, min(v.listTop, len(v.list)-fit))
	for i := v.listTop; i < len(v.list) && len(rows)+2 <= max(n, 2); i++ {
		rows = append(rows, v.listItem(i, w)...)
	}
	for len(rows) < n {
		rows = append(rows, strings.Repeat(" ", w))
	}
	return rows[:n]
}

func (v *view) listItem(i, w int) []string {
	c := &v.list[i]
	ground := v.s.plain
	gutter := " "
	if c.id == v.open {
		ground = v.s.open
		gutter = "▌"
	}
	if v.inList && i == v.cursor {
		ground = v.s.cursor
	}
	bg := ground.GetBackground()
	name := v.s.plain
	if c.unread > 0 {
		name = v.s.bold
	}
	if c.left || c.set.Archived {
		name = v.s.dim
	}
	sign := ""
	if c.direct {
		sign = "@"
	}
	if c.online {
		sign = "•"
	}
	preview := c.preview
	if len(c.typing) > 0 {
		preview = typists(c)
	}
	when := v.shortTime(c.at)
	badge := ""
	if c.unread > 0 {
		badge = fmt.Sprintf(" %d ", min(c.unread, 999))
		if c.unread > 999 {
			badge = " 999+ "
		}
	} else if c.set.Unread {
		badge = " • "
	}
	if n := len(c.mentions); n > 0 {
		badge = fmt.Sprintf(" @%d ", n) + badge
	}
	if c.set.Pinned > 0 {
		sign = "▴" + sign
	}
	first := w - 2 - v.w.width(when) - 1
	second := w - 2 - v.w.width(badge) - 1
	mark := v.s.accent.Background(bg).Render(gutter)
	return []string{
		mark + name.Background(bg).Render(v.w.fill(sign+oneLine(c.name), first)) + v.s.dim.Background(bg).Render(" "+when) + ground.Render(" "),
		mark + v.s.dim.Background(bg).Render(v.w.fill(preview, second)) + ground.Render(" ") + v.badge(badge) + ground.Render(" "),
	}
}

func (v *view) badge(s string) string {
	if s == "" {
		return ""
	}
	return v.s.badge.Render(s)
}

// shortTime is the time of today, or the day.
func (v *view) shortTime(t time.Time) string {
	now := v.now()
	switch {
	case t.IsZero():
		return ""
	case sameDay(t, now):
		return t.Format("15:04")
	case now.Sub(t) < 6*24*time.Hour:
		return t.Format("Mon")
	case t.Year() == now.Year():
		return t.Format("2 Jan")
	}
	return t.Format("2006-01-02")
}

func sameDay(a, b time.Time) bool {
	ay, am, ad := a.Date()
	by, bm, bd := b.Date()
	return ay == by && am == bm && ad == bd
}

// editRows are the rows of the editor, and where the cursor is in them.
func (v *view) editRows() (rows []string, x, y int) {
	prompt := v.s.accent.Render(" › ")
	n := max(4, v.width-4)
	if len(v.edit.text) == 0 {
		hint := "/help shows what there is"
		if c := v.current(); c != nil && c.left {
			hint = "you are no member any more"
		} else if c != nil {
			hint = "write to " + oneLine(c.name) + "   /help"
		}
		return []string{prompt + v.s.dim.Render(v.w.fill(hint, n))}, 3, 0
	}
	all, y, x := v.edit.lay(n)
	most := min(maxEditRows, max(1, v.height-6))
	top := max(0, min(y-most+1, len(all)-most))
	for i, row := range all[top:min(len(all), top+most)] {
		if i > 0 {
			prompt = "   "
		}
		rows = append(rows, prompt+v.w.fill(row, n))
	}
	return rows, x + 3, y - top
}

// bottom is the last line: what is wrong, else what was said last, else keys.
func (v *view) bottom() string {
	style, text := v.s.dim, "Tab next · Alt+A unread · PgUp older · Esc list · Alt+Enter new line · Ctrl+C quit"
	switch {
	case v.inList:
		text = "↑↓ choose · Enter open · Esc back · Ctrl+C quit"
	case v.overlay != nil:
		text = "↑↓ scroll · Esc back"
	}
	if n := len(v.edit.text); n >= countedFrom {
		text = plural(n, "character")
	}
	if v.said != "" {
		style, text = v.s.good, v.said
		if v.wrong {
			style = v.s.bad
		}
	}
	if b := v.banner(); b != "" {
		style, text = v.s.warn, b
	}
	return style.Render(v.w.fill(" "+text, v.width))
}

// banner tells of a lost connection, once it has lasted.
func (v *view) banner() string {
	now := v.now()
	if v.link.live || v.downSince.IsZero() || now.Sub(v.downSince) < quiet {
		return ""
	}
	s := "offline, trying"
	if left := v.link.next.Sub(now); left > 0 {
		s = fmt.Sprintf("offline, next try in %d s", (left+time.Second-1)/time.Second)
	}
	if n := v.waiting(); n > 0 {
		s += " · " + plural(n, "message") + " waiting"
	}
	if v.link.why != "" {
		s += " · " + oneLine(v.link.why)
	}
	return s
}

// line is one row of the messages before it is put in its place.
type line struct {
	text string // with colours
	key  string // of its entry; "": between entries
	n    int    // which row of the entry
}

// paneRows are n rows of w cells with the messages, or what is laid over them.
func (v *view) paneRows(w, n int) []string {
	if w == 0 {
		return nil
	}
	var all []line
	if v.overlay != nil {
		for _, s := range v.w.columns(v.overlay, w-2) {
			all = append(all, line{text: " " + s})
		}
		v.overTop = max(0, min(v.overTop, len(all)-n))
		all = all[v.overTop:min(len(all), v.overTop+n)]
	} else {
		all = v.window(v.lines(w), n)
	}
	rows := make([]string, n)
	blank := 0
	if v.overlay == nil {
		blank = n - len(all) // messages stand at the bottom
	}
	for i := range rows {
		text := ""
		if 0 <= i-blank && i-blank < len(all) {
			text = all[i-blank].text
		}
		rows[i] = text + strings.Repeat(" ", max(0, w-v.w.width(text)))
	}
	if v.overlay == nil && v.top != nil && v.below > 0 {
		s := fmt.Sprintf(" ↓ %d below · End ", v.below)
		rows[n-1] = strings.Repeat(" ", max(0, w-v.w.width(s)-1)) + v.s.badge.Render(s) + " "
	}
	return rows
}

// window are the n lines that are shown of all: the last ones, or those from
// where the person has scrolled to. Lines that are added above or below move
// nothing.
func (v *view) window(all []line, n int) []line {
	v.total, v.page, v.below = len(all), n, 0
	begin := max(0, len(all)-n)
	if v.top != nil {
		last := begin
		for i, l := range all {
			if l.key == v.top.key && l.n == v.top.n {
				begin = max(0, min(i-v.top.below, begin))
				break
			}
		}
		if begin == last {
			v.top = nil // at the bottom again
		}
	}
	v.begin = begin
	end := min(len(all), begin+n)
	for _, l := range all[end:] {
		if l.key != "" && l.n == 0 {
			v.below++
		}
	}
	v.shown = all
	return all[begin:end]
}

// lines are all rows of the conversation that is open.
func (v *view) lines(w int) []line {
	var all []line
	put := func(s string) { all = append(all, line{text: s}) }
	if v.open != "" && len(v.entries) == 0 {
		put(v.s.dim.Render(" nothing here yet"))
	}
	if v.paging {
		put(v.s.dim.Render(" older messages …"))
	}
	var before *entry
	marked := false
	was := v.drawn
	v.drawn = make(map[drawing][]string, len(v.entries))
	for i := range v.entries {
		e := &v.entries[i]
		apart := before == nil || !sameDay(before.at, e.at)
		if apart {
			put(v.divider(v.day(e.at), w, v.s.dim))
		}
		if n := v.newFrom; n > 0 && !marked && e.seq > n && !e.own {
			put(v.divider("new", w, v.s.accent))
			marked, apart = true, true
		}
		head := !e.notice && (apart || before.notice || before.from != e.from || e.at.Sub(before.at) > 5*time.Minute)
		if !apart && (head || e.notice != before.notice) {
			put("")
		}
		d := drawing{*e, head, v.numbers, w, v.w, v.s}
		rows, ok := was[d]
		if !ok {
			rows = v.entryRows(e, head, w)
		}
		v.drawn[d] = rows
		for n, s := range rows {
			all = append(all, line{text: s, key: e.key, n: n})
		}
		before = e
	}
	return all
}

func (v *view) divider(text string, w int, style lipgloss.Style) string {
	text = v.w.cut(" "+text+" ", w-4)
	side := max(1, (w-v.w.width(text)-2)/2)
	return " " + v.s.rule.Render(strings.Repeat("─", side)) + style.Render(text) +
		v.s.rule.Render(strings.Repeat("─", max(0, w-2-side-v.w.width(text))))
}

func (v *view) day(t time.Time) string {
	now := v.now()
	switch {
	case sameDay(t, now):
		return "today"
	case sameDay(t, now.AddDate(0, 0, -1)):
		return "yesterday"
	case t.Year() == now.Year():
		return t.Format("Monday 2 January")
	}
	return t.Format("Monday 2 January 2006")
}

// drawing is what the rows of an entry depend on. Breaking texts into lines is most of what a
// frame costs, and a key changes one entry, or none.
type drawing struct {
	entry         entry
	head, numbers bool
	width         int
	w             metrics
	s             *styles
}

// entryRows are the rows of one entry.
func (v *view) entryRows(e *entry, head bool, w int) []string {
	if e.notice {
		var rows []string
		for _, s := range v.w.wrap(clean(e.text), w-4) {
			rows = append(rows, "   "+v.s.italic.Render(s))
		}
		return rows
	}
	var rows []string
	if head {
		name := v.s.name(e.from).Render(v.w.cut(e.from, w-10))
		if e.own {
			name = v.s.accent.Bold(true).Render("you")
		}
		rows = append(rows, " "+name+"  "+v.s.dim.Render(e.at.Format("15:04")))
	}
	for _, s := range []string{e.origin, e.quote} {
		if s != "" {
			rows = append(rows, v.s.dim.Render("   "+v.w.cut("↪ "+s, w-4)))
		}
	}
	number := ""
	if v.numbers && e.seq > 0 {
		number = fmt.Sprintf("#%d ", e.seq)
	}
	shown, rest := fold(e.text)
	body, style := clean(shown), v.s.plain
	switch {
	case e.recalled:
		body, style = "recalled", v.s.italic
	case e.own && (e.mark == rejected || e.mark == unknown):
		style = v.s.dim
	}
	room := w - 4
	if e.own {
		room -= tickCells
	}
	texts := v.w.wrap(body, room-len(number))
	for i, s := range texts {
		row := "   " + style.Render(s)
		if number != "" {
			row = "   " + v.s.dim.Render(number) + style.Render(s)
			number = strings.Repeat(" ", len(number))
		}
		if i == len(texts)-1 {
			row = v.tail(row, e, w)
		}
		rows = append(rows, row)
	}
	if rest > 0 {
		rows = append(rows, v.s.accent.Render("   "+v.w.cut(e.moreText(rest), w-4)))
	}
	if e.reactions != "" {
		rows = append(rows, v.s.dim.Render("   "+v.w.cut(e.reactions, w-4)))
	}
	switch {
	case e.mark == rejected:
		rows = append(rows, v.s.bad.Render("   "+v.w.cut("not sent: "+oneLine(e.why)+" · /retry or /drop", w-4)))
	case e.mark == unknown:
		rows = append(rows, v.s.bad.Render("   "+v.w.cut("it will never be known whether this was sent · /retry or /drop", w-4)))
	}
	return rows
}

// tail adds to the last row of a message that it was edited, and its mark.
func (v *view) tail(row string, e *entry, w int) string {
	if e.edited && !e.recalled && v.w.width(row)+9 <= w-tickCells {
		row += v.s.dim.Render(" (edited)")
	}
	if !e.own || e.recalled {
		return row
	}
	switch e.mark {
	case sending:
		return row + v.s.dim.Render(" …")
	case stored:
		return row + v.s.dim.Render(" ✓")
	case delivered:
		return row + v.s.dim.Render(" ✓✓")
	case read:
		return row + v.s.accent.Render(" ✓✓")
	}
	return row + v.s.bad.Render(" ✗")
}
