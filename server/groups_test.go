package server

import (
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
