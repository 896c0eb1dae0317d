package server

import (
	"errors"
	"fmt"
	"sync"

	"limitdb/engine"
	"limitdb/internal/stats"
	"limitdb/server/group"
	"limitdb/server/handler"
	"limitdb/server/request"
	"limitdb/server/spec"
	"limitdb/uplink"
)

// Transactions. After MULTI a session queues its commands, and EXEC runs them: those on keys in
// one transaction of the engine, so others see all of them or none. The rest, such as PING, has
// nothing to do with keys and runs after it; the replies are in the order of the commands. A
// command that reads or changes many keys without naming them cannot be queued.
//
// WATCH makes EXEC do nothing if one of its keys has changed since.

// multi has the commands that a client has queued, and the keys that it watches.
type multi struct {
	open     bool // after MULTI
	broken   bool // a command could not be queued
	queued   []waitsForExec
	bytes    int64    // of what is queued
	text     []byte   // room for the bytes of arguments
	words    [][]byte // room for arguments
	watched  []*engine.Watch
	watching int64 // bytes of these

	// stream is the one in which the leader watches keys for the client, nil for none. lost: they were watched in more than one.
	stream *uplink.Stream
	lost   bool
	slot   int // with several groups, of what is watched there, and 1 more; 0 for none
}

// lendMulti returns a multi for the time from MULTI to EXEC.
func lendMulti(p *sync.Pool) *multi {
	if m, ok := p.Get().(*multi); ok {
		return m
	}
	return &multi{}
}

// takeMulti takes m back after its EXEC, and with it the memory of a few short commands.
func takeMulti(p *sync.Pool, m *multi) {
	if cap(m.text) > textRoom || cap(m.words) > wordRoom || cap(m.queued) > wordRoom {
		return
	}
	clear(m.queued)
	clear(m.words)
	*m = multi{queued: m.queued[:0], text: m.text[:0], words: m.words[:0]}
	p.Put(m)
}

// waitsForExec is a command that waits for EXEC.
type waitsForExec struct {
	cmd      *command
	args     [][]byte
	prepared handler.Prepared // by EXEC

	end     int   // where its reply ends
	took    int64 // ns
	latency *stats.Latency
	failed  bool
	quorum  bool // its reply waits for a majority
}

// Transactions of a few short commands keep their arguments in one piece of memory of each kind.
const (
	textRoom = 512 // bytes
	wordRoom = 16
)

// keep copies arguments, which must outlive the read buffer.
func (m *multi) keep(args [][]byte) [][]byte {
	n := 0
	for _, a := range args {
		n += len(a)
	}
	if cap(m.text)-len(m.text) < n {
		m.text = make([]byte, 0, max(n, textRoom))
	}
	if cap(m.words)-len(m.words) < len(args) {
		m.words = make([][]byte, 0, max(len(args), wordRoom))
	}
	from := len(m.words)
	for _, a := range args {
		m.text = append(m.text, a...)
		m.words = append(m.words, m.text[len(m.text)-len(a):len(m.text):len(m.text)])
	}
	return m.words[from:len(m.words):len(m.words)]
}

// queuedOverhead is roughly the memory for a queued command.
const queuedOverhead = 64

// watchMost is the most keys that a client may watch.
const watchMost = 1024

// isOpen reports whether the session queues its commands.
func (m *multi) isOpen() bool { return m != nil && m.open }

// breaks notes that a command could not be queued, so that EXEC runs none.
func (m *multi) breaks() {
	if m.isOpen() {
		m.broken = true
	}
}

// enqueue keeps a command that admit has admitted for EXEC.
func (m *multi) enqueue(s *session, cmd *command, args [][]byte) {
	n := m.bytes + queuedOverhead + handler.ArgBytes(args)
	if n > s.srv.set.ClientQueryBufferLimit.Get() {
		s.reject(cmd, "ERR a transaction may have as many bytes as client-query-buffer-limit")
		return
	}
	m.bytes = n
	m.queued = append(m.queued, waitsForExec{cmd: cmd, args: m.keep(args)})
	s.multi.show(s)
	s.call.Failed = false
	s.call.Simple("QUEUED")
}

// end forgets the queue and what is watched.
func (m *multi) end(s *session) {
	if m == nil {
		return
	}
	m.unwatch(s.fwd)
	s.multi = nil
	s.multi.show(s)
}

// show publishes the figures of the transaction, if there is one.
func (m *multi) show(s *session) {
	bytes, queued, watched := int64(0), 0, 0
	if m != nil {
		bytes, watched = m.bytes+m.watching, len(m.watched)
		if m.open {
			queued = 1 + len(m.queued)
		}
	}
	s.pub.MultiMemory.Store(bytes)
	s.pub.Queued.Store(int32(queued))
	s.pub.SetWatched(watched)
}

