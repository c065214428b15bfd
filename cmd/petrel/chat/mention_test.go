package chat

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestTextsNameUsers(t *testing.T) {
	for text, want := range map[string][]string{
		"hello": nil, "@bob": {"bob"}, "hi @bob, (and @carol.smith!) @all:": {"bob", "carol.smith", "all"}, "bob@example.org": nil, "@": nil, "@海燕 @x/y": nil,
		"@" + strings.Repeat("x", 65): nil, "@bob\n@bob": {"bob", "bob"},
	} {
		if got := named(text); !slices.Equal(got, want) {
			t.Errorf("%q names %q, want %q", text, got, want)
		}
	}
}

// The list shows who is mentioned where, and an order goes from one mention to the next,
// without the conversation being read to its end.
func TestMentionsAreShownAndGoneTo(t *testing.T) {
	v := newTestView(t, 80, 12)
	for q := uint64(10); q < 60; q++ {
		v.entries = append(v.entries, entry{key: fmt.Sprint("m", q), seq: q, from: "bob", at: noon, text: "text"})
	}
	v.list[0].unread, v.list[0].mentions = 40, []uint64{20, 30}
	if all := strings.Join(screen(v), "\n"); !strings.Contains(all, "@2  40") {
		t.Errorf("the list does not show the mentions:\n%s", all)
	}
	var shown []string
	for range 3 {
		v.nextMention()
		shown = append(shown, v.top.key)
		_, _, _ = v.frame()
	}
	if want := []string{"m20", "m30", "m20"}; !slices.Equal(shown, want) {
		t.Errorf("went to %q, want %q", shown, want)
	}
	v.list[0].mentions = []uint64{5} // older than what is here
	if cmd := v.nextMention(); cmd == nil || v.wanted != 5 {
		t.Errorf("older messages are not asked for: %d", v.wanted)
	}
	v.paging, v.whole["g1"] = false, true
	v.goTo(5)
	if v.wanted != 0 || v.said == "" {
		t.Errorf("a message that is not there: %q", v.said)
	}
	v.list[0].mentions = nil
	v.nextMention()
	if v.said != "nobody mentions you" {
		t.Errorf("without mentions: %q", v.said)
	}
	v.list = nil
	v.nextMention()
}
