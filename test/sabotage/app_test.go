package sabotage

var appRules = []rule{
	{
		name:    "raise-early",
		holds:   "the stored format is raised when every node reads it",
		patches: []patch{{"internal/app/operate.go", `n.Level < to {`, `n.Level < to && false {`}},
		guards:  []guard{{"internal/app", "^TestF28"}},
	},
}