// watchedIn notes that a WATCH of keys of a slot was answered in a stream.
func watchedIn(s *session, st *uplink.Stream, slot int) {
	if s.multi == nil {
		s.multi = &multi{}
	}
	m := s.multi
	m.lost = m.lost || m.stream != nil && m.stream != st
	m.stream, m.slot = st, slot+1
}

// watchedSlot returns the slot of what is watched, here and at the leader.
func (m *multi) watchedSlot() (slot int) {
	slot = group.NoSlot
	if m == nil {
		return slot
	}
	if m.slot > 0 {
		slot = m.slot - 1
	}
	for _, w := range m.watched {
		slot = group.WithKey(slot, w.Key())
	}
	return slot
}

// unwatch forgets what is watched, here and at the leader.
func (m *multi) unwatch(f *forwarding) {
	for _, w := range m.watched {
		w.Stop()
	}
	m.watched = nil
	if m.stream != nil && f.has(m.stream) {
		f.close()
	}
}

// multiRows are the commands of transactions.
func multiRows() []row {
	cmd := handler.Rows[call]("transactions", "O(1)", spec.Client|spec.Now|spec.Loading|spec.Stale|spec.Fast)
	watch := cmd("WATCH", -2, 0, "Makes EXEC do nothing if one of the keys has changed by then.", watch, spec.Several(spec.Key("key")))
	watch.FirstKey, watch.LastKey, watch.Step, watch.KeyFlags = 1, -1, 1, []string{"RO"}
	watch.Flags |= spec.Lead | spec.Watch
	exec := cmd("EXEC", 1, 0, "Runs the commands since MULTI in one atomic step.", execCommand)
	exec.Flags &^= spec.Fast
	unwatch := cmd("UNWATCH", 1, 0, "Forgets the keys that WATCH has named.", unwatch)
	unwatch.Flags &^= spec.Now
	return []row{
		cmd("MULTI", 1, 0, "Begins a transaction: the commands up to EXEC are queued.", multiCommand),
		exec,
		cmd("DISCARD", 1, 0, "Forgets the commands since MULTI.", discard),
		watch,
		unwatch,
	}
}

func multiCommand(c *call) {
	s := c.client
	switch {
	case s.multi.isOpen():
		c.Fail("ERR MULTI calls can not be nested")
		return
	case s.multi == nil:
		s.multi = lendMulti(&c.srv.multis)
	}
	s.multi.open = true
	s.multi.show(s)
	c.OK()
}

func discard(c *call) {
	if !c.client.multi.isOpen() {
		c.Fail("ERR DISCARD without MULTI")
		return
	}
	c.client.multi.end(c.client)
	c.OK()
}

func watch(c *call) {
	s := c.client
	if s.multi.isOpen() {
		c.Fail("ERR WATCH inside MULTI is not allowed")
		return
	}
	if s.multi == nil {
		s.multi = &multi{}
	}
	for _, key := range c.Args[1:] {
		if len(s.multi.watched) == watchMost {
			c.Fail(fmt.Sprintf("ERR a client may watch %d keys", watchMost))
			return
		}
		s.multi.watched = append(s.multi.watched, c.States().Watch(c.Now, key))
		s.multi.watching += engine.WatchBytes + int64(len(key))
		s.multi.show(s)
	}
	c.OK()
}

func unwatch(c *call) {
	if m := c.client.multi; m != nil && !m.open {
		c.client.multi.end(c.client)
	}
	c.OK()
}

