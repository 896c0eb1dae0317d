package replication

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"limitdb/engine"
	"limitdb/internal/journal"
	"limitdb/internal/testlengths"
	"limitdb/limit"
)

// partsTable is an engine as a node's table, as cmd/limitdb has it.
type partsTable struct {
	states  atomic.Pointer[engine.Engine]
	leads   atomic.Bool
	ahead   atomic.Int64
	elapsed func() int64
	changes *partsChanges
}

// partsChanges counts the changes in part that were applied on all nodes: of values, of LOGs and of leases.
type partsChanges struct{ values, logs, leases atomic.Int64 }

func (c *partsChanges) count(r *journal.Record) {
	kind := limit.Kind(r.Kind).Restored()
	switch {
	case r.Op != journal.Change:
	case kind == limit.LEASE:
		c.leases.Add(1)
	case kind == limit.LOG.Kind():
		c.logs.Add(1)
	default:
		c.values.Add(1)
	}
}

func (p *partsTable) now() int64 { return p.elapsed() + p.ahead.Load() }

func (p *partsTable) Lead(ahead int64, gate *journal.Gate, dirtied func()) {
	p.ahead.Store(ahead)
	e := p.states.Load()
	e.StartJournal(0, gate, dirtied)
	e.RecordWhole(p.now())
	p.leads.Store(true)
}

func (p *partsTable) Pause() { p.leads.Store(false) }

func (p *partsTable) Follow() {
	p.leads.Store(false)
	p.states.Load().Close()
	p.states.Load().StopJournal()
}

func (p *partsTable) Dirty() bool { return p.states.Load().Dirty() }

func (p *partsTable) Cut(reached int64) {
	p.states.Load().RecordWhole(reached)
	p.states.Load().Cut()
}

// Drain adds about 500 bytes, so that many groups consist of several batches. Meanwhile the next group's decisions
// are made.
func (p *partsTable) Drain(dst *journal.Buffer, _ int) bool {
	for range 20 {
		runtime.Gosched()
	}
	return p.states.Load().Drain(dst, 500)
}

func (p *partsTable) Clear() error {
	p.states.Swap(engine.New(engine.Options{Shards: 4})).Close()
	return nil
}

func (p *partsTable) Apply(_ int64, records []journal.Record) error {
	for i := range records {
		p.changes.count(&records[i])
	}
	return p.states.Load().Restore(records, 0, 1)
}

func (p *partsTable) Missed(now int64) (string, bool) { return p.states.Load().Missed(now) }

func (p *partsTable) Copy(now int64, cursor uint64, dst *journal.Buffer) uint64 {
	return p.states.Load().Copy(now, cursor, dst)
}

// contents returns the states in the table that do not expire by a time.
func (p *partsTable) contents(t *testing.T, at int64) map[string]string {
	all := map[string]string{}
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		var buf journal.Buffer
		cursor = p.Copy(0, cursor, &buf)
		for b := buf.Bytes; len(b) > 0; {
			r, rest, err := journal.Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			b = rest
			if kind := limit.Kind(r.Kind).Restored(); limit.Expires(kind, r.State) > at {
				all[string(r.Key)] = plainState(kind, r.State)
			}
		}
	}
	return all
}

// plainState returns a state without its revision, which the model has not, and its kind.
func plainState(kind limit.Kind, state []byte) string {
	state = slices.Clone(state)
	if head := journal.HeadSize(byte(kind.Recorded(state))); head > 0 {
		journal.SetRevision(state[:head], 0)
	}
	return string(append(state, byte(kind)))
}

// partsCluster has nodes with tables that change in parts, and plain copies of what they must hold.
type partsCluster struct {
	*cluster
	lengths testlengths.Lengths
	tables  map[*member]*partsTable
	changes partsChanges

	// who is the node that has decided last, in a turn. worlds has what its table held after each of its decisions, and before the first.
	who      *member
	turn     uint64
	now      int64 // of its last decision
	worlds   []map[string]string
	mu       sync.Mutex
	answered *int // how many of them are answered
}

