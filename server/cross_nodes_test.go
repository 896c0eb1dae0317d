package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"limitdb/engine"
	"limitdb/internal/stats"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/forward"
	"limitdb/server/spec"
	"limitdb/uplink"
)

// ask sends a command to a node over RESP, or as callers without a connection do, such as HTTP and gRPC, and returns the reply on a line.
func (n *groupNodes) ask(at int, direct bool, words ...string) string {
	n.t.Helper()
	if !direct {
		return n.nodes[at].client().send(string(encode(words...)), 1)[0]
	}
	out, err := n.nodes[at].Do(context.Background(), toBytes(words)...)
	if err != nil {
		n.t.Fatal(err)
	}
	v, err := resp.ReadReply(bufio.NewReader(bytes.NewReader(out)), 1<<20)
	if err != nil {
		n.t.Fatal(err)
	}
	return line(v)
}

// rulesAre gives all nodes the same rules.
func (n *groupNodes) rulesAre(text string) {
	for _, ts := range n.nodes {
		ts.rulesAre(text)
		ts.rules.SetSecret([16]byte{})
	}
}

// Commands on several limits ask the groups that other nodes lead, and reply as one group does.
func TestSeveralNodesTakeTogether(t *testing.T) {
	n := newGroupNodes(t)
	one := newTestServer(t).client()
	for at := range n.nodes {
		for _, direct := range []bool{false, true} {
			key := func(g int) string { return fmt.Sprintf("{%s}%d%v", n.key(g), at, direct) }
			for _, words := range []string{
				"RL.TAKEALL 2 " + key(2) + " " + key(3) + " FIXED 2/h FIRST FIXED 9/h FIRST",
				"RL.TAKEALL 4 " + key(2) + " " + key(3) + " " + key(1) + " " + key(4) + " FIXED 9/h FIRST FIXED 9/h FIRST COST 3 FIXED 9/h FIRST LOG 5/h",
				"RL.TAKEALL 2 " + key(2) + " " + key(3) + " FIXED 9/h FIRST FIXED 9/h FIRST COST 6",
				"RL.TAKEALL 3 " + key(1) + " " + key(3) + " " + key(2) + " FIXED 9/h FIRST FIXED 9/h FIRST COST 2 FIXED 4/h FIRST COST 2",
				"RL.TAKEALL 2 " + key(1) + " " + key(3) + "block FIXED 9/h FIRST FIXED 2/h FIRST BLOCK 5m COST 3",
				"RL.TAKEALL 2 " + key(1) + " " + key(3) + " FIXED 9/h FIRST GCRA 9/h",
				"SET " + key(3) + "value v",
				"RL.TAKEALL 2 " + key(1) + " " + key(3) + "value FIXED 9/h FIRST GCRA 9/h",
				"RL.TAKEALL 2 " + key(1) + " " + key(3) + " FIXED 9/h FIRST FIXED 9/h FIRST CALENDAR DAY",
				"RL.TAKEALL 3 " + key(1) + " " + key(3) + " " + key(3) + " FIXED 9/h FIXED 9/h FIXED 9/h",
				"RL.TAKEALL 2 " + key(2) + "day " + key(3) + "day FIXED 9 CALENDAR DAY TZ Europe/Berlin FIXED 7 CALENDAR MONTH",
			} {
				if got, want := n.ask(at, direct, strings.Fields(words)...), line(one.do(strings.Fields(words)...)); got != want {
					t.Errorf("node %d: %s: %s, in one group %s", at, words, got, want)
				}
			}
		}
	}
	for _, ts := range n.nodes {
		if ts.lines.Kept() == 0 || ts.crossings.Left.Load()+ts.crossings.DeniedLate.Load() > 0 {
			t.Error("it has asked nobody, or something was left")
		}
		if ts.Clients() > 20 {
			t.Errorf("%d streams", ts.Clients())
		}
	}
}

