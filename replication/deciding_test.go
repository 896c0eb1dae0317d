package replication

import (
	"testing"
	"testing/synctest"
	"time"

	"limitdb/internal/journal"
)

// With replies that do not wait, a leader decides for no longer than a lease timeout after its oldest unaccepted
// change, whether its disk hangs or it is cut off. So it grants what another leader does not know of for no longer than
// that.
func TestLeaderStopsDeciding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 7, 3)
		defer c.close()
		m := c.leader()
		if m.node.SetTimeouts(m.node.lease-1, time.Second) == nil {
			t.Error("a heartbeat timeout below the lease timeout is accepted")
		}
		// decides has the node decide each millisecond, and returns for how long it does.
		decides := func() (took time.Duration) {
			began := time.Now()
			for range 1500 {
				if m.node.Deciding() == 0 {
					return time.Since(began)
				}
				m.decide()
				time.Sleep(time.Millisecond)
			}
			return time.Since(began)
		}
		if took := decides(); took < 1500*time.Millisecond {
			t.Fatalf("it stops after %v", took)
		}
		lease := m.node.lease
		bound := lease + lease/100 // a clock may be a thousandth off, and a drain begins a millisecond after a change

		hang := make(chan struct{})
		m.hold.Store(&hang)
		if took := decides(); took < lease/2 || took > bound || m.node.Turn() == 0 {
			t.Errorf("its disk hangs: it stops after %v, in turn %d", took, m.node.Turn())
		}
		m.hold.Store(nil)
		close(hang)
		time.Sleep(100 * time.Millisecond)
		if m.node.Deciding() == 0 {
			t.Error("it does not go on")
		}

		// Nothing is in flight: the empty group of each second shows that a majority is there.
		time.Sleep(10 * time.Second)
		if m.node.Deciding() == 0 {
			t.Error("it stops when it has nothing to do")
		}
		m.part()
		if took := decides(); took > bound {
			t.Errorf("it is cut off: it stops after %v", took)
		}
		c.reconnect(nil)
		m = c.leader()
		m.part()
		for began := time.Now(); m.node.Deciding() != 0; time.Sleep(time.Millisecond) {
			if time.Since(began) > idle+lease+lease/100 {
				t.Fatal("it is cut off with nothing to do, and goes on")
			}
		}
		c.reconnect(nil)
		c.agree()
	})
}

// slowDrain is a table whose drain takes a while. It notes when its last drain began, and up to which expiry the last cut
// records states whole.
type slowDrain struct {
	*list
	m              *member
	began, reached int64
}

// Cut is the list's.
func (d *slowDrain) Cut(reached int64) {
	d.reached = reached
	d.list.Cut(reached)
}

// Drain is the list's, after 3 ms.
func (d *slowDrain) Drain(dst *journal.Buffer, limit int) (more bool) {
	d.began = d.m.node.Now()
	time.Sleep(3 * time.Millisecond)
	return d.list.Drain(dst, limit)
}

// While the leader drains a group, it decides what the next group will have. So the next group may change a part of a state
// that has expired at the clock of this one, and until then no node drops that state. What a node may have dropped by
// then, this group has whole.
func TestFollowersKeepWhatTheNextGroupMayChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tables := map[*member]*slowDrain{}
		c := newClusterOf(t, 3, 3, func(m *member) Table {
			m.table = &list{states: map[string]string{}}
			tables[m] = &slowDrain{list: m.table, m: m}
			return tables[m]
		})
		defer c.close()
		m := c.leader()
		for range 20 {
			c.answered(m)
			time.Sleep(100 * time.Millisecond) // the others hear of it
			synctest.Wait()
			for _, follower := range c.nodes {
				at, last := follower.node.Expired(), tables[m]
				if follower == m {
					continue
				}
				if at == 0 || at > last.began {
					t.Errorf("%s drops what has expired at %d, and the next group may have a decision of %d", follower.address, at, last.began)
				}
				if at > last.reached {
					t.Errorf("%s drops what has expired at %d, and the last group has only what has expired at %d whole", follower.address, at, last.reached)
				}
			}
		}
	})
}
