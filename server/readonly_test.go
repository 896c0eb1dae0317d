package server

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"limitdb/engine"
	"limitdb/internal/stats"
	"limitdb/limit"
	"limitdb/server/keys"
	"limitdb/server/spec"
)

// own makes a follower serve reads from a table.
type ownTable struct {
	table   *engine.Engine
	at      int64
	current bool
}

func (n *twoNodes) serveReads(o *ownTable) {
	n.follower.opts.Replication.Read = func() (*engine.Engine, int64, bool) { return o.table, o.at, o.current }
}

// After READONLY, only reads are served from the node's own table, at the replicated time.
func TestReadOnly(t *testing.T) {
	n := newTwoNodes(t)
	o := &ownTable{table: engine.New(engine.Options{}), at: testStart, current: true}
	n.serveReads(o)
	n.other.holds.Store(true) // nothing that is read here waits
	var d limit.Decision
	for i := range 500 {
		if err := o.table.TakeAt(0, testStart, []byte(fmt.Sprint("key", i)), &limit.Limit{Algorithm: limit.GCRA, Max: 1, Burst: 1, Period: 60e9}, 1, &d); err != nil {
			t.Fatal(err)
		}
	}
	n.follower.clock.Advance(3600e9) // the node's own clock is wrong
	c := n.follower.client()
	c.gets("DBSIZE\r\nREADONLY\r\nDBSIZE\r\nTTL key1\r\nEXISTS key1 key2 none\r\nTYPE key3\r\n", "0", "OK", "500", "60", "2", "gcra")
	c.gets("RL.TAKE a GCRA 1/m\r\n", "-MOVED 15495 127.0.0.1:7")
	c.gets("KEYS key49\r\n", `["key49"]`)
	found := map[string]bool{}
	for cursor := "0"; ; {
		v := c.do("SCAN", cursor, "COUNT", "50")
		for _, k := range v.Elems[1].Elems {
			found[k.Text] = true
		}
		if cursor = v.Elems[0].Text; cursor == "0" {
			break
		}
	}
	if len(found) != 500 {
		t.Errorf("SCAN finds %d keys", len(found))
	}
	cursor := c.do("SCAN", "0").Elems[0].Text
	o.table = engine.New(engine.Options{})
	c.gets("SCAN "+cursor+"\r\nRL.INFO key1\r\n", "-"+keys.ErrOtherCursor, "nil")
	o.current = false
	c.gets("DBSIZE\r\n", "-"+errLoading)
	o.current = true
	c.gets("READWRITE\r\nDBSIZE\r\n", "OK", "-MOVED 0 127.0.0.1:7")
	c.gets("READONLY\r\nRESET\r\nDBSIZE\r\n", "OK", "RESET", "0")
}

// A walk whose table is replaced does not end as if it had seen every key.
func TestTableIsReplacedDuringAWalk(t *testing.T) {
	n := newTwoNodes(t)
	o := &ownTable{table: engine.New(engine.Options{Shards: 1}), at: testStart, current: true}
	n.serveReads(o)
	var d limit.Decision
	for i := range 5000 {
		_ = o.table.TakeAt(0, testStart, []byte(fmt.Sprint("key", i)), &limit.Limit{Algorithm: limit.GCRA, Max: 1, Burst: 1, Period: 60e9}, 1, &d)
	}
	c := n.follower.client()
	c.do("READONLY")
	for _, change := range []func(){
		func() { o.table = engine.New(engine.Options{}) },
		func() { n.follower.group.Lead(n.follower.engine, 0) },
	} {
		c.conn.turn = 0 // it yields after each step
		if got := c.raw("KEYS *\r\n"); got != "" {
			t.Fatalf("it did not yield: %d bytes", len(got))
		}
		change()
		c.conn.turn = 1e9
		if got := c.receive(1); got[0] != "-"+errLoading {
			t.Errorf("%.80s", got[0])
		}
	}
	n.other.turn = 1
	n.other.holds.Store(false)
	c.gets("DBSIZE\r\n", "0")
}