func newPartsCluster(t *testing.T, seed uint64, lengths testlengths.Lengths) *partsCluster {
	p := &partsCluster{lengths: lengths, tables: map[*member]*partsTable{}}
	p.cluster = newClusterOf(t, seed, 3, func(m *member) Table {
		table := &partsTable{elapsed: m.options().Clock.Elapsed, changes: &p.changes}
		table.states.Store(engine.New(engine.Options{Shards: 8}))
		p.tables[m] = table
		return table
	})
	return p
}

// expired removes from a world what has expired by a time.
func expired(world map[string]string, at int64) map[string]string {
	world = maps.Clone(world)
	maps.DeleteFunc(world, func(_, state string) bool {
		return limit.Expires(limit.Kind(state[len(state)-1]), []byte(state[:len(state)-1])) <= at
	})
	return world
}

// begin checks whether another epoch has begun. If so, its table must be that of the epoch before it after one of its
// decisions: after the last that was answered, or a later one.
func (p *partsCluster) begin(m *member) *partsTable {
	table, turn := p.tables[m], m.node.Turn()
	if m == p.who && turn == p.turn {
		return table
	}
	got := table.contents(p.t, table.now())
	if p.answered != nil {
		p.mu.Lock()
		from := *p.answered
		p.mu.Unlock()
		if !slices.ContainsFunc(p.worlds[from:], func(w map[string]string) bool { return maps.Equal(expired(w, table.now()), got) }) {
			p.fail("%s begins with a table that is none of the %d that may be:\n%q\n%q", m.address, len(p.worlds)-from, got, expired(p.worlds[from], table.now()))
		}
	}
	p.who, p.turn, p.worlds, p.answered = m, turn, []map[string]string{got}, new(int)
	p.now = 0
	return table
}

// partsChange is a change of one key.
type partsChange struct {
	key, ins string
	kind     limit.Kind
	how      int
	at, del  int
	dies     int64
}

// apply makes the change, and returns the state that the key has then, "" for none.
func (c partsChange) apply(tx *engine.Txn) (string, error) {
	kind, state, err := tx.Get([]byte(c.key))
	if err != nil {
		return "", err
	}
	head := journal.HeadSize(byte(kind))
	if _, timed, _ := kind.Value(); head == 0 && timed {
		head = 8
	}
	was := state[min(len(state), head):]
	at := min(c.at, len(was))
	del := min(c.del, len(was)-at)
	body := slices.Concat(was[:at], []byte(c.ins), was[at+del:])
	isString, wasString := c.kind < limit.SORTEDSET, kind < limit.SORTEDSET
	if isString && len(body) < journal.MinChanged {
		c.kind -= limit.LONGSTRING - limit.STRING
	}
	var next []byte
	if _, timed, _ := c.kind.Value(); timed {
		next = binary.LittleEndian.AppendUint64(nil, uint64(c.dies))
	}
	if journal.InParts(byte(c.kind)) {
		next = append(next, 0, 0, 0, 0)
	}
	next = append(next, body...)
	switch {
	case c.how == 0:
		_, err = tx.Delete([]byte(c.key))
		return "", err
	case c.how == 1 || kind == 0 || isString != wasString || !isString && kind&^1 != c.kind&^1 || !journal.InParts(byte(c.kind)):
		err = tx.Put([]byte(c.key), c.kind, next)
	default:
		err = tx.Change([]byte(c.key), c.kind, next, journal.AppendSplice(nil, at, del, []byte(c.ins)))
	}
	return string(append(next, byte(c.kind))), err
}

// held notes what keys hold after a step that has changed them.
func (p *partsCluster) held(holds map[string]string) {
	world := maps.Clone(p.worlds[len(p.worlds)-1])
	for key, state := range holds {
		if world[key] = state; state == "" {
			delete(world, key)
		}
	}
	p.worlds = append(p.worlds, world)
}

