package server

// Turns. A session runs commands until its connection's turn is over. Then it yields: it keeps
// the rest of its input, and continues when the others have had their turn. To know when, it
// reads the clock once every turnCheck commands. A command that is timed by itself has read it
// already.
//
// A command that may take longer than a turn runs in steps, and may yield between any two of
// them. Other clients' commands may then run in between, as commands on another loop always
// can. So each step sees the state at its own time.

// turnCheck is how many commands run between two readings of the clock.
const turnCheck = 64

// spent reports whether the session's turn is over.
func (s *session) spent() bool {
	return s.srv.clock.Now()-s.call.Now-s.behind >= int64(s.conn.Turn())
}

// overTurn is spent after a number of commands. It reads the clock only if it must.
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

// worked notes that a command which counts as one took the time of n decisions, so that the clock
// is read in time.
func (c *call) worked(n int64) {
	if c.client != nil {
		c.client.ran += int(min(n, turnCheck))
	}
}

// failWork is how many decisions take as long as one error, which may suggest what was meant.
const failWork = turnCheck / 4

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

// inSteps runs a command in steps. Each call of step does a little work, well below a turn,
// and reports whether it was the last. A step may reply. The command's arguments are valid in
// the first turn only. Before the second turn inSteps calls lasting, unless it is nil, to copy
// what is needed later. The command sets c.holds to the number of bytes that it holds, which
// count towards maxmemory-clients. A call that belongs to no client has a single turn.
func (c *call) inSteps(lasting func(), step func() (done bool)) {
	s, mark, start := c.client, len(c.Out), int64(0)
	c.holds = 0
	for !step() {
		if s == nil || c.whole {
			continue
		}
		now := c.srv.clock.Now()
		if start == 0 {
			start = now
		}
		if now-c.Now-s.behind < int64(s.conn.Turn()) {
			continue
		}
		if lasting != nil {
			lasting()
		}
		st := &stepping{cmd: c.cmd, step: step, took: now - start, failed: c.Failed}
		s.slow += st.took
		st.reply = append(st.reply, c.Out[mark:]...)
		c.Out = c.Out[:mark]
		st.holds, c.holds = c.holds, 0
		s.pub.stepMemory.Store(st.holds + int64(cap(st.reply)))
		s.stepping = st
		s.yield(func() bool { return s.stepOn(st) })
		return
	}
}

// stepOn gives another turn to a command that has yielded, and reports whether the command
// is done.
func (s *session) stepOn(st *stepping) bool {
	start, mark := s.srv.clock.Now(), len(s.call.Out)
	s.call.Failed, s.call.holds = st.failed, st.holds
	done := st.step()
	for !done && s.life.Open() && !s.spent() {
		done = st.step()
	}
	took := s.srv.clock.Now() - start
	s.slow += took
	st.took += took
	st.failed = s.call.Failed
	st.reply = append(st.reply, s.call.Out[mark:]...)
	s.call.Out = s.call.Out[:mark]
	st.holds, s.call.holds = s.call.holds, 0
	s.pub.stepMemory.Store(st.holds + int64(cap(st.reply)))
	if !done {
		s.yield(s.resume)
		return false
	}
	s.stepping = nil
	s.pub.stepMemory.Store(0)
	s.stripe.Record(st.cmd.ID, st.took, st.failed)
	s.noteSlow(st.args, st.took)
	s.call.Out = append(s.call.Out, st.reply...)
	return true
}

// aside returns b with what write replies. Where the head of a reply has the number of what
// follows, the rest must be made first.
func (c *call) aside(b []byte, write func()) []byte {
	out := c.Out
	c.Out = b
	write()
	b, c.Out = c.Out, out
	return b
}

// cloneArgs copies arguments that must outlive the turn into one allocation.
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

// eachStep calls do for the numbers from 0 up to n, a few in each step.
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
