package stats

import "sync/atomic"

// Command has the figures of one command.
type Command struct {
	// Name is in lower case. A subcommand's name follows a bar: client|list.
	Name string
	// Rejected counts calls that did not run, and Failed calls that ran and were answered with an error. A
	// denial is not an error.
	Rejected, Failed uint64
	// Latency has the times of the calls that ran, without the network.
	Latency Histogram
}

// Calls returns how often the command ran.
func (c *Command) Calls() uint64 { return c.Latency.Count() }

// Errors returns how many calls were answered with an error.
func (c *Command) Errors() uint64 { return c.Failed + c.Rejected }

// Since returns the difference between c and earlier figures.
func (c Command) Since(before Command) Command {
	c.Rejected -= before.Rejected
	c.Failed -= before.Failed
	c.Latency.Sub(&before.Latency)
	return c
}

// Traffic has the totals of all commands.
type Traffic struct {
	// Reads counts batches of commands, Calls the commands that ran.
	Reads, Calls uint64
	// In and Out count bytes.
	In, Out uint64
}

// Counters are the counters of a server. They are split into stripes, so that cores rarely write to the same
// cache line. Any goroutine may call the methods.
type Counters struct{ stripes []Stripe }

// A Stripe is a part of a server's counters. Each writer chooses one.
type Stripe struct {
	_        [64]byte
	Reads    atomic.Uint64
	In, Out  atomic.Uint64
	commands []command
	n        int // its number
	_        [64]byte
}

type command struct {
	rejected, failed atomic.Uint64
	latency          durations
}

// NewCounters returns counters for commands numbered from 0.
func NewCounters(stripes, commands int) *Counters {
	c := &Counters{stripes: make([]Stripe, stripes)}
	for i := range c.stripes {
		c.stripes[i].commands, c.stripes[i].n = make([]command, commands), i
	}
	return c
}

// Stripes returns the number of stripes.
func (c *Counters) Stripes() int { return len(c.stripes) }

// Stripe returns a stripe for any i ≥ 0.
func (c *Counters) Stripe(i int) *Stripe { return &c.stripes[i%len(c.stripes)] }

// Command adds up the stripes for the command with number id.
func (c *Counters) Command(id int) Command {
	var sum Command
	for i := range c.stripes {
		cmd := &c.stripes[i].commands[id]
		sum.Rejected += cmd.rejected.Load()
		sum.Failed += cmd.failed.Load()
		cmd.latency.addTo(&sum.Latency)
	}
	return sum
}

// Traffic adds up the stripes for all commands.
func (c *Counters) Traffic() Traffic {
	var sum Traffic
	for i := range c.stripes {
		s := &c.stripes[i]
		sum.Reads += s.Reads.Load()
		sum.In += s.In.Load()
		sum.Out += s.Out.Load()
		for id := range s.commands {
			for b := range s.commands[id].latency.buckets {
				sum.Calls += s.commands[id].latency.buckets[b].Load()
			}
		}
	}
	return sum
}

// Reject counts a call that did not run.
func (s *Stripe) Reject(id int) { s.commands[id].rejected.Add(1) }

// Fail counts an error for a call that was already counted as successful.
func (s *Stripe) Fail(id int) { s.commands[id].failed.Add(1) }

// Record counts one call that took ns nanoseconds. It counts it in also, too, unless that is nil.
func (s *Stripe) Record(id int, also *Latency, ns int64, failed bool) {
	calls := row{id: id, also: also, calls: 1}
	if failed {
		calls.failed = 1
	}
	s.add(calls, max(ns, 0))
}

// add counts calls that each took the given nanoseconds.
func (s *Stripe) add(r row, each int64) {
	cmd := &s.commands[r.id]
	cmd.latency.add(each, r.calls)
	if r.failed > 0 {
		cmd.failed.Add(uint64(r.failed))
	}
	if l := r.also; l != nil {
		l.parts[s.n%len(l.parts)].add(each, r.calls)
	}
}

// A Tally gathers the calls of one batch, so that a pipeline of one command costs one addition for each
// counter.
type Tally struct {
	rows [8]row
	n    int
}

type row struct {
	id            int
	also          *Latency // counts the calls too; nil: none does
	calls, failed uint32
}

// Empty reports whether nothing has been counted since the last Flush.
func (t *Tally) Empty() bool { return t.n == 0 }

// Add counts one call, in also too unless that is nil. It returns false if the tally is full; then call Flush first.
func (t *Tally) Add(id int, also *Latency, failed bool) bool {
	var f uint32
	if failed {
		f = 1
	}
	for i := t.n - 1; i >= 0; i-- {
		if t.rows[i].id == id && t.rows[i].also == also {
			t.rows[i].calls++
			t.rows[i].failed += f
			return true
		}
	}
	if t.n == len(t.rows) {
		return false
	}
	t.rows[t.n] = row{id: id, also: also, calls: 1, failed: f}
	t.n++
	return true
}

// Flush moves the counts to s. elapsed is the time of the whole batch in ns; each command counts with the
// mean of the batch.
func (t *Tally) Flush(s *Stripe, elapsed int64) {
	var calls int64
	for _, r := range t.rows[:t.n] {
		calls += int64(r.calls)
	}
	for _, r := range t.rows[:t.n] {
		s.add(r, max(elapsed, 0)/calls)
	}
	t.n = 0
}
