package replication

import (
	"time"

	"limitdb/internal/journal"
)

// While its own epoch is open, a node drains its table, proposes the changes, and lets replies go.
//
// Drains are numbered from 1 on in each epoch, and each is one group of batches. Groups are accepted in order, so their
// number tells up to which drain everything is in the log. Every reply waits for the drain that begins after it,
// because nothing else proves that this node still leads. A drain may find no change; its empty batch is proposed all
// the same, and is accepted only behind the group before it.
//
// One group is in flight at a time. Changes that are made meanwhile form the next group. So groups grow with the load,
// and one sync serves many changes. A second group in flight made both slower: it was small, and later changes waited
// for it.

const (
	// MaxRecord is the longest record, in bytes; no state of a table may be longer. A record that is longer than a
	// batch is a batch by itself. An entry of this size can still be sent and written between two heartbeats.
	MaxRecord = 8 << 20
	// maxBatch is how many bytes of records end a batch. A single record may be longer.
	maxBatch = 256 << 10
	// idle is after how long without changes an empty group is proposed, to advance the time.
	idle = time.Second
	// writeDelay is how long changes may wait if no reply waits for them.
	writeDelay = time.Millisecond
	// enqueueTimeout is how long Raft may take to accept a proposal.
	enqueueTimeout = 3 * time.Second
	// maxProposed is the most entries that are proposed and not answered.
	maxProposed = 64
	// drainBytes is about how many bytes of records are drained before they are proposed. A longer drain continues
	// after that, so the node's memory does not grow with what has changed.
	drainBytes = 1 << 20
	// keepBuffer is the size up to which a buffer is kept between drains.
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

// Wait calls fn once: with nil when everything that a reply can depend on now is accepted, or with ErrUnknown if the
// node abdicates before that. turn is what Turn returned before the first decision that the reply reports. fn must not
// block; it may be called before Wait returns. The drain begins at the next Kick.
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

// Kick starts a drain if anybody waits for one. It is cheap if nobody does.
func (n *Node) Kick() {
	if n.unkicked.Load() && n.unkicked.Swap(false) {
		signal(n.kick)
	}
}

// Turn returns the number of this node's open epoch, or 0 if none is open. Make decisions only while it is not 0.
func (n *Node) Turn() uint64 { return n.turn.Load() }

// Deciding returns Turn, for decisions whose replies do not wait. It also returns 0 if the node has not heard from a
// majority for so long that another node may lead: the oldest unaccepted group was begun a lease timeout ago or, with
// none in flight, the last group was accepted so long ago that another one should have been.
func (n *Node) Deciding() uint64 {
	turn := n.turn.Load()
	if turn != 0 && n.clock.Elapsed() > n.until.Load() {
		return 0
	}
	return turn
}

// confirmed extends the time until which Deciding allows decisions. The lock is held.
func (n *Node) confirmed() {
	p, until := &n.primary, n.clock.Elapsed()+int64(idle)
	if p.flying() {
		until = p.asked
	}
	n.until.Store(until + int64(n.lease))
}

// Expired returns the time up to which a node that does not decide may drop expired keys, or 0 while it may drop none.
// It is one group behind the replicated time: a decision in the next group may be older than the last group's clock,
// and may have changed a part of a state that had not expired then.
func (n *Node) Expired() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.turn.Load() != 0 || n.rebuilding || n.failed {
		return 0
	}
	return n.machine.earlier
}

// Now returns the time for decisions while the node's own epoch is open, and the replicated time otherwise.
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

// propose drains and proposes until the node stops.
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

// flying reports whether a group is in flight: begun and not accepted yet. The node's lock is held.
func (p *primary) flying() bool { return p.begun > p.accepted }

// room reports whether another group may be proposed.
func (n *Node) room() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.primary.flying()
}

// waited reports whether somebody waits for a drain that has been kicked but has not begun.
func (n *Node) waited() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := &n.primary
	return len(p.waiters) > 0 && p.waiters[len(p.waiters)-1].at > p.begun && !n.unkicked.Load()
}

// drain proposes the changes of the table as one group, and reports whether it did.
func (n *Node) drain() bool {
	n.mu.Lock()
	turn, in := n.turn.Load(), entry{kind: kindBatch, format: n.primary.format, epoch: n.primary.epoch}
	n.primary.begun++ // before the cut: whoever waits from now on waits for the next drain
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

// take fills buf with changes of the table and reports whether there may be more. If first is set, it cuts the table
// before. open is false if the epoch of turn is over.
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

// proposeBatches proposes records as one or more batches of a group, each like e. If last is set, they end the group.
// It reports whether the node still runs.
func (n *Node) proposeBatches(e entry, clock int64, records []byte, last bool) bool {
	for {
		batch, rest := nextBatch(records)
		n.sequence++
		e.sequence, e.clock, e.last, e.records = n.sequence, clock, last && len(rest) == 0, batch
		select {
		case n.proposed <- proposal{e.epoch, n.raft.Apply(e.appendTo(make([]byte, 0, entryHead+len(batch))), enqueueTimeout)}:
		case <-n.stop:
			return false
		}
		if len(rest) == 0 {
			return true
		}
		records = rest
	}
}

// nextBatch returns the records of the next batch, and those behind it.
func nextBatch(records []byte) (batch, rest []byte) {
	if len(records) > maxBatch {
		if part, rest, err := journal.Split(records, maxBatch); err == nil {
			return part.Bytes, rest
		} // else the machine reports it, on every node
	}
	return records, nil
}

// proposal is a batch that was given to Raft.
type proposal struct {
	epoch  id
	future interface{ Error() error }
}

// answers waits for the outcome of the proposals. One that fails ends its epoch: it may be in the log or not, and its
// successors cannot pass the fence.
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

// released removes the waiters whose drain was accepted, and returns them. The node's lock is held.
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
