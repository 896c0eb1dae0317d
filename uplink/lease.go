package uplink

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"
)

// The lease of an uplink: how the node that leads knows that the other end still waits for the replies.
//
// Bytes can arrive long after they were sent: a network that was cut carries them when it is whole again, and a process
// that was stopped reads them when it goes on. Meanwhile the client has been told that the outcome of its command is
// unknown, and acts on that. So the node that leads sends a stamp, the time by its own clock, every stampEvery. The
// other node sends it back at once, in its place among the frames. A command begins only if the newest stamp that has
// come back is not older than Lease. Only one clock is read, so it does not matter what the other one shows.
//
// Why is that enough? Let a command begin at the time t, by the clock of the node that leads. The newest stamp that has
// come back was made at s ≥ t - Lease, and was sent back at some time r ≥ s. Frames are neither lost nor reordered, and
// the other node adds none to an uplink that has ended. So at r
//
//   - the uplink had not ended there, and the client had not been told that the outcome is unknown;
//   - the stream was not closed there: else its close had come before the stamp, and the session had ended.
//
// So the client was told, or the stream closed, after r ≥ t - Lease: the command begins no later than Lease after that.
// A frame that is late makes r later, never s, so a delay only makes a stamp look older than it is. That holds for the
// first frame as well: without a stamp that has come back nothing begins. If the process is stopped, its clock goes on, and
// what it reads afterwards comes with old stamps. If the other process is stopped, it sends no stamp back.
//
// What is left: a process that is stopped between the look at the lease and the command that follows, at most one turn of
// the session later. If a majority of the nodes runs meanwhile, another one leads, and the fence (replication/PROTOCOL.md)
// ignores what the command has done.
//
// A command that may not begin is refused as by a node that does not lead: its client's node may send it again. A
// request that has begun and waits for its turn gives it up when no stamp has come back for silence.

const (
	// Lease is how long after its client's node was last known to wait for the reply a command may begin, in ns.
	Lease = int64(2 * time.Second)
	// silence is how long no stamp may come back before the uplink is closed, in ns.
	silence = int64(5 * time.Second)
	// stampEvery is the time between two stamps.
	stampEvery = 250 * time.Millisecond
	// leaseTimeout is how long the node that calls waits for the first stamp.
	leaseTimeout = 2 * time.Second

	stampSize = 8
)

// errSilent ends an uplink whose node sends no stamp back.
var errSilent = errors.New("uplink: the node was not heard for too long")

// lease holds the newest stamp that has come back, from 1 on; 0 stands for none.
type lease struct{ stamp atomic.Int64 }

// extend notes a stamp that has come back at now. It returns false for one that was never sent.
func (l *lease) extend(payload []byte, now int64) bool {
	if len(payload) != stampSize {
		return false
	}
	stamp := int64(binary.LittleEndian.Uint64(payload))
	if stamp <= 0 || stamp > now || stamp < l.stamp.Load() {
		return false
	}
	l.stamp.Store(stamp)
	return true
}

// holds reports whether the newest stamp is no older than most at now.
func (l *lease) holds(now, most int64) bool {
	stamp := l.stamp.Load()
	return stamp != 0 && now-stamp <= most
}

// stamp sends stamps until the uplink ends, and ends it when none has come back for silence.
func (p *port) stamp() {
	tick := time.NewTicker(stampEvery)
	defer tick.Stop()
	for begin := p.h.elapsed(); ; {
		now := p.h.elapsed()
		if !p.lease.holds(now, silence) && now-begin > silence {
			p.silent.Store(true)
			p.out.stop()
			return
		}
		p.out.add(nil, 0, kindStamp, binary.LittleEndian.AppendUint64(nil, uint64(now)))
		select {
		case <-tick.C:
		case <-p.gone:
			return
		}
	}
}
