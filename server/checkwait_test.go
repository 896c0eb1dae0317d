package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"limitdb/server/clients"
	"limitdb/transport"
)

const waitRules = `version: 1
namespaces:
  shop:
    - {name: all, limit: 10/s burst 2}
    - {name: user, key: [user], limit: 1/s}
    - {name: trial, key: [user], limit: 1/h, mode: shadow}
    - {name: paced, match: {path: /paced}, limit: queue 10/s burst 5, candidate: 1/h}
    - {name: never, match: {path: /never}, limit: 0/s}
    - {name: free, match: {user: free}, unlimited: true}
`

func TestCheckWaits(t *testing.T) {
	for _, test := range []struct {
		name, command string
		pass          time.Duration
		want          string
	}{
		{"there is room", "RL.CHECK shop 1 user new WAIT 1s", 0, `[0 2 0 -1 200 "all"]`},
		{"the slowest", "RL.CHECK shop 1 user u WAIT 5s", time.Second, `[0 1 0 -1 1000 "user"]`},
		{"without", "RL.CHECK shop 1 user u", 0, `[1 1 0 1000 1000 "user"]`},
		{"no waiting", "RL.CHECK shop 1 user u WAIT 0", 0, `[1 1 0 1000 1000 "user"]`},
		{"in vain", "RL.CHECK shop 1 user u WAIT 999", 999 * time.Millisecond, `[1 1 0 1 1 "user"]`},
		{"never", "RL.CHECK shop 2 user u path /never WAIT 1h", 0, `[1 0 0 -1 0 "never"]`},
		{"a turn", "RL.CHECK shop 1 path /paced WAIT 1s", 100 * time.Millisecond, `[0 2 1 -1 100 "all"]`},
		{"a turn too late", "RL.CHECK shop 1 path /paced WAIT 99", 0, `[1 6 5 1 100 "paced"]`},
		{"no limit", "RL.CHECK none 1 user u WAIT 1h", 0, `-NORULE no rules are in that namespace: "none"`},
		{"nothing", "RL.CHECK shop 1 user u COST 0 WAIT 1h", 0, `[0 1 0 -1 1000 "user"]`},
		{"explained", "RL.CHECK shop 1 user u EXPLAIN WAIT 5s", time.Second, `[0 1 0 -1 1000 "user" [["all" "enforce" "GCRA 10/s BURST 2" 1 [0 2 1 -1 100]] ["user" "enforce" "GCRA 1/s" 1 [0 1 0 -1 1000]] ["trial" "shadow" "GCRA 1/h" 1 [1 1 0 3599000 3599000]]]]`},
		{"peeking", "RL.CHECK shop 1 user u PEEK WAIT 1", 0, "-ERR syntax error: WAIT is for a check that takes"},
		{"giving back", "RL.CHECK shop 1 user u WAIT 1 REFUND", 0, "-ERR syntax error: WAIT is for a check that takes"},
		{"an option twice", "RL.CHECK shop 1 user u WAIT 1 WAIT 2", 0, "-ERR syntax error: WAIT is given twice"},
		{"no value", "RL.CHECK shop 1 user u WAIT", 0, "-ERR syntax error: a value is missing after \"WAIT\""},
		{"no time", "RL.CHECK shop 1 user u WAIT soon", 0, `-ERR WAIT: a time must be 0 or more milliseconds, or have a unit (ms s m h d w): "soon"`},
	} {
		ts := withRules(t, waitRules)
		c := ts.client()
		c.say("RL.CHECK shop 2 user u path /paced")
		c.saysAfter(ts, test.name, test.command, test.pass, test.want)
		if c.s.pending != nil || c.s.pub.Waits.Load() != nil || c.s.pub.ArgMemory.Load() != 0 {
			t.Errorf("%s: it still waits", test.name)
		}
	}
}

// Clients that wait for the same limits are granted in the order in which they asked. A client that waits for another limit delays none of them.
func TestChecksWaitInOrder(t *testing.T) {
	ts := withRules(t, waitRules)
	a, b, slow, other := ts.client(), ts.client(), ts.client(), ts.client()
	slow.say("RL.CHECK shop 1 user slow")
	slow.expect("slow", slow.say("RL.CHECK shop 1 user slow WAIT 1h"), "")
	other.expect("the last that is left", other.say("RL.CHECK shop 1 user other"), `[0 2 0 -1 200 "all"]`)
	a.expect("a", a.raw("RL.CHECK shop 1 user a WAIT 1h\r\nECHO after\r\n"), "")
	b.expect("b", b.say("RL.CHECK shop 1 user b WAIT 1h"), "")
	other.expect("nobody overtakes", other.say("RL.CHECK shop 1 user third"), `[1 2 0 100 200 "all"]`)
	ts.pass(100 * time.Millisecond)
	a.expect("a", a.woken()+b.woken(), `[0 2 0 -1 200 "all"] "after"`)
	ts.pass(100 * time.Millisecond)
	b.expect("b", b.woken(), `[0 2 0 -1 200 "all"]`)
	ts.pass(800 * time.Millisecond)
	slow.expect("slow", slow.woken(), `[0 1 0 -1 1000 "user"]`)
	if got := line(other.do("RL.RULES", "STATS", "shop")); !strings.Contains(got, `"name" "all" "mode" "enforce" "allowed" 5 "near_limit" 3 "limited" 1 `) {
		t.Errorf("%s", got)
	}
	if st := ts.engine.Stats(); st.Waiting != 0 || st.Waited != 3 {
		t.Errorf("%+v", st)
	}
}

