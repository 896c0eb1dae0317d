package server

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"limitdb/resp"
	"limitdb/server/spec"
)

// A reply waits for the groups whose state it and those before it reveal, and only what a group has lost is unknown.
func TestRepliesOfSeveralGroups(t *testing.T) {
	ts, of := newGroupsKept(t, 4, alone)
	k1, k2, k3 := ts.keyIn(1), ts.keyIn(2), ts.keyIn(3)
	c := ts.client()
	if got := c.raw("PING\r\nINCR " + k1 + "\r\nINCR " + k2 + "\r\nPING\r\nINCR " + k1 + "\r\n"); got != "+PONG\r\n" {
		t.Fatalf("%q", got)
	}
	if got := c.raw("INCR " + k3 + "\r\nPING\r\nINCR " + k2 + "\r\n"); got != "" { // behind them
		t.Fatalf("%q", got)
	}
	of[2].turn = 2
	if got := c.raw("INCR " + k2 + "\r\n"); got != "" {
		t.Fatalf("%q", got)
	}
	of[1].endWaits(nil)
	select {
	case <-c.conn.woken:
		t.Error("the reply of one group did not wait for the other")
	default:
	}
	of[2].endWaits(errors.New("lost"))
	if got := c.resume(); got != ":1\r\n"+unknown+"+PONG\r\n:2\r\n" {
		t.Errorf("%q", got)
	}
	of[2].endWaits(errors.New("of two turns"))
	of[3].endWaits(nil)
	if got := c.resume(); got != ":1\r\n+PONG\r\n"+unknown+unknown {
		t.Errorf("%q", got)
	}
	for i, want := range [][]uint64{nil, {1}, {1, 0}, {1}, nil} {
		if !slices.Equal(of[i].asked, want) {
			t.Errorf("group %d was asked in the turns %v, want %v", i, of[i].asked, want)
		}
	}
	if got := c.raw("CLIENT REPLY OFF\r\nINCR " + k1 + "\r\nCLIENT REPLY ON\r\nINCR " + k3 + "\r\n"); got != "+OK\r\n" {
		t.Errorf("%q", got)
	}
	of[1].endWaits(errors.New("lost"))
	of[3].endWaits(nil)
	if got := c.resume(); got != ":2\r\n" {
		t.Errorf("%q", got)
	}
	for _, p := range of {
		p.holds.Store(false)
	}
	if got := c.raw("INCR " + k1 + "\r\nPING\r\nINCR " + k2 + "\r\n"); got != ":4\r\n+PONG\r\n:4\r\n" {
		t.Errorf("%q", got)
	}
}

// The commands of a pipeline on keys of several groups each run in the turn and at the time of their group, in whatever order they come.
func TestTurnsInAPipeline(t *testing.T) {
	ts, of := newGroupsKept(t, 2, alone)
	k1, k2 := ts.keyIn(1), ts.keyIn(2)
	ts.keyed[1].Lead(ts.keyed[1].Engine.Load(), int64(time.Hour))
	ts.clock.Advance(time.Nanosecond)
	of[1].turn, of[2].turn = 5, 7
	c := ts.client()
	set, at := "SET %s v EX 100\r\n", "EXPIRETIME %s\r\n"
	if got := c.raw(fmt.Sprintf(set+set+set+at+at+at, k1, k2, k1, k2, k1, k2)); got != "" {
		t.Fatalf("%q", got)
	}
	of[1].endWaits(nil)
	of[2].endWaits(nil)
	if got := c.resume(); got != "+OK\r\n+OK\r\n+OK\r\n:1600003700\r\n:1600000100\r\n:1600003700\r\n" {
		t.Errorf("%q", got)
	}
	for i, want := range [][]uint64{nil, {5}, {7}} {
		if !slices.Equal(of[i].asked, want) {
			t.Errorf("group %d was asked in the turns %v, want %v", i, of[i].asked, want)
		}
	}
}

// A batch does not decide in the turns of the one before.
func TestEachBatchHasItsTurns(t *testing.T) {
	ts, of := newGroupsKept(t, 2, alone)
	k1, k2 := ts.keyIn(1), ts.keyIn(2)
	c := ts.client()
	var want []uint64
	for turn := range uint64(10) {
		of[1].turn, of[2].turn = 1+turn, 1+turn
		want = append(want, 1+turn)
		if got := c.raw(fmt.Sprintf("INCR %s\r\nINCR %s\r\nINCR %[1]s\r\n", k1, k2)); got != "" {
			t.Fatalf("%q", got)
		}
		for _, p := range of {
			p.endWaits(nil)
		}
		if got, n := c.resume(), 2*turn; got != fmt.Sprintf(":%d\r\n:%d\r\n:%d\r\n", n+1, turn+1, n+2) {
			t.Errorf("%q", got)
		}
	}
	for _, p := range of[1:] {
		if !slices.Equal(p.asked, want) {
			t.Errorf("it was asked in the turns %v, want %v", p.asked, want)
		}
	}
}

