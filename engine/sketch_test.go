package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"limitdb/engine/table"
	"limitdb/limit"
)

// told returns what a sketch reports, by hash.
func (t *sketch) told() map[uint64]uint64 {
	all := map[uint64]uint64{}
	t.each(func(h uint64, _ []byte, _ int, count uint32) { all[h] += uint64(count) })
	return all
}

// Space-Saving's bounds hold for skewed streams and through halvings, compared
// with exact counts. A reported count is never above the truth. It is below it by
// at most the least count, which is a twelfth of all, and 3 for the halvings.
func TestSketchKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var sk sketch
		now := start - start%minute
		sk.age(now)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		zipf := rand.NewZipf(r, rapid.SampledFrom([]float64{1.01, 1.3, 2}).Draw(rt, "skew"), 1, 500)
		exact, all := map[uint64]float64{}, 0.0
		for range rapid.IntRange(1, 4).Draw(rt, "minutes") {
			for range rapid.IntRange(0, 5000).Draw(rt, "n") {
				h, w := table.Mix(zipf.Uint64()), uint32(1+r.IntN(3))
				sk.add(h, key(int(h%1000)), w)
				exact[h] += float64(w)
				all += float64(w)
			}
			told, least := sk.told(), float64(sk.counts[0])
			for _, c := range sk.counts {
				least = min(least, float64(c))
			}
			if least > all/sketchKeys {
				rt.Fatalf("the least count is %v, of %v in all", least, all)
			}
			for h, want := range exact {
				if got := float64(told[h]); got > want || got < want-least-3 {
					rt.Fatalf("%v of %v, %v was told, the least count is %v", want, all, got, least)
				}
			}
			steps := rapid.Int64Range(1, 3).Draw(rt, "steps")
			now += steps * minute
			sk.age(now)
			for h := range exact {
				exact[h] /= float64(int(1) << steps)
			}
			all /= float64(int(1) << steps)
		}
	})
}

func TestSketchForgets(t *testing.T) {
	var sk sketch
	sk.note(start, 1, []byte("k"))
	for range 9 {
		sk.note(start, 2, []byte("often"))
	}
	for i, want := range []map[uint64]uint64{{1: 1, 2: 9}, {2: 4}, {2: 2}, {2: 1}, {}} {
		sk.age(start + int64(i)*minute)
		if got := fmt.Sprint(sk.told()); got != fmt.Sprint(want) {
			t.Errorf("after %d minutes: %v, want %v", i, got, want)
		}
	}
	sk.note(start+5*minute, 3, []byte("new"))
	sk.age(start + 500*minute)
	sk.age(start) // a clock that goes back ages nothing
	if len(sk.told()) != 0 {
		t.Errorf("%v", sk.told())
	}
	for range 3 {
		sk.add(7, []byte("k"), 1<<31)
	}
	if got := sk.told()[7]; got != 1<<32-1 {
		t.Errorf("counts end at %d", got)
	}
}

// The sketch samples a busy stream. The shares are right all the same, even if
// callers take turns.
func TestSketchSamples(t *testing.T) {
	var sk sketch
	const n = 1_000_000
	looked := 0
	for i, skip := 0, int32(0); i < n; i++ {
		if skip--; skip < 0 {
			looked++
			h := uint64(i % 4) // as regular as can be
			skip = sk.note(start, table.Mix(h), []byte{byte(h)})
		}
	}
	if want := exactly + (n-exactly)/stride; looked < want-1 || looked > want+1 {
		t.Errorf("looked at %d, want %d", looked, want)
	}
	for h, got := range sk.told() {
		if got < n/4*9/10 || got > n/4*11/10 {
			t.Errorf("%x: %d, want about %d", h, got, n/4)
		}
	}
	if len(sk.told()) != 4 {
		t.Errorf("%v", sk.told())
	}
}

