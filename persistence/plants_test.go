//go:build plants

package persistence

import (
	"testing"

	"limitdb/internal/plant"
)

// plants lists bugs that the tests of this package must find.
func plants() []plant.Bug {
	const always, synced = "TestCrashesLoseNothingAlways", "TestCrashesLoseNothingSynced"
	return []plant.Bug{
		{"no-fsync", "sync.go", "err := l.Sync()\n", "var err error\n", always},
		{"no-fsync-everysec", "sync.go", "err := l.Sync()\n", "var err error\n", synced},
		{"no-directory-fsync", "directory.go", "if err := disk.Publish(d.fs, name); err != nil {", "if err := d.fs.Rename(name+tmpSuffix, name); err != nil {", always},
		{"no-directory-fsync-of-a-log", "../internal/disk/appender.go", "err = Publish(fsys, name)", "err = fsys.Rename(name+TmpSuffix, name)", "TestAppenderOutlivesCrashes"},
		{"reply-before-sync", "sync.go", "w.unsynced.Begin()\n	w.io.Unlock()\n", "w.unsynced.Begin()\n	w.io.Unlock()\n	w.publish(at)\n", always},
		{"waiters-left-behind-by-a-policy", "sync.go", "if w.Policy() == Always || w.waiting() > 0 {", "if w.Policy() == Always {", "TestPolicyChangesStrandNobody"},
		{"old-log-left-in-force", "close.go", "if err := s.setAside(); err != nil {", "if err := error(nil); err != nil {", "TestCrashesLoseNothingWhenTheLogIsSwitched"},
		{"state-of-a-log-turned-off-loaded", "directory.go", "d.man, d.dropped = &manifest{instance: m.instance}, true", "d.man = m", "TestCrashesLoseNothingWhenTheLogIsSwitched"},
		{"waiters-left-behind-by-a-log-turned-off", "writer.go", "ready.Tell(nil)", "_ = ready", "TestRetire"},
		{"no-room-for-zeros-is-fatal", "../internal/disk/appender.go", "case !NoRoom(err):", "case err != nil:", "TestAppenderReportsErrors"},
		{"removed-files-not-noticed", "run.go", "	s.lookForFiles()\n", "", "TestFilesThatAreRemoved"},
		{"another-directory-written-to", "directory.go", "if HasData(d.dir) {", "if false {", "TestDirectoryThatIsReplaced"},
		{"wait-for-too-little", "writer.go", "at++\n", "at += 0\n", always},
		{"reply-before-a-failed-sync", "sync.go", "			w.fail(err)\n		}\n		return err\n	}\n	w.hasSynced", "			w.fail(err)\n		}\n		w.publish(w.opened.Load())\n		return err\n	}\n	w.hasSynced", "TestEveryOperationFails"},
		{"write-error-hidden", "../internal/disk/appender.go", "if _, err := a.WriteAt(b, a.End); err != nil {", "if _, err := a.WriteAt(b, a.End); err != nil && false {", "TestAppenderReportsErrors"},
		{"short-write-hidden", "../internal/disk/appender.go", "if _, err := a.WriteAt(b, a.End); err != nil {", "if n, err := a.WriteAt(b, a.End); err != nil && n == 0 {", "TestAppenderReportsErrors"},
		{"fsync-retried-on-the-same-file", "sync.go", "err := l.Sync()\n", "err := l.Sync()\n	if err != nil {\n		err = l.Sync()\n	}\n", "TestEveryOperationFails"},
		{"healed-before-the-base-is-durable", "rescue.go", "if err := s.rebase(", "s.failure.Store(nil)\n	if err := s.rebase(", "TestFullDiskHeals"},
		{"payload-checksum-not-checked", "reader.go", "case !h.holds(b[batchHeaderSize:total], seed):", "case false:", "TestLogWithEveryBitFlipped"},
		{"header-checksum-not-checked", "batch.go", "if disk.Sum(seed, b[:60]) != binary.LittleEndian.Uint32(b[60:]) {", "if false {", "TestLogWithEveryBitFlipped"},
		{"checksum-not-seeded", "header.go", "return uint32(id) ^ bits.RotateLeft32(uint32(id>>32), 7)", "return uint32(bits.Len(0))", "TestGoldenFormat"},
		{"sequence-not-checked", "reader.go", "case r.seq != 0 && h.seq != r.seq:", "case false:", "TestDamageThatIsNoTail"},
		{"torn-tail-not-cut", "recover.go", "if err := s.fs.Truncate(l.name, off); err != nil {", "if err := error(nil); err != nil {", always},
		{"recovered-log-not-synced", "recover.go", "if r.tail == nil {\n		return r.s.fs.Truncate(l.name, l.size)", "if r.tail == nil {\n		return nil", synced},
		{"corruption-passes-for-a-torn-tail", "verify.go", "if t.past || t.any", "if t.any", "TestLogWithEveryBitFlipped"},
		{"no-mark-at-the-end", "sync.go", "if l == nil || l.marked ||", "if true || l.marked ||", "TestLogWithEveryBitFlipped"},
		{"tombstone-forgotten", "load.go", "w.deletes++\n", "w.deletes++\n		return nil\n", always},
		{"expired-state-does-not-replace", "load.go", "if !log {", "if true {", always},
		{"expired-state-not-there-for-a-change", "load.go", "r.ChangesMayFollow() {", "false {", always},
		{"missed-change-not-reported", "load.go", "if key, ok := missed(); ok {", "if key, ok := missed(); ok && key == \"\" {", "TestChangeWithoutItsState"},
		{"flush-forgotten", "load.go", "r.Kind < journal.Foreign && r.Version < w.ld.flush", "false", always},
		{"version-not-continued", "recover.go", "Resume(r.version, &s.drains.Gate, s.Dirtied)", "Resume(0, &s.drains.Gate, s.Dirtied)", always},
		{"clock-mark-ignored", "recovery.go", "r.Now = max(wall, r.last.clock)", "r.Now = wall", "TestClockAfterRestart"},
		{"boot-clock-ignored", "recovery.go", "Now(s.o.Boot()); ok {", "Now(s.o.Boot()); ok && false {", "TestClockAfterRestart"},
		{"debt-not-clamped", "load.go", "if journal.Timed(r.Kind) && now < clock && at > clock {", "if false {", "TestClockAfterRestart"},
		{"snapshot-before-its-log-is-durable", "snapshot.go", "if err := s.persist(); err != nil {\n		return err\n	}", "", synced},
		{"old-files-removed-too-early", "snapshot.go", "base, err := s.writeBase()\n	if err != nil {\n		return err\n	}\n	if err := s.persist()", "before := s.man\n	s.man = &manifest{logs: []logEntry{next}}\n	s.removeRest()\n	s.man = before\n	base, err := s.writeBase()\n	if err != nil {\n		return err\n	}\n	if err := s.persist()", always},
		{"base-not-synced", "../internal/disk/stretch.go", "err := s.File.Sync()\n", "var err error\n", "TestStretchOutlivesCrashes"},
		{"manifest-not-synced", "directory.go", "name+tmpSuffix, b, true)", "name+tmpSuffix, b, false)", always},
		{"old-log-not-synced-at-rotation", "sync.go", "if err := w.syncFile(old); err != nil {\n			return err\n		}", "", synced},
		{"clean-mark-left-behind", "directory.go", "err := d.fs.Remove(d.path(cleanName))\n	if", "err := fs.ErrNotExist\n	if", always},
		{"keys-of-one-worker-only", "load.go", "w.part.Apply(w.batch, w.share,", "w.part.Apply(w.batch, 0,", always},
		{"other-instance-accepted", "recovery.go", "if f.instance != m.instance {", "if f.size < 0 {", "TestDamageThatIsNoTail"},
		{"zeros-over-data", "../internal/disk/appender.go", "a.WriteAt(zeros, a.Length)", "a.WriteAt(zeros, a.Length-8)", "TestAppenderOutlivesCrashes"},
		{"zeros-end-a-log-too-early", "reader.go", "end, err := r.dataEnd(bad.off)\n	switch {", "var next [batchHeaderSize]byte\n	_, err := r.f.ReadAt(next[:], bad.off)\n	end := bad.off\n	if next != ([batchHeaderSize]byte{}) {\n		end++\n	}\n	switch {", "TestLogWithPartsZeroed"},
		{"zeros-pass-for-a-torn-tail", "reader.go", "if r.kind != kindLog || bad.whole {", "if true {", "TestLogsThatEndInZeros"},
		{"newer-format-read", "header.go", "v != formatVersion {", "v == 0 {", "TestDamageThatIsNoTail"},
		{"no-gate", "writer.go", "w.drains.Cut(func() {", "func(cut func()) { cut() }(func() {", always},
		{"group-not-marked", "logfile.go", "flags = flagMore", "flags = 0", always},
		{"group-ends-after-its-first-part", "writer.go", "w.writeRecords(b, more)", "w.writeRecords(b, false)", always},
		{"group-not-whole", "verify.go", "if p.flags&flagMore != 0 {", "if false {", always},
		{"new-log-vouches-for-one-that-is-not-durable", "sync.go", "next.first, next.flags = w.cur.seq, w.cur.seq, flagNamed", "next.first, next.flags = w.cur.seq, w.cur.seq, flagNamed|flagVouches", synced},
		{"tail-cut-and-what-is-behind-kept", "verify.go", "if l.size > headerSize {\n		r.behind", "if false {\n		r.behind", synced},
		{"age-not-watched", "writer.go", "if t := w.unsynced.Since(); t != 0 &&", "if t := w.unsynced.Since(); false &&", "TestSyncThatHangs"},
		{"age-seen-too-late", "run.go", "s.look(s.lag() + lookAhead)", "s.look(s.lag())", "TestSyncThatHangs"},
		{"sync-holds-up-the-writer", "sync.go", "err := l.Sync()\n	w.io.Lock()", "w.io.Lock()\n	err := l.Sync()", "TestSnapshotDoesNotHoldUpTheLog"},
		{"boot-id-ignored", "verify.go", "return l.boot != 0 && l.boot == r.s.boot", "return false", "TestDamageInTheSameBoot"},
		{"older-manifest-accepted", "recovery.go", "if err == nil && r.stale {", "if r.stale = false; err != nil {", "TestOlderManifest"},
		{"header-not-repaired", "check.go", "if h.id == 0 || size < headerSize {", "if true {", "TestRepairIntoACopy"},
		{"unknown-flag-passes-for-a-torn-tail", "reader.go", "case bad != nil && bad.newer:", "case false:", "TestNewerParts"},
		{"backup-without-the-latest", "backup.go", "if err := s.Sync(); err != nil {", "if err := error(nil); err != nil {", "TestBackupHasTheLatest"},
		{"overdue-write-left-to-the-timer", "writer.go", "return due != 0 &&", "return due < 0 &&", "TestOverdueChangesAreWritten"},
		{"healed-without-a-log", "rescue.go", "	if !whole {\n		return ErrFailed\n	}\n", "	s.failure.Store(nil)\n", "TestNewLogThatFails"},
		{"durable-in-a-log-not-in-force", "sync.go", "if err == nil && w.Failing() != nil {", "if false {", "TestSyncWhileANewLogBegins"},
		{"changes-taken-by-a-store-that-ended", "writer.go", "if w.over {", "if false {", "TestEndedStoreTakesNothing"},
		{"first-log-without-a-manifest", "rescue.go", "if s.Empty() && !s.dropped {", "if false {", "TestCrashAfterAFirstStartOnAFullDisk"},
		{"name-given-back-not-durably", "directory.go", "	if back == nil {\n		back = d.fs.SyncDir(d.dir)\n	}\n", "", "TestLogThatCannotBeTurnedOff"},
		{"name-not-given-back-unnoticed", "close.go", "if errors.Is(err, errLost) {", "if false {", "TestLogThatCannotBeTurnedOff"},
		{"removed-base-not-noticed", "directory.go", "if !slices.Contains(names, name) {", "if !slices.Contains(names, name) && false {", "TestOlderFilesThatAreRemoved"},
		{"another-directory-not-noticed", "directory.go", "	if err == nil && !there {\n		err = fmt", "	if err == nil && !there && false {\n		err = fmt", "TestDirectoryThatHasJustBeenReplaced"},
		{"files-of-others-removed", "directory.go", "return isData(unfinished) || unfinished == manifestName || unfinished == cleanName", "return unfinished != name", "TestFilesOfOthersStay"},
		{"what-a-failed-sync-has-left-believed", "recover.go", "if r.Clean || l.boot != r.s.boot {", "if true {", "TestRestartsAfterAFailure"},
		{"directory-without-a-durable-name", "directory.go", "	d.syncName()\n	d.man", "	d.man", "TestDirectoryWithoutADurableName"},
		{"due-snapshot-forgotten", "run.go", "case err == nil:", "default:", "TestDueSnapshotIsNotForgotten"},
		{"old-times-kept-until-a-change", "run.go", "if s.forced.Load() {\n		signal", "if false {\n		signal", "TestOldTimesAreReplaced"},
		{"half-a-backup-left", "backup.go", "err = errors.Join(err, disk.RemoveDir(s.fs, dir))", "err = errors.Join(err)", "TestBackupThatFails"},
		{"backup-over-an-own-name", "backup.go", "		if lower == own {", "		if name == own {", "TestBackupCanBeStartedFrom"},
	}
}

func TestPlantedBugsAreCaught(t *testing.T) {
	plant.Check(t, plants())
}
