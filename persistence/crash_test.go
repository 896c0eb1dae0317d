package persistence

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"limitdb/internal/disk"
	"limitdb/internal/disk/disktest"
	"limitdb/internal/journal"
)

const (
	dataDir = "/data"
	startAt = int64(1_700_000_000) * int64(time.Second)
	hour    = int64(time.Hour)
)

// world is a machine with a store on it, which crashes now and then.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	fs     *disktest.Mem
	policy Policy
	hist   *history
	// zeros is how many are written ahead under Always; fickle changes the policy now and then.
	zeros  int
	fickle bool
	// switched turns the log off and on now and then; off says that it is off.
	switched, off bool
	switches      int
	full          bool // there was no room at the start
	split         int  // logFile.split, small

	wall, boot int64 // the machine's clocks
	bootID     uint64
	ahead      int64 // how far the process's clock is ahead of wall

	store *Store
	table *table
	fatal error
	// marks has the states of the keys when each drain began.
	marks map[uint64][]int
	// latest is the time of the latest decision that must survive; safeAt has it for each drain.
	latest    int64
	safeAt    map[uint64]int64
	changedAt int64 // time of the last change that left a record
	// replied counts replies that waited, aheads crashes of a log that ends in zeros.
	replied, aheads int
	backups         int
	// copied has the states of the keys when the last step of a copy began.
	copied []int
	// pairing: steps change pairs of keys together; paired counts them.
	pairing bool
	paired  int
}

func newWorld(t *testing.T, seed uint64, policy Policy) *world {
	return &world{
		t: t, rng: seeded(seed), fs: disktest.New(dataDir), policy: policy, hist: newHistory(12),
		wall: startAt, boot: hour, bootID: 1,
		zeros: []int{300, 1000, 5000, 0}[seed%4], split: []int{0, 300, 1000}[seed%3],
	}
}

func (w *world) now() int64 { return w.wall + w.ahead }

func (w *world) options(fs disk.FS) Options {
	return Options{
		Dir: dataDir, FS: fs, Parts: []Part{w.part()}, Policy: w.policy,
		Now: w.now, Boot: func() (uint64, int64) { return w.bootID, w.boot },
		Workers: 1 + w.rng.IntN(3), Entropy: entropy{w.rng}, Fatal: func(err error) { w.fatal = err },
		Recovering: func(l Loaded) { w.ahead = max(0, l.Now-w.wall) },
	}
}

// part returns the table's part, which says what is missing when it was loaded.
func (w *world) part() Part {
	p := w.table.part()
	p.Missed = func() (string, bool) { return w.table.missed(w.now()) }
	return p
}

type entropy struct{ rng *rand.Rand }

func (e entropy) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(e.rng.Uint32())
	}
	return len(b), nil
}

// start opens the store and compares what it finds with the history.
func (w *world) start(fs disk.FS) error {
	w.table = newTable(1 + w.rng.IntN(5))
	w.table.onCopy = w.between
	w.table.onCut = w.meanwhile
	w.ahead, w.fatal, w.changedAt, w.off = 0, nil, 0, false
	w.marks, w.safeAt = map[uint64][]int{}, map[uint64]int64{}
	s, err := Open(w.options(fs))
	if err != nil {
		return err
	}
	s.zeros = make([]byte, w.zeros)
	s.split = w.split
	loaded, err := s.Load()
	if err != nil {
		return err
	}
	if loaded.Now < w.latest {
		w.t.Fatalf("time goes on at %d, and decisions were made until %d", loaded.Now, w.latest)
	}
	w.ahead = loaded.Now - w.wall
	if err := w.hist.check(w.table, loaded.Now); err != nil {
		w.t.Fatal(err)
	}
	for i := range pairs {
		a, b := w.table.get(pairKey(i, 0)), w.table.get(pairKey(i, 1))
		if !bytes.Equal(a, b) {
			w.t.Fatalf("pair %d is %x and %x", i, a, b)
		}
	}
	w.store = s
	if w.pairing {
		w.fs.Syncing = w.duringSync
	}
	return nil
}

// pairs is the number of pairs of keys that change together.
const pairs = 4

func pairKey(pair, which int) string { return keyOf(1000 + 2*pair + which) }

