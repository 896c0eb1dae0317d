package table

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"limitdb/limit"
)

// The tests of this file work on one shard's table directly, with states of
// any size: a state begins with its expiry, and the rest means nothing here.

const second = int64(time.Second)

// start is the fake time at which the tests begin.
const start = 1_700_000_000 * second

func key(i int) []byte { return strconv.AppendInt([]byte("caller:"), int64(i), 10) }

// tableModel is a table and the map that it must agree with.
type tableModel struct {
	a    *Arena
	t    *Table
	want map[string][]byte
}

func newTableModel(seed uint64) *tableModel {
	m := &tableModel{a: NewArena(0), t: new(Table), want: map[string][]byte{}}
	m.t.Init(m.a, &Owner{
		Evicting: func(limit.Kind, []byte) {},
		Evicted:  func() {},
		Holds:    func([]byte) bool { return false },
	}, seed, 0, 0)
	return m
}

// check verifies the invariants in builds with the tag selfcheck.
func (m *tableModel) check() { m.a.Check(m.t.Check()) }

// sweepAll sweeps all segments, and gives unused memory back.
func (m *tableModel) sweepAll(now int64) (dropped int) {
	for m.a.Bury() {
	}
	m.a.Trim(false)
	for cursor, n := uint64(0), 0; ; dropped += n {
		if n, _, cursor = m.t.Sweep(now, cursor, 64); cursor == 0 {
			return dropped + n
		}
	}
}

// SpotOf finds key.
func (t *Table) SpotOf(key []byte) Spot {
	sp := Spot{Hash: Hash(key, t.seed), Key: key}
	t.Find(&sp)
	return sp
}

// put gives a key a state, as one of GCRA.
func (m *tableModel) put(now int64, k, state []byte) error {
	sp := m.t.SpotOf(k)
	return m.t.Put(now, &sp, Mark(limit.GCRA), state, false)
}

// stateOf makes a state of n bytes, 8 or more, that expires at a time.
func stateOf(expires int64, n int, salt byte) []byte {
	s := bytes.Repeat([]byte{salt}, max(n, 8))
	binary.LittleEndian.PutUint64(s, uint64(expires))
	return s
}

func (m *tableModel) set(key, state []byte) error {
	sp := m.t.SpotOf(key)
	if (sp.slot != nil) != (m.want[string(key)] != nil) {
		return fmt.Errorf("%.20q is there: %v", key, sp.slot != nil)
	}
	var err error
	if sp.slot == nil {
		err = m.t.Put(start, &sp, Mark(limit.GCRA), state, false)
	} else {
		err = m.t.Put(start, &sp, Mark(limit.GCRA), state, true)
	}
	m.want[string(key)] = bytes.Clone(state)
	return err
}

// grow appends to a state in place, as an algorithm may that was given its
// slack to write to.
func (m *tableModel) grow(key []byte, n int) error {
	sp := m.t.SpotOf(key)
	if sp.slot == nil {
		return nil
	}
	old := m.t.state(sp.r)
	next := append(old, bytes.Repeat([]byte{byte(n)}, n)...)
	m.want[string(key)] = bytes.Clone(next)
	return m.t.Put(start, &sp, Mark(limit.GCRA), next, true)
}

// shorten cuts a state in place.
func (m *tableModel) shorten(key []byte, n int) error {
	sp := m.t.SpotOf(key)
	if sp.slot == nil {
		return nil
	}
	next := m.t.state(sp.r)
	next = next[:max(8, len(next)-n)]
	m.want[string(key)] = bytes.Clone(next)
	return m.t.Put(start, &sp, Mark(limit.GCRA), next, true)
}

func (m *tableModel) remove(key []byte) error {
	sp := m.t.SpotOf(key)
	if (sp.slot != nil) != (m.want[string(key)] != nil) {
		return fmt.Errorf("%.20q is there: %v", key, sp.slot != nil)
	}
	if sp.slot != nil {
		m.t.Remove(&sp)
	}
	delete(m.want, string(key))
	return nil
}

