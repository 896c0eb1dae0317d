package server

import (
	"errors"
	"math"
	"sync/atomic"

	"limitdb/engine"
	"limitdb/groups/across"
	"limitdb/internal/origin"
	"limitdb/server/clients"
	"limitdb/server/crossing"
	"limitdb/server/handler"
	"limitdb/server/pubsub"
	"limitdb/server/spec"
)

// What a session waits for is one value, its pending, with one resume. A session without one runs commands:
//
//	            park                            yield
//	parked ◄──────────────────── running ────────────────────► yielded
//	   │                          ▲   ▲                           │
//	   └── woken, and resume ─────┘   └───── in its next turn, ───┘
//	       returns true                      resume returns true
//
// A parked session waits for an event. A yielded session waits until the others have had their
// turn. Neither begins another command. A parked session still takes in input; a yielded
// session does not.
//
// What a session can wait for: its next turn (nextTurn), also in the middle of a command (stepping); the end of a pause (heldBack); a
// decision (waiting), or those of several groups (crossed); work in another goroutine (working); a time (guess); the leader, or a leader (forwarding); and, around
// one of these, the end of a read after READONLY (reading). Replies that wait for the disk do not stop a session: see owed.
//
// transport.Life holds the state of the connection. To close a connection after its last reply,
// the session drains it with the reason. It also does so after the last command of a peer that
// has finished sending. end closes the connection once no reply is owed (owed.go).

// handlerClient is what handlers may ask of a session: it implements handler.Client.
type handlerClient session

// KnowsClusters implements handler.Client.
func (a *handlerClient) KnowsClusters() { a.knowsClusters = true }

// ReadsHere implements handler.Client.
func (a *handlerClient) ReadsHere(on bool) { a.readOnly = on }

// OutputLimit implements handler.Client.
func (a *handlerClient) OutputLimit() int64 { return a.pub.OutputLimit() }

// Origin implements handler.Client.
func (a *handlerClient) Origin() *origin.Origin {
	if user := a.pub.UserName(); a.origin == nil || a.origin.User != user {
		a.origin = &origin.Origin{User: user, Addr: a.pub.Addr()}
	}
	return a.origin
}

// Subscriptions implements pubsub.Session.
func (a *handlerClient) Subscriptions() *pubsub.Subscriptions { return &a.subs }

// park stops the session until w is over. Every wake-up resumes w.
func (p *peer) park(w pending) {
	p.pending, p.yielded = w, false
	p.pub.SetParked(true)
}

// yield stops the session until the others have had their turn. It then goes on with w, as after park.
func (p *peer) yield(w pending) {
	p.pending, p.yielded = w, true
	p.conn.Yield()
}

// unpark lets the session run again.
func (p *peer) unpark() {
	p.pending, p.yielded = nil, false
	p.pub.SetParked(false)
}

// nextTurn is the pending of a session that has yielded between two commands.
type nextTurn struct{}

func (nextTurn) resume(*session) bool { return true }

// heldBack is a command that a pause holds back.
type heldBack struct{ args [][]byte }

// holdBack parks the session with a copy of the command until the pause ends.
func (p *peer) holdBack(args [][]byte) {
	p.pub.ArgMemory.Store(handler.ArgBytes(args))
	p.park(&heldBack{handler.CloneArgs(args)})
}

// holds reports whether a pause holds the session's command back.
func (p *peer) holds() bool {
	_, held := p.pending.(*heldBack)
	return held
}

func (h *heldBack) resume(s *session) bool {
	if cmd := s.srv.table.find(h.args[0]); cmd != nil && s.srv.pause.Holds(s.conn, &cmd.Command) || !s.mayBegin() {
		return false
	}
	s.pending = nil
	s.pub.ArgMemory.Store(0)
	s.execute(h.args)
	return s.pending == nil // it may wait for something of its own
}

// working is a command whose work another goroutine does.
type working struct {
	over  atomic.Bool // result is there
	err   error
	reply func(err error)
}

