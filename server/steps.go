package server

// Turns. A session runs commands for as long as its connection's turn lasts. Then it
// yields: it keeps what is left of its input, and goes on when the others have had their
// turn. Between commands this costs a look at the clock for every turnCheck of them; a
// command that was timed by itself has looked already.
//
// A command that may take longer than a turn runs in steps, and may yield between
// any two of them. Other clients' commands then run in between, as they always
// could beside it on another loop: what a step sees is true at its own time.

// turnCheck is how many commands run between two looks at the clock.
const turnCheck = 64

// spent reports whether the session's turn is over.
func (s *session) spent() bool {
	return s.srv.clock.Now()-s.call.now >= int64(s.conn.Turn())
}

// overTurn is spent after a number of commands, and looks at the clock only if it must.
func (s *session) overTurn(ran int) bool {
	if s.slow > 0 && s.slow >= int64(s.conn.Turn()) {
		return true
	}
	s.ran += ran
	if s.ran < turnCheck && s.srv.special.Load()&specialMonitor == 0 {
		return false
	}
	s.ran = 0
	return s.spent()
}

// stepping is a command that has yielded.
type stepping struct {
	cmd    *command
	step   func() (done bool)
	args   []string // for the slow log, as it keeps them
	reply  []byte   // what it has replied so far: it is sent as a whole
	holds  int64    // bytes of what it has found so far, or keeps of its arguments
	took   int64
	failed bool
}

// inSteps runs a command as steps: step does a little, well below a turn, and reports whether
// that was the last. It may reply at any step. What it keeps of the command's arguments
// is valid in the first turn only; lasting, unless nil, is called before the second to
// copy what is needed later. It says in c.holds how many bytes it holds, which count
// towards maxmemory-clients. A call that is nobody's has a single turn.
func (c *call) inSteps(lasting func(), step func() (done bool)) {
	s, mark, start := c.client, len(c.out), int64(0)
	c.holds = 0
	for !step() {
		if s == nil {
			continue
		}
		now := c.srv.clock.Now()
		if start == 0 {
			start = now
		}
		if now-c.now < int64(s.conn.Turn()) {
			continue
		}
		if lasting != nil {
			lasting()
		}
		st := &stepping{cmd: c.cmd, step: step, took: now - start, failed: c.failed}
		s.slow += st.took
		st.reply = append(st.reply, c.out[mark:]...)
		c.out = c.out[:mark]
		st.holds, c.holds = c.holds, 0
		s.pub.stepMemory.Store(st.holds + int64(cap(st.reply)))
		s.stepping = st
		s.yield(func() bool { return s.stepOn(st) })
		return
	}
}

// stepOn gives a command that has yielded another turn. It reports whether the
// command is done.
func (s *session) stepOn(st *stepping) bool {
	start, mark := s.srv.clock.Now(), len(s.call.out)
	s.call.failed, s.call.holds = st.failed, st.holds
	done := st.step()
	for !done && s.life.Open() && !s.spent() {
		done = st.step()
	}
	took := s.srv.clock.Now() - start
	s.slow += took
	st.took += took
	st.failed = s.call.failed
	st.reply = append(st.reply, s.call.out[mark:]...)
	s.call.out = s.call.out[:mark]
	st.holds, s.call.holds = s.call.holds, 0
	s.pub.stepMemory.Store(st.holds + int64(cap(st.reply)))
	if !done {
		s.yield(s.resume)
		return false
	}
	s.stepping = nil
	s.pub.stepMemory.Store(0)
	s.stripe.Record(st.cmd.id, st.took, st.failed)
	s.noteSlow(st.args, st.took)
	s.call.out = append(s.call.out, st.reply...)
	return true
}

// cloneArgs copies arguments that must outlive the turn, in one piece.
func cloneArgs(args [][]byte) [][]byte {
	n := 0
	for _, a := range args {
		n += len(a)
	}
	all := make([]byte, 0, n)
	out := make([][]byte, len(args))
	for i, a := range args {
		all = append(all, a...)
		out[i] = all[len(all)-len(a) : len(all) : len(all)]
	}
	return out
}

// eachStep runs do for the numbers from 0 to n in steps of a few.
func (c *call) eachStep(n, few int, lasting func(from int), do func(i int), end func()) {
	i := 0
	var keep func()
	if lasting != nil {
		keep = func() { lasting(i) }
	}
	c.inSteps(keep, func() bool {
		for last := min(n, i+few); i < last; i++ {
			do(i)
		}
		if i < n {
			return false
		}
		if end != nil {
			end()
		}
		return true
	})
}
