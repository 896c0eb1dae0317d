package server

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"limitdb/internal/stats"
	"limitdb/resp"
)

// Durability is what a server asks of whoever keeps its state on a disk. All
// functions may be called from any goroutine, and those that say so block.
type Durability struct {
	// Switch does what the directives appendonly and save say by now, and blocks until that is
	// done: until all that there is is durable, or the log has ended.
	Switch func() error
	// Turn is asked before anything is decided, and what it returns is given to Wait: it names the time in which this
	// node leads, where there are several. nil: there is one node.
	Turn func() uint64
	// Wait calls fn, which does not block, once all that can have been seen
	// until now is durable. fn gets an error where that will never be known; it may be called before Wait returns. False: nothing is to be waited for, and fn is never
	// called. The sync begins at the next Kick.
	Wait func(turn uint64, fn func(err error)) bool
	// Holds reports whether Wait may return true. It is cheap.
	Holds func() bool
	// Kick begins the sync that is waited for, if any is. The transport calls
	// it after each round of its loops, the server for connections that are in none.
	Kick func()
	// Sync makes all until now durable, and blocks.
	Sync func() error
	// Snapshot writes one, and blocks until it is durable. ErrSnapshotting
	// while another is written.
	Snapshot func() error
	// Backup makes one below the data directory, tells where, and blocks.
	Backup func(name string) (path string, err error)
	// Stats tells how things are.
	Stats func() stats.Durability
}

// ErrSnapshotting is what Durability.Snapshot and Backup return while a snapshot is being written.
var ErrSnapshotting = errors.New("a snapshot is being written")

// durable is the server's side of it.
type durable struct {
	*Durability // nil where nothing can be kept
	// changed counts decisions that changed something until the last snapshot.
	changed atomic.Int64
	running atomic.Bool // BGSAVE
	syncs   syncs       // WAITAOF
}

// turn is what Turn returns, where there is one.
func (d *durable) turn() uint64 {
	if d.Durability == nil || d.Turn == nil {
		return 0
	}
	return d.Turn()
}

// stats returns the numbers of now.
func (d *durable) stats() stats.Durability {
	if d.Durability == nil {
		return stats.Durability{}
	}
	return d.Stats()
}

// SetLoading says that the state is being loaded: but for a few, commands are
// refused with -LOADING. Until then the clock may be set; nothing that the engine would remember is done by
// what it tells before. So on is said before Run.
func (srv *Server) SetLoading(on bool) { srv.setSpecial(specialLoading, on) }

// SetRefusing says why commands that write are refused with -MISCONF; nil: they are not.
func (srv *Server) SetRefusing(err error) {
	if err != nil {
		text := "MISCONF limitdb cannot write its log and refuses commands that change something until it can (" + plainCut([]byte(err.Error())) + ")"
		srv.misconf.Store(&text)
	}
	srv.setSpecial(specialMisconf, err != nil)
	if err != nil {
		srv.stopWaits()
	}
}

// Refusing tells whether commands that write are refused, see SetRefusing.
func (srv *Server) Refusing() bool { return srv.special.Load()&specialMisconf != 0 }

// owed are replies that wait until what they tell of state is durable. They belong to
// the session, but for due, which the one who syncs sets before he wakes it. Replies that tell nothing
// of state (PING, INFO, CONFIG, what is refused) wait only for those before them.
//
// One wait at a time is under way. What is replied meanwhile, by commands that
// ran meanwhile, stands behind, and gets a wait of its own when the first is over.
type owed struct {
	b       []byte
	covered int // bytes of b that the wait under way is for
	waiting bool
	told    bool   // what stands behind covered tells of state
	turn    uint64 // of what stands behind covered; 0: of more than one
	due     atomic.Bool
	lost    atomic.Bool // what is covered has an outcome that is not known
	wake    func(err error)
}

// tell notes whether the reply that begins at mark tells of state, which the command cmd has seen.
func (s *session) tell(cmd *command, mark int) {
	if cmd.flags&(flagWrite|flagReadonly) == 0 || len(s.call.out) <= mark || s.call.failed && !s.call.reveals {
		return
	}
	s.call.reveals = false
	if !s.told {
		s.told, s.quiet = true, mark
	}
}

