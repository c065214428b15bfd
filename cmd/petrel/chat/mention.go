package chat

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	petrel "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// everybody is what stands after the @ in a message for all members.
const everybody = "all"

// maxNamed is how many users one message may mention. Spec: P-5.13.
const maxNamed = 50

// name has a message to a group mention whom its text names: words like @bob, and @all if
// the person may. Whoever is no member is not mentioned by it.
func (t *talk) name(d *petrel.Draft) {
	v, ok := t.c.Conversation(d.Conv)
	if !ok || v.Kind != petrelv1.ConvKind_CONV_KIND_GROUP {
		return
	}
	for _, user := range named(d.Text) {
		switch {
		case user == everybody && v.Role >= petrelv1.Role_ROLE_ADMIN:
			d.MentionAll = true
		case len(d.Mentions) < maxNamed && !slices.Contains(d.Mentions, user):
			d.Mentions = append(d.Mentions, user)
		}
	}
}

// named are the users whom a text names.
func named(text string) []string {
	var users []string
	for _, word := range strings.Fields(text) {
		name, ok := strings.CutPrefix(strings.TrimLeft(word, "(\"'"), "@")
		if name = strings.TrimRight(name, ".,:;!?)\"'"); ok && isUser(name) {
			users = append(users, name)
		}
	}
	return users
}

// isUser tells whether s can be the id of a user. Spec: P-8.1.
func isUser(s string) bool {
	return 0 < len(s) && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || 'z' < r) && (r < 'A' || 'Z' < r) && (r < '0' || '9' < r) && !strings.ContainsRune("._@+-", r)
	})
}

// nextMention goes to the next message that mentions the person: of the conversation that
// is open, and then of the others.
func (v *view) nextMention() tea.Cmd {
	after, n := v.jumped, len(v.list)
	for i := 0; i <= n && n > 0; i++ {
		c := v.list[(max(0, v.index(v.open))+i)%n]
		seq := petrel.Conversation{Mentions: c.mentions}.NextMention(after)
		if after = 0; seq == 0 {
			continue
		}
		if c.id != v.open {
			v.show(c.id)
		}
		return tea.Batch(v.learn(false), v.goTo(seq))
	}
	v.say("nobody mentions you")
	return nil
}

// goTo shows a message of the conversation that is open, and reads older ones until it is
// there.
func (v *view) goTo(seq uint64) tea.Cmd {
	v.wanted = 0
	for _, e := range v.entries {
		if e.seq == seq {
			v.jumped, v.top = seq, &anchor{key: e.key, below: 1}
			return nil
		}
	}
	older := v.older()
	if older == nil && !v.paging {
		v.say("that message is not here")
		return nil
	}
	v.wanted = seq
	return older
}
