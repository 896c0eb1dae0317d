package server

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"limitdb/engine"
	"limitdb/server/clients"
	"limitdb/uplink"
)

// The leader runs the whole transaction of another node's client. If that node does not lead, the transaction is queued again.
func TestForwardedTransaction(t *testing.T) {
	n := newTwoNodes(t)
	c := n.follower.client()
	c.gets("RL.TAKE a GCRA 1/m\r\nMULTI\r\nRL.TAKE a GCRA 1/m\r\nPING\r\nRL.TAKE b GCRA 1/m\r\nEXEC\r\nPING\r\n",
		"[0 1 0 -1 60000]", "OK", "QUEUED", "QUEUED", "QUEUED", "[[1 1 0 60000 60000] PONG [0 1 0 -1 60000]]", "PONG")
	c.gets("MULTI\r\nPING\r\nEXEC\r\nMULTI\r\nRL.TAKE\r\nEXEC\r\n",
		"OK", "QUEUED", "[PONG]", "OK", "-"+n.leader.table.find([]byte("RL.TAKE")).WrongArity(), "-EXECABORT Transaction discarded because of previous errors.")

	// The uplink ends, and the client gets one reply.
	n.primary.holds.Store(true)
	c.s.Data([]byte("MULTI\r\nRL.TAKE c GCRA 1/m\r\nEXEC\r\n"))
	for n.leader.engine.Stats().Keys < 3 {
		runtime.Gosched()
	}
	n.cut()
	if got := strings.Join(c.receive(3), " "); got != "OK QUEUED -"+errUnknownOutcome {
		t.Errorf("%q", got)
	}
	// The other node stops leading, and this node leads.
	n.primary.holds.Store(false)
	n.connect()
	n.leader.group.Follow()
	c.s.Data([]byte("MULTI\r\nRL.TAKE d GCRA 1/m\r\nEXEC\r\nPING\r\n"))
	n.refused(c)
	n.followerLeads()
	if got := strings.Join(c.receive(4), " "); got != "OK QUEUED [[0 1 0 -1 60000]] PONG" {
		t.Errorf("%q", got)
	}
}

// lead makes the follower lead on a table of its own, or follow again.
func (n *twoNodes) lead(on bool) {
	if on {
		n.other.turn = 1
		n.other.holds.Store(false)
		n.cut()
		n.follower.group.Lead(n.follower.engine, 0)
		return
	}
	n.other.turn = 0
	n.follower.group.Follow()
	n.connect()
}

// depose makes the leader lose its leadership and win it again, with another table.
func (n *twoNodes) depose() {
	n.leader.group.Follow()
	n.leader.states().Close()
	n.leader.group.Lead(engine.New(engine.Options{Seed: 2, Shards: 1}), 0)
}