// hold keeps the replies back if they must wait, and reports whether it did. told
// says that those after the first quiet bytes tell of state.
func (s *session) hold(told bool) bool {
	if s.owed == nil {
		if s.srv.durable.Durability == nil || !s.srv.durable.Holds() {
			return false
		}
		s.owed = &owed{}
		o := s.owed
		conn := s.conn
		o.wake = func(err error) {
			o.lost.Store(err != nil)
			o.due.Store(true)
			conn.Wake()
		}
	}
	o := s.owed
	if o.waiting {
		switch {
		case len(o.b) == o.covered:
			o.turn = s.turn
		case o.turn != s.turn:
			o.turn = 0
		}
		o.b = append(o.b, s.call.out...)
		o.told = o.told || told
	} else {
		if !s.await(s.turn) {
			return false
		}
		if s.quiet > 0 {
			s.conn.Write(s.call.out[:s.quiet])
		}
		o.b = append(o.b, s.call.out[s.quiet:]...)
		o.waiting, o.covered = true, len(o.b)
	}
	s.call.out = s.call.out[:0]
	if s.life.Open() && int64(len(o.b))+s.conn.Pending() > s.outputLimit() {
		s.srv.closeForOutput(s)
	}
	return true
}

// await begins to wait for what has been seen until now, in a turn.
func (s *session) await(turn uint64) bool {
	if !s.srv.durable.Wait(turn, s.owed.wake) {
		return false
	}
	if in, ok := s.conn.(interface{ Settles() bool }); !ok || !in.Settles() {
		s.srv.durable.Kick()
	}
	return true
}

// release sends replies whose wait is over.
func (s *session) release() {
	o := s.owed
	if o == nil || !o.due.Swap(false) {
		return
	}
	if o.lost.Load() {
		s.writeUnknown(o.b[:o.covered])
	} else {
		s.conn.Write(o.b[:o.covered])
	}
	o.b = append(o.b[:0], o.b[o.covered:]...)
	o.waiting, o.covered = false, 0
	if len(o.b) > 0 {
		if o.told && s.await(o.turn) {
			o.waiting, o.covered, o.told = true, len(o.b), false
			return
		}
		o.told = false
		s.conn.Write(o.b)
		o.b = o.b[:0]
	}
	if cap(o.b) > flushAt {
		o.b = nil
	}
	s.end()
}

// writeUnknown sends one error in the place of each reply of b. A reply that is there in part, which only
// those are that a client reads in pieces, is followed by the end of the connection.
func (s *session) writeUnknown(b []byte) {
	from := bufio.NewReader(bytes.NewReader(b))
	var out []byte
	for {
		v, err := resp.ReadReply(from, len(b))
		if err == io.EOF {
			break
		}
		if err != nil {
			s.conn.Close(errUnknown)
			return
		}
		if v.Kind != '>' {
			out = resp.AppendError(out, errUnknownOutcome)
		}
	}
	s.conn.Write(out)
}

// errUnknown closes a connection on which half of a reply was sent.
var errUnknown = errors.New("the outcome of a command is not known")

// owing tells whether replies are held back.
func (s *session) owing() bool { return s.owed != nil && s.owed.waiting }

// changes is how many decisions have changed something since the start, as far as it is counted.
func (srv *Server) changes() int64 {
	e := srv.states().Stats()
	return int64(e.Allowed + e.Refunded)
}

// ChangesSinceSnapshot is how many decisions have changed something since the last snapshot began.
func (srv *Server) ChangesSinceSnapshot() int64 {
	return max(0, srv.changes()-srv.durable.changed.Load())
}

// Snapshot writes a snapshot and blocks until it is durable; ErrSnapshotting
// while another is written.
func (srv *Server) Snapshot() error {
	before := srv.changes()
	err := srv.durable.Snapshot()
	if err == nil {
		srv.durable.changed.Store(before)
	}
	return err
}

