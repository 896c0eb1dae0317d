package torture

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"limitdb/resp"
)

// cluster is the nodes, the network between them, and the faults in force.
type cluster struct {
	t     *testing.T
	rand  *rand.Rand
	began time.Time
	// groups is how many groups of keys there are.
	groups int
	nodes  []*node // the members, and one that is a member at times
	net    *network

	kinds    []int // of the next faults
	dealt    int   // how many faults there were
	active   []fault
	history  []string
	counts   map[string]int
	guests   int            // how often the last node became a member
	joined   bool           // it is one
	changes  sync.WaitGroup // of the members, under way
	changing chan struct{}

	whenCalm func(leader *node) // nil for nothing; no client has a command under way
}

// fault is a disturbance that lasts until a time.
type fault struct {
	until time.Time
	heal  func()
}

func (c *cluster) note(what string) {
	c.counts[strings.Fields(what)[0]]++
	c.history = append(c.history, fmt.Sprintf("%7.2f %s", time.Since(c.began).Seconds(), what))
}

// for has something end after a random time.
func (c *cluster) end(most time.Duration, heal func()) {
	c.active = append(c.active, fault{time.Now().Add(100*time.Millisecond + rand.N(most)), heal})
}

// expire ends the faults that are due, or all.
func (c *cluster) expire(all bool) {
	c.active = slices.DeleteFunc(c.active, func(f fault) bool {
		if all || time.Now().After(f.until) {
			f.heal()
			return true
		}
		return false
	})
}

// members returns the nodes that never leave.
func (c *cluster) members() []*node { return c.nodes[:len(c.nodes)-1] }

// pick returns a node, half of the time the one that leads.
func (c *cluster) pick() *node {
	if c.rand.IntN(2) == 0 {
		if n := c.leader(); n != nil {
			return n
		}
	}
	return c.nodes[c.rand.IntN(len(c.members()))]
}

// leader returns the node that leads, according to the first node that answers.
func (c *cluster) leader() *node {
	for _, n := range c.nodes {
		if n.stoppedOrDown() {
			continue
		}
		if i, err := n.info(); err == nil {
			for _, l := range c.nodes {
				if l.addr == i["raft_leader"] {
					return l
				}
			}
		}
	}
	return nil
}

func (n *node) stoppedOrDown() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stopped || n.cmd == nil
}

// faultKinds returns the number of kinds of faults that oneFault chooses from. The last two are for several groups.
func (c *cluster) faultKinds() int {
	if c.groups > 1 {
		return 17
	}
	return 15
}

// kind returns the kind of the next fault: all kinds come in some order, then all in another order.
func (c *cluster) kind() int {
	if len(c.kinds) == 0 {
		c.kinds = c.rand.Perm(c.faultKinds())
	}
	k := c.kinds[0]
	c.kinds, c.dealt = c.kinds[1:], c.dealt+1
	return k
}

