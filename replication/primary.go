package replication

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"limitdb/internal/group"
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
	// idle is after how long without changes an empty group is proposed, to advance the time, unless Options.Idle says otherwise.
	idle = time.Second
	// writeDelay is how long changes may wait if no reply waits for them.
	writeDelay = time.Millisecond
	// enqueueTimeout is how long Raft may take to accept a proposal.
	enqueueTimeout = 3 * time.Second
	// finishRounds is the most groups that finish waits for.
	finishRounds = 100
	// replyDelay is how long finish leaves a session that has decided, and been held up by a busy machine, to say that its reply waits.
	replyDelay = time.Millisecond
	// maxProposed is the most entries that are proposed and not answered.
	maxProposed = 64
)

// Primary is the part of a node that decides while the node's own epoch is open.
type Primary struct {
	table   Table
	elapsed func() int64 // the node's monotonic time, ns
	life    *lifetime
	lease   time.Duration // the lease timeout
	idle    func() time.Duration
	// send gives an entry to Raft. lost is told of an epoch one of whose entries may not be in the log.
	send func(entry []byte) outcome
	lost func(epoch id, cause error)

	seat                    *group.Seat // says when drains begin
	dirtied, kick, advanced chan struct{}
	proposed                chan proposal

	// turn is not 0 while the node's own epoch is open and decisions use the table. Each epoch has another turn, which count
	// counts. It is changed under mu.
	turn  atomic.Uint64
	count *atomic.Uint64
	// until is the Elapsed up to which Deciding allows decisions.
	until atomic.Int64

	// drains, and the sequence of an epoch's last batch, belong to the proposer.
	drains     group.Drain
	sequence   uint64
	sequenceOf uint64 // a turn
	lastClock  int64  // of the turn's last group

	// draining is held while the table is cut and drained. Whoever holds it takes no other lock of the node.
	draining sync.Mutex

	// mu guards the fields below. The replica's lock may be held outside of it.
	mu      sync.Mutex
	turns   uint64 // how many epochs this node has opened
	reign          // of the open epoch
	waiters group.Waiters
	sizes   groupSizes
}

// reign is the state of an open epoch.
type reign struct {
	epoch    id
	format   uint8
	begun    uint64 // drains
	accepted uint64 // groups
	asked    int64  // Elapsed when the last group was begun
	pause    int64  // the time from an accepted group to the next, at most
	start    int64  // the time of the epoch's first decision
	since    int64  // Elapsed at that moment
}

// outcome is what becomes of an entry: Error blocks until it is committed, or may not be.
type outcome interface{ Error() error }

func newPrimary(table Table, elapsed func() int64, life *lifetime, beat *group.Beat) *Primary {
	p := &Primary{
		table: table, elapsed: elapsed, count: new(atomic.Uint64), life: life, idle: func() time.Duration { return idle },
		dirtied: make(chan struct{}, 1), kick: make(chan struct{}, 1), advanced: make(chan struct{}, 1), proposed: make(chan proposal, maxProposed),
	}
	p.seat = group.NewSeat(beat, elapsed, func() { signal(p.kick) })
	return p
}

// begin lets decisions use the table. start is the time of the first one at the Elapsed since. The replica's lock is held.
func (p *Primary) begin(epoch id, format uint8, start, since int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turns++
	p.reign = reign{epoch: epoch, format: format, start: start, since: since, pause: int64(idle)}
	p.confirmed()
	p.table.Lead(start-since, &p.drains.Gate, func() { signal(p.dirtied) })
	p.turn.Store(p.count.Add(1))
	signal(p.kick) // with the next entry, the others learn at once that the Epoch is committed; without one, Raft tells them 50 ms later
}

// end ends all decisions. It returns the waiters, whose outcome is now unknown, and whether decisions used the table. The
// replica's lock is held, so no entry is applied while they may still do so.
func (p *Primary) end() (told group.Told, led bool) {
	p.mu.Lock()
	told, led = p.waiters.All(), p.turn.Load() != 0
	p.turn.Store(0)
	p.reign = reign{}
	p.seat.Ended()
	p.mu.Unlock()
	if led {
		p.draining.Lock() // no drain is in progress, and none begins
		p.table.Follow()
		p.draining.Unlock()
	}
	return told, led
}

