package replication

import (
	"errors"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"limitdb/internal/disk"
	"limitdb/replication/peers"
)

// Raft bounds what it keeps by the number of entries, but our entries have up to 256 kB.
func TestRaftIsGivenBytes(t *testing.T) {
	c := (&Options{ID: "a", Log: slog.New(slog.NewTextHandler(io.Discard, nil))}).config()
	if c.BatchApplyCh || c.ShutdownOnRemove || c.SnapshotThreshold < 1<<40 {
		t.Errorf("%+v", c)
	}
	synctest.Test(t, func(t *testing.T) {
		k := newCluster(t, 8, 1)
		defer k.close()
		m := k.leader()
		const group = 100 // bytes, about
		m.node.compact.trailing = 200 * group
		for range 1000 {
			m.table.decide(strings.Repeat("x", group), "k")
			m.table.mu.Lock()
			m.table.states["k"] = strings.Repeat("x", group)
			m.table.mu.Unlock()
			turn := m.node.Turn()
			done := make(chan error, 1)
			m.node.Wait(turn, func(err error) { done <- err })
			m.node.Kick()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		if err := m.node.Snapshot(); err != nil {
			t.Fatal(err)
		}
		first, _ := m.logs.FirstIndex()
		last, _ := m.logs.LastIndex()
		if kept := last - first; kept < 64 || kept > 300 {
			t.Errorf("%d entries are kept", kept)
		}
	})
}

// answered decides once on the leader, and waits until that is accepted.
func (c *cluster) answered(m *member) {
	c.t.Helper()
	turn := m.node.Turn()
	m.decide()
	done := make(chan error, 1)
	m.node.Wait(turn, func(err error) { done <- err })
	m.node.Kick()
	if err := <-done; err != nil {
		c.fail("not accepted: %v", err)
	}
}

// A deposed leader has entries that no majority ever had. It does not count them as committed because of a leader's message that has nothing in their
// place: Raft sends one if it is held up at the beginning of its leadership, with the commit index of a moment later.
func TestCommitIndexOfAnEmptyMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 12, 3)
		defer c.close()
		old := c.leader()
		c.answered(old)
		time.Sleep(time.Second)
		synctest.Wait()
		old.part()
		var common raft.Log
		if err := old.logs.GetLog(old.node.raft.LastIndex(), &common); err != nil {
			t.Fatal(err)
		}
		old.table.decide("lost", "a key that nobody else changes")
		time.Sleep(2 * writeDelay)
		synctest.Wait()
		var next *member
		for next = old; next == old; next = c.leader() {
			time.Sleep(time.Second)
		}
		for range 10 {
			c.answered(next)
		}
		if stale := old.node.raft.LastIndex(); stale == common.Index || old.node.Turn() != 0 {
			t.Fatalf("the deposed leader has entry %d, and the others %d", stale, common.Index)
		}
		_, trans := raft.NewInmemTransport(next.address)
		trans.Connect(old.address, old.trans)
		var resp raft.AppendEntriesResponse
		if err := (memory{trans, &next.stubborn}).AppendEntries("", old.address, &raft.AppendEntriesRequest{
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(next.address), Addr: []byte(next.address)},
			Term:      next.node.raft.CurrentTerm(), PrevLogEntry: common.Index, PrevLogTerm: common.Term, LeaderCommitIndex: next.node.raft.CommitIndex(),
		}, &resp); err != nil || !resp.Success {
			t.Fatalf("%v, %+v", err, resp)
		}
		c.reconnect(nil)
		c.agree()
	})
}

// A node gets a snapshot, and its log continues behind it with entries that no majority ever had.
func TestSnapshotOverAConflictingLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 9, 3)
		defer c.close()
		was := c.leader()
		for range 20 {
			c.answered(was)
		}
		term := was.node.raft.CurrentTerm()
		was.kill()
		last, err := was.logs.LastIndex()
		if err != nil {
			t.Fatal(err)
		}
		e := entry{kind: kindBatch, epoch: id{1, 1}, sequence: 1, last: true, clock: 1}
		for i := range uint64(1000) { // proposed, and sent to nobody
			if err := was.logs.StoreLog(&raft.Log{Index: last + 1 + i, Term: term, Data: e.appendTo(nil)}); err != nil {
				t.Fatal(err)
			}
		}
		next := c.leader()
		for range 300 {
			c.answered(next)
		}
		for _, m := range c.nodes {
			if m.node == nil {
				continue
			}
			if err := m.node.Snapshot(); err != nil {
				t.Fatal(err)
			}
			if first, _ := m.logs.FirstIndex(); first <= last {
				t.Fatalf("%s still has entry %d", m.address, first)
			}
		}
		installedOnce := func() {
			t.Helper()
			installed := 0
			c.mu.Lock()
			for _, h := range c.history {
				if strings.Contains(h, "Installed remote") {
					installed++
				}
			}
			c.mu.Unlock()
			if installed != 1 {
				c.fail("the snapshot was installed %d times", installed)
			}
		}
		was.start()
		c.reconnect(nil)
		time.Sleep(time.Second)
		installedOnce() // or the nodes would send and install it for as long as agree waits
		c.agree()
		c.answered(c.leader())
		c.agree()
		installedOnce()
		for index := uint64(1); ; index++ {
			first, _ := was.logs.FirstIndex()
			end, _ := was.logs.LastIndex()
			if index = max(index, first); index > end {
				break
			}
			var l raft.Log
			if err := was.logs.GetLog(index, &l); err != nil || l.Term == term && index > last {
				c.fail("entry %d of %d-%d: term %d, %v", index, first, end, l.Term, err)
			}
		}
	})
}

