package limit

import (
	"strconv"
	"testing"
)

// fullLog returns a log of so many units, the newest of them at now, one each ns.
func fullLog(tb testing.TB, l Limit, now, each int64) []byte {
	tb.Helper()
	state := make([]byte, 0, 1<<20)
	for i := l.Max - 1; i >= 0; i-- {
		next, d, err := take(&l, state, now-i*each, 1, state)
		if err != nil || d.Limited {
			tb.Fatal(d, err)
		}
		state = next
	}
	return state
}

// BenchmarkLog runs on full logs of any length: one unit comes for each that
// goes, a request is denied, or half the log has gone by the time of a peek.
func BenchmarkLog(b *testing.B) {
	for _, most := range []int64{5, 100, 500, 5000, MaxLog} {
		l := plain(LOG, most, 3600e9, most)
		each := (l.Period + most - 1) / most
		now := int64(1.7e18)
		full := fullLog(b, l, now, each)
		name := strconv.FormatInt(most, 10)
		b.Run(name+"/allowed", func(b *testing.B) {
			state, now := append(make([]byte, 0, 1<<20), full...), now
			b.ReportAllocs()
			for i := int64(0); b.Loop(); i++ {
				now += each + i%7
				next, d, err := take(&l, state, now, 1, state)
				if err != nil || d.Limited {
					b.Fatal(d, err)
				}
				state = next
			}
			b.ReportMetric(float64(len(state))/float64(most), "B/entry")
		})
		b.Run(name+"/denied", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, d, err := take(&l, full, now, 1, nil); err != nil || !d.Limited {
					b.Fatal(d, err)
				}
			}
		})
		b.Run(name+"/half gone", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d, err := peek(&l, full, now+l.Period/2, most); err != nil || !d.Limited {
					b.Fatal(d, err)
				}
			}
		})
		b.Run(name+"/refund and take", func(b *testing.B) {
			state := append(make([]byte, 0, 1<<20), full...)
			b.ReportAllocs()
			for b.Loop() {
				back, _, err := refund(&l, state, now, 1, state)
				if err != nil {
					b.Fatal(err)
				}
				next, d, err := take(&l, back, now, 1, back)
				if err != nil || d.Limited {
					b.Fatal(d, err)
				}
				state = next
			}
		})
	}
}
