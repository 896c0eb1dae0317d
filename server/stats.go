package server

import (
	"math/bits"
	"sync/atomic"
)

// latencyBuckets is the number of buckets of a latency histogram; bucket i
// counts up to bucketBound(i) nanoseconds, the last one everything above.
const latencyBuckets = 22

// bucketBound is the upper bound of bucket i in nanoseconds: 1 µs doubled i times.
func bucketBound(i int) int64 { return 1000 << i }

func bucketOf(ns int64) int {
	if ns <= 1000 {
		return 0
	}
	return min(bits.Len64(uint64(ns-1)/1000), latencyBuckets-1)
}

// commandStats are the counters of one command in one stripe.
type commandStats struct {
	calls, rejected, failed atomic.Uint64
	ns                      atomic.Uint64
	hist                    [latencyBuckets]atomic.Uint64
}

// stripe holds the counters that sessions bump while they run commands. Each
// session uses one stripe, so that cores rarely share a cache line; readers add
// all stripes up.
type stripe struct {
	_        [64]byte
	bytesIn  atomic.Uint64
	bytesOut atomic.Uint64
	batches  atomic.Uint64
	commands []commandStats // by command.id
	_        [64]byte
}

// totals is the sum of all stripes for one command.
type totals struct {
	cmd                     *command
	calls, rejected, failed uint64
	ns                      uint64
	hist                    [latencyBuckets]uint64
}

// counters holds what is counted rarely enough to be shared.
type counters struct {
	connections    atomic.Uint64 // accepted
	rejected       atomic.Uint64 // over maxclients
	denied         atomic.Uint64 // protected mode
	authFailures   atomic.Uint64
	protocolErrors atomic.Uint64
	crossProtocol  atomic.Uint64
	panics         atomic.Uint64
	unknown        atomic.Uint64 // unknown commands
	closed         [reasons]atomic.Uint64
}

func newStripes(n, commands int) []stripe {
	out := make([]stripe, n)
	for i := range out {
		out[i].commands = make([]commandStats, commands)
	}
	return out
}

// commandTotals tells what every command that was called has done since
// CONFIG RESETSTAT.
func (srv *Server) commandTotals() []totals { return srv.statsBase.since(srv.allTotals()) }

// allTotals adds the stripes up for every command that was called since the
// start, by id.
func (srv *Server) allTotals() []totals {
	out := make([]totals, 0, len(srv.table.all))
	for id, c := range srv.table.all {
		t := totals{cmd: c}
		for i := range srv.stripes {
			cs := &srv.stripes[i].commands[id]
			t.calls += cs.calls.Load()
			t.rejected += cs.rejected.Load()
			t.failed += cs.failed.Load()
			t.ns += cs.ns.Load()
			for b := range t.hist {
				t.hist[b] += cs.hist[b].Load()
			}
		}
		if t.calls+t.rejected > 0 {
			out = append(out, t)
		}
	}
	return out
}

// reads is the number of batches that sessions were handed.
func (srv *Server) reads() uint64 {
	var n uint64
	for i := range srv.stripes {
		n += srv.stripes[i].batches.Load()
	}
	return n
}

// tally gathers what one batch ran, so that a pipeline of one command costs one
// addition to each counter.
type tally struct {
	rows [8]tallyRow
	n    int
}

type tallyRow struct {
	cmd           *command
	calls, failed uint32
}

// add counts one call; it returns false when the tally is full and must be flushed first.
func (t *tally) add(c *command, failed bool) bool {
	var f uint32
	if failed {
		f = 1
	}
	for i := t.n - 1; i >= 0; i-- {
		if t.rows[i].cmd == c {
			t.rows[i].calls++
			t.rows[i].failed += f
			return true
		}
	}
	if t.n == len(t.rows) {
		return false
	}
	t.rows[t.n] = tallyRow{cmd: c, calls: 1, failed: f}
	t.n++
	return true
}

// flush adds the rows to st. elapsed is the time of the whole batch in
// nanoseconds; each command is counted with the batch's mean.
func (t *tally) flush(st *stripe, elapsed int64) {
	var calls int64
	for _, r := range t.rows[:t.n] {
		calls += int64(r.calls)
	}
	if calls == 0 {
		return
	}
	each := max(elapsed, 0) / calls
	bucket := bucketOf(each)
	for _, r := range t.rows[:t.n] {
		cs := &st.commands[r.cmd.id]
		cs.calls.Add(uint64(r.calls))
		cs.ns.Add(uint64(each) * uint64(r.calls))
		cs.hist[bucket].Add(uint64(r.calls))
		if r.failed > 0 {
			cs.failed.Add(uint64(r.failed))
		}
	}
	t.n = 0
}

// record counts one call that was timed by itself.
func (st *stripe) record(c *command, ns int64, failed bool) {
	cs := &st.commands[c.id]
	cs.calls.Add(1)
	cs.ns.Add(uint64(max(ns, 0)))
	cs.hist[bucketOf(ns)].Add(1)
	if failed {
		cs.failed.Add(1)
	}
}
