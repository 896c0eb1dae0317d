package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"limitdb/resp"
)

// ways are the ways in which a client gets a command carried out. Each replies with the lines of the replies.
var ways = map[string]func(ts *testServer, c *testClient, all [][]string) []string{
	"one by one": func(_ *testServer, c *testClient, all [][]string) (lines []string) {
		for _, words := range all {
			lines = append(lines, line(c.do(words...)))
		}
		return lines
	},
	"in a pipeline": func(ts *testServer, c *testClient, all [][]string) []string {
		var in strings.Builder
		for _, words := range all {
			in.Write(encode(words...))
		}
		return linesOf(c.t, c.raw(in.String()))
	},
	"with CLIENT PAUSE and MONITOR": func(ts *testServer, c *testClient, all [][]string) (lines []string) { // the fast way is closed
		ts.setSpecial(specialMonitor, true)
		defer ts.setSpecial(specialMonitor, false)
		for _, words := range all {
			lines = append(lines, line(c.do(words...)))
		}
		return lines
	},
	"in EXEC": func(_ *testServer, c *testClient, all [][]string) (lines []string) {
		c.do("MULTI")
		for _, words := range all {
			c.do(words...)
		}
		for _, v := range c.do("EXEC").Elems {
			lines = append(lines, line(v))
		}
		return lines
	},
	"in a script": func(_ *testServer, c *testClient, all [][]string) (lines []string) {
		for _, words := range all {
			lines = append(lines, line(c.do(append([]string{"EVAL", "return redis.pcall(unpack(ARGV))", "0"}, words...)...)))
		}
		return lines
	},
	"over HTTP": func(ts *testServer, c *testClient, all [][]string) (lines []string) {
		for _, words := range all {
			var args [][]byte
			for _, w := range words {
				args = append(args, []byte(w))
			}
			out, err := ts.Do(context.Background(), args...)
			if err != nil {
				c.t.Fatal(err)
			}
			lines = append(lines, linesOf(c.t, string(out))...)
		}
		return lines
	},
}

func linesOf(t testing.TB, in string) (lines []string) {
	for r := bufio.NewReader(strings.NewReader(in)); ; {
		v, err := resp.ReadReply(r, 1<<20)
		if err == io.EOF {
			return lines
		}
		if err != nil {
			t.Fatalf("%q: %v", in, err)
		}
		lines = append(lines, line(v))
	}
}

// Each command has one work, and only what a step does is prepared before it.
func TestRowsHaveOneWork(t *testing.T) {
	for _, c := range allCommands().rows {
		n := 0
		for _, has := range []bool{c.Run != nil, c.Do != nil, c.Walk != nil} {
			if has {
				n++
			}
		}
		if n > 1 || n == 0 && len(c.subs) == 0 || c.Prepare != nil && c.Do == nil || c.Plan != nil && c.Prepare == nil {
			t.Errorf("%s: Run %v, Do %v, Walk %v, Prepare %v, Plan %v", c.Full, c.Run != nil, c.Do != nil, c.Walk != nil, c.Prepare != nil, c.Plan != nil)
		}
	}
}

