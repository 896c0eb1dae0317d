// Package across decides a request for limits whose keys are in several groups, each with a leader of its own. Inside a group the part of the
// request is one step; this package makes all parts grant, or none stay taken.
//
//  1. All groups are asked to look. It takes nothing and is not logged. If one would deny, it is asked to decide, since what it has
//     seen may be old; if it denies, that is the answer, and the others were never asked for anything.
//  2. Then each group takes its part as a hold, under an id that is drawn for this attempt. If all grant, the request is granted, and
//     nothing more is sent: the holds end by themselves, and what they have taken stays taken. If one denies, the request is denied, and the
//     others give their parts back by the id. Also those that have not answered, since a group remembers an id that was cancelled
//     and refuses a take that comes late.
//  3. If it is not known what a group has done, or it has no leader, all parts are given back as well, and the caller is told that.
//
// So no limit is ever exceeded. A request may be denied that would have been granted a moment later. And if this node dies between a
// take and its end, or a group cannot be reached until it is too late to give back, a part stays taken that nobody has used: TTL says for how long its id is known, and the limit
// when it comes back.
//
// What a limit in shadow mode or a candidate counts of its own denials, its group only counts if it is asked to take. In one group, it
// does so always.
package across

import (
	"math"
	"sync/atomic"

	"limitdb/limit"
)

// TTL is for how long a part is held, in ns. It is only the time in which it can be given back: ONEXPIRE keep. It is no longer than a coordinator
// needs, since a key has room for 65 536 holds: of a limit that all callers share, that bounds how many requests may be granted in a
// second.
const TTL = 5_000_000_000

// Outcome is what a group has made of a call.
type Outcome uint8

// The outcomes of calls. The zero value is no outcome: the call has not been answered.
const (
	// Granted means that the part is taken, and that this is durable. Of a look, that it would be taken; of a call to give back,
	// that it is done.
	Granted Outcome = iota + 1
	// Denied means that a limit denies, and that nothing was taken.
	Denied
	// Failed means that the group has refused the call with an error, and that nothing was taken.
	Failed
	// Leaderless means that nobody decides for the group now, and that nothing was sent to it.
	Leaderless
	// Unknown means that the call may have been carried out, or may still be.
	Unknown
)

// String returns the outcome as figures name it.
func (o Outcome) String() string {
	return [...]string{"none", "granted", "denied", "failed", "leaderless", "unknown"}[o]
}

// Call is what a group is asked to do.
type Call uint8

// The calls.
const (
	Look Call = iota
	Take
	GiveBack
)

// Answer is what a group answers to a call.
type Answer struct {
	Outcome
	// Rows are the decisions on the limits of the part, in the order of Part.Rows: of a look or take that was granted or denied.
	Rows []limit.Decision
	// Free are, for a look that was granted, the decisions if nothing is asked for: what is available.
	Free []limit.Decision
	// Err is the error of a call that failed.
	Err error
}

// Groups carries out the calls of one Check. A method returns without waiting. The answer is given to Check.Told, once for each call, also from
// within the method. Each group has the part of that index.
type Groups interface {
	// Look asks what Take would answer.
	Look(part int)
	// Take asks to take a part and hold it for TTL, under the id of the attempt. A group that takes nothing counts the denial, and begins blocks.
	Take(part int)
	// GiveBack asks to give back what Take has taken under the id. If nothing is known of the id, the group must remember it, as CANCEL does, and refuse
	// a Take that comes later. It asks again until that is done, and answers otherwise only when it is too late.
	GiveBack(part int)
	// Reply gives the verdict, exactly once. Calls may follow.
	Reply(v Verdict)
}

// Verdict is what the whole request is answered.
type Verdict struct {
	// Outcome is Granted, Denied, Failed, Leaderless (nothing has been taken anywhere) or Unknown.
	Outcome
	// At is, if the request is denied, the limit that denies for the longest time and is not soft, the first of several. Otherwise it is -1.
	At int
	// Part is the part that has failed, and Err its error.
	Part int
	Err  error
}

// Part is what a request wants from one group.
type Part struct {
	// Rows are the indexes of its limits among those of the request, which are those of its answers.
	Rows []int

	looked, took, gave Outcome
	taking, giving     bool // Take, GiveBack was called
	err                error
}

// Counters count what becomes of requests. Any goroutine may use them.
type Counters struct {
	// Requests counts those that were begun, and Results those that have a verdict, by its outcome.
	Requests atomic.Uint64
	Results  [Unknown + 1]atomic.Uint64
	// DeniedLate counts requests that one group has denied when another had, or may have, taken its part.
	DeniedLate atomic.Uint64
	// GivenBack counts parts that were given back, or refused in advance.
	GivenBack atomic.Uint64
	// Left counts parts that may have stayed taken, since it is not known whether they were given back.
	Left atomic.Uint64
}

