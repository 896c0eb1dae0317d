package server

import (
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"limitdb/server/clients"
)

// TestForwardedClientIsServedAsWritten checks statements of docs/replication.md about clients of a node that does not lead.
func TestForwardedClientIsServedAsWritten(t *testing.T) {
	n := newTwoNodes(t)
	c, here, there := n.follower.client(), n.follower.client(), n.leader.client()

	// The leader has the scripts.
	sha := c.send("SCRIPT LOAD \"return 1\"\r\n", 1)[0]
	if got := there.do("SCRIPT", "EXISTS", strings.Trim(sha, `"`)); got.Elems[0].Int != 1 {
		t.Errorf("SCRIPT LOAD: %s, and the leader has %+v", sha, got)
	}
	// The leader also has the slow log and the keys that are denied often. MONITOR on both nodes shows the command.
	there.do("CONFIG", "SET", "slowlog-log-slower-than", "0")
	monitors := []*testClient{n.follower.client(), n.leader.client()}
	for _, m := range monitors {
		m.do("MONITOR")
	}
	c.gets("RL.TAKE denied GCRA 1/d\r\nRL.TAKE denied GCRA 1/d COST 2\r\n", "[0 1 0 -1 86400000]", "[1 1 0 -1 86400000]")
	for _, m := range monitors {
		for seen := ""; !strings.Contains(seen, `"denied"`); seen += string(m.conn.take()) {
			runtime.Gosched()
		}
	}
	if got := line(there.do("SLOWLOG", "GET", "-1")); !strings.Contains(got, "denied") {
		t.Errorf("SLOWLOG of the leader: %s", got)
	}
	if got := line(here.do("SLOWLOG", "GET", "-1")); strings.Contains(got, "denied") {
		t.Errorf("SLOWLOG of the node: %s", got)
	}
	if got := c.send("RL.TOP\r\n", 1)[0]; !strings.Contains(got, `"denied"`) {
		t.Errorf("RL.TOP: %s", got)
	}
	// At the leader, CLIENT UNBLOCK takes the id that the leader lists.
	c.s.Data([]byte("RL.TAKE denied GCRA 1/d WAIT 2d\r\n"))
	for unblocked := int64(0); unblocked == 0; runtime.Gosched() {
		for _, l := range strings.Split(there.do("CLIENT", "LIST").Text, "\n") {
			if strings.Contains(l, " fd=-1 ") {
				unblocked += there.do("CLIENT", "UNBLOCK", strings.TrimPrefix(strings.Fields(l)[0], "id=")).Int
			}
		}
	}
	if got := c.receive(1); !strings.HasPrefix(got[0], "[1 ") {
		t.Errorf("CLIENT UNBLOCK: %q", got)
	}
	// CLIENT PAUSE on a node holds back its clients, and on the leader all clients.
	for _, at := range []*testServer{n.follower, n.leader} {
		admin := at.client()
		admin.do("CLIENT", "PAUSE", "100000", "ALL")
		before := at.clients.Parked.Load()
		c.s.Data([]byte("RL.PEEK other GCRA 1/d\r\n"))
		for at.clients.Parked.Load() == before {
			runtime.Gosched()
		}
		if got := string(c.conn.take()); got != "" {
			t.Errorf("while clients are paused: %q", got)
		}
		admin.do("CLIENT", "UNPAUSE")
		if got := c.receive(1); got[0] != "[0 1 0 -1 86400000]" {
			t.Errorf("after the pause: %q", got)
		}
	}
	// A command of more than 16 MB is an error, and the next one is served.
	n.follower.client().do("CONFIG", "SET", "client-query-buffer-limit", "128mb", "proto-max-bulk-len", "64mb")
	long := "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$" + strconv.Itoa(forwardMost) + "\r\n" + strings.Repeat("x", forwardMost) + "\r\n"
	c.gets(long+"GET k\r\n", "-"+errForwardSize, "nil")
	// CLIENT CACHING YES cannot be forwarded.
	c.send("HELLO 3\r\n", 1)
	c.gets("CLIENT TRACKING ON OPTIN\r\nCLIENT CACHING YES\r\nGET foo\r\n", "OK", "OK", "-MOVED 12182 127.0.0.1:7", `["invalidate" ["foo"]]`)
}

// A client of another node takes no place from the leader's own, and is counted at its own node only.
func TestForwardedClientsTakeNoPlace(t *testing.T) {
	n := newTwoNodes(t)
	ask := "RL.PEEK a GCRA 1/m\r\n"
	admin := n.leader.client()
	admin.do("CONFIG", "SET", "maxclients", "2")
	theirs := []*testClient{n.follower.client(), n.follower.client()}
	for _, c := range theirs {
		c.gets(ask, "[0 1 0 -1 60000]")
	}
	own := n.leader.client()
	own.gets(ask, "[0 1 0 -1 60000]")
	if got := string(n.leader.client().conn.take()); got != "-"+errMaxClients+"\r\n" {
		t.Errorf("a third client of the leader gets %q", got)
	}
	if leader, follower := n.leader.Figures().Clients.Connected, n.follower.Figures().Clients.Connected; leader != 2 || follower != 2 {
		t.Errorf("the leader counts %d, the follower %d", leader, follower)
	}
	if n.leader.clients.Len() != 4 {
		t.Errorf("CLIENT LIST of the leader has %d", n.leader.clients.Len())
	}
}

// The limits on a client of another node are those of that node, but for the memory that the leader holds for it.
func TestLimitsOfForwardedClients(t *testing.T) {
	n := newTwoNodes(t)
	const peek, peeked = "RL.PEEK a GCRA 1/m\r\n", "[0 1 0 -1 60000]"
	c := n.follower.client()
	c.gets(peek, peeked)
	// The leader's limits close its own clients, and refuse further ones.
	own := n.leader.client()
	strict := []string{"timeout", "1", "auth-timeout", "1", "command-timeout", "1", "write-timeout", "1"}
	own.do(append([]string{"CONFIG", "SET", "maxclients", "1"}, strict...)...)
	later := n.leader.clock.Now() + int64(time.Hour)
	n.leader.clients.Check(later)
	if !errors.Is(own.conn.reason(), clients.ErrIdle) {
		t.Errorf("the leader's own client: %v", own.conn.reason())
	}
	c.gets(peek, peeked)
	n.follower.client().gets(peek, peeked)
	// Those of its own node close it.
	n.follower.client().do(append([]string{"CONFIG", "SET"}, strict...)...)
	n.follower.clients.Check(later)
	if !errors.Is(c.conn.reason(), clients.ErrIdle) {
		t.Errorf("the node's client: %v", c.conn.reason())
	}

	// Replies that are longer than the leader allows, and what it holds for a client beyond its memory for all of them.
	for directive, value := range map[string]string{"client-output-buffer-limit": "normal 65536 0 0", "maxmemory-clients": "1mb"} {
		n := newTwoNodes(t)
		c := n.follower.client()
		c.gets("SETRANGE k 60000 x\r\n", "60001")
		n.leader.client().do("CONFIG", "SET", directive, value)
		n.primary.holds.Store(true)
		c.s.Data([]byte(strings.Repeat("GET k\r\n", 30)))
		for c.conn.reason() == nil {
			n.leader.clients.Check(n.leader.clock.Now())
			select {
			case <-c.conn.woken:
				c.s.Resume()
			default:
				runtime.Gosched()
			}
		}
		if !errors.Is(c.conn.reason(), errClosedByLead) {
			t.Errorf("%s of the leader: %v", directive, c.conn.reason())
		}
	}
}
