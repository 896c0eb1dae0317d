package bench

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"limitdb/engine"
	"limitdb/limit"
)

// typical returns a limit of 1000 an hour for every algorithm, and again for the options that change its
// state.
func typical(b *testing.B) (all []limit.Limit) {
	b.Helper()
	for _, a := range limit.Algorithms() {
		known := len(all)
		for _, text := range []string{"1000/h", "1000/h INTERVAL", "1000 CALENDAR hour TZ Europe/Berlin", "1000/h SEGMENTS 60"} {
			if l, err := limit.Parse(a.String() + " " + text); err == nil {
				all = append(all, l)
			}
		}
		if len(all) == known {
			b.Fatalf("%s has no typical limit here", a)
		}
	}
	return all
}

// id8 writes user i in 8 bytes.
func id8(buf []byte, i int) []byte { return binary.LittleEndian.AppendUint64(buf[:0], uint64(i)) }

// BenchmarkAlgorithms shows what a decision costs under each algorithm, and the memory of a user who asks 100
// times an hour: for the state alone, and with an 8-byte key, the record around both, and a slot in the
// index.
func BenchmarkAlgorithms(b *testing.B) {
	const users, asks = 10_000, 100
	for _, l := range typical(b) {
		b.Run(l.String(), func(b *testing.B) {
			e := engine.New(engine.Options{})
			r := rand.New(rand.NewPCG(1, 2))
			now := t0
			var buf []byte
			var d limit.Decision
			ask := func() {
				now += 1 + r.Int64N(2*int64(time.Hour)/(users*asks))
				buf = id8(buf, r.IntN(users))
				if err := e.TakeAt(0, now, buf, &l, 1, &d); err != nil {
					b.Fatal(err)
				}
			}
			for range users * asks {
				ask()
			}
			bytes, live := int64(0), int64(0)
			for i := range users {
				key := id8(buf, i)
				err := e.UpdateAt(0, now, [][]byte{key}, func(t *engine.Txn) error {
					info, ok, err := t.Info(key)
					if ok {
						bytes, live = bytes+info.Bytes, live+1
					}
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				ask()
			}
			b.ReportMetric(float64(stateBytes(b, l, asks)), "state-B")
			b.ReportMetric(float64(bytes)/float64(live), "key-B")
		})
	}
}

// stateBytes returns the size of the longest state of one user who asks this often in an hour.
func stateBytes(b *testing.B, l limit.Limit, asks int) int {
	b.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	var state []byte
	var d limit.Decision
	longest := 0
	for i, now := 0, t0; i < 2*asks; i++ {
		now += 1 + r.Int64N(2*int64(time.Hour)/int64(asks))
		next, err := limit.Take(&l, state, now, 1, nil, &d)
		if err != nil {
			b.Fatal(err)
		}
		if next != nil {
			state = next
		}
		longest = max(longest, len(state))
	}
	return longest
}

// BenchmarkCounterBytes reports how much more resident memory counters take than an empty engine: a million
// users of 8 bytes in one window, and users with small or large counts in each of 60 sub-windows.
func BenchmarkCounterBytes(b *testing.B) {
	for _, test := range []struct {
		limit       string
		users, asks int   // asks is the number of each user's requests, spread over an hour
		cost        int64 // of each request
	}{
		{"FIXED 100/h", 1_000_000, 1, 1},
		{"SLIDING 100/h", 1_000_000, 1, 1},
		{"SEGMENTED 1000/h SEGMENTS 60", 100_000, 60, 1},
		{"SEGMENTED 100000/h SEGMENTS 60", 100_000, 60, 1000},
		{"SEGMENTED 1000000000/h SEGMENTS 60", 100_000, 60, 1_000_000},
	} {
		l, err := limit.Parse(test.limit)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(l.String(), func(b *testing.B) {
			for b.Loop() {
				e := engine.New(engine.Options{})
				before, empty := resident(b), e.Stats().Bytes
				start := t0 - t0%l.Period
				var buf []byte
				var d limit.Decision
				for i := range test.asks {
					now := start + int64(i)*l.Period/int64(test.asks)
					for u := range test.users {
						buf = id8(buf, u)
						if err := e.TakeAt(0, now, buf, &l, test.cost, &d); err != nil || d.Limited {
							b.Fatal(d, err)
						}
					}
				}
				grown := resident(b) - before
				b.ReportMetric(float64(grown)/1e6, "RSS-MB")
				b.ReportMetric(float64(grown)/float64(test.users), "RSS-B/user")
				b.ReportMetric(float64(e.Stats().Bytes-empty)/float64(test.users), "counted-B/user")
				e.Flush()
				runtime.KeepAlive(e)
			}
		})
	}
}
