package replication

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"limitdb/internal/journal"
)

func TestThreeNodesHaveOneState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 3)
		defer c.close()
		m := c.leader()
		for range 1000 {
			m.decide()
			if c.rand.IntN(10) == 0 {
				time.Sleep(time.Duration(c.rand.IntN(5)) * time.Millisecond)
			}
		}
		c.agree()
		if len(c.accepted) != 1000 || c.unknown != 0 {
			c.fail("%d answered, %d unknown", len(c.accepted), c.unknown)
		}
		if got := m.node.Leader(); got != "client-"+string(m.address) {
			t.Errorf("the leader is at %q", got)
		}
	})
}

func TestKilledLeaderIsFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, 3)
		defer c.close()
		for range 5 {
			m := c.leader()
			for range 100 {
				m.decide()
			}
			time.Sleep(time.Duration(c.rand.IntN(3000)) * time.Microsecond)
			m.kill()
			began := time.Now()
			next := c.leader()
			t.Logf("the next leader after %v", time.Since(began))
			for range 100 {
				next.decide()
			}
			time.Sleep(time.Second)
			m.start()
			c.reconnect(nil)
			c.agree()
		}
		t.Logf("%d decisions, %d answered, %d unknown", c.decisions, len(c.accepted), c.unknown)
	})
}

// No node asks for votes while the leader is there: not in a long time in which clocks run differently, disks stall, and nodes are cut off for
// less than half of the heartbeat timeout.
func TestNoElectionWithoutCause(t *testing.T) {
	clusters, long := 1, 20*time.Minute
	if os.Getenv("LIMITDB_LONG") != "" {
		clusters, long = 20, time.Hour
	}
	for seed := range uint64(clusters) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, seed, 3)
			defer c.close()
			m := c.leader()
			term := m.node.raft.CurrentTerm()
			stalls := 0
			for began := time.Now(); time.Since(began) < long; time.Sleep(time.Duration(c.rand.IntN(2000)) * time.Millisecond) {
				m.decide()
				if c.rand.IntN(4) > 0 {
					continue
				}
				stalls++
				slow, hold := c.nodes[c.rand.IntN(3)], make(chan struct{})
				slow.hold.Store(&hold)
				if c.rand.IntN(2) > 0 {
					slow.part()
				}
				time.Sleep(time.Duration(c.rand.Int64N(int64(defaultHeartbeat / 2))))
				c.reconnect(nil)
				slow.hold.Store(nil)
				close(hold)
			}
			if now := m.node.raft.CurrentTerm(); c.leader() != m || now != term || m.node.turns != 1 || c.unknown > 0 {
				c.fail("%s led in term %d; now %s leads in %d, and has begun %d epochs; %d outcomes are unknown", m.address, term, c.leader().address, now, m.node.turns, c.unknown)
			}
			c.agree()
			t.Logf("%d decisions, %d stalls, no election", len(c.accepted), stalls)
		})
	}
}

// An accepted group proves nothing about decisions that were made after its drain began.
func TestReplyWaitsForItsOwnGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5, 1)
		defer c.close()
		m := c.leader()
		hold := make(chan struct{})
		m.hold.Store(&hold)
		answers := func() int {
			synctest.Wait()
			m.node.Kick()
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.accepted)
		}
		m.decide()
		if n := answers(); n != 0 {
			t.Errorf("%d replies before anything is written", n)
		}
		m.decide()
		hold <- struct{}{}
		if n := answers(); n != 1 {
			t.Errorf("%d replies after the first group", n)
		}
		hold <- struct{}{}
		if n := answers(); n != 2 {
			t.Errorf("%d replies after the second group", n)
		}
		m.hold.Store(nil)
	})
}

// TestReplyWithoutAChange waits for a drain that finds nothing: it is not left to the next one that has something, or that idleness brings.
func TestReplyWithoutAChange(t *testing.T) {
	for seed := range uint64(2) { // with a beat, and without
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, seed, 1)
			defer c.close()
			p := c.leader().node.Primary
			time.Sleep(idle / 2)
			began, told := time.Now(), make(chan error, 1)
			p.Wait(p.Turn(), func(err error) { told <- err })
			p.Kick()
			if err := <-told; err != nil || time.Since(began) > idle/4 {
				t.Errorf("told after %s: %v", time.Since(began), err)
			}
		})
	}
}

// Time passes while all nodes are down, as long as their machines run.
func TestTimeWhileAllAreDown(t *testing.T) {
	for _, c := range []struct {
		name      string
		boot      uint64
		text      string
		least, to time.Duration
	}{
		{"the machine runs", 1, "", 3598 * time.Second, 3620 * time.Second},
		{"the machine was started anew", 2, "", -time.Second, 20 * time.Second},
		{"the note is damaged", 1, "{", -time.Second, 20 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newCluster(t, 6, 1)
				defer k.close()
				m := k.leader()
				m.decide()
				time.Sleep(10 * time.Second)
				before := m.node.Now()
				m.kill()
				if c.text != "" {
					if err := os.WriteFile(filepath.Join(m.dir, noteFile), []byte(c.text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Hour)
				m.boot.Store(c.boot)
				m.start()
				after := k.leader().node.Now()
				if went := time.Duration(after - before); went < c.least || went > c.to {
					t.Errorf("the time went on by %v", went)
				}
			})
		})
	}
}

