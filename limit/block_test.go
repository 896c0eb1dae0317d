package limit

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// blockModel is a key with blocks in plain fields. What the algorithm does is Take's own.
type blockModel struct {
	state  []byte
	blocks bool // there has been a block that is not forgotten
	from   int64
	length int64
	memory int64
}

// over returns when the block is over for takes under l.
func (m *blockModel) over(l Limit) int64 {
	length := m.length
	if most := max(l.Block, l.BlockMost); l.Block > 0 && most < length {
		length = most
	}
	return m.from + length
}

func (m *blockModel) take(l Limit, now, cost int64) (d Decision, begun bool) {
	if m.blocks && now >= m.from+m.length+m.memory {
		m.blocks = false
	}
	if m.blocks && now < m.over(l) {
		uncounted := l
		uncounted.CountDenied = false
		_ = Peek(&l, m.state, now, cost, &d)
		if d.Limited {
			m.keep(&uncounted, now, cost, &d)
		} else {
			d.Wait = 0
		}
		if d.Wait != Never {
			d.Wait = max(d.Wait, m.over(l)-now)
		}
		d.Limited, d.Remaining, d.Reset = true, 0, max(d.Reset, m.from+m.length+m.memory-now)
		return d, false
	}
	m.keep(&l, now, cost, &d)
	if d.Limited && l.Block > 0 && cost > 0 {
		length := l.Block
		if m.blocks && l.BlockMost > 0 && now < m.over(l)+l.Block {
			length = min(l.BlockMost, max(l.Block, 2*(m.over(l)-m.from)))
		}
		*m = blockModel{state: m.state, blocks: true, from: now, length: length}
		if l.BlockMost > 0 {
			m.memory = l.Block
		}
		if begun, d.Remaining = true, 0; d.Wait != Never {
			d.Wait = max(d.Wait, length)
		}
	}
	if m.blocks {
		d.Reset = max(d.Reset, m.from+m.length+m.memory-now)
	}
	return d, begun
}

func (m *blockModel) keep(l *Limit, now, cost int64, d *Decision) {
	next, err := Take(l, m.state, now, cost, nil, d)
	if err != nil {
		panic(err)
	}
	if next != nil {
		m.state = next
	}
}

// blocking draws the BLOCK of a limit, or none.
func blocking(r *rand.Rand, l *Limit) {
	l.Block, l.BlockMost = 0, 0
	if r.IntN(5) > 0 {
		l.Block = []int64{1, 2, 1e9, 7e9, 60e9, 3600e9}[r.IntN(6)] + r.Int64N(2)
		l.BlockMost = []int64{0, l.Block + 1, 2*l.Block - 1, 2*l.Block + 1, 9 * l.Block}[r.IntN(5)]
		if l.BlockMost <= l.Block {
			l.BlockMost = 0
		}
	}
}

