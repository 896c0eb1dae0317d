package replication

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"limitdb/internal/journal"
)

// The leadership goes round under load, and no reply is left without an outcome.
func TestTransfers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCluster(t, 3, 3)
		defer k.close()
		stop := make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				for _, m := range k.nodes {
					m.decide()
				}
			}
		}()
		for range 10 {
			at := k.leader()
			time.Sleep(100 * time.Millisecond)
			began := time.Now()
			if err := at.node.Transfer(""); err != nil {
				k.fail("%s: %v", at.address, err)
			}
			if took := time.Since(began); took > 100*time.Millisecond { // of virtual time
				k.fail("the transfer takes %v", took)
			}
			if at.node.Turn() != 0 {
				k.fail("%s decides still", at.address)
			}
		}
		close(stop)
		<-ended
		k.agree()
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.unknown > 0 || len(k.accepted) < 100 {
			t.Errorf("%d replies have no outcome, %d have one", k.unknown, len(k.accepted))
		}
	})
}

// A session may be held up between a decision and Wait. Its reply has an outcome all the same, although the transfer has begun meanwhile.
func TestTransferWaitsForASessionThatIsHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 7, 3)
		defer c.close()
		m := c.leader()
		c.answered(m)
		turn := m.node.Turn()
		if !m.table.decide("late", "k0") {
			t.Fatal("the leader does not decide")
		}
		outcome := make(chan error, 1)
		go func() {
			time.Sleep(replyDelay / 2)
			m.node.Wait(turn, func(err error) { outcome <- err })
			m.node.Kick()
		}()
		if err := m.node.Transfer(""); err != nil {
			t.Fatal(err)
		}
		if err := <-outcome; err != nil {
			t.Error(err)
		}
	})
}

// The time of the limits goes on as it was when another node takes over as planned, whatever that node's wall clock says. At any other beginning it is
// moved.
func TestTransferLeavesTheTimeAlone(t *testing.T) {
	t.Parallel()
	const wall, elapsed = 1_800_000_000_000_000_000, 1 << 40
	dir := t.TempDir()
	addresses := []string{freeAddress(t), freeAddress(t)}
	open := func(i int, id string, ahead time.Duration) *Node {
		o := realOptions(t, id, &list{states: map[string]string{}})
		o.Clock = Clock{Wall: func() int64 { return wall + int64(ahead) }, Elapsed: func() int64 { return elapsed }}
		n, err := openAt(o, Disk{Dir: filepath.Join(dir, id), Bootstrap: i == 0}, addresses[i])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() })
		return n
	}
	a := open(0, "a", 0)
	until(t, "a leader", func() bool { return a.Turn() != 0 })
	b := open(1, "b", time.Hour)
	add(t, a, "b", addresses[1])
	if err := a.Transfer("b"); err != nil {
		t.Fatal(err)
	}
	until(t, "b leads", func() bool { return b.Turn() != 0 })
	if moved := b.Now() - wall; moved != 0 {
		t.Errorf("a planned epoch moves the time by %v", time.Duration(moved))
	}
	b.replica.abdicateAny(errors.New("a batch was lost"))
	until(t, "b leads again", func() bool { return b.Turn() != 0 })
	if moved := b.Now() - wall; moved != maxAhead {
		t.Errorf("another one moves it by %v", time.Duration(moved))
	}
}

// An imported state has no epoch, so nobody has handed it over.
func TestImportMovesTheTime(t *testing.T) {
	t.Parallel()
	const wall, elapsed = 1_800_000_000_000_000_000, 1 << 40
	o := realOptions(t, "a", &list{states: map[string]string{}})
	o.Clock = Clock{Wall: func() int64 { return wall }, Elapsed: func() int64 { return elapsed }}
	at := wall - int64(time.Hour)
	state := &Import{Clock: at, Copy: func(cursor uint64, dst *journal.Buffer) uint64 { return o.Table.Copy(at, cursor, dst) }}
	n, err := openAt(o, Disk{Dir: t.TempDir(), Bootstrap: true, Import: func() (*Import, error) { return state, nil }}, freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close() }()
	until(t, "a leader", func() bool { return n.Turn() != 0 })
	if moved := n.Now() - at; moved != maxAhead {
		t.Errorf("the first epoch moves the time by %v", time.Duration(moved))
	}
}

// A node that is about to stop hands over, and names the new leader although it no longer rebuilds its table.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCluster(t, 5, 3)
		defer k.close()
		at := k.leader()
		at.decide()
		began := time.Now()
		if err := at.node.Leave(); err != nil {
			k.fail("%v", err)
		}
		if took := time.Since(began); took > 10*time.Millisecond { // of virtual time
			k.fail("the node knows of its successor after %v", took)
		}
		next := k.leader()
		if got, want := at.node.Leader(), "client-"+string(next.address); next == at || got != want {
			k.fail("%s says that %s leads, not %s", at.address, got, want)
		}
		// Its table is not what the log says, and need not be: its clients' commands go to the next leader at once.
		if got := at.node.Peer(); got != string(next.address) || at.node.Ready() {
			k.fail("%s forwards to %q, not to %s, and is ready: %v", at.address, got, next.address, at.node.Ready())
		}
	})
}