// A reply that waits in one epoch is not sent because of a later one.
func TestReplyOfAnEpochThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, 1)
		defer c.close()
		m := c.leader()
		old := m.node.Turn()
		m.node.replica.abdicateAny(ErrUnknown)
		if next := c.leader().node.Turn(); next == old {
			t.Fatal("a turn came twice")
		}
		told := make(chan error, 1)
		m.node.Wait(old, func(err error) { told <- err })
		m.node.Kick()
		if err := <-told; err != ErrUnknown {
			t.Error(err)
		}
	})
}

// A replica that is removed while it leads, and comes back in the same process, counts its turns on: a reply of its last turn before that must not
// be taken for one of its first turn afterwards.
func TestTurnsNeverRepeatInAProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, 1)
		defer c.close()
		m := c.nodes[0]
		m.kill()
		m.turns = new(atomic.Uint64)
		m.start()
		old := c.leader().node.Turn()
		m.kill()
		m.start()
		if next := c.leader().node.Turn(); next == 0 || next == old || m.node.Status().Epochs != 1 {
			t.Fatalf("turn %d comes after turn %d; the node has begun %d epochs", next, old, m.node.Status().Epochs)
		}
		told := make(chan error, 1)
		m.node.Wait(old, func(err error) { told <- err })
		m.node.Kick()
		if err := <-told; err != ErrUnknown {
			t.Error(err)
		}
	})
}

// A leader that was cut off has made decisions that will never be accepted, so it rebuilds its table.
func TestDeposedLeaderForgetsWhatWasNotAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 11, 3)
		defer c.close()
		old := c.leader()
		for range 10 {
			old.decide()
		}
		c.agree()
		old.part()
		for range 10 {
			old.decide()
		}
		old.table.decide("lost", "a key that nobody else changes")
		next := old
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			if l := c.leader(); l != old {
				next = l
				break
			}
		}
		for range 10 {
			next.decide()
		}
		c.reconnect(map[*member]bool{})
		c.agree()
		if c.unknown == 0 {
			t.Error("no decision of the old leader was unknown")
		}
	})
}

// A snapshot of a node whose epoch is open is published when all that it has is in the log.
func TestSnapshotWaitsForWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4, 3)
		defer c.close()
		m := c.leader()
		m.decide()
		m.node.Kick()
		synctest.Wait()
		for _, o := range c.nodes {
			if o != m {
				o.part()
			}
		}
		for range 10 {
			m.decide()
		}
		if err := m.node.Snapshot(); err == nil {
			t.Error("a snapshot has what is in no log")
		}
		if all, err := m.node.parts.snapshots.List(); len(all) != 0 || err != nil {
			t.Errorf("%d snapshots, %v", len(all), err)
		}
		c.reconnect(nil)
		c.agree()
		if err := c.leader().node.Snapshot(); err != nil {
			t.Error(err)
		}
	})
}

// A node stops while groups that are accepted wait for Raft's goroutine for Apply. Raft forgets such groups when it is shut down.
func TestStopWhileGroupsWait(t *testing.T) {
	for seed := range uint64(10) { // whether Raft forgets them is random
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, seed, 1)
			m := c.leader()
			busy := make(chan struct{})
			m.table.decide("first", "k")
			m.node.Wait(m.node.Turn(), func(error) { <-busy })
			m.node.Kick()
			synctest.Wait()
			m.decide()
			m.node.Kick()
			synctest.Wait()
			time.AfterFunc(time.Second, func() { close(busy) })
			c.close()
		})
	}
}

// A node stops while new members wait for that goroutine. Whoever adds them gets an answer.
func TestStopWhileMembersAreAdded(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			busy := make(chan struct{})
			var waits atomic.Bool
			c := newClusterOf(t, seed, 1, func(m *member) Table {
				m.changed = func() {
					if waits.CompareAndSwap(true, false) { // by that goroutine, for the first member
						<-busy
					}
				}
				m.table = &list{states: map[string]string{}}
				return m.table
			})
			node := c.leader().node
			time.Sleep(time.Second / 2) // nothing else is under way
			waits.Store(true)
			for _, name := range []string{"one", "two"} {
				go func() { c.note("%s is added: %v", name, node.Add(name, name)) }() // synctest waits for the answer
				synctest.Wait()
			}
			time.AfterFunc(time.Second/4, func() { close(busy) })
			c.close()
			if waits.Load() {
				t.Error("that goroutine was free")
			}
			if err := node.Snapshot(); err == nil {
				t.Error("a node that has stopped makes a snapshot")
			}
		})
	}
}

// endless is a table that is copied for ever.
type endless struct {
	*list
	step func()
}

func (e endless) Copy(_ int64, cursor uint64, dst *journal.Buffer) uint64 {
	e.step()
	dst.Set(1, 201, []byte("key"), make([]byte, blockBytes))
	return cursor + 1
}