func TestTop(t *testing.T) {
	e := New(Options{Seed: 1})
	long := append([]byte("ns:"), bytes.Repeat([]byte("x"), 200)...)
	other := append(bytes.Clone(long), 'y')
	keys := [][]byte{[]byte("a:1"), []byte("a:2"), []byte("b:1"), []byte("plain"), long, other}
	for i, k := range keys {
		for range 4*i + 2 {
			mustTake(t, e, start, k, perSecond(int64(i)), 1)
		}
	}
	_, _ = peek(e, start, keys[0], perSecond(0), 1)
	text := func(top []TopKey) string {
		var b []byte
		for _, k := range top {
			b = fmt.Appendf(b, "%s=%d ", k.Key, k.Count)
		}
		return string(b)
	}
	x := string(long[:sketchText])
	first, second := shown(e.hash(other), other[:sketchText], len(other)), shown(e.hash(long), long[:sketchText], len(long))
	if string(first[:sketchText]) != x || string(first) == string(second) {
		t.Errorf("%s and %s", first, second)
	}
	for _, test := range []struct {
		by   TopOrder
		n    int
		ns   []byte
		want string
	}{
		{ByRequests, 100, nil, string(first) + "=22 " + string(second) + "=18 plain=14 b:1=10 a:2=6 a:1=2 "},
		{ByLimited, 100, nil, string(first) + "=17 " + string(second) + "=14 plain=11 b:1=8 a:2=5 a:1=2 "},
		{ByLimited, 2, nil, string(first) + "=17 " + string(second) + "=14 "},
		{ByLimited, 100, []byte("a"), "a:2=5 a:1=2 "},
		{ByLimited, 100, []byte(""), "plain=11 "},
		{ByLimited, 100, []byte("ns"), string(first) + "=17 " + string(second) + "=14 "},
		{ByLimited, 100, []byte("none"), ""},
	} {
		if got := text(e.Top(start, test.by, test.n, test.ns)); got != test.want {
			t.Errorf("%+v:\n got %s\nwant %s", test, got, test.want)
		}
	}
	if got := text(e.Top(start+minute, ByLimited, 2, []byte("a"))); got != "a:2=2 a:1=1 " {
		t.Errorf("a minute later: %s", got)
	}
	for range 30 {
		mustTake(t, e, start+minute, bytes.Repeat([]byte("no-colon"), 20), perSecond(1), 1)
	}
	if got := text(e.Top(start+minute, ByRequests, 1, []byte{})); got != "plain=7 " {
		t.Errorf("of no namespace: %s", got) // that of a long key is not known
	}
	e.Flush()
	if got := text(e.Top(start+minute, ByRequests, 100, nil)); got != "" {
		t.Errorf("after Flush: %s", got)
	}
}

// hash returns the hash of a key.
func (e *Engine) hash(key []byte) uint64 {
	h, _ := e.place(key)
	return h
}

// After a flush, the first decision counts, however many a busy shard would have skipped.
func TestTopAfterFlush(t *testing.T) {
	for _, l := range []*limit.Limit{perSecond(0), perSecond(1_000_000)} {
		e := New(Options{Shards: 1, Seed: 1})
		var d limit.Decision
		for i := range 100_000 {
			if err := e.Take(start, key(i%5000), l, 1, &d); err != nil {
				t.Fatal(err)
			}
		}
		e.Flush()
		if err := e.Take(start, key(1), l, 1, &d); err != nil {
			t.Fatal(err)
		}
		for _, by := range []TopOrder{ByRequests, ByLimited} {
			if top := e.Top(start, by, 10, nil); len(top) != 1 && (by == ByRequests || d.Limited) {
				t.Errorf("%v, order %v: %v", l, by, top)
			}
		}
	}
}

// The callers that ask most are found among many, through shards and sampling.
//
//test:norace
func TestTopOfZipf(t *testing.T) {
	e := New(Options{Seed: 1})
	r := rand.New(rand.NewPCG(1, 1))
	zipf := rand.NewZipf(r, 1.1, 1, 1_000_000)
	exact := map[string]int64{}
	var d limit.Decision
	for range 1_000_000 {
		k := key(int(zipf.Uint64()))
		exact[string(k)]++
		if err := e.Take(start, k, perSecond(1), 1, &d); err != nil {
			t.Fatal(err)
		}
	}
	for _, by := range []TopOrder{ByRequests, ByLimited} {
		top := e.Top(start, by, 20, nil)
		for i, k := range top {
			if i < 10 && !bytes.Equal(k.Key, key(i)) && exact[string(k.Key)] < exact[string(key(i))]*8/10 {
				t.Errorf("order %d, place %d: %s with %d", by, i, k.Key, k.Count)
			}
			if want := exact[string(k.Key)]; k.Count < want*7/10 || k.Count > want*13/10 {
				t.Errorf("order %d: %s has %d, want about %d", by, k.Key, k.Count, want)
			}
		}
	}
	if all := e.Top(start, ByRequests, 1000, nil); len(all) != 1000 {
		t.Errorf("%d keys for 1000", len(all))
	}
}