// pair changes a pair of keys in one step, unless a cut is in progress, because such a step would wait for
// it.
func (w *world) pair() {
	if w.store.drains.Gate.Closed() {
		return
	}
	w.store.drains.Gate.Enter()
	defer w.store.drains.Gate.Leave()
	w.paired++
	i, state := w.rng.IntN(pairs), stateAt(startAt+1e6*hour, make([]byte, w.rng.IntN(1000))...)
	for j := range state[8:] {
		state[8+j] = byte(w.rng.Uint32())
	}
	for which := range 2 {
		w.table.set(1, pairKey(i, which), state)
	}
	w.changedAt = w.now()
}

// meanwhile does what others may do between the parts of a cut.
func (w *world) meanwhile() {
	if w.pairing && w.store != nil && w.rng.IntN(8) == 0 {
		w.pair()
	}
}

// duringSync does what the writer may do while a file is synced.
func (w *world) duringSync() {
	if w.store == nil || w.rng.IntN(3) > 0 || !w.store.io.TryLock() {
		return
	}
	w.store.io.Unlock()
	w.change()
	w.marks[w.store.opened.Load()+1] = w.hist.mark()
	w.safeAt[w.store.opened.Load()+1] = w.changedAt
	_ = w.store.gather() // the store handles a failure
}

// change changes a key.
func (w *world) change() {
	n := w.rng.IntN(len(w.hist.keys))
	defer func() {
		if w.store.dirty() {
			w.changedAt = w.now()
		}
	}()
	switch what := w.rng.IntN(40); {
	case what == 0:
		w.table.flush(func() {})
		for i := range w.hist.keys {
			w.hist.add(i, nil)
		}
	case what < 8:
		if w.table.get(keyOf(n)) == nil {
			return
		}
		w.table.delete(keyOf(n))
		w.hist.add(n, nil)
	case what >= 30 && what < 39:
		w.changeInPart(n)
	default:
		expires := w.now() + hour*int64(1+w.rng.IntN(1000))
		if what < 12 {
			expires = w.now() + int64(w.rng.IntN(1e9))
		}
		more := make([]byte, w.rng.IntN(20))
		if what == 39 {
			more = make([]byte, 3000)
		}
		for i := range more {
			more[i] = byte(w.rng.Uint32())
		}
		w.hist.add(n, stateAt(expires, more...))
		w.table.set(1, keyOf(n), stateAt(expires, more...))
	}
}

// changeInPart changes a part of a long state, after it has made one.
func (w *world) changeInPart(n int) {
	expires := w.now() + hour*int64(1+w.rng.IntN(1000))
	if w.rng.IntN(4) == 0 {
		expires = w.now() + int64(w.rng.IntN(1e9))
	}
	ins := make([]byte, w.rng.IntN(30))
	for i := range ins {
		ins[i] = byte(w.rng.Uint32())
	}
	body := w.table.holds(keyOf(n), w.now())
	if body == nil {
		state := stateAt(expires, make([]byte, journal.MinChanged-10+w.rng.IntN(40))...) // long enough to change in part, or not
		w.hist.add(n, state)
		w.table.set(inParts(keyOf(n)), keyOf(n), state)
		return
	}
	at := w.rng.IntN(len(body) + 1)
	w.hist.add(n, w.table.change(keyOf(n), expires, at, min(w.rng.IntN(10), len(body)-at), ins))
}

// commit does what the writer does.
func (w *world) commit() {
	w.marks[w.store.opened.Load()+1] = w.hist.mark()
	w.safeAt[w.store.opened.Load()+1] = w.changedAt
	w.store.commit()
	w.noteDurable()
}

// noteDurable records what has become durable.
func (w *world) noteDurable() {
	d := w.store.durable.Load()
	if m := w.marks[d]; m != nil {
		w.hist.ack(m)
		w.latest = max(w.latest, w.safeAt[d])
	}
}

// reply changes a key and waits as a client's reply does.
func (w *world) reply() {
	w.change()
	if w.pairing && w.rng.IntN(8) == 0 {
		w.pair()
	}
	mark, at := w.hist.mark(), w.changedAt
	if !w.store.Wait(func(error) {
		w.hist.ack(mark)
		w.latest = max(w.latest, at)
		w.replied++
	}) && w.policy == Always && w.store.dirty() {
		w.t.Fatal("a change is durable before it was written")
	}
}