// Whatever ends a wait early, nothing has been taken, and the next waiter is granted at once.
func TestCheckGivesUp(t *testing.T) {
	for _, test := range []struct {
		name, want string
		end        func(ts *testServer, c, admin *testClient)
	}{
		{"disconnected", "", func(ts *testServer, c, admin *testClient) { c.hangUp(transport.ErrPeerClosed) }},
		{"end of input", `[1 1 0 1000 1000 "user"]`, func(ts *testServer, c, admin *testClient) { c.s.EOF() }},
		{"CLIENT UNBLOCK", `[1 1 0 1000 1000 "user"]`, func(ts *testServer, c, admin *testClient) {
			admin.expect("the wait", admin.say(fmt.Sprintf("CLIENT UNBLOCK %d", c.s.pub.ID)), "1")
		}},
		{"CLIENT UNBLOCK ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK", func(ts *testServer, c, admin *testClient) {
			admin.say(fmt.Sprintf("CLIENT UNBLOCK %d ERROR", c.s.pub.ID))
		}},
		{"CLIENT KILL", "", func(ts *testServer, c, admin *testClient) {
			admin.say(fmt.Sprintf("CLIENT KILL ID %d", c.s.pub.ID))
			if !errors.Is(c.conn.reason(), clients.ErrKilled) {
				t.Errorf("closed for %v", c.conn.reason())
			}
			c.hangUp(clients.ErrKilled)
		}},
		{"the end of the server", `[1 1 0 1000 1000 "user"]`, func(ts *testServer, c, admin *testClient) {
			ts.stopping.Store(true)
			ts.clients.WakeWaiting()
		}},
		{"no rule", `-NORULE no rules are in that namespace: "shop"`, func(ts *testServer, c, admin *testClient) {
			ts.rulesAre("version: 1\nnamespaces: {}")
		}},
		{"a rule that denies for ever", `[1 0 0 -1 0 "new"]`, func(ts *testServer, c, admin *testClient) {
			ts.rulesAre("version: 1\nnamespaces: {shop: [{name: new, limit: 0/s}]}")
		}},
	} {
		ts := withRules(t, waitRules)
		c, admin := ts.client(), ts.client()
		c.say("RL.CHECK shop 1 user u")
		c.expect(test.name, c.say("RL.CHECK shop 1 user u WAIT 1h"), "")
		test.end(ts, c, admin)
		c.expect(test.name, c.woken(), test.want)
		if st := ts.engine.Stats(); st.Waiting != 0 || !c.conn.gone && c.s.pub.Waits.Load() != nil {
			t.Errorf("%s: %+v", test.name, st)
		}
	}
}

// A check that waits for its turn has been granted. Whatever ends the wait, the cost stays taken, and the reply says when the turn is.
func TestCheckGivesUpItsTurn(t *testing.T) {
	for _, test := range []struct{ unblock, want string }{
		{"TIMEOUT", `[0 6 3 170 270 "paced"]`},
		{"ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK"},
	} {
		ts := withRules(t, "version: 1\nnamespaces: {shop: [{name: paced, limit: queue 10/s burst 5}, {name: all, limit: 100/s}]}")
		c, admin := ts.client(), ts.client()
		c.say("RL.CHECK shop 0 COST 2")
		c.expect(test.unblock, c.say("RL.CHECK shop 0 WAIT 1h"), "")
		ts.clock.Advance(30 * time.Millisecond)
		admin.expect(test.unblock, admin.say(fmt.Sprintf("CLIENT UNBLOCK %d %s", c.s.pub.ID, test.unblock)), "1")
		c.expect(test.unblock, c.woken(), test.want)
		admin.expect("behind it", admin.say("RL.CHECK shop 0"), `[0 6 2 270 370 "paced"]`)
	}
}

// rulesAre replaces the rules.
func (ts *testServer) rulesAre(text string) {
	ts.t.Helper()
	if _, err := ts.rules.Load([]byte(text)); err != nil {
		ts.t.Fatal(err)
	}
}

