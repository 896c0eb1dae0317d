package persistence

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"limitdb/engine"
	"limitdb/internal/disk"
	"limitdb/internal/journal"
	"limitdb/limit"
)

// enginePart returns the engine's table as a part, as cmd/limitdb makes it.
func enginePart(e *engine.Engine) Part {
	return Part{
		Owns: func(kind byte) bool { return kind < journal.Foreign }, Dirty: e.Dirty, Cut: e.Cut, Drain: e.Drain,
		Copy:   func(cursor uint64, dst *journal.Buffer) uint64 { return e.Copy(startAt, cursor, dst) },
		Expect: func(keys int64) error { return e.Expect(startAt, keys) },
		Apply:  e.Restore,
		Resume: func(v uint64, gate *journal.Gate, notify func()) { e.Tidy(); e.StartJournal(v, gate, notify) },
	}
}

func openBench(b *testing.B, dir string, e *engine.Engine, policy Policy) (*Store, Loaded) {
	b.Helper()
	return openLoaded(b, Options{
		Dir: dir, FS: disk.OS{}, Parts: []Part{enginePart(e)}, Policy: policy,
		Now: func() int64 { return startAt }, Workers: runtime.GOMAXPROCS(0),
	})
}

const benchKeys = 2_000_000

func fill(b *testing.B, e *engine.Engine) {
	b.Helper()
	l := limit.Limit{Algorithm: limit.GCRA, Max: 1, Period: hour, Burst: 100}
	var d limit.Decision
	for i := range benchKeys {
		if err := e.TakeAt(0, startAt, fmt.Appendf(nil, "user:%012d", i), &l, 1, &d); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad loads a snapshot of 2 M keys of 17 bytes, and BenchmarkReplay a log of them.
func BenchmarkLoad(b *testing.B)   { benchLoad(b, true) }
func BenchmarkReplay(b *testing.B) { benchLoad(b, false) }

func benchLoad(b *testing.B, snapshot bool) {
	dir := b.TempDir()
	e := engine.New(engine.Options{})
	s, _ := openBench(b, dir, e, Never)
	fill(b, e)
	s.commit()
	if snapshot {
		if err := s.Snapshot(); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		e := engine.New(engine.Options{})
		s, l := openBench(b, dir, e, Never)
		if l.Sets != benchKeys {
			b.Fatalf("%+v", l)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*benchKeys/b.Elapsed().Seconds()/1e6, "Mkeys/s")
}

// BenchmarkSnapshot writes a snapshot of 2 M keys.
func BenchmarkSnapshot(b *testing.B) {
	e := engine.New(engine.Options{})
	s, _ := openBench(b, b.TempDir(), e, Never)
	fill(b, e)
	for b.Loop() {
		if err := s.Snapshot(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*benchKeys/b.Elapsed().Seconds()/1e6, "Mkeys/s")
}

// BenchmarkCommit drains, frames and writes 1000 records with 8 bytes of state for each commit. Nothing is
// synced.
func BenchmarkCommit(b *testing.B) {
	t := newTable(1)
	part := t.part()
	var records journal.Buffer
	for i := range 1000 {
		records.Set(uint64(i), 1, fmt.Appendf(nil, "user:%012d", i), binary.LittleEndian.AppendUint64(nil, 1))
	}
	part.Drain = func(dst *journal.Buffer, _ int) bool {
		dst.Add(&records)
		return false
	}
	s, _ := openLoaded(b, Options{Dir: b.TempDir(), FS: disk.OS{}, Parts: []Part{part}, Policy: Never, Now: func() int64 { return startAt }})
	b.SetBytes(int64(len(records.Bytes)))
	for b.Loop() {
		s.commit()
	}
}