// between does what others may do while a snapshot is copied.
func (w *world) between() {
	w.copied = w.hist.mark()
	switch w.rng.IntN(6) {
	case 0, 1:
		w.reply()
	case 2:
		w.commit()
	case 3:
		if w.policy == EverySec {
			w.store.sync()
			w.noteDurable()
		}
	}
}

// turnOff turns the log off: from then on, a start finds nothing.
func (w *world) turnOff() {
	for i := range w.hist.keys {
		w.hist.add(i, nil)
	}
	w.latest = 0 // nor the clock, even if the crash comes in between
	if err := w.store.Retire(); err == nil {
		w.off = true
		w.switches++
		w.hist.ack(w.hist.mark())
		w.latest = 0
		w.table.retire()
	} else if !w.fs.Crashed {
		w.t.Fatal(err)
	}
}

// turnOn turns the log on again: from then on, a start finds everything.
func (w *world) turnOn() {
	for i := range w.hist.keys {
		w.hist.add(i, w.table.get(keyOf(i)))
	}
	policy, on := w.policy, w.hist.mark()
	w.policy, w.changedAt = Never, 0
	defer func() { w.policy = policy }()
	w.marks, w.safeAt = map[uint64][]int{}, map[uint64]int64{}
	o := w.options(w.fs)
	o.Recovering = nil
	s, err := Open(o)
	if err == nil {
		s.zeros = make([]byte, w.zeros)
		_, err = s.Load()
	}
	if err == nil {
		w.store, w.off = s, false
		err = s.Snapshot()
	}
	if err == nil {
		s.SetPolicy(policy)
		w.hist.ack(on)
	} else if !w.fs.Crashed {
		w.t.Fatal(err)
	}
}

func (w *world) step() {
	w.wall += int64(w.rng.IntN(1e8))
	w.boot += int64(w.rng.IntN(1e8))
	if w.switched && w.rng.IntN(15) == 0 {
		if w.off {
			w.turnOn()
		} else {
			w.turnOff()
		}
		return
	}
	if w.off {
		n := w.rng.IntN(len(w.hist.keys))
		w.table.set(1, keyOf(n), stateAt(w.now()+hour*int64(1+w.rng.IntN(1000))))
		w.table.retire()
		return
	}
	if w.fickle && w.rng.IntN(10) == 0 {
		w.policy = Always + EverySec - w.policy
		w.store.SetPolicy(w.policy)
	}
	switch what := w.rng.IntN(24); {
	case what < 12:
		w.reply()
	case what < 18:
		w.commit()
	case what < 20:
		w.store.second()
		w.noteDurable()
	case what == 20:
		if err := w.store.Snapshot(); err == nil {
			w.noteDurable()
			w.hist.ack(w.copied) // both the log and the base have it
		} else if !errors.Is(err, disktest.ErrCrashed) && !errors.Is(err, ErrFailed) {
			w.t.Fatal(err)
		}
	default:
		w.change()
	}
}

// killed sets the clocks after the process was killed.
func (w *world) killed() {
	w.ahead = 0
	if w.rng.IntN(4) == 0 {
		w.wall -= hour
		w.boot += int64(w.rng.IntN(1e9))
	}
}

// crash cuts the power. The machine starts again a little later, or with a wrong clock.
func (w *world) crash() {
	w.fs = w.fs.Crash(w.rng)
	w.ahead = 0
	w.bootID++
	w.boot = int64(w.rng.IntN(1e9))
	switch w.rng.IntN(3) {
	case 0:
		w.wall += int64(w.rng.IntN(1e10))
	case 1:
		w.wall -= hour
	}
}

// life runs a store through crashes and ends.
func (w *world) life() {
	for range 6 {
		left := -1
		if w.rng.IntN(5) > 0 {
			left = w.rng.IntN(100)
		}
		w.run(left, w.rng.IntN(120))
	}
	w.lastStart()
}