// inBackground parks the session until work, which runs in a goroutine of its
// own, has returned; then reply gets to say what came of it.
func (c *call) inBackground(work func() error, reply func(err error)) {
	var done atomic.Bool
	var result error
	conn := c.client.conn
	go func() {
		result = work()
		done.Store(true)
		conn.Wake()
	}()
	c.client.park(func() bool {
		if !done.Load() {
			return false
		}
		reply(result)
		return true
	})
}

// snapshotError is the reply for an error of a snapshot.
func snapshotError(err error) string {
	if errors.Is(err, ErrSnapshotting) {
		return errSnapshotting
	}
	return "ERR " + plainCut([]byte(err.Error()))
}

// persistence writes the section of INFO.
func (t *infoText) persistence() {
	srv := t.srv
	st := srv.durable.stats()
	seconds := func(ns int64, there bool) int64 {
		if !there {
			return -1
		}
		return (ns + int64(time.Second) - 1) / int64(time.Second)
	}
	status := func(failed bool) string {
		if failed {
			return "err"
		}
		return "ok"
	}
	last := st.LastSnapshot
	if last == 0 {
		last = srv.started
	}
	t.field("loading", yesNo(st.Loading))
	t.field("async_loading", 0)
	t.field("current_cow_peak", 0)
	t.field("current_cow_size", 0)
	t.field("rdb_changes_since_last_save", srv.ChangesSinceSnapshot())
	t.field("rdb_bgsave_in_progress", yesNo(st.Snapshotting))
	t.field("rdb_last_save_time", last/int64(time.Second))
	t.field("rdb_last_bgsave_status", status(st.LastSnapshotFailed))
	t.field("rdb_last_bgsave_time_sec", seconds(st.LastSnapshotTook, st.LastSnapshotTook > 0))
	t.field("rdb_current_bgsave_time_sec", seconds(t.now-st.SnapshotBegan, st.Snapshotting))
	t.field("rdb_saves", st.Snapshots)
	t.field("aof_enabled", yesNo(st.Log))
	t.field("aof_rewrite_in_progress", yesNo(st.Log && st.Snapshotting))
	t.field("aof_rewrite_scheduled", 0)
	t.field("aof_last_rewrite_time_sec", seconds(st.LastSnapshotTook, st.Log && st.LastSnapshotTook > 0))
	t.field("aof_current_rewrite_time_sec", seconds(t.now-st.SnapshotBegan, st.Log && st.Snapshotting))
	t.field("aof_last_bgrewrite_status", status(st.Log && st.LastSnapshotFailed))
	t.field("aof_last_write_status", status(srv.Refusing()))
	if st.Log {
		t.field("aof_current_size", st.LogBytes+st.BaseBytes)
		t.field("aof_base_size", st.BaseBytes)
		t.field("aof_pending_rewrite", 0)
		t.field("aof_files", st.LogFiles)
		t.field("aof_bytes_written", st.BytesWritten)
		t.field("aof_writes", st.Writes)
		t.field("aof_fsyncs", st.Syncs)
		t.field("aof_unsynced_age_ms", st.UnsyncedAge/int64(time.Millisecond))
		t.field("aof_failures", st.Failures)
		t.field("aof_waiting_replies", st.Waiting)
	}
	if st.Loading {
		t.loading(&st)
	}
}

func (t *infoText) loading(st *stats.Durability) {
	t.field("loading_start_time", st.LoadBegan/int64(time.Second))
	t.field("loading_total_bytes", st.LoadTotal)
	t.field("loading_loaded_bytes", st.LoadedBytes)
	percent, eta := int64(0), int64(0)
	if st.LoadTotal > 0 {
		percent = st.LoadedBytes * 100 / st.LoadTotal
	}
	if st.LoadedBytes > 0 {
		eta = (t.now - st.LoadBegan) / 1e6 * (st.LoadTotal - st.LoadedBytes) / st.LoadedBytes / 1000
	}
	t.field("loading_loaded_perc", percent)
	t.field("loading_eta_seconds", max(0, eta))
}
