package sabotage

var reportRules = []rule{
	{
		name:    "report-what-is-withheld",
		holds:   "nobody reports a message that they cannot read",
		patches: []patch{{"internal/api/reports.go", `m.From != "" && !m.Withheld && !m.Lost && (hasBody(m) || m.RecalledBy != 0)`, `m.From != ""`}, {"internal/api/reports.go", `s.route.HistoryPage(ctx, a, &`, `s.route.HistoryPage(ctx, im.Account{Tenant: a.Tenant}, &`}},
		guards:  []guard{{"test/authz", "^TestWhoReportsAMessage$"}},
	},
	{
		name:    "report-without-copies",
		holds:   "a recall takes nothing from what a report keeps",
		patches: []patch{{"internal/api/reports.go", `kept, err := keep(messages)`, `kept, err := keep(nil)`}},
		guards:  []guard{{"internal/api", "^TestAReportIsClosedOnce$"}},
	},
	{
		name:    "report-keeps-too-much",
		holds:   "the copies of a report are bounded",
		patches: []patch{{"internal/api/reports.go", `bytes > report.MaxContextBytes &&`, `bytes > 100*report.MaxContextBytes &&`}},
		guards:  []guard{{"internal/api", "^TestAReportIsBounded$"}},
	},
	{
		name:    "report-without-end",
		holds:   "a user makes twenty reports a day",
		patches: []patch{{"internal/report/report.go", `err == nil && n == maxPerDay && free > 0`, `err == nil && n > maxPerDay && free > 0`}},
		guards:  []guard{{"internal/report", "^TestAReporterHasTwentyReportsADay$"}},
	},
	{
		name:    "report-twice",
		holds:   "a further report of the same while the first is open is the same report",
		patches: []patch{{"internal/report/report.go", `		if number != nil {`, `		if number != nil && false {`}},
		guards:  []guard{{"internal/report", "^TestReportsAreListedByTheirState$"}},
	},
	{
		name:    "resolve-twice",
		holds:   "nothing is done about a report that is closed",
		patches: []patch{{"internal/api/reports.go", `case closing && is.ClosedMs > 0:`, `case false:`}},
		guards:  []guard{{"internal/api", "^TestAReportIsClosedOnce$"}},
	},
	{
		name:    "read-copies-unrecorded",
		holds:   "the copies of a report are shown after the audit log has a record of it",
		patches: []patch{{"internal/api/adminconversations.go", `		return r.Context`, `		return false`}},
		guards:  []guard{{"internal/api", "^TestReportsAreRecorded$"}},
	},
	{
		name:    "disable-by-any-key",
		holds:   "to disable the reported user, a key needs the scope users",
		patches: []patch{{"internal/api/reports.go", `if !callOf(ctx).caller.key.Covers(scopeUsers) {`, `if false {`}},
		guards:  []guard{{"test/authz", "^TestWhoResolvesAReport$"}},
	},
	{
		name:    "keep-reports-for-ever",
		holds:   "a closed report goes after 90 days, with what it keeps",
		patches: []patch{{"internal/report/report.go", `key(keyReport, n), key(keyContext, n), keys[i]`, `key(keyReport, n), keys[i]`}},
		guards:  []guard{{"internal/report", "^TestClosedReportsGo$"}},
	},
	{
		name:    "write-on-another-node",
		holds:   "a muted user writes on no node",
		patches: []patch{{"internal/session/sessionrechecks.go", `		learn(is)`, `		_, _ = learn, is`}},
		guards:  []guard{{"internal/session", "^TestAMuteReachesTheSessionsOfAllNodes$"}},
	},
	{
		name:    "mute-forgotten-by-devices",
		holds:   "a node that has missed a mute learns it from the store",
		patches: []patch{{"internal/user/standing.go", `			d.MutedMs, d.PrivateReading = is.MutedMs, is.PrivateReading`, `			_ = d`}},
		guards:  []guard{{"internal/user", "^TestStandingTellsOfAMute$"}},
	},
	{
		name:    "leave-as-a-thief",
		holds:   "an account without a password is deleted by a fresh login only",
		patches: []patch{{"internal/user/leave.go", `<= freshLogin {`, `<= 1000*freshLogin {`}},
		guards:  []guard{{"internal/user", "^TestWhoMayLeave$"}},
	},
	{
		name:  "tell-who-has-left",
		holds: "only the right password tells that an account was deleted",
		patches: []patch{{"internal/user/login.go", `	case !ok || !may:`, `	case u != nil && u.LeavingMs > 0:
		return "", "", &im.Error{Code: im.CodeAccountLeaving}
	case !ok || !may:`}},
		guards: []guard{{"internal/user", "^TestAUserWhoLeftComesBackInTime$"}},
	},
	{
		name:    "tokens-after-leaving",
		holds:   "all tokens are void once the account is deleted",
		patches: []patch{{"internal/user/leave.go", `		return c.revokeAll(ctx, a, u)`, `		return nil`}},
		guards:  []guard{{"internal/user", "^TestAUserWhoLeavesIsNameless$"}},
	},
	{
		name:    "name-after-leaving",
		holds:   "others see nothing of the profile of a user who has deleted the account",
		patches: []patch{{"internal/user/profiles.go", `		return Profile{User: a.User, Deleted: true}`, `		_ = a`}},
		guards:  []guard{{"internal/user", "^TestAUserWhoLeavesIsNameless$"}},
	},
	{
		name:    "restore-for-ever",
		holds:   "after seven days nobody takes the deletion back by a login",
		patches: []patch{{"internal/user/leave.go", `	case u.Disabled, left < 0 || left == 0 && u.LeavingMs > 0:`, `	case u.Disabled:`}},
		guards:  []guard{{"internal/user", "^TestAUserWhoLeftComesBackInTime$"}},
	},
	{
		name:    "report-from-below",
		holds:   "a message is reported, whatever stands before it",
		patches: []patch{{"internal/api/reports.go", `Before: r.Seq + 1, Limit`, `Limit`}},
		guards:  []guard{{"internal/api", "^TestAMessageAfterLargeOnesIsReported$"}},
	},
	{
		name:    "mute-in-seconds",
		holds:   "the end of a mute is not over",
		patches: []patch{{"internal/user/standing.go", `if untilMs > 0 && untilMs <= us.nowMs() {`, `if false {`}},
		guards:  []guard{{"internal/api", "^TestAMuteByAReportIsRepeated$"}},
	},
	{
		name:    "decide-twice-as-another",
		holds:   "a repeat of the decision that has closed a report is answered",
		patches: []patch{{"internal/api/reports.go", `case closing && is.ClosedMs > 0 && report.ClosedBy(is, note):`, `case closing && is.ClosedMs > 0 && report.ClosedBy(is, note) && false:`}},
		guards:  []guard{{"internal/api", "^TestAnActionOnAClosedReportIsNotLost$"}},
	},
	{
		name:  "muted-repeats",
		holds: "the repeat of a request from before a mute has its answer",
		patches: []patch{{"internal/api/groups.go", `	if len(m.Users) > maxGroupUsers {`, `	if err := s.users.CheckMuted(identity(ctx)); err != nil {
		return nil, err
	}
	if len(m.Users) > maxGroupUsers {`}},
		guards: []guard{{"internal/api", "^TestARepeatFromBeforeAMuteHasItsAnswer$"}},
	},
}