// Check is a request under way. Its methods are called by one goroutine at a time.
type Check struct {
	// Rows are the decisions on all limits, as one group would give them. They are valid in Groups.Reply, if the verdict is Granted or Denied.
	Rows []limit.Decision

	groups Groups
	counts *Counters
	parts  []Part
	soft   []bool
	costs  []int64
	looks  bool
	each   bool
	room   []limit.Decision // free, would and taken
	free   []limit.Decision // by the index of the limit: what is available
	would  []limit.Decision // what a look has said
	taken  []limit.Decision // what a take has said

	phase   phase
	running bool // below Begin or Told
	more    bool // there was an answer meanwhile
}

// phase is how far a request is.
type phase uint8

const (
	looking    phase = iota
	confirming       // those that would deny have been asked to decide
	taking
	gathering // each has been asked to do its part
	over
)

// Request says what is asked for.
type Request struct {
	// Parts are of different groups, two at least unless Each is set. Together they have every limit once.
	Parts []Part
	// Costs are what is taken from each limit, or from each lease its weight.
	Costs []int64
	// Soft are the limits that cannot deny; nil means none.
	Soft []bool
	// Looks has nothing taken: the answer is what a request that takes would be told.
	Looks bool
	// Each has every group do its part at once, whatever the others do, and nothing is given back: Take is what it does. The request is granted when all
	// are durable, and denied if one has denied.
	Each bool
}

// Begin begins a request. A Check that is Done may be used again.
func (c *Check) Begin(r Request, to Groups, counts *Counters) {
	n := len(r.Costs)
	if cap(c.room) < 4*n {
		c.room = make([]limit.Decision, 4*n)
	}
	*c = Check{groups: to, counts: counts, parts: r.Parts, soft: r.Soft, costs: r.Costs, looks: r.Looks, each: r.Each, room: c.room[:4*n]}
	c.Rows, c.free, c.would, c.taken = c.room[:n], c.room[n:2*n], c.room[2*n:3*n], c.room[3*n:]
	counts.Requests.Add(1)
	c.running = true
	for i := range c.parts {
		c.parts[i] = Part{Rows: c.parts[i].Rows}
	}
	if r.Each {
		c.phase = gathering
		c.take(func(*Part) bool { return true })
	} else {
		for i := range c.parts {
			to.Look(i)
		}
	}
	c.running = false
	c.run()
}

// Told tells the answer to a call.
func (c *Check) Told(part int, call Call, a Answer) {
	p := &c.parts[part]
	switch call {
	case Look:
		p.looked = a.Outcome
		c.keep(p, c.would, a.Rows)
		c.keep(p, c.free, a.Free)
	case Take:
		p.took = a.Outcome
		c.keep(p, c.taken, a.Rows)
	case GiveBack:
		p.gave = a.Outcome
	}
	if a.Outcome == Failed && call != GiveBack {
		p.err = a.Err
	}
	c.settled(p)
	c.run()
}

// keep copies the decisions of a part to their places.
func (c *Check) keep(p *Part, to, rows []limit.Decision) {
	for i := range rows {
		to[p.Rows[i]] = rows[i]
	}
}

// settled counts what has become of a part, once everything is answered that it was asked for.
func (c *Check) settled(p *Part) {
	switch {
	case !p.giving || p.gave == 0 || p.took == 0:
	case p.gave == Granted:
		c.counts.GivenBack.Add(1)
	case p.took == Granted || p.took == Unknown:
		c.counts.Left.Add(1)
	}
}

// Done reports whether every call has been answered.
func (c *Check) Done() bool {
	for i := range c.parts {
		if p := &c.parts[i]; p.looked == 0 && !c.each || p.taking && p.took == 0 || p.giving && p.gave == 0 {
			return false
		}
	}
	return c.phase == over
}

// run goes on as far as the answers allow. An answer that comes from within a call is looked at after it.
func (c *Check) run() {
	if c.more = true; c.running {
		return
	}
	for c.running = true; c.more; {
		c.more = false
		c.step()
	}
	c.running = false
}

func (c *Check) step() {
	switch c.phase {
	case looking:
		c.seen()
	case confirming:
		c.confirmed()
	case taking:
		c.decided()
	case gathering:
		c.gathered()
	}
}

// seen goes on once all groups have looked.
func (c *Check) seen() {
	denies, gone := false, false
	for i := range c.parts {
		switch c.parts[i].looked {
		case 0:
			return
		case Leaderless, Unknown: // nothing was to be taken
			gone = true
		case Denied:
			denies = true
		}
	}
	switch {
	case c.failed():
	case gone:
		c.end(Verdict{Outcome: Leaderless, At: -1})
	case c.looks && denies:
		c.end(Verdict{Outcome: Denied})
	case c.looks:
		c.end(Verdict{Outcome: Granted, At: -1})
	case denies:
		c.phase = confirming
		c.take(func(p *Part) bool { return p.looked == Denied })
	default:
		c.phase = taking
		c.take(func(*Part) bool { return true })
	}
}

