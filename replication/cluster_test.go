package replication

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"limitdb/internal/disk"
	"limitdb/internal/group"
	"limitdb/internal/journal"
	"limitdb/replication/peers"
)

// list is a table whose states are lists of decisions, see world.
type list struct {
	mu     sync.Mutex
	leads  bool
	states map[string]string
	dirty  []string
	aside  []string
	gate   *journal.Gate
	told   func()
}

func (l *list) Lead(_ int64, gate *journal.Gate, dirtied func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leads {
		panic("leads twice")
	}
	l.leads, l.gate, l.told, l.dirty, l.aside = true, gate, dirtied, nil, nil
}

func (l *list) Pause() { l.Follow() }

func (l *list) Follow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leads = false
}

func (l *list) Dirty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.dirty) > 0
}

func (l *list) Missed(int64) (string, bool) { return "", false }

func (l *list) Cut(int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aside, l.dirty = append(l.aside, l.dirty...), nil
}

// Drain adds one key at a time, so that most groups consist of several batches.
func (l *list) Drain(dst *journal.Buffer, _ int) (more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.aside) > 0 {
		k := l.aside[0]
		l.aside = l.aside[1:]
		dst.Set(1, 201, []byte(k), []byte(l.states[k]))
	}
	return len(l.aside) > 0
}

func (l *list) Clear() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leads {
		panic("cleared while it is decided on")
	}
	l.states, l.dirty, l.aside = map[string]string{}, nil, nil
	return nil
}

func (l *list) Apply(_ int64, records []journal.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leads {
		panic("records are applied while it is decided on")
	}
	for _, r := range records {
		l.states[string(r.Key)] = string(r.State)
	}
	return nil
}

func (l *list) Copy(_ int64, cursor uint64, dst *journal.Buffer) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := slices.Sorted(maps.Keys(l.states))
	if int(cursor) >= len(keys) {
		return 0
	}
	k := keys[cursor]
	dst.Set(1, 201, []byte(k), []byte(l.states[k]))
	if int(cursor) == len(keys)-1 {
		return 0
	}
	return cursor + 1
}

// decide adds a decision to keys, in one step, and reports whether it could.
func (l *list) decide(decision string, keys ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.leads {
		return false
	}
	for _, k := range keys {
		l.states[k] += "." + decision + "."
		if !slices.Contains(l.dirty, k) {
			l.dirty = append(l.dirty, k)
		}
	}
	l.told()
	return true
}

func (l *list) snapshot() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.states)
}

// cluster is some nodes in one process, with Raft, over a network in memory.
type cluster struct {
	t     *testing.T
	rand  *rand.Rand
	nodes []*member
	began time.Time
	// tableOf returns the table for a node's next run.
	tableOf func(*member) Table

	mu        sync.Mutex
	history   []string
	decisions int
	epochs    atomic.Int64        // seen by any node
	accepted  map[string][]string // decision → keys, of those that were answered
	unknown   int
	fatal     []error
}

// member is a node of a cluster, through all its runs.
type member struct {
	c       *cluster
	number  int
	address raft.ServerAddress
	table   *list // unless the cluster has other tables
	node    *Node // nil while it is down
	logs    *raft.InmemStore
	trans   *raft.InmemTransport
	dir     string
	offset  atomic.Int64 // of its wall clock
	hold    atomic.Pointer[chan struct{}]
	full    atomic.Bool // of its disk
	// votesFull: the term cannot be written, but the log can.
	votesFull atomic.Bool
	ends      error // why it has stopped, guarded by c.mu
	boot      atomic.Uint64
	ticks     atomic.Int64 // readings of the monotonic clock
	// stubborn, while it is set, keeps requests to take over the leadership from being answered.
	stubborn atomic.Pointer[chan struct{}]
	drift    int64 // of its monotonic clock, parts in a thousand
	changed  func()
	turns    *atomic.Uint64 // Options.Turns
	beat     *group.Beat    // Options.Beat, of every second seed
}

// memory is a transport in memory that sends what peers.Transport sends, and has no pipeline either.
type memory struct {
	*raft.InmemTransport
	// stubborn, while it is set, keeps TimeoutNow from being answered.
	stubborn *atomic.Pointer[chan struct{}]
}

func (t memory) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	peers.Bound(args)
	return t.InmemTransport.AppendEntries(id, to, args, resp)
}

func (t memory) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// InstallSnapshot takes some time. Else a leader that sends a snapshot again and again would let no other goroutine sleep to its end.
func (t memory) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	time.Sleep(time.Millisecond)
	return t.InmemTransport.InstallSnapshot(id, to, args, resp, data)
}