// Checks ask the groups that other nodes lead, wherever the client is: with leases, which are given back, refunds, looks and figures.
func TestSeveralNodesCheck(t *testing.T) {
	n, ts := newGroupNodes(t), newTestServer(t)
	n.rulesAre(crossRules)
	ts.rulesAre(crossRules)
	one := ts.client()
	id := func(text string) string {
		words := strings.Split(text, `"`)
		return words[len(words)-2]
	}
	for i := range 60 {
		at, direct := i%3, i%2 == 1
		words := []string{"RL.CHECK", "n", "3", "u", "u" + strconv.Itoa(i%5), "f", "f" + strconv.Itoa(i%3), "b", "b"}
		tail := []string{}
		switch {
		case i%4 == 3:
			tail = []string{"EXPLAIN"}
		case i%9 == 8:
			tail = []string{"PEEK"}
		}
		got, want := n.ask(at, direct, append(words, tail...)...), line(one.do(append(words, tail...)...))
		if strings.HasSuffix(want, `"]`) && len(id(want)) == 20 {
			if back := n.ask((at+1)%3, direct, append(words, "RELEASE", id(got))...); back != "2" {
				t.Errorf("%s leases were given back", back)
			}
			one.do(append(words, "RELEASE", id(want))...)
			got, want = strings.Replace(got, id(got), "id", 1), strings.Replace(want, id(want), "id", 1)
		}
		if got != want {
			t.Errorf("node %d: %q: %s, in one group %s", at, words, got, want)
		}
	}
	for at := range n.nodes {
		words := []string{"RL.CHECK", "n", "3", "u", "u" + strconv.Itoa(at), "f", "f1", "b", "b", "REFUND"}
		if got, want := n.ask(at, false, words...), line(one.do(words...)); got != want {
			t.Errorf("%s, in one group %s", got, want)
		}
	}
}

// Requests of Envoy's service ask the groups that other nodes lead, for each descriptor or for all of them.
func TestSeveralNodesForEnvoy(t *testing.T) {
	const text = `version: 1
namespaces:
  each: {descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 9}}, {key: b, rate_limit: {unit: day, requests_per_unit: 15}}]}
  all: {all_or_none: true, descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 3}}, {key: b, rate_limit: {unit: day, requests_per_unit: 5}}]}
  rules: [{name: caller, key: [a], limit: fixed 5/d first}, {name: all, limit: fixed 12/d first}]
`
	n, ts := newGroupNodes(t), newTestServer(t, "envoy-metrics yes")
	n.rulesAre(text)
	ts.rulesAre(text)
	one := ts.client()
	for _, node := range n.nodes {
		node.client().do("CONFIG", "SET", "envoy-metrics", "yes")
	}
	for i := range 24 { // an ordinary rule for the caller, and one for all
		words := []string{"RL.ENVOY", "rules", "1", "1", "a", "a" + strconv.Itoa(i%3)}
		switch {
		case i%7 == 6:
			words = append(words, "REFUND")
		case i%5 == 4:
			words = append(words, "HITS", "0")
		}
		if got, want := n.ask(i%3, i%4 > 1, words...), line(one.do(words...)); got != want {
			t.Errorf("%q: %s, in one group %s", words, got, want)
		}
	}
	for i := range 90 {
		words := []string{"RL.ENVOY", []string{"each", "all"}[i%2], "4", "1", "a", "a" + strconv.Itoa(i%3), "1", "b", "b" + strconv.Itoa(i%5), "1", "b", "b" + strconv.Itoa(i%4), "1", "none", "x"}
		switch i % 10 {
		case 8:
			words = append(words[:6], append([]string{"HITS", "4"}, words[6:]...)...)
		case 4:
			words = append(words[:6], append([]string{"REFUND"}, words[6:]...)...)
		}
		if got, want := n.ask(i%3, i%4 > 1, words...), line(one.do(words...)); got != want {
			t.Errorf("%q: %s, in one group %s", words, got, want)
		}
	}
	got := map[string]stats.EnvoyLimit{}
	for _, node := range n.nodes {
		for name, c := range node.rules.EnvoyLimits() {
			sum := got[name]
			got[name] = stats.EnvoyLimit{Total: sum.Total + c.Total, Within: sum.Within + c.Within, Near: sum.Near + c.Near, Over: sum.Over + c.Over, Shadow: sum.Shadow + c.Shadow}
		}
	}
	if want := ts.rules.EnvoyLimits(); !maps.Equal(got, want) || len(want) == 0 {
		t.Errorf("%v\nin one group %v", got, want)
	}
}

