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
		patches: []patch{{"internal/user/handles.go", `u.Handle != handle || !s.sees(u, "handle"):`, `u.Handle != handle:`}},
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
		patches: []patch{{"internal/presence/profileversions.go", `case t.versions[x.standing] != was[x.standing]:`, `default:`}},
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
		patches: []patch{{"internal/presence/profileversions.go", `r.told = known[i]`, `r.told = true`}},
		guards:  []guard{{"internal/presence", "^TestWatchersLearnNewProfiles$"}},
	},
	{
		name:    "keep-a-new-profile-quiet",
		holds:   "a session that watches a user is told the new version of the profile",
		patches: []patch{{"internal/presence/profileversions.go", `if !t.known || t.versions == was {`, `if true {`}},
		guards:  []guard{{"internal/presence", "^TestWatchersLearnNewProfiles$"}},
	},
	{
		name:    "block-hides-profile",
		holds:   "a block does not show in what is told of a profile",
		patches: []patch{{"internal/presence/blockerview.go", `, Profile: profile}`, `}`}},
		guards:  []guard{{"internal/presence", "^TestABlockedWatcherLearnsNewProfiles$"}},
	},
	{
		name:    "contacts-of-the-reader",
		holds:   "the user decides who sees a field for contacts, not the reader",
		patches: []patch{{"internal/user/lookups.go", `if side.User == string(of) && side.ContactMs > 0 {`, `if side.User == string(reader.User) && side.ContactMs > 0 {`}},
		guards:  []guard{{"internal/user", "^TestContactsSeeWhatIsForThem$"}, {"internal/api", "^TestChangesOfContactsShowAtOnce$"}},
	},
	{
		name:    "contacts-see-nothing",
		holds:   "contacts see what is for them",
		patches: []patch{{"internal/user/profiles.go", `return s == asContact && Visibility`, `return false && Visibility`}},
		guards:  []guard{{"internal/user", "^TestContactsSeeWhatIsForThem$"}},
	},
	{
		name:    "contacts-see-what-nobody-sees",
		holds:   "contacts do not see what is for nobody",
		patches: []patch{{"internal/user/profiles.go", `return s == asContact && Visibility(u.Visibility[i].Visible) == SeenByContacts`, `return s == asContact && i >= 0`}},
		guards:  []guard{{"internal/user", "^TestContactsSeeWhatIsForThem$"}},
	},
	{
		name:    "strangers-find-contacts-handles",
		holds:   "a handle for contacts is found by contacts alone",
		patches: []patch{{"internal/user/handles.go", `if a == reader {`, `if s = asContact; a == reader {`}},
		guards:  []guard{{"internal/user", "^TestHandleForContacts$"}, {"internal/api", "^TestChangesOfContactsShowAtOnce$"}},
	},
	{
		name:  "hidden-handles-take-more-work",
		holds: "a handle that the reader does not see takes the work of one that nobody has",
		patches: []patch{{"internal/user/handles.go", `	a := im.Account{Tenant: reader.Tenant, User: im.User(value)}
	u, err := us.read(ctx, a)`, `	if value == nil {
		return Info{}, Profile{}, none
	}
	a := im.Account{Tenant: reader.Tenant, User: im.User(value)}
	u, err := us.read(ctx, a)`}},
		guards: []guard{{"internal/user", "^TestHandleForContacts$"}},
	},
	{
		name:    "tell-contacts-the-version-of-strangers",
		holds:   "a contact who watches a user is told the version that contacts see",
		patches: []patch{{"internal/presence/profileversions.go", `asks[i].standing = contact`, `asks[i].standing = other`}},
		guards:  []guard{{"internal/presence", "^TestContactsLearnTheirVersion$"}},
	},
	{
		name:    "tell-strangers-the-version-of-contacts",
		holds:   "a stranger who watches a user is told the version that strangers see",
		patches: []patch{{"internal/presence/profileversions.go", `if asks[i].standing = other; have[i] {`, `if asks[i].standing = other; true {`}},
		guards:  []guard{{"internal/presence", "^TestContactsLearnTheirVersion$"}},
	},
	{
		name:    "keep-a-removal-quiet",
		holds:   "who watches a user is told another version when they are no contact any more",
		patches: []patch{{"internal/presence/peers.go", `x.view == hidden || !x.told || x.standing != unread`, `x.view == hidden || !x.told`}},
		guards:  []guard{{"internal/presence", "^TestContactsLearnTheirVersion$"}},
	},
	{
		name:    "guess-who-is-a-contact",
		holds:   "when a field is for contacts now, it is read which watchers are contacts",
		patches: []patch{{"internal/presence/profileversions.go", `case x.standing == unread && t.versions.differ():`, `case false:`}},
		guards:  []guard{{"internal/presence", "^TestContactsLearnTheirVersion$"}},
	},
	{
		name:    "read-contacts-in-vain",
		holds:   "contacts are read only where they matter",
		patches: []patch{{"internal/presence/peers.go", `x.standing != unread)`, `x.told)`}},
		guards:  []guard{{"internal/presence", "^TestContactsAreReadOnlyWhereTheyMatter$"}},
	},
	{
		name:  "believe-a-former-contact",
		holds: "a contact that ends while it is read does not count",
		patches: []patch{{"internal/presence/peers.go", `	t.pairs++
	for _, x := range t.watchers {
		if x.w.out.Account.User == watcher &&`, `	for _, x := range t.watchers {
		if x.w.out.Account.User == watcher &&`}},
		guards: []guard{{"internal/presence", "^TestAContactThatEndsWhileItIsRead$"}},
	},
	{
		name:    "tell-a-former-version",
		holds:   "a late read tells nobody a version of before",
		patches: []patch{{"internal/presence/visibilityreads.go", `if x.told = r.told; !late {`, `if x.told = r.told; true {`}},
		guards:  []guard{{"internal/presence", "^TestALateReadTellsNoFormerVersion$"}},
	},
	{
		name:    "tell-nobody-of-contacts",
		holds:   "a change of contacts is told to those who watch",
		patches: []patch{{"internal/inbox/consumer.go", `if set := s.Entry.GetInbox().GetSettings(); set != nil {`, `if set := s.Entry.GetInbox().GetSettings(); set != nil && false {`}},
		guards:  []guard{{"internal/inbox", "^TestChangesOfContactsAreTold$"}},
	},
	{
		name:    "tell-equal-profiles",
		holds:   "a profile is told only to a reader who has another version",
		patches: []patch{{"internal/user/lookups.go", `v != has[a.User] {`, `v != "" {`}},
		guards:  []guard{{"internal/user", "^TestProfilesThatDiffer$"}},
	},
	{
		name:    "requests-pass-each-other",
		holds:   "requests that cross make contacts",
		patches: []patch{{"internal/conv/contact.go", `case !blocked && other.AskedMs > 0:`, `case !blocked && other.AskedMs > 0 && false:`}},
		guards:  []guard{{"internal/conv", "^TestContactsMeetInOneOrder$"}},
	},
	{
		name:  "accept-what-was-withdrawn",
		holds: "an acceptance after the withdrawal makes no contact",
		patches: []patch{{"internal/conv/contact.go", `if own.ContactMs == 0 && !asked {`, `if false {`}, {"internal/conv/contact.go", `		if asked {
			makeContacts(rec, head, now)`, `		if true {
			makeContacts(rec, head, now)`}},
		guards: []guard{{"internal/conv", "^TestContactsMeetInOneOrder$"}},
	},
	{
		name:    "ask-again-at-once",
		holds:   "requests after a refusal stay hidden for a week",
		patches: []patch{{"internal/conv/contact.go", `ch.Full || isWithin(refusedFor, other.RefusedMs, now)`, `ch.Full`}},
		guards:  []guard{{"internal/conv", "^TestContactsMeetInOneOrder$"}},
	},
	{
		name:    "ask-a-blocker",
		holds:   "a user sees no request of somebody whom they block",
		patches: []patch{{"internal/conv/contact.go", `own.Hidden = blocked || ch.Full`, `own.Hidden = ch.Full`}},
		guards:  []guard{{"internal/conv", "^TestABlockedUserSeesTheContactsOfSilence$"}},
	},
	{
		name:    "block-beside-requests",
		holds:   "a block ends the requests that wait",
		patches: []patch{{"internal/conv/withheld.go", `		endRequests(rec, b.User, now)`, `		_ = endRequests`}},
		guards:  []guard{{"internal/conv", "^TestContactsMeetInOneOrder$"}},
	},
	{
		name:    "refusals-that-show",
		holds:   "who is blocked gets the answers of silence",
		patches: []patch{{"internal/conv/contact.go", `if blocksOf(rec, own.User) {`, `if blocksOf(rec, own.User) || blocksOf(rec, other.User) {`}},
		guards:  []guard{{"internal/conv", "^TestABlockedUserSeesTheContactsOfSilence$"}},
	},
	{
		name:    "tell-remarks",
		holds:   "nobody is told of a remark but its user",
		patches: []patch{{"internal/conv/sides.go", `if !proto.Equal(ContactOf(other, own), ContactOf(before[1], before[0])) {`, `{`}},
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
		patches: []patch{{"internal/api/contacts.go", `case own.Contacts+own.Sent >= maxContacts:`, `case false:`}},
		guards:  []guard{{"internal/api", "^TestBoundsOfContacts$"}},
	},
	{
		name:    "requests-to-a-full-user",
		holds:   "a user with too many requests sees no further ones",
		patches: []patch{{"internal/api/contacts.go", `theirs.Received >= maxReceived`, `theirs.Received >= 9*maxReceived`}},
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
	{
		name:    "block-keeps-contacts-away",
		holds:   "a block does not show when somebody comes back to a user who has them as a contact",
		patches: []patch{{"internal/conv/contact.go", `case other.ContactMs > 0:`, `case other.ContactMs > 0 && !blocked:`}},
		guards:  []guard{{"internal/conv", "^TestABlockedUserSeesTheContactsOfSilence$"}},
	},
	{
		name:    "refuse-too-late",
		holds:   "a refusal between two requests of the same user counts",
		patches: []patch{{"internal/conv/contact.go", `if asked || late && own.ContactMs == 0 {`, `if asked || late && false {`}},
		guards:  []guard{{"internal/conv", "^TestContactsMeetInOneOrder$"}},
	},
	{
		name:    "ask-and-withdraw-fast",
		holds:   "who has withdrawn a request waits before the next one",
		patches: []patch{{"internal/conv/contact.go", `case isWithin(askAgain, own.WithdrewMs, now):`, `case false && isWithin(askAgain, own.WithdrewMs, now):`}},
		guards:  []guard{{"internal/conv", "^TestContactsMeetInOneOrder$"}},
	},
	{
		name:    "first-messages-count",
		holds:   "messages that wait do not count as unread",
		patches: []patch{{"internal/conv/build.go", `} else if !in.isWaiting(from) {`, `} else if true {`}},
		guards:  []guard{{"internal/conv", "^TestFirstMessagesMeetAnswersInOneOrder$"}, {"test/scenario", "^TestScenarios$/^first-messages$/^Pebble$"}},
	},
	{
		name:    "first-messages-without-bound",
		holds:   "a user writes five messages to a stranger before an answer",
		patches: []patch{{"internal/conv/firstmessage.go", `case other.FirstCount >= maxFirst:`, `case other.FirstCount >= 9*maxFirst:`}},
		guards:  []guard{{"internal/conv", "^TestFirstMessagesMeetAnswersInOneOrder$"}},
	},
	{
		name:    "bound-tells-the-rule",
		holds:   "strangers who let messages in bound them, too",
		patches: []patch{{"internal/conv/firstmessage.go", `case other.FirstCount >= maxFirst:`, `case other.FirstCount >= maxFirst && other.First > FirstOpen:`}},
		guards:  []guard{{"internal/conv", "^TestAWriterCannotTellWhatBecameOfFirstMessages$"}},
	},
	{
		name:    "closed-lets-messages-in",
		holds:   "messages to a user who takes none from strangers are withheld",
		patches: []patch{{"internal/conv/conversation.go", `return other.GetFirst() > FirstWaits || i.blockOf(u) != nil`, `return false && other != nil || i.blockOf(u) != nil`}},
		guards:  []guard{{"internal/conv", "^TestFirstMessagesMeetAnswersInOneOrder$"}},
	},
	{
		name:    "answer-without-acceptance",
		holds:   "an answer accepts what waits",
		patches: []patch{{"internal/conv/firstmessage.go", `case own.GetFirst() > 0:`, `case false && own != nil:`}},
		guards:  []guard{{"internal/conv", "^TestFirstMessagesMeetAnswersInOneOrder$"}},
	},
	{
		name:    "contacts-are-strangers",
		holds:   "a contact of the user is no stranger",
		patches: []patch{{"internal/conv/firstmessage.go", `if first == 0 || side.GetContactMs() > 0 ||`, `if first == 0 ||`}},
		guards:  []guard{{"internal/conv", "^TestFirstMessagesMeetAnswersInOneOrder$"}},
	},
	{
		name:  "contact-without-acceptance",
		holds: "who becomes a contact is no stranger",
		patches: []patch{{"internal/conv/contact.go", `		acquaint(rec, s, head)
`, ``}},
		guards: []guard{{"internal/conv", "^TestFirstMessagesMeetAnswersInOneOrder$"}},
	},
	{
		name:  "block-leaves-what-waits",
		holds: "a block refuses the messages that wait",
		patches: []patch{{"internal/conv/contact.go", `		refuse(own)
		other.Hidden`, `		other.Hidden`}},
		guards: []guard{{"internal/conv", "^TestFirstMessagesMeetAnswersInOneOrder$"}},
	},
	{
		name:  "receipts-of-first-messages",
		holds: "the writer of messages that wait gets no receipts",
		patches: []patch{{"internal/conv/conversation.go", ` || i.isApart() {
		return Cursor{}, true`, ` {
		return Cursor{}, true`}},
		guards: []guard{{"internal/conv", "^TestAWriterCannotTellWhatBecameOfFirstMessages$"}},
	},
	{
		name:    "react-before-acceptance",
		holds:   "a reaction does not show that messages that wait were read",
		patches: []patch{{"internal/conv/reactions.go", `err == nil && own.GetFirst() > FirstOpen {`, `false && own.GetFirst() > FirstOpen {`}},
		guards:  []guard{{"internal/conv", "^TestAWriterCannotTellWhatBecameOfFirstMessages$"}, {"test/scenario", "^TestScenarios$/^first-messages$/^Pebble$"}},
	},
	{
		name:    "signals-before-acceptance",
		holds:   "signals of a user whose messages wait reach nobody",
		patches: []patch{{"internal/conv/signaladmission.go", `in.deafTo(from) != "":`, `in.blockOf(from) != nil:`}},
		guards:  []guard{{"test/scenario", "^TestScenarios$/^first-messages$/^Pebble$"}},
	},
	{
		name:    "seen-online-before-acceptance",
		holds:   "who wrote messages that wait does not show whether they are online",
		patches: []patch{{"internal/conv/admit.go", `i.record.Wrote&(1<<side) != 0 || i.isApart() {`, `i.record.Wrote&(1<<side) != 0 {`}},
		guards:  []guard{{"test/scenario", "^TestScenarios$/^first-messages$/^Pebble$"}},
	},
	{
		name:    "the-back-end-is-a-stranger",
		holds:   "what the back end sends for a user is no message of a stranger",
		patches: []patch{{"internal/conv/admit.go", `a.first == nil || s.BackEnd ||`, `a.first == nil ||`}, {"internal/conv/firstmessage.go", `case s.BackEnd:`, `case false:`}},
		guards:  []guard{{"internal/conv", "^TestFirstMessagesMeetAnswersInOneOrder$"}, {"test/scenario", "^TestScenarios$/^first-messages$/^Pebble$"}},
	},
	{
		name:    "choose-without-a-rule",
		holds:   "users choose what becomes of first messages only where the tenant has a rule",
		patches: []patch{{"internal/user/firstmessages.go", `case rule == 0 && f > 0:`, `case false && rule == 0:`}},
		guards:  []guard{{"test/scenario", "^TestScenarios$/^first-messages$/^Pebble$"}},
	},
	{
		name:    "private-reads-show",
		holds:   "who reads without showing it is seen where they were before",
		patches: []patch{{"internal/conv/usercursor.go", `	if c.private {`, `	if c.private && false {`}},
		guards:  []guard{{"internal/conv", "^TestPrivateReadingShowsNothing$"}},
	},
	{
		name:    "private-reads-by-delivery",
		holds:   "a cursor that was read does not show as delivered",
		patches: []patch{{"internal/conv/usercursor.go", `max(was.Delivered, d.Delivered)`, `max(was.Delivered, d.Delivered, d.Read)`}},
		guards:  []guard{{"internal/conv", "^TestPrivateReadingShowsNothing$"}},
	},
	{
		name:    "private-reads-by-their-time",
		holds:   "no receipt is sent when a user reads without showing it",
		patches: []patch{{"internal/conv/cursor.go", `show && !is.same(f.was.shown())`, `show`}},
		guards:  []guard{{"internal/conv", "^TestPrivateReadingShowsNothing$"}},
	},
	{
		name:    "private-reads-in-a-sync",
		holds:   "no sync lists a conversation because a user reads without showing it",
		patches: []patch{{"internal/conv/cursorreads.go", `at.shown().Pos, err`, `at.Pos, err`}},
		guards:  []guard{{"internal/conv", "^TestPrivateReadingShowsNothing$"}},
	},
	{
		name:    "private-readers-see-receipts",
		holds:   "who reads privately gets no receipts of others",
		patches: []patch{{"internal/fanout/receipts.go", `if o.Standing().PrivateReading {`, `if false {`}},
		guards:  []guard{{"internal/fanout", "^TestAPrivateReaderGetsOwnReceiptsOnly$"}, {"test/scenario", "^TestScenarios/private-reading$"}},
	},
	{
		name:    "private-readers-sync-receipts",
		holds:   "no sync tells who reads privately how far others are, nor that they have read",
		patches: []patch{{"internal/conv/sync.go", `if q.Own || !policy`, `if !policy`}},
		guards: []guard{{"internal/inbox", "^TestASyncOfAPrivateReaderDoesNotTellThatOthersRead$"},
			{"test/scenario", "^TestScenarios/private-reading$"}},
	},
	{
		name:    "private-readers-see-a-conversation",
		holds:   "GetConversation does not tell who reads privately how far the other user is",
		patches: []patch{{"internal/inbox/convstate.go", `Always: true, Own: own}`, `Always: true}`}},
		guards:  []guard{{"test/scenario", "^TestScenarios/private-reading$"}},
	},
	{
		name:    "private-readers-list-receipts",
		holds:   "a list of receipts has only the own line for who reads privately",
		patches: []patch{{"internal/conv/cursorreads.go", `if q.Own {`, `if false {`}},
		guards:  []guard{{"test/scenario", "^TestScenarios/private-reading$"}},
	},
	{
		name:    "private-reading-of-one-session",
		holds:   "all sessions of who reads privately move cursors that others do not see",
		patches: []patch{{"internal/fanout/standing.go", `for _, o := range list {`, `for _, o := range list[:0] {`}, {"internal/session/sessionrechecks.go", `		learn(is)`, `		_, _ = learn, is`}},
		guards:  []guard{{"test/scenario", "^TestScenarios/private-reading$"}},
	},
	{
		name:    "read-before-an-announcement",
		holds:   "what a node reads of a session's standing does not undo what was announced meanwhile",
		patches: []patch{{"internal/fanout/standing.go", `o.standing.CompareAndSwap(before, encodeStanding(is))`, `o.standing.Store(encodeStanding(is)); _ = before`}},
		guards:  []guard{{"internal/fanout", "^TestAnAnnouncedStandingStays$"}},
	},
	{
		name:    "the-asked-are-strangers",
		holds:   "whom a user asks to be a contact is no stranger",
		patches: []patch{{"internal/conv/firstmessage.go", ` || side.GetAskedMs() > 0 {`, ` {`}},
		guards:  []guard{{"internal/conv", "^TestFirstMessagesMeetAnswersInOneOrder$"}},
	},
	{
		name:    "requests-of-the-blocked",
		holds:   "a blocked user makes no request by writing",
		patches: []patch{{"internal/conv/firstmessage.go", `if first == FirstWaits && blocksOf(i.record, string(to)) {`, `if false {`}},
		guards:  []guard{{"internal/conv", "^TestFirstMessagesMeetAnswersInOneOrder$"}},
	},
	{
		name:    "an-acceptance-ends-the-bound",
		holds:   "an acceptance without a word does not show by the bound",
		patches: []patch{{"internal/conv/sides.go", `s.First, s.QuietTo = FirstOpen, uint64(head)`, `s.First, s.QuietTo = 0, uint64(head)`}},
		guards:  []guard{{"internal/conv", "^TestFirstMessagesMeetAnswersInOneOrder$"}},
	},
	{
		name:    "an-acceptance-shows-receipts",
		holds:   "an acceptance without a word shows no receipts of what was read before",
		patches: []patch{{"internal/conv/conversation.go", `!wrote && at.Read <= im.Seq(of.GetQuietTo())`, `!wrote && at.Read <= min(0, im.Seq(of.GetQuietTo()))`}},
		guards:  []guard{{"internal/conv", "^TestAnAcceptanceWithoutAWordShowsNothing$"}},
	},
	{
		name:    "entries-of-a-lost-record-stay",
		holds:   "an acceptance replaces entries of a record that was lost",
		patches: []patch{{"internal/conv/sides.go", ` || own.FirstMs != before[0].FirstMs {`, ` {`}},
		guards:  []guard{{"internal/conv", "^TestAnAcceptanceReplacesEntriesOfALostRecord$"}},
	},
	{
		name:    "an-acceptance-of-nothing",
		holds:   "an acceptance leaves nothing where no conversation is",
		patches: []patch{{"internal/conv/contact.go", `own.FirstMs == 0 && head > 0 {`, `own.FirstMs == 0 {`}},
		guards:  []guard{{"internal/conv", "^TestAnAcceptanceOfNothingLeavesNothing$"}},
	},
}
