package crossing

import (
	"bytes"
	"sync"

	"limitdb/groups/across"
	"limitdb/limit"
	"limitdb/server/group"
)

const (
	// mostReturns is how many bytes all parts may take that are to be given back, and returnOver what one takes beside its words.
	mostReturns = 16 << 20
	returnOver  = 2 << 10
)

// Returns are the parts that groups could not give back yet: they had no leader, or it is not known what became of the call. Each is tried again until what was
// taken can no longer be given back. Its zero value is ready to use.
type Returns struct {
	mu    sync.Mutex
	waits []*giving // guarded by mu
	bytes int       // of those that wait and those that are tried; guarded by mu
}

// Again tries all of them again.
func (rs *Returns) Again() {
	rs.mu.Lock()
	waits := rs.waits
	rs.waits = nil
	rs.mu.Unlock()
	for _, g := range waits {
		g.try()
	}
}

// Len returns the number of parts that wait to be tried again.
func (rs *Returns) Len() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.waits)
}

// add has a part wait, and reports whether it has: there may be no time left, or no room.
func (rs *Returns) add(g *giving) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if now := g.x.ways.Now(); now < g.since || now-g.since >= across.TTL {
		return false
	}
	if !g.kept {
		if rs.bytes+g.size() > mostReturns {
			return false
		}
		g.kept = true
		rs.bytes += g.size()
	}
	rs.waits = append(rs.waits, g)
	return true
}

// drop forgets what a part takes.
func (rs *Returns) drop(g *giving) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if g.kept {
		g.kept = false
		rs.bytes -= g.size()
	}
}

// giving is a part that is given back. It needs nothing of the request, whose memory may have other users by now.
type giving struct {
	x     *Crossing
	part  int
	words [][]byte // of the call
	since int64    // when it was asked to take
	kept  bool     // Returns counts its bytes
}

// giveBack begins to give a part back.
func giveBack(x *Crossing, part int) {
	p := &x.parts[part]
	g := &giving{x: x, part: part, since: p.since}
	for _, w := range p.ask(across.GiveBack) {
		g.words = append(g.words, bytes.Clone(w))
	}
	g.try()
}

// size returns how many bytes it takes.
func (g *giving) size() int {
	n := returnOver
	for _, w := range g.words {
		n += 3 * len(w)
	}
	return n
}

// try asks the group to give back.
func (g *giving) try() {
	p, far := &g.x.parts[g.part], g.x.ways.Far
	if turn, leads := p.g.Keeper.Leading(); leads && p.g.Special.Load()&group.Following == 0 {
		g.here(turn)
		return
	}
	if far == nil || !far(p.g, g.words, func(reply []byte, refused bool) { g.done(p.reads(across.GiveBack, reply, refused).Outcome) }) {
		g.done(across.Leaderless)
	}
}

// here has the group, which this node leads, give back.
func (g *giving) here(turn uint64) {
	back, err := Parse(g.words, &limit.Zones{})
	if err != nil {
		g.done(across.Failed)
		return
	}
	back.g = g.x.parts[g.part].g
	k := &back.g.Keeper
	a := back.carriesOut(across.GiveBack)
	if a.Outcome == across.Granted && k.Withholds() && k.Wait(turn, func(err error) {
		if err != nil {
			g.done(across.Unknown)
		} else {
			g.done(across.Granted)
		}
	}) {
		k.Kick()
		return
	}
	g.done(a.Outcome)
}

// done ends an attempt to give back. If the attempt has failed, another one follows, unless the time for that is over.
func (g *giving) done(o across.Outcome) {
	rs := g.x.ways.Returns
	if o != across.Granted && rs.add(g) {
		return
	}
	rs.drop(g)
	g.x.answer(told{g.part, across.GiveBack, answer{Answer: across.Answer{Outcome: o}, at: -1}})
}
