package torture

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"limitdb/resp"
)

// Under some rules a check takes tokens and two leases in one step: one of its tenant, and one of its tenant and kind. Clients share
// tenants, and make such checks, held ones and ones that count once, and settle them. Each has an id, so it is sent again until it is
// answered. At no time may more be in flight than the rules say. Whenever all is calm, exactly what clients know of is in flight, and
// exactly what they were charged is in use: nothing is lost, settled, given back or taken twice.

// flightRules are the rules. Their tokens do not come back by themselves, and no lease is over within a run.
const flightRules = `{version: 1, namespaces: {flight: [` +
	`{name: tokens, key: [tenant], limit: fixed 1000000000/30d first, cost: tokens}, ` +
	`{name: tenant, key: [tenant], in_flight: 4, lease: 10h}, ` +
	`{name: kind, key: [tenant, kind], in_flight: 2, lease: 10h}]}}`

const (
	flightTokens  = 1_000_000_000
	tenantFlights = 4
	kindFlights   = 2
	flightKinds   = 3
	tenantChecks  = 300 // that come for one tenant, before the next has its turn
	shortHold     = time.Second
)

// tenant is what all clients together know of a tenant.
type tenant struct {
	name   string
	began  time.Time
	used   atomic.Int64
	unsure atomic.Bool // it is not known what of used is
	all    atomic.Int64
	kinds  [flightKinds]atomic.Int64 // how many are surely in flight; all is their sum
	left   atomic.Bool               // one stays in flight
}

// flights are the tenants and figures of all clients.
type flights struct {
	mu     sync.Mutex // guards list and checks
	list   []*tenant
	checks int
	denied, late,
	calm atomic.Int64
}

// next returns the tenant for the next check, and the check's number.
func (f *flights) next() (*tenant, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.checks%tenantChecks == 0 {
		f.list = append(f.list, &tenant{name: fmt.Sprint("t", len(f.list)), began: time.Now()})
	}
	f.checks++
	return f.list[len(f.list)-1], f.checks
}

// flyer is a client that makes checks.
type flyer struct {
	asker
	of *flights
}

func (f *flyer) run(gate *sync.RWMutex, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		gate.RLock()
		f.fly()
		gate.RUnlock()
	}
}

// flight is a check of a client.
type flight struct {
	*tenant
	kind   int
	id     string
	tokens int64
}

// check returns the check with options at its end.
func (c *flight) check(tokens int64, options ...any) string {
	return line("RL.CHECK flight 3 tenant", c.name, "kind", fmt.Sprint(c.kind), "tokens", fmt.Sprint(tokens), strings.TrimSpace(fmt.Sprintln(options...)))
}

// counts counts a check that is surely in flight from now on, or not surely any longer.
func (c *flight) counts(t *testing.T, by int64) {
	if n := c.all.Add(by); n > tenantFlights {
		t.Errorf("%d of %s are in flight: %d at most may be", n, c.name, tenantFlights)
	}
	if n := c.kinds[c.kind].Add(by); n > kindFlights {
		t.Errorf("%d of %s and kind %d are in flight: %d at most may be", n, c.name, c.kind, kindFlights)
	}
}

// fly makes a check and, if it is granted, ends it in one of many ways.
func (f *flyer) fly() {
	of, n := f.of.next()
	c := &flight{of, f.rand.IntN(flightKinds), fmt.Sprint("c", n), int64(1 + f.rand.IntN(9))}
	ask := c.check(c.tokens, "HOLD 1h ID", c.id, "ONEXPIRE", []string{"keep", "return"}[f.rand.IntN(2)])
	how := f.rand.IntN(10)
	switch how {
	case 0, 1:
		ask = c.check(c.tokens, "ONCE", c.id, "FOR 1h")
	case 2:
		ask = c.check(c.tokens, "HOLD", shortHold.Milliseconds(), "ID", c.id, "ONEXPIRE return")
	case 3:
		if f.cancel(c); !f.cancelled(c, ask) {
			return
		}
	}
	if !f.granted(c, ask, how) {
		return
	}
	c.used.Add(c.tokens)
	c.counts(f.t, 1)
	time.Sleep(time.Duration(f.rand.IntN(20)) * time.Millisecond) // the request
	if how == 4 && c.left.CompareAndSwap(false, true) {
		return
	}
	c.counts(f.t, -1)
	switch how {
	case 0, 1:
		f.release(c)
	case 2:
		time.Sleep(time.Duration(f.rand.Int64N(int64(5 * shortHold / 2))))
		f.commitLate(c)
	default:
		if how < 7 && f.rand.IntN(3) == 0 { // the lease before the hold
			f.release(c)
		}
		f.settle(c, how)
	}
}

// cancelled sends a check whose id was cancelled, and reports whether the cancel was forgotten, so that the check is to be made.
func (f *flyer) cancelled(c *flight, ask string) (forgotten bool) {
	v, first := f.do(ask)
	switch got := shown(v); {
	case strings.HasPrefix(got, "CANCELLED "):
	case time.Since(first) < settledKnown:
		f.t.Errorf("%q, which was cancelled before, is answered %s", ask, got)
	default:
		f.cancel(c)
	}
	return false
}

// cancel gives a check up that may be held or not.
func (f *flyer) cancel(c *flight) {
	if got := shown(f.last(line("RL.CHECK flight 0 CANCEL", c.id))); !strings.HasPrefix(got, "0 0 ") && !strings.HasPrefix(got, fmt.Sprint(-c.tokens, " 0 ")) {
		f.t.Errorf("a cancel of %s of %s is answered %s", c.id, c.name, got)
	}
}