// run starts the store, does a number of steps, and ends, in a crash at the operation with a number or otherwise. It reports whether
// there was such an operation.
func (w *world) run(left, steps int) (cut bool) {
	w.fs.Left = left
	if err := w.start(w.fs); err == nil {
		for range steps {
			w.step()
			if w.fs.Crashed || w.fatal != nil {
				break
			}
		}
		if !w.fs.Crashed && !w.off && w.rng.IntN(2) == 0 {
			w.fs.Syncing = nil // nobody writes any more
			if err := w.store.Close(); err == nil {
				w.hist.ack(w.hist.mark())
				w.latest = max(w.latest, w.changedAt)
			} else if !w.fs.Crashed {
				w.t.Fatal(err)
			}
		}
	} else if !errors.Is(err, disktest.ErrCrashed) {
		w.t.Fatal(err)
	}
	cut = w.fs.Crashed
	if w.fs.Crashed || w.rng.IntN(3) > 0 {
		if w.store != nil && w.store.cur != nil && w.store.cur.Length > w.store.cur.End {
			w.aheads++
		}
		w.crash()
	} else { // only the process was killed: the kernel still has everything written
		w.fs.Syncing = nil
		w.killed()
	}
	if w.rng.IntN(10) == 0 && w.fs.Dir(dataDir)[manifestName] != nil {
		if err := sound(w); err != nil {
			w.t.Fatalf("check: %v", err)
		}
	}
	return cut
}

func (w *world) lastStart() {
	w.fs.Left = -1
	if err := w.start(w.fs); err != nil {
		w.t.Fatal(err)
	}
}

// long reports whether the longer mode was asked for.
func long() bool { return os.Getenv("LIMITDB_LONG") != "" }

// seeds returns how many seeds to try.
func seeds(short int) uint64 {
	if long() {
		return 10_000
	}
	return uint64(short)
}

// No acknowledged decision is lost in a crash that keeps any subset of the unsynced data.
//
//test:norace
func TestCrashesLoseNothingAlways(t *testing.T) {
	t.Parallel()
	crashes(t, Always, "", 600)
}

// Synced changes are not lost, and neither is the order of changes.
//
//test:norace
func TestCrashesLoseNothingSynced(t *testing.T) {
	t.Parallel()
	crashes(t, EverySec, "", 1500)
}

// The same while the policy changes, so that a log under one policy has zeros written under another.
//
//test:norace
func TestCrashesLoseNothingWhenThePolicyChanges(t *testing.T) {
	t.Parallel()
	crashes(t, Always, "policy", 600)
}

// The same while the log is turned off and on: the state before that is never found, and what is acknowledged
// afterwards is not lost.
//
//test:norace
func TestCrashesLoseNothingWhenTheLogIsSwitched(t *testing.T) {
	t.Parallel()
	crashes(t, Always, "policy and log", 600)
}

func crashes(t *testing.T, policy Policy, changes string, short int) {
	replied, aheads, switches := 0, 0, 0
	for seed := range seeds(short) {
		w := newWorld(t, seed, policy)
		w.fickle, w.switched, w.pairing = changes != "", changes == "policy and log", true
		func() {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			}()
			w.life()
		}()
		replied += w.replied
		aheads += w.aheads
		switches += w.switches
	}
	if changes == "policy and log" {
		if switches < 500 {
			t.Errorf("the log was turned off only %d times", switches)
		}
		return
	}
	if policy == Always && replied < 1000 {
		t.Errorf("only %d replies were released: the test is of no use", replied)
	}
	if policy == Always && aheads < 500 {
		t.Errorf("only %d crashes found zeros behind the log's batches", aheads)
	}
}

// The same wherever a crash comes: each operation of a run is cut short in turn, and one of the run after it. This is the
// test of crashes that runs with the race detector, since a start loads the log in several goroutines.
func TestCrashesAtEveryOperation(t *testing.T) {
	cuts, most := 0, uint64(3)
	if long() {
		most = 100
	}
	for _, policy := range []Policy{Always, EverySec} {
		for seed := range most {
			for left, cut := 0, true; cut; left++ {
				w := newWorld(t, seed, policy)
				w.pairing = true
				cut = w.run(left, 60)
				w.run(w.rng.IntN(40), 10) // what is left of a crash is where the next run begins
				w.lastStart()
				if cut {
					cuts++
				}
			}
		}
	}
	if cuts < 400 {
		t.Errorf("only %d crashes", cuts)
	}
}