// A transfer that Raft does not finish leaves a leader that refuses everything. That node ends, and the others
// continue.
func TestTransferThatIsNotFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCluster(t, 4, 3)
		defer k.close()
		at := k.leader()
		hang := make(chan struct{})
		at.stubborn.Store(&hang)
		if err := at.node.Transfer(""); err == nil {
			t.Error("it is transferred")
		}
		time.Sleep(2 * stuckTransfer)
		synctest.Wait()
		if err := k.ended(at); !errors.Is(err, errStuckTransfer) {
			k.fail("the node goes on: %v", err)
		}
		close(hang)
		at.kill()
		k.mu.Lock()
		k.fatal = nil
		k.mu.Unlock()
		next := k.leader()
		if !next.decide() {
			t.Error("the others do not decide")
		}
	})
}

// pausing is a table that calls a function before it is paused for the first time.
type pausing struct {
	*list
	first func()
}

func (p *pausing) Pause() {
	first := p.first
	if p.first = nil; first != nil {
		first()
	}
	p.list.Pause()
}

// A node may lose its turn, and begin another one, just before a transfer pauses its table. It does not lead with a table that is paused.
func TestTransferDuringAnotherBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tables := map[*member]*pausing{}
		c := newClusterOf(t, 6, 3, func(m *member) Table {
			m.table = &list{states: map[string]string{}}
			tables[m] = &pausing{list: m.table}
			return tables[m]
		})
		defer c.close()
		m := c.leader()
		c.answered(m)
		tables[m].first = func() {
			m.node.replica.abdicateAny(errors.New("a batch was lost"))
			for !m.node.Ready() {
				time.Sleep(time.Millisecond)
			}
			if err := m.node.open(); err != nil { // which had begun before the transfer
				c.fail("%v", err)
			}
		}
		if err := m.node.Transfer(""); err == nil {
			t.Error("it is transferred")
		}
		time.Sleep(time.Second)
		if next := c.leader(); !next.decide() {
			c.fail("%s leads, and does not decide", next.address)
		}
	})
}

// A leader without a possible successor continues to decide.
func TestTransfersThatAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	addresses := []string{freeAddress(t), freeAddress(t)}
	table := &list{states: map[string]string{}}
	a, err := openAt(realOptions(t, "a", table), Disk{Dir: filepath.Join(dir, "a"), Bootstrap: true}, addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	until(t, "a leader", func() bool { return a.Turn() != 0 })
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"transfer of the only node":    {a.Transfer(""), ErrNoSuccessor},
		"transfer to itself":           {a.Transfer("a"), ErrLeadsAlready},
		"transfer to a stranger":       {a.Transfer("z"), ErrNoMember},
		"leaving as the only node":     {a.Leave(), nil},
		"adding itself":                {a.Add("a", addresses[0]), ErrLeads},
		"removing the last voter":      {a.Remove("a"), ErrVoters},
		"demoting the last voter":      {a.Demote("a"), ErrVoters},
		"removing a stranger":          {a.Remove("z"), ErrNoMember},
		"promoting a voter":            {a.Promote("a"), nil},
		"promoting a stranger":         {a.Promote("z"), ErrNoMember},
		"an address of another's node": {a.Add("b", addresses[0]), errAny},
	} {
		if c.want == errAny && c.err == nil || c.want != errAny && !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	a.replica.leaving.Store(false)
	b, err := openAt(realOptions(t, "b", &list{states: map[string]string{}}), Disk{Dir: filepath.Join(dir, "b")}, addresses[1])
	if err != nil {
		t.Fatal(err)
	}
	add(t, a, "b", addresses[1])
	if err := a.Remove("a"); !errors.Is(err, ErrSelf) {
		t.Errorf("removing the leader: %v", err)
	}
	if err := b.Transfer(""); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a transfer by a follower: %v", err)
	}
	if err := a.Demote("b"); err != nil {
		t.Error(err)
	}
	if err := a.Transfer("b"); !errors.Is(err, ErrLags) {
		t.Errorf("a transfer to one without a vote: %v", err)
	}
	if err := a.Promote("b"); err != nil {
		t.Error(err)
	}
	if err := a.Transfer("b"); err != nil {
		t.Error(err)
	}
	until(t, "b leads", func() bool { return b.Turn() != 0 })
	if err := b.Remove("a"); err != nil {
		t.Error(err)
	}
	if all, err := b.Members(); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

var errAny = errors.New("any error")

// A member that comes back without its directory is refused until it is removed.
func TestDirectoryThatIsLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	addresses := []string{freeAddress(t), freeAddress(t), freeAddress(t)}
	open := func(i int, id, sub string) *Node {
		n, err := openAt(realOptions(t, id, &list{states: map[string]string{}}), Disk{Dir: filepath.Join(dir, sub), Bootstrap: i == 0}, addresses[i])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	a, b, c := open(0, "a", "a"), open(1, "b", "b"), open(2, "c", "c")
	defer func() { _ = a.Close() }()
	defer func() { _ = c.Close() }()
	until(t, "a leader", func() bool { return a.Turn() != 0 })
	for i, id := range []string{"b", "c"} {
		add(t, a, id, addresses[i+1])
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	lost := open(1, "b", "another")
	if err := tryAdd(t, a, "b", addresses[1]); !errors.Is(err, ErrLost) {
		t.Errorf("it is added: %v", err)
	}
	if lost.parts.who.cluster() != "" || lost.raft.LastIndex() != 0 {
		t.Errorf("it has become a member of %q with %d entries", lost.parts.who.cluster(), lost.raft.LastIndex())
	}
	if err := a.Remove("b"); err != nil {
		t.Fatal(err)
	}
	add(t, a, "b", addresses[1])
	if lost.parts.who.cluster() != a.parts.who.cluster() {
		t.Errorf("it is of the cluster %q", lost.parts.who.cluster())
	}
	if err := lost.Close(); err != nil {
		t.Error(err)
	}
}
