package replication

import (
	"time"

	"limitdb/internal/journal"
)

// What a node does while its own epoch is open: it drains its table, proposes what it had, and lets replies go.
//
// Drains are numbered from 1 on in each epoch, and each is one group of batches. Groups are accepted in
// their order, so counting those says up to which drain all is in the log. A reply waits for the drain that begins
// after it, whatever it tells: nothing else proves that this node still leads. That drain may have nothing to say; its batch
// is proposed all the same, and is accepted only behind the group before it.
//
// One group is in flight at a time. What comes meanwhile gathers in the table and makes the next group, so the
// groups grow with the load, and one sync is for many changes. A second group in flight made both slower: the second was
// small, and what came after it waited for it.

const (
	// MaxRecord is the most bytes of a record: no state of a table may be longer. A record that is longer than a batch is a batch by itself, and an
	// entry of this size is still sent and written within the time that heartbeats leave.
	MaxRecord = 8 << 20
	// maxBatch is at how many bytes of records a batch ends. One record may be longer.
	maxBatch = 256 << 10
	// idle is how long after the last group an empty one follows, which carries the time on.
	idle = time.Second
	// writeDelay is how long changes wait for which no reply waits.
	writeDelay = time.Millisecond
	// enqueueTimeout is how long Raft may take to accept a proposal.
	enqueueTimeout = 3 * time.Second
	// maxProposed is how many entries may be proposed and not yet answered.
	maxProposed = 64
	// drainBytes is about how many bytes of records are drained before they are proposed. A longer drain continues
	// after that, so the node's memory does not grow with what has changed.
	drainBytes = 1 << 20
	// keepBuffer is the largest buffer that is kept between drains.
	keepBuffer = 2 * drainBytes
)

// primary is the state of an open epoch. The node's lock guards it.
type primary struct {
	epoch    id
	format   uint8
	begun    uint64 // drains
	accepted uint64 // groups
	waiters  []waiter
	asked    int64 // Elapsed when the last group was begun
	start    int64 // the time of the epoch's first decision
	since    int64 // Elapsed at that moment
}

type waiter struct {
	at uint64 // a drain
	fn func(error)
}

// Wait calls fn once, with nil, when all that can have been seen until now is accepted, or with ErrUnknown if the node
// abdicates before that. turn is what Turn has returned before the first decision that the reply tells of. fn must not block; it may be called before Wait returns. The
// drain begins at the next Kick.
func (n *Node) Wait(turn uint64, fn func(error)) {
	n.mu.Lock()
	if turn == 0 || turn != n.turn.Load() {
		n.mu.Unlock()
		fn(ErrUnknown)
		return
	}
	n.primary.waiters = append(n.primary.waiters, waiter{n.primary.begun + 1, fn})
	n.mu.Unlock()
	n.unkicked.Store(true)
}

// Kick has a drain begin, if anybody waits for one. It is cheap where nobody does.
func (n *Node) Kick() {
	if n.unkicked.Load() && n.unkicked.Swap(false) {
		signal(n.kick)
	}
}

// Turn names the epoch of this node that is open, 0 without one. Decisions are to be made only where it is not 0.
func (n *Node) Turn() uint64 { return n.turn.Load() }

// Deciding is Turn for decisions whose replies do not wait. It is 0 as well if the node has not heard from a
// majority for so long that another node may lead: the oldest group that is not accepted was begun a lease timeout
// ago, or with none underway, the last was accepted so long ago that another should have been.
func (n *Node) Deciding() uint64 {
	turn := n.turn.Load()
	if turn != 0 && n.clock.Elapsed() > n.until.Load() {
		return 0
	}
	return turn
}

// confirmed sets the time until which Deciding allows decisions. The lock is held.
func (n *Node) confirmed() {
	p, until := &n.primary, n.clock.Elapsed()+int64(idle)
	if p.flying() {
		until = p.asked
	}
	n.until.Store(until + int64(n.lease))
}

// Expired is the time up to which keys of a node that does not decide may be dropped. It is one group behind the replicated
// time: a decision in the next group may have been made before the last group's clock, and may have changed a state in part
// that had not expired then. It is 0 while nothing may be dropped.
func (n *Node) Expired() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.turn.Load() != 0 || n.rebuilding || n.failed {
		return 0
	}
	return n.machine.earlier
}

// Now is the time for decisions, while the node's own epoch is open, and the replicated time otherwise.
func (n *Node) Now() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nowLocked()
}

func (n *Node) nowLocked() int64 {
	if n.turn.Load() == 0 {
		return n.machine.clock
	}
	return n.primary.start + n.clock.Elapsed() - n.primary.since
}

