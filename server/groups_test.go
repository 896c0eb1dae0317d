package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/group"
	"limitdb/server/handler"
	"limitdb/server/keys"
	"limitdb/server/spec"
)

// Each group decides on an engine of its own, at a time of its own, and only while the node leads it.
func TestGroupsShareNothing(t *testing.T) {
	ts, _ := newNode(t)
	second := engine.New(engine.Options{Seed: 2})
	g := group.New(second, ts.clock, nil, ts.opts.Replication)
	g.Follow()
	const took, denied = "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n", "*5\r\n:1\r\n:1\r\n:0\r\n:60\r\n:60\r\n"
	for _, step := range []struct {
		before func()
		g      *group.Group
		want   string
	}{
		{nil, ts.group, took},
		{nil, ts.group, denied},
		{nil, g, "-" + spec.ErrNoLeader + "\r\n"},
		{func() { g.Lead(second, 0) }, g, took}, // the key of the other group is another key
		{nil, g, denied},
		{func() { g.Follow(); g.Lead(second, int64(time.Minute)) }, g, took},
		{nil, ts.group, denied},
		{func() { ts.group.Follow() }, ts.group, "-" + spec.ErrNoLeader + "\r\n"},
		{nil, g, denied},
	} {
		if step.before != nil {
			step.before()
		}
		if got := ts.in(step.g, "CL.THROTTLE", "k", "0", "1", "60"); got != step.want {
			t.Errorf("%q, want %q", got, step.want)
		}
	}
}

// The time of decisions is the group's. What has nothing to do with decisions goes by the process's clock, which no group moves.
func TestGroupHasATimeOfItsOwn(t *testing.T) {
	ts, p := newNode(t, "slowlog-log-slower-than 0")
	p.holds.Store(false)
	c := ts.client()
	ts.clock.Advance(time.Second)
	ts.group.Lead(ts.engine, int64(time.Hour))
	later := "1600003601"
	for _, step := range []struct {
		words []string
		want  string
	}{
		{[]string{"TIME"}, `["` + later + `" "0"]`},
		{[]string{"SET", "k", "v", "EX", "100"}, "OK"},
		{[]string{"EXPIRETIME", "k"}, "1600003701"},
		{[]string{"EVAL", "return redis.call('TIME')[1]", "0"}, `"` + later + `"`},
	} {
		if got := line(c.do(step.words...)); got != step.want {
			t.Errorf("%s: %s, want %s", step.words, got, step.want)
		}
	}
	ts.clock.Advance(time.Second)
	for _, step := range []struct{ words, want []string }{
		{[]string{"INFO", "server"}, []string{"server_time_usec:1600000002000000", "clock_behind_usec:-3600000000"}},
		{[]string{"CLIENT", "LIST"}, []string{" age=2 ", " idle=0 "}},
		{[]string{"SLOWLOG", "GET", "1"}, []string{" 1600000002 "}},
		{[]string{"RL.CLOCK"}, []string{`"time" 1600003602000000`, `"behind" -3600000000`}},
	} {
		got := line(c.do(step.words...))
		for _, want := range step.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %s", step.words, got, want)
			}
		}
	}
}

// A request that waits in a group is granted at the group's time.
func TestGroupWakesWhoWaits(t *testing.T) {
	ts, p := newNode(t)
	p.holds.Store(false)
	ts.group.Lead(ts.engine, int64(time.Hour))
	c := ts.client()
	if got := c.raw("RL.TAKE a GCRA 1/m\r\nRL.TAKE a GCRA 1/m WAIT 2m\r\n"); got == "" || c.s.pending == nil {
		t.Fatalf("%q", got)
	}
	if next := ts.states().Wake(ts.group.Now()); next != testStart+int64(time.Hour+time.Minute) {
		t.Fatalf("the next deadline is %d", next)
	}
	ts.clock.Advance(time.Minute)
	ts.states().Wake(ts.group.Now())
	if got := c.resume(); got != "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60000\r\n" {
		t.Errorf("%q", got)
	}
}