// Background implements handler.Client.
func (a *handlerClient) Background(work func() error, reply func(err error)) {
	s := (*session)(a)
	w := &working{reply: reply}
	go func() {
		w.err = work()
		w.over.Store(true)
		s.conn.Wake()
	}()
	s.park(w)
}

func (w *working) resume(s *session) bool {
	if !w.over.Load() {
		return false
	}
	w.reply(w.err)
	return s.pending == pending(w) // the reply may go on later
}

// waiting is a command that holds its reply back until the engine has decided (WAIT). Its
// session is parked and has no goroutine; the engine wakes the connection. The wait does not
// count as the command's time.
type waiting struct {
	clients.Wait
	asks handler.Asks
	cmd  *command
	args [][]byte // of what may have to be asked again; nil: it never has
}

// The errors that a wait can end with, besides the engine's.
var (
	errWaitUnblocked = errors.New("unblocked by CLIENT UNBLOCK ERROR")
	errWaitRefused   = errors.New("the log cannot be written")
)

// ask asks the engine for a command by itself, which is decided at once, or parks its session. before is the wait that it continues, or nil.
// It reports whether the command has replied.
func (c *call) ask(asks handler.Asks, before *waiting) (done bool) {
	s, until := c.client, c.Now
	switch most := asks.Waits(); {
	case before != nil:
		until = before.Until
	case s != nil && s.mayWait() == nil:
		until += min(most, math.MaxInt64-c.Now)
	}
	if until > c.Now { // the read buffer goes
		asks = asks.Keep().(handler.Asks)
	}
	key, ew := asks.Ask()
	if ew.Until = until; s != nil {
		ew.Owner = s.conn
	}
	if before != nil {
		ew.InPlaceOf(before.Waiter)
	}
	waits := false
	err := c.States().UpdateAt(c.Place, c.Now, asks.Keys(), func(t *engine.Txn) (err error) {
		waits, err = t.Ask(key, ew)
		return err
	})
	if err != nil {
		ew.Fail(err)
	}
	if err != nil || !waits {
		asks.Told(c.inner(), key, ew)
		if until <= c.Now {
			asks.Free()
		}
		return true
	}
	w := &waiting{Wait: clients.Wait{Waiter: ew, Group: c.Group}, asks: asks, cmd: c.cmd}
	if before != nil {
		w.args = before.args
	} else if _, ok := asks.(handler.Outdates); ok {
		w.args = handler.CloneArgs(c.Args)
	}
	w.await(s)
	return false
}

// await parks a session until w has been decided.
func (w *waiting) await(s *session) {
	s.pub.ArgMemory.Store(w.asks.Size() + handler.ArgBytes(w.args))
	s.pub.Waits.Store(&w.Wait)
	s.park(w)
	if s.mayWait() != nil || w.outdated() { // it changed when this wait was not yet visible
		s.conn.Wake()
	}
}

// outdated reports whether the request must be asked again.
func (w *waiting) outdated() bool {
	o, ok := w.asks.(handler.Outdates)
	return ok && o.Outdated()
}

// again asks again for a request that was withdrawn because the rules have changed. It reports whether it has replied.
func (w *waiting) again(c *call) (done bool) {
	c.cmd, c.Args = w.cmd, w.args
	p, text := w.cmd.Prepare(c)
	if text != "" {
		c.Fail(text)
		return true
	}
	return c.carryOut(p, w)
}

// mayWait returns nil if this client may wait, and otherwise an error that says why not.
func (s *session) mayWait() error {
	switch {
	case s.call.group.Special.Load()&specialMisconf != 0:
		return errWaitRefused
	case s.srv.stopping.Load():
		return clients.ErrStopped
	case s.eof: // a client that has finished sending has probably gone
		return clients.ErrEOF
	}
	return nil
}