// look is held for keys of limits, in the transaction that has changed them or behind the step.
func (p *partsCluster) look(tx *engine.Txn, keys ...[]byte) error {
	holds := map[string]string{}
	for _, key := range keys {
		kind, state, err := tx.Get(key)
		if err != nil {
			return err
		}
		if holds[string(key)] = ""; kind != 0 {
			holds[string(key)] = plainState(kind, state)
		}
	}
	p.held(holds)
	return nil
}

// takeSome takes from a LOG and changes a lease, alone or in one step.
func (p *partsCluster) takeSome(e *engine.Engine, now int64) error {
	l := limit.Limit{Algorithm: limit.LOG, Max: 3000, Period: int64([]time.Duration{40 * time.Millisecond, 20 * time.Second}[p.rand.IntN(40)/39])}
	log, leases := []byte(fmt.Sprint("log", p.rand.IntN(2))), []byte(fmt.Sprint("leases", p.rand.IntN(2)))
	if log[3] == '1' {
		l.Period = int64(20 * time.Second)
	}
	lease := limit.Lease{Limit: 1000, TTL: p.rand.Int64N(int64(5*time.Second)) + 1, Weight: 1, ID: fmt.Appendf(nil, "holder%60d", p.rand.IntN(40))}
	if leases[6] == '0' {
		lease.TTL /= 100
	}
	refund, release := p.rand.IntN(8) == 0, p.rand.IntN(4) == 0
	step := func(now int64, state, dst []byte) (next []byte, err error) {
		var d limit.Decision
		if !release {
			return limit.TakeLease(&lease, state, now, dst, &d)
		}
		next, _, err = limit.ReleaseLease(lease.ID, state, now, dst)
		if errors.Is(err, limit.ErrNoLease) {
			err = nil
		}
		return next, err
	}
	var d limit.Decision
	if p.rand.IntN(3) == 0 {
		return e.UpdateAt(0, now, [][]byte{log, leases}, func(tx *engine.Txn) error {
			if _, err := tx.Take(log, &engine.Request{Limit: l, Cost: 1}, &d); err != nil {
				return err
			}
			if err := tx.Step(leases, limit.LEASE, step); err != nil {
				return err
			}
			return p.look(tx, log, leases)
		})
	}
	for i := range int64(30) { // at 30 times, if the shard has not seen them yet
		err := e.UpdateAt(0, now-30+i, [][]byte{log}, func(tx *engine.Txn) error {
			if refund {
				return tx.Refund(log, &l, 1, &d)
			}
			_, err := tx.Take(log, &engine.Request{Limit: l, Cost: 1}, &d)
			return err
		})
		if err != nil {
			return err
		}
		if err := e.UpdateAt(0, now-30+i, [][]byte{log}, func(tx *engine.Txn) error { return p.look(tx, log) }); err != nil {
			return err
		}
	}
	if err := e.UpdateAt(0, now, [][]byte{leases}, func(tx *engine.Txn) error { return tx.Step(leases, limit.LEASE, step) }); err != nil {
		return err
	}
	return e.UpdateAt(0, now, [][]byte{leases}, func(tx *engine.Txn) error { return p.look(tx, leases) })
}

