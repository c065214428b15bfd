package sabotage

var userRules = []rule{
	{
		name:    "write-unchecked",
		holds:   "a change does not write over what another node wrote since it read",
		patches: []patch{{"internal/transaction/transaction.go", `Check: read,`, `Check: read && false,`}},
		guards:  []guard{{"internal/user", "^TestF11LoginsOnTwoNodes"}},
	},
	{
		name:    "strangers-use-up-tries",
		holds:   "strangers do not lock a known device out",
		patches: []patch{{"internal/user/rates.go", `if known && us.rates.people.Of.Take(now, who, limit) == nil {`, `if false {`}},
		guards:  []guard{{"internal/user", "^TestStrangersDoNotLockAKnownDeviceOut$"}},
	},
	{
		name:    "revoked-is-known",
		holds:   "a device that was revoked is known no more",
		patches: []patch{{"internal/user/devices.go", `return d != nil && (!d.Revoked || d.Replaced), err`, `return d != nil, err`}},
		guards:  []guard{{"internal/user", "^TestRevokedDeviceIsNotKnown$"}},
	},
	{
		name:    "full-table-refuses",
		holds:   "a table of buckets that is full turns nobody away",
		patches: []patch{{"internal/rate/rate.go", `t.putLocked(now, b)`, `if s := t.placeLocked(b.hash); len(t.slots) == MaxBuckets && s.hash != 0 && s.hash != b.hash { return time.Second + most }; t.putLocked(now, b)`}},
		guards:  []guard{{"internal/rate", "^TestFullTableTurnsNobodyAway$"}},
	},
	{
		name:  "growing-table-forgets",
		holds: "a table of buckets that grows or shrinks forgets none that is in use",
		patches: []patch{{"internal/rate/rate.go", `		if !s.bucket.Full(now) {
			t.putLocked(now, s)`, `		if !s.bucket.Full(now) && s.hash%3 > 0 {
			t.putLocked(now, s)`}},
		guards: []guard{{"internal/rate", "^TestTableIsAsLargeAsItsUse$"}},
	},
	{
		name:    "every-network-counts",
		holds:   "one subscriber has no more tries by having many IPv6 networks",
		patches: []patch{{"internal/rate/addresses.go", `if host.Addr().Is4() {`, `if host.IsValid() {`}},
		guards:  []guard{{"internal/rate", "^TestIPv6IsCountedInSteps$"}},
	},
	{
		name:    "names-for-free",
		holds:   "the tries of one user at names are counted over all methods",
		patches: []patch{{"internal/user/rates.go", `for range i + 1 {`, `for range i - i {`}},
		guards:  []guard{{"test/authz", "^TestTriesAtNamesAreCountedTogether$"}},
	},
	{
		name:    "jwt-takes-over",
		holds:   "an account belongs to the source that made it",
		patches: []patch{{"internal/user/accountsources.go", `return source == byOperator ||`, `return true || source == byOperator ||`}},
		guards:  []guard{{"internal/user", "^TestAJWTTakesNoRegisteredAccountOver$"}},
	},
	{
		name:    "log-jwts-of-strangers",
		holds:   "the log says nothing of a JWT that a stranger has made",
		patches: []patch{{"internal/user/login.go", `if idp.IsSigned(err) {`, `if true {`}},
		guards:  []guard{{"internal/user", "^TestLogSaysWhyASignedJWTIsRefused$"}},
	},
	{
		name:    "refuse-jwts-in-silence",
		holds:   "the log says why a JWT is refused that the provider has signed",
		patches: []patch{{"internal/user/login.go", `if idp.IsSigned(err) {`, `if false {`}},
		guards:  []guard{{"internal/user", "^TestLogSaysWhyASignedJWTIsRefused$"}},
	},
	{
		name:    "crit-ignored",
		holds:   "a JWT with an unknown extension is refused",
		patches: []patch{{"internal/idp/jwt.go", `if _, ok := t.Header["crit"]; ok {`, `if _, ok := t.Header["crit"]; ok && false {`}},
		guards:  []guard{{"internal/user", "^TestExchangeRefusesUnknownExtensions$"}},
	},
	{
		name:    "claims-in-any-case",
		holds:   "names of claims are told apart by their case",
		patches: []patch{{"internal/idp/jwt.go", `if exp, err := c.GetExpirationTime();`, `for k, v := range c { c[strings.ToLower(k)] = v }; if exp, err := c.GetExpirationTime();`}},
		guards:  []guard{{"internal/user", "^TestNamesInAJWTAreExact$"}},
	},
	{
		name:    "names-twice",
		holds:   "a JWT in which a name occurs twice is refused",
		patches: []patch{{"internal/idp/jwt.go", `if seen[name] {`, `if seen[name] && false {`}},
		guards:  []guard{{"internal/user", "^TestNamesInAJWTAreExact$"}},
	},
	{
		name:    "any-typ",
		holds:   "what a provider signs for something else logs nobody in",
		patches: []patch{{"internal/idp/jwt.go", `if typ, ok := t.Header["typ"]; ok {`, `if typ, ok := t.Header["typ"]; ok && false {`}},
		guards:  []guard{{"internal/user", "^TestNamesInAJWTAreExact$"}},
	},
	{
		name:    "jwt-outlives-revocation",
		holds:   "a JWT from before a revocation logs nobody in",
		patches: []patch{{"internal/idp/jwt.go", `return revokedMs > 0 &&`, `return false && revokedMs > 0 &&`}},
		guards:  []guard{{"internal/user", "^TestRevocationEndsTheJWTsOfBefore$"}},
	},
	{
		name:    "guesses-of-all-devices",
		holds:   "whoever stole the token of a device does not use up the guesses of the others",
		patches: []patch{{"internal/user/rates.go", `userKey{rateDevicePassword, a, device}`, `userKey{rateDevicePassword, a, ""}`}},
		guards:  []guard{{"internal/user", "^TestGuessesOfAPasswordAreCountedForEachDevice$"}},
	},
	{
		name:    "loose-ids",
		holds:   "where ids are strict, nobody registers one that reads as one that exists",
		patches: []patch{{"internal/user/lookalikes.go", `(strict || form != guessed)`, `form != guessed`}},
		guards:  []guard{{"internal/user", "^TestStrictIDsAreAChoiceOfTheTenant$"}},
	},
	{
		name:    "reserved-by-letter",
		holds:   "a reserved name is not registered in a form that people read as it",
		patches: []patch{{"internal/user/lookalikes.go", `if len(word) < minGuessed {`, `if true {`}},
		guards:  []guard{{"internal/user", "^TestRegisterRefusesNamesThatLookAlike$"}},
	},
	{
		name:    "weak-logins",
		holds:   "a JWT is taken only if the login at the provider was as strong as the operator asks",
		patches: []patch{{"internal/idp/jwt.go", `if !slices.Contains(amr, any(m)) {`, `if false && !slices.Contains(amr, any(m)) {`}},
		guards:  []guard{{"internal/user", "^TestExchangeAsksForTheStrengthOfALogin$"}},
	},
	{
		name:    "stolen-passwords",
		holds:   "a password in the operator's file of stolen ones is refused",
		patches: []patch{{"internal/password/stolen.go", `case line[:hashDigits] < want:`, `case line[:hashDigits] <= want:`}, {"internal/password/stolen.go", `case line[:hashDigits] == want:`, `case false:`}},
		guards:  []guard{{"internal/password", "^TestStolenPasswordsAreRefused$"}},
	},
	{
		name:    "one-script",
		holds:   "a display name that reads as a word for the operator is refused in every script",
		patches: []patch{{"internal/user/lookalikes.go", `r >= utf8.RuneSelf && alike != ""`, `false && alike != ""`}},
		guards:  []guard{{"internal/user", "^TestRegisterRefusesNamesThatLookAlike$"}},
	},
	{
		name:    "admin-later",
		holds:   "nobody takes a display name for the operator later on either",
		patches: []patch{{"internal/user/profiles.go", `if err == nil && ch.DisplayName != nil && !byOperator {`, `if false && !byOperator {`}},
		guards:  []guard{{"internal/user", "^TestRegisterRefusesNamesThatLookAlike$"}},
	},
	{
		name:    "keys-without-end",
		holds:   "of an answer with keys no more than a mebibyte is read",
		patches: []patch{{"internal/idp/keyset.go", `res.Body = http.MaxBytesReader(nil, res.Body, maxKeySet)`, `res.Body = http.MaxBytesReader(nil, res.Body, maxKeySet<<20)`}},
		guards:  []guard{{"internal/user", "^TestKeysOfAnEndlessAnswerAreNotTaken$"}},
	},
	{
		name:    "logins-by-number",
		holds:   "a refresh token of a login that the store has lost harms no other device",
		patches: []patch{{"internal/user/login.go", `_, _ = rand.Read(d.LoginId)`, `d.LoginId[0] = byte(l.Number)`}},
		guards: []guard{
			{"internal/user", "^TestRefreshTokenOfALoginThatWasTakenBack.*$/^embedded$"},
			{"internal/user", "^TestRefreshTokenOfALoginThatWasTakenBack.*$/^PostgreSQL$"},
		},
	},
	{
		name:    "lost-refresh-logs-out",
		holds:   "a refresh whose answer was lost can be repeated until the new token is used",
		patches: []patch{{"internal/user/refresh.go", `bytes.Equal(sum[:], d.Spent) && requestID != ""`, `bytes.Equal(sum[:], d.Spent) && requestID != "" && us.nowMs() < d.RefreshExpiresMs-uint64((us.o.RefreshTTL-time.Minute).Milliseconds())`}},
		guards:  []guard{{"internal/user", "^TestLostAnswerOfARefreshCostsNothing.*$"}},
	},
	{
		name:    "closed-to-nobody",
		holds:   "nobody registers in a tenant that is closed",
		patches: []patch{{"internal/user/registration.go", `if r := tenant.Effective; r != Open {`, `if r := tenant.Effective; r != Open && false {`}},
		guards:  []guard{{"internal/user", "^TestRegistrationIsATenantsSetting$"}},
	},
	{
		name:    "sessions-of-a-namesake",
		holds:   "an operator has no session of a removed one of the same name",
		patches: []patch{{"internal/operator/operators.go", `c.Put(store.OperatorSessions, 0, s.sum, nil)`, ``}},
		guards:  []guard{{"internal/user", "^TestOperatorOfTheSameNameFindsNoSession$"}},
	},
	{
		name:    "all-strangers-wait",
		holds:   "only so many logins wait for their turn",
		patches: []patch{{"internal/password/attempts.go", `if l.delayed.Add(1) > maxDelayed {`, `if l.delayed.Add(1) > 1000*maxDelayed {`}},
		guards:  []guard{{"internal/password", "^TestLoginsThatWaitForTheirTurnAreBounded$"}},
	},
}