// sweep drops what has expired at now.
func (m *tableModel) sweep(now int64) error {
	want := 0
	for k, s := range m.want {
		if limit.Expires(limit.GCRA.Kind(), s) <= now {
			delete(m.want, k)
			want++
		}
	}
	if got := m.sweepAll(now); got != want {
		return fmt.Errorf("Sweep dropped %d, want %d", got, want)
	}
	return nil
}

// compare checks every key and state.
func (m *tableModel) compare() error {
	m.check()
	if m.t.n != len(m.want) {
		return fmt.Errorf("%d keys, want %d", m.t.n, len(m.want))
	}
	for k, want := range m.want {
		sp := m.t.SpotOf([]byte(k))
		if sp.slot == nil {
			return fmt.Errorf("%.20q is not there", k)
		}
		r := sp.r
		if got := m.t.state(r); !bytes.Equal(got, want) || string(r.key()) != k {
			return fmt.Errorf("%.20q has %d bytes of state, want %d", k, len(got), len(want))
		}
	}
	return nil
}

// tableKey is one of the keys that share a long prefix, up to MaxKey bytes.
func tableKey(i int) []byte {
	n := i * 37 % 700
	if i%50 == 0 {
		n = MaxKey - 4
	}
	return binary.BigEndian.AppendUint32(bytes.Repeat([]byte{'p'}, n), uint32(i))
}

// sizes are states around every bound of the layout.
var sizes = []int{
	8, 8, 8, 9, 16, exactRoom - 1, exactRoom, exactRoom + 1, 100, 1<<7 - 2, 1<<7 - 1, 1 << 7, 1<<7 + 1, 500, 4000, maxInline - 1, maxInline, maxInline + 1, 50_000,
	lateGrowth - 1, lateGrowth, lateGrowth + 1, minBoxed - 1, minBoxed, minBoxed + 1, spanSize - 1, spanSize, spanSize + 1,
}

func (m *tableModel) step(op, size byte, i uint16) error {
	key := tableKey(int(i % 1000))
	n := sizes[int(size)%len(sizes)]
	switch op % 8 {
	case 0, 1, 2:
		return m.set(key, stateOf(start+int64(i%7), n, size))
	case 3:
		return m.grow(key, n-7)
	case 4:
		return m.shorten(key, n)
	case 5, 6:
		return m.remove(key)
	}
	for d := range m.t.dir.Load().segs {
		m.t.dir.Load().segs[d].Load().rest = 0
	}
	return m.sweep(start + int64(size%4) - 1)
}

func TestTableAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newTableModel(rapid.Uint64Min(1).Draw(t, "seed"))
		for range rapid.IntRange(0, 3).Draw(t, "fill") {
			for i := range 300 {
				if err := m.set(tableKey(i*7%1000), stateOf(start+int64(i%7), 8, byte(i))); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"step": func(t *rapid.T) {
				if err := m.step(rapid.Byte().Draw(t, "op"), rapid.Byte().Draw(t, "size"), rapid.Uint16().Draw(t, "key")); err != nil {
					t.Fatal(err)
				}
			},
		})
		if err := m.compare(); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzTableAgainstMap takes steps until they have moved a few MB: one state that only grows would take seconds.
