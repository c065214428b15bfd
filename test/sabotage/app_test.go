package sabotage

var appRules = []rule{
	{
		name:    "guesses-are-well",
		holds:   "somebody who guesses passwords is an incident",
		patches: []patch{{"internal/console/incidentcounters.go", `return t.wrong >= wrongLogins`, `return false && t.wrong >= wrongLogins`}},
		guards:  []guard{{"internal/console", "^TestPasswordAttackIsToldFromMistakes$"}},
	},
	{
		name:    "backups-are-never-late",
		holds:   "a backup that is late is an incident",
		patches: []patch{{"internal/console/incidentrules.go", `case now.Before(b.due):`, `case true:`}},
		guards:  []guard{{"internal/app", "^TestIncidentsOfLoginsAndBackupsAreInTheOverview$"}},
	},
	{
		name:    "incidents-are-forgotten",
		holds:   "incidents of the last day stay listed when they are over",
		patches: []patch{{"internal/console/incidents.go", `i.past = append(i.past, x)`, `_ = x`}},
		guards:  []guard{{"internal/console", "^TestIncidentsThatEndedAreKeptForADay$"}},
	},
	{
		name:    "same-roots",
		holds:   "another file of cluster.bus_ca_file is taken over while the server runs",
		patches: []patch{{"internal/app/reload.go", `if !roots.Equal(a.busRoots) {`, `if false {`}},
		guards:  []guard{{"internal/app", "^TestReloadTakesTheRootsOfTheBus$"}},
	},
	{
		name:    "raise-early",
		holds:   "the stored format is raised when every node reads it",
		patches: []patch{{"internal/maintenance/maintenance.go", `n.Level < to {`, `n.Level < to && false {`}},
		guards:  []guard{{"internal/maintenance", "^TestF28"}},
	},
	{
		name:    "calls-prolong-the-drain",
		holds:   "a server that stops refuses calls, but those of operators",
		patches: []patch{{"internal/api/router.go", `case known && !m.forOperators() && s.o.Stopping():`, `case false:`}},
		guards:  []guard{{"internal/app", "^TestCallsAreRefusedWhileTheServerStops$"}},
	},
	{
		name:    "doctor-trusts-every-certificate",
		holds:   "petrel doctor --through names a certificate that clients refuse",
		patches: []patch{{"internal/proxycheck/certificatecheck.go", `_, err := leaf.Verify(of)`, `_, err := leaf.Verify(of); err = nil`}},
		guards:  []guard{{"internal/proxycheck", "^TestCertificatesAreJudgedAsClientsDo$"}},
	},
	{
		name:    "announce-early",
		holds:   "the server says that it is ready when /readyz does",
		patches: []patch{{"internal/app/readiness.go", `if reason == "" {`, `if reason == "" || true {`}},
		guards:  []guard{{"internal/app", "^TestNothingIsAnnouncedWhileReadyzIsRed$"}},
	},
	{
		name:    "end-in-silence",
		holds:   "a store that fails tells the clients that the server ends",
		patches: []patch{{"internal/app/readiness.go", `n := a.hub.SendAway()`, `return; n := a.hub.SendAway()`}},
		guards:  []guard{{"internal/app", "^TestFailedStoreEndsTheServer$"}},
	},
	{
		name:    "green-while-refusing",
		holds:   "/readyz is red while most commits are refused",
		patches: []patch{{"internal/app/readiness.go", `red = sum.refused >= minFaults && sum.refused > sum.taken && seconds > 1`, `red = false`}},
		guards:  []guard{{"internal/app", "^TestReadyzFollowsMostCommits"}, {"internal/app", "^TestReadyzIsRedWhileADatabaseTakesNothing$"}},
	},
	{
		name:    "red-for-one-error",
		holds:   "a single error does not make /readyz red",
		patches: []patch{{"internal/app/readiness.go", `red = sum.refused >= minFaults && sum.refused > sum.taken && seconds > 1`, `red = sum.refused > 0`}},
		guards:  []guard{{"internal/app", "^TestReadyzFollowsMostCommits"}},
	},
	{
		name:  "all-files-to-clients",
		holds: "connections leave the store and HTTP the files that they need",
		patches: []patch{{"internal/app/descriptors.go", `f.Connections = int(limit) - others - f.Store - f.HTTP - f.Admin - f.HandOvers - f.Refusals`,
			`f.Connections = int(limit)`}},
		guards: []guard{{"internal/app", "^TestTooFewFilesRefuseTheStart$"}},
	},
	{
		name:  "refuse-in-silence",
		holds: "every connection that is refused, and not reset, is told why",
		patches: []patch{{"internal/gateway/refusals.go", `_, err := nc.Write(why)
		written = err == nil`, `_ = nc.Close()
		written = true`}},
		guards: []guard{{"internal/gateway", "^TestEveryRefusedConnectionGetsTheReason$"}},
	},
	{
		name:    "one-door",
		holds:   "operators' methods are served on listen.admin only",
		patches: []patch{{"internal/api/listener.go", `case m.forOperators():`, `case false && m.forOperators():`}},
		guards:  []guard{{"internal/api", "^TestOperatorsMethodsAreBehindTheirOwnDoor$"}, {"internal/app", "^TestWhatIsTheOperatorsIsOnTheAdminListener$"}},
	},
	{
		name:    "profile-for-everybody",
		holds:   "profiles need an admin key",
		patches: []patch{{"internal/api/listener.go", `if err != nil {`, `if err != nil && false {`}},
		guards:  []guard{{"internal/app", "^TestWhatIsTheOperatorsIsOnTheAdminListener$"}},
	},
	{
		name:    "any-name",
		holds:   "a request for a name that is none of the server's is refused",
		patches: []patch{{"internal/gateway/hosts.go", `if !access().isOwnName(r.Host, loopback) {`, `if false && !access().isOwnName(r.Host, loopback) {`}},
		guards:  []guard{{"internal/gateway", "^TestNameOfAStrangerGetsNothing$"}, {"internal/gateway", "^TestPagesOfStrangersReachNoOperatorsAddress$"}},
	},
	{
		name:    "any-page",
		holds:   "pages of strangers neither connect nor read what the API answers",
		patches: []patch{{"internal/gateway/httpsecurity.go", `return host != "" && strings.EqualFold(host, r.Host)`, `return true || host != ""`}},
		guards:  []guard{{"internal/gateway", "^TestPagesCallFromTheOriginsThatMayConnect$"}, {"internal/gateway", "^TestUpgradeIsRefusedWithAReason$"}},
	},
	{
		name:    "page-of-a-stranger-operates",
		holds:   "the admin listener answers pages of its own only",
		patches: []patch{{"internal/gateway/admin.go", `"listen.admin", own.Handler(linksOnly(a.o.Handler)))`, `"listen.admin", linksOnly(a.o.Handler))`}},
		guards:  []guard{{"internal/gateway", "^TestPagesOfStrangersReachNoOperatorsAddress$"}},
	},
	{
		name:    "half-a-reload",
		holds:   "a configuration with a fault changes nothing",
		patches: []patch{{"internal/app/reload.go", `cert.Leaf.NotAfter) && time.Now().Before(inUse`, `cert.Leaf.NotAfter) && false && time.Now().Before(inUse`}},
		guards:  []guard{{"internal/app", "^TestReloadEndsNoConnection$"}},
	},
	{
		name:    "secret-into-the-file-of-another",
		holds:   "the setup link is written into a new file only",
		patches: []patch{{"internal/app/app.go", `os.O_WRONLY|os.O_CREATE|os.O_EXCL`, `os.O_WRONLY|os.O_CREATE`}},
		guards:  []guard{{"internal/app", "^TestSecretsAreNotWrittenIntoFilesOfOthers$"}},
	},
	{
		name:    "proxies-of-the-start",
		holds:   "a reload takes other trusted proxies over",
		patches: []patch{{"internal/app/reload.go", `Proxies: c.Listen.TrustedProxies}`, `Proxies: a.cfg.Listen.TrustedProxies}`}},
		guards:  []guard{{"internal/app", "^TestReloadEndsNoConnection$"}},
	},
	{
		name:    "former-key-of-the-provider",
		holds:   "a JWT signed with a key that was replaced is refused",
		patches: []patch{{"internal/app/reload.go", `f.useJWTKey()`, `_ = f.useJWTKey`}},
		guards:  []guard{{"internal/app", "^TestReloadTakesTheKeyOfTheProvider$"}},
	},
	{
		name:    "former-certificate-of-the-bus",
		holds:   "nodes show the certificate that was read last",
		patches: []patch{{"internal/app/othernodes.go", `t.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.busCertificate.Load(), nil }`, `t.Certificates = []tls.Certificate{*cert}`}},
		guards:  []guard{{"internal/app", "^TestReloadTakesTheCertificateOfTheBus$"}},
	},
	{
		name:    "reload-resets-limits",
		holds:   "a reload keeps the limits that the API has set",
		patches: []patch{{"internal/app/reload.go", `if !slices.Contains(changed, name) {`, `if name == "" {`}},
		guards:  []guard{{"internal/app", "^TestReloadKeepsTheLimitsOfTheAPI$"}},
	},
	{
		name:    "open-folder",
		holds:   "the data folder is for the user of the server only",
		patches: []patch{{"internal/app/datafolder.go", `if i.Mode().Perm()&0o077 == 0 {`, `if i.Mode().Perm()&0o077 == 0 || true {`}},
		guards:  []guard{{"internal/app", "^TestOpenDataFolderIsClosed$"}},
	},
	{
		name:    "setup-link-in-the-log",
		holds:   "the setup link goes to a terminal or into its file",
		patches: []patch{{"internal/app/banner.go", `line["setup_file"] = filepath.Join(a.cfg.Store.Dir, setupFile)`, `line["setup_file"] = filepath.Join(a.SetupLink(), setupFile)`}},
		guards:  []guard{{"internal/app", "^TestBannerForProgramsIsOneLineOfJSON$"}},
	},
	{
		name:    "hand-over-from-a-failed-store",
		holds:   "a node whose store has failed does not go on handing its feeds over",
		patches: []patch{{"internal/app/othernodes.go", "cancel(store.ErrFailed)", ""}},
		guards:  []guard{{"internal/app", "^TestNoFeedsAreHandedOverAfterTheStoreHasFailed$"}},
	},
	{
		name:  "refuse-before-hand-over",
		holds: "a node that is stopped takes sends until its feeds are elsewhere",
		// The pause is there for the guard, which looks at the other node after the refusal.
		patches: []patch{{"internal/app/app.go", "a.giveAway()\na.hub.Drain()", "a.hub.Drain()\ntime.Sleep(5*time.Second)\na.giveAway()"}},
		guards:  []guard{{"test/sdk", "^TestStoppedNodeServesUntilItsFeedsAreElsewhere$"}},
	},
}