// One loop sweeps all groups hz times a second, in each all that has expired, however much that is.
func TestSweepsGoOverAllGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newGroups(t, 3)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); ts.Run(ctx) }()
		const many = 10 * sweepBudget // in one group
		take := func(g, keys int) {
			l := limit.Limit{Algorithm: limit.GCRA, Max: 1, Burst: 1, Period: 1e9}
			for i := range keys {
				var d limit.Decision
				e, key := ts.every[g].Engine.Load(), []byte("k"+strconv.Itoa(i))
				if err := e.TakeAt(0, ts.every[g].Now(), key, &l, 1, &d); err != nil {
					t.Fatal(err)
				}
			}
		}
		take(1, 1)
		take(2, many)
		take(3, 10)
		ts.clock.Advance(time.Minute)
		time.Sleep(time.Second / 2)
		synctest.Wait()
		for number, g := range ts.every {
			if keys := g.Engine.Load().Stats().Keys; keys != 0 {
				t.Errorf("group %d has %d keys that have expired", number, keys)
			}
		}
		cancel()
		<-done
	})
}

// What concerns the server as a whole concerns each of its groups.
func TestServerIsAllItsGroups(t *testing.T) {
	ts := newGroups(t, 4)
	for i, g := range ts.Groups() {
		if got := ts.in(g, "SET", "k", "v"); got != "+OK\r\n" || g.Engine.Load().Stats().Keys != 1 {
			t.Errorf("group %d: %q", i, got)
		}
	}
	c := ts.client()
	info := c.do("INFO").Text
	for _, want := range []string{"\r\nkeys:4\r\n", "keys=4,"} {
		if !strings.Contains(info, want) {
			t.Errorf("INFO lacks %q", want)
		}
	}
	if e, h := ts.stats(), historyFigures(ts.Server); e.Keys != 4 || h.Keys != 4 || e.Bytes != ts.bytes() || h.Bytes != e.Bytes {
		t.Errorf("%+v, %+v, %d bytes", e, h, ts.bytes())
	}
	all := func(bit uint32) (n int) {
		for _, g := range ts.Groups() {
			if g.Special.Load()&bit != 0 {
				n++
			}
		}
		return n
	}
	ts.SetLoading(true)
	loading := all(specialLoading)
	ts.SetLoading(false)
	ts.SetRefusing(errors.New("no"))
	if refusing := all(specialMisconf); loading != 5 || refusing != 5 || !ts.Refusing() || all(specialLoading) != 0 {
		t.Errorf("%d groups load, %d refuse", loading, refusing)
	}
}

// The groups of a server expire their keys and wake those who wait, and Live looks at each.
func TestEachGroupIsSweptAndRung(t *testing.T) {
	ts := newGroups(t, 2)
	var clients []*testClient
	for i, g := range ts.keyed {
		g.Lead(g.Engine.Load(), int64(i)*int64(time.Hour))
		key := ts.keyIn(i + 1)
		c := ts.client()
		clients = append(clients, c)
		if got := c.raw("SET {" + key + "} v EX 30\r\nRL.TAKE " + key + " GCRA 1/m\r\nRL.TAKE " + key + " GCRA 1/m WAIT 1m\r\n"); c.s.pending == nil {
			t.Fatalf("%q", got)
		}
	}
	ts.clock.Advance(time.Minute)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go ts.Run(ctx)
	for _, c := range clients {
		if got := c.resume(); got != "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60000\r\n" {
			t.Errorf("%q", got)
		}
	}
	for _, g := range ts.keyed {
		for g.Engine.Load().Stats().Expired == 0 {
			runtime.Gosched()
		}
	}
	if err := ts.Live(); err != nil {
		t.Error(err)
	}
}

// CLIENT UNBLOCK ends a wait in whatever group it is, by the time of that group.
func TestUnblockInAGroup(t *testing.T) {
	ts := newGroups(t, 2)
	g := ts.Groups()[2]
	g.Lead(g.Engine.Load(), int64(time.Hour))
	c, admin := ts.client(), ts.client()
	key := ts.keyIn(2)
	if got := c.raw("RL.TAKE " + key + " GCRA 1/m\r\nRL.TAKE " + key + " GCRA 1/m WAIT 2m\r\n"); c.s.pending == nil {
		t.Fatalf("%q", got)
	}
	if got := line(admin.do("CLIENT", "UNBLOCK", strconv.FormatInt(c.s.pub.ID, 10))); got != "1" {
		t.Fatal(got)
	}
	if got := c.resume(); got != "*5\r\n:1\r\n:1\r\n:0\r\n:60000\r\n:60000\r\n" {
		t.Errorf("%q", got)
	}
}