// A cursor of SCAN belongs to one table. Another table's cursor is an error, so no key is missed silently.
func TestScanOverAFailover(t *testing.T) {
	ts, p := newNode(t)
	p.holds.Store(false)
	c := ts.client()
	for i := range 100 {
		c.raw(fmt.Sprintf("RL.TAKE key%d GCRA 1/m\r\n", i))
	}
	v := c.do("SCAN", "0")
	cursor := v.Elems[0].Text
	if cursor == "0" || line(c.do("SCAN", cursor))[:3] == "-ER" {
		t.Fatalf("%s: %s", cursor, line(c.do("SCAN", cursor)))
	}
	e := engine.New(engine.Options{Seed: 2})
	ts.group.Lead(e, 0)
	if got := line(c.do("SCAN", cursor)); got != "-"+keys.ErrOtherCursor {
		t.Errorf("%s", got)
	}
	if got := line(c.do("SCAN", "0", "COUNT", "100000")); got != `["0" []]` {
		t.Errorf("%s", got)
	}
}

// With raft-ack leader, most replies are sent at once.
func TestAckOfTheLeader(t *testing.T) {
	ts, p := newNode(t, "raft-addr 127.0.0.1:7000")
	c := ts.client()
	c.do("CONFIG", "SET", "raft-ack", "leader")
	if got := c.raw("RL.TAKE a GCRA 1/m\r\nRL.PEEK a GCRA 1/m\r\n"); !strings.HasPrefix(got, "*5\r\n:0\r\n") || len(p.asked) != 0 {
		t.Errorf("%q waits", got)
	}
	if got := c.raw("RL.PEEK a GCRA 1/m\r\nFLUSHALL\r\nPING\r\n"); strings.Contains(got, "OK") || !strings.HasPrefix(got, "*5\r\n:1\r\n") {
		t.Errorf("%q", got)
	}
	p.endWaits(nil)
	if got := c.resume(); got != "+OK\r\n+PONG\r\n" {
		t.Errorf("FLUSHALL: %q", got)
	}
	c.raw("RL.TAKE a GCRA 1/m\r\n")
	c.raw("RL.TAKE a GCRA 1/m WAIT 1d\r\n")
	ts.clock.Advance(61e9)
	ts.engine.Wake(ts.clock.Now())
	if got := c.resume(); got != "" {
		t.Errorf("a request that has waited: %q", got)
	}
	p.endWaits(nil)
	if got := c.resume(); !strings.HasPrefix(got, "*5\r\n:0\r\n") {
		t.Errorf("%q", got)
	}
	// The node has not heard from a majority for too long. It refuses commands in time.
	p.turn = 0
	if got := c.raw("RL.TAKE b GCRA 1/m\r\n"); got != "" {
		t.Errorf("%q", got)
	}
	ts.LeaderChanged()
	if got := c.resume(); got != "" {
		t.Errorf("%q", got)
	}
	ts.clock.Advance(leaderWait)
	ts.LeaderChanged()
	if got := c.resume(); got != "-"+spec.ErrNoLeader+"\r\n" {
		t.Errorf("%q", got)
	}
	c.raw("RL.TAKE b GCRA 1/m\r\n")
	p.turn = 1
	ts.LeaderChanged()
	if got := c.resume(); !strings.HasPrefix(got, "*5\r\n:0\r\n") || ts.engine.Stats().Keys != 2 {
		t.Errorf("%q", got)
	}
}

