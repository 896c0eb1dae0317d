// Package crossing asks several groups for the parts of one request: it is the server's side of groups/across. It knows no session.
package crossing

import (
	"crypto/rand"
	"encoding/base64"
	"sync"

	"limitdb/engine"
	"limitdb/groups/across"
	"limitdb/limit"
	"limitdb/server/durable"
	"limitdb/server/group"
	"limitdb/server/handler"
	"limitdb/server/waiters"
)

// idBytes is how many random bytes the id of an attempt has: two are never the same.
const idBytes = 15

// A Crossing is a request over several groups under way. One goroutine at a time calls its methods; groups answer from any.
type Crossing struct {
	whole  *engine.Together
	each   handler.Each
	ways   Ways
	sum    int64
	parts  []asked
	check  across.Check
	id     []byte
	result Result

	since   int64 // when a group had no leader; 0: none was without
	waiting int   // parts whose groups have none
	replied bool

	mu    sync.Mutex // guards what follows
	wake  func()
	looks bool   // there may be a leader now
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
	// Sum is how many leases the groups have given back, together.
	Sum int64
}

// Far sends a call, in words, to the node that leads a group, and returns false if it has sent nothing. Otherwise told is called once, from any goroutine,
// with the reply, which it may not keep. If there is none, it is nil: refused says that the other node has begun nothing.
type Far func(g *group.Group, words [][]byte, told func(reply []byte, refused bool)) (sent bool)

// Ways are how requests reach groups, and what they share.
type Ways struct {
	Counts *across.Counters // of what becomes of requests
	Now    func() int64     // the time, in ns
	Kicks  bool             // they ask for syncs, for callers who do not do so after each call
	Far    Far              // nil: no group that another node leads can be reached
	// Leaderless are those who wait for a leader, no longer than Patience, in ns. nil: nobody does.
	Leaderless Leaderless
	Patience   int64
	Returns    *Returns
}

// Leaderless are those who wait for a leader. They are woken when there may be one.
type Leaderless interface {
	// Add returns false if too many wait already.
	Add(w waiters.Waiter) bool
	Remove(w waiters.Waiter)
	// WakeSoon wakes them after a short time.
	WakeSoon()
}

// asked is a part, and what this node knows of it.
type asked struct {
	part
	since int64       // when it was asked to take
	waits bool        // its group has no leader
	call  across.Call // that is then made again
	turn  uint64      // in which the group was asked last, if this node leads it; 0 for a server that decides in no turns
	shown bool        // the last answer was of this node, and may not be durable
	told  bool        // that the group's state is durable, after it has decided
	at    int         // the limit at fault of an error
}

// told is an answer.
type told struct {
	part int
	call across.Call
	answer
}

// New returns a request for r; of tells which groups its keys are in. r and what it has stay as they are while the request is under way. r has
// neither Hold nor Once. each is what every group does with its part; if it is one group's, that decides on the whole in one step.
func New(r *engine.Together, each handler.Each, of func(key []byte) *group.Group) *Crossing {
	x := &Crossing{whole: r}
	clear(r.Blocks)
	x.draw()
	at := map[*group.Group]int{}
	for i, key := range r.Keys {
		g := of(key)
		n, ok := at[g]
		if !ok {
			n = len(x.parts)
			at[g], x.parts = n, append(x.parts, asked{part: part{g: g}, at: -1})
		}
		p, lease := &x.parts[n], (*limit.Lease)(nil)
		if r.Leases != nil {
			lease = r.Leases[i]
		}
		p.rows = append(p.rows, i)
		p.add(key, &r.Limits[i], r.Costs[i], r.Soft != nil && r.Soft[i], lease)
	}
	if len(x.parts) == 1 && each.How == handler.All && !r.Peek {
		each.How = handler.Whole
	}
	x.each = each
	for i := range x.parts {
		p := &x.parts[i]
		p.each, p.r.CountDenied = each, r.CountDenied
		if p.named(x.id); r.Free != nil {
			p.r.Free = make([]limit.Decision, len(p.rows))
		}
	}
	return x
}