// While another node leads a group, its keys wait for that, and those of the other groups do not.
func TestGroupThatIsLedElsewhere(t *testing.T) {
	ts := newGroups(t, 2)
	ts.keyed[0].Follow()
	k1, k2 := ts.keyIn(1), ts.keyIn(2)
	for range 2 { // the second time, the session has learned the command
		if got := ts.client().raw(strings.Repeat("INCR "+k2+"\r\n", 9)); strings.Count(got, ":") != 9 {
			t.Errorf("%q", got)
		}
	}
	if got := ts.in(ts.keyed[0], "INCR", k1); got != "-"+spec.ErrNoLeader+"\r\n" {
		t.Errorf("%q", got)
	}
	ts.keyed[0].Lead(ts.keyed[0].Engine.Load(), 0)
	if got := ts.client().raw("INCR " + k1 + "\r\n"); got != ":1\r\n" {
		t.Errorf("%q", got)
	}
}

// Commands whose keys have several slots are refused, whatever group these are in, except those on several limits: they need one group.
func TestCrossSlot(t *testing.T) {
	ts := newGroups(t, 4)
	ts.rulesAre("version: 1\nnamespaces:\n  one:\n    - {name: user, key: [u], limit: 5/m}\n  two:\n    - {name: user, key: [u], limit: 5/m}\n    - {name: all, limit: 400/m}\n")
	k1, k2 := ts.keyIn(1), ts.keyIn(2)
	other := "x"
	for i := 0; ts.groupOf([]byte(other)) != ts.every[1] || resp.Slot([]byte(other)) == resp.Slot([]byte(k1)); i++ {
		other = "x" + strconv.Itoa(i)
	}
	apart := ""
	for i := 0; apart == ""; i++ { // a caller whose rules are in two groups
		u := "u" + strconv.Itoa(i)
		if keys := ts.keysOf([]string{"RL.CHECK", "two", "1", "u", u}); ts.groupOf([]byte(keys[0])) != ts.groupOf([]byte(keys[1])) {
			apart = u
		}
	}
	const crosses = "-" + errCrossSlot
	c := ts.client()
	c.steps(ts,
		[2]string{"DEL " + k1 + " " + k2, crosses},
		[2]string{"DEL " + k1 + " " + other, crosses},
		[2]string{"DEL " + k1 + " {" + k1 + "}2 " + k1, "0"},
		[2]string{"RL.TAKEALL 2 " + k1 + " " + other + " GCRA 5/m GCRA 6/m", "[0 -1 [0 5 4 -1 12000] [0 6 5 -1 10000]]"},
		[2]string{"RL.HOLDALL 2 " + k1 + " " + k2 + " GCRA 5/m GCRA 6/m TTL 1m ID i", "-" + handler.ErrOneSlot("RL.HOLDALL")},
		[2]string{"RL.COMMITALL 2 " + k1 + " " + k2 + " ID i", "-" + handler.ErrOneSlot("RL.COMMITALL")},
		[2]string{"RL.CANCELALL 2 " + k1 + " " + k2 + " ID i", "-" + handler.ErrOneSlot("RL.CANCELALL")},
		[2]string{"RL.CHECK one 1 u a", `[0 5 4 -1 12000 "user"]`},
		[2]string{"RL.CHECK two 1 u " + apart + " WAIT 1m", "-" + handler.ErrOneSlot("WAIT")},
		[2]string{"RL.CHECK one 1 nothing a", `[0 -1 -1 -1 0 ""]`},
		[2]string{"EVAL return{KEYS[1]} 1 " + k1, `["` + k1 + `"]`},
		[2]string{"EVAL return{KEYS[1]} 2 " + k1 + " " + k2, crosses},
		[2]string{"EVAL return{redis.call('INCR',KEYS[1])} 1 " + k2, "[1]"},
		[2]string{"EVAL return{redis.pcall('INCR','" + k1 + "').err} 1 " + k2, `["` + errStrangeKey + `"]`},
		[2]string{"EVAL return{redis.pcall('DBSIZE').err} 1 " + k2, `["` + errAllGroups + `"]`},
		[2]string{"EVAL return{1} 0", "[1]"},
		[2]string{"WATCH " + k1 + " {" + k1 + "}", "OK"},
		[2]string{"WATCH " + k2, crosses},
		[2]string{"MULTI", "OK"},
		[2]string{"GET {" + k1 + "}3", "QUEUED"},
		[2]string{"EXEC", "[nil]"},
		[2]string{"WATCH " + k1, "OK"},
		[2]string{"MULTI", "OK"},
		[2]string{"GET " + k2, "QUEUED"},
		[2]string{"EXEC", crosses},
		[2]string{"EXEC", "-ERR EXEC without MULTI"},
		[2]string{"MULTI", "OK"},
		[2]string{"PING", "QUEUED"},
		[2]string{"EXEC", "[PONG]"},
		[2]string{"MULTI", "OK"},
		[2]string{"INCR " + k2, "QUEUED"},
		[2]string{"RL.CHECK two 1 u " + apart, "QUEUED"},
		[2]string{"EXEC", crosses},
		[2]string{"MULTI", "OK"},
		[2]string{"DEL " + k1 + " " + k2, crosses},
		[2]string{"EXEC", "-EXECABORT Transaction discarded because of previous errors."},
		[2]string{"MULTI", "OK"},
		[2]string{"DBSIZE", "-" + errAllGroups},
		[2]string{"DISCARD", "OK"},
		[2]string{"GET " + k2, `"1"`},
	)
	if got := line(ts.alone("DEL", k1, k2)); got != crosses {
		t.Error(got)
	}
	if got, _ := ts.Do(context.Background(), toBytes([]string{"GET", k2})...); string(got) != "$1\r\n1\r\n" {
		t.Errorf("%q", got)
	}
	if got, _ := ts.Do(context.Background(), toBytes([]string{"WATCH", k2})...); !strings.HasPrefix(string(got), "-ERR watch needs a connection") {
		t.Errorf("%q", got)
	}
}