// Each descriptor in a namespace of ordinary rules is decided in the groups of its limits, whichever nodes lead them.
func TestSeveralNodesForDescriptors(t *testing.T) {
	n, ts := newGroupNodes(t), newTestServer(t)
	n.rulesAre(envoyRules)
	ts.rulesAre(envoyRules)
	one := ts.client()
	for i := range 80 {
		words := envoyRequest(i)
		if got, want := n.ask(i%3, i%4 > 1, words...), line(one.do(words...)); got != want {
			t.Errorf("%q: %s, in one group %s", words, got, want)
		}
	}
	for _, node := range n.nodes {
		if node.crossings.Left.Load()+node.crossings.DeniedLate.Load() > 0 {
			t.Error("something was left")
		}
	}
}

// A command counts once: where it is decided or, if several groups decide, at the node of its client.
func TestWhereCommandsCount(t *testing.T) {
	n := newGroupNodes(t)
	c := n.nodes[0].client()
	a, b := n.key(1), n.key(2)
	c.gets(strings.Repeat("INCR "+b+"\r\n", 3), "1", "2", "3")
	c.send("RL.TAKEALL 2 {"+a+"}t {"+b+"}u GCRA 5/h GCRA 5/h\r\n", 1)
	for at, want := range []struct {
		incr, takeall bool
	}{{false, true}, {true, false}, {false, false}} {
		info := n.nodes[at].client().do("INFO", "commandstats").Text
		if incr := strings.Contains(info, "cmdstat_incr:calls=3,"); incr != want.incr {
			t.Errorf("node %d: INCR counts: %t", at, incr)
		}
		if takeall := strings.Contains(info, "cmdstat_rl.takeall:calls=1,"); takeall != want.takeall {
			t.Errorf("node %d: RL.TAKEALL counts: %t", at, takeall)
		}
	}
}