// decide changes some keys in one step, as a command, EXEC or a script does.
func (p *partsCluster) decide() {
	m := p.leader()
	table := p.begin(m)
	e := table.states.Load()
	if p.rand.IntN(4) == 0 || p.now == 0 {
		p.now = table.now()
	}
	now := p.now // a session reads the clock once for many commands
	changes := make([]partsChange, 1+p.rand.IntN(3))
	var keys [][]byte
	for i := range changes {
		name := p.rand.IntN(6) // a key keeps its type, mostly
		kinds := []limit.Kind{limit.LIST, limit.SORTEDSET, limit.HASH, limit.SET, limit.LONGSTRING, limit.LIST}
		changes[i] = partsChange{
			key: fmt.Sprint("key", name), kind: kinds[(name+p.rand.IntN(40)/39)%6] + limit.Kind(p.rand.IntN(2)), how: p.rand.IntN(60),
			ins: strings.Repeat(string('a'+rune(p.rand.IntN(26))), []int{0, 1, 30, p.lengths.Draw(p.rand.IntN, 600)}[p.rand.IntN(4)]), at: p.rand.IntN(600), del: p.rand.IntN(60),
			dies: now + p.rand.Int64N(int64([]time.Duration{2 * time.Millisecond, 5 * time.Second}[p.rand.IntN(2)])),
		}
		keys = append(keys, []byte(changes[i].key))
	}
	var err error
	if p.rand.IntN(3) == 0 {
		err = p.takeSome(e, now)
	} else {
		err = e.UpdateAt(0, now, keys, func(tx *engine.Txn) error {
			holds := map[string]string{}
			for _, c := range changes {
				var err error
				if holds[c.key], err = c.apply(tx); err != nil {
					return err
				}
			}
			p.held(holds)
			return nil
		})
	}
	if err != nil {
		if table.leads.Load() {
			p.fail("%v", err)
		}
		return
	}
	p.await(m)
	if p.rand.IntN(3) > 0 {
		m.node.Kick()
	}
}

// await raises what is answered to the decisions so far, once they have their replies.
func (p *partsCluster) await(m *member) {
	answered, number := p.answered, len(p.worlds)-1
	m.node.Wait(p.turn, func(err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if err == nil {
			*answered = max(*answered, number)
		}
	})
}

// late changes a long LOG and long leases just before they expire: a session has read the clock, and before its command
// runs, two groups are accepted whose clocks are later, and the others drop what has expired.
func (p *partsCluster) late() {
	m := p.leader()
	table := p.begin(m)
	e := table.states.Load()
	const period, units = int64(time.Second), 250
	time.Sleep(time.Millisecond) // later than all decisions
	first := table.now() - units
	last := first + units - 1
	if p.takeLate(e, first, units, period) != nil {
		return
	}
	p.await(m)
	for range 3 {
		time.Sleep(time.Duration(last + period - table.now()))
		m.node.Wait(p.turn, func(error) {})
		m.node.Kick()
		time.Sleep(100 * time.Millisecond) // the others hear of it
	}
	for _, other := range p.nodes {
		if other != m && other.node != nil {
			p.tables[other].states.Load().Sweep(other.node.Expired(), 1000)
		}
	}
	if p.takeLate(e, last+period-200, 20, period) == nil {
		p.await(m)
		m.node.Kick()
	}
	p.now = 0
}

// takeLate takes units from a LOG, one a nanosecond, and then some leases, which end when the LOG does.
func (p *partsCluster) takeLate(e *engine.Engine, now int64, units int, period int64) error {
	log, leases := []byte("late log"), []byte("late leases")
	var d limit.Decision
	for range units {
		l := limit.Limit{Algorithm: limit.LOG, Max: 3000, Period: period}
		if err := e.TakeAt(0, now, log, &l, 1, &d); err != nil {
			return err
		}
		if err := e.UpdateAt(0, now, [][]byte{log}, func(tx *engine.Txn) error { return p.look(tx, log) }); err != nil {
			return err
		}
		now++
	}
	for range 5 {
		lease := limit.Lease{Limit: 1000, TTL: period, Weight: 1, ID: fmt.Appendf(nil, "holder%60d", p.rand.IntN(40))}
		if err := e.UpdateAt(0, now-1, [][]byte{leases}, func(tx *engine.Txn) error { return tx.Lease(leases, &lease, &d) }); err != nil {
			return err
		}
		if err := e.UpdateAt(0, now-1, [][]byte{leases}, func(tx *engine.Txn) error { return p.look(tx, leases) }); err != nil {
			return err
		}
	}
	return nil
}

// sweep has a node drop what has expired.
func (p *partsCluster) sweep() {
	switch m := p.nodes[p.rand.IntN(len(p.nodes))]; {
	case m.node != nil && m.node.Turn() == 0:
		p.tables[m].states.Load().Sweep(m.node.Expired(), 1000)
	case m.node != nil:
		p.tables[m].states.Load().Sweep(p.tables[m].now(), 1000)
	}
}