// Commands on all keys see those of all groups.
func TestKeysOfAllGroups(t *testing.T) {
	ts := newGroups(t, 4)
	c := ts.client()
	want := map[string]bool{}
	for i := range 200 {
		key := "key" + strconv.Itoa(i)
		want[key] = true
		c.do("SET", key, "v")
	}
	if got := line(c.do("DBSIZE")); got != "200" {
		t.Error(got)
	}
	for how, keys := range map[string]func() []resp.Value{
		"KEYS": func() []resp.Value { return c.do("KEYS", "*").Elems },
		"SCAN": func() (all []resp.Value) {
			for cursor := "0"; ; {
				v := c.do("SCAN", cursor, "COUNT", "7")
				if all = append(all, v.Elems[1].Elems...); v.Elems[0].Text == "0" {
					return all
				}
				cursor = v.Elems[0].Text
			}
		},
	} {
		got := map[string]bool{}
		for _, v := range keys() {
			got[v.Text] = true
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %d keys", how, len(got))
		}
	}
	if key := c.do("RANDOMKEY").Text; !want[key] {
		t.Errorf("%q", key)
	}
	for i := range 3 {
		for range 5 + i {
			c.do("RL.TAKE", ts.keyIn(1+i), "GCRA", "1/m")
		}
	}
	top := line(c.do("RL.TOP", "COUNT", "2"))
	if want := fmt.Sprintf(`[[%q 6] [%q 5]]`, ts.keyIn(3), ts.keyIn(2)); top != want {
		t.Errorf("%s, want %s", top, want)
	}
	c.steps(ts,
		[2]string{"SCAN 63", "-" + keys.ErrOtherCursor},
		[2]string{"FLUSHALL", "OK"},
		[2]string{"DBSIZE", "0"},
		[2]string{"RANDOMKEY", "nil"},
		[2]string{"SCAN 0 COUNT 100000", `["1" []]`},
	)
}
