package sabotage

var apiRules = []rule{
	{
		name:    "answers-behind-the-call",
		holds:   "an answer counts until a client of HTTP/2 takes it",
		patches: []patch{{"internal/api/front.go", `if r.ProtoMajor == 2 {`, `if false {`}},
		guards:  []guard{{"internal/api", "^TestAnswersThatWaitForAWindowCount$"}},
	},
	{
		name:    "small-answers-for-nothing",
		holds:   "small answers that one caller does not read are bounded",
		patches: []patch{{"internal/api/admission.go", `min(answerCost+4*size, s.o.UnderWayBytes/part)`, `0`}},
		guards:  []guard{{"internal/api", "^TestSmallAnswersOfOneCallerAreBounded$"}},
	},
	{
		name:    "strangers-in-full-memory",
		holds:   "while memory is full no stranger opens a connection for HTTP",
		patches: []patch{{"internal/gateway/limits.go", `l.pressed != nil && l.pressed()`, `false`}},
		guards:  []guard{{"internal/gateway", "^TestFullMemoryLetsNoStrangersIn$"}},
	},
	{
		name:  "grow-until-killed",
		holds: "a server in a small container refuses work before the system kills it",
		patches: []patch{
			{"internal/app/pressure.go", `debug.SetMemoryLimit(limit)`, ``},
			{"internal/app/pressure.go", `a.pressed.Store(true)`, ``},
			{"internal/app/budgets.go", `part(c.Limits.AdmittedBytes, 16, 4*mib, 64*mib)`, `part(c.Limits.AdmittedBytes, 16, 64*mib, 64*mib)`},
		},
		guards: []guard{{"test/crash", "^TestServerInASmallContainerIsNotKilled$"}},
	},
	{
		name:    "no-login-on-a-full-disk",
		holds:   "operators log in and act on a disk that is full for users",
		patches: []patch{{"internal/api/operators.go", `ctx = store.ForOperators(ctx)`, `_ = store.ForOperators`}},
		guards:  []guard{{"internal/api", "^TestOperatorsWorkOnAFullDisk$"}},
	},
	{
		name:    "users-in-the-reserve",
		holds:   "the reserve of a full disk is for operators",
		patches: []patch{{"internal/store/pebblestore/space.go", `(s.spent.Load() || !store.IsForOperators(ctx))`, `s.spent.Load()`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestF20DiskFullRefusesAndRecovers$"}, {"internal/api", "^TestOperatorsWorkOnAFullDisk$"}},
	},
	{
		name:    "grpc-without-schema",
		holds:   "tools of gRPC find the schema by reflection",
		patches: []patch{{"internal/api/grpc.go", `grpcreflect.NewStaticReflector(names...)`, `grpcreflect.NewStaticReflector(names[:0]...)`}},
		guards:  []guard{{"internal/api", "^TestToolsOfGRPCFindSchemaAndHealth$"}},
	},
	{
		name:    "names-of-changes-for-free",
		holds:   "a change of members costs the users that it names",
		patches: []patch{{"internal/api/groups.go", `max(2*n, maxGroupUsers)), Tokens: names,`, `max(2*n, maxGroupUsers)), Tokens: min(names, 1),`}},
		guards:  []guard{{"internal/api", "^TestMemberChangesAreCountedByTheUsersThatTheyName$"}},
	},
	{
		name:    "keys-share-a-turn",
		holds:   "reads with admin keys take turns, those of each key among them",
		patches: []patch{{"internal/api/message.go", `im.Account{User: im.User(callOf(ctx).caller.name())}`, `identity(ctx).Account`}},
		guards:  []guard{{"internal/api", "^TestReadsOfAdminKeysTakeTurns$"}},
	},
	{
		name:  "receipts-out-of-turn",
		holds: "who reads the receipts of a conversation waits for a turn, as with all that reads a lot",
		patches: []patch{{"internal/api/message.go", `return answered(read(ctx, s, a, func() (*petrelv1.ListReceiptsResponse, error) {`,
			`s = &Server{route: s.route}; return answered(read(ctx, s, a, func() (*petrelv1.ListReceiptsResponse, error) {`}},
		guards: []guard{{"internal/api", "^TestReadsOfUsersTakeTurns$"}},
	},
	{
		name:    "receipts-without-pages",
		holds:   "a page of receipts covers at most as many members as it is asked for",
		patches: []patch{{"internal/conv/receipts.go", `in.members.page(im.User(q.After), limit)`, `in.members.page(im.User(q.After), MaxMembers)`}},
		guards:  []guard{{"internal/conv", "^TestReceiptsAreReadInPages$"}},
	},
	{
		name:    "receipts-read-from-the-first",
		holds:   "a page of receipts reads the cursors of its members and no others",
		patches: []patch{{"internal/conv/receipts.go", `cu.store.Cursors(ctx, c.key, before, func`, `cu.store.Cursors(ctx, c.key, "", func`}},
		guards:  []guard{{"internal/conv", "^TestReceiptsAreReadInPages$"}},
	},
	{
		name:    "vouch-for-anybody",
		holds:   "nobody is known before their token or key has been checked",
		patches: []patch{{"internal/api/callers.go", `m := table[name]`, `rate.Vouch(ctx); m := table[name]`}},
		guards:  []guard{{"internal/api", "^TestNobodyIsVouchedForBeforeTheirTokenIsChecked$"}},
	},
	{
		name:    "count-after-reading",
		holds:   "a call without a credential is counted before it is read",
		patches: []patch{{"internal/api/admission.go", `client := addrOf(r.RemoteAddr)`, `client := addrOf(r.RemoteAddr); _, _ = io.CopyN(io.Discard, r.Body, 1)`}},
		guards:  []guard{{"internal/api", "^TestCallsOfStrangersAreCountedBeforeTheyAreRead$"}},
	},
	{
		name:    "strangers-send-much",
		holds:   "the body of a call without a credential is small",
		patches: []patch{{"internal/api/admission.go", `return maxStrangerBytes`, `return maxRequestBytes`}},
		guards:  []guard{{"internal/api", "^TestBodiesOfStrangersAreSmall$"}},
	},
	{
		name:    "slow-bodies-stay",
		holds:   "bodies that do not come to their end keep nobody out",
		patches: []patch{{"internal/api/admission.go", `old.stop()`, ``}},
		guards:  []guard{{"internal/api", "^TestOldestBodyIsStopped$"}},
	},
	{
		name:    "read-compressed",
		holds:   "nothing is decompressed",
		patches: []patch{{"internal/api/server.go", `connect.WithCompression("gzip", nil, nil),`, ``}},
		guards:  []guard{{"internal/api", "^TestNothingIsDecompressed$"}},
	},
	{
		name:    "bodies-without-bound",
		holds:   "the bodies of all calls under way have a bound",
		patches: []patch{{"internal/api/admission.go", `if u.bytes+n > all || u.owners[owner]+n > most {`, `if false {`}},
		guards:  []guard{{"internal/api", "^TestBodiesUnderWayAreBoundedForEachAndForAll$"}},
	},
	{
		name:    "answers-without-bound",
		holds:   "the answers that nobody reads have a bound",
		patches: []patch{{"internal/api/admission.go", `if c.caller == nil || c.caller.anonymous() {`, `if true {`}},
		guards:  []guard{{"internal/api", "^TestAnswersThatNobodyReadsAreBounded$"}},
	},
	{
		name:    "strangers-are-our-errors",
		holds:   "what a stranger sends is no error of the server",
		patches: []patch{{"internal/api/front.go", `e == nil && !callOf(r.Context()).reached {`, `e == nil && false {`}},
		guards:  []guard{{"internal/api", "^TestWhatStrangersSendIsNoErrorOfOurs$"}},
	},
}