// The entries that a log keeps when the newest snapshot ends at 200.
func TestDiscardConflicting(t *testing.T) {
	for name, c := range map[string]struct {
		first, last, term uint64 // of the log
		want              [2]uint64
	}{
		"it has the snapshot's entry":        {150, 250, 3, [2]uint64{150, 250}},
		"it ends at the snapshot's":          {150, 200, 3, [2]uint64{150, 200}},
		"it begins behind":                   {201, 250, 2, [2]uint64{201, 250}},
		"another entry, and what follows":    {150, 250, 2, [2]uint64{201, 250}},
		"another entry at its end":           {150, 200, 2, [2]uint64{0, 0}},
		"it ends before":                     {100, 150, 3, [2]uint64{0, 0}},
		"it is empty":                        {0, 0, 0, [2]uint64{0, 0}},
		"one entry, which is the snapshot's": {200, 200, 3, [2]uint64{200, 200}},
	} {
		snapshots, err := openSnapshots(disk.OS{}, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := publish(snapshots, 200, 3, encodedSnapshot(t, &fence{}, nil)); err != nil {
			t.Fatal(err)
		}
		store := raft.NewInmemStore()
		g := &guarded{elapsed: noTime, LogStore: store, StableStore: store, snapshots: snapshots, fatal: func(err error) { t.Error(err) }}
		logs, err := raft.NewLogCache(64, g)
		if err != nil {
			t.Fatal(err)
		}
		for i := c.first; c.first > 0 && i <= c.last; i++ {
			if err := logs.StoreLog(&raft.Log{Index: i, Term: c.term}); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.discardConflicting(logs); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		first, _ := logs.FirstIndex()
		last, _ := logs.LastIndex()
		var l raft.Log
		if first > last {
			first, last = 0, 0
		}
		if got := [2]uint64{first, last}; got != c.want {
			t.Errorf("%s: it keeps %v, want %v", name, got, c.want)
		}
		if err := logs.GetLog(200, &l); err != nil || l.Term != 3 || l.Index != 200 {
			t.Errorf("%s: entry 200: %+v, %v", name, l, err)
		}
		if err := logs.GetLog(199, &l); (err == nil) != (c.want[0] <= 199 && c.want[0] > 0) {
			t.Errorf("%s: entry 199: %v", name, err)
		}
	}
}

// A node that finds its disk full stops, and asks for no vote afterwards: the vote for itself cannot be written.
func TestFullDiskIsNotElected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 10, 3)
		defer c.close()
		m := c.leader()
		m.full.Store(true)
		m.decide()
		m.node.Kick()
		synctest.Wait()
		for c.ended(m) == nil {
			time.Sleep(time.Millisecond)
		}
		m.kill() // as the process does
		next := c.leader()
		if next == m {
			t.Fatal("a node that cannot write leads")
		}
		for range 5 { // it is started again and again, and goes down at its first write
			if m.start(); m.node != nil {
				c.reconnect(nil)
			}
			for range 10 {
				c.answered(c.leader())
				time.Sleep(time.Second)
				if c.leader() == m {
					t.Fatal("a node that cannot write leads")
				}
			}
			if m.node != nil {
				m.kill()
			}
		}
		m.full.Store(false)
		c.mu.Lock()
		c.fatal = nil
		c.mu.Unlock()
		m.start()
		c.reconnect(nil)
		c.agree()
	})
}

// A node that cannot write its term serves until the next election. Then it stops, says why, and has not voted.
func TestTermThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 12, 3)
		defer c.close()
		old := c.leader()
		m := c.nodes[(old.number+1)%3]
		m.votesFull.Store(true)
		for range 10 {
			c.answered(old)
		}
		if err := c.ended(m); err != nil {
			c.fail("without an election: %v", err)
		}
		old.kill()
		for c.ended(m) == nil {
			time.Sleep(time.Millisecond)
		}
		if err := c.ended(m); !errors.Is(err, errFull) || !strings.Contains(err.Error(), "a write of the term") {
			c.fail("it ends with %v", err)
		}
		m.kill() // as the process does
		time.Sleep(time.Minute)
		if last := c.nodes[3-old.number-m.number]; last.node.Turn() != 0 {
			c.fail("%s leads with a vote that nobody has written", last.address)
		}
		m.votesFull.Store(false)
		c.mu.Lock()
		c.fatal = nil
		c.mu.Unlock()
		m.start()
		c.reconnect(nil)
		c.answered(c.leader())
		old.start()
		c.reconnect(nil)
		c.agree()
	})
}