func FuzzTableAgainstMap(f *testing.F) {
	const most, least = 4 << 20, 8 << 10 // bytes, of an input and of a step
	f.Add(append([]byte{0, 0, 0, 1}, bytes.Repeat([]byte{3, 27, 0, 1}, most/least)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		m := newTableModel(1)
		for moved := 0; len(data) >= 4 && moved < most; data = data[4:] {
			i := binary.BigEndian.Uint16(data[2:])
			if err := m.step(data[0], data[1], i); err != nil {
				t.Fatal(err)
			}
			moved += least + len(m.want[string(tableKey(int(i%1000)))])
		}
		if err := m.compare(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestTableGrowsAndShrinks takes a table up to many segments and back, again
// and again, in different orders.
func TestTableGrowsAndShrinks(t *testing.T) {
	m := newTableModel(3)
	empty := m.a.Used()
	for round := range 3 {
		const n = 30_000
		for i := range n {
			if err := m.set(key(i), stateOf(start+int64(i%2), 8+i%5, byte(i))); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.compare(); err != nil {
			t.Fatal(err)
		}
		if depth := m.t.dir.Load().depth; depth < 4 {
			t.Fatalf("depth %d with %d keys", depth, n)
		}
		switch round {
		case 0: // one by one, in an order of its own
			for i := range n {
				if err := m.remove(key(i * 7919 % n)); err != nil {
					t.Fatal(err)
				}
			}
		case 1: // half, then the rest
			for now := start; now < start+2; now++ {
				if err := m.sweep(now); err != nil {
					t.Fatal(err)
				}
				if err := m.compare(); err != nil {
					t.Fatal(err)
				}
			}
		case 2:
			m.t.Flush()
			clear(m.want)
		}
		for range 3 {
			m.sweepAll(0)
		}
		if err := m.compare(); err != nil {
			t.Fatal(err)
		}
		if got := m.a.Used(); got != empty || m.t.dir.Load().depth != 0 {
			t.Errorf("round %d: %d bytes at depth %d when empty, %d at first", round, got, m.t.dir.Load().depth, empty)
		}
	}
}

// TestBytesPerKey checks the promises of the layout: 28 bytes of record,
// and an index and free space that take less than 12.
//
//test:norace
func TestBytesPerKey(t *testing.T) {
	for _, n := range []int{100_000, 150_000, 200_000} {
		m := newTableModel(5)
		for i := range n {
			k := fmt.Appendf(nil, "key:%013d", i)
			if err := m.put(start, k, stateOf(start, 8, 0)); err != nil {
				t.Fatal(err)
			}
		}
		m.a.Trim(true)
		if got := float64(m.a.Used()) / float64(n); got > 40 {
			t.Errorf("%d keys: %.1f bytes each", n, got)
		}
	}
}

// TestChurnLeavesNothing replaces short-lived keys for many generations.
func TestChurnLeavesNothing(t *testing.T) {
	m := newTableModel(9)
	peak := int64(0)
	for gen := range 40 {
		now := start + int64(gen)*second
		for i := range 3000 {
			k := key(gen*3000 + i)
			if err := m.put(now, k, stateOf(now+2*second, 8+gen%3*100, 1)); err != nil {
				t.Fatal(err)
			}
		}
		m.sweepAll(now)
		m.check()
		if gen == 6 {
			peak = m.a.Used()
		}
	}
	if got := m.a.Used(); got > 2*peak || m.t.n > 4*3000 {
		t.Errorf("%d bytes and %d keys after 40 generations, %d bytes after 6", got, m.t.n, peak)
	}
}

// TestLinesAreStretches checks that a line's start is the first place of it.
func TestLinesAreStretches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := segment{
			width: rapid.UintRange(12, PlaceBits).Draw(t, "width"),
			lines: rapid.Uint64Range(1, 2000).Draw(t, "lines"),
		}
		g.start = rapid.Uint64Range(0, 1<<(PlaceBits-g.width)-1).Draw(t, "prefix") << g.width
		b := rapid.Uint64Range(0, g.lines-1).Draw(t, "line")
		first := g.lineStart(b)
		if got := g.home(first << placeShift); got != b {
			t.Fatalf("line %d starts at %x, in line %d", b, first, got)
		}
		if b == 0 {
			if first != g.start {
				t.Fatalf("the first line starts at %x, the segment at %x", first, g.start)
			}
		} else if got := g.home((first - 1) << placeShift); got != b-1 {
			t.Fatalf("before line %d there is line %d", b, got)
		}
	})
}

// TestNearlyFullSpan lengthens the states of keys until they need more than a span. Their segment is split before that, and not written anew
// again and again for the little garbage that has come together since.
func TestNearlyFullSpan(t *testing.T) {
	m := newTableModel(9)
	const keys = 600
	rewritten, before := 0, m.t.lookup(0)
	for n := 150; n <= 240; n += 5 { // 600 × 240 bytes are more than a span
		for i := range keys {
			if err := m.put(start, key(i), stateOf(start+3600*second, n, 1)); err != nil {
				t.Fatal(err)
			}
			if g := m.t.lookup(0); g != before {
				rewritten, before = rewritten+1, g
			}
		}
		m.check()
	}
	if m.t.lookup(0).depth == 0 || rewritten > 45 {
		t.Errorf("the first segment has been replaced %d times, and its depth is %d", rewritten, m.t.lookup(0).depth)
	}
}