func execCommand(c *call) {
	s := c.client
	if !s.multi.isOpen() {
		c.Fail("ERR EXEC without MULTI")
		return
	}
	m := s.multi
	defer takeMulti(&c.srv.multis, m)
	defer s.multi.end(s)
	if m.broken {
		c.Fail("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	if c.crosses {
		c.Fail(errCrossSlot)
		return
	}
	special := c.group.Special.Load() | s.early
	following := special&specialFollowing != 0
	if following && len(m.queued) == 0 && m.stream == nil && len(m.watched) == 0 {
		c.Array(0) // which asks about nothing that the leader has
		return
	}
	if m.stream != nil || following && len(m.watched) > 0 && !s.redirected() {
		c.NullArray() // another node leads since, or the leader cannot be asked
		return
	}
	if following && len(m.queued) > 0 {
		c.Fail("EXECABORT Transaction discarded because of: " + c.elsewhere())
		return
	}
	own, args := c.cmd, c.Args
	defer func() { c.cmd, c.Args = own, args }()
	for _, q := range m.queued {
		if c.cmd, c.Args = q.cmd, q.args; q.cmd.Flags&spec.Now == 0 {
			_, text := c.admit(inExec, special)
			if text == "" {
				text = beginChange(c, "exec")
			}
			if text != "" {
				c.Fail("EXECABORT Transaction discarded because of: " + text)
				return
			}
		}
	}
	c.execAll(m)
}

// execAll runs the queued commands and replies.
func (c *call) execAll(m *multi) {
	mark := len(c.Out)
	before := c.Out // the replies to the commands before EXEC
	var replies []byte
	var called map[int][]byte // by scripts, for MONITOR
	defer func() { c.Prepared, c.Latency, c.called, c.since = nil, nil, nil, 0 }()
	most := c.OutputLimit()
	keys := c.queuedKeys(m)
	if c.srv.several() && !group.OneSlot(keys) { // the rules have changed
		c.Fail(errCrossSlot)
		return
	}
	unchanged, err := c.inTransaction(keys, func(t *handler.Txn) bool {
		for _, w := range m.watched {
			if w.Changed(t.Txn) {
				return false
			}
		}
		c.Out, called = replies[:0], nil
		c.since = c.srv.clock.Now()
		for i := range m.queued {
			q := &m.queued[i]
			if q.cmd.InStep() {
				c.cmd, c.Args, c.Prepared = q.cmd, q.args, q.prepared
				q.took = c.run(inExec, t, false)
				q.failed, q.quorum, q.latency = c.Failed, c.Quorum, c.Latency
				if c.called != nil {
					if called == nil {
						called = map[int][]byte{}
					}
					called[i], c.called = c.called, nil
				}
				if t.Err != nil || c.TooLong(t, most) {
					return false // it begins again, or is over
				}
				if c.late() {
					t.End(errExecTime)
					return false
				}
			}
			q.end = len(c.Out)
		}
		replies = c.Out
		return true
	})
	c.Out, c.Failed = before, false
	switch {
	case err != nil:
		if c.Fail(request.ErrorText(err)); !c.Undecided {
			c.client.tellAll(mark)
		}
		return
	case !unchanged:
		c.NullArray()
		c.client.tellAll(mark)
		return
	}
	c.Array(len(m.queued))
	begin := 0
	c.since = c.srv.clock.Now()
	for i := range m.queued {
		q := &m.queued[i]
		c.cmd, c.Args, c.Failed, c.Quorum, c.Latency = q.cmd, q.args, q.failed, q.quorum, q.latency
		if c.Out = append(c.Out, replies[begin:q.end]...); !q.cmd.InStep() {
			q.took = c.runQueued(most)
		}
		begin = q.end
		c.client.tell(&q.cmd.Command, mark) // the reply to EXEC waits as a whole
		c.done(inExec, q.took, 0)
	}
	c.Failed, c.Latency = false, nil
	if c.group.Special.Load()&specialMonitor != 0 {
		var lines []byte
		for i, q := range m.queued {
			lines = append(c.monitored(lines, q.cmd, q.args), called[i]...)
		}
		c.show(lines)
	}
}

// errExecTime ends a transaction that has run for too long.
var errExecTime = errors.New("the transaction has ended: it has run for longer than script-time-limit")

// late reports whether EXEC has run for longer than a script may.
func (c *call) late() bool { return c.since-c.Began > int64(c.Settings.ScriptTimeLimit.Get()) }

// runQueued runs a command of a transaction that has nothing to do with keys, and returns how many ns that took. The writes of the other
// commands are stored by then. So if the transaction is late or has replied too much, only this command is refused.
func (c *call) runQueued(most int64) (took int64) {
	if refused := c.late() || int64(len(c.Out)) > most; refused && c.cmd.Name != "WAIT" && c.cmd.Name != "MONITOR" {
		c.Fail("ERR " + c.cmd.Full + " has not run: the transaction was over script-time-limit, or its replies over client-output-buffer-limit")
		return 0
	}
	return c.run(inExec, nil, false)
}

// queuedKeys returns the keys of all queued commands, and those that are watched. It prepares the commands, unless these have so many
// keys that they are an error.
func (c *call) queuedKeys(m *multi) (keys [][]byte) {
	for _, w := range m.watched {
		keys = append(keys, w.Key())
	}
	there, found := map[string]bool{}, 0
	var args [][]byte
	add := func(i int) { keys = append(keys, args[i]) }
	for i := range m.queued {
		q := &m.queued[i]
		if !q.cmd.InStep() {
			continue
		}
		args = q.args
		q.cmd.Keys(q.args, add)
		if q.cmd.Prepare == nil || found > engine.MaxTxn {
			continue
		}
		c.cmd, c.Args = q.cmd, q.args
		p, wrong := q.cmd.Prepare(c)
		if wrong != "" { // which its reply will say
			continue
		}
		q.prepared = p.Keep()
		if q.cmd.HasKeys() {
			continue
		}
		for _, key := range q.prepared.Keys() {
			found++
			if !there[string(key)] {
				there[string(key)] = true
				keys = append(keys, key)
			}
		}
	}
	return keys
}