// resume replies if w has been decided or must be given up.
func (w *waiting) resume(s *session) bool {
	if !w.Done() {
		switch cause := s.mayWait(); {
		case cause == errWaitRefused:
			s.call.States().Cancel(s.call.Now, w.Waiter, cause)
		case cause != nil:
			s.call.States().Cancel(s.call.Now, w.Waiter, nil) // it is denied
		case w.outdated() && s.call.States().Withdraw(s.call.Now, w.Waiter):
			s.call.Failed = false
			if !w.again(&s.call) {
				return false
			}
			w.ends(s)
			return true
		case !w.Done():
			return false // it was woken for another reason, or only its answer waits
		}
	}
	s.call.Failed = false
	switch _, _, err := w.Result(); err {
	case errWaitUnblocked:
		s.call.Fail(errUnblocked)
	case errWaitRefused:
		s.call.Fail(*s.srv.misconf.Load())
	default:
		w.asks.Told(s.call.inner(), w.Key(), w.Waiter)
	}
	w.ends(s)
	return true
}

// ends forgets the wait, after the reply.
func (w *waiting) ends(s *session) {
	s.pub.Waits.Store(nil)
	s.pub.ArgMemory.Store(0)
	if s.call.Failed {
		s.stripe.Fail(w.cmd.ID)
	}
}

// Turns. A session runs commands until its connection's turn is over. Then it yields: it keeps
// the rest of its input, and continues when the others have had their turn. To know when, it
// reads the clock once every handler.LookAtClock commands. A command that is timed by itself has read it
// already.
//
// A command that may take longer than a turn runs in steps, and may yield between any two of
// them. Other clients' commands may then run in between, as commands on another loop always
// can. So each step sees the state at its own time.

// spent reports whether the session's turn is over after ns of it. The connection says how long it is: that changes from round to
// round of its event loop.
func (p *peer) spent(ns int64) bool { return ns >= int64(p.conn.Turn()) }

// overTurn is spent after a number of commands. It reads the clock only if it must.
func (s *session) overTurn(ran int) bool {
	if s.slow > 0 && s.spent(s.slow) {
		return true
	}
	s.call.Ran += ran
	if s.call.Ran < handler.LookAtClock && s.call.group.Special.Load()&specialMonitor == 0 {
		return false
	}
	s.call.Ran = 0
	return s.spent(s.srv.clock.Now() - s.call.Began)
}

// stepping is a command that has yielded.
type stepping struct {
	cmd    *command
	step   func() (done bool)
	args   []string // for the slow log, as it keeps them
	reply  []byte   // the reply so far, which is sent as a whole
	holds  int64    // bytes of its results so far and of the arguments that it keeps
	took   int64
	failed bool
}

// Steps implements handler.Client. It runs the command's steps until the session's turn is over.
func (a *handlerClient) Steps(lasting func(), step func() (done bool)) {
	s := (*session)(a)
	c, start := &s.call, int64(0)
	mark := len(c.Out)
	for !step() {
		now := s.srv.clock.Now()
		if start == 0 {
			start = now
		}
		if !s.spent(now - c.Began) {
			continue
		}
		if lasting != nil {
			lasting()
		}
		st := &stepping{cmd: c.cmd, step: step}
		st.suspend(s, now-start, mark)
		s.yield(st)
		return
	}
}

// suspend keeps the progress of the command after a turn of took nanoseconds, and its reply, which begins at
// mark.
func (st *stepping) suspend(s *session, took int64, mark int) {
	c := &s.call
	s.slow += took
	st.took += took
	st.failed = c.Failed
	st.reply = append(st.reply, c.Out[mark:]...)
	c.Out = c.Out[:mark]
	st.holds, c.Holds = c.Holds, 0
	s.pub.StepMemory.Store(st.holds + int64(cap(st.reply)))
}

