package transport

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"limitdb/internal/pulse"
)

// loop is an event loop: one goroutine that waits for the sockets of its connections and runs their sessions.
//
// Each round takes the ready sockets and does for each one read and one stretch of writing. A read takes at
// most loopReadSize bytes, fewer if many sockets are ready. Then the round does what was posted, and then
// gives each connection that has yielded another turn, in the order in which they yielded. For each of the
// last two it takes at most moreTime, and leaves the rest to the next round. Readiness is level-triggered: if
// a turn leaves input, the socket is ready again, and no read is made only to learn that there is nothing
// more.
//
// Tried and rejected: waiting without looking first (the same for one connection, 6 % slower for many),
// yielding to other goroutines between the two (20 % slower), looking again for 20 or 50 µs before waiting
// (1.5 to 2 times the processor time, and slower if others need the processor), a short wait that keeps the
// processor (no difference), a thread for the loop (no difference). A library was not used because it cannot
// stop reading from one connection.
//
// Only the loop reads, runs sessions and closes sockets. Any goroutine may write.
type loop struct {
	g     *Group
	id    int // its place among the loops
	poll  *poll
	conns []*loopConn   // indexed by descriptor
	buf   []byte        // the bytes read; valid for one call of Session.Data
	now   int64         // the clock, read once in a round
	pulse pulse.Pulse   // rests while the loop waits
	turn  time.Duration // the turn of the session that runs
	read  int           // bytes to read from each connection in this round
	todo  []*loopConn   // taken from the inbox, not yet done
	more  []*loopConn   // connections that have yielded
	count atomic.Int64

	mu     sync.Mutex // guards inbox, quit and ended
	inbox  []*loopConn
	quit   bool        // the loop must end
	ended  bool        // the descriptors are closed
	asleep atomic.Bool // the loop waits, or is about to wait
	spare  []*loopConn // the inbox's other half, empty

	yielded     int64 // when the loop last let others run
	calledAfter int64 // when AfterInput was last called
}

// loopReadSize is the maximum number of bytes read from a connection in its turn.
const loopReadSize = 64 << 10

// yieldEvery is less than 10 ms, after which Go's scheduler takes the processor from a goroutine that has not
// yielded. A thread then looks every 20 µs, which would cost more than yielding does.
const yieldEvery = int64(5 * time.Millisecond)

// gatherFor is how long, in ns, a loop that always finds more to do continues without a call of
// Options.AfterInput. Calling it after each round costs 7 % more at one command for each sync, and is slower for
// the clients, too: there are more syncs, and each serves fewer clients.
const gatherFor = int64(300 * time.Microsecond)

func newLoop(g *Group, id int) (*loop, error) {
	p, err := newPoll()
	if err != nil {
		return nil, err
	}
	return &loop{g: g, id: id, poll: p, buf: make([]byte, loopReadSize)}, nil
}

// run is the loop's goroutine.
func (l *loop) run() {
	defer l.close()
	defer l.pulse.Rest()
	for {
		events := l.poll.look()
		if len(events) == 0 {
			l.afterInput()
		}
		if len(events) == 0 && len(l.todo)+len(l.more) == 0 {
			// Announce the sleep before looking at the inbox: whoever posts after that look interrupts the
			// wait.
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
			// A closed connection's descriptor has no entry here until enter gives it a new one.
			if c := l.conn(int(events[i].Fd)); c != nil {
				c.ready(events[i].Events)
			}
		}
		if l.take() {
			return
		}
		l.goOn()
		if since := l.now - l.calledAfter; since >= gatherFor || since < 0 {
			l.afterInput()
		}
	}
}

// afterInput calls Options.AfterInput.
func (l *loop) afterInput() {
	l.calledAfter = l.now
	if l.g.opts.AfterInput != nil {
		l.g.opts.AfterInput()
	}
}

func (l *loop) conn(fd int) *loopConn {
	if fd < len(l.conns) {
		return l.conns[fd]
	}
	return nil
}

// idle reports whether the inbox is empty.
func (l *loop) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.inbox) == 0 && !l.quit
}

// take does the work posted before the call. It returns true if the loop must end.
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
	const look = 16 // read the clock after this many
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

// goOn gives turns to the connections that have yielded.
func (l *loop) goOn() {
	if len(l.more) == 0 {
		return
	}
	l.turn = longTurn
	start := l.g.opts.Clock.Now()
	for n := len(l.more); n > 0; n-- { // a session that yields again waits for the next round
		c := l.more[0]
		l.more[0] = nil
		l.more = l.more[1:]
		c.again()
		if l.g.opts.Clock.Now()-start >= int64(moreTime) {
			return
		}
	}
}

// put adds c to the inbox. Any goroutine may call it.
func (l *loop) put(c *loopConn) {
	l.mu.Lock()
	l.inbox = append(l.inbox, c)
	l.rouse()
	l.mu.Unlock()
}

// rouse ends the loop's sleep. The caller holds mu, so that the descriptor cannot have been closed and
// reused.
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

// stop ends the loop once its inbox is empty. Its connections are already closed.
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
