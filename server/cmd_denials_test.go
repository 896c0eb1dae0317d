package server

import (
	"strings"
	"testing"
	"time"

	"limitdb/internal/origin"
	"limitdb/resp"
)

// denied renders denials as "key why limit cost left wait", with the rule and the number if it is not 1.
func denied(v resp.Value) string {
	if v.Err() != nil {
		return line(v)
	}
	var out []string
	for _, e := range v.Elems {
		f := map[string]string{}
		for i := 0; i+1 < len(e.Elems); i += 2 {
			f[e.Elems[i].Text] = strings.Trim(line(e.Elems[i+1]), `"`)
		}
		text := strings.Join([]string{f["key"], f["why"], f["limit"], f["cost"], f["left"], f["wait"]}, " ")
		if f["rule"] != "" {
			text += " by " + f["namespace"] + "/" + f["rule"]
		}
		if f["times"] != "1" {
			text += " ×" + f["times"]
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// Every command that can be denied is listed, with the limit that denied it, whatever way it came. What is granted is not listed, nor peeks,
// refunds, and what was given up.
func TestDenials(t *testing.T) {
	ts := newTestServer(t)
	if _, err := ts.rules.Load([]byte(`version: 1
namespaces:
  shop:
    - {name: user, key: [user], limit: 1/m}
    - {name: shadow, limit: 0/m, mode: shadow, candidate: 0/m}
`)); err != nil {
		t.Fatal(err)
	}
	c := ts.client()
	for _, test := range []struct{ name, in, want string }{
		{"take", "RL.TAKE a GCRA 1/m; RL.TAKE a GCRA 1/m", "a limit GCRA 1/m 1 0 60000"},
		{"more than there ever is", "RL.TAKE a GCRA 1/m COST 2", "a cost GCRA 1/m 2 1 -1"},
		{"nothing is allowed", "RL.TAKE a FIXED 0/m", "a blocked FIXED 0/m 1 0 -1"},
		{"with COUNTDENIED", "RL.TAKE a LOG 1/m COUNTDENIED; RL.TAKE a LOG 1/m COUNTDENIED", "a limit LOG 1/m COUNTDENIED 1 0 60000"},
		{"a part", "RL.TAKE a GCRA 1/m; RL.TAKE a GCRA 1/m COST 1 PARTIAL", "a limit GCRA 1/m 1 0 60000"},
		{"throttle", "CL.THROTTLE a 0 1 60; CL.THROTTLE a 0 1 60", "a limit GCRA 1/m 1 0 60000"},
		{"gcra", "GCRA a 0 1 60; GCRA a 0 1 60", "a limit GCRA 1/m 1 0 60000"},
		{"reserve", "RL.RESERVE a GCRA 1/m COST 3; RL.RESERVE a GCRA 1/m MAXWAIT 1s", "a maxwait GCRA 1/m 1 0 119000"},
		{"take all", "RL.TAKE b GCRA 1/m; RL.TAKEALL 2 a b GCRA 2/m GCRA 1/m", "b limit GCRA 1/m 1 0 60000"},
		{"lease", "RL.LEASE a 1 1m ID x; RL.LEASE a 1 1m ID y", "a limit LEASE 1 1 0 60000"},
		{"check", "RL.CHECK shop 1 user u; RL.CHECK shop 1 user u; RL.CHECK shop 1 user u PEEK", "\\x00user limit GCRA 1/m 1 0 60000 by shop/user"},
		{"transaction", "MULTI; RL.TAKE a GCRA 1/m; RL.TAKE a GCRA 1/m; RL.CHECK shop 1 user u; RL.CHECK shop 1 user u; EXEC", "\\x00user limit GCRA 1/m 1 0 60000 by shop/user, a limit GCRA 1/m 1 0 60000"},
		{"script", "EVAL redis.call('RL.TAKE','a','GCRA','1/m');redis.call('RL.TAKE','a','GCRA','1/m') 0", "a limit GCRA 1/m 1 0 60000"},
		{"twice", "RL.TAKE a GCRA 0/m; RL.TAKE a GCRA 0/m", "a blocked GCRA 0/m 1 0 -1 ×2"},
		{"nothing is denied", "RL.TAKE a GCRA 1/m; RL.PEEK a GCRA 1/m; RL.REFUND a GCRA 1/m; RL.TAKE a; RL.TAKE a GCRA 1/m COST 0", ""},
		{"given up", "MULTI; RL.TAKE a GCRA 0/m; DISCARD", ""},
		{"script that fails", "EVAL redis.call('RL.TAKE','a','GCRA','0/m');error('x') 0", "a blocked GCRA 0/m 1 0 -1"},
	} {
		c.do("FLUSHALL")
		c.do("CONFIG", "SET", "recent-denials", "0")
		c.do("CONFIG", "SET", "recent-denials", "100")
		for _, command := range strings.Split(test.in, "; ") {
			words := strings.Fields(command)
			if words[0] == "EVAL" {
				words = []string{"EVAL", strings.TrimSuffix(strings.TrimPrefix(command, "EVAL "), " 0"), "0"}
			}
			c.raw(string(encode(words...)))
		}
		if got := denied(c.do("RL.DENIALS")); unkeyed(got) != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
	}
}

// unkeyed writes \x00user for each key of a rule's caller.
func unkeyed(text string) string {
	parts := strings.Split(text, ", ")
	for i, p := range parts {
		if _, rest, ok := strings.Cut(p, " "); ok && strings.Contains(p, " by ") {
			parts[i] = `\x00user ` + rest
		}
	}
	return strings.Join(parts, ", ")
}

// A pipeline, whose decisions take the fast way, is kept as single commands are.
func TestDenialsOfAPipeline(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.raw(strings.Repeat(string(encode("RL.TAKE", "a", "GCRA", "3/m"))+string(encode("CL.THROTTLE", "b", "0", "1", "60")), 10))
	if got, want := denied(c.do("RL.DENIALS")), "a limit GCRA 3/m 1 0 20000 ×7, b limit GCRA 1/m 1 0 60000 ×9"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// A request that waits is listed when it is denied, one that others are before with its reason.
func TestDenialsOfWaiters(t *testing.T) {
	ts := newTestServer(t)
	first, second := ts.client(), ts.client()
	first.do("RL.TAKE", "a", "GCRA", "2/m")
	first.do("RL.TAKE", "a", "GCRA", "2/m")
	first.say("RL.TAKE a GCRA 2/m COST 2 WAIT 70s")
	if got := denied(second.do("RL.DENIALS")); got != "" {
		t.Errorf("before it is denied: %s", got)
	}
	ts.clock.Advance(35 * time.Second)
	second.do("RL.TAKE", "a", "GCRA", "2/m")
	if got, want := denied(second.do("RL.DENIALS")), "a queue GCRA 2/m 1 1 25000"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	ts.clock.Advance(time.Second)
	first.s.pub.Unblock(ts.clock.Now(), nil)
	first.woken()
	if got, want := denied(second.do("RL.DENIALS", "COUNT", "1")), "a limit GCRA 2/m 2 1 24000"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestDenialsReplies(t *testing.T) {
	ts := newTestServer(t, "protected-mode no")
	c, far := ts.client(), ts.clientFrom("10.1.2.3:4000")
	long := strings.Repeat("k", 100)
	far.do("RL.TAKE", long, "GCRA", "0/m")
	ts.clock.Advance(1500 * time.Millisecond)
	c.do("RL.TAKE", "a", "GCRA", "0/m")
	shown := c.do("RL.TOP", "COUNT", "1", "BY", "REQUESTS").Elems
	if len(shown) != 1 {
		t.Fatal("there is no top key")
	}
	entry := func(at, key, addr string) string {
		return `["time" ` + at + ` "since" ` + at + ` "times" 1 "key" "` + key + `" "namespace" "" "rule" "" "limit" "GCRA 0/m" "cost" 1 "left" 0 "wait" -1 "why" "blocked" "addr" "` + addr + `" "user" "default"]`
	}
	of, one := "", c.do("RL.DENIALS", long)
	for _, k := range c.do("RL.TOP").Elems {
		if text := k.Elems[0].Text; strings.HasPrefix(text, "kkk") {
			of = text
		}
	}
	if got, want := line(one), "["+entry("1600000000000", of, "10.1.2.3:4000")+"]"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if got, want := line(c.do("RL.DENIALS", "COUNT", "1")), "["+entry("1600000001500", "a", "127.0.0.1:40000")+"]"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	c.do("HELLO", "3")
	if got := c.raw("RL.DENIALS a\r\n"); !strings.HasPrefix(got, "*1\r\n%13\r\n$4\r\ntime\r\n:1600000001500\r\n") {
		t.Errorf("%q", got)
	}
	c.steps(ts,
		[2]string{"RL.DENIALS nobody", "[]"},
		[2]string{"RL.DENIALS COUNT", "[]"},
		[2]string{"RL.DENIALS COUNT COUNT 5", "[]"},
		[2]string{"RL.DENIALS a COUNT", `-ERR unknown option "a" for RL.DENIALS`},
		[2]string{"RL.DENIALS a COUNT 0", `-ERR COUNT must be an integer from 1 to 1000: "0"`},
		[2]string{"RL.DENIALS a COUNT 1001", `-ERR COUNT must be an integer from 1 to 1000: "1001"`},
		[2]string{"RL.DENIALS a LAST 5", `-ERR unknown option "LAST" for RL.DENIALS`},
		[2]string{"RL.DENIALS a COUNT 5 x", "-ERR wrong number of arguments for 'rl.denials' command. Usage: RL.DENIALS [key] [COUNT count]. Example: RL.DENIALS user:17"},
		[2]string{"CONFIG SET recent-denials 0", "OK"},
		[2]string{"RL.TAKE a GCRA 0/m", "[1 0 0 -1 0]"},
		[2]string{"RL.DENIALS", "-ERR no denials are kept: set recent-denials to the number to keep"},
	)
}

// A denial says where a request over HTTP came from.
func TestDenialsOverHTTP(t *testing.T) {
	ts := newTestServer(t)
	ctx := origin.With(t.Context(), &origin.Origin{User: "ops", Addr: "10.9.8.7:65000"})
	if _, err := ts.Do(ctx, []byte("RL.TAKE"), []byte("a"), []byte("GCRA"), []byte("0/m")); err != nil {
		t.Fatal(err)
	}
	if got := line(ts.client().do("RL.DENIALS")); !strings.Contains(got, `"addr" "10.9.8.7:65000" "user" "ops"`) {
		t.Errorf("%s", got)
	}
}

// The leader has the denials, with the addresses of the clients of all nodes, also of those over HTTP.
func TestDenialsOfOtherNodes(t *testing.T) {
	n := newTwoNodes(t)
	c := n.follower.client()
	c.gets("RL.TAKE a GCRA 0/d\r\n", "[1 0 0 -1 0]")
	for i, addr := range []string{"127.0.0.1:50000", "127.0.0.1:50001", "127.0.0.1:50000"} {
		n.leader.clock.Advance(time.Second)
		ctx := origin.With(t.Context(), &origin.Origin{User: origin.DefaultUser, Addr: addr})
		if b, err := n.follower.Do(ctx, encodeArgs("RL.TAKE", "h", "GCRA", "0/d")...); err != nil || !strings.HasPrefix(string(b), "*5\r\n:1\r\n") {
			t.Fatalf("%d: %q, %v", i, b, err)
		}
	}
	got := c.send("RL.DENIALS\r\n", 1)[0]
	var addrs []string
	for _, e := range strings.Split(got, `"addr" "`)[1:] {
		addr, _, _ := strings.Cut(e, `"`)
		addrs = append(addrs, addr)
	}
	if got, want := strings.Join(addrs, " "), "127.0.0.1:50000 127.0.0.1:50001 127.0.0.1:50000 127.0.0.1:40000"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if kept := n.follower.streams.Kept(); kept != 2 {
		t.Errorf("%d streams are kept", kept)
	}
}

// encodeArgs returns words as arguments.
func encodeArgs(words ...string) (args [][]byte) {
	for _, w := range words {
		args = append(args, []byte(w))
	}
	return args
}
