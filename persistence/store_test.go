package persistence

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"limitdb/internal/disk"
	"limitdb/internal/disk/disktest"
	"limitdb/internal/group"
	"limitdb/internal/journal"
)

// openLoaded opens a store and loads its parts.
func openLoaded(t testing.TB, o Options) (*Store, Loaded) {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	return s, l
}

func TestBackupCanBeStartedFrom(t *testing.T) {
	dir := t.TempDir()
	r := run(t, dir, Options{Policy: EverySec})
	for i := range 10 {
		r.set(i)
	}
	if err := r.Snapshot(); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		r.set(100 + i)
	}
	path, err := r.Backup("monday")
	if err != nil {
		t.Fatal(err)
	}
	r.set(1000)
	if err := r.Snapshot(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"", ".", "..", "../x", "/tmp/x", "a/../../x", "a/b", `a\b`, "a\x00", "a\n", "\xff", ".hidden", "LOCK", "CLEAN", "clean", "MANIFEST", "Manifest", "MANIFEST.tmp",
		"base-00000001", "log-00000099", "LOG-x", "cut-log-00000001-64", "tmp", "tmp-x", "x.tmp", strings.Repeat("x", 201),
	} {
		if _, err := r.Backup(name); !errors.Is(err, ErrBackupName) {
			t.Errorf("Backup(%q): %v", name, err)
		}
	}
	if _, err := r.Backup("monday"); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second backup in the same place: %v", err)
	}
	r.close()
	b := run(t, path, Options{})
	if b.tab.len() != 15 {
		t.Errorf("%d keys in the backup, want 15", b.tab.len())
	}
	b.set(7)
	b.close()
	again := run(t, dir, Options{})
	if again.tab.len() != 16 {
		t.Errorf("%d keys, want 16", again.tab.len())
	}
	again.close()
}

// A backup has the changes made just before it, even if the log has nothing yet.
func TestBackupHasTheLatest(t *testing.T) {
	dir := t.TempDir()
	r := run(t, dir, Options{Policy: EverySec})
	for n := range 3 {
		r.set(n)
		path, err := r.Backup(fmt.Sprint("b", n))
		if err != nil {
			t.Fatal(err)
		}
		b := run(t, path, Options{})
		if b.tab.len() != n+1 {
			t.Errorf("%d keys in the backup, want %d", b.tab.len(), n+1)
		}
		b.close()
	}
	r.close()
}

func TestDirectoryIsLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	o := Options{Dir: dir, Parts: []Part{newTable(1).part()}, Now: func() int64 { return startAt }}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(o); !errors.Is(err, ErrLocked) {
		t.Errorf("a second process: %v", err)
	}
	if _, err := s.Load(); err != nil {
		t.Fatal(err)
	}
	s.Start()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
	s, err = Open(o)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := s.Load()
	if err != nil || !loaded.Clean {
		t.Errorf("%+v, %v", loaded, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// machine is one on which a store is opened again and again.
type machine struct {
	fs      *disktest.Mem
	now     int64 // of the wall clock
	boot    uint64
	elapsed int64 // since the boot
	trust   bool  // in the wall clock
}

func newMachine() *machine {
	return &machine{fs: disktest.New(dataDir), now: startAt, boot: 1, elapsed: 1e9}
}

// open opens the store, whose clock then sets the machine's, and loads a table.
func (m *machine) open(t *testing.T, tab *table) (*Store, Loaded) {
	return openLoaded(t, Options{
		Dir: dataDir, FS: m.fs, Parts: []Part{tab.part()}, Policy: Always, WallClock: m.trust,
		Now: func() int64 { return m.now }, Boot: func() (uint64, int64) { return m.boot, m.elapsed },
		Recovering: func(l Loaded) { m.now = l.Now },
	})
}

// Decisions continue at the time where they stopped, whatever happened to the wall clock between two starts of
// the machine, and never earlier.
func TestClockAfterRestart(t *testing.T) {
	for _, test := range []struct {
		name             string
		sameBoot         bool
		wall             int64 // by how much the wall clock is changed
		elapsed          int64
		trust            bool
		want             int64 // after the last decision
		owed, wantOwed   int64
		wantDroppedState bool
	}{
		{name: "all is well", sameBoot: true, wall: 5e9, elapsed: 5e9, want: 5e9, owed: hour, wantOwed: hour - 5e9},
		{name: "an hour back", sameBoot: true, wall: -hour, elapsed: 5e9, want: 5e9, owed: hour, wantOwed: hour - 5e9},
		{name: "ten years on", sameBoot: true, wall: 87600 * hour, elapsed: 5e9, want: 5e9, owed: hour, wantOwed: hour - 5e9},
		{name: "an hour back, the machine started", wall: -hour, elapsed: 5e9, want: 0, owed: hour, wantOwed: hour},
		{name: "a minute later, the machine started", wall: 60e9, elapsed: 5e9, want: 60e9, owed: hour, wantOwed: hour - 60e9},
		{name: "expired meanwhile", sameBoot: true, wall: 0, elapsed: hour, want: hour, owed: hour, wantDroppedState: true},
		{name: "the clock was ten years ahead, and is not believed", wall: -87600 * hour, elapsed: 5e9, trust: true, want: -87600 * hour, owed: hour, wantOwed: hour},
	} {
		m := newMachine()
		m.trust = test.trust
		tab := newTable(1)
		s, _ := m.open(t, tab)
		tab.set(1, keyOf(1), stateAt(m.now+test.owed, 9))
		s.commit()
		last := m.now
		m.now += test.wall
		m.elapsed += test.elapsed
		if !test.sameBoot {
			m.boot, m.elapsed = 2, 1e9
		}
		tab = newTable(1)
		s, l := m.open(t, tab)
		if l.Now-last != test.want {
			t.Errorf("%s: goes on %v after the last decision, want %v", test.name, time.Duration(l.Now-last), time.Duration(test.want))
		}
		state := tab.get(keyOf(1))
		if test.wantDroppedState {
			if state != nil {
				t.Errorf("%s: the state is still there", test.name)
			}
			continue
		}
		if state == nil || state[8] != 9 || expiresAt(state)-l.Now != test.wantOwed {
			t.Errorf("%s: %x, want it to owe %v", test.name, state, time.Duration(test.wantOwed))
		}
		if test.trust {
			s.compact()
			if s.Stats().Snapshots != 1 {
				t.Errorf("%s: the old marks of the clock are still there", test.name)
			}
		}
	}
}

// A clean stop notes the time, also of a store that has written nothing for long: after a new start of the machine, whose wall
// clock may be wrong, the clock goes on from there.
func TestClockAfterACleanStop(t *testing.T) {
	for _, idle := range []int64{0, hour} {
		m := newMachine()
		tab := newTable(1)
		s, _ := m.open(t, tab)
		tab.set(1, keyOf(1), stateAt(m.now+24*hour, 9))
		s.commit()
		m.now, m.elapsed = m.now+idle, m.elapsed+idle
		last := m.now
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		m.now, m.boot, m.elapsed = m.now-2*hour, 2, 1e9
		_, l := m.open(t, newTable(1))
		if l.Now != last {
			t.Errorf("idle for %v: goes on %v after the stop", time.Duration(idle), time.Duration(l.Now-last))
		}
	}
}

// For any number and lengths of states, those that are clamped keep the rest of their bytes, and the others
// do not change.
func TestClampedStatesKeepTheirBytes(t *testing.T) {
	const keys = 5 * together
	m, now := disktest.New(dataDir), startAt
	open := func(tab *table) *Store {
		s, _ := openLoaded(t, Options{
			Dir: dataDir, FS: m, Parts: []Part{tab.part()}, Policy: Always, WallClock: true, Workers: 2,
			Now: func() int64 { return now },
		})
		return s
	}
	rng := seeded(1)
	tab, want := newTable(3), map[string][]byte{}
	s := open(tab)
	for i := range keys {
		more := make([]byte, rng.IntN(40))
		for j := range more {
			more[j] = byte(rng.Uint32())
		}
		tab.set(1, keyOf(i), stateAt(startAt+hour, more...))
		want[keyOf(i)] = stateAt(startAt-24*hour+hour, more...)
	}
	s.commit()
	for range 2 { // first from the log, then with the states as they were clamped
		now = startAt - 24*hour
		tab = newTable(2)
		s = open(tab)
		for k, state := range want {
			if got := tab.get(k); !bytes.Equal(got, state) {
				t.Fatalf("%s is %x, want %x", k, got, state)
			}
		}
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
}

// A second part has its own kinds, which FLUSHALL does not reach.
func TestSecondPart(t *testing.T) {
	dir := t.TempDir()
	open := func() (*Store, *table, *table) {
		keys, rules := newTable(2), newTable(1)
		second := rules.part()
		second.Owns = func(kind byte) bool { return kind == journal.Foreign+7 }
		s, _ := openLoaded(t, Options{Dir: dir, Parts: []Part{keys.part(), second}, Now: func() int64 { return startAt }, Workers: 2})
		return s, keys, rules
	}
	s, keys, rules := open()
	rules.set(journal.Foreign+7, keyOf(1), []byte("a rule"))
	keys.set(1, keyOf(1), stateAt(startAt+1))
	s.commit()
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	rules.set(journal.Foreign+7, keyOf(2), []byte("another"))
	keys.flush(func() {})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, keys, rules = open()
	if keys.len() != 0 || string(rules.get(keyOf(1))) != "a rule" || string(rules.get(keyOf(2))) != "another" {
		t.Errorf("%d keys, rules %q and %q", keys.len(), rules.get(keyOf(1)), rules.get(keyOf(2)))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A drain that is too large for one batch is written as several.
func TestLargeBatches(t *testing.T) {
	dir := t.TempDir()
	r := run(t, dir, Options{})
	big := make([]byte, 600<<10)
	for i := range 40 {
		r.tab.set(1, keyOf(i), stateAt(time.Now().UnixNano()+hour, big...))
	}
	r.commit()
	r.tab.perStep = 100
	if err := r.Snapshot(); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		r.tab.set(1, keyOf(i), stateAt(time.Now().UnixNano()+hour, big...))
	}
	r.close()
	r = run(t, dir, Options{})
	if r.tab.len() != 40 {
		t.Errorf("%d keys of 40", r.tab.len())
	}
	r.close()
}

// A drain of 6 MB is one group of batches, and never in memory as a whole.
func TestLargeDrainIsWrittenInParts(t *testing.T) {
	tab, most := newTable(50), 0
	part := tab.part()
	drain := part.Drain
	part.Drain = func(dst *journal.Buffer, limit int) bool {
		more := drain(dst, limit)
		most = max(most, len(dst.Bytes))
		return more
	}
	fs := disktest.New(dataDir)
	open := func(tab *table, part Part) *Store {
		s, _ := openLoaded(t, Options{Dir: dataDir, FS: fs, Parts: []Part{part}, Now: func() int64 { return startAt }})
		return s
	}
	s := open(tab, part)
	for i := range 100 {
		tab.set(1, keyOf(i), stateAt(startAt+hour, make([]byte, 60_000)...))
	}
	before := s.cur.seq
	s.commit()
	if batches := s.cur.seq - before; batches < 5 {
		t.Errorf("%d batches", batches)
	}
	if most > group.DrainBytes+200_000 {
		t.Errorf("%d bytes were drained at once", most)
	}
	if err := s.sync(); err != nil {
		t.Fatal(err)
	}
	fs = fs.Crash(seeded(1))
	again := newTable(3)
	open(again, again.part())
	if again.len() != 100 {
		t.Errorf("%d keys after a crash, want 100", again.len())
	}
}

// Changes count until a snapshot that succeeds begins.
func TestChangesSinceTheLastSnapshot(t *testing.T) {
	r := run(t, t.TempDir(), Options{})
	count := func(want int64) {
		t.Helper()
		if got := r.Stats().Changes; got != want {
			t.Errorf("%d changes since the last snapshot, want %d", got, want)
		}
	}
	change := func(keys int) {
		for i := range keys {
			r.tab.set(1, keyOf(i), stateAt(time.Now().UnixNano()+hour))
		}
		r.commit()
	}
	change(3)
	count(3)
	if err := r.Snapshot(); err != nil {
		t.Fatal(err)
	}
	count(0)
	change(2)
	r.began(r.now())
	change(4)
	r.ended(r.now(), errors.New("full"))
	count(6)
	r.began(r.now())
	change(1)
	r.ended(r.now(), nil)
	count(1)
	r.close()
}

// An error of the disk names the file once.
func TestErrorsNameTheFileOnce(t *testing.T) {
	full, err := disk.OS{}.Edit("/dev/full")
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	l := &logFile{Appender: &disk.Appender{File: full}, name: "/dev/full"}
	if err := l.mark(&batch{}, nil); err == nil || strings.Count(err.Error(), "/dev/full") != 1 {
		t.Error(err)
	}
}