// propose drains and proposes for as long as the node runs.
func (n *Node) propose() {
	defer n.loops.Done()
	soon := time.NewTimer(writeDelay)
	soon.Stop()
	tick := time.NewTimer(idle)
	defer soon.Stop()
	defer tick.Stop()
	owing, idling := false, false
	for armed := false; ; {
		select {
		case <-n.stop:
			return
		case <-n.kick:
			owing = true
		case <-n.advanced:
		case <-n.dirtied:
			if !armed {
				soon.Reset(writeDelay)
				armed = true
			}
			continue
		case <-soon.C:
			armed, owing = false, true
		case <-tick.C:
			tick.Reset(idle)
			idling = true
		}
		if (owing || idling) && n.room() {
			if n.drain() {
				tick.Reset(idle)
			}
			owing, idling = false, false
		}
		if !owing {
			owing = n.waited()
		}
	}
}

// flying reports whether a group was begun and is not accepted yet. The node's lock is held.
func (p *primary) flying() bool { return p.begun > p.accepted }

// room reports whether another group may be proposed.
func (n *Node) room() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.primary.flying()
}

// waited reports whether somebody waits for a drain that has not begun and was kicked already.
func (n *Node) waited() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := &n.primary
	return len(p.waiters) > 0 && p.waiters[len(p.waiters)-1].at > p.begun && !n.unkicked.Load()
}

// drain proposes what the table has changed as one group, and reports whether it did.
func (n *Node) drain() bool {
	n.mu.Lock()
	turn, in := n.turn.Load(), entry{kind: kindBatch, format: n.primary.format, epoch: n.primary.epoch}
	n.primary.begun++ // before the cut: who waits from now on waits for the next
	n.primary.asked = n.clock.Elapsed()
	n.confirmed()
	n.mu.Unlock()
	if turn == 0 {
		return false
	}
	if n.sequenceOf != turn {
		n.sequenceOf, n.sequence, n.lastClock = turn, 0, 0
	}
	buf := &n.buf
	size := 0
	var clock int64
	for first, more := true, true; more; first = false {
		var open bool
		if more, open = n.take(turn, first, buf); !open {
			return false // the machine drops the unfinished group
		}
		n.mu.Lock()
		clock = n.nowLocked() // after the drain: no decision in it is later
		if size += len(buf.Bytes); !more {
			n.sizes.add(size)
		}
		over := n.turn.Load() != turn
		n.mu.Unlock()
		if over || !n.proposeBatches(in, clock, buf.Bytes, !more) {
			return false
		}
	}
	n.lastClock = clock
	if cap(buf.Bytes) > keepBuffer {
		buf.Bytes = nil
	}
	return true
}

// take fills buf with what the table has changed, after a cut if it is the first time for this group, and reports whether
// there may be more. open is false if the epoch of turn is over.
func (n *Node) take(turn uint64, first bool, buf *journal.Buffer) (more, open bool) {
	n.draining.Lock()
	defer n.draining.Unlock()
	if n.turn.Load() != turn {
		return false, false
	}
	if first {
		n.gate.Close()
		n.table.Cut(n.lastClock)
		n.gate.Open()
	}
	buf.Reset(0)
	return n.table.Drain(buf, drainBytes), true
}

// proposeBatches proposes records as batches of one group, at least one batch, each like e; last means that they end the group. It
// reports whether the node still runs.
func (n *Node) proposeBatches(e entry, clock int64, records []byte, last bool) bool {
	for {
		size := batchSize(records)
		ends := size == len(records)
		n.sequence++
		e.sequence, e.clock, e.last, e.records = n.sequence, clock, ends && last, records[:size]
		select {
		case n.proposed <- proposal{e.epoch, n.raft.Apply(e.appendTo(make([]byte, 0, entryHead+size)), enqueueTimeout)}:
		case <-n.stop:
			return false
		}
		if ends {
			return true
		}
		records = records[size:]
	}
}

// batchSize is how many bytes of records the next batch has: whole records, and at least one.
func batchSize(b []byte) int {
	if len(b) <= maxBatch {
		return len(b)
	}
	size := 0
	for size < len(b) {
		_, rest, err := journal.Parse(b[size:])
		if err != nil {
			return len(b) // the machine will say so, on every node
		}
		end := len(b) - len(rest)
		if size > 0 && end > maxBatch {
			break
		}
		size = end
	}
	return size
}

// proposal is a batch that was given to Raft.
type proposal struct {
	epoch  id
	future interface{ Error() error }
}

// answers waits for what becomes of the proposals. One that fails ends its epoch: it may be in the log
// or not, and its successors cannot pass.
func (n *Node) answers() {
	defer n.loops.Done()
	for {
		select {
		case <-n.stop:
			return
		case p := <-n.proposed:
			if err := p.future.Error(); err != nil {
				n.abdicate(p.epoch, err)
			}
		}
	}
}

// released removes those waiters whose drain was accepted and returns them. The node's lock is held.
func (p *primary) released() []waiter {
	i := 0
	for i < len(p.waiters) && p.waiters[i].at <= p.accepted {
		i++
	}
	done := p.waiters[:i:i]
	p.waiters = p.waiters[i:]
	return done
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
