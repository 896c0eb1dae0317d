package torture

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"limitdb/resp"
)

// mayBegin is for how long a command may still begin after its client was told that the outcome is unknown, as
// docs/replication.md says.
const mayBegin = 2 * time.Second

// Commands are under way from a node to the leader when the network between the two is cut, their clients are told that the outcome is unknown, and
// the network is whole again. What has not begun in the time that the docs give never begins.
func TestPartition(t *testing.T) { isolated(t, partitions) }

func partitions(t *testing.T) {
	c := startCluster(t, rand.Uint64(), 1)
	defer c.report()
	lasts := []time.Duration{5 * time.Second}
	if os.Getenv("LIMITDB_LONG") == "1" {
		lasts = append(lasts, 20*time.Second, 45*time.Second)
	}
	for i, last := range lasts {
		c.partition(fmt.Sprintf("carried late %d", i), last, c.carriesLate)
		c.partition(fmt.Sprintf("dropped %d", i), last, c.drops)
	}
}

// carriesLate has the network between two nodes carry nothing, and everything once it is whole again, even what a
// connection has sent that was closed meanwhile.
func (c *cluster) carriesLate(a, b int) (heal func()) {
	both := func(w way) {
		c.net.set(a, b, w)
		c.net.set(b, a, w)
	}
	both(way{cut: true})
	return func() { both(way{}) }
}

// drops has the system drop all packets between two nodes.
func (c *cluster) drops(a, b int) (heal func()) {
	rules := func(what string) {
		for _, port := range []string{c.net.ports[a][b], c.net.ports[b][a]} {
			for _, side := range []string{"--sport", "--dport"} {
				sh(c.t, fmt.Sprintf("iptables -w %s OUTPUT -p tcp %s %s -j DROP", what, side, port))
			}
		}
	}
	rules("-I")
	return func() { rules("-D") }
}

func (c *cluster) partition(name string, last time.Duration, cut func(a, b int) (heal func())) {
	t := c.t
	c.note("partition, " + name)
	c.await("a leader that all know", func() bool {
		l := c.leader()
		for _, n := range c.members() {
			if l == nil {
				return false
			}
			if i, err := n.info(); err != nil || i["raft_leader"] != l.addr {
				return false
			}
		}
		return true
	})
	lead := c.leader()
	near := c.nodes[(lead.number+1)%len(c.members())]
	key := func(kind string, i int) string {
		return strings.ReplaceAll(name, " ", "-") + ":" + kind + fmt.Sprint(i)
	}
	const clients = 20
	var conns [clients]net.Conn
	for i := range conns {
		conn, err := net.Dial("tcp", near.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		_, _ = fmt.Fprint(conn, line("SET", key("lock", i), "mine"))
		if v, err := resp.ReadReply(bufio.NewReader(conn), 1<<20); err != nil || v.Text != "OK" {
			t.Fatalf("%s: SET through %s: %v, %v", name, near.id, v, err)
		}
		conns[i] = conn
	}
	heal, began := cut(near.number, lead.number), time.Now()
	for i, conn := range conns {
		_, _ = fmt.Fprint(conn, line("SET", key("late", i), "late")+line("DEL", key("lock", i)))
	}
	unknown := 0
	for i, conn := range conns {
		r := bufio.NewReader(conn)
		for range 2 {
			v, err := resp.ReadReply(r, 1<<20)
			switch {
			case err != nil:
				t.Errorf("%s: client %d: %v", name, i, err)
			case strings.HasPrefix(v.Text, "UNKNOWNOUTCOME"):
				unknown++
			}
		}
	}
	time.Sleep(mayBegin)
	if l := c.leader(); l != lead {
		t.Fatalf("%s: another node leads", name)
	}
	// The locks are free, or their time is over: others take them.
	existed := map[string]bool{}
	for i := range conns {
		v, err := lead.ask("EXISTS", key("late", i))
		if err != nil {
			t.Fatal(err)
		}
		existed[key("late", i)] = v.Int == 1
		if v, err := lead.ask("SET", key("lock", i), "theirs"); err != nil || v.Text != "OK" {
			t.Fatalf("%s: SET of a lock: %v, %v", name, v, err)
		}
	}
	time.Sleep(last - time.Since(began))
	heal()
	c.await("the clients of a node that was cut off are served", func() bool {
		v, err := near.askSoon("SET", key("healed", 0), "1")
		return err == nil && v.Text == "OK" && unsent(t) == 0
	})
	time.Sleep(time.Second) // for what a proxy has read, but not passed on
	removed, late := 0, 0
	for i := range conns {
		lock, err1 := lead.ask("GET", key("lock", i))
		set, err2 := lead.ask("EXISTS", key("late", i))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if lock.Text != "theirs" {
			removed++
		}
		if (set.Int == 1) != existed[key("late", i)] {
			late++
		}
	}
	t.Logf("%s for %v: %d outcomes are unknown", name, last, unknown)
	if unknown == 0 || removed+late > 0 {
		t.Errorf("%s: of %d commands under way, %d SET began too late, and %d DEL removed the lock of the next holder", name, unknown, late, removed)
	}
}

// unsent returns the number of connections that were closed and still have something to send.
func unsent(t *testing.T) (n int) {
	b, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	const finWait1 = "04"
	for l := range strings.Lines(string(b)) {
		if f := strings.Fields(l); len(f) > 3 && f[3] == finWait1 {
			n++
		}
	}
	return n
}