// Begin begins the request. Any goroutine may call wake, after which Resume is to be called.
func (x *Crossing) Begin(ways Ways, wake func()) {
	x.wake, x.ways = wake, ways
	each := x.each.How != handler.All
	r := across.Request{Costs: make([]int64, len(x.whole.Keys)), Soft: x.whole.Soft, Looks: x.whole.Peek && !each, Each: each}
	for i := range x.parts {
		p := &x.parts[i]
		r.Parts = append(r.Parts, across.Part{Rows: p.rows})
		for j, row := range p.rows {
			if r.Costs[row] = p.r.Costs[j]; p.r.Leases[j] != nil {
				r.Costs[row] = p.r.Leases[j].Weight
			}
		}
	}
	x.check.Begin(r, (*calls)(x), ways.Counts)
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
		all, looks := x.told, x.looks
		x.told, x.looks = nil, false
		if len(all) == 0 && !looks {
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
		if looks {
			x.again()
		}
	}
}

// Wake implements waiters.Waiter: there may be a leader now.
func (x *Crossing) Wake() {
	x.mu.Lock()
	x.looks = true
	wake := x.wake
	x.mu.Unlock()
	wake()
}

// awaits notes that a group has no leader, and reports whether the request waits for one. A look may be asked for again even if it is not known what
// became of it.
func (x *Crossing) awaits(t *told) bool {
	lost := t.Outcome == across.Leaderless || t.Outcome == across.Unknown && t.call == across.Look
	if !lost || t.call == across.GiveBack || x.replied || x.ways.Leaderless == nil {
		return false
	}
	now := x.ways.Now()
	if x.since == 0 {
		x.since = now
	}
	if now < x.since || now-x.since >= x.ways.Patience || !x.ways.Leaderless.Add(x) {
		return false
	}
	p := &x.parts[t.part]
	p.waits, p.call = true, t.call
	x.waiting++
	return true
}

// again asks the groups again that had no leader. If there still is none, and the time is over, they are told so.
func (x *Crossing) again() {
	for i := range x.parts {
		p := &x.parts[i]
		if !p.waits {
			continue
		}
		if x.rests(p); p.call == across.Look {
			(*calls)(x).Look(i)
		} else {
			(*calls)(x).Take(i)
		}
	}
}

// rests ends the wait of a part.
func (x *Crossing) rests(p *asked) {
	p.waits = false
	if x.waiting--; x.waiting == 0 {
		x.ways.Leaderless.Remove(x)
	}
}

// tell tells the check what a group has answered.
func (x *Crossing) tell(t told) {
	if x.awaits(&t) {
		return
	}
	p := &x.parts[t.part]
	if t.call != across.GiveBack {
		if p.at = -1; t.at >= 0 {
			p.at = p.rows[t.at]
		}
	}
	if o := t.Outcome; t.call == across.Take && (o == across.Granted || o == across.Denied) {
		p.told = true
		x.sum += t.sum
		x.blocks(p, &t.answer)
		for i := range t.Free { // of what the group has done by itself
			x.whole.Free[p.rows[i]] = t.Free[i]
		}
	}
	x.check.Told(t.part, t.call, t.Answer)
}

// blocks copies what blocks had to do with denials. One that only a look has seen has nothing to do with any.
func (x *Crossing) blocks(p *asked, a *answer) {
	for i, row := range p.rows {
		if x.whole.Blocks != nil && a.Rows[i].Limited && p.r.Limits[i].Block > 0 {
			x.whole.Blocks[row] = a.blocks[i]
		}
	}
}

// Result returns the result, after Resume has returned true.
func (x *Crossing) Result() Result { return x.result }

// left has the request go on without its caller. It calls wake from now on, which may be due.
func (x *Crossing) left(wake func()) {
	x.ways.Kicks = true
	x.mu.Lock()
	x.wake = wake
	x.mu.Unlock()
}

