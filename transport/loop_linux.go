package transport

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"limitdb/internal/pulse"
)

// loop is an event loop: one goroutine that waits for its connections' sockets and runs their
// sessions.
//
// A round takes the ready sockets, gives each one read of at most loopReadSize bytes, fewer where they are many,
// and one stretch of writing, then does what was posted, and then gives those who have yielded
// another turn, in the order in which they did: for the last two it takes moreTime
// each, and leaves the rest to the next round. Readiness is level-triggered: what a turn left is
// ready again, and no read is made only to learn that there is nothing more.
//
// Tried and left: waiting at once instead of looking first (the same for one connection,
// 6 % dearer for many), yielding to other goroutines between the two (a fifth dearer), looking again for
// 20 or 50 µs before waiting (half as much again to twice the processor time, and slower where
// others need it), a short wait without giving the processor away (no difference), a thread of its
// own (no difference). A library was not taken because it cannot stop reading one connection.
//
// The loop alone reads, runs sessions and closes sockets. Writing is done by whoever writes.
type loop struct {
	g     *Group
	poll  *poll
	conns []*loopConn   // by descriptor
	buf   []byte        // what was read; valid for one call of Session.Data
	now   int64         // the clock, read once a round
	pulse pulse.Pulse   // rests while the loop waits
	turn  time.Duration // of the session that runs
	read  int           // bytes that are read from each in this round
	todo  []*loopConn   // taken from the inbox, not yet done
	more  []*loopConn   // have yielded
	count atomic.Int64

	mu     sync.Mutex // guards inbox, quit and ended
	inbox  []*loopConn
	quit   bool        // to end
	ended  bool        // the descriptors are closed
	asleep atomic.Bool // the loop waits, or is about to
	spare  []*loopConn // the inbox's other half, empty

	yielded int64 // when the loop last let others run
	settled int64 // when Settled was called last
}

// loopReadSize is the most that is read from a connection in its turn.
const loopReadSize = 64 << 10

// yieldEvery is less than the 10 ms after which Go's scheduler takes the
// processor of a goroutine that has not given it up, by means of a thread that looks
// every 20 µs from then on: that would cost more than yielding does.
const yieldEvery = int64(5 * time.Millisecond)

// gatherFor is how long a loop that finds more and more to do goes on without a call of Options.Settled. To
// call it after each round costs 7 % more at one command for each sync, and is slower for the clients, too: more
// syncs, each for fewer.
const gatherFor = int64(300 * time.Microsecond)

func newLoop(g *Group) (*loop, error) {
	p, err := newPoll()
	if err != nil {
		return nil, err
	}
	return &loop{g: g, poll: p, buf: make([]byte, loopReadSize)}, nil
}

// run is the loop's goroutine.
func (l *loop) run() {
	defer l.close()
	defer l.pulse.Rest()
	for {
		events := l.poll.look()
		if len(events) == 0 {
			l.settle()
		}
		if len(events) == 0 && len(l.todo)+len(l.more) == 0 {
			// Announce the sleep, then look at the inbox: who posts after that look interrupts.
			l.asleep.Store(true)
			if l.idle() {
				l.pulse.Rest()
				events = l.poll.wait()
			}
			l.asleep.Store(false)
		}
		l.now = l.g.opts.Clock.Now()
		l.pulse.Beat(l.now)
		if ran := l.now - l.yielded; ran >= yieldEvery || ran < 0 {
			l.yielded = l.now
			runtime.Gosched()
		}
		l.turn, l.read = turnOf(len(events)), readOf(len(events))
		for i := range events {
			// A closed connection's descriptor has none until the next is taken from the inbox.
			if c := l.conn(int(events[i].Fd)); c != nil {
				c.ready(events[i].Events)
			}
		}
		if l.take() {
			return
		}
		l.goOn()
		if since := l.now - l.settled; since >= gatherFor || since < 0 {
			l.settle()
		}
	}
}

// settle says that what was ready has been done, or much of it.
func (l *loop) settle() {
	l.settled = l.now
	if l.g.opts.Settled != nil {
		l.g.opts.Settled()
	}
}

func (l *loop) conn(fd int) *loopConn {
	if fd < len(l.conns) {
		return l.conns[fd]
	}
	return nil
}

// idle reports whether nothing is in the inbox.
func (l *loop) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.inbox) == 0 && !l.quit
}

// take does what was posted before. It returns true when the loop is to end.
func (l *loop) take() (quit bool) {
	if len(l.todo) == 0 {
		l.mu.Lock()
		l.todo, l.inbox, l.spare = l.inbox, l.spare, nil
		quit = l.quit && len(l.todo) == 0
		l.mu.Unlock()
	}
	if len(l.todo) == 0 {
		l.spare = l.todo
		return quit
	}
	const look = 16 // at the clock, after so many
	l.turn = turnOf(len(l.todo))
	all, start := l.todo, int64(0)
	for i, c := range all {
		if i%look == look-1 {
			now := l.g.opts.Clock.Now()
			if start == 0 {
				start = now
			}
			if now-start >= int64(moreTime) {
				l.todo = all[i:]
				return false
			}
		}
		all[i] = nil
		c.act()
	}
	l.todo, l.spare = nil, all[:0]
	return false
}

// goOn gives turns to those who have yielded.
func (l *loop) goOn() {
	if len(l.more) == 0 {
		return
	}
	l.turn = longTurn
	start := l.g.opts.Clock.Now()
	for n := len(l.more); n > 0; n-- { // who yields again waits for the next round
		c := l.more[0]
		l.more[0] = nil
		l.more = l.more[1:]
		c.again()
		if l.g.opts.Clock.Now()-start >= int64(moreTime) {
			return
		}
	}
}

// put adds c to the inbox, from any goroutine.
func (l *loop) put(c *loopConn) {
	l.mu.Lock()
	l.inbox = append(l.inbox, c)
	l.rouse()
	l.mu.Unlock()
}

// rouse ends the loop's sleep. mu is held, so that the descriptor is not another's by now.
func (l *loop) rouse() {
	if !l.ended && l.asleep.CompareAndSwap(true, false) {
		l.poll.interrupt()
	}
}

func (l *loop) close() {
	l.mu.Lock()
	l.ended = true
	l.poll.close()
	l.mu.Unlock()
}

// stop ends the loop once its inbox is empty. Its connections have been closed before.
func (l *loop) stop() {
	l.mu.Lock()
	l.quit = true
	l.rouse()
	l.mu.Unlock()
}

// enter makes c one of the loop's connections.
func (l *loop) enter(c *loopConn) {
	for c.fd >= len(l.conns) {
		l.conns = append(l.conns, make([]*loopConn, max(64, len(l.conns)))...)
	}
	l.conns[c.fd] = c
}