func (t memory) TimeoutNow(id raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	if until := t.stubborn.Load(); until != nil {
		<-*until
		return errors.New("too late")
	}
	return t.InmemTransport.TimeoutNow(id, to, args, resp)
}

func newCluster(t *testing.T, seed uint64, size int) *cluster {
	return newClusterOf(t, seed, size, func(m *member) Table {
		m.table = &list{states: map[string]string{}}
		return m.table
	})
}

// newClusterOf starts a cluster whose nodes get their tables from a function, for each of their runs.
func newClusterOf(t *testing.T, seed uint64, size int, tableOf func(*member) Table) *cluster {
	c := &cluster{t: t, tableOf: tableOf, rand: rand.New(rand.NewPCG(seed, 1)), began: time.Now(), accepted: map[string][]string{}}
	var servers []raft.Server
	for i := range size {
		m := &member{c: c, number: i, address: raft.ServerAddress(fmt.Sprint("n", i)), logs: raft.NewInmemStore(), drift: c.rand.Int64N(3) - 1, dir: filepath.Join(t.TempDir(), fmt.Sprint(i))}
		m.boot.Store(1)
		if seed%2 == 1 {
			m.beat = new(group.Beat)
		}
		c.nodes = append(c.nodes, m)
		servers = append(servers, raft.Server{ID: raft.ServerID(m.address), Address: m.address})
	}
	for _, m := range c.nodes {
		m.start(servers...)
	}
	c.reconnect(nil)
	return c
}

func (m *member) options() Options {
	return Options{
		ID: string(m.address), Address: "client-" + string(m.address),
		Clock: Clock{
			Wall: func() int64 { return time.Now().UnixNano() + m.offset.Load() },
			Boot: func() (uint64, int64) { return m.boot.Load(), int64(time.Since(m.c.began)) * (1000 + m.drift) / 1000 },
			// Virtual time stands still while anything runs. So that decisions have different times, it goes on by a little for each.
			Elapsed: func() int64 {
				return int64(time.Since(m.c.began))*(1000+m.drift)/1000 + m.ticks.Add(1)*int64(time.Microsecond)
			},
		},
		TrailingBytes: 1, SnapshotBytes: 1 << 40, Turns: m.turns, Beat: m.beat,
		Changed: func() {
			if m.changed != nil {
				m.changed()
			}
		},
		Fatal: func(err error) {
			m.c.mu.Lock()
			defer m.c.mu.Unlock()
			m.c.fatal, m.ends = append(m.c.fatal, err), err
		},
		Log: slog.New(slog.NewTextHandler(historian{m}, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})),
	}
}

// heldLogs is a log on a disk that waits, while hold is set, for one value for each write.
type heldLogs struct {
	*raft.InmemStore
	m *member
}

func (l *heldLogs) StoreLogs(logs []*raft.Log) error {
	if hold := l.m.hold.Load(); hold != nil {
		<-*hold
	}
	if l.m.full.Load() {
		return errFull
	}
	return l.InmemStore.StoreLogs(logs)
}

var errFull = errors.New("no space left on the device")

// SetUint64 stores a number: the term, or the term of a vote.
func (l *heldLogs) SetUint64(key []byte, val uint64) error {
	if l.m.full.Load() || l.m.votesFull.Load() {
		return errFull
	}
	return l.InmemStore.SetUint64(key, val)
}

// ended returns why a node has stopped by itself, or nil if it has not.
func (c *cluster) ended(m *member) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return m.ends
}

// historian adds what a node logs to the history.
type historian struct{ m *member }

func (h historian) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "an epoch begins") {
		h.m.c.epochs.Add(1)
	}
	h.m.c.note("%s: %s", h.m.address, strings.TrimSpace(string(b)))
	return len(b), nil
}

func (c *cluster) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, fmt.Sprintf("%9.3f ", time.Since(c.began).Seconds())+fmt.Sprintf(format, args...))
}

// start starts the node, as one of the members of a new cluster if any are given.
func (m *member) start(members ...raft.Server) {
	_, m.trans = raft.NewInmemTransportWithTimeout(m.address, 300*time.Millisecond)
	err := os.MkdirAll(m.dir, 0o700)
	if err != nil {
		m.c.t.Fatal(err)
	}
	snapshots, err := openSnapshots(disk.OS{}, filepath.Join(m.dir, snapshotsDir))
	if err != nil {
		m.c.t.Fatal(err)
	}
	held := &heldLogs{m.logs, m}
	o := m.options()
	o.Table = m.c.tableOf(m)
	g := &guarded{elapsed: o.Clock.Elapsed, LogStore: held, StableStore: held, snapshots: snapshots, fatal: o.Fatal}
	p := parts{logs: g, stable: g, guarded: g, snapshots: snapshots, transport: memory{m.trans, &m.stubborn}, note: filepath.Join(m.dir, noteFile), close: m.trans.Close}
	if len(members) > 0 {
		if err := bootstrap(o, p, members...); err != nil {
			m.c.t.Fatal(err)
		}
	}
	switch m.node, err = start(o, p); {
	case err != nil && m.full.Load():
		m.c.note("%s does not start: %v", m.address, err)
		_ = p.close()
	case err != nil:
		m.c.t.Fatal(err)
	}
}

