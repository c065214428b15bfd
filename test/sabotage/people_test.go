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
	{
		name:    "requests-pass-each-other",
		holds:   "requests that cross make contacts",
		patches: []patch{{"internal/conv/contact.go", `case !blocked && (other.ContactMs > 0 || other.AskedMs > 0):`, `case !blocked && other.ContactMs > 0:`}},
		guards:  []guard{{"internal/conv", "^TestContactsMeetInOneOrder$"}},
	},
	{
		name:  "accept-what-was-withdrawn",
		holds: "an acceptance after the withdrawal makes no contact",
		patches: []patch{{"internal/conv/contact.go", `if own.ContactMs == 0 && !asked {`, `if false {`}, {"internal/conv/contact.go", `		if asked {
			makeContacts(own, other, now)`, `		if true {
			makeContacts(own, other, now)`}},
		guards: []guard{{"internal/conv", "^TestContactsMeetInOneOrder$"}},
	},
	{
		name:    "ask-again-at-once",
		holds:   "requests after a refusal stay hidden for a week",
		patches: []patch{{"internal/conv/contact.go", `blocked || lately || ch.Full`, `blocked || lately && false || ch.Full`}},
		guards:  []guard{{"internal/conv", "^TestContactsMeetInOneOrder$"}},
	},
	{
		name:    "ask-a-blocker",
		holds:   "a user sees no request of somebody whom they block",
		patches: []patch{{"internal/conv/contact.go", `own.AskedMs, own.Hidden = now, blocked ||`, `own.AskedMs, own.Hidden = now, blocked && false ||`}},
		guards:  []guard{{"internal/conv", "^TestABlockedUserSeesTheContactsOfSilence$"}},
	},
	{
		name:    "block-beside-requests",
		holds:   "a block ends the requests that wait",
		patches: []patch{{"internal/conv/withheld.go", `		endRequests(rec, users, b.User)`, `		_ = endRequests`}},
		guards:  []guard{{"internal/conv", "^TestContactsMeetInOneOrder$"}},
	},
	{
		name:    "refusals-that-show",
		holds:   "who is blocked gets the answers of silence",
		patches: []patch{{"internal/conv/contact.go", `case blocksOf(rec, own.User):`, `case blocksOf(rec, own.User) || blocked:`}},
		guards:  []guard{{"internal/conv", "^TestABlockedUserSeesTheContactsOfSilence$"}},
	},
	{
		name:    "tell-remarks",
		holds:   "nobody is told of a remark but its user",
		patches: []patch{{"internal/conv/contact.go", `if !proto.Equal(ContactOf(other, own), ContactOf(before[1], before[0])) {`, `{`}},
		guards:  []guard{{"internal/inbox", "^TestContactsReachTheInboxesOfThoseWhoSeeThem$"}},
	},
	{
		name:    "contacts-by-their-newest-version",
		holds:   "a consumer that is behind writes no former contact",
		patches: []patch{{"internal/inbox/contacts.go", `cmp.Or(version, own.Version)`, `cmp.Or(own.Version, version)`}},
		guards:  []guard{{"internal/inbox", "^TestLateConsumerWritesNoFormerContact$"}},
	},
	{
		name:    "forget-contacts-with-the-first-message",
		holds:   "the first message leaves contacts as they are",
		patches: []patch{{"internal/conv/admit.go", `in.record.Blocks, in.record.Sides = was.GetBlocks(), was.GetSides()`, `in.record.Blocks = was.GetBlocks()`}},
		guards:  []guard{{"internal/conv", "^TestContactsMeetInOneOrder$"}},
	},
	{
		name:    "contacts-without-bounds",
		holds:   "a user has a bounded number of contacts",
		patches: []patch{{"internal/api/contacts.go", `case own.Contacts+own.Sent >= maxContacts &&`, `case false &&`}},
		guards:  []guard{{"internal/api", "^TestBoundsOfContacts$"}},
	},
	{
		name:    "requests-to-a-full-user",
		holds:   "a user with too many requests sees no further ones",
		patches: []patch{{"internal/api/contacts.go", `return theirs.Received >= maxReceived, err`, `return false && theirs.Received >= maxReceived, err`}},
		guards:  []guard{{"internal/api", "^TestBoundsOfContacts$"}},
	},
	{
		name:    "contacts-against-the-back-end",
		holds:   "where the back end manages contacts, users change none",
		patches: []patch{{"internal/user/contacts.go", `slices.Contains(rec.Managed, managedContacts)`, `false && slices.Contains(rec.Managed, managedContacts)`}},
		guards:  []guard{{"internal/api", "^TestManagedContacts$"}},
	},
	{
		name:    "set-contacts-by-settings",
		holds:   "only changes of contacts set them",
		patches: []patch{{"internal/api/settings.go", `if m.User != "" && inbox.IsContactName(name) {`, `if m.User != "" && inbox.IsContactName(name) && false {`}},
		guards:  []guard{{"test/scenario", "^TestScenarios$/^contacts$/^Pebble$"}},
	},
	{
		name:    "accept-tells-who-exists",
		holds:   "an acceptance without a request does not tell whether a user exists",
		patches: []patch{{"internal/api/contacts.go", `case c.ReceivedMs > 0:`, `case c != nil:`}},
		guards:  []guard{{"test/authz", "^TestOnlyTheExceptionTellsThatAUserExists$"}},
	},
	{
		name:    "ask-strangers-for-free",
		holds:   "a request to a stranger is a look-up",
		patches: []patch{{"internal/api/contacts.go", `	if !known {`, `	if !known && false {`}},
		guards:  []guard{{"test/authz", "^TestTriesAtNamesAreCountedTogether$"}},
	},
}
