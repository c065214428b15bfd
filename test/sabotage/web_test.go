package sabotage

var webRules = []rule{
	{
		name:    "policy-with-holes",
		holds:   "no address of a gateway brings anything else into the policy of the web chat",
		patches: []patch{{"internal/web/web.go", `socketOf[scheme] != "" && isSource(host)`, `socketOf[scheme] != "" && host != ""`}},
		guards:  []guard{{"internal/web", "^TestPolicyLetsNothingElseIn$"}},
	},
	{
		name:    "keep-the-page",
		holds:   "browsers ask for the page of the web chat each time, and keep files whose name has a hash",
		patches: []patch{{"internal/web/web.go", `if f.everLiving {`, `if !f.everLiving {`}},
		guards:  []guard{{"internal/web", "^TestPageNamesFilesThatAreServed$"}, {"internal/web", "^TestPageIsAskedForAgain$"}},
	},
	{
		name:    "chat-all-the-same",
		holds:   "web.enabled = false serves nothing of the web chat",
		patches: []patch{{"internal/app/web.go", `c.Enabled && a.cfg.Listen.HTTP`, `a.cfg.Listen.HTTP`}},
		guards:  []guard{{"internal/app", "^TestWhatIsTheOperatorsIsOnTheAdminListener$"}},
	},
}