// part cuts a node off from the others.
func (m *member) part() {
	for _, o := range m.c.nodes {
		if o != m {
			m.trans.Disconnect(o.address)
			o.trans.Disconnect(m.address)
		}
	}
}

// deafen makes the node hear nothing from the others but answers to its own calls.
func (m *member) deafen() {
	for _, o := range m.c.nodes {
		if o != m {
			o.trans.Disconnect(m.address)
		}
	}
}

func (m *member) kill() {
	m.c.note("%s is killed", m.address)
	m.part()
	if err := m.node.Close(); err != nil {
		m.c.t.Error(err)
	}
	m.node = nil
}

// decide has the node make a decision, if it leads.
func (m *member) decide() bool {
	c := m.c
	if m.node == nil {
		return false
	}
	turn := m.node.Turn()
	c.mu.Lock()
	c.decisions++
	d := fmt.Sprint(c.decisions)
	keys := []string{fmt.Sprint("k", c.rand.IntN(4))}
	if c.rand.IntN(4) == 0 {
		keys = []string{"k0", "k1"}
	}
	c.mu.Unlock()
	if turn == 0 || !m.table.decide(d, keys...) {
		return false
	}
	m.node.Wait(turn, func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if err != nil {
			c.unknown++
			return
		}
		c.accepted[d] = keys
	})
	if c.rand.IntN(3) > 0 {
		m.node.Kick()
	}
	return true
}

// leader waits until a node decides, and returns it.
func (c *cluster) leader() *member {
	for range 1000 {
		for _, m := range c.nodes {
			if m.node != nil && m.node.Turn() != 0 {
				return m
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.fail("nobody leads")
	return nil
}

func (c *cluster) fail(format string, args ...any) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.history {
		c.t.Log(h)
	}
	c.t.Fatalf(format, args...)
}

// agree waits until all nodes that are up have the same state, and checks it: all that was answered is there, and
// what took from two keys took from both.
func (c *cluster) agree() map[string]string {
	c.t.Helper()
	c.leader().node.Kick()
	var first map[string]string
	for range 1000 {
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		first = nil
		same := true
		for _, m := range c.nodes {
			if m.node == nil {
				continue
			}
			state := m.table.snapshot()
			if first == nil {
				first = state
			}
			same = same && m.node.Ready() && maps.Equal(first, state) && !m.table.Dirty()
		}
		if same {
			break
		}
	}
	for _, m := range c.nodes {
		if m.node != nil && !maps.Equal(first, m.table.snapshot()) {
			c.fail("%s has another state:\n%v\n%v", m.address, m.table.snapshot(), first)
		}
	}
	c.mu.Lock()
	accepted, fatal := maps.Clone(c.accepted), c.fatal
	c.mu.Unlock()
	if len(fatal) > 0 {
		c.fail("fatal: %v", fatal)
	}
	c.timeIsBounded()
	for d, keys := range accepted {
		for _, k := range keys {
			if strings.Count(first[k], "."+d+".") != 1 {
				c.fail("decision %s of key %s was answered, and is there %d times: %s", d, k, strings.Count(first[k], "."+d+"."), first[k])
			}
		}
	}
	return first
}

// timeIsBounded checks that the replicated time has not run ahead of what has elapsed, but for what each
// epoch may add, and for clocks that are a thousandth off.
func (c *cluster) timeIsBounded() {
	c.t.Helper()
	for _, m := range c.nodes {
		if m.node == nil {
			continue
		}
		elapsed := int64(time.Since(c.began))
		now := m.node.replica.now()
		if most := c.began.UnixNano() + elapsed*1001/1000 + c.epochs.Load()*maxAhead; now > most {
			c.fail("%s: the time is %d ms ahead", m.address, (now-most)/1e6)
		}
	}
}

func (c *cluster) close() {
	for _, m := range c.nodes {
		if m.node != nil {
			if err := m.node.Close(); err != nil {
				c.t.Error(err)
			}
		}
	}
}
