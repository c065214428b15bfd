package chat

import (
	"hash/fnv"

	"charm.land/lipgloss/v2"
)

// styles are the colours, for a dark or a light terminal. Colours say nothing
// that a sign does not say as well, but for read and delivered.
type styles struct {
	plain, bold, dim, faint, italic lipgloss.Style
	accent, warn, bad, good         lipgloss.Style
	bar, barDim                     lipgloss.Style // the line at the top
	open, cursor, badge             lipgloss.Style
	rule                            lipgloss.Style
	names                           []lipgloss.Style
}

func newStyles(dark bool) *styles {
	pick := lipgloss.LightDark(dark)
	fg := func(light, dark string) lipgloss.Style {
		return lipgloss.NewStyle().Foreground(pick(lipgloss.Color(light), lipgloss.Color(dark)))
	}
	on := func(s lipgloss.Style, light, dark string) lipgloss.Style {
		return s.Background(pick(lipgloss.Color(light), lipgloss.Color(dark)))
	}
	s := &styles{
		plain:  lipgloss.NewStyle(),
		bold:   lipgloss.NewStyle().Bold(true),
		dim:    fg("#6b7280", "#8b949e"),
		faint:  fg("#c3c8d0", "#3d444d"),
		italic: fg("#6b7280", "#8b949e").Italic(true),
		accent: fg("#0369a1", "#4cc2ff"),
		warn:   fg("#b45309", "#e3b341"),
		bad:    fg("#b91c1c", "#ff7b72"),
		good:   fg("#15803d", "#56d364"),
		bar:    on(lipgloss.NewStyle().Bold(true), "#e5e9f0", "#21262d"),
		barDim: on(fg("#6b7280", "#8b949e"), "#e5e9f0", "#21262d"),
		open:   on(lipgloss.NewStyle(), "#eef2f7", "#1c2129"),
		cursor: on(lipgloss.NewStyle(), "#dbe7f3", "#2d3a4a"),
		badge:  on(fg("#ffffff", "#0d1117").Bold(true), "#0369a1", "#4cc2ff"),
		rule:   fg("#d0d7de", "#30363d"),
	}
	for _, c := range [][2]string{
		{"#7c3aed", "#d2a8ff"}, {"#be185d", "#ff9bce"}, {"#b45309", "#ffa657"}, {"#15803d", "#7ee787"},
		{"#0e7490", "#76e3ea"}, {"#a16207", "#e3b341"}, {"#4338ca", "#a5b4fc"}, {"#b91c1c", "#ffa198"},
	} {
		s.names = append(s.names, fg(c[0], c[1]).Bold(true))
	}
	return s
}

// name is the colour of a user, the same on every screen.
func (s *styles) name(user string) lipgloss.Style {
	h := fnv.New32a()
	_, _ = h.Write([]byte(user)) // never fails
	return s.names[h.Sum32()%uint32(len(s.names))]
}