// A cluster that cannot begin returns the reason. Begun again with room, it begins, whatever was written before.
func TestBeginningThatIsCutShort(t *testing.T) {
	dir := t.TempDir()
	who, err := identify(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	o := realOptions(t, "a", nil)
	o.server = who.server()
	var ends error
	o.Fatal = func(err error) { ends = err }
	port, err := peers.Listen(freeAddress(t), nil, o.Log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = port.Close() }()
	d := Disk{Dir: dir, Port: port, Bootstrap: true}
	for _, votesFull := range []bool{true, false} {
		p, err := openParts(&o, d, who)
		if err != nil {
			t.Fatal(err)
		}
		m := &member{}
		m.votesFull.Store(votesFull)
		m.full.Store(true)
		p.guarded.LogStore = &heldLogs{raft.NewInmemStore(), m} // Raft writes the term first
		if votesFull {
			p.guarded.StableStore = &heldLogs{raft.NewInmemStore(), m}
		}
		if err := begin(o, p, d); !errors.Is(err, errFull) || !errors.Is(ends, errFull) {
			t.Errorf("it begins on a full disk: %v", err)
		}
		if err := p.close(); err != nil {
			t.Fatal(err)
		}
	}
	table := &list{states: map[string]string{}}
	n, err := Open(realOptions(t, "a", table), d)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close() }()
	until(t, "the node leads", func() bool { return n.Turn() != 0 })
}

// Nodes hash their states at the same indexes, and the hashes differ if the states do.
func TestStateHashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 11, 3)
		defer c.close()
		at := func() (hashes map[uint64][]uint64) {
			hashes = map[uint64][]uint64{}
			for range 30 {
				time.Sleep(time.Second)
				synctest.Wait()
				seen := map[uint64][]uint64{}
				for _, m := range c.nodes {
					if s := m.node.Status(); s.HashIndex > 0 {
						seen[s.HashIndex] = append(seen[s.HashIndex], s.Hash)
					}
				}
				for index, sums := range seen {
					if len(sums) == len(c.nodes) {
						hashes[index] = sums
					}
				}
			}
			return hashes
		}
		m := c.leader()
		for range 100 {
			c.answered(m)
		}
		same := at()
		for index, sums := range same {
			if sums[0] != sums[1] || sums[1] != sums[2] {
				c.fail("entry %d: %x", index, sums)
			}
		}
		if len(same) < 10 {
			c.fail("%d hashes in 30 s", len(same))
		}
		wrong := c.nodes[(m.number+1)%3]
		wrong.table.mu.Lock()
		wrong.table.states["k0"] += "?"
		wrong.table.mu.Unlock()
		differ := 0
		for _, sums := range at() {
			if sums[0] != sums[1] || sums[1] != sums[2] {
				differ++
			}
		}
		if differ < 10 {
			c.fail("%d hashes differ", differ)
		}
	})
}

// The log goes on growing until a snapshot begins. That must not make another one at once.
func TestGrowthMakesOneSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5, 1)
		defer c.close()
		m := c.leader()
		c.answered(m)
		k := m.node.compact
		m.node.replica.mu.Lock()
		k.grew(int(k.after))
		for len(k.grown) > 0 { // the next snapshot is on its way, but cannot begin yet
			runtime.Gosched()
		}
		k.grew(1)
		m.node.replica.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		begun := 0
		for _, line := range c.history {
			if strings.Contains(line, "starting snapshot") {
				begun++
			}
		}
		if begun != 1 {
			c.t.Errorf("%d snapshots", begun)
		}
	})
}

// A node rests for most of the time while it writes a snapshot.
func TestSnapshotsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const blocks, work = 10, 3 * time.Millisecond
		began := time.Now()
		p := newPaced(io.Discard, nil, func() int64 { return int64(time.Since(began)) })
		for range blocks {
			time.Sleep(work)
			if n, err := p.Write(make([]byte, 5)); n != 5 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
		}
		if took := time.Since(began); took != (1+restShare)*blocks*work {
			t.Errorf("%d blocks in %v", blocks, took)
		}
		again := time.Now()
		time.Sleep(time.Second) // the disk stalls, or the process is stopped
		_, _ = p.Write(nil)
		if took := time.Since(again); took != time.Second+restMax {
			t.Errorf("a slow block in %v", took)
		}
	})
}

// All nodes count the same log, and each makes its snapshots at a number of bytes of its own, so that a majority is
// not busy with them at the same moment.
func TestSnapshotsAreApart(t *testing.T) {
	at := map[int64]bool{}
	for _, name := range []string{"n1", "n2", "n3"} {
		after := (&Options{ID: name}).snapshotAfter()
		if after < snapshotBytes || after >= snapshotBytes/2*3 {
			t.Errorf("%s makes a snapshot after %d bytes", name, after)
		}
		at[after] = true
	}
	if len(at) != 3 {
		t.Errorf("three nodes make their snapshots at %v", at)
	}
}