// answer takes the answer of a group, from any goroutine.
func (x *Crossing) answer(t told) {
	x.mu.Lock()
	if x.over { // nothing is asked for any more
		defer x.mu.Unlock()
		x.check.Told(t.part, t.call, t.Answer)
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
func (p *asked) leads() bool {
	turn, leads := p.g.Keeper.Leading()
	if p.shown = leads && p.g.Special.Load()&group.Following == 0; p.shown {
		p.turn = turn
	}
	return p.shown
}

// Look implements across.Groups.
func (c *calls) Look(i int) {
	if p := &c.parts[i]; p.leads() {
		(*Crossing)(c).tell(told{i, across.Look, p.carriesOut(across.Look)})
	} else {
		c.send(i, across.Look)
	}
}

// Take implements across.Groups. What this node has shown in another turn may be lost: it looks again.
func (c *calls) Take(i int) {
	x, p := (*Crossing)(c), &c.parts[i]
	p.since = c.ways.Now()
	shown, turn := p.shown, p.turn
	if !p.leads() {
		c.send(i, across.Take)
		return
	}
	if shown && p.turn != turn {
		if a := p.carriesOut(across.Look); a.Outcome == across.Granted || a.Outcome == across.Denied {
			x.tell(told{i, across.Look, a})
		}
	}
	a := p.carriesOut(across.Take)
	if a.Outcome == across.Granted || a.Outcome == across.Denied {
		c.await(told{i, across.Take, a})
	} else {
		x.tell(told{i, across.Take, a})
	}
}

// GiveBack implements across.Groups.
func (c *calls) GiveBack(i int) {
	x, p := (*Crossing)(c), &c.parts[i]
	if p.waits { // nobody was asked to take
		x.rests(p)
		x.tell(told{i, across.Take, failed(engine.ErrClosed, -1)})
		x.tell(told{i, across.GiveBack, failed(nil, -1)})
		return
	}
	giveBack(x, i)
}

// send has the node that leads the group of a part carry out a call. Its answer is durable.
func (c *calls) send(i int, call across.Call) {
	x, p := (*Crossing)(c), &c.parts[i]
	sent := c.ways.Far != nil && c.ways.Far(p.g, p.ask(call), func(reply []byte, refused bool) {
		if refused && c.ways.Leaderless != nil {
			c.ways.Leaderless.WakeSoon() // that node may be about to lead
		}
		x.answer(told{i, call, p.reads(call, reply, refused)})
	})
	if !sent {
		x.tell(told{i, call, failed(engine.ErrClosed, -1)})
	}
}

// await gives the answer of a group when it is durable.
func (c *calls) await(t told) {
	x, p := (*Crossing)(c), &c.parts[t.part]
	if k := &p.g.Keeper; k.Withholds() && k.Wait(p.turn, func(err error) {
		if err != nil {
			t.answer = answer{Answer: across.Answer{Outcome: across.Unknown}, at: -1}
		}
		x.answer(t)
	}) {
		x.kick(k)
		return
	}
	x.tell(t)
}

// Reply implements across.Groups.
func (c *calls) Reply(v across.Verdict) {
	c.replied = true
	c.result = Result{Outcome: v.Outcome, At: v.At, Err: v.Err, Sum: c.sum}
	switch v.Outcome {
	case across.Failed:
		c.result.At = c.parts[v.Part].at
	case across.Granted, across.Denied:
		copy(c.whole.Decisions, c.check.Rows)
	}
	for i := range c.parts {
		if p := &c.parts[i]; p.shown && !p.told && v.Outcome <= across.Failed {
			c.owe(p)
		}
	}
	c.mu.Lock()
	c.ready = true
	c.mu.Unlock()
}

// kick begins a sync, unless the caller does.
func (x *Crossing) kick(k *durable.Keeper) {
	if x.ways.Kicks {
		k.Kick()
	}
}

// owe has the reply wait until what a group has shown is durable.
func (c *calls) owe(p *asked) {
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
