// Package crossing asks several groups for the parts of one request: it is the server's side of groups/across. It knows no session.
package crossing

import (
	"crypto/rand"
	"encoding/base64"
	"sync"

	"limitdb/engine"
	"limitdb/groups/across"
	"limitdb/limit"
	"limitdb/rules"
	"limitdb/server/durable"
	"limitdb/server/group"
)

// listPrefix begins the keys of the lists of parts that have leases: what GiveBack finds them by. No namespace has an empty name, so they are no
// lists of checks that hold.
const listPrefix = rules.Prefix + "!\x00"

// idBytes is how many random bytes the id of an attempt has: two are never the same.
const idBytes = 15

// A Crossing is a request over several groups under way. One goroutine at a time calls its methods; groups answer from any.
type Crossing struct {
	whole  *engine.Together
	each   Each
	sum    int64
	parts  []part
	check  across.Check
	id     []byte
	result Result

	kicks bool // syncs are asked for

	mu    sync.Mutex // guards what follows
	wake  func()
	told  []told // answers that have not been looked at
	owed  int    // groups whose state the reply reveals, and which have not said that it is durable
	ready bool   // there is a result, but for what is owed
	lost  bool   // what is owed is lost
	over  bool   // Resume has returned true
}

// Result is what a request is answered.
type Result struct {
	// Outcome is Granted, Denied, Failed, Leaderless or Unknown, as across has it. The decisions of the request are valid if it is one of the first two.
	across.Outcome
	// At is the limit that denies, or that an error is about; -1: none.
	At  int
	Err error // of Failed
	// Sum is what each group has returned, together.
	Sum int64
}

// Each is what a group does of a request by itself, in a step: see New. r has the part of the group.
type Each func(t *engine.Txn, r *engine.Together) (n int64, err error)

// part is what is asked of one group.
type part struct {
	g     *group.Group
	turn  uint64 // in which the group was asked to look; 0 for a server that decides in no turns
	rows  []int  // the indexes of the part's limits
	r     engine.Together
	hold  engine.Hold
	hard  [][]byte // the keys whose limits can deny
	told  bool     // that the group's state is durable, after it has decided
	at    int      // the limit at fault of an error
	costs []int64
}

// told is an answer.
type told struct {
	part   int
	call   across.Call
	answer across.Answer
}

// New returns a request for r, whose keys are in several groups; of tells which. r and what it has stay as they are while the request is under way. r has
// neither Hold nor Once. If each is not nil, every group does that with its part, whatever the others do, and nothing is decided.
func New(r *engine.Together, each Each, of func(key []byte) *group.Group) *Crossing {
	x := &Crossing{whole: r, each: each}
	clear(r.Blocks)
	at := map[*group.Group]int{}
	for i, key := range r.Keys {
		g := of(key)
		n, ok := at[g]
		if !ok {
			n = len(x.parts)
			at[g], x.parts = n, append(x.parts, part{g: g})
		}
		x.parts[n].add(r, i)
	}
	for i := range x.parts {
		p := &x.parts[i]
		n := len(p.rows)
		p.r.CountDenied, p.r.Decisions, p.r.Free, p.r.Blocks = r.CountDenied, make([]limit.Decision, n), make([]limit.Decision, n), make([]engine.BlockOutcome, n)
	}
	return x
}

// add adds the limit of a request at an index.
func (p *part) add(r *engine.Together, i int) {
	p.rows = append(p.rows, i)
	p.r.Keys, p.r.Limits, p.r.Costs = append(p.r.Keys, r.Keys[i]), append(p.r.Limits, r.Limits[i]), append(p.r.Costs, r.Costs[i])
	soft, lease := r.Soft != nil && r.Soft[i], (*limit.Lease)(nil)
	if r.Leases != nil {
		lease = r.Leases[i]
	}
	p.r.Soft, p.r.Leases = append(p.r.Soft, soft), append(p.r.Leases, lease)
	note := []byte{0} // that of a lease is empty
	cost := r.Costs[i]
	if lease != nil {
		note, cost = nil, lease.Weight
	} else if !soft {
		p.hard = append(p.hard, r.Keys[i])
	}
	p.hold.Notes, p.costs = append(p.hold.Notes, note), append(p.costs, cost)
}

// leases reports whether the part asks for leases.
func (p *part) leases() bool {
	for _, l := range p.r.Leases {
		if l != nil {
			return true
		}
	}
	return false
}

