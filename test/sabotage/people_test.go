package sabotage

var peopleRules = []rule{
	{
		name:    "show-hidden-fields",
		holds:   "a hidden field of a profile is seen by its user alone",
		patches: []patch{{"internal/user/profiles.go", `if !found || s == asOneself {`, `if !found || s == asOneself || true {`}},
		guards:  []guard{{"internal/user", "^TestHiddenFieldsAreNotSeen$"}},
	},
	{
		name:    "version-of-hidden-fields",
		holds:   "the change of a hidden field does not change the version that others have",
		patches: []patch{{"internal/user/profiles.go", `content, err := seen.MarshalVT()`, `content, err := u.MarshalVT()`}},
		guards:  []guard{{"internal/user", "^TestHiddenFieldsAreNotSeen$"}},
	},
	{
		name:    "find-hidden-handles",
		holds:   "nobody is found by a hidden handle",
		patches: []patch{{"internal/user/handles.go", `u.Handle != handle || !asStranger.sees(u, "handle"):`, `u.Handle != handle:`}},
		guards:  []guard{{"internal/user", "^TestHandleIsOfOneUser$"}},
	},
	{
		name:    "handle-of-two",
		holds:   "no handle looks like the id or the handle of another user",
		patches: []patch{{"internal/user/handles.go", `case im.User(value) != a.User && (strict ||`, `case false && (strict ||`}},
		guards:  []guard{{"internal/user", "^TestHandleIsOfOneUser$"}},
	},
	{
		name:    "handle-twice-in-a-call",
		holds:   "one call of the back end gives a handle to one user",
		patches: []patch{{"internal/user/handles.go", `given && to != a.User {`, `given && to != a.User && false {`}},
		guards:  []guard{{"internal/user", "^TestBackEndSetsProfiles$"}},
	},
	{
		name:  "keep-the-handle-of-an-id",
		holds: "a handle that is the id of a user is theirs once they ask for it",
		patches: []patch{{"internal/user/handles.go", `u.Handle = ""
			return c.putUser(holder, u)`, `return nil`}},
		guards: []guard{{"internal/user", "^TestHandleIsOfOneUser$"}},
	},
	{
		name:    "forget-what-is-hidden",
		holds:   "a hidden field that comes back is hidden",
		patches: []patch{{"internal/user/profiles.go", `if v := seen[field]; v > SeenByEverybody {`, `if v := seen[field]; v > SeenByEverybody && (!strings.HasPrefix(field, fieldPrefix) || fieldsOf(u)[field[len(fieldPrefix):]] != "") {`}},
		guards:  []guard{{"internal/user", "^TestHiddenFieldsAreNotSeen$"}},
	},
	{
		name:    "tell-hidden-changes",
		holds:   "nobody is told that a field has changed that they do not see",
		patches: []patch{{"internal/presence/policychange.go", `if differs && x.told && x.view != untold {`, `if (differs || true) && x.told && x.view != untold {`}},
		guards:  []guard{{"internal/presence", "^TestWatchersLearnNewProfiles$"}},
	},
	{
		name:    "try-handles-for-free",
		holds:   "each handle that a user tries is a look-up",
		patches: []patch{{"internal/api/account.go", `if r.GetHandle() != "" {`, `if false {`}},
		guards:  []guard{{"internal/api", "^TestGetUsersAnswersWhatDiffers$"}},
	},
	{
		name:    "change-managed-fields",
		holds:   "users do not change fields that only the back end changes",
		patches: []patch{{"internal/user/profiles.go", `if custom || slices.Contains(rec.Managed, field) {`, `if false && custom {`}},
		guards:  []guard{{"internal/user", "^TestBackEndSetsProfiles$"}},
	},
	{
		name:    "pay-twice-for-a-user",
		holds:   "look-ups count distinct users",
		patches: []patch{{"internal/user/rates.go", `case us.rates.named.Ready(now, k, once) != nil:`, `case false:`}},
		guards:  []guard{{"internal/user", "^TestLookUpsCountDistinctUsers$"}},
	},
	{
		name:    "profiles-for-free",
		holds:   "the profile of a stranger costs a look-up",
		patches: []patch{{"internal/api/profiles.go", `if !known[i] {`, `if !known[i] && false {`}},
		guards:  []guard{{"internal/api", "^TestGetUsersAnswersWhatDiffers$"}},
	},
	{
		name:    "count-look-ups-here",
		holds:   "one node counts the look-ups of a user",
		patches: []patch{{"internal/route/router.go", `taken, err := Ask(ctx, r, conv.Query{Conv: inbox, User: by.User}, r.takeLookUps, q)`, `taken, err := r.takeLookUps(nil, ctx, conv.Query{Conv: inbox, User: by.User}, q)`}},
		guards:  []guard{{"internal/route", "^TestOneNodeCountsLookUps$"}},
	},
	{
		name:    "former-members-look-up",
		holds:   "a former member of a group pays for the profiles of its members",
		patches: []patch{{"internal/user/lookups.go", `shared = m.GetRole() != 0`, `shared = m != nil`}},
		guards:  []guard{{"internal/user", "^TestAcquaintancesCostNoLookUp$"}},
	},
	{
		name:    "tell-strangers-of-profiles",
		holds:   "who would pay for a profile is not told of its changes",
		patches: []patch{{"internal/presence/visibilityreads.go", `j.reads[i].told = known[i]`, `j.reads[i].told = true`}},
		guards:  []guard{{"internal/presence", "^TestWatchersLearnNewProfiles$"}},
	},
	{
		name:    "keep-a-new-profile-quiet",
		holds:   "a session that watches a user is told the new version of the profile",
		patches: []patch{{"internal/presence/policychange.go", `if renamed {`, `if renamed && false {`}},
		guards:  []guard{{"internal/presence", "^TestWatchersLearnNewProfiles$"}},
	},
	{
		name:    "block-hides-profile",
		holds:   "a block does not show in what is told of a profile",
		patches: []patch{{"internal/presence/blockerview.go", `if told {`, `if false {`}},
		guards:  []guard{{"internal/presence", "^TestABlockedWatcherLearnsNewProfiles$"}},
	},
}
