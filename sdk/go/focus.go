package petrel

import (
	"slices"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// setFocus sets the conversations whose entries are wanted at once; nil: all.
func (c *core) setFocus(f *petrelv1.SetFocus) {
	c.focus = f
	c.sendFocus()
	c.repairAny()
	c.out.woken = true
}

// sendFocus sends the focus to the server, unless the server has it.
func (c *core) sendFocus() {
	lv := c.live
	if lv == nil || lv.focused == c.focus || !lv.offers(capFocus) {
		return
	}
	lv.focused = c.focus
	q := c.focus
	if q == nil {
		q = &petrelv1.SetFocus{All: true}
	}
	c.ask(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Focus{Focus: q}}, func(f *petrelv1.ServerFrame) {
		for _, h := range f.GetFocus().GetHeads() {
			c.takeHint(h)
		}
		if e := f.GetError(); e != nil && e.Retryable {
			lv.focused = &petrelv1.SetFocus{} // not the one that is wanted
			lv.focusAt = c.retryAt(e)
			c.alarmAt(lv.focusAt)
		}
	})
}

// wanted reports whether missing entries of v are to be loaded.
func (c *core) wanted(v *conv) bool {
	return c.focus == nil || !c.live.offers(capFocus) || slices.Contains(c.focus.Convs, v.id)
}