// What waits for one group waits for no other, also after a command on the keys of all.
func TestRepliesAfterThoseOfAllGroups(t *testing.T) {
	ts, of := newGroupsKept(t, 4, alone)
	c := ts.client()
	if got := c.raw("DBSIZE\r\n"); got != "" {
		t.Fatalf("%q", got)
	}
	for _, p := range of[1:] {
		p.endWaits(nil)
	}
	if got := c.resume(); got != ":0\r\n" {
		t.Fatalf("%q", got)
	}
	if got := c.raw("INCR " + ts.keyIn(1) + "\r\n"); got != "" {
		t.Fatalf("%q", got)
	}
	of[1].endWaits(nil)
	if got := c.resume(); got != ":1\r\n" {
		t.Errorf("%q", got)
	}
}

// A session remembers a command also where it is for another node, and decides the next of its form by the same plan.
func TestRememberedForAnotherNode(t *testing.T) {
	ts, of := newGroupsKept(t, 2, alone)
	for _, p := range of {
		p.holds.Store(false)
	}
	k1, k2 := ts.keyIn(1), ts.keyIn(2)
	ts.keyed[0].Follow()
	c := ts.client()
	took := func(left int) string { return fmt.Sprintf("*5\r\n:0\r\n:5\r\n:%d\r\n", left) }
	command := func(words ...string) string {
		args := make([][]byte, len(words))
		for i, w := range words {
			args[i] = []byte(w)
		}
		return string(resp.AppendCommand(nil, args...))
	}
	take := command("RL.TAKE", k1, "GCRA", "5/m")
	if got := c.raw(command("RL.TAKE", k2, "GCRA", "7/m", "COST", "3")); !strings.HasPrefix(got, "*5\r\n:0\r\n:7\r\n:4\r\n") {
		t.Fatalf("%q", got)
	}
	if got := c.raw(take); got != "" { // it waits for the leader
		t.Fatalf("%q", got)
	}
	ts.keyed[0].Lead(ts.keyed[0].Engine.Load(), 0)
	ts.LeaderChanged()
	if got := c.resume(); !strings.HasPrefix(got, took(4)) {
		t.Fatalf("%q", got)
	}
	if got := c.raw(take); !strings.HasPrefix(got, took(3)) {
		t.Errorf("%q", got)
	}
}

// A node may stop leading a group between two commands of a pipeline. If the pipeline ends in bytes that are no command, the node refuses the
// commands of that group, and runs the ones behind them with their own words.
func TestPipelineOfWhichSomeIsRefused(t *testing.T) {
	ts, of := newGroupsKept(t, 2, alone)
	for _, p := range of {
		p.holds.Store(false)
	}
	k1, k2 := ts.keyIn(1), ts.keyIn(2)
	of[1].turn = 0
	const refused = "-" + spec.ErrNoLeader + "\r\n"
	if got, want := ts.client().raw("GET "+k1+"\r\nINCR "+k2+"\r\nGET "+k1+"\r\nGET "+k2+"\r\nSTRLEN "+k2+"\r\n*x\r\n"), refused+":1\r\n"+refused+"$1\r\n1\r\n:1\r\n-ERR Protocol error: invalid multibulk length\r\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A command on the keys of all groups is of the turns in which it began, also if a group begins another one, or is led elsewhere, before its last step.
func TestStepsInSeveralTurns(t *testing.T) {
	for _, command := range []string{"FLUSHALL", "DBSIZE", "KEYS k*"} {
		for _, later := range []uint64{0, 2} {
			ts, of := newGroupsKept(t, 2, alone)
			for _, p := range of {
				p.holds.Store(false)
			}
			c := ts.client()
			for i := range 1000 {
				c.raw(fmt.Sprintf("SET k%d 1\r\n", i))
			}
			for _, p := range of {
				p.asked = nil
				p.holds.Store(true)
			}
			c.tiny()
			if got := c.raw(command + "\r\n"); got != "" || !c.s.yielded {
				t.Fatalf("%s: %q", command, got)
			}
			of[1].turn = later
			for c.s.yielded {
				c.s.Resume()
			}
			of[1].endWaits(errors.New("lost"))
			of[2].endWaits(nil)
			if got := c.resume(); got != "-"+errUnknownOutcome+"\r\n" || !slices.Equal(of[1].asked, []uint64{1}) || !slices.Equal(of[2].asked, []uint64{1}) {
				t.Errorf("%s, then turn %d: %.80q, asked in %v and %v", command, later, got, of[1].asked, of[2].asked)
			}
		}
	}
	for _, early := range []bool{false, true} { // and over HTTP, also with raft-ack leader
		ts, of := newGroupsKept(t, 2, alone)
		for _, g := range ts.every {
			g.Keeper.AckLeader.Store(early)
		}
		_, wait := ts.Begin(t.Context(), toBytes([]string{"FLUSHALL"}))
		if wait == nil {
			t.Fatalf("raft-ack leader %t: the reply has left before a majority has the change", early)
		}
		of[1].turn = 2
		over := make(chan string)
		go func() {
			out, err := wait(t.Context())
			over <- fmt.Sprint(string(out), err)
		}()
		for _, p := range of[1:] {
			for asked := false; !asked; runtime.Gosched() {
				p.mu.Lock()
				asked = len(p.asked) > 0
				p.mu.Unlock()
			}
			p.endWaits(nil)
		}
		if got := <-over; got != "+OK\r\n<nil>" || !slices.Equal(of[1].asked, []uint64{1}) {
			t.Errorf("%q, asked in %v", got, of[1].asked)
		}
	}
}