// take asks the groups of the parts that which chooses to take.
func (c *Check) take(which func(*Part) bool) {
	for i := range c.parts {
		c.parts[i].taking = c.parts[i].taking || which(&c.parts[i])
	}
	for i := range c.parts {
		if p := &c.parts[i]; p.taking && p.took == 0 {
			c.groups.Take(i)
		}
	}
	c.more = true
}

// confirmed goes on once all groups have decided that would have denied.
func (c *Check) confirmed() {
	denied, gone := false, false
	for i := range c.parts {
		switch p := &c.parts[i]; {
		case !p.taking:
		case p.took == 0:
			return
		case p.took == Denied:
			denied = true
		case p.took != Granted:
			gone = true
		}
	}
	switch {
	case denied:
		c.end(Verdict{Outcome: Denied})
	case c.failed():
	case gone:
		c.lost()
	default: // there is room by now
		c.phase = taking
		c.take(func(*Part) bool { return true })
	}
}

// decided goes on when a group has decided: once all have granted, or one has not.
func (c *Check) decided() {
	waits := false
	for i := range c.parts {
		switch c.parts[i].took {
		case 0:
			waits = true
		case Granted:
		case Denied:
			c.end(Verdict{Outcome: Denied})
			return
		default:
			if !c.failed() {
				c.lost()
			}
			return
		}
	}
	if !waits {
		c.end(Verdict{Outcome: Granted, At: -1})
	}
}

// gathered goes on once every group has done its part.
func (c *Check) gathered() {
	gone, denied := false, false
	for i := range c.parts {
		switch c.parts[i].took {
		case 0:
			return
		case Leaderless, Unknown:
			gone = true
		case Denied:
			denied = true
		}
	}
	switch {
	case c.failed():
	case gone:
		c.lost()
	case denied:
		c.end(Verdict{Outcome: Denied})
	default:
		c.end(Verdict{Outcome: Granted, At: -1})
	}
}

// failed ends a request of which a part has failed, and reports whether it has.
func (c *Check) failed() bool {
	for i := range c.parts {
		if err := c.parts[i].err; err != nil {
			c.end(Verdict{Outcome: Failed, At: -1, Part: i, Err: err})
			return true
		}
	}
	return false
}

// lost ends a request of which a part is unknown, or its group has no leader.
func (c *Check) lost() {
	v := Verdict{Outcome: Leaderless, At: -1}
	for i := range c.parts {
		if p := &c.parts[i]; p.taking && p.took != Leaderless {
			v.Outcome = Unknown
		}
	}
	c.end(v)
}

// end gives the verdict, and has given back what may have been taken.
func (c *Check) end(v Verdict) {
	c.phase = over
	if v.Outcome == Denied || v.Outcome == Granted {
		c.merge(v.Outcome)
	}
	if v.Outcome == Denied {
		v.At = c.worst()
	}
	if v.Outcome != Granted && !c.each {
		for i := range c.parts {
			p := &c.parts[i]
			p.giving = p.taking && (p.took == 0 || p.took == Granted || p.took == Unknown)
		}
	}
	if v.Outcome == Denied && c.gives() {
		c.counts.DeniedLate.Add(1)
	}
	c.counts.Results[v.Outcome].Add(1)
	c.groups.Reply(v)
	for i := range c.parts {
		if c.parts[i].giving {
			c.groups.GiveBack(i)
		}
	}
}

// gives reports whether a part is to be given back.
func (c *Check) gives() bool {
	for i := range c.parts {
		if c.parts[i].giving {
			return true
		}
	}
	return false
}

// merge puts the decisions on all limits together. Those of a group that has not denied say what is available, as in one group, if
// another has denied.
func (c *Check) merge(o Outcome) {
	for i := range c.parts {
		p := &c.parts[i]
		from, free, back := c.taken, false, false
		switch {
		case o == Granted && c.looks:
			from = c.would
		case o == Granted || p.took == Denied:
		case p.looked == Granted:
			from, free = c.free, true
		case p.took == Granted: // though it would have denied
			back = true
		default:
			from = c.would
		}
		for _, at := range p.Rows {
			d := &c.Rows[at]
			switch *d = from[at]; {
			case free && c.would[at].Limited: // a soft one
				*d = c.would[at]
			case back && !d.Limited:
				d.Remaining, d.Wait = min(d.Limit, d.Remaining+c.costs[at]), limit.Never
			}
		}
	}
}

// worst returns the index of the limit that denies for the longest time, or -1.
func (c *Check) worst() int {
	at, longest := -1, int64(-1)
	for i := range c.Rows {
		d := &c.Rows[i]
		if !d.Limited || c.soft != nil && c.soft[i] {
			continue
		}
		wait := d.Wait
		if wait == limit.Never {
			wait = math.MaxInt64
		}
		if wait > longest {
			at, longest = i, wait
		}
	}
	return at
}