// Begin begins the request. Any goroutine may call wake, after which Resume is to be called. counts counts what becomes of the request. kicks has the
// request ask for syncs, for a caller who does not do so after each call.
func (x *Crossing) Begin(counts *across.Counters, kicks bool, wake func()) {
	x.wake, x.kicks = wake, kicks
	x.draw()
	r := across.Request{Costs: make([]int64, len(x.whole.Keys)), Soft: x.whole.Soft, Looks: x.whole.Peek && x.each == nil, Each: x.each != nil}
	for i := range x.parts {
		p := &x.parts[i]
		r.Parts = append(r.Parts, across.Part{Rows: p.rows})
		for j, row := range p.rows {
			r.Costs[row] = p.costs[j]
		}
		p.hold.ID, p.hold.TTL = x.id, across.TTL
		if p.leases() {
			p.hold.List = append([]byte(listPrefix), x.id...)
		}
	}
	x.check.Begin(r, (*calls)(x), counts)
}

// draw draws the id of the attempt. It is that of the leases, if there are some, since these are given back under it.
func (x *Crossing) draw() {
	for _, l := range x.whole.Leases {
		if l != nil {
			x.id = l.ID
			return
		}
	}
	var random [idBytes]byte
	rand.Read(random[:])
	x.id = base64.RawURLEncoding.AppendEncode(nil, random[:])
}

// Resume goes on after Begin and after each wake-up, and reports whether there is a result. Groups may still be giving back.
func (x *Crossing) Resume() (done bool) {
	for {
		x.mu.Lock()
		all := x.told
		x.told = nil
		if len(all) == 0 {
			x.over = x.ready && x.owed == 0
			done = x.over
			if done && x.lost {
				x.result = Result{Outcome: across.Unknown, At: -1}
			}
			x.mu.Unlock()
			return done
		}
		x.mu.Unlock()
		for i := range all {
			x.tell(all[i])
		}
	}
}

// tell tells the check what a group has answered.
func (x *Crossing) tell(t told) {
	if o := t.answer.Outcome; t.call == across.Take && (o == across.Granted || o == across.Denied) {
		x.parts[t.part].told = true
	}
	x.check.Told(t.part, t.call, t.answer)
}

// Result returns the result, after Resume has returned true.
func (x *Crossing) Result() Result { return x.result }

// Abandon has the request go on without its caller.
func (x *Crossing) Abandon() {
	woken := make(chan struct{}, 1)
	x.kicks = true
	x.mu.Lock()
	x.wake = func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
	x.mu.Unlock()
	go func() {
		for !x.Resume() {
			<-woken
		}
	}()
}

// answer takes the answer of a group, from any goroutine.
func (x *Crossing) answer(t told) {
	x.mu.Lock()
	if x.over { // nothing is asked for any more
		defer x.mu.Unlock()
		x.check.Told(t.part, t.call, t.answer)
		return
	}
	x.told = append(x.told, t)
	wake := x.wake
	x.mu.Unlock()
	wake()
}

// calls carries out the calls of the check: it implements across.Groups.
type calls Crossing

// leads notes the turn of the group, and reports whether this node leads it.
func (p *part) leads() bool {
	turn, leads := p.g.Keeper.Leading()
	p.turn = turn
	return leads && p.g.Special.Load()&group.Following == 0
}

// step does something in the group's engine.
func (p *part) step(keys [][]byte, fn func(t *engine.Txn) error) error {
	return p.g.Engine.Load().UpdateAt(0, p.g.Now(), keys, fn)
}

// decide asks the engine for the part.
func (p *part) decide() (a across.Answer) {
	at := -1
	err := p.step(p.r.Declares(), func(t *engine.Txn) (err error) {
		at, err = t.Together(&p.r)
		return err
	})
	switch {
	case err == engine.ErrClosed:
		return across.Answer{Outcome: across.Leaderless}
	case err != nil:
		p.at = -1
		if at >= 0 {
			p.at = p.rows[at]
		}
		return across.Answer{Outcome: across.Failed, Err: err}
	case at >= 0:
		return across.Answer{Outcome: across.Denied, Rows: p.r.Decisions}
	}
	return across.Answer{Outcome: across.Granted, Rows: p.r.Decisions, Free: p.r.Free}
}

// Look implements across.Groups.
func (c *calls) Look(i int) {
	p := &c.parts[i]
	a := across.Answer{Outcome: across.Leaderless}
	if p.leads() {
		p.r.Peek, p.r.Hold = true, nil
		a = p.decide()
	}
	c.check.Told(i, across.Look, a)
}