// The leader watches keys for the clients of other nodes. EXEC does nothing if a key has changed, if another node leads, and if
// the same node leads again or is asked over another uplink.
func TestForwardedWatch(t *testing.T) {
	n := newTwoNodes(t)
	const ok = "OK QUEUED [OK]"
	const aborted = "OK QUEUED nil"
	for name, c := range map[string]struct {
		meanwhile func(c *testClient)
		want      string
	}{
		"nothing":                        {func(*testClient) {}, ok},
		"another key":                    {func(*testClient) { n.leader.client().do("SET", "other", "1") }, ok},
		"a read":                         {func(c *testClient) { c.gets("GET k\r\n", `"0"`) }, ok},
		"the key, at the leader":         {func(*testClient) { n.leader.client().do("SET", "k", "1") }, aborted},
		"the key, by the client":         {func(c *testClient) { c.gets("SET k 1\r\n", "OK") }, aborted},
		"the key, and another watch":     {func(c *testClient) { c.gets("SET k 1\r\nWATCH l\r\n", "OK", "OK") }, aborted},
		"UNWATCH":                        {func(c *testClient) { c.gets("SET k 1\r\nUNWATCH\r\n", "OK", "OK") }, ok},
		"DISCARD":                        {func(c *testClient) { c.gets("SET k 1\r\nMULTI\r\nDISCARD\r\n", "OK", "OK", "OK") }, ok},
		"UNWATCH and WATCH":              {func(c *testClient) { c.gets("SET k 1\r\nUNWATCH\r\nWATCH k\r\n", "OK", "OK", "OK") }, ok},
		"another table":                  {func(*testClient) { n.depose() }, aborted},
		"another uplink":                 {func(*testClient) { n.cut(); n.connect() }, aborted},
		"another uplink, and a command":  {func(c *testClient) { n.cut(); n.connect(); c.gets("PING\r\nSET l 1\r\n", "PONG", "OK") }, aborted},
		"another uplink and watch":       {func(c *testClient) { n.cut(); n.connect(); c.gets("WATCH l\r\n", "OK") }, aborted},
		"no uplink":                      {func(*testClient) { n.link.Load().Close(); n.connect() }, aborted},
		"this node leads":                {func(*testClient) { n.lead(true) }, aborted},
		"this node has led":              {func(*testClient) { n.lead(true); n.lead(false) }, aborted},
		"this node leads, another watch": {func(c *testClient) { n.lead(true); c.gets("WATCH l\r\n", "OK"); n.lead(false) }, aborted},
		"this node has led, and UNWATCH": {func(c *testClient) { n.lead(true); n.lead(false); c.gets("UNWATCH\r\n", "OK") }, ok},
	} {
		client := n.follower.client()
		n.leader.client().do("SET", "k", "0")
		client.gets("WATCH k\r\n", "OK")
		c.meanwhile(client)
		if got := strings.Join(client.send("MULTI\r\nSET m 1\r\nEXEC\r\n", 3), " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if client.s.multi != nil {
			t.Errorf("%s: a key is still watched", name)
		}
		if n.other.turn != 0 {
			n.lead(false)
		}
	}
	c := n.follower.client()
	c.gets("SET k 0\r\nWATCH k\r\nMULTI\r\nEXEC\r\nWATCH k l\r\nGET k\r\nMULTI\r\nWATCH k\r\nSET k 2\r\nEXEC\r\n",
		"OK", "OK", "OK", "[]", "OK", `"0"`, "OK", "-ERR WATCH inside MULTI is not allowed", "QUEUED", "[OK]")
	c.send("READONLY\r\n", 1)
	c.gets("WATCH foo\r\n", "-MOVED 12182 127.0.0.1:7")
}

// A leader's own client watches a key. If another node leads then, or the same node again, EXEC does nothing.
func TestWatchOfALeaderThatIsDeposed(t *testing.T) {
	n := newTwoNodes(t)
	for name, meanwhile := range map[string]func(){
		"it leads again":     n.depose,
		"another node leads": func() { n.leader.group.Follow() },
		"another node can be reached": func() {
			n.leader.opts.Replication.Uplink = func(int) *uplink.Link { return n.link.Load() }
			n.leader.group.Follow()
		},
	} {
		c := n.leader.client()
		c.gets("WATCH k\r\n", "OK")
		meanwhile()
		if got := strings.Join(c.send("MULTI\r\nSET m 1\r\nEXEC\r\n", 3), " "); got != "OK QUEUED nil" {
			t.Errorf("%s: %s", name, got)
		}
		n.leader.group.Lead(n.leader.states(), 0)
	}
}