// oneFault does something at random.
func (c *cluster) oneFault() {
	n := c.pick()
	other := c.members()[(n.number+1+c.rand.IntN(len(c.members())-1))%len(c.members())]
	switch c.kind() {
	case 0, 1: // one way
		from, to := n.number, other.number
		if c.rand.IntN(2) == 0 {
			from, to = to, from
		}
		c.note(fmt.Sprintf("one-way-cut %d → %d", from, to))
		c.net.set(from, to, way{cut: true})
		c.end(4*time.Second, func() { c.net.set(from, to, way{}) })
	case 2, 3: // a node is cut off, or deaf, or mute
		how := c.rand.IntN(3)
		c.note(fmt.Sprintf("partition of %s, %s", n.id, []string{"both ways", "it hears nothing", "nobody hears it"}[how]))
		set := func(w way) {
			for _, o := range c.nodes {
				if o != n && how != 2 {
					c.net.set(o.number, n.number, w)
				}
				if o != n && how != 1 {
					c.net.set(n.number, o.number, w)
				}
			}
		}
		set(way{cut: true})
		c.end(5*time.Second, func() { set(way{}) })
	case 4:
		delay := time.Duration(1+c.rand.IntN(150)) * time.Millisecond
		c.note(fmt.Sprintf("delay of %v between %s and %s", delay, n.id, other.id))
		c.net.set(n.number, other.number, way{delay: delay})
		c.net.set(other.number, n.number, way{delay: delay})
		c.end(4*time.Second, func() { c.net.set(n.number, other.number, way{}); c.net.set(other.number, n.number, way{}) })
	case 5:
		c.note(fmt.Sprintf("reset of the connections between %s and %s", n.id, other.id))
		c.net.reset(n.number, other.number)
	case 6:
		c.note("pause of " + n.id)
		n.signal(syscall.SIGSTOP)
		c.end(4*time.Second, func() { n.signal(syscall.SIGCONT) })
	case 7:
		c.note("kill of " + n.id)
		n.signal(syscall.SIGKILL)
		c.end(3*time.Second, func() { n.start(c.t) })
	case 8:
		c.note("restart of " + n.id)
		n.signal(syscall.SIGCONT)
		n.signal(syscall.SIGTERM)
		c.end(time.Second, func() { n.start(c.t) })
	case 9:
		ahead := time.Duration(c.rand.IntN(7200)-3600) * time.Second
		ppm := int64(c.rand.IntN(1800) - 900)
		c.note(fmt.Sprintf("clock of %s %v ahead, %d ppm fast", n.id, ahead, ppm))
		n.setClock(c.t, ahead, ppm)
	case 10:
		c.note("full disk of " + n.id)
		if err := n.fill(true); err != nil {
			c.note("not-full " + err.Error())
			return
		}
		c.end(3*time.Second, func() {
			if err := n.fill(false); err != nil {
				c.t.Errorf("the disk of %s stays full: %v", n.id, err)
			}
			n.start(c.t)
		})
	case 11:
		c.note("snapshot of " + n.id)
		_, _ = n.askSoon("BGSAVE") // it may be down
	case 12:
		c.note("transfer")
		if l := c.leader(); l != nil {
			go func() { _, _ = l.ask("RAFT", "TRANSFER") }()
		}
	case 13, 14: // joins, and leaves
		c.guest()
	case 15:
		c.note("kill-all")
		for _, n := range c.nodes {
			n.signal(syscall.SIGKILL)
		}
		c.end(time.Second, func() {
			for _, n := range c.members() {
				n.start(c.t)
			}
			if c.joined {
				c.nodes[len(c.members())].start(c.t)
			}
		})
	case 16: // no part of its nodes is a majority, but two nodes of a part may be the majority of another group
		at := c.directory()
		if len(at) < 3 {
			return // it has no leader, or it has begun just now
		}
		c.note(fmt.Sprintf("directory-parted each %d of its nodes %v hear one another only", len(at)/2, at))
		set := func(w way) {
			for i, from := range at {
				for j, to := range at {
					if i/(len(at)/2) != j/(len(at)/2) {
						c.net.set(from, to, w)
					}
				}
			}
		}
		set(way{cut: true})
		c.end(5*time.Second, func() { set(way{}) })
	}
}

// guest makes the last node a member, or no member any more. It may fail while other things go wrong.
func (c *cluster) guest() {
	select {
	case c.changing <- struct{}{}:
	default:
		return // one change at a time
	}
	n := c.nodes[len(c.members())]
	joins := !c.joined
	c.note(fmt.Sprintf("member %s, joins: %v", n.id, joins))
	if joins {
		if !n.up() {
			c.guests++
			n.id = fmt.Sprintf("n%d-%d", n.number, c.guests)
			n.start(c.t)
		}
		c.joined = true
	}
	c.changes.Go(func() {
		defer func() { <-c.changing }()
		if joins {
			c.asLeader("RAFT", "SERVER", "ADD", n.id, n.raft)
			return
		}
		if c.groups > 1 && !c.drained(n) {
			return
		}
		if c.asLeader("RAFT", "SERVER", "REMOVE", n.id) {
			n.signal(syscall.SIGKILL)
			if err := syscall.Unmount(n.dir, 0); err != nil {
				c.t.Errorf("the disk of %s: %v", n.id, err)
			}
			n.mount(c.t)
			c.joined = false
		}
	})
}

// drained has everything leave a node, and reports whether it has.
func (c *cluster) drained(n *node) bool {
	if !c.asLeader("RAFT", "DRAIN", n.id) {
		return false
	}
	for range 300 {
		if l := c.leader(); l != nil {
			if all, err := l.askSoon("RAFT", "NODES"); err == nil && strings.Contains(fmt.Sprint(all), n.id) && holdsNothing(&all, n.id) {
				return true
			}
		}
		time.Sleep(300 * time.Millisecond)
	}
	return false
}

// holdsNothing reports whether a node has no replicas, as RAFT NODES says.
func holdsNothing(all *resp.Value, id string) bool {
	for _, row := range all.Elems {
		f := map[string]resp.Value{}
		for i := 0; i+1 < len(row.Elems); i += 2 {
			f[row.Elems[i].Text] = row.Elems[i+1]
		}
		if f["id"].Text == id {
			return f["replicas"].Int == 0 && f["state"].Text == "online"
		}
	}
	return false
}

// asLeader runs a command on the node that leads, and reports whether one has done it.
func (c *cluster) asLeader(args ...string) bool {
	for range 20 {
		if l := c.leader(); l != nil {
			if v, err := l.ask(args...); err == nil && v.Text == "OK" {
				return true
			}
		}
		time.Sleep(300 * time.Millisecond)
	}
	return false
}
