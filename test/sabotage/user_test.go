package sabotage

var userRules = []rule{
	{
		name:    "write-unchecked",
		holds:   "a change does not write over what another node wrote since it read",
		patches: []patch{{"internal/user/change.go", `Check: read,`, `Check: read && false,`}},
		guards:  []guard{{"internal/user", "^TestF11LoginsOnTwoNodes"}},
	},
}
