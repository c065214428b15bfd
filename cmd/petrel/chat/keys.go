package chat

import (
	"strings"

	tea "charm.land/bubbletea/v2"
)

// press does what a key means.
func (v *view) press(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	v.said = ""
	switch {
	case name == "ctrl+c", name == "ctrl+d" && len(v.edit.text) == 0:
		return tea.Quit
	case v.overlay != nil:
		return v.overlayKey(name)
	case v.inList:
		if v.listKey(name) {
			return v.learn(false)
		}
		v.inList = false // what is typed goes where it belongs
	}
	switch name {
	case "enter":
		return v.enter()
	case "alt+enter", "shift+enter", "ctrl+j":
		v.edit.insert("\n")
	case "tab", "alt+down", "ctrl+n":
		return v.step(1)
	case "shift+tab", "alt+up", "ctrl+p":
		return v.step(-1)
	case "alt+a":
		return v.nextUnread()
	case "alt+m":
		return v.nextMention()
	case "esc":
		v.inList, v.cursor = true, max(0, v.index(v.open))
	case "pgup":
		return v.scroll(1 - v.page)
	case "pgdown":
		return v.scroll(v.page - 1)
	case "shift+up":
		return v.scroll(-1)
	case "shift+down":
		return v.scroll(1)
	case "ctrl+home":
		return v.scroll(-v.total)
	case "ctrl+end":
		v.top = nil
	case "end":
		if v.top != nil {
			v.top = nil
		} else {
			v.edit.key(name)
		}
	default:
		if !v.edit.key(name) && k.Text != "" {
			v.edit.insert(k.Text)
			v.t.typing(v.open, v.edit.value())
		}
	}
	return nil
}

// overlayKey is a key while something lies over the messages.
func (v *view) overlayKey(name string) tea.Cmd {
	switch name {
	case "up":
		v.overTop--
	case "down":
		v.overTop++
	case "pgup":
		v.overTop -= v.page
	case "pgdown":
		v.overTop += v.page
	default:
		v.overlay = nil
	}
	return nil
}

// listKey is a key while the list has them; false: it is none for the list.
func (v *view) listKey(name string) bool {
	switch name {
	case "up", "k":
		v.cursor = max(0, v.cursor-1)
	case "down", "j", "tab":
		v.cursor = max(0, min(len(v.list)-1, v.cursor+1))
	case "home":
		v.cursor = 0
	case "end":
		v.cursor = max(0, len(v.list)-1)
	case "enter", "right":
		if v.cursor < len(v.list) {
			v.show(v.list[v.cursor].id)
		}
		v.inList = false
	case "esc", "left":
		v.inList = false
	default:
		return false
	}
	return true
}

// step opens the next or the previous conversation of the list.
func (v *view) step(by int) tea.Cmd {
	if n := len(v.list); n > 0 {
		v.show(v.list[((v.index(v.open)+by)%n+n)%n].id)
	}
	return v.learn(false)
}

// nextUnread opens the next conversation with something new.
func (v *view) nextUnread() tea.Cmd {
	at := v.index(v.open)
	for i := range v.list {
		c := v.list[(at+1+i)%len(v.list)]
		if c.unread > 0 && c.id != v.open {
			v.show(c.id)
			return v.learn(false)
		}
	}
	v.say("nothing new")
	return nil
}

// scroll moves the messages by rows.
func (v *view) scroll(by int) tea.Cmd {
	last := max(0, v.total-v.page)
	begin := max(0, min(last, v.begin+by))
	if v.top = nil; begin < last {
		for i := begin; i < len(v.shown); i++ {
			if l := v.shown[i]; l.key != "" {
				v.top = &anchor{l.key, l.n, i - begin}
				break
			}
		}
	}
	if by < 0 && begin <= v.page {
		return v.older()
	}
	return nil
}

// enter sends what is written, or does what it orders.
func (v *view) enter() tea.Cmd {
	text := v.edit.value()
	if strings.TrimSpace(text) == "" {
		return nil
	}
	o, isOrder, err := parse(text)
	if err != nil {
		v.fail(err)
		return nil
	}
	if isOrder {
		v.edit.take()
		return v.do(o)
	}
	if v.open == "" {
		v.said, v.wrong = "to whom? /dm USER opens a conversation", true
		return nil
	}
	if _, err := v.t.send(v.open, unescape(strings.TrimRight(text, "\n "))); err != nil {
		v.fail(err)
		return nil
	}
	v.edit.take()
	v.top, v.newFrom = nil, 0
	v.refresh()
	return nil
}

// do carries out an order.
func (v *view) do(o order) tea.Cmd {
	switch o.verb {
	case "/help":
		v.overlay, v.overTop = helpLines(), 0
		return nil
	case "/quit":
		return tea.Quit
	case "/numbers":
		v.numbers = !v.numbers
		return nil
	case "/mention":
		return v.nextMention()
	case "/more":
		v.more(o.seq)
		return nil
	case "/open":
		id, err := find(v.list, o.text)
		if v.fail(err); err == nil {
			v.show(id)
		}
		return v.learn(false)
	case "/edit", "/recall", "/reply", "/forward":
		_, err := v.t.act(v.open, o)
		v.fail(err)
		v.refresh()
		return nil
	case "/retry", "/drop":
		n, err := v.t.refused(v.open, o.verb == "/retry")
		v.say("%s", plural(n, "message"))
		v.fail(err)
		v.refresh()
		return nil
	case "/members":
		if c := v.current(); c == nil || c.direct {
			v.said, v.wrong = "this is no group", true
			return nil
		}
		delete(v.t.about, v.open)
		return v.learn(true)
	}
	if run, ok := v.t.set(v.open, o); ok {
		return func() tea.Msg {
			said, err := run(v.ctx)
			return done{said: said, err: err}
		}
	}
	run := v.t.manage(v.open, o)
	text := o.text
	if o.verb != "/dm" {
		text = ""
	}
	return func() tea.Msg {
		said, open, err := run(v.ctx)
		return done{said, open, text, err}
	}
}

// finish shows what an order has done.
func (v *view) finish(d done) tea.Cmd {
	if d.err != nil {
		v.fail(d.err)
		return nil
	}
	if d.open != "" {
		v.show(v.t.resolve(d.open))
	}
	if d.text != "" {
		_, err := v.t.send(v.open, d.text)
		v.fail(err)
	}
	if d.said != "" && !v.wrong {
		v.say("%s", d.said)
	}
	v.refresh()
	return v.learn(false)
}