// acceptedOne counts an accepted group, and returns the waiters whose outcome is now known.
func (p *Primary) acceptedOne() group.Told {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted++
	p.confirmed()
	signal(p.advanced)
	p.seat.Ended()
	return p.waiters.Until(p.accepted)
}

// Wait calls fn once: with nil when everything that a reply can depend on now is accepted, or with ErrUnknown if the
// node abdicates before that. turn is what Turn returned before the first decision that the reply reports. fn must not
// block; it may be called before Wait returns. The drain begins at the next Kick.
func (p *Primary) Wait(turn uint64, fn func(error)) {
	p.mu.Lock()
	if turn == 0 || turn != p.turn.Load() {
		p.mu.Unlock()
		fn(ErrUnknown)
		return
	}
	p.waiters.Add(p.begun+1, fn)
	p.mu.Unlock()
}

// Kick starts a drain if anybody waits for one. It is cheap if nobody does.
func (p *Primary) Kick() {
	if p.waiters.Kick() {
		p.seat.Ask()
	}
}

// await waits until everything that was decided before in a turn is accepted. It returns ErrUnknown if the epoch ends
// before that, and raft.ErrRaftShutdown if the node stops.
func (p *Primary) await(turn uint64) error {
	done := make(chan error, 1)
	p.Wait(turn, func(err error) { done <- err })
	p.Kick()
	select {
	case err := <-done:
		return err
	case <-p.life.stop:
		return raft.ErrRaftShutdown
	}
}

// finish stops decisions, and waits until every decision is accepted.
func (p *Primary) finish() error {
	turn := p.turn.Load()
	p.table.Pause()
	quiet := 0 // groups in a row behind which nothing was decided
	for range finishRounds {
		if quiet > 0 {
			select {
			case <-time.After(replyDelay):
			case <-p.life.stop:
				return raft.ErrRaftShutdown
			}
		}
		switch err := p.await(turn); {
		case errors.Is(err, raft.ErrRaftShutdown):
			return err
		case err != nil:
			return fmt.Errorf("replication: the leadership was lost: %w", err)
		}
		if quiet++; p.table.Dirty() || p.waited() {
			quiet = 0
		}
		if quiet == 2 {
			break
		}
	}
	return nil
}

// Turn returns the number of this node's open epoch, or 0 if none is open. Make decisions only while it is not 0.
func (p *Primary) Turn() uint64 { return p.turn.Load() }

// Deciding returns Turn, for decisions whose replies do not wait. It also returns 0 if the node has not heard from a
// majority for so long that another node may lead: the oldest unaccepted group was begun a lease timeout ago or, with
// none in flight, the last group was accepted so long ago that another one should have been.
func (p *Primary) Deciding() uint64 {
	turn := p.turn.Load()
	if turn != 0 && p.elapsed() > p.until.Load() {
		return 0
	}
	return turn
}

// confirmed extends the time until which Deciding allows decisions. The lock is held.
func (p *Primary) confirmed() {
	until := p.elapsed() + p.pause
	if p.flying() {
		until = p.asked
	}
	p.until.Store(until + int64(p.lease))
}

// now returns the time for decisions, while an epoch is open.
func (p *Primary) now() (now int64, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.start + p.elapsed() - p.since, p.turn.Load() != 0
}

// logged reports whether everything in the table has been accepted.
func (p *Primary) logged() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turn.Load() == 0 || p.begun == p.accepted && !p.table.Dirty()
}

// run drains and proposes until the node stops.
func (p *Primary) run() {
	soon := time.NewTimer(writeDelay)
	soon.Stop()
	tick := time.NewTimer(idle)
	defer soon.Stop()
	defer tick.Stop()
	defer p.seat.Leaves()
	owing, idling := false, false
	for armed := false; ; {
		select {
		case <-p.life.stop:
			return
		case <-p.kick:
			owing = true
		case <-p.advanced:
		case <-p.dirtied:
			if !armed {
				soon.Reset(writeDelay)
				armed = true
			}
			continue
		case <-soon.C:
			armed = false
			p.seat.Ask()
		case <-tick.C:
			tick.Reset(p.rest())
			idling = true
		}
		if (owing || idling) && p.room() {
			if (idling || p.needed()) && p.drain() {
				tick.Reset(p.rest())
			} else {
				p.seat.Ended()
			}
			owing, idling = false, false
		}
		if !owing && p.seat.Alone() {
			owing = p.waited()
		}
	}
}