// resume gives the command another turn.
func (st *stepping) resume(s *session) bool {
	start, mark := s.srv.clock.Now(), len(s.call.Out)
	s.call.Failed, s.call.Holds = st.failed, st.holds
	done := st.step()
	for !done && s.life.Open() && !s.spent(s.srv.clock.Now()-s.call.Began) {
		done = st.step()
	}
	st.suspend(s, s.srv.clock.Now()-start, mark)
	if !done {
		s.conn.Yield()
		return false
	}
	s.pub.StepMemory.Store(0)
	s.stripe.Record(st.cmd.ID, nil, st.took, st.failed)
	s.srv.slowlog.Note(&s.pub, st.args, s.call.Began, st.took)
	s.call.Out = append(s.call.Out, st.reply...)
	return true
}

// Commands whose keys are in several groups. RL.TAKEALL and RL.CHECK ask each group for its part, see groups/across; any node may do that. Other
// commands are refused, and so are these in EXEC and in scripts.

// crossed is a command under way that asks several groups: what its session waits for.
type crossed struct {
	*crossing.Series
	p    handler.Crosses
	asks []handler.Asked
	cmd  *command
	args [][]byte
}

// cross begins to run the command of a call that asks several groups. It returns nil if it has replied.
func cross(c *call) *crossed {
	c.Durable = true                  // an error reveals nothing
	args := handler.CloneArgs(c.Args) // the read buffer goes
	c.Args = args
	if c.cmd.Prepare == nil { // what settles a hold of several keys
		c.Fail(handler.ErrOneSlot(c.cmd.Name))
		return nil
	}
	p, text := c.cmd.Prepare(c)
	if text != "" {
		c.Fail(text)
		return nil
	}
	w := &crossed{cmd: c.cmd, args: args}
	var ok bool
	if w.p, ok = p.(handler.Crosses); !ok {
		p.Free()
		c.Fail(errCrossSlot)
		return nil
	}
	if w.asks, text = w.p.Cross(); text != "" {
		p.Free()
		c.Latency = nil // nothing is decided
		c.Fail(text)
		return nil
	}
	w.Series = crossing.NewSeries(w.asks, c.srv.groupOf)
	return w
}

// answers returns what has become of the requests. The call's group is then that of the key that the first error is about.
func (w *crossed) answers(c *call) (all []handler.Answered) {
	failed := false
	for i := range w.asks {
		r := w.Result(i)
		all = append(all, handler.Answered{At: r.At, Sum: r.Sum, Err: r.Err, Decided: r.Outcome == across.Granted || r.Outcome == across.Denied})
		if r.Err != nil && r.At >= 0 && !failed {
			c.Group = &c.srv.groupOf(w.asks[i].Keys[r.At]).Group // which says what the key is
		}
		failed = failed || r.Err != nil
	}
	return all
}

// crossNow runs the command of a client's call that asks several groups, or parks its session.
func crossNow(c *call) {
	w := cross(c)
	if w == nil {
		return
	}
	s := c.client
	w.Begin(waysOf(c, s.conn.Loop(), kicks(s)), s.conn.Wake)
	if w.Resume() {
		w.reply(c)
		return
	}
	s.pub.ArgMemory.Store(handler.ArgBytes(w.args))
	s.park(w)
}

// resume implements pending.
func (w *crossed) resume(s *session) bool {
	if !w.Resume() {
		return false
	}
	s.pub.ArgMemory.Store(0)
	w.reply(&s.call)
	if s.call.Failed {
		s.stripe.Fail(w.cmd.ID)
	}
	return true
}

// reply replies with the result. All that the reply reveals is durable.
func (w *crossed) reply(c *call) {
	own, args := c.cmd, c.Args
	c.cmd, c.Args, c.Failed = w.cmd, w.args, false
	defer func() { c.cmd, c.Args = own, args }()
	switch w.Outcome() {
	case across.Granted, across.Failed:
		c.Now = c.srv.group.At(c.Began)
		w.p.Crossed(c.inner(), w.answers(c))
		c.Group = &c.group.Group
	case across.Leaderless:
		c.Fail(spec.ErrNoLeader)
	default:
		c.srv.counters.unknownOutcomes.Add(1)
		c.Fail(errUnknownOutcome)
	}
	w.p.Free()
	c.Durable = true
}
