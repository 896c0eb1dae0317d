package server

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"limitdb/engine"
	"limitdb/resp"
	"limitdb/server/group"
	"limitdb/server/spec"
)

// in runs a command that belongs to no client in a group.
func (ts *testServer) in(g *group.Group, words ...string) string {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	c := httpCall{call: ts.newCall(g, 0, resp.RESP2, args)}
	c.decide()
	return string(c.Out)
}

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

// newGroups starts a server that leads n groups with keys. It stands alone.
func newGroups(t testing.TB, n int, directives ...string) *testServer {
	t.Helper()
	return newTestServerWith(t, func(o *Options) {
		for i := range n + 1 {
			o.Groups = append(o.Groups, GroupOptions{Engine: engine.New(engine.Options{Seed: uint64(1 + i)})})
		}
		o.Engine = o.Groups[0].Engine
	}, directives...)
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
	for i, g := range ts.Groups() {
		g.Lead(g.Engine.Load(), int64(i)*int64(time.Hour))
		ts.in(g, "SET", "k", "v", "EX", "30")
		c := ts.client()
		c.s.call.group, c.s.call.Group = g, &g.Group
		clients = append(clients, c)
		if got := c.raw("RL.TAKE a GCRA 1/m\r\nRL.TAKE a GCRA 1/m WAIT 1m\r\n"); c.s.pending == nil {
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
	for _, g := range ts.Groups() {
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
	c.s.call.group, c.s.call.Group = g, &g.Group
	if got := c.raw("RL.TAKE a GCRA 1/m\r\nRL.TAKE a GCRA 1/m WAIT 2m\r\n"); c.s.pending == nil {
		t.Fatalf("%q", got)
	}
	if got := line(admin.do("CLIENT", "UNBLOCK", strconv.FormatInt(c.s.pub.ID, 10))); got != "1" {
		t.Fatal(got)
	}
	if got := c.resume(); got != "*5\r\n:1\r\n:1\r\n:0\r\n:60000\r\n:60000\r\n" {
		t.Errorf("%q", got)
	}
}