// Two clients of a node that does not lead run transactions while keys, tables and uplinks change at any point. EXEC runs exactly if none of the
// keys that it watches has changed.
func TestWatchModel(t *testing.T) {
	n := newTwoNodes(t)
	rapid.Check(t, func(t *rapid.T) {
		type watcher struct {
			*testClient
			keys    []string // watched
			open    bool     // after MULTI
			changed bool
		}
		both := []*watcher{{testClient: n.follower.client()}, {testClient: n.follower.client()}}
		defer func() {
			for _, c := range both {
				c.hangUp(clients.ErrEOF)
			}
		}()
		stored := func(key string) {
			for _, c := range both {
				c.changed = c.changed || slices.Contains(c.keys, key)
			}
		}
		lost := func() {
			for _, c := range both {
				c.changed = c.changed || len(c.keys) > 0
			}
		}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			c := rapid.SampledFrom(both).Draw(t, "client")
			key := rapid.SampledFrom([]string{"k", "l"}).Draw(t, "key")
			in, want := "", "OK"
			step := rapid.SampledFrom([]string{"watch", "watch", "multi", "multi", "set", "set", "unwatch", "discard", "exec", "exec", "depose", "uplink", "lead"}).Draw(t, "step")
			switch step {
			case "depose":
				n.depose()
			case "uplink":
				n.cut()
				n.connect()
			case "lead":
				n.lead(true)
				n.lead(false)
			case "watch":
				if in = "WATCH " + key; c.open {
					want = "-ERR WATCH inside MULTI is not allowed"
					break
				}
				c.keys = append(c.keys, key)
			case "set":
				if in = "SET " + key + " 1"; c.open {
					want = "QUEUED"
					break
				}
				stored(key)
			case "multi":
				if in = "MULTI"; c.open {
					want = "-ERR MULTI calls can not be nested"
				}
				c.open = true
			case "unwatch":
				if in = "UNWATCH"; c.open {
					want = "QUEUED"
					break
				}
				c.keys, c.changed = nil, false
			case "discard":
				if in = "DISCARD"; !c.open {
					want = "-ERR DISCARD without MULTI"
					break
				}
				c.keys, c.open, c.changed = nil, false, false
			case "exec":
				if in = "EXEC"; !c.open {
					want = "-ERR EXEC without MULTI"
					break
				}
				want = "["
				if c.changed {
					want = "nil"
				} else {
					queued := c.s.multi.queued
					c.keys = nil
					for _, q := range queued {
						if q.cmd.Name == "SET" {
							stored(string(q.args[1]))
						}
					}
				}
				c.keys, c.open, c.changed = nil, false, false
			}
			if in == "" {
				lost()
				continue
			}
			if got := c.send(in+"\r\n", 1)[0]; !strings.HasPrefix(got, want) {
				t.Fatalf("%s: %s, want %s", in, got, want)
			}
		}
	})
}

// With several groups, what a client watches and what its transaction names must have one slot, whichever nodes lead them: else the client is told so, and
// not that a key has changed. A transaction without commands needs no node that leads.
func TestWatchOfSeveralGroups(t *testing.T) {
	n := newGroupNodes(t)
	const crosses = "-" + errCrossSlot
	for at := range n.nodes {
		c := n.nodes[at].client()
		for g := 1; g <= 4; g++ {
			for h := 1; h <= 4; h++ {
				if k, l := n.key(g), n.key(h); g != h {
					c.gets("WATCH "+k+"\r\nWATCH "+l+"\r\nMULTI\r\nSET "+k+" 1\r\nEXEC\r\n", "OK", crosses, "OK", "QUEUED", "[OK]")
					c.gets("WATCH "+k+"\r\nMULTI\r\nSET "+l+" 1\r\nEXEC\r\n", "OK", "OK", "QUEUED", crosses)
					c.gets("MULTI\r\nSET "+k+" 1\r\nSET "+l+" 1\r\nEXEC\r\n", "OK", "QUEUED", "QUEUED", crosses)
				}
			}
			c.gets("WATCH "+n.key(g)+"\r\nMULTI\r\nEXEC\r\nMULTI\r\nEXEC\r\n", "OK", "OK", "[]", "OK", "[]")
		}
	}
	n.follow(0)
	n.nodes[2].client().gets("MULTI\r\nSET "+n.key(1)+" 1\r\nSET "+n.key(2)+" 1\r\nEXEC\r\nMULTI\r\nEXEC\r\n", "OK", "QUEUED", "QUEUED", crosses, "OK", "[]")
}
