//go:build plants

package replication

import (
	"testing"

	"limitdb/internal/plant"
)

func TestPlantedBugsAreCaught(t *testing.T) {
	const fold = "TestStateIsTheFoldOfWhatWasAccepted"
	const faults = "TestFaultsAtRandom"
	plant.Check(t, []plant.Bug{
		{"no-fence", "machine.go", "if e.epoch != m.epoch || term != m.term || e.sequence != m.sequence+1 {", "if false {", fold},
		{"no-epoch-in-the-fence", "machine.go", "if e.epoch != m.epoch || term", "if term", fold},
		{"no-term-in-the-fence", "machine.go", "|| term != m.term ||", "||", fold},
		{"no-sequence-in-the-fence", "machine.go", "|| e.sequence != m.sequence+1 {", "{", fold},
		{"late-epoch-accepted", "machine.go", "if e.after != m.epoch {", "if false {", fold},
		{"unfinished-group-kept", "machine.go", "address: e.address, format: e.format}", "address: e.address, format: e.format, group: m.group}", fold},
		{"group-applied-in-parts", "machine.go", "if !e.last {", "if false {", fold},
		{"own-batch-ignored-in-silence", "machine.go", "abdicate: e.epoch == m.own && m.close()}", "abdicate: false}", "TestOwnBatchThatIsIgnored"},
		{"opened-over-an-open-epoch", "machine.go", "if waited && !r.abdicate {", "if waited {", fold},
		{"own-records-of-a-closed-epoch-not-restored", "machine.go", "own: m.own == e.epoch,", "own: e.epoch.node == m.asked.node || m.own == e.epoch,", fold},
		{"snapshot-without-its-group", "machine.go", "return append(b, f.group...)", "return b", "TestSnapshotHasAnUnfinishedGroup"},
		{"snapshot-keeps-an-epoch-open", "machine.go", "abdicate = m.close()\n", "abdicate = m.own != id{}\n", "TestSnapshotClosesTheEpoch"},
		{"clock-of-an-epoch-ignored", "machine.go", "clock: max(m.clock, e.clock), address", "clock: m.clock, address", fold},
		{"clock-of-a-group-ignored", "machine.go", "m.clock, m.pending, m.group = max(m.clock, m.pending), 0, nil", "m.pending, m.group = 0, nil", fold},
		{"reply-on-the-group-before", "primary.go", "Add(p.begun+1, fn)", "Add(p.begun, fn)", "TestReplyWaitsForItsOwnGroup"},
		{"reply-of-an-epoch-that-is-over", "primary.go", "if turn == 0 || turn != p.turn.Load() {", "if false {", "TestReplyOfAnEpochThatIsOver"},
		{"turns-that-come-again", "node.go", "n.count = o.Turns", "", "TestTurnsNeverRepeatInAProcess"},
		{"no-reload", "replica.go", "		r.rebuildSoon()\n", "", "TestDeposedLeaderForgetsWhatWasNotAccepted"},
		{"snapshot-published-too-early", "replica.go", "err := c.r.awaitLogged(c.broken)", "err := error(nil)", "TestSnapshotWaitsForWhatItHas"},
		{"conflicting-log-kept", "conflict.go", "return logs.DeleteRange(first, min(last, newest.Index))", "return nil", "TestDiscardConflicting"},
		{"entry-of-a-snapshot-not-answered", "conflict.go", "newest.Index == index &&", "newest.Index == index+1<<60 &&", "TestSnapshotOverAConflictingLog"},
		{"term-behind-the-log", "store.go", "if err := g.sees(logs[len(logs)-1].Term); err != nil {", "if err := error(nil); err != nil {", "TestEntriesOfALaterTermThanTheMessage"},
		{"term-behind-a-snapshot", "open.go", "	snapshots.sees = g.sees\n", "", "TestEntriesOfALaterTermThanTheMessage"},
		{"term-taken-back", "store.go", "if string(key) == termKey && val < g.term() {", "if false {", "TestEntriesOfALaterTermThanTheMessage"},
		{"heartbeats-past-the-log", "peers/transport.go", "func (*Transport) SetHeartbeatHandler(func(raft.RPC)) {}", "func (w *Transport) SetHeartbeatHandler(fn func(raft.RPC)) {\n\tw.NetworkTransport.SetHeartbeatHandler(fn)\n}", "TestHeartbeatsWaitTheirTurn"},
		{"commit-index-of-what-was-not-sent", "peers/transport.go", "args.LeaderCommitIndex = min(args.LeaderCommitIndex, args.PrevLogEntry+uint64(len(args.Entries)))", "", "TestMessagesHaveABound"},
		{"requests-in-a-pipeline", "peers/transport.go", "MaxRPCsInFlight: 1,", "", "TestNoPipeline"},
		{"note-of-another-boot-believed", "clockfile.go", "Boot: was.Boot,", "Boot: boot,", "TestTimeWhileAllAreDown"},
		{"wall-clock-believed", "logtime.go", "max(least, min(wall, least+maxAhead))", "max(least, wall)", faults},
		{"transfer-without-waiting", "transfer.go", "if err := n.finish(); err != nil {", "n.replica.abdicateAny(errTransfer)\n\tif err := error(nil); err != nil {", "TestTransfers"},
		{"stuck-transfer-not-watched", "node.go", "			if refused.stuck(err) {", "			if refused.stuck(nil) {", "TestTransferThatIsNotFinished"},
		{"successor-not-forwarded-to", "replica.go", "return r.overheard.epoch, r.overheard.address, r.applied", "return r.machine.epoch, r.machine.address, r.applied", "TestLeave"},
		{"successor-not-overheard", "replica.go", "		r.overhear(l)\n", "", "TestLeave"},
		{"vote-before-the-log", "members.go", "if err := c.awaitCaughtUp(raft.ServerID(server)); err != nil {", "if err := error(nil); err != nil {", "TestNoVoteBeforeTheLog"},
		{"last-voter-removed", "members.go", "case answer <= voters/2:", "case false:", "TestTransfersThatAreRefused"},
		{"change-of-another-configuration", "configuration.go", "RemoveServer(id, index, memberTimeout)", "RemoveServer(id, 0, memberTimeout)", "TestGroupsOfTheirOwner"},
		{"stranger-admitted", "members.go", `return fmt.Errorf("%s is not a member", peers.NameOf(server))`, "return nil", "TestStrangersAreRefused"},
		{"certificate-of-any-node", "peers/port.go", "checkPeer(proof, NameOf(h.From))", "error(nil)", "TestCertificates"},
		{"certificate-of-any-authority", "peers/certificates.go", "tls.RequireAndVerifyClientCert", "tls.RequireAnyClientCert", "TestCertificates"},
		{"lost-directory-taken-for-the-member", "peers/layer.go", "case NameOf(means) != means && h.From != means:", "case false:", "TestHellos"},
		{"another-cluster-accepted", "peers/layer.go", "own.Cluster != h.Cluster:", "false:", "TestHellos"},
		{"connection-of-another-group-accepted", "peers/port.go", "l := p.layers[group]", "l := p.layers[max(group, 2)]", "TestConnectionsBelongToTheirGroup"},
		{"directory-of-another-group-accepted", "open.go", "case who.Group != d.Group:", "case false:", "TestGroupsShareAPort"},
		{"expired-states-changed-in-part", "primary.go", "p.table.Cut(p.lastClock)", "p.table.Cut(0)", "TestFollowersKeepWhatTheNextGroupMayChange"},
		{"expired-at-the-last-clock", "replica.go", "return r.machine.earlier", "return r.machine.clock", "TestFollowersKeepWhatTheNextGroupMayChange"},
		{"log-not-synced", "log.go", "if err := s.f.Sync(); err != nil {", "if err := error(nil); err != nil {", "TestDiskLog"},
		{"torn-write-kept", "log.go", "if err := last.truncate(d.fs, last.name(d.dir, last.from)); err != nil {", "if err := error(nil); err != nil {", "TestDiskLog"},
		{"log-not-synced-when-opened", "log.go", "return last.f.Sync()", "return nil", "TestDiskLog"},
		{"cut-of-the-log-forgotten", "log.go", "if err := d.fs.Rename(s.name(d.dir, from), s.name(d.dir, index)); err != nil {", "if err := error(nil); err != nil {", "TestDiskLog"},
		{"removal-not-synced-when-opened", "log.go", "if err := d.fs.SyncDir(d.dir); err != nil {\n\t\t\treturn err", "if err := error(nil); err != nil {\n\t\t\treturn err", "TestDiskLog"},
		{"names-of-snapshots-not-synced-when-opened", "snapstore.go", "if err := fsys.SyncDir(dir); err != nil {", "if err := error(nil); err != nil {", "TestCrashesOfANode"},
		{"half-of-a-snapshot-left", "snapstore.go", "err := s.fs.SyncDir(s.dir)", "err := error(nil)", "TestCrashesOfANode"},
		{"writes-wait-for-a-cut", "log.go", "	d.writing.Unlock()\n	if begin", "	defer d.writing.Unlock()\n	if begin", "TestWritesDoNotWaitForACut"},
		{"snapshot-without-rest", "pace.go", "	p.rest()\n	return n, err", "	return n, err", "TestSnapshotsArePaced"},
		{"damage-taken-for-a-torn-write", "segment.go", "h.write > s.next() {", "false {", "TestDamagedLog"},
		{"data-not-verified", "segment.go", "if disk.Sum(seed, data) != h.sum {", "if false {", "TestDamagedLog"},
		{"votes-of-another-node", "votes.go", "case v.ballot.Node != node:", "case false:", "TestVotes"},
		{"older-votes-accepted", "stores.go", "had < seen {", "had+1<<63 < seen {", "TestOlderVotes"},
		{"earlier-vote-believed", "votes.go", "other.Number > v.ballot.Number", "false", "TestFlipsOfEveryByte"},
		{"record-not-verified", "../internal/disk/record.go", "|| recordCRC(b) != binary.LittleEndian.Uint32(b[recordSum:]):", ":", "TestDamagedRecords"},
		{"lost-end-of-the-log-accepted", "stores.go", "if last < had {", "if false {", "TestLogThatIsCutShort"},
		{"cut-of-the-end-not-noted", "lastindex.go", "return l.write(min(l.Last, index-1))", "return nil", "TestLogThatRaftCutsShort"},
		{"note-from-the-future-believed", "clockfile.go", "if ahead > noteAhead && ", "if false && ", "TestNoteFromTheFuture"},
		{"lost-files-made-anew", "stores.go", "if path := filepath.Join(dir, inner); !exists(path) {", "if path := filepath.Join(dir, inner); false {", "TestMissingFiles"},
		{"old-cluster-after-a-recovery", "recover.go", "who.Cluster, who.Began = draw(), true", "who.Began = true", "TestRecover"},
	})
}