// WAIT waits for what other nodes have decided for the connection.
func TestWaitForSeveralNodes(t *testing.T) {
	n := newGroupNodes(t)
	n.shares()
	far, c := n.kept[1][2], n.nodes[0].client()
	for _, ts := range n.nodes {
		for _, g := range ts.every {
			g.Keeper.AckLeader.Store(true)
		}
	}
	far.holds.Store(true)
	in := "INCR " + n.key(2) + "\r\n"
	for i, end := range []error{nil, errUnknown} {
		c.gets(in, strconv.Itoa(i+1))
		c.s.Data([]byte("WAIT 1 0\r\nPING\r\n"))
		c.until(far.owes)
		if c.s.pending == nil {
			t.Fatal("it does not wait")
		}
		far.endWaits(end)
		want := "1 PONG"
		if end != nil {
			want = "-" + errUnknownOutcome + " PONG"
		}
		if got := strings.Join(c.receive(2), " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	c.gets(in+"WAIT 1 1\r\n", "3", "0")           // ms
	n.nodes[2].client().gets("WAIT 1 0\r\n", "1") // it has written nothing elsewhere
	far.holds.Store(false)
	c.s.Data([]byte(in))
	c.receive(1)
	n.passes(2, 0, func() { c.s.Data([]byte("WAIT 1 0\r\n")) })
	if got := c.receive(1)[0]; got != "-"+errUnknownOutcome {
		t.Error(got)
	}
	c.gets("WAIT 1 0\r\n", "1")
}

// All other nodes are asked at once, so that one which takes long does not add to what the next one takes.
func TestNodesAreAskedAtOnce(t *testing.T) {
	n := newGroupNodes(t)
	of := []*primary{n.kept[1][2], n.kept[2][3]}
	for i, words := range []string{"WAIT 1 0", "DBSIZE", "KEYS none*", "FLUSHALL"} {
		c := n.nodes[0].client()
		for _, p := range of {
			p.holds.Store(false)
		}
		c.gets("SET "+n.key(2)+" v\r\nSET "+n.key(3)+" v\r\n", "OK", "OK")
		for _, p := range of {
			p.holds.Store(true)
		}
		c.s.Data([]byte(words + "\r\n"))
		for _, p := range of {
			c.until(p.owes)
		}
		if c.s.pending == nil {
			t.Fatalf("%s does not wait", words)
		}
		of[1].endWaits(nil)
		of[0].endWaits(nil)
		if got, want := c.receive(1)[0], []string{"1", "2", "[]", "OK"}[i]; got != want {
			t.Errorf("%s: %s, want %s", words, got, want)
		}
	}
}

// A request is explained by the groups that have its callers, and nothing changes there.
func TestSeveralNodesExplain(t *testing.T) {
	n, ts := newGroupNodes(t), newTestServer(t)
	n.rulesAre(crossRules)
	ts.rulesAre(crossRules)
	one := ts.client()
	for i := range 36 {
		fields := []string{"n", "3", "u", "u" + strconv.Itoa(i%5), "f", "f" + strconv.Itoa(i%3), "b", "b"}
		if words := append([]string{"RL.CHECK"}, fields...); i%3 != 2 {
			n.ask(i%3, false, words...)
			one.do(words...)
		}
		words := append([]string{"RL.RULES", "EXPLAIN"}, fields...)
		want := line(one.do(words...))
		for at := range n.nodes {
			if got := n.ask(at, i%2 == 1, words...); got != want {
				t.Errorf("node %d: %q:\n%s\nin one group\n%s", at, words, got, want)
			}
		}
	}
	n.follow(3)
	c := n.nodes[1].client()
	c.s.Data(encode("RL.RULES", "EXPLAIN", "n", "3", "u", "u1", "f", "f1", "b", "b"))
	n.lead(3, 0)
	if got := c.receive(1)[0]; !strings.Contains(got, `"decision"`) {
		t.Error(got)
	}
}

// What is known of a caller of a rule is shown and forgotten by any node, wherever it is.
func TestSeveralNodesKnowCallers(t *testing.T) {
	n := newGroupNodes(t)
	n.rulesAre("version: 1\nnamespaces:\n  one:\n    - {name: user, key: [u], limit: 5/h}\n")
	at := map[int32]bool{}
	for u := range 12 {
		user := fmt.Sprintf("u%02d", u)
		key, err := strconv.Unquote(strings.Trim(n.ask(0, false, "RL.RULES", "KEYS", "one", "user", "u", user), "[]"))
		if err != nil {
			t.Fatal(err)
		}
		at[n.led[slices.Index(n.nodes[0].every, n.nodes[0].groupOf([]byte(key)))].Load()] = true
		n.nodes[u%3].client().gets("RL.CHECK one 1 u "+user+"\r\n", `[0 5 4 -1 720000 "user"]`)
		for node := range 3 {
			for _, direct := range []bool{false, true} {
				if got := n.ask(node, direct, "RL.RULES", "INFO", "one", "user", "u", user); got != `["algorithm" "gcra" "state" 1600000720000000000 "level" 720000000000 "resets_in" 720000 "memory" 38]` {
					t.Errorf("%s at node %d: %s", user, node, got)
				}
			}
		}
		knows := n.nodes[u%3].client()
		knows.do("CLUSTER", "SLOTS")
		knows.gets("RL.RULES RESET one user u "+user+"\r\nRL.RULES RESET one user u "+user+"\r\n", "1", "0")
		for node := range 3 {
			if got := n.ask(node, false, "RL.RULES", "INFO", "one", "user", "u", user); got != "nil" {
				t.Errorf("%s at node %d, after a reset: %s", user, node, got)
			}
		}
		n.nodes[0].client().gets("RL.RULES RESET one user u\r\nRL.RULES INFO one none u v\r\n", "-ERR give the fields of the rule's key, each with its value", "-NORULE there is no such rule")
	}
	if len(at) != 3 {
		t.Errorf("the callers are at %v", at)
	}
}

// ends runs a client's session until replies of a node about a group wait, and ends the wait.
func (n *groupNodes) ends(c *testClient, node, g int, err error) {
	p := n.kept[node][g]
	c.until(p.owes)
	p.endWaits(err)
}

// What other nodes take is durable before the client is told, and is given back if it may be lost.
func TestSeveralNodesAreDurable(t *testing.T) {
	n := newGroupNodes(t)
	c := n.nodes[0].client()
	k2, k3 := n.key(2), n.key(3)
	take := "RL.TAKEALL 2 " + k2 + " " + k3 + " FIXED 9/h FIRST FIXED 9/h FIRST\r\n"
	holds := func(on bool) {
		n.kept[1][2].holds.Store(on)
		n.kept[2][3].holds.Store(on)
	}
	for i, ack := range []string{"quorum", "leader"} {
		for _, lost := range []error{nil, errors.New("lost")} {
			for _, ts := range n.nodes {
				for _, g := range ts.every {
					g.Keeper.AckLeader.Store(ack == "leader")
				}
			}
			holds(true)
			c.conn.take()
			c.s.Data([]byte(take))
			if ack == "quorum" {
				n.ends(c, 1, 2, nil) // what they have seen
				n.ends(c, 2, 3, nil)
			}
			n.ends(c, 1, 2, nil)
			c.until(n.kept[2][3].owes)
			if out := c.conn.take(); len(out) > 0 {
				t.Fatalf("%q before the second group", out)
			}
			holds(false)
			n.ends(c, 2, 3, lost)
			want := fmt.Sprintf("[0 -1 [0 9 %d -1 3600000] [0 9 %d -1 3600000]]", 8-i, 8-i)
			if lost != nil {
				want = "-" + errUnknownOutcome
			}
			if got := c.receive(1)[0]; got != want {
				t.Errorf("%s, %v: %s, want %s", ack, lost, got, want)
			}
			if lost != nil {
				c.until(func() bool { return n.nodes[0].crossings.GivenBack.Load() == uint64(2+2*i) })
			}
		}
	}
}

// A node that leads no longer begins nothing; a stream that is lost leaves the outcome unknown, and what was taken is given back.
func TestSeveralNodesAreLost(t *testing.T) {
	n := newGroupNodes(t)
	c, counts := n.nodes[0].client(), &n.nodes[0].crossings
	keys := []string{n.key(1), n.key(2), n.key(3)}
	take := "RL.TAKEALL 3 " + strings.Join(keys, " ") + " FIXED 9/h FIRST FIXED 9/h FIRST FIXED 9/h FIRST\r\n"
	whole := func(what string, back uint64) {
		t.Helper()
		c.until(func() bool { return counts.GivenBack.Load() == back })
		for _, key := range keys {
			if got := n.ask(1, false, "RL.PEEK", key, "FIXED", "9/h", "FIRST", "COST", "0"); !strings.HasPrefix(got, "[0 9 9 ") {
				t.Errorf("%s: %s of %s is left", what, got, key)
			}
		}
		if counts.Left.Load() > 0 {
			t.Errorf("%s: something is left", what)
		}
	}
	waits := func() {
		t.Helper()
		c.conn.take()
		c.s.Data([]byte(take))
		c.until(func() bool { return n.nodes[0].leaderless.Len() == 1 })
	}
	inVain := func() {
		t.Helper()
		waits()
		n.nodes[0].clock.Advance(leaderWait)
		n.nodes[0].LeaderChanged()
		if got := c.receive(1)[0]; got != "-"+spec.ErrNoLeader || n.nodes[0].leaderless.Len() > 0 {
			t.Errorf("%s, or it still waits", got)
		}
	}
	g := n.nodes[1].every[2]
	g.Follow() // others do not know it
	inVain()
	g.Set(specialFollowing, false)
	whole("a node that follows", 0)

	e := g.Engine.Load()
	closed := engine.New(engine.Options{Seed: 9})
	closed.Close()
	g.Engine.Store(closed)
	inVain()
	g.Engine.Store(e)
	whole("a closed engine", 0)

	link := n.links[0][1].Swap(nil)
	inVain()
	n.links[0][1].Store(link)
	whole("no uplink", 0)

	p := n.kept[1][2]
	p.holds.Store(true)
	c.conn.take()
	c.s.Data([]byte(take))
	c.until(p.owes)
	g.Follow()
	p.holds.Store(false)
	p.endWaits(nil) // what it has seen
	c.until(func() bool { return n.nodes[0].leaderless.Len() == 1 })
	n.nodes[0].clock.Advance(leaderWait)
	n.nodes[0].LeaderChanged()
	if got := c.receive(1)[0]; got != "-"+errUnknownOutcome {
		t.Error(got)
	}
	g.Set(specialFollowing, false)
	whole("a node that follows after the look", 2)

	p.holds.Store(true)
	c.conn.take()
	c.s.Data([]byte(take))
	n.ends(c, 1, 2, nil)
	c.until(p.owes)
	p.holds.Store(false)
	link.Close()
	if got := c.receive(1)[0]; got != "-"+errUnknownOutcome {
		t.Error(got)
	}
	c.until(func() bool { return counts.GivenBack.Load() == 4 && n.nodes[0].returns.Len() == 1 })
	n.nodes[0].returns.Again() // as the housekeeper does
	if n.nodes[0].returns.Len() != 1 {
		t.Error("it is not tried again")
	}
	n.connect(0, 1)
	n.nodes[0].returns.Again()
	whole("a lost uplink", 5)

	g.Follow()
	waits()
	g.Set(specialFollowing, false)
	n.nodes[0].LeaderChanged()
	if got := c.receive(1)[0]; !strings.HasPrefix(got, "[0 -1 [0 9 8 ") || n.nodes[0].leaderless.Len() > 0 {
		t.Errorf("%s, or it still waits", got)
	}

	if out, err := n.nodes[0].Do(context.Background(), toBytes(strings.Fields(take))...); err != nil || !strings.HasPrefix(string(out), "*5\r\n:0\r\n") {
		t.Errorf("%q, %v", out, err)
	}
}

// A client that goes away while other nodes decide leaves nothing half done.
func TestClientLeavesSeveralNodes(t *testing.T) {
	n := newGroupNodes(t)
	c := n.nodes[0].client()
	keys := []string{n.key(2), n.key(3)}
	p := n.kept[1][2]
	p.holds.Store(true)
	c.conn.take()
	c.s.Data([]byte("RL.TAKEALL 2 " + strings.Join(keys, " ") + " FIXED 9/h FIRST FIXED 9/h FIRST\r\n"))
	n.ends(c, 1, 2, nil)
	c.until(p.owes)
	c.hangUp(errors.New("gone"))
	p.holds.Store(false)
	p.endWaits(errors.New("lost"))
	n.nodes[0].client().until(func() bool { return n.nodes[0].crossings.GivenBack.Load() == 2 })
	for _, key := range keys {
		if got := n.ask(0, false, "RL.PEEK", key, "FIXED", "9/h", "FIRST", "COST", "0"); !strings.HasPrefix(got, "[0 9 9 ") {
			t.Error(got)
		}
	}
}

// The words of parts are another node's alone, and hold to the user's rights there as well.
func TestPartsAreOfNodes(t *testing.T) {
	n := newGroupNodes(t)
	n.rulesAre("version: 1\nnamespaces:\n  shop: [{name: user, key: [u], limit: 5/m}]\n")
	ts := n.nodes[1]
	ts.as("app", "~app*", "+@limit", "~rl:shop:*")
	key := "app{" + n.key(2) + "}"
	words := func(name, where, key string) [][]byte {
		return append(toBytes([]string{partOf, name, where}), takePart(t, key)...)
	}
	if got := string(ts.client().raw(string(resp.AppendCommand(nil, words("RL.TAKEALL", "", key)...)))); !strings.HasPrefix(got, "-ERR unknown command") {
		t.Errorf("a client is told %q", got)
	}
	ask := func(user string, words ...[]byte) string {
		var lines forward.Lines
		got := make(chan string, 1)
		client := uplink.Client{Remote: "part", Local: "part", Unix: true, RESP3: true, User: user}
		if !lines.Ask(n.links[0][1].Load(), client, resp.AppendCommand(nil, words...), func(reply []byte, refused bool) {
			if got <- string(reply); refused {
				got <- "refused"
			}
		}) {
			t.Fatal("nothing is sent")
		}
		return <-got
	}
	caller := ts.callerIn(2, "shop")
	for _, test := range []struct {
		user  string
		words [][]byte
		want  string
	}{
		{"", words("RL.TAKEALL", "", key), "\x01"},
		{"app", words("RL.TAKEALL", "", key), "\x01"},
		{"app", words("RL.TAKEALL", "", n.key(2)), "NOPERM"},
		{"nobody", words("RL.TAKEALL", "", key), "NOPERM"},
		{"app", words("RL.CHECK", "shop", caller), "\x01"},
		{"app", words("RL.CHECK", "other", caller), errPart},
		{"", words("RL.CHECK", "sho", caller), errPart},
		{"", words("RL.CHECK", "shop", key), errPart},
		{"", words("RL.TAKEALL", "", caller), errKeyOfRule},
		{"", words("RL.TAKE", "", key), errPart},
		{"", words("RL.NONE", "", key), errPart},
		{"", words("RL.TAKEALL", "", strings.Repeat("k", int(ts.set.MaxKeyLen.Get()))+"{"+n.key(2)+"}"), errKeyTooLong},
		{"", append(words("RL.TAKEALL", "", key), takePart(t, n.key(3))[1:]...), errPart},
		{"", words("RL.TAKEALL", "", key)[:3], errPart},
		{"", append(words("RL.TAKEALL", "", key), []byte("x")), "ERR"},
		{"", words("RL.TAKEALL", "", n.key(3)), ""}, // it leads another group
	} {
		if got := ask(test.user, test.words...); !strings.Contains(got, test.want) || (test.want == "") != (got == "") || test.want == "\x01" && !strings.HasPrefix(strings.TrimLeft(got, "$0123456789\r\n"), "\x01") {
			t.Errorf("%s, %q: %q, want %q", test.user, test.words[1:], got, test.want)
		}
	}
	ts.SetLoading(true)
	if got := ask("", words("RL.TAKEALL", "", key)...); !strings.Contains(got, errLoading) {
		t.Errorf("%q", got)
	}
	ts.SetLoading(false)
}

// takePart returns what asks for a part that takes from a key.
func takePart(t *testing.T, key string) [][]byte {
	l, err := (&limit.Parser{}).Parse("GCRA 9/h")
	if err != nil {
		t.Fatal(err)
	}
	return toBytes([]string{"\x01\x00\x00id" + strconv.Itoa(len(key)), key, string(limit.Pack([]byte{0, 1}, &l))})
}

// callerIn returns the key of a caller of a group.
func (ts *testServer) callerIn(number int, namespace string) string {
	for i := 0; ; i++ {
		c := ts.newCall(ts.group, ts.clock.Now(), resp.RESP2, toBytes([]string{"RL.CHECK", namespace, "1", "u", strconv.Itoa(i)}))
		cmd, _ := c.resolve()
		p, text := cmd.Prepare(&c)
		if text != "" {
			ts.t.Fatal(text)
		}
		key := string(p.Keys()[0])
		p.Free()
		if ts.groupOf([]byte(key)) == ts.every[number] {
			return key
		}
	}
}

// A pause holds back what other nodes ask for, but not what they give back.
func TestPauseHoldsParts(t *testing.T) {
	n := newGroupNodes(t)
	c, other := n.nodes[0].client(), n.nodes[1].client()
	k2 := n.key(2)
	take := "RL.TAKEALL 2 " + k2 + " " + n.key(3) + " FIXED 9/h FIRST FIXED 9/h FIRST\r\n"
	left := func() int64 { return limitLeft(t, n.nodes[1].every[2].Engine.Load(), n.nodes[1].clock.Now(), k2) }
	other.do("CLIENT", "PAUSE", "10000", "WRITE")
	c.conn.take()
	c.s.Data([]byte(take))
	c.until(func() bool { return n.nodes[1].pause.Held.Len() == 1 })
	if left() != 9 {
		t.Error("it was taken")
	}
	other.do("CLIENT", "UNPAUSE")
	if got := c.receive(1)[0]; !strings.HasPrefix(got, "[0 -1 [0 9 8 ") {
		t.Error(got)
	}
	p := n.kept[2][3]
	p.holds.Store(true)
	c.conn.take()
	c.s.Data([]byte(take))
	n.ends(c, 2, 3, nil)
	c.until(p.owes)
	c.until(func() bool { return left() == 7 })
	other.do("CLIENT", "PAUSE", "10000", "WRITE")
	p.holds.Store(false)
	p.endWaits(errors.New("lost"))
	if got := c.receive(1)[0]; got != "-"+errUnknownOutcome {
		t.Error(got)
	}
	c.until(func() bool { return n.nodes[0].crossings.GivenBack.Load() == 2 })
	if left() != 8 {
		t.Errorf("%d are left", left())
	}
}
