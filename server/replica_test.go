package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"limitdb/engine"
	"limitdb/internal/journal"
	"limitdb/internal/stats"
	"limitdb/server/clients"
	"limitdb/server/cluster"
	"limitdb/server/durable"
	"limitdb/server/spec"
)

// primary is the Durability of a node that leads in several turns.
type primary struct {
	turn    uint64
	asked   []uint64 // the turns that Wait got
	waiting []func(error)
	leader  string
	holds   atomic.Bool // replies wait
	mu      sync.Mutex  // guards asked and waiting
	status  stats.Replication
}

// newNode starts a server that is a node of a cluster.
func newNode(t *testing.T, directives ...string) (*testServer, *primary) {
	p := &primary{turn: 1}
	p.holds.Store(true)
	var ts *testServer
	r := &Replication{
		Leader: func() (id, leader string) { return "me", p.leader },
		Members: func() ([]Member, error) {
			return []Member{
				{ID: "me", Address: "127.0.0.1:7000", Voter: true, Leader: p.status.Leads, Self: true, Client: "127.0.0.1:6", Last: 9},
				{ID: "b", Address: "127.0.0.1:7001", Leader: p.leader == "127.0.0.1:7", Client: "127.0.0.1:7", Contact: 1500e6, Last: 8},
				{ID: "c", Address: "127.0.0.1:7002", Voter: true, Contact: -1}, // does not answer
			}, nil
		},
		Status: func() stats.Replication {
			p.status.Leader = p.leader
			return p.status
		},
		Table:   func() *engine.Engine { return ts.states() },
		Add:     func(id, _ string) error { return errors.New("replication: no room for " + id) },
		Remove:  func(string) error { return ErrNotLeading },
		Promote: func(id string) error { return fmt.Errorf("%w: %s", ErrNotYet, id) },
		Demote: func(id string) error {
			if id == "placed" {
				return errors.New("groups: the votes are those of several groups: use RAFT DRAIN")
			}
			return nil
		},
		Transfer: func(id string) error { return errors.New("to [" + id + "]") },
	}
	ts = newTestServerWith(t, func(o *Options) { o.Replication = r }, directives...)
	ts.Server.durable.Source = p.source()
	return ts, p
}

// owes reports whether a reply waits.
// source returns the functions by which a group keeps its replies for p.
func (p *primary) source() *durable.Source {
	return &durable.Source{
		Turn: func() uint64 { return p.turn },
		Wait: func(turn uint64, fn func(error)) bool {
			if !p.holds.Load() {
				return false
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.asked = append(p.asked, turn)
			p.waiting = append(p.waiting, fn)
			return true
		},
		Holds: p.holds.Load,
		Kick:  func() {},
	}
}

func (p *primary) owes() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting) > 0
}

func (p *primary) endWaits(err error) {
	p.mu.Lock()
	ready := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	for _, fn := range ready {
		fn(err)
	}
}

const unknown = "-" + errUnknownOutcome + "\r\n"

// Each reply that was held back and has no known outcome becomes one error.
func TestUnknownOutcomes(t *testing.T) {
	ts, p := newNode(t)
	c := ts.client()
	if got := c.raw("RL.TAKE a GCRA 1/m\r\nPING\r\nRL.TAKE a TOKEN 1/m\r\nRL.INFO a\r\n"); got != "" {
		t.Fatalf("%q left", got)
	}
	if got := c.raw("RL.PEEK a GCRA 1/m\r\n"); got != "" {
		t.Fatalf("%q left", got)
	}
	p.endWaits(errors.New("abdicated"))
	if got := c.resume(); got != strings.Repeat(unknown, 4) {
		t.Fatalf("%q", got)
	}
	p.endWaits(nil)
	if got := c.resume(); !strings.HasPrefix(got, "*5\r\n:1\r\n") {
		t.Fatalf("%q", got)
	}
}

// A reply waits in the turn in which its batch began, or in which its command was parked.
func TestRepliesWaitInTheirTurn(t *testing.T) {
	ts, p := newNode(t)
	c := ts.client()
	c.raw("RL.TAKE a GCRA 1/m\r\n") // waits in turn 1
	c.raw("RL.PEEK a GCRA 1/m\r\n") // behind it, in turn 1
	p.turn = 2
	c.raw("RL.PEEK a GCRA 1/m\r\n") // behind both, in turn 2
	p.endWaits(nil)
	c.resume()
	p.endWaits(errors.New("of two turns"))
	if got := c.resume(); got != unknown+unknown {
		t.Fatalf("%q", got)
	}
	c.raw("RL.TAKE a GCRA 1/m WAIT 1d\r\n") // parked in turn 2
	p.turn = 3
	ts.clock.Advance(2 * 60e9)
	ts.engine.Wake(ts.clock.Now())
	if got := c.resume(); got != "" {
		t.Fatalf("%q", got)
	}
	if want := []uint64{1, 0, 2}; len(p.asked) != 3 || p.asked[0] != want[0] || p.asked[1] != want[1] || p.asked[2] != want[2] {
		t.Errorf("the waits were in turns %v, want %v", p.asked, want)
	}
}