// After a reload, the checks that wait are asked again under the new rules, in their old places.
func TestChecksWaitOverAReload(t *testing.T) {
	const ns = "version: 1\nnamespaces: {shop: [{name: all, limit: %s burst 1}, {name: user, key: [user], limit: 1/s}, {name: queue, match: {path: /q}, limit: queue 1/s burst 9}%s]}"
	ts := withRules(t, fmt.Sprintf(ns, "1/m", ""))
	first, second, turn, other := ts.client(), ts.client(), ts.client(), ts.client()
	other.say("RL.CHECK shop 1 user x")
	first.say("RL.CHECK shop 2 user a vip yes WAIT 1h")
	second.say("RL.CHECK shop 1 user b WAIT 1h EXPLAIN")
	for _, rate := range []string{"2/m", "3/m", "4/m"} { // as often as one likes
		ts.rulesAre(fmt.Sprintf(ns, rate, ""))
		first.expect("still", first.woken()+second.woken(), "")
		ts.engine.Wake(ts.clock.Now())
	}
	ts.rulesAre(fmt.Sprintf(ns, "1/s", ""))
	second.expect("the second looks first", second.woken(), "")
	first.expect("the first", first.woken(), "")
	ts.pass(time.Second)
	first.expect("the first goes first", first.woken()+second.woken(), `[0 1 0 -1 1000 "all"]`)
	// A new rule uses a field that no rule used before.
	third := ts.client()
	third.say("RL.CHECK shop 2 user c vip yes WAIT 1h")
	ts.rulesAre(fmt.Sprintf(ns, "1000/s", ", {name: vip, match: {vip: yes}, limit: 7/s}"))
	third.expect("asked anew", third.woken()+second.woken(), "")
	ts.pass(time.Millisecond)
	second.expect("the second", second.woken(), `[0 1 0 -1 1 "all" [["all" "enforce" "GCRA 1000/s BURST 1" 1 [0 1 0 -1 1]] ["user" "enforce" "GCRA 1/s" 1 [0 1 0 -1 1000]]]]`)
	ts.pass(time.Millisecond)
	third.expect("the third", third.woken(), `[0 1 0 -1 1 "all"]`)
	if got := line(other.do("RL.RULES", "INFO", "shop", "vip")); !strings.Contains(got, "gcra") {
		t.Errorf("the new rule has not taken: %s", got)
	}
	// A request that has been granted and only waits for its turn stays as it is.
	ts.pass(time.Millisecond)
	turn.say("RL.CHECK shop 1 path /q")
	ts.pass(time.Millisecond)
	turn.expect("a turn", turn.say("RL.CHECK shop 1 path /q WAIT 1h"), "")
	ts.rulesAre("version: 1\nnamespaces: {}")
	turn.expect("a turn", turn.woken(), "")
	ts.pass(999 * time.Millisecond)
	turn.expect("a turn", turn.woken(), `[0 1 1 -1 0 "all"]`)
}

// A check that waits is counted and logged once, when it is decided. Its memory counts as its client's.
func TestCheckThatWaitsIsCountedOnce(t *testing.T) {
	ts := withRules(t, waitRules)
	c, admin := ts.client(), ts.client()
	c.say("RL.CHECK shop 1 user u")
	c.say("RL.CHECK shop 2 user u field " + strings.Repeat("x", 5000) + " WAIT 1h")
	if m := c.s.pub.Memory(); m.Args < 5000 {
		t.Errorf("%+v", m)
	}
	if got := admin.do("CLIENT", "LIST", "ID", fmt.Sprint(c.s.pub.ID)).Text; !strings.Contains(got, " flags=b ") || !strings.Contains(got, " cmd=rl.check ") {
		t.Errorf("CLIENT LIST: %s", got)
	}
	for range 9 {
		ts.pass(100 * time.Millisecond)
		c.woken()
	}
	want := `"name" "user" "mode" "enforce" "allowed" 1 "near_limit" 1 "limited" 0 `
	if got := line(admin.do("RL.RULES", "STATS", "shop")); !strings.Contains(got, want) {
		t.Errorf("while it waits: %s", got)
	}
	ts.pass(100 * time.Millisecond)
	c.expect("granted", c.woken(), `[0 1 0 -1 1000 "user"]`)
	if got := line(admin.do("RL.RULES", "STATS", "shop")); !strings.Contains(got, strings.ReplaceAll(want, " 1 ", " 2 ")) {
		t.Errorf("afterwards: %s", got)
	}
}

// Checks do not wait in a transaction or a script.
func TestCheckDoesNotWaitInATransaction(t *testing.T) {
	ts := withRules(t, waitRules)
	c := ts.client()
	c.say("RL.CHECK shop 1 user u")
	denied := `[1 1 0 1000 1000 "user"]`
	c.say("MULTI")
	c.say("RL.CHECK shop 1 user u WAIT 1h")
	c.expect("EXEC", c.say("EXEC"), "["+denied+"]")
	c.expect("a script", line(c.do("EVAL", "return redis.call('RL.CHECK', 'shop', '1', 'user', 'u', 'WAIT', '1h')", "0")), denied)
	if got := line(overHTTP(t, ts.Server, "RL.CHECK", "shop", "1", "user", "u", "WAIT", "1h")); got != denied {
		t.Errorf("over HTTP: %s", got)
	}
}
