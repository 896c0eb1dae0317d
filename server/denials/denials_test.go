package denials

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"limitdb/internal/origin"
	"limitdb/limit"
)

// add adds a denial of a key, which is shown as it is.
func add(l *Log, key string, d Denial) { l.Add([]byte(key), []byte(key), &d) }

// show renders denials, as key×times@second.
func show(found []Found) string {
	var out []string
	for _, f := range found {
		out = append(out, fmt.Sprintf("%s×%d@%d", f.Key, f.Times, f.At/second))
	}
	return strings.Join(out, " ")
}

func TestLikeDenialsAreOneEntry(t *testing.T) {
	from := &origin.Origin{User: "default", Addr: "a"}
	l := New(1)
	d := Denial{At: 10 * second, Cost: 1, From: from}
	add(l, "k", d)
	same := *from
	for _, change := range []func(d *Denial){
		func(d *Denial) { d.Left, d.Wait, d.At = 3, 4, d.At+second-1 },
		func(d *Denial) { d.From = &same },
		func(d *Denial) { d.At-- },
	} {
		d := d
		change(&d)
		add(l, "k", d)
	}
	if got := l.Of([]byte("k"), 9); len(got) != 1 || got[0].Times != 4 || got[0].At != 11*second-1 || got[0].Since != 10*second || got[0].Left != 0 {
		t.Errorf("%+v", got)
	}
	for _, change := range []func(d *Denial){
		func(d *Denial) { d.At += second },
		func(d *Denial) { d.Cost++ },
		func(d *Denial) { d.Why++ },
		func(d *Denial) { d.Lease = true },
		func(d *Denial) { d.Rule = "r" },
		func(d *Denial) { d.Namespace = "n" },
		func(d *Denial) { d.Limit.Max++ },
	} {
		d := d
		change(&d)
		add(l, "k", d)
	}
	if got := l.Of([]byte("k"), 99); len(got) != 8 {
		t.Errorf("%d entries", len(got))
	}
	other := New(1)
	add(other, "k", d)
	d.From = &origin.Origin{User: "default", Addr: "b"}
	add(other, "k", d)
	if got := show(other.Of([]byte("k"), 9)); got != "k×1@10 k×1@10" {
		t.Errorf("of two clients: %s", got)
	}
}

// A caller that is denied all the time leaves half a set to the others.
func TestFloodLeavesOthers(t *testing.T) {
	from := new(origin.Origin)
	l := New(ways)
	for i := range ways - keyWays {
		add(l, fmt.Sprint("quiet", i), Denial{At: int64(i+1) * second, From: from})
	}
	for i := range int64(1000) {
		add(l, "loud", Denial{At: (100 + i) * second, From: from})
	}
	all, next := l.AddLast(nil, 100, 0, 100, nil)
	if got, want := show(all), "loud×1@1099 loud×1@1098 loud×1@1097 loud×1@1096 loud×1@1095 loud×1@1094 loud×1@1093 loud×1@1092"+
		" quiet7×1@8 quiet6×1@7 quiet5×1@6 quiet4×1@5 quiet3×1@4 quiet2×1@3 quiet1×1@2 quiet0×1@1"; got != want || next != 0 {
		t.Errorf("%s", got)
	}
}

// What is kept is true: no entry counts more than was denied, the last denial of a key is there, the newest come first, and looking set by
// set finds what looking at once does.
func TestLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.Int64Range(1, 200).Draw(t, "entries")
		l, from := New(entries), new(origin.Origin)
		denied, last := map[string]int64{}, map[string]int64{}
		now := int64(second)
		for range rapid.IntRange(0, 400).Draw(t, "denials") {
			key := rapid.StringMatching(`[a-h]{1,2}`).Draw(t, "key")
			now += rapid.Int64Range(0, second).Draw(t, "later")
			add(l, key, Denial{At: now, Cost: rapid.Int64Range(1, 2).Draw(t, "cost"), Limit: limit.Limit{Max: 1}, From: from})
			denied[key]++
			last[key] = now
			if got := l.Of([]byte(key), 1); len(got) != 1 || got[0].At != now || string(got[0].Key) != key {
				t.Fatalf("%s: %+v at %d", key, got, now)
			}
		}
		all, _ := l.AddLast(nil, 1<<20, 0, 1<<20, nil)
		var steps []Found
		for set := 0; ; {
			if steps, set = l.AddLast(steps, 1<<20, set, 3, nil); set == 0 {
				break
			}
		}
		if show(all) != show(steps) || int64(len(all)) > (entries+ways-1)/ways*ways {
			t.Fatalf("%d entries: %s\n%s", entries, show(all), show(steps))
		}
		times := map[string]int64{}
		for i, f := range all {
			times[string(f.Key)] += f.Times
			if f.At > last[string(f.Key)] || i > 0 && f.At > all[i-1].At || f.Since > f.At {
				t.Fatalf("%+v", f)
			}
		}
		for key, n := range times {
			if n > denied[key] {
				t.Errorf("%s: %d of %d", key, n, denied[key])
			}
		}
		if few, _ := l.AddLast(nil, 3, 0, 1<<20, nil); show(few) != show(all[:min(3, len(all))]) {
			t.Errorf("the newest three are %s", show(few))
		}
	})
}

func TestReasons(t *testing.T) {
	for _, test := range []struct {
		cost int64
		d    limit.Decision
		want string
	}{
		{1, limit.Decision{Limit: 5, Wait: 1}, "limit"},
		{3, limit.Decision{Limit: 5, Remaining: 2, Wait: 1}, "limit"},
		{3, limit.Decision{Limit: 5, Remaining: 3, Wait: 1}, "queue"},
		{6, limit.Decision{Limit: 5, Remaining: 5, Wait: limit.Never}, "cost"},
		{1, limit.Decision{Wait: limit.Never}, "blocked"},
	} {
		if got := ReasonOf(test.cost, &test.d).String(); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

func TestNoneAreKept(t *testing.T) {
	if New(0) != nil {
		t.Error("there is a log")
	}
}

// Many goroutines add and look at once.
func TestTogether(t *testing.T) {
	l, from := New(64), new(origin.Origin)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range int64(2000) {
				add(l, fmt.Sprint(g, i%7), Denial{At: i * second / 100, From: from})
				l.Of([]byte(fmt.Sprint(i%7)), 3)
				if i%100 == 0 {
					l.AddLast(nil, 10, 0, 10, nil)
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkAdd(b *testing.B) {
	l, from := New(4096), new(origin.Origin)
	for _, keys := range []int{1, 1000, 100_000} {
		names := make([][]byte, keys)
		for i := range names {
			names[i] = fmt.Appendf(nil, "user:%d", i)
		}
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				key := names[i%keys]
				l.Add(key, key, &Denial{At: int64(i) * 100, Cost: 1, From: from})
			}
		})
	}
}
