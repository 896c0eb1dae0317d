package group

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// beating are drainers that share a beat, in virtual time. A test drains in their place.
type beating struct {
	beat Beat
	all  []*Seat
	due  []atomic.Bool // told to drain
}

func newBeating(n int) *beating {
	b, began := &beating{due: make([]atomic.Bool, n)}, time.Now()
	for i := range n {
		b.all = append(b.all, NewSeat(&b.beat, func() int64 { return int64(time.Since(began)) }, func() { b.due[i].Store(true) }))
	}
	return b
}

// told returns which drainers were told to drain, by their indexes, and has them begin.
func (b *beating) told() (told []int) {
	synctest.Wait()
	for i, s := range b.all {
		if b.due[i].Swap(false) {
			s.Begins()
			told = append(told, i)
		}
	}
	return told
}

func (b *beating) ask(all ...int) {
	for _, i := range all {
		b.all[i].Ask()
	}
}

func (b *beating) end(all ...int) {
	for _, i := range all {
		b.all[i].Ended()
	}
}

func TestBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeating(4)
		expect := func(when string, want ...int) {
			t.Helper()
			if got := b.told(); !slices.Equal(got, want) {
				t.Errorf("%s: %v are told to drain, want %v", when, got, want)
			}
		}
		b.ask(0)
		expect("alone", 0)
		b.ask(1, 2, 1, 0)
		expect("while one is in flight")
		b.end(0)
		expect("in the next beat", 0, 1, 2)
		b.ask(3)
		b.end(1, 2, 2)
		expect("while one of three is in flight")
		b.ask(1)
		time.Sleep(beatLimit - 1)
		expect("shortly before it is late")
		time.Sleep(time.Nanosecond)
		expect("without the one that is late", 1, 3)
		b.ask(0)
		expect("who is late waits for nobody", 0)
		b.end(0)
		b.ask(0)
		expect("it has caught up")
		b.end(1, 3)
		expect("with the others again", 0)
		b.ask(2, 3)
		b.all[2].Leaves()
		b.all[0].Leaves()
		expect("one that has asked stops, and the one in flight", 3)
		b.ask(2)
		expect("after it has stopped", 2)
		b.end(3)
		time.Sleep(time.Hour)
		expect("nobody asks")
	})
}

// TestBeatRests has drainers begin late, as where the processors are busy.
func TestBeatRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeating(3)
		// both has a beat of two, of which the last begins after a lag.
		both := func(lag time.Duration) {
			t.Helper()
			b.ask(2)
			b.told()
			b.ask(0, 1)
			b.end(2)
			time.Sleep(lag)
			if got := b.told(); !slices.Equal(got, []int{0, 1}) {
				t.Fatal(got)
			}
			b.end(0, 1)
		}
		expect := func(when string, want ...int) {
			t.Helper()
			if got := b.told(); !slices.Equal(got, want) {
				t.Errorf("%s: %v are told to drain, want %v", when, got, want)
			}
		}
		both(0)
		b.ask(0)
		expect("after a beat without a lag", 0)
		time.Sleep(time.Millisecond)
		b.end(0)

		both(400 * time.Microsecond)
		b.ask(0)
		time.Sleep(restLags*100*time.Microsecond - 1) // the mean of the lags is a quarter
		expect("during the rest")
		b.ask(1)
		time.Sleep(time.Nanosecond)
		expect("after the rest", 0, 1)
		b.end(0, 1)
		time.Sleep(restMost)

		for range 50 {
			both(beatLimit - 1)
			time.Sleep(restMost)
		}
		both(beatLimit - 1)
		b.ask(1)
		time.Sleep(restMost - 1)
		expect("during the longest rest")
		time.Sleep(time.Nanosecond)
		expect("after the longest rest", 1)
		b.end(1)
		b.ask(2)
		expect("after a beat of one", 2)
	})
}

// TestBeatForgetsNobody asks, drains and ends in any order: whoever has asked is told to drain before the longest beat and rest are over.
func TestBeatForgetsNobody(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			b := newBeating(1 + r.IntN(6))
			asked, flies := make([]time.Time, len(b.all)), make([]bool, len(b.all))
			look := func() {
				for _, i := range b.told() {
					asked[i], flies[i] = time.Time{}, true
				}
				for i, at := range asked {
					if !at.IsZero() && time.Since(at) > beatLimit+restMost {
						t.Fatalf("seed %d: %d has waited for %s", seed, i, time.Since(at))
					}
				}
			}
			for range 300 {
				switch i := r.IntN(len(b.all)); r.IntN(4) {
				case 0:
					if asked[i].IsZero() {
						asked[i] = time.Now()
					}
					b.ask(i)
				case 1:
					if flies[i] {
						flies[i] = false
						b.end(i)
					}
				case 2:
					look()
				case 3:
					for range r.IntN(25) {
						time.Sleep(time.Millisecond)
						look()
					}
				}
			}
		})
	}
}