// A node that stops does not first finish its snapshot, however large its table is.
func TestStopDuringASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, late := make(chan struct{}, 1), 0
		var stops atomic.Bool
		c := newClusterOf(t, 1, 1, func(m *member) Table {
			m.table = &list{states: map[string]string{}}
			return endless{m.table, func() {
				signal(begun)
				if stops.Load() {
					if late++; late > 10 {
						panic("the snapshot goes on")
					}
				}
			}}
		})
		m := c.leader()
		c.answered(m)
		go func() { c.note("a snapshot: %v", m.node.Snapshot()) }()
		<-begun
		stops.Store(true)
		c.close()
	})
}

// onApply is a table that calls a function for each group that is applied.
type onApply struct {
	*list
	do func()
}

func (o onApply) Apply(now int64, records []journal.Record) error {
	o.do()
	return o.list.Apply(now, records)
}

// A node that stops does not first rebuild its table, however long its log is.
func TestStopDuringARebuilding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		applied, closed := 0, make(chan error)
		var node *Node
		c := newClusterOf(t, 1, 1, func(m *member) Table {
			m.table = &list{states: map[string]string{}}
			return onApply{m.table, func() {
				if applied++; applied == 1 {
					go func() { closed <- node.Close() }()
					<-node.life.stop
				}
			}}
		})
		m := c.leader()
		for range 10 {
			c.answered(m)
		}
		node = m.node
		node.replica.abdicateAny(errTransfer)
		if err := <-closed; err != nil || applied > 1 {
			t.Errorf("%v; %d groups were applied, of which 1 before the node stopped", err, applied)
		}
		if err := node.replica.load(new(machine), strings.NewReader("")); !errors.Is(err, raft.ErrRaftShutdown) {
			t.Errorf("a snapshot is loaded after that: %v", err)
		}
		if len(c.fatal) > 0 {
			t.Errorf("it failed: %v", c.fatal)
		}
	})
}

// Everything at random: decisions on whoever leads, nodes that are cut off, killed, started again and ask for
// snapshots, and clocks that are wrong.
func TestFaultsAtRandom(t *testing.T) {
	seeds := 8
	if os.Getenv("LIMITDB_LONG") != "" {
		seeds = 1000
	}
	first, _ := strconv.ParseUint(cmp.Or(os.Getenv("RAPID_SEED"), fmt.Sprint(rand.Uint64())), 0, 64)
	answered, unknown, epochs := 0, 0, uint64(0)
	installed := 0
	for i := range seeds {
		seed := first + uint64(i)
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, seed, 3)
				defer c.close()
				c.leader() // the first epoch begins at a wall clock's time, which is right so far
				c.faults(60)
				c.agree()
				answered, unknown = answered+len(c.accepted), unknown+c.unknown
				for _, m := range c.nodes {
					epochs += m.node.turns
				}
				for _, h := range c.history {
					if strings.Contains(h, "Installed remote") {
						installed++
					}
				}
			})
		}) {
			return
		}
	}
	t.Logf("%d answered, %d unknown, %d epochs, %d snapshots installed", answered, unknown, epochs, installed)
}

func (c *cluster) faults(rounds int) {
	cut := map[*member]bool{}
	for range rounds {
		for range c.rand.IntN(200) {
			c.nodes[c.rand.IntN(len(c.nodes))].decide()
			if c.rand.IntN(20) == 0 {
				time.Sleep(time.Duration(c.rand.IntN(3000)) * time.Microsecond)
			}
		}
		m := c.nodes[c.rand.IntN(len(c.nodes))]
		switch what := c.rand.IntN(9); {
		case what == 0 && m.node != nil:
			m.kill()
		case what <= 2 && m.node == nil:
			c.note("%s starts", m.address)
			m.start()
			c.reconnect(cut)
		case what == 3 && m.node != nil:
			c.note("%s is cut off", m.address)
			cut[m] = true
			if c.rand.IntN(2) == 0 {
				m.part()
			} else {
				m.deafen()
			}
		case what == 4:
			c.note("the network is whole")
			clear(cut)
			c.reconnect(cut)
		case what == 5 && m.node != nil:
			node := m.node
			go func() { c.note("%s: a snapshot: %v", m.address, node.Snapshot()) }()
		case what == 6:
			m.offset.Store((c.rand.Int64N(7200) - 3600) * int64(time.Second))
			c.note("%s: the clock is %d s off", m.address, m.offset.Load()/1e9)
		}
		time.Sleep(time.Duration(c.rand.IntN(1500)) * time.Millisecond)
	}
	for _, m := range c.nodes {
		if m.node == nil {
			m.start()
		}
	}
	clear(cut)
	c.reconnect(cut)
	time.Sleep(5 * time.Second)
}

// reconnect connects all that are up and not cut off.
func (c *cluster) reconnect(cut map[*member]bool) {
	for _, a := range c.nodes {
		for _, b := range c.nodes {
			if a != b && a.node != nil && b.node != nil && !cut[a] && !cut[b] {
				a.trans.Connect(b.address, b.trans)
			}
		}
	}
}
