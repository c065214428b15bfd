package sabotage

var pebbleRules = []rule{
	{
		name:    "append-while-it-closes",
		holds:   "an append during Close is refused and not stored",
		patches: []patch{{"internal/store/pebblestore/append.go", `c.refusal, c.stage = err, func() (*pebble.Batch, error) { return nil, err }`, `c.result = err`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestAppendDuringCloseIsRefused$"}},
	},
	{
		name:    "rights-taken-for-a-lock",
		holds:   "a folder of another user is not said to be in use",
		patches: []patch{{"internal/store/pebblestore/open.go", `return !ok || n == syscall.EAGAIN`, `return !ok || n != 0`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestFolderOfAnotherUserIsNamed$"}},
	},
	{
		name:    "full-without-a-warning",
		holds:   "the log warns before sends are refused for want of space",
		patches: []patch{{"internal/store/pebblestore/diskspace.go", `case free < 2*s.limit && free >= s.limit && !s.low:`, `case false:`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestLogWarnsBeforeTheDiskIsFull$"}},
	},
	{
		name:    "half-an-id",
		holds:   "an id in the feed that is not whole is damage",
		patches: []patch{{"internal/store/feedentry.go", `len(it.Conv) != len(im.ConvID{})`, `len(it.Conv) > 1000*len(im.ConvID{})`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestStoreInMemoryIsAStore$/half_an_id"}},
	},
	{
		name:    "cursor-of-the-page-before",
		holds:   "a range of cursors begins after the user that is named",
		patches: []patch{{"internal/store/pebblestore/read.go", `append(append(lower, from...), 0)`, `append(lower, from...)`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestStoreInMemoryIsAStore$/^users_are_ordered$"}},
	},
	{
		name:    "log-of-the-store",
		holds:   "a start reads what the log has of the store itself",
		patches: []patch{{"internal/store/pebblestore/metadata.go", `if v, ok := w.logged[string(key)]; ok {`, `if v, ok := w.logged[string(key)]; ok && v == nil {`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestLogIsReadAsAReplayWouldReadIt$"}},
	},
	{
		name:  "ack-before-sync",
		holds: "a commit is acknowledged when it and its witness are on the disk",
		patches: []patch{
			{"internal/store/pebblestore/commit.go", `return s.db.ApplyNoSyncWait(b, pebble.Sync)`, `return s.db.Apply(b, pebble.NoSync)`},
			{"internal/store/pebblestore/commit.go", `if err := c.batch.SyncWait(); err != nil {`, `if err := error(nil); err != nil {`},
			{"internal/store/pebblestore/commit.go", `if newest.n == 0 {`, `if true {`},
		},
		guards: []guard{
			{"internal/store/pebblestore", "^TestPowerCutsLoseNothingThatWasTold$"},
			{"internal/store/pebblestore", "^TestNothingIsAckedBeforeItsWitness$"},
		},
	},
	{
		name:    "compact-without-rest",
		holds:   "a compaction that has failed is not tried again at once",
		patches: []patch{{"internal/store/pebblestore/compactionscheduler.go", `c.rest = time.Now().Add(restAfter)`, ``}},
		guards:  []guard{{"internal/store/pebblestore", "^TestCompactionThatMeetsDamageRests$"}},
	},
	{
		name:    "stop-waits-for-tables",
		holds:   "a stop does not wait until tables are written",
		patches: []patch{{"internal/store/pebblestore/guardfs.go", `if isTable(f.name) && f.g.ending.Load() {`, `if false {`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestStopDoesNotWaitForTables$"}},
	},
	{
		name:    "open-copies",
		holds:   "a folder that was put back from a copy is refused",
		patches: []patch{{"internal/store/pebblestore/fileid.go", `return id.Inode == now.Inode && (id.Born == now.Born || id.Born == 0 || now.Born == 0)`, `return true`}},
		guards: []guard{
			{"internal/store/pebblestore", "^TestFolderPutBackFromACopyIsRefused$"},
			{"internal/store/pebblestore", "^TestFolderWrittenOverByACopyIsRefused$"},
		},
	},
	{
		name:    "forget-the-seal",
		holds:   "a folder over which an older copy was written is refused",
		patches: []patch{{"internal/store/pebblestore/folderseal.go", `if v.Seal.Number == 0 {`, `if v.Seal.Number <= 2 {`}},
		guards: []guard{
			{"internal/store/pebblestore", "^TestOlderFilesWrittenOverTheFolderAreNoticed$/^cp_-a,_copied_while_it_ran,_closed$"},
			{"internal/store/pebblestore", "^TestCopyBesideItsOriginalIsRefused$"},
			{"internal/store/pebblestore", "^TestOlderWitnessIsRefused$"},
		},
	},
	{
		name:    "skip-commit-number",
		holds:   "a store whose newest commit is below the one in the witness is refused",
		patches: []patch{{"internal/store/pebblestore/open.go", `case f.last.n < f.acked.n:`, `case false:`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestF15WitnessAheadRefuses$"}},
	},
	{
		name:    "skip-log-chain",
		holds:   "a store whose log lacks commits between others is refused",
		patches: []patch{{"internal/store/pebblestore/logfiles.go", `if n > 0 && c > n+1 {`, `if n > 0 && false {`}},
		guards: []guard{
			{"internal/store/pebblestore", "^TestEveryMissingOrCutLogIsRefused$"},
			{"internal/store/pebblestore", "^TestABitThatEndsALogInTheMiddleIsRefused$"},
		},
	},
	{
		name:    "skip-inventory",
		holds:   "a store that lacks a file of the inventory is refused",
		patches: []patch{{"internal/store/pebblestore/open.go", `} else if missing != "" {`, `} else if missing != "" && false {`}},
		guards: []guard{
			{"internal/store/pebblestore", "^TestMissingLogBehindADamagedCommitIsRefused$"},
			{"internal/store/pebblestore", "^TestMissingMarkerIsNoNewStore$"},
		},
	},
	{
		name:    "begin-with-any-log",
		holds:   "a log that may have lost its beginning is refused",
		patches: []patch{{"internal/store/pebblestore/logfiles.go", "if n == 0 {\nreturn nil, fmt.Errorf(", "if false {\nreturn nil, fmt.Errorf("}},
		guards:  []guard{{"internal/store/pebblestore", "^TestEmptiedLogBehindADamagedCommitIsRefused$"}},
	},
	{
		name:    "believe-former-history",
		holds:   "a snapshot from before a repair is refused, even if it has more commits",
		patches: []patch{{"internal/store/pebblestore/storemark.go", `case m.History != hex(f.id.history):`, `case false:`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestSnapshotFromBeforeARepairIsRefused$"}},
	},
	{
		name:    "name-the-seal-first",
		holds:   "a seal is durable before the witness names it",
		patches: []patch{{"internal/store/pebblestore/folderseal.go", `err = syncDir(p.fs, p.dir)`, `err = error(nil)`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestSealIsThereAfterAPowerCut$"}},
	},
	{
		name:    "seal-another-store",
		holds:   "no seal is made in a folder that has taken the place of the store's own",
		patches: []patch{{"internal/store/pebblestore/folderseal.go", `|| !s.holdsFolder() {`, `{`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestSealLeavesAStoreAloneThatTookThePlace$"}},
	},
	{
		name:    "believe-store-over-mark",
		holds:   "a store that is behind its mark is refused",
		patches: []patch{{"internal/store/pebblestore/storemark.go", `case m.Commit > f.last.n:`, `case false:`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestStoreBehindItsMarkIsRefused$"}},
	},
	{
		name:    "forget-refutation",
		holds:   "a store that a client has refuted is not served again",
		patches: []patch{{"internal/store/pebblestore/rollback.go", `if b, err := readFile(p.fs, p.rewound); err == nil {`, `if b, err := readFile(p.fs, p.rewound); err == nil && false {`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestRefutedStoreIsNotServedAgain$"}},
	},
	{
		name:    "ack-into-deleted-files",
		holds:   "nothing is acked into a folder that was removed or replaced",
		patches: []patch{{"internal/store/pebblestore/datafolder.go", `if err := s.checkFolder(here); err != nil {`, `if err := s.checkFolder(here); err != nil && false {`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestRemovedFolderStopsTheAcks$/^removed$"}},
	},
	{
		name:    "new-store-in-mount-point",
		holds:   "no new store is made where one is expected",
		patches: []patch{{"internal/store/pebblestore/datafolder.go", `for _, path := range []string{p.db, p.witness} {`, `return nil; for _, path := range []string{p.db, p.witness} {`}},
		guards: []guard{
			{"internal/store/pebblestore", "^TestUnmountedVolumeIsNotTakenForANewStore$"},
			{"internal/store/pebblestore", "^TestStoreIDThatDoesNotMatchIsRefused$"},
		},
	},
	{
		name:    "lock-the-lock-file-only",
		holds:   "one server at a time uses a folder",
		patches: []patch{{"internal/store/pebblestore/datafolder.go", `if errors.Is(err, syscall.EWOULDBLOCK) {`, `if errors.Is(err, syscall.EWOULDBLOCK) && false {`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestSecondServerIsRefusedAfterTheLockFilesWereDeleted$"}},
	},
	{
		name:    "backup-ahead-of-disk",
		holds:   "what a backup holds is durable in the store",
		patches: []patch{{"internal/store/pebblestore/checkpoint.go", `return s.write(ctx, 64, func(*pebble.Batch) error { return nil })`, `_ = func(*pebble.Batch) {}; return nil`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestF1Checkpoint"}},
	},
	{
		name:    "backup-half-made",
		holds:   "a backup has its name when all of it is durable",
		patches: []patch{{"internal/store/pebblestore/backup.go", `part := c.fs.PathJoin(to, m.Name+partSuffix)`, `part := c.fs.PathJoin(to, m.Name)`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestBackupThatIsCutShort"}},
	},
	{
		name:  "backup-links-by-name",
		holds: "a backup shares a table with the one before only if it is the same",
		patches: []patch{
			{"internal/store/pebblestore/backup.go", `before.HistoryID == m.HistoryID`, `true`},
			{"internal/store/pebblestore/backup.go", `old.Bytes == f.bytes && old.ModifiedNs == f.modified.UnixNano() &&`, `old.Bytes > 0 &&`},
			{"internal/store/pebblestore/backup.go", `return err == nil && st.Size() == bytes && c.fs.Link(from, to) == nil`, `return err == nil && st.Size() > bytes/bytes && c.fs.Link(from, to) == nil`},
		},
		guards: []guard{{"internal/store/pebblestore", "^TestBackupCopiesOnlyNewTables$"}},
	},
	{
		name:    "restore-unchecked",
		holds:   "a backup that has changed is not restored",
		patches: []patch{{"internal/store/pebblestore/restore.go", `if got.SHA256 != f.SHA256 {`, `if got.SHA256 == "" {`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestFlippedByteInABackup"}},
	},
	{
		name:    "restore-half-made",
		holds:   "a restore that was cut short leaves no store",
		patches: []patch{{"internal/store/pebblestore/open.go", `if err := p.unfinished(); err != nil {`, `if err := error(nil); err != nil {`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestRestoreThatIsCutShort"}},
	},
	{
		name:    "serve-after-a-failed-restore",
		holds:   "no new store is made where a restore has failed",
		patches: []patch{{"internal/store/pebblestore/restore.go", `p.empty(q.db)`, `_ = p.fs.RemoveAll(q.db)`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestFailedRestoreLeavesNoPlaceForANewStore$"}},
	},
	{
		name:    "flush-on-a-full-disk",
		holds:   "a backup writes no table on a disk that is nearly full",
		patches: []patch{{"internal/store/pebblestore/checkpoint.go", `if !full {`, `if full || !full {`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestNearlyFullDiskIsBackedUp$"}},
	},
	{
		name:    "end-at-damage",
		holds:   "a table that a compaction cannot read is rewritten, and the store goes on",
		patches: []patch{{"internal/store/pebblestore/mendtable.go", `	return s.mend(*t)`, `	s.out.fail(was); return was`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestBadBlock"}},
	},
	{
		name:  "leave-damaged-tables",
		holds: "compactions of damaged tables do not stop all writes",
		patches: []patch{
			{"internal/store/pebblestore/mendtable.go", `		case <-s.damage.news:`, `		case <-make(chan bool):`},
			{"internal/store/pebblestore/mendtable.go", `		case <-tick.C:`, `		case <-make(chan bool):`},
		},
		guards: []guard{{"internal/store/pebblestore", "^TestDamagedTablesStopNoWrites$"}},
	},
	{
		name:  "serve-older-than-lost",
		holds: "in a damaged range a key is damaged until it is written again",
		patches: []patch{{"internal/store/pebblestore/damagedranges.go", `if r != nil {
		return s.refuse(r)
	}
	return err`, `if r != nil {
		return nil
	}
	return err`}},
		guards: []guard{{"internal/store/pebblestore", "^TestDamagedRangeHides"}},
	},
	{
		name:  "mend-before-range",
		holds: "a damaged range is durable before the table is replaced",
		patches: []patch{
			{"internal/store/pebblestore/mendtable.go", `if err := s.o.place().writeRanges(all); err != nil {`, `if err := error(nil); err != nil {`},
			{"internal/store/pebblestore/mendtable.go", `		return b.Set(keyRanges, all.encode(), nil)`, `		return nil`},
		},
		guards: []guard{{"internal/store/pebblestore", "^TestDamagedRangeHides"}},
	},
	{
		name:    "mark-for-ever",
		holds:   "what was written after one damage is not taken for newer than what a later one took",
		patches: []patch{{"internal/store/pebblestore/damagedranges.go", `binary.AppendUvarint(nil, n), nil)`, `binary.AppendUvarint(nil, n+1000), nil)`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestSecondRange"}},
	},
	{
		name:    "rewrite-is-the-end",
		holds:   "a conversation does not end at a row that was edited after its last rows were lost",
		patches: []patch{{"internal/store/pebblestore/read.go", `appended = err == nil && h.Flags&store.RowRewritten == 0`, `appended = err == nil || h.Flags == 0`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestRewriteTells"}},
	},
	{
		name:    "ranges-in-the-store-only",
		holds:   "a repair knows what was lost before, if the store has lost that too",
		patches: []patch{{"internal/store/pebblestore/repair.go", `return r, p.mendAll(o, bad, l.ranges.with(kept), &r)`, `return r, p.mendAll(o, bad, l.ranges.with(kept[:0]), &r)`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestRepairKnowsRanges"}},
	},
	{
		name:    "repair-shorter",
		holds:   "a row that repair cannot keep leaves an empty place",
		patches: []patch{{"internal/store/pebblestore/repairranges.go", `		if err := s.fillRows(c); err != nil {`, `		if err := error(nil); err != nil {`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestRepairKeepsAllBut"}},
	},
	{
		name:    "repair-all-that-is-older",
		holds:   "repair keeps older messages if the missing ones are all that a table has lost",
		patches: []patch{{"internal/store/pebblestore/repairranges.go", `missing == r.Entries, nil`, `missing > r.Entries, nil`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestRepairKeepsOlderMessages$"}},
	},
	{
		name:    "repair-older",
		holds:   "repair deletes what may be older than what was lost",
		patches: []patch{{"internal/store/pebblestore/repairranges.go", `		if err := s.dropOlder(r); err != nil {`, `		if err := error(nil); err != nil {`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestRepairDrops"}},
	},
	{
		name:  "drop-marks-in-ranges",
		holds: "what was deleted with the rows does not come back when the end of a table is damaged",
		patches: []patch{{
			"internal/store/pebblestore/update.go",
			"	for _, k := range store.MarkKinds() {\n		if err == nil {",
			"	for _, k := range store.MarkKinds() {\n		if err == nil && !k.ByName() { err = s.write(ctx, 128, func(b *pebble.Batch) error { return b.DeleteRange(markKey(c, k, 0, \"\"), markKey(c, k, below, \"\"), nil) }) } else if err == nil {",
		}},
		guards: []guard{{"internal/store/pebblestore", "^TestDroppedMarksStayGone"}},
	},
	{
		name:    "repair-forgets",
		holds:   "a repair that is cut off is not taken for a finished one",
		patches: []patch{{"internal/store/pebblestore/repair.go", `writeSynced(p.fs, p.repairing, nil)`, `error(nil)`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestCutOffRepair"}},
	},
	{
		name:    "hide-lost-commits",
		holds:   "repair names the commits that are gone",
		patches: []patch{{"internal/store/pebblestore/repair.go", `acked.n > f.last.n {`, `acked.n > f.last.n && false {`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestRepairNamesTheCommitsThatAreGone$"}},
	},
	{
		name:    "go-on-from-old-logs",
		holds:   "a log file that was given up does not make a repair give up newer ones",
		patches: []patch{{"internal/store/pebblestore/repair.go", `logs = slices.DeleteFunc(logs, p.givenUp())`, `_ = slices.DeleteFunc(logs[:0], p.givenUp())`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestRepairPassesOverALogThatWasGivenUp$"}},
	},
	{
		name:    "stop-at-options",
		holds:   "a damaged file of options stops no store",
		patches: []patch{{"internal/store/pebblestore/guardfs.go", `return strings.HasPrefix(base, "OPTIONS-")`, `return strings.HasPrefix(base, "OPTIONS.")`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestDamagedFileOfOptionsStopsNothing$"}},
	},
	{
		name:    "sector-is-no-damage",
		holds:   "a sector that cannot be read is damage, not the end of the store",
		patches: []patch{{"internal/store/pebblestore/tables.go", `	return n, asDamage(err)`, `	return n, err`}},
		guards:  []guard{{"internal/store/pebblestore", "^TestUnreadableSector"}},
	},
	{
		name:    "scrub-nothing",
		holds:   "the scrub finds damage that nobody has met",
		patches: []patch{{"internal/store/pebblestore/scrub.go", `			s.damage.found(t.name, damage)`, ``}},
		guards:  []guard{{"internal/store/pebblestore", "^TestScrubFinds"}},
	},
}

var postgresRules = []rule{
	{
		name:    "plan-each-time",
		holds:   "a connection plans a statement once",
		patches: []patch{{"internal/store/pgstore/database.go", `"plan_cache_mode": "force_generic_plan"`, `"plan_cache_mode": "force_custom_plan"`}},
		guards:  []guard{{"internal/store/pgstore", "^TestPlansAreKept"}},
	},
	{
		name:    "plan-to-scan",
		holds:   "a plan that is kept reads by the key, however small the table was",
		patches: []patch{{"internal/store/pgstore/database.go", `"enable_seqscan": "off", `, ``}},
		guards:  []guard{{"internal/store/pgstore", "^TestPlansAreKept"}},
	},
	{
		name:    "value-of-another-key",
		holds:   "reads that share a statement get each the value of their own key",
		patches: []patch{{"internal/store/pgstore/lookups.go", `q.value = values[i]`, `q.value = values[min(i, 0)]`}},
		guards:  []guard{{"internal/store/pgstore", "^TestLookupsAtTheSameTimeShareAStatement$"}},
	},
	{
		name:    "append-unfenced",
		holds:   "only the owner of a feed appends to it",
		patches: []patch{{"internal/store/pgstore/appendstatement.go", `p.pos = b.pos AND p.epoch = b.epoch AND p.holder = b.holder`, `true`}},
		guards:  []guard{{"internal/store/pgstore", "^TestF5Zombie"}, {"internal/store/pgstore", "^TestF5SameEpoch"}},
	},
	{
		name:  "fence-by-snapshot",
		holds: "an append sees a takeover that commits while it waits",
		patches: []patch{{
			"internal/store/pgstore/appendstatement.go",
			`p.pos = b.pos AND p.epoch = b.epoch AND p.holder = b.holder`,
			`EXISTS (SELECT FROM petrel.part AS p WHERE p.id = b.part AND p.pos = b.pos AND p.epoch = b.epoch AND p.holder = b.holder)`,
		}},
		guards: []guard{{"internal/store/pgstore", "^TestF5Takeover"}},
	},
	{
		name:  "settle-by-reading",
		holds: "a takeover settles what became of an append, a read does not",
		patches: []patch{{
			"internal/store/pgstore/update.go",
			`for try := 0; ; try++ {
				d, err := s.of(f)`,
			`for try := 0; ; try++ {
				if h, err := s.holders(ctx, []store.Feed{f}); try == 0 && err == nil && h[0].Holder == holder {
					return h[0], nil
				}
				d, err := s.of(f)`,
		}},
		guards: []guard{{"internal/store/pgstore", "^TestF6Outcome"}, {"internal/store/pgstore", "^TestF6Takeover"}},
	},
	{
		name:    "believe-fatal",
		holds:   "only an answer of severity ERROR says that nothing was written",
		patches: []patch{{"internal/store/pgstore/database.go", `case !answered, e.SeverityUnlocalized != "ERROR":`, `case !answered:`}},
		guards:  []guard{{"internal/store/pgstore", "^TestF6OnlyAnError"}},
	},
	{
		name:    "ignore-warnings",
		holds:   "a commit that the standby was not waited for is unknown",
		patches: []patch{{"internal/store/pgstore/database.go", `if w, ok := c.CustomData()[warning]; ok {`, `if w, ok := c.CustomData()[warning]; ok && false {`}},
		guards:  []guard{{"internal/store/pgstore", "^TestF6Warning"}},
	},
	{
		name:    "delete-above-floor",
		holds:   "the floor of a feed is durable before anything below it is deleted",
		patches: []patch{{"internal/store/pgstore/update.go", `SET trim = $2 WHERE id = $1 AND trim < $2`, `SET trim = trim WHERE id = $1 AND trim < $2`}},
		guards:  []guard{{"internal/store/pgstore", "^TestF7Floor"}},
	},
	{
		name:  "drop-from-moving",
		holds: "nothing is deleted from a partition that is being copied",
		patches: []patch{
			{"internal/store/pgstore/update.go", "ofOpen+`, k AS (DELETE FROM petrel.marks", "`WITH o AS (SELECT id FROM petrel.part WHERE id = $1 FOR KEY SHARE), k AS (DELETE FROM petrel.marks"},
			{"internal/store/pgstore/update.go", "ofOpen+`DELETE FROM petrel.feed", "`WITH o AS (SELECT id FROM petrel.part WHERE id = $1 FOR KEY SHARE) DELETE FROM petrel.feed"},
		},
		guards: []guard{{"internal/store/pgstore", "^TestF27Nothing"}},
	},
	{
		name:    "leave-tail",
		holds:   "a partition that moves takes what was committed until it was sealed",
		patches: []patch{{"internal/store/pgstore/movepartition.go", `if err := m.tail(ctx, im.Pos(pos)); err != nil {`, `if err := error(nil); err != nil {`}},
		guards:  []guard{{"internal/store/pgstore", "^TestF27PartitionMoves"}},
	},
	{
		name:    "open-newer",
		holds:   "a program does not open what only newer ones read",
		patches: []patch{{"internal/store/pgstore/formatlevel.go", `case minLevel > o.level:`, `case false:`}},
		guards:  []guard{{"internal/store/pgstore", "^TestF28Neighbouring"}},
	},
	{
		name:    "use-lower-generation",
		holds:   "the primary from before a failover is not used",
		patches: []patch{{"internal/store/pgstore/generation.go", `if order(s.generation, need) >= 0 {`, `if true || order(s.generation, need) >= 0 {`}},
		guards:  []guard{{"internal/store/pgstore", "^TestPrimaryFromBeforeAFailoverIsRefused$"}},
	},
	{
		name:    "compare-with-now-only",
		holds:   "what others have committed since a failover does not hide what it has lost",
		patches: []patch{{"internal/store/pgstore/generation.go", `err = d.compare(known, then)`, `_ = then`}},
		guards:  []guard{{"internal/store/pgstore", "^TestCommitsThatCameSinceHideNothing$"}},
	},
	{
		name:    "serve-below-known",
		holds:   "a position below what was known to be committed is not served",
		patches: []patch{{"internal/store/pgstore/seenpositions.go", `if found >= before {`, `if true || found >= before {`}},
		guards: []guard{
			{"internal/store/pgstore", "^TestWhatPeersKnowIsCompared$"},
			{"internal/store/pgstore", "^TestPartitionThatIsMadeAnewIsNotServed$"},
		},
	},
	{
		name:    "forget-the-beginning",
		holds:   "a database that lacked commits when its generation began is refused",
		patches: []patch{{"internal/store/pgstore/seenpositions.go", `if had, ok := b.stands(f); ok && had < im.Pos(pos) {`, `if had, ok := b.stands(f); ok && had < 0*im.Pos(pos) {`}},
		guards: []guard{
			{"internal/store/pgstore", "^TestDatabasesRestoredOnAnotherServerAreRefused$"},
			{"internal/store/pgstore", "^TestPeerOfAFormerGenerationTellsWhatIsMissing$"},
		},
	},
	{
		name:    "lose-unfenced",
		holds:   "a database that lacks commits takes none from anybody",
		patches: []patch{{"internal/store/pgstore/seenpositions.go", `UPDATE petrel.part SET state = %d, holder = 0 WHERE state < %d`, `UPDATE petrel.part SET state = state WHERE id = -%d - %d`}},
		guards:  []guard{{"internal/store/pgstore", "^TestWhatPeersKnowIsCompared$"}},
	},
	{
		name:  "ack-by-former-primary",
		holds: "what a lower generation answers after a higher one is known is not passed on",
		patches: []patch{
			{"internal/store/pgstore/generation.go", `if need := d.need.Load(); need != nil && order(g, need) < 0 {`, `if need := d.need.Load(); false && order(g, need) < 0 {`},
		},
		guards: []guard{{"internal/store/pgstore", "^TestAnswerOfALowerGenerationIsNotBelieved$"}},
	},
	{
		name:    "ignore-mark",
		holds:   "databases that went back while no node ran are held against the store mark",
		patches: []patch{{"internal/store/pgstore/storemark.go", `if m == nil || m.History != hexID(s.Info().HistoryID) {`, `if m == nil || m.History != "" {`}},
		guards:  []guard{{"internal/store/pgstore", "^TestMarkTellsThatDatabasesWentBack$"}},
	},
	{
		name:    "believe-bytes",
		holds:   "a value that is not what was stored under its key is damage",
		patches: []patch{{"internal/store/pgstore/checksum.go", `if n < 0 || s.of(a, stored[:n]) != binary.BigEndian.Uint32(stored[n:]) {`, `if n < 0 {`}},
		guards:  []guard{{"internal/store/pgstore", "^TestValueThatWasNotStoredSoIsCorrupt$/^row,_a_bit$"}},
	},
	{
		name:    "sum-without-key",
		holds:   "a row that stands under another key than it was stored under is damage",
		patches: []patch{{"internal/store/pgstore/checksum.go", `return crc32.Update(crc32.Update(0, castagnoli, s.key), castagnoli, value)`, `return crc32.Update(0, castagnoli, value)`}},
		guards:  []guard{{"internal/store/pgstore", "^TestValueThatWasNotStoredSoIsCorrupt$/^row,_of_another_seq$"}},
	},
}
