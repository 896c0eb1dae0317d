package engine

import (
	"bytes"
	"cmp"
	"slices"

	"limitdb/internal/journal"
	"limitdb/limit"
)

// plan is a TakeAll in progress. It has a charge for each key, in the order of
// their hashes, which is the order of their shards and of the segments in them.
// Plans are reused, with the buffers that their charges have grown.
type plan struct {
	charges   []charge
	places    [MaxAll]Place // of the request's keys
	order     [MaxAll]uint8 // indexes of the request's keys, in the order of the charges
	uncounted limit.Limit   // a limit without its CountDenied
	gate      *journal.Gate // to enter; nil for none
}

// charge is one key of a plan.
type charge struct {
	h       uint64
	s       *shard
	at      int    // index of the key in the request
	there   bool   // the key is live
	moved   bool   // the limit denies and moves its key to a faster pace, as state says
	changed bool   // state is to be stored
	gone    bool   // an absent key would mean the same as state
	needs   int    // bytes that storing state takes in its segment; 0 if it stays in place
	must    bool   // state does not grow, so needs ignores the budget
	late    bool   // the state is long, and is written only when it is stored
	state   []byte // in a buffer of the charge
}

const (
	// stateBytes is the initial size of a charge's buffer.
	stateBytes = 64
	// bigState is the largest buffer that a charge keeps for the next plan.
	bigState = 1 << 10
)

// plan returns a plan for keys, with the charges in order.
func (e *Engine) plan(keys [][]byte) *plan {
	p, _ := e.plans.Get().(*plan)
	if p == nil {
		p = new(plan)
	}
	if n := len(keys); n > cap(p.charges) {
		p.charges = make([]charge, n)
		states := make([]byte, n*stateBytes)
		for i := range p.charges {
			p.charges[i].state = states[i*stateBytes : i*stateBytes : (i+1)*stateBytes]
		}
	}
	p.charges = p.charges[:len(keys)]
	if len(keys) == 1 {
		h, _ := e.place(keys[0])
		p.places[0] = Place(h)
	} else {
		// The cache misses of the keys overlap here, before the locks are held.
		e.Warm(keys, p.places[:])
	}
	order := p.order[:len(keys)]
	for i := range order {
		order[i] = uint8(i)
	}
	slices.SortFunc(order, func(a, b uint8) int {
		if c := cmp.Compare(p.places[a], p.places[b]); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	})
	for i, at := range order {
		c := &p.charges[i]
		c.h, c.at = uint64(p.places[at]), int(at)
		c.s = &e.shards[c.h>>(64-e.shardBits)]
	}
	p.gate = nil
	if j := e.journal.Load(); j != nil && len(keys) > 1 && p.charges[0].s != p.charges[len(keys)-1].s {
		p.gate = j.gate
	}
	return p
}

// done returns a plan for reuse.
func (e *Engine) done(p *plan) {
	for i := range p.charges {
		if cap(p.charges[i].state) > bigState {
			p.charges[i].state = make([]byte, 0, stateBytes)
		}
	}
	e.plans.Put(p)
}

// duplicate returns the index of the first key that repeats an earlier one, or
// -1.
func (p *plan) duplicate(keys [][]byte) int {
	at := -1
	for i := range p.charges {
		c := &p.charges[i]
		for j := i - 1; j >= 0 && p.charges[j].h == c.h; j-- {
			if bytes.Equal(keys[c.at], keys[p.charges[j].at]) && (at < 0 || c.at < at) {
				at = c.at
			}
		}
	}
	return at
}

// lock locks the shards and returns the time for all of them. A step in several
// shards enters the journal's gate first.
func (p *plan) lock(now int64) int64 {
	if p.gate != nil {
		p.gate.Enter()
	}
	for i := range p.charges {
		if s := p.charges[i].s; i == 0 || s != p.charges[i-1].s {
			s.mu.Lock()
			now = max(now, s.last)
		}
	}
	for i := range p.charges {
		p.charges[i].s.last = now
	}
	return now
}

func (p *plan) unlock() {
	for i := range p.charges {
		if s := p.charges[i].s; i == 0 || s != p.charges[i-1].s {
			s.mu.Unlock()
		}
	}
	if p.gate != nil {
		p.gate.Leave()
	}
}

// find finds the charge's key.
func (c *charge) find(r *request) spot {
	return c.s.table.spotOf(r.keys[c.at])
}

// count counts the decision on the key.
func (c *charge) count(now int64, r *request) {
	if c.s.count(&r.ds[c.at]) {
		c.s.follow(now, c.h, r.keys[c.at])
	}
}

// makeRoom makes room so that all charges can be stored one after the other. If
// it cannot, it returns the index of the key that has no room.
func (p *plan) makeRoom(now int64, r *request) (at int, err error) {
	for i := range p.charges {
		if c := &p.charges[i]; c.late && c.changed {
			if sp := c.find(r); c.s.table.tight(&sp) {
				return c.at, errNoRoom
			}
		}
	}
	for rest := p.charges; len(rest) > 0; {
		first := &rest[0]
		t := &first.s.table
		g := t.lookup(first.h)
		// Add up what the charges of one segment need.
		keys, size, must, n := 0, 0, true, 0
		for ; n < len(rest) && rest[n].s == first.s && t.lookup(rest[n].h) == g; n++ {
			if more := rest[n].needs; more > 0 {
				keys, size, must = keys+1, size+more, must && rest[n].must
			}
		}
		if keys > 0 {
			g, err := t.makeRoom(now, first.h, keys, size, must)
			if err != nil {
				return first.at, err
			}
			// The segment may have been split, and the last charges may be in
			// the other half.
			n = 0
			for n < len(rest) && rest[n].s == first.s && t.lookup(rest[n].h) == g {
				n++
			}
		}
		rest = rest[n:]
	}
	return -1, nil
}

// lost reports whether a key that was there has been evicted to make room.
func (p *plan) lost(r *request) bool {
	for i := range p.charges {
		c := &p.charges[i]
		if c.there {
			if sp := c.find(r); sp.at == nil {
				return true
			}
		}
	}
	return false
}