// With raft-ack leader, whatever tells of a hold, or of an id that counts once, waits for a majority all the same: through every door,
// when it is sent again, and if it is an error, since a node that no longer leads may know nothing of what is held.
func TestHoldsWaitForAMajority(t *testing.T) {
	ts, p := newNode(t, "raft-addr 127.0.0.1:7000")
	ts.rulesAre("{version: 1, namespaces: {n: [{name: r, key: [u], limit: fixed 100/h}]}}")
	c := ts.client()
	c.do("CONFIG", "SET", "raft-ack", "leader")
	for i, door := range []struct {
		name string
		told func(words []string) bool // before a majority has it
	}{
		{"alone", func(words []string) bool { return c.raw(string(encode(words...))) != "" }},
		{"in a pipeline", func(words []string) bool { return c.raw(strings.Repeat(string(encode(words...)), 2)) != "" }},
		{"in a transaction", func(words []string) bool {
			c.raw("MULTI\r\n" + string(encode(words...)))
			return c.raw("EXEC\r\n") != ""
		}},
		{"in a script", func(words []string) bool {
			return c.raw(string(encode(append([]string{"EVAL", "return redis.pcall(unpack(ARGV))", "0"}, words...)...))) != ""
		}},
		{"over HTTP", func(words []string) bool {
			_, wait := ts.Begin(t.Context(), toBytes(words))
			return wait == nil
		}},
	} {
		for _, words := range []string{
			"RL.HOLD k FIXED 100/h TTL 1m ID a@", "RL.COMMIT k ID a@", "RL.HOLD k FIXED 100/h TTL 1m ID b@", "RL.CANCEL k ID b@", "RL.CANCEL k ID c@",
			"RL.HOLD k FIXED 100/h TTL 1m ID a@", "RL.HOLD k FIXED 100/h TTL 1m ID c@", "RL.COMMIT k ID d@",
			"RL.HOLDALL 2 x y FIXED 100/h FIXED 100/h TTL 1m ID a@", "RL.COMMITALL 2 x y ID a@", "RL.HOLDALL 2 x y FIXED 100/h FIXED 100/h TTL 1m ID b@", "RL.CANCELALL 2 x y ID b@",
			"RL.HOLDALL 2 x y FIXED 100/h FIXED 100/h TTL 1m ID a@", "RL.COMMITALL 2 x y ID d@",
			"RL.TAKE k FIXED 100/h ONCE e@", "RL.TAKE k FIXED 100/h ONCE e@", "RL.TAKE k FIXED 100/h COST 2 ONCE e@",
			"RL.RESERVE q GCRA 100/h ONCE e@", "RL.RESERVE q GCRA 100/h COST 2 ONCE e@",
			"RL.TAKEALL 2 x y FIXED 100/h FIXED 100/h ONCE e@", "RL.TAKEALL 2 x y FIXED 100/h FIXED 100/h COST 2 ONCE e@",
			"RL.CHECK n 1 u v HOLD 1m ID a@", "RL.CHECK n 1 u v HOLD 2m ID a@", "RL.CHECK n 0 COMMIT a@", "RL.CHECK n 0 CANCEL c@", "RL.CHECK n 1 u v HOLD 1m ID c@", "RL.CHECK n 0 COMMIT d@",
			"RL.CHECK n 1 u v ONCE e@", "RL.CHECK n 1 u v ONCE e@", "RL.CHECK n 1 u v COST 2 ONCE e@",
		} {
			words = strings.ReplaceAll(words, "@", strconv.Itoa(i))
			if door.told(strings.Fields(words)) {
				t.Errorf("%s %s is told at once", words, door.name)
			} else if door.name != "over HTTP" {
				p.endWaits(nil)
				c.resume()
			}
		}
	}
}

// WAIT replies with the number of nodes that are known to have what the connection has seen.
func TestWaitForAMajority(t *testing.T) {
	ts, p := newNode(t)
	members := []Member{{ID: "me", Voter: true}, {ID: "b", Voter: true}, {ID: "c", Voter: true}, {ID: "d"}}
	ts.opts.Replication.Members = func() ([]Member, error) { return members, nil }
	c := ts.client()
	asked := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.waiting) > 0
	}
	for _, step := range []struct {
		outcome error
		want    string
	}{{nil, ":1\r\n"}, {errors.New("abdicated"), unknown}} {
		if got := c.raw("WAIT 1 0\r\n"); got != "" {
			t.Fatalf("%q", got)
		}
		for !asked() {
			runtime.Gosched()
		}
		p.endWaits(step.outcome)
		if got := c.resume(); got != step.want {
			t.Errorf("%q, want %q", got, step.want)
		}
	}
	c.raw("WAIT 1 1\r\n")
	if got := c.resume(); got != ":0\r\n" {
		t.Errorf("%q after the timeout", got)
	}
	p.status = stats.Replication{}
	alone := newTestServer(t).client()
	if got := alone.raw("WAIT 1 0\r\n"); got != ":0\r\n" {
		t.Errorf("%q without nodes", got)
	}
}
