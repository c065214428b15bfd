package sabotage

var appRules = []rule{
	{
		name:    "raise-early",
		holds:   "the stored format is raised when every node reads it",
		patches: []patch{{"internal/app/operate.go", `n.Level < to {`, `n.Level < to && false {`}},
		guards:  []guard{{"internal/app", "^TestF28"}},
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
		patches: []patch{{"internal/app/files.go", `f.Connections = int(limit) - others - f.Store - f.HTTP - f.HandOvers - f.Refusals`,
			`f.Connections = int(limit)`}},
		guards: []guard{{"internal/app", "^TestTooFewFilesRefuseTheStart$"}},
	},
	{
		name:  "refuse-in-silence",
		holds: "every connection that is refused is told why",
		patches: []patch{{"internal/gateway/refusals.go", `_, err := nc.Write(why)
		told = err == nil`, `_ = nc.Close()
		told = true`}},
		guards: []guard{{"internal/gateway", "^TestEveryRefusedConnectionIsToldWhy$"}},
	},
	{
		name:    "open-folder",
		holds:   "the data folder is for the user of the server only",
		patches: []patch{{"internal/app/folder.go", `if i.Mode().Perm()&0o077 == 0 {`, `if i.Mode().Perm()&0o077 == 0 || true {`}},
		guards:  []guard{{"internal/app", "^TestOpenDataFolderIsClosed$"}},
	},
}