// Over all algorithms, with limits that change, a key is what the model says: it admits nothing while it is
// blocked, blocks are doubled up to the most, and waits are exact.
func TestBlockModel(t *testing.T) {
	for _, a := range Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			for seed := range uint64(60) {
				r := rand.New(rand.NewPCG(seed, uint64(a)))
				blockHistory(t, walk{r, t}, a)
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

func blockHistory(t *testing.T, w walk, a Algorithm) {
	draw := func() Limit {
		for {
			l := plain(a, 1+w.Int64N(4), []int64{1e9, 60e9, 3600e9}[w.IntN(3)], 1+w.Int64N(4))
			w.options(&l)
			if blocking(w.Rand, &l); l.Validate() == nil {
				return l
			}
		}
	}
	l, now := draw(), int64(1_700_000_000_000_000_000)
	var m blockModel
	var kind Kind
	var state []byte
	buf := make([]byte, 0, w.IntN(2*(blockHead+MaxState)))
	for range 150 {
		if w.IntN(12) == 0 {
			l = draw()
		}
		steps := []int64{0, 0, 1, 1e9, l.Period / 2, l.Block, l.Block - 1, m.from + m.length - now, m.over(l) - now, m.over(l) - now - 1, m.over(l) + l.Block - now, m.over(l) + l.Block - 1 - now, m.from + m.length + m.memory - now}
		if step := steps[w.IntN(len(steps))]; 0 < step && step < 1e15 {
			now += step
		}
		cost := w.Int64N(4)
		var peeked, d Decision
		if err := PeekBlock(&l, kind, state, now, cost, &peeked); err != nil {
			t.Fatal(err)
		}
		before := bytes.Clone(state)
		next, as, err := TakeBlock(&l, kind, state, now, cost, buf, &d)
		if err != nil {
			t.Fatalf("%v at %d: %v", l, now, err)
		}
		was := m
		want, begun := m.take(l, now, cost)
		if d != want || !bytes.Equal(before, state) {
			t.Fatalf("%v at %d, cost %d, %+v, was %v %x, %x:\n got %+v\nwant %+v", l, now, cost, was, kind, before, state, d, want)
		}
		if !begun && !l.CountDenied && peeked != d && (cost == 0 || d.Limited) {
			t.Fatalf("%v at %d, cost %d: took %+v, and looked at %+v", l, now, cost, d, peeked)
		}
		if next != nil {
			kind, state = as, bytes.Clone(next)
		}
		if kind != 0 && Expires(kind, state) <= now {
			kind, state = 0, nil
		}
		if (kind == BLOCK) != (m.blocks && now < m.from+m.length+m.memory) && (next != nil || kind != BLOCK) {
			t.Fatalf("%v at %d: %v %x for %+v", l, now, kind, state, m)
		}
		if d.Limited && cost > 0 && d.Wait != Never {
			blockWait(t, l, kind, state, now, cost, d.Wait)
		}
	}
}

// blockWait checks that a wait is exact.
func blockWait(t *testing.T, l Limit, kind Kind, state []byte, now, cost, wait int64) {
	t.Helper()
	for _, early := range []int64{1, 0} {
		var d Decision
		if wait == early {
			continue
		}
		if err := PeekBlock(&l, kind, state, now+wait-early, cost, &d); err != nil || d.Limited != (early == 1) {
			t.Fatalf("%v at %d, cost %d, state %v %x: %d ns before %d it is %+v, %v", l, now, cost, kind, state, early, wait, d, err)
		}
	}
}

// A block in steps: see block.go.
func TestBlockSteps(t *testing.T) {
	const s = int64(1e9)
	l := mustParse(t, "FIXED 1/s BLOCK 10s UPTO 25s")
	var kind Kind
	var state []byte
	for i, step := range []struct {
		at, cost  int64
		limited   bool
		wait      int64
		remaining int64
	}{
		{0, 1, false, Never, 0},
		{0, 0, false, Never, 0}, // a look begins no block
		{0, 1, true, 10 * s, 0},
		{5 * s, 1, true, 5 * s, 0}, // which is no longer for that
		{5 * s, 0, true, 5 * s, 0},
		{10*s - 1, 1, true, 1, 0},
		{10 * s, 1, false, Never, 0},
		{20*s - 1, 2, true, Never, 0}, // less than 10 s after the first: 20 s
		{40*s - 2, 1, true, 1, 0},
		{40*s - 1, 1, false, Never, 0},
		{40*s - 1, 2, true, Never, 0}, // at most 25 s
		{65*s - 2, 1, true, 1, 0},
		{65*s - 1, 1, false, Never, 0},
		{75*s - 1, 2, true, Never, 0}, // 10 s after the last: it is forgotten
		{85*s - 2, 1, true, 1, 0},
		{85*s - 1, 1, false, Never, 0},
	} {
		var d Decision
		next, as, err := TakeBlock(&l, kind, state, step.at, step.cost, nil, &d)
		if err != nil || d.Limited != step.limited || d.Wait != step.wait || d.Remaining != step.remaining {
			t.Fatalf("step %d: %+v, %v", i, d, err)
		}
		if next != nil {
			kind, state = as, next
		}
	}
}

// A shorter BLOCK ends a block sooner; a longer one, and none, leave it as it is.
func TestBlockChanges(t *testing.T) {
	const s = int64(1e9)
	hour := mustParse(t, "GCRA 1/s BLOCK 1h")
	var d Decision
	now := int64(1_700_000_000_000_000_000)
	state, kind, err := TakeBlock(&hour, 0, nil, now, 5, nil, &d)
	if err != nil || kind != BLOCK {
		t.Fatal(kind, err)
	}
	for _, c := range []struct {
		limit string
		left  int64
	}{{"GCRA 1/s BLOCK 10m", 600 * s}, {"GCRA 1/s BLOCK 10m UPTO 20m", 1200 * s}, {"GCRA 1/s BLOCK 2h", 3600 * s}, {"GCRA 5/s", 3600 * s}} {
		l := mustParse(t, c.limit)
		if err := PeekBlock(&l, kind, state, now, 1, &d); err != nil || !d.Limited || d.Wait != c.left {
			t.Errorf("%s: %+v, %v", c.limit, d, err)
		}
		if err := PeekBlock(&l, kind, state, now+c.left, 1, &d); err != nil || d.Limited {
			t.Errorf("%s: %+v, %v", c.limit, d, err)
		}
	}
}

// States that no block has are refused, and times that do not fit.
func TestBlockBadStates(t *testing.T) {
	l := mustParse(t, "GCRA 1/s BLOCK 1h UPTO 2h")
	var d Decision
	good := (&Block{Until: 100, Length: 5, Memory: 300}).Put(nil, GCRA.Kind(), []byte{50, 0, 0, 0, 0, 0, 0, 0})
	if err := PeekBlock(&l, BLOCK, good, 0, 1, &d); err != nil || d.Wait != 100 || d.Reset != 400 {
		t.Fatal(d, err)
	}
	for n := range len(good) - 8 {
		if err := PeekBlock(&l, BLOCK, good[:n], 0, 1, &d); err != ErrState {
			t.Errorf("%x: %+v, %v", good[:n], d, err)
		}
	}
	bad := bytes.Clone(good)
	bad[len(good)-9] = byte(LEASE)
	if err := PeekBlock(&l, BLOCK, bad, 0, 1, &d); err != ErrState {
		t.Errorf("around leases: %v", err)
	}
}

// Near the end of time, a denial whose block would end after it is an error, which leaves the decision as it was.
func TestBlockAtTheEndOfTime(t *testing.T) {
	was := Decision{Limit: 1, Remaining: 2, Wait: 3, Reset: 4}
	for _, a := range Algorithms() {
		l := sample(t, a)
		l.Block, l.BlockMost = 60e9, 3600e9
		for _, now := range []int64{math.MaxInt64 - 1, math.MaxInt64 - 60e9, math.MaxInt64 - 120e9 + 1} {
			d := was
			next, as, err := TakeBlock(&l, 0, nil, now, l.Max+l.Burst+1, nil, &d)
			if err != ErrOverflow || d != was || next != nil || as != 0 {
				t.Errorf("%v at %d: %+v, %x of kind %v, %v", l, now, d, next, as, err)
			}
		}
	}
}

func FuzzBlock(f *testing.F) {
	f.Add((&Block{Until: 100, Length: 5, Memory: 300}).Put(nil, LOG.Kind(), []byte("12345678")), int64(50), int64(1), uint8(LOG))
	f.Fuzz(func(t *testing.T, state []byte, now, cost int64, number uint8) {
		a := Algorithm(number)
		if !a.Valid() {
			return
		}
		l := sample(t, a)
		l.Block, l.BlockMost = 60e9, 3600e9
		var b Block
		if k, _, err := b.Open(state, now); err != nil || k != 0 && !SameFamily(k, a.Kind()) {
			return
		}
		var d Decision
		next, as, err := TakeBlock(&l, BLOCK, state, now, cost, nil, &d)
		if err == nil && next != nil && as == BLOCK {
			if _, _, err := b.Open(next, now); err != nil {
				t.Fatalf("%x made %x: %v", state, next, err)
			}
		}
	})
}