// rest returns for how long no group need be proposed now.
func (p *Primary) rest() time.Duration {
	rest := p.idle()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pause = int64(rest)
	return rest
}

// flying reports whether a group is in flight: begun and not accepted yet. The lock is held.
func (r *reign) flying() bool { return r.begun > r.accepted }

// room reports whether another group may be proposed.
func (p *Primary) room() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.flying()
}

// waited reports whether somebody waits for a drain that has been kicked but has not begun.
func (p *Primary) waited() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiters.Last() > p.begun && p.waiters.Kicked()
}

// needed reports whether a drain would do anything for anybody: an earlier one may have served those who have asked for it.
func (p *Primary) needed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun == 0 || p.waiters.Last() > p.begun || p.table.Dirty()
}

// drain proposes the changes of the table as one group, and reports whether it did.
func (p *Primary) drain() bool {
	p.mu.Lock()
	turn, in := p.turn.Load(), entry{kind: kindBatch, format: p.format, epoch: p.epoch}
	if turn == 0 {
		p.mu.Unlock()
		return false
	}
	p.seat.Begins()
	p.begun++ // before the cut: whoever waits from now on waits for the next drain
	p.asked = p.elapsed()
	p.confirmed()
	p.mu.Unlock()
	if p.sequenceOf != turn {
		p.sequenceOf, p.sequence, p.lastClock = turn, 0, 0
	}
	size := 0
	var clock int64
	err := p.during(turn, func() { p.drains.Cut(func() { p.table.Cut(p.lastClock) }) })
	if err == nil {
		err = p.drains.Each(0, func(dst *journal.Buffer) (more bool, err error) {
			err = p.during(turn, func() { more = p.table.Drain(dst, group.DrainBytes) })
			return more, err
		}, func(piece *journal.Buffer, more bool) error {
			p.mu.Lock()
			clock = p.start + p.elapsed() - p.since // after the drain: no decision in it is later
			if size += len(piece.Bytes); !more {
				p.sizes.add(size)
			}
			over := p.turn.Load() != turn
			p.mu.Unlock()
			if over || !p.propose(in, clock, piece.Bytes, !more) {
				return ErrUnknown
			}
			return nil
		})
	}
	if err != nil {
		return false // the machine drops the unfinished group
	}
	p.lastClock = clock
	return true
}

// during uses the table while the epoch of a turn is open. It returns ErrUnknown if the epoch is over.
func (p *Primary) during(turn uint64, use func()) error {
	p.draining.Lock()
	defer p.draining.Unlock()
	if p.turn.Load() != turn {
		return ErrUnknown
	}
	use()
	return nil
}

// propose proposes records as one or more batches of a group, each like e. If last is set, they end the group. It
// reports whether the node still runs.
func (p *Primary) propose(e entry, clock int64, records []byte, last bool) bool {
	for {
		batch, rest := nextBatch(records)
		p.sequence++
		e.sequence, e.clock, e.last, e.records = p.sequence, clock, last && len(rest) == 0, batch
		select {
		case p.proposed <- proposal{e.epoch, p.send(e.appendTo(make([]byte, 0, entryHead+len(batch))))}:
		case <-p.life.stop:
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
	epoch   id
	outcome outcome
}

// answers waits for the outcome of the proposals. One that fails ends its epoch: it may be in the log or not, and its
// successors cannot pass the fence.
func (p *Primary) answers() {
	for {
		select {
		case <-p.life.stop:
			return
		case one := <-p.proposed:
			if err := one.outcome.Error(); err != nil {
				p.lost(one.epoch, err)
			}
		}
	}
}

// groupSizes is a running mean of the sizes of the groups that the node has proposed, in bytes: each new group counts
// for a sixteenth.
type groupSizes struct{ mean16 uint64 }

func (g *groupSizes) add(bytes int) { g.mean16 += uint64(bytes) - g.mean16/16 }

func (g *groupSizes) mean() uint64 { return g.mean16 / 16 }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