// granted makes a check, and reports whether it is granted.
func (f *flyer) granted(c *flight, ask string, how int) bool {
	for before := f.again; ; {
		v, _ := f.do(ask)
		got, lost := shown(v), f.again > before
		switch {
		case strings.HasPrefix(got, "0 "):
			if f.rand.IntN(4) == 0 && how != 2 {
				return f.sure(ask, "0 ")
			}
			return true
		case how == 2 && lost && strings.HasPrefix(got, "HELD "): // it was granted, and its time is over
			return true
		case !strings.HasPrefix(got, "1 "):
			f.t.Errorf("%q is answered %s", ask, got)
			return false
		}
		f.of.denied.Add(1)
		switch {
		case !lost:
			return false
		case how < 2: // the one whose answer is lost may still be granted, once a node goes on that was stopped
			f.of.late.Add(1)
			time.Sleep(50 * time.Millisecond)
			continue
		}
		f.cancel(c)
		return false
	}
}

// release gives the leases of a check back, in two places.
func (f *flyer) release(c *flight) {
	before := f.again
	v, _ := f.do(c.check(c.tokens, "RELEASE", c.id))
	if got := shown(v); got != "2" && (got != "0" || f.again == before) {
		f.t.Errorf("the release of %s of %s is answered %s", c.id, c.name, got)
	}
	if f.rand.IntN(4) == 0 {
		f.sure(c.check(c.tokens, "RELEASE", c.id), "0")
	}
}

// settle commits or cancels what is held, and does so again, at another cost.
func (f *flyer) settle(c *flight, how int) {
	actual := int64(f.rand.IntN(15))
	command := func(cost int64) string { return line("RL.CHECK flight 1 tokens", fmt.Sprint(cost), "COMMIT", c.id) }
	first := command(actual)
	if how == 9 {
		actual, first = 0, line("RL.CHECK flight 0 CANCEL", c.id)
	}
	c.used.Add(actual - c.tokens)
	began, want := time.Now(), fmt.Sprint(actual-c.tokens, " 0 ")
	for _, say := range []string{first, command(int64(f.rand.IntN(20)))} {
		got := shown(f.last(say))
		if time.Since(began) > settledKnown { // it may be forgotten
			return
		}
		if !strings.HasPrefix(got, want) {
			f.t.Errorf("%q, of %d of %s, is answered %s, not %s", say, c.tokens, c.name, got, want)
		}
		if f.rand.IntN(2) == 0 {
			return
		}
	}
}

// commitLate commits a short hold at about its end, or about when it is forgotten.
func (f *flyer) commitLate(c *flight) {
	actual, began := int64(f.rand.IntN(15)), time.Now()
	v, _ := f.do(line("RL.CHECK flight 1 tokens", fmt.Sprint(actual), "COMMIT", c.id))
	switch got := shown(v); {
	case strings.HasPrefix(got, fmt.Sprint(actual, " 0 ")), strings.HasPrefix(got, fmt.Sprint(actual-c.tokens, " 0 ")):
		c.used.Add(actual - c.tokens)
		return
	case !strings.HasPrefix(got, "NOHOLD "):
		f.t.Errorf("a late commit of %s of %s is answered %s", c.id, c.name, got)
	case time.Since(began) > settledKnown: // it may be one that was settled
		c.unsure.Store(true)
	}
	c.used.Add(-c.tokens)
	f.do(c.check(c.tokens, "RELEASE", c.id)) // the leases are those of the rules, and still there
}

// last sends a command until it is answered, and returns the answer.
func (f *flyer) last(command string) resp.Value {
	v, _ := f.do(command)
	return v
}

// check compares the leases and the tokens of the last tenants, or of all, with what the clients were told. No command is running then. What is
// held goes back after an hour, so the tokens of older tenants say nothing.
func (f *flights) check(t *testing.T, leader *node, all bool) {
	list := f.list
	if n := len(list); !all && n > 2 {
		list = list[n-2:]
	}
	for _, of := range list {
		for kind := range flightKinds {
			c := &flight{tenant: of, kind: kind}
			v, err := leader.ask(strings.Fields(c.check(0, "PEEK EXPLAIN"))...)
			if err != nil || len(v.Elems) < 7 || len(v.Elems[6].Elems) != 3 {
				t.Errorf("the leader, when all is calm: %v, %v", v, err)
				return
			}
			var left [3]int64 // of tokens, tenant and kind
			for i, row := range v.Elems[6].Elems {
				n := row.Elems[4].Elems // those of a check with one lease more
				left[i] = n[2].Int
				if i > 0 && n[0].Int == 0 {
					left[i]++
				}
			}
			if used := flightTokens - left[0]; used != of.used.Load() && !of.unsure.Load() && time.Since(of.began) < heldFor {
				t.Errorf("%d tokens of %s are used, and clients know of %d", used, of.name, of.used.Load())
			}
			if n := tenantFlights - left[1]; n != of.all.Load() {
				t.Errorf("%d of %s are in flight, and clients know of %d", n, of.name, of.all.Load())
			}
			if n := kindFlights - left[2]; n != of.kinds[kind].Load() {
				t.Errorf("%d of %s and kind %d are in flight, and clients know of %d", n, of.name, kind, of.kinds[kind].Load())
			}
		}
	}
	f.calm.Add(1)
}

func (f *flights) String() string {
	return fmt.Sprintf("%d checks of %d tenants that take leases, %d denied, of them %d while an earlier one may still have come, compared %d times",
		f.checks, len(f.list), f.denied.Load(), f.late.Load(), f.calm.Load())
}