// faults has a node away, or a snapshot made.
func (p *partsCluster) faults(cut map[*member]bool) {
	m := p.nodes[p.rand.IntN(len(p.nodes))]
	all := len(cut) == 0 && !slices.ContainsFunc(p.nodes, func(o *member) bool { return o.node == nil })
	switch what := p.rand.IntN(7); {
	case what == 0 && all:
		m.kill()
	case what == 1 && m.node == nil:
		m.start()
		p.reconnect(cut)
	case what == 2 && all:
		cut[m] = true
		m.part()
	case what == 3:
		clear(cut)
		p.reconnect(cut)
	case what <= 5 && m.node != nil:
		node := m.node
		go func() { p.note("%s: a snapshot: %v", m.address, node.Snapshot()) }()
	}
	time.Sleep(time.Duration(p.rand.IntN(1500)) * time.Millisecond)
}

// converge waits until all nodes have the same state, and its hash at the same index.
func (p *partsCluster) converge() {
	for _, m := range p.nodes {
		if m.node == nil {
			m.start()
		}
	}
	p.reconnect(nil)
	time.Sleep(10 * time.Second)
	for range 30 {
		p.decide()
	}
	p.leader().node.Kick()
	time.Sleep(10 * time.Second)
	synctest.Wait()
	p.begin(p.leader())
	far := p.tables[p.leader()].now() + int64(time.Minute)
	first := p.tables[p.nodes[0]].contents(p.t, far)
	hashes := map[hashed]bool{}
	for _, m := range p.nodes {
		if got := p.tables[m].contents(p.t, far); !maps.Equal(got, first) {
			p.fail("%s holds %q\nwant %q", m.address, got, first)
		}
		m.node.replica.mu.Lock()
		hashes[m.node.replica.hashes.done] = true
		m.node.replica.mu.Unlock()
	}
	if len(hashes) != 1 || hashes[hashed{}] {
		p.fail("the hashes are %v", hashes)
	}
	if len(p.fatal) > 0 {
		p.fail("fatal: %v", p.fatal)
	}
}

// Collections, long strings, LOGs and leases that change in parts are the same on all nodes, through any change of the
// leader, snapshots that are made and sent meanwhile, and nodes that come back. What was answered is never lost, and what
// changed several keys is there as a whole.
//
// A long LOG or lease seldom expires on a follower just before the leader, which still has it, adds to it, so the test
// brings that about (see late).
func TestStatesThatChangeInParts(t *testing.T) {
	seeds := 3
	if os.Getenv("LIMITDB_LONG") != "" {
		seeds = 300
	}
	var values, logs, leases int64
	installed, lengths := 0, testlengths.Read(t, 600)
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			p := newPartsCluster(t, seed, lengths)
			defer p.close()
			cut := map[*member]bool{}
			for range 40 {
				for range p.rand.IntN(60) {
					p.decide()
					if p.rand.IntN(60) == 0 { // while what the table owes is copied
						node := p.leader().node
						go func() { p.note("a snapshot of the leader: %v", node.Snapshot()) }()
					}
					if p.rand.IntN(2) == 0 {
						time.Sleep(time.Duration(p.rand.IntN(1000)) * time.Microsecond)
						p.sweep()
					}
				}
				if p.rand.IntN(10) == 0 {
					p.late()
				}
				p.faults(cut)
			}
			p.converge()
			values += p.changes.values.Load()
			logs += p.changes.logs.Load()
			leases += p.changes.leases.Load()
			installed += bytes.Count([]byte(strings.Join(p.history, "\n")), []byte("Installed remote"))
			for _, table := range p.tables {
				table.states.Load().Close()
			}
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d changes in part of values, %d of LOGs and %d of leases applied, %d snapshots sent", values, logs, leases, installed)
	if min(values, logs, leases) < 100*int64(seeds) || installed < seeds/3 {
		t.Error("these are too few")
	}
}