// A node that does not lead names the leader, and late decisions meet a closed engine.
func TestNodeThatFollows(t *testing.T) {
	ts, p := newNode(t)
	c := ts.client()
	ts.group.Follow()
	c.raw("CONFIG SET raft-redirect moved\r\n")
	if got := c.raw("RL.TAKE foo GCRA 1/m\r\n"); got != "" {
		t.Errorf("%q", got)
	}
	ts.clock.Advance(leaderWait)
	ts.LeaderChanged()
	if got := c.resume(); got != "-"+spec.ErrNoLeader+"\r\n" {
		t.Errorf("%q", got)
	}
	p.leader = "127.0.0.1:7"
	for in, want := range map[string]string{
		"RL.TAKE foo GCRA 1/m":                   "-MOVED 12182 127.0.0.1:7\r\n",
		"RL.TAKEALL 2 bar foo GCRA 1/m GCRA 1/m": "-MOVED 5061 127.0.0.1:7\r\n",
		"DBSIZE":                                 "-MOVED 0 127.0.0.1:7\r\n",
		"PING":                                   "+PONG\r\n",
		"RAFT LEADER":                            "$11\r\n127.0.0.1:7\r\n",
		"RL.CLOCK ADOPT":                         "-ERR no node can move the time of the cluster\r\n",
	} {
		if got := c.raw(in + "\r\n"); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}

	// The node leads again, with another engine.
	e := engine.New(engine.Options{Seed: 2})
	ts.group.Lead(e, 0)
	c.raw("RL.TAKE foo GCRA 1/m\r\n")
	p.endWaits(nil)
	if got := c.resume(); !strings.HasPrefix(got, "*5\r\n:0\r\n") || e.Stats().Keys != 1 {
		t.Errorf("%q, %d keys", got, e.Stats().Keys)
	}
	// The node stops leading while a client is parked.
	c.raw("RL.TAKE foo GCRA 1/m WAIT 1d\r\n")
	late := ts.client()
	e.Close()
	if got := c.resume(); got != "-"+spec.ErrNoLeader+"\r\n" {
		t.Errorf("the parked client: %q", got)
	}
	if got := late.raw("RL.TAKE foo GCRA 1/m\r\n"); got != "-"+spec.ErrNoLeader+"\r\n" {
		t.Errorf("a late client: %q", got)
	}
}

func TestServerThatStandsAlone(t *testing.T) {
	c := newTestServer(t).client()
	for _, in := range []string{"RAFT LEADER", "RAFT INFO", "RAFT SERVER LIST", "RAFT SERVER ADD a b", "RAFT TRANSFER", "RAFT SNAPSHOT"} {
		if got := c.raw(in + "\r\n"); got != "-"+cluster.ErrNoRaft+"\r\n" {
			t.Errorf("%s: %q", in, got)
		}
	}
}

// FLUSHALL of a node removes key by key, with a record for each: the versions of a flush mean nothing to other nodes.
func TestFlushOfANode(t *testing.T) {
	ts, p := newNode(t)
	c := ts.client()
	log := ts.replayed()
	for _, k := range []string{"a", "b", "c"} {
		c.raw("RL.TAKE " + k + " GCRA 1/m\r\n")
	}
	log.drain()
	c.raw("FLUSHALL\r\n")
	p.endWaits(nil)
	if n := ts.engine.Stats().Keys; n != 0 {
		t.Errorf("%d keys are left", n)
	}
	var b journal.Buffer
	ts.engine.Cut()
	for ts.engine.Drain(&b, 1<<30) {
	}
	var gone []string
	for rest := b.Bytes; len(rest) > 0; {
		r, more, err := journal.Parse(rest)
		if err != nil || r.Op != journal.Delete {
			t.Fatalf("a record of op %d: %v", r.Op, err)
		}
		gone, rest = append(gone, string(r.Key)), more
	}
	if slices.Sort(gone); !slices.Equal(gone, []string{"a", "b", "c"}) {
		t.Errorf("there are records for %q", gone)
	}
}

// A node that hands over waits for the batches that its sessions are running: otherwise the outcome of their commands would be unknown.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts, p := newNode(t)
		p.holds.Store(false)
		c := ts.client()
		during := int64(0)
		ts.Server.durable.Turn = func() uint64 {
			during = c.s.pub.Batches.Load()
			return p.turn
		}
		c.raw("RL.TAKE a GCRA 1/m\r\n")
		if after := c.s.pub.Batches.Load(); during%2 != 1 || after != during+1 {
			t.Errorf("%d during a batch, %d after it", during, after)
		}
		settle := func() chan struct{} {
			done := make(chan struct{})
			go func() {
				ts.Settle()
				close(done)
			}()
			synctest.Wait()
			return done
		}
		<-settle()
		c.s.pub.Batches.Add(1)
		done := settle()
		select {
		case <-done:
			t.Error("it does not wait for a batch")
		default:
		}
		c.s.pub.Batches.Add(2) // it has ended, and the next one runs
		<-done
		began := time.Now()
		<-settle()
		if took := time.Since(began); took != clients.SettleTime {
			t.Errorf("it waits %v for a batch that does not end", took)
		}
	})
}