// TestOneWorkForAllWays carries out the same random decisions in each way, on a server for each. Replies, keys and counters must be the same.
//
//test:norace
func TestOneWorkForAllWays(t *testing.T) {
	t.Parallel()
	const rules = `version: 1
namespaces:
  a:
    - {name: each, key: [u], limit: 3/m}
    - {name: all, limit: "FIXED 9/m COUNTDENIED"}
    - {name: free, match: {u: free}, unlimited: true}
`
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	of := func(some ...string) string { return some[r.IntN(len(some))] }
	n := func(most int) string { return strconv.Itoa(r.IntN(most)) }
	aLimit := func() string {
		return of("GCRA "+n(5)+"/10s", "GCRA 2/10s BURST "+n(6), "TOKEN 3/10s INTERVAL", "LEAKY 4/10s", "QUEUE 1/10s BURST 3", "WARMUP 5/1s WARM 10s",
			"FIXED "+n(4)+"/10s", "FIXED 2/10s FIRST COUNTDENIED", "FIXED 4 CALENDAR minute", "SLIDING 3/10s COUNTDENIED", "SEGMENTED 4/10s SEGMENTS 5", "LOG 3/10s", "LOG 2/10s COUNTDENIED")
	}
	key := func() string { return of("k", "l", "m", "value", "jobs") }
	cost := func() string { return of("", "", " COST "+n(4)) }
	command := func() string {
		switch r.IntN(16) {
		case 0, 1, 2:
			return "RL.TAKE " + key() + " " + aLimit() + cost() + of("", "", " PARTIAL", " REPLACE", " PARTIAL REPLACE")
		case 3:
			return "RL.PEEK " + key() + " " + aLimit() + cost()
		case 4:
			return "RL.REFUND " + key() + " " + aLimit() + cost()
		case 5:
			return "RL.RESERVE " + key() + " " + aLimit() + cost() + of("", " MAXWAIT 5s")
		case 6:
			return "CL.THROTTLE " + key() + " " + of("3", "5", "x") + " 4 10" + of("", " -1", " 2")
		case 7:
			return "GCRA " + key() + " 3 4 10.5" + of("", " TOKENS 2")
		case 8:
			return "RL.LEASE " + key() + " " + n(3) + " 10s ID " + of("a", "b") + of("", " WEIGHT 2")
		case 9:
			return "RL.RENEW " + key() + " ID " + of("a", "b") + " 20s"
		case 10:
			return of("RL.RELEASE "+key()+" ID "+of("a", "b"), "RL.HOLDERS "+key())
		case 11:
			return "RL.TAKEALL 2 " + key() + " " + key() + " " + aLimit() + cost() + " " + aLimit()
		case 12, 13:
			return "RL.CHECK " + of("a", "a", "b") + " 1 u " + of("x", "y", "free") + cost() + of("", "", " PEEK", " REFUND") + of("", " EXPLAIN")
		case 14:
			return of("DEL "+key()+" "+key(), "EXISTS k l k", "RL.RESET "+key(), "RL.IMPORT "+key()+" GCRA 9000000000", "KEYS va*")
		}
		return of("SET value 1", "INCR value", "PUBLISH news "+n(9), "TYPE "+key(), "RL.TAKE k GCRA 1")
	}
	servers, clients := map[string]*testServer{}, map[string]*testClient{}
	for way := range ways {
		servers[way] = withRules(t, rules)
		clients[way] = servers[way].client()
	}
	for range 400 {
		var all [][]string
		for range 1 + r.IntN(6) {
			all = append(all, strings.Fields(command()))
		}
		pass := time.Duration(r.IntN(3)*r.IntN(4000)) * time.Millisecond
		var want string
		for _, way := range []string{"one by one", "in a pipeline", "with CLIENT PAUSE and MONITOR", "in EXEC", "in a script", "over HTTP"} {
			ts := servers[way]
			ts.clock.Advance(pass)
			lines := ways[way](ts, clients[way], all)
			_, states := live(t, ts.engine, ts.clock.Now())
			st := ts.engine.Stats()
			got := fmt.Sprintf("%s\nkeys %q\n%d allowed, %d limited, %d peeked, %d refunded\n%s", strings.Join(lines, "\n"), states, st.Allowed, st.Limited, st.Peeked, st.Refunded, figures(ts))
			if want == "" {
				want = got
			} else if got != want {
				t.Fatalf("%s: %q\n got %s\nwant %s", way, all, got, want)
			}
		}
	}
}

// TestEffectsHappenOnce publishes, checks and takes in steps that begin again, and in steps that are not stored.
func TestEffectsHappenOnce(t *testing.T) {
	t.Parallel()
	const rules = "version: 1\nnamespaces:\n  a:\n    - {name: each, key: [u], limit: 3/m}\n"
	for _, tt := range []struct {
		name, script, replies string
		messages              int
	}{
		{"it begins again", "redis.call('PUBLISH','news','x') redis.call('RL.CHECK','a','1','u','me') redis.call('SET','undeclared',1) return 1", "1", 1},
		{"it begins again for a walk", "redis.call('PUBLISH','news','x') redis.call('RL.CHECK','a','1','u','me') return #redis.call('KEYS','?')", "0", 1},
		{"the server ends it", "redis.call('PUBLISH','news','x') redis.call('RL.CHECK','a','1','u','me') while true do end", "-ERR", 0},
	} {
		ts := withRules(t, rules)
		ts.bounds.Steps = 10_000
		c, sub := ts.client(), ts.client()
		sub.do("SUBSCRIBE", "news")
		sub.conn.take()
		if got := c.eval(tt.script, "1", "k"); !strings.HasPrefix(got, tt.replies) {
			t.Errorf("%s: %s", tt.name, got)
		}
		if got := strings.Count(string(sub.conn.take()), "message"); got != tt.messages {
			t.Errorf("%s: %d messages", tt.name, got)
		}
		if got, want := figures(ts), fmt.Sprintf("each %d 0 0 0 0", tt.messages); got != want {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}