// blocks copies what blocks had to do with denials. One that only a look has seen has nothing to do with any.
func (p *part) blocks(to *engine.Together) {
	for i, row := range p.rows {
		if to.Blocks != nil && p.r.Decisions[i].Limited && p.r.Limits[i].Block > 0 {
			to.Blocks[row] = p.r.Blocks[i]
		}
	}
}

// Take implements across.Groups.
func (c *calls) Take(i int) {
	p := &c.parts[i]
	seen := p.turn
	if !p.leads() || p.turn != seen && c.each == nil {
		c.check.Told(i, across.Take, across.Answer{Outcome: across.Leaderless})
		return
	}
	var a across.Answer
	if c.each != nil {
		a = c.does(p)
	} else {
		p.r.Peek, p.r.Hold = false, &p.hold
		a = p.decide()
	}
	if a.Outcome != across.Granted && a.Outcome != across.Denied {
		c.check.Told(i, across.Take, a)
		return
	}
	p.blocks(c.whole)
	c.await(i, across.Take, a)
}

// does has a group do its part by itself.
func (c *calls) does(p *part) across.Answer {
	n := int64(0)
	err := p.step(p.r.Keys, func(t *engine.Txn) (err error) {
		n, err = c.each(t, &p.r)
		return err
	})
	switch p.at = -1; {
	case err == engine.ErrClosed:
		return across.Answer{Outcome: across.Leaderless}
	case err != nil:
		return across.Answer{Outcome: across.Failed, Err: err}
	}
	c.sum += n
	return across.Answer{Outcome: across.Granted, Rows: p.r.Decisions}
}

// GiveBack implements across.Groups.
func (c *calls) GiveBack(i int) {
	p := &c.parts[i]
	if !p.leads() {
		c.check.Told(i, across.GiveBack, across.Answer{Outcome: across.Leaderless})
		return
	}
	keys := p.hard
	if p.hold.List != nil {
		keys = p.r.Declares()
	}
	err := p.step(keys, func(t *engine.Txn) (err error) {
		if p.hold.List != nil {
			_, err = engine.GiveUpList(t, p.hold.List, p.hold.ID)
		} else {
			_, err = engine.GiveUpAll(t, keys, p.hold.ID, make([]engine.Settlement, len(keys)))
		}
		return err
	})
	if err != nil {
		c.check.Told(i, across.GiveBack, across.Answer{Outcome: across.Failed, Err: err})
		return
	}
	c.await(i, across.GiveBack, across.Answer{Outcome: across.Granted})
}

// await gives the answer of a group when it is durable.
func (c *calls) await(i int, call across.Call, a across.Answer) {
	x, k := (*Crossing)(c), &c.parts[i].g.Keeper
	if k.Withholds() && k.Wait(c.parts[i].turn, func(err error) {
		if err != nil {
			a = across.Answer{Outcome: across.Unknown}
		}
		x.answer(told{i, call, a})
	}) {
		x.kick(k)
		return
	}
	x.tell(told{i, call, a})
}

// Reply implements across.Groups.
func (c *calls) Reply(v across.Verdict) {
	c.result = Result{Outcome: v.Outcome, At: v.At, Err: v.Err, Sum: c.sum}
	switch v.Outcome {
	case across.Failed:
		c.result.At = c.parts[v.Part].at
	case across.Granted, across.Denied:
		copy(c.whole.Decisions, c.check.Rows)
	}
	for i := range c.parts {
		if p := &c.parts[i]; !p.told && v.Outcome <= across.Failed {
			c.owe(p)
		}
	}
	c.mu.Lock()
	c.ready = true
	c.mu.Unlock()
}

// kick begins a sync, unless the caller does.
func (x *Crossing) kick(k *durable.Keeper) {
	if x.kicks {
		k.Kick()
	}
}

// owe has the reply wait until what a group has shown is durable.
func (c *calls) owe(p *part) {
	k := &p.g.Keeper
	if k.AckLeader.Load() || !k.Withholds() {
		return
	}
	c.mu.Lock()
	c.owed++
	c.mu.Unlock()
	waits := k.Wait(p.turn, func(err error) { c.paid(err) })
	if waits {
		(*Crossing)(c).kick(k)
		return
	}
	c.mu.Lock()
	c.owed--
	c.mu.Unlock()
}

// paid notes that what a group has shown is durable, or lost.
func (c *calls) paid(err error) {
	c.mu.Lock()
	c.owed--
	c.lost = c.lost || err != nil
	wake := c.wake
	c.mu.Unlock()
	wake()
}
