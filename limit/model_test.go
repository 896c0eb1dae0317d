package limit

import (
	"cmp"
	"fmt"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// walkSeed returns the seed of random walks: that of rapid, or any. The seed of a
// failed walk is printed.
func walkSeed() uint64 {
	seed, _ := strconv.ParseUint(cmp.Or(os.Getenv("RAPID_SEED"), fmt.Sprint(rand.Uint64())), 0, 64)
	return seed
}

// model is an algorithm once more, slow and plain, in integers without bounds.
// It keeps the state of one key.
type model interface {
	// decide is Take, or Refund, and keeps the new state if keep is set.
	decide(l Limit, now, cost int64, refund, keep bool) (Decision, error)
	// expires returns the time, in Unix ns, from which the state behaves like no state; nil if there is no state.
	expires() *big.Int
}

// models has a maker of models for each algorithm of the table.
func models() map[Algorithm]func() model {
	return map[Algorithm]func() model{
		GCRA:      func() model { return new(bucketModel) },
		TOKEN:     func() model { return new(bucketModel) },
		QUEUE:     func() model { return &queueModel{new(bucketModel)} },
		LEAKY:     func() model { return leakyModel{new(bucketModel)} },
		WARMUP:    func() model { return new(warmModel) },
		FIXED:     func() model { return new(fixedModel) },
		SLIDING:   func() model { return &historyModel{origin: new(big.Int)} },
		SEGMENTED: func() model { return &historyModel{origin: new(big.Int)} },
		LOG:       func() model { return new(logModel) },
	}
}

// reserver is a model of an algorithm that can be reserved.
type reserver interface {
	model
	// reserve is Reserve, and keeps the new state if keep is set.
	reserve(l Limit, now, cost, maxWait int64, keep bool) (Decision, error)
}

// badFields returns the error of the first argument that is out of range.
func badFields(l Limit, cost int64) error {
	switch {
	case l.Max < 0:
		return ErrMax
	case l.Period < 1:
		return ErrPeriod
	case l.Burst < 0:
		return ErrBurst
	case cost < 0:
		return ErrCost
	}
	return nil
}

func sub(a, b *big.Int) *big.Int {
	return new(big.Int).Sub(a, b)
}

// twin runs an algorithm and its model side by side on one key.
type twin struct {
	model model
	state []byte // nil: never seen
}

// become makes the model that of another algorithm of its family, with the same state.
func (tw *twin) become(a Algorithm) {
	var b *bucketModel
	switch m := tw.model.(type) {
	case *bucketModel:
		b = m
	case *queueModel:
		b = m.bucketModel
	case leakyModel:
		b = m.model.(*bucketModel)
	default:
		return
	}
	switch a {
	case QUEUE:
		tw.model = &queueModel{b}
	case LEAKY:
		tw.model = leakyModel{b}
	default:
		tw.model = b
	}
}

// step makes the same call on both, and returns an error if they differ.
func (tw *twin) step(l Limit, now, cost int64, giveBack bool) error {
	before := string(tw.state)
	told := fmt.Sprintf("%+v at %d, cost %d, refund %t, state %x, expires %v", l, now, cost, giveBack, before, tw.model.expires())
	want, wantErr := tw.model.decide(l, now, cost, giveBack, false)
	if !giveBack {
		if d, err := peek(&l, tw.state, now, cost); err != wantErr || err == nil && d != want {
			return fmt.Errorf("%s:\npeek %+v, %v\nwant %+v, %v", told, d, err, want, wantErr)
		}
	}
	call := take
	if giveBack {
		call = refund
	}
	next, d, err := call(&l, tw.state, now, cost, nil)
	if d != want || err != wantErr {
		return fmt.Errorf("%s:\n got %+v, %v\nwant %+v, %v", told, d, err, want, wantErr)
	}
	if string(tw.state) != before {
		return fmt.Errorf("%s: the state was changed in place to %x", told, tw.state)
	}
	if next != nil {
		tw.state = next
	}
	if _, err := tw.model.decide(l, now, cost, giveBack, true); err != wantErr {
		return fmt.Errorf("%s: the model is of two minds: %v and %v", told, err, wantErr)
	}
	return tw.sameExpiry(l, now, told)
}

// reserve is step for Reserve.
func (tw *twin) reserve(l Limit, now, cost, maxWait int64) error {
	before := string(tw.state)
	told := fmt.Sprintf("%+v at %d, reserve %d within %d, state %x, expires %v", l, now, cost, maxWait, before, tw.model.expires())
	next, d, err := reserve(&l, tw.state, now, cost, maxWait, nil)
	m, can := tw.model.(reserver)
	if !can {
		if err != ErrReserve || next != nil {
			return fmt.Errorf("%s: %x, %+v, %v", told, next, d, err)
		}
		return nil
	}
	if want, wantErr := m.reserve(l, now, cost, maxWait, true); d != want || err != wantErr {
		return fmt.Errorf("%s:\n got %+v, %v\nwant %+v, %v", told, d, err, want, wantErr)
	}
	if string(tw.state) != before {
		return fmt.Errorf("%s: the state was changed in place to %x", told, tw.state)
	}
	if next != nil {
		tw.state = next
	}
	return tw.sameExpiry(l, now, told)
}

// sameExpiry returns an error if the states expire at different times.
func (tw *twin) sameExpiry(l Limit, now int64, told string) error {
	// An expired state is like no state.
	switch expires := tw.model.expires(); {
	case tw.state == nil && expires == nil:
	case tw.state == nil && expires.Cmp(big.NewInt(now)) <= 0:
	case tw.state == nil:
		return fmt.Errorf("%s: no state, the model's expires at %v", told, expires)
	case expires == nil && Expires(l.Algorithm.Kind(), tw.state) <= now:
	case expires == nil:
		return fmt.Errorf("%s: state %x, the model has none", told, tw.state)
	case !expires.IsInt64() || expires.Int64() != Expires(l.Algorithm.Kind(), tw.state):
		return fmt.Errorf("%s: state %x expires at %d, the model's at %v", told, tw.state, Expires(l.Algorithm.Kind(), tw.state), expires)
	}
	return nil
}

// walk draws limits, times and costs: mostly realistic ones, and now and then
// any integer at all.
type walk struct {
	*rand.Rand
	tb testing.TB
}

func (w walk) edge() int64 {
	edges := [...]int64{0, 1, 2, -1, 1e9, 1 << 31, 1 << 62, 1<<63 - 1, -1 << 63, 1 - 1<<63}
	return edges[w.IntN(len(edges))] + w.Int64N(3) - 1
}

// size returns an integer of 0 or more of any order of magnitude.
func (w walk) size() int64 {
	return w.Int64() >> w.IntN(63)
}

func (w walk) limit(a Algorithm) Limit {
	l := plain(a, w.Int64N(1000), 1+w.Int64N(3600e9), 1+w.Int64N(200))
	switch w.IntN(8) {
	case 0:
		l = plain(a, w.edge(), w.edge(), w.edge())
	case 1:
		l = plain(a, w.size(), w.size(), w.size())
	case 2: // a few tokens are years
		l = plain(a, w.Int64N(30), w.Int64()>>w.IntN(12), 1+w.Int64N(200))
	}
	w.options(&l)
	return l
}

// options draws the options that l's algorithm has.
func (w walk) options(l *Limit) {
	has := func(o option) bool { return optionsOf[l.Algorithm]&o != 0 }
	drawn := func(o option) bool { return has(o) && w.IntN(2) == 0 }
	if !has(optBurst) {
		if 0 <= l.Max && l.Max < 1000 {
			l.Max %= 30 // so that a few calls reach it
		}
		l.Burst = l.Max
	}
	if drawn(optCalendar) {
		l.Period, l.Calendar = 0, Second+Unit(w.IntN(int(Year)))
		l.Zone = mustZone(w.tb, someZones()[w.IntN(len(someZones()))])
	}
	l.Interval = drawn(optInterval)
	l.First = l.Calendar == NoUnit && drawn(optFirst)
	l.CountDenied = drawn(optCountDenied) && w.IntN(2) == 0
	if has(optSegments) {
		l.Segments = 2 + w.Int64N(9)
	}
	if has(optWarm) {
		l.Warm, l.Cold = 1+w.size()>>2, 1+w.Int64N(5)
		switch w.IntN(20) {
		case 0:
			l.Warm, l.Cold = w.edge(), w.edge()
		case 1:
			l.Cold = 1 + w.Int64N(MaxCold)
		}
	}
}

// near returns n, a number beside it, or n divided or multiplied by a power of 2.
func (w walk) near(n int64) int64 {
	switch w.IntN(6) {
	case 0:
		return n + w.Int64N(3) - 1
	case 1:
		return n >> w.IntN(12)
	case 2:
		return n << w.IntN(min(12, bits.LeadingZeros64(uint64(n))+1))
	}
	return n
}

// other returns a limit of l's family that is l but for some of its numbers, and now and then for all options.
func (w walk) other(l Limit) Limit {
	l.Max, l.Burst, l.Warm = w.near(l.Max), w.near(l.Burst), w.near(l.Warm)
	if l.Calendar == NoUnit {
		l.Period = w.near(l.Period)
	}
	if optionsOf[l.Algorithm]&optBurst == 0 {
		l.Burst = l.Max
	}
	if w.IntN(4) == 0 {
		if SameFamily(l.Algorithm.Kind(), GCRA.Kind()) {
			l.Algorithm = []Algorithm{GCRA, TOKEN, LEAKY, QUEUE}[w.IntN(4)]
		}
		l = plain(l.Algorithm, l.Max, max(1, span(l)), l.Burst)
		w.options(&l)
	}
	return l
}

// wait returns the longest wait of a reservation.
func (w walk) wait(l Limit, d Decision) int64 {
	switch w.IntN(8) {
	case 0:
		return w.edge()
	case 1:
		return w.size()
	case 2:
		return w.near(d.Wait)
	case 3:
		return w.near(d.Reset)
	case 4:
		return -1
	}
	return w.Int64N(max(1, l.Period))
}

// TestModel takes 20 000 random steps, in the longer mode 100 000, beside the model and agrees in each.
//
//test:norace
func TestModel(t *testing.T) {
	s := walkSeed()
	w := walk{rand.New(rand.NewPCG(s, 0)), t}
	for _, a := range Algorithms() {
		const perKey = 200
		steps := 20_000
		if os.Getenv("LIMITDB_LONG") == "1" {
			steps = 100_000
		}
		var tw twin
		var l Limit
		var now int64
		var last Decision
		allowed, limited, failed := 0, 0, 0
		for i := range steps {
			if i%perKey == 0 {
				tw, l, now = twin{model: models()[a]()}, w.limit(a), int64(1.7e18)
				if w.IntN(6) == 0 {
					now = w.edge()
				}
			}
			now += w.Int64N(1 + max(1, span(l))/max(1, l.Max, 8)*4)
			if last.Wait > 0 && w.IntN(5) == 0 {
				now += w.near(last.Wait)
			}
			cost := w.Int64N(4)
			switch w.IntN(60) {
			case 0:
				l = w.limit(a)
			case 1, 2:
				l = w.other(l)
			case 3:
				now = w.edge()
			case 4:
				now -= w.size()
			case 5:
				now += w.size()
			case 6:
				now += w.near(last.Reset)
			case 7:
				cost = w.edge()
			case 8:
				cost = w.size()
			case 9, 10:
				cost = w.near(l.Burst)
			}
			tw.become(l.Algorithm)
			var err error
			if w.IntN(6) == 0 {
				err = tw.reserve(l, now, cost, w.wait(l, last))
			} else {
				err = tw.step(l, now, cost, w.IntN(5) == 0)
			}
			if err != nil {
				t.Fatalf("RAPID_SEED=%d, step %d: %v", s, i, err)
			}
			switch last, err = peek(&l, tw.state, now, cost); {
			case err != nil:
				failed++
			case last.Limited:
				limited++
			default:
				allowed++
			}
		}
		// A walk shows little if it hardly ever sees one of the three.
		if allowed < steps/10 || limited < steps/10 || failed < steps/100 {
			t.Errorf("RAPID_SEED=%d: %v: %d allowed, %d limited, %d failed", s, a, allowed, limited, failed)
		}
	}
}
