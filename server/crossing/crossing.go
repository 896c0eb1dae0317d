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
)

// idBytes is how many random bytes the id of an attempt has: two are never the same.
const idBytes = 15

// A Crossing is a request over several groups under way. One goroutine at a time calls its methods; groups answer from any.
type Crossing struct {
	whole  *engine.Together
	each   handler.Each
	far    Far
	sum    int64
	parts  []asked
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
	// Sum is how many leases the groups have given back, together.
	Sum int64
}

// Far sends a call, in words, to the node that leads a group, and returns false if it has sent nothing. Otherwise told is called once, from any goroutine,
// with the reply, which it may not keep. If there is none, it is nil: refused says that the other node has begun nothing.
type Far func(g *group.Group, words [][]byte, told func(reply []byte, refused bool)) (sent bool)

// asked is a part, and what this node knows of it.
type asked struct {
	part
	turn  uint64 // in which the group was asked last, if this node leads it; 0 for a server that decides in no turns
	shown bool   // the last answer was of this node, and may not be durable
	told  bool   // that the group's state is durable, after it has decided
	at    int    // the limit at fault of an error
}

// told is an answer.
type told struct {
	part int
	call across.Call
	answer
}

// New returns a request for r, whose keys are in several groups; of tells which. r and what it has stay as they are while the request is under way. r has
// neither Hold nor Once. each is what every group does with its part.
func New(r *engine.Together, each handler.Each, of func(key []byte) *group.Group) *Crossing {
	x := &Crossing{whole: r, each: each}
	clear(r.Blocks)
	x.draw()
	at := map[*group.Group]int{}
	for i, key := range r.Keys {
		g := of(key)
		n, ok := at[g]
		if !ok {
			n = len(x.parts)
			at[g], x.parts = n, append(x.parts, asked{part: part{g: g, each: each}, at: -1})
		}
		p, lease := &x.parts[n], (*limit.Lease)(nil)
		if r.Leases != nil {
			lease = r.Leases[i]
		}
		p.rows = append(p.rows, i)
		p.add(key, &r.Limits[i], r.Costs[i], r.Soft != nil && r.Soft[i], lease)
	}
	for i := range x.parts {
		p := &x.parts[i]
		p.r.CountDenied = r.CountDenied
		if p.named(x.id); r.Free != nil {
			p.r.Free = make([]limit.Decision, len(p.rows))
		}
	}
	return x
}

// Begin begins the request. Any goroutine may call wake, after which Resume is to be called. counts counts what becomes of the request. kicks has the
// request ask for syncs, for a caller who does not do so after each call. far reaches the groups that other nodes lead; nil: none can be reached.
func (x *Crossing) Begin(counts *across.Counters, kicks bool, far Far, wake func()) {
	x.wake, x.kicks, x.far = wake, kicks, far
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

// Take implements across.Groups. What this node has shown, it takes in the same turn.
func (c *calls) Take(i int) {
	p := &c.parts[i]
	shown, turn := p.shown, p.turn
	switch {
	case !p.leads():
		c.send(i, across.Take)
		return
	case shown && p.turn != turn:
		(*Crossing)(c).tell(told{i, across.Take, failed(engine.ErrClosed, -1)})
		return
	}
	a := p.carriesOut(across.Take)
	if a.Outcome == across.Granted || a.Outcome == across.Denied {
		c.await(told{i, across.Take, a})
	} else {
		(*Crossing)(c).tell(told{i, across.Take, a})
	}
}

// GiveBack implements across.Groups.
func (c *calls) GiveBack(i int) {
	p := &c.parts[i]
	if !p.leads() {
		c.send(i, across.GiveBack)
		return
	}
	if a := p.carriesOut(across.GiveBack); a.Outcome == across.Granted {
		c.await(told{i, across.GiveBack, a})
	} else {
		(*Crossing)(c).tell(told{i, across.GiveBack, a})
	}
}

// send has the node that leads the group of a part carry out a call. Its answer is durable.
func (c *calls) send(i int, call across.Call) {
	x, p := (*Crossing)(c), &c.parts[i]
	sent := c.far != nil && c.far(p.g, p.ask(call), func(reply []byte, refused bool) {
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
	if x.kicks {
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
