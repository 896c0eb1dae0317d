package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"limitdb/internal/journal"
	"limitdb/limit"
)

// follower is an engine that replays what another one has recorded.
type follower struct {
	t        testing.TB
	e, again *Engine
	now      int64
}

func newFollower(t testing.TB) *follower {
	f := &follower{t, New(Options{}), New(Options{}), 1e18}
	f.e.StartJournal(0, new(journal.Gate), func() {})
	return f
}

// drain replays what was recorded since the last call, checks that the engines hold the same, and returns how many bytes
// the records have.
func (f *follower) drain() int {
	f.t.Helper()
	f.e.Cut()
	return f.rest()
}

// rest is drain for what the last cut has left. Long states are in it as they are now.
func (f *follower) rest() int {
	f.t.Helper()
	var log journal.Buffer
	for f.e.Drain(&log, 1<<20) {
	}
	if err := replay(f.again, f.now, nil, log.Bytes); err != nil {
		f.t.Fatal(err)
	}
	if want, got := contents(f.e, f.now), contents(f.again, f.now); fmt.Sprint(want) != fmt.Sprint(got) {
		f.t.Fatalf("%.2000v\nwant %.2000v", got, want)
	}
	return len(log.Bytes)
}

// take takes from a LOG.
func (f *follower) take(key string, l *limit.Limit, cost int64) {
	f.t.Helper()
	var d limit.Decision
	if err := f.e.Take(f.now, []byte(key), l, cost, &d); err != nil || d.Limited {
		f.t.Fatalf("%+v, %v", d, err)
	}
}

// lease takes n leases of an id's length, or renews the first.
func (f *follower) lease(key string, n, length int, ttl int64) {
	f.t.Helper()
	for i := range n {
		var d limit.Decision
		l := limit.Lease{Limit: 1 << 40, TTL: ttl, Weight: 1, ID: fmt.Appendf(nil, "%0*d", length, i)}
		if err := f.e.Lease(f.now, []byte(key), &l, &d); err != nil || d.Limited {
			f.t.Fatalf("%+v, %v", d, err)
		}
		f.now++
	}
}

// A step on a long LOG or on many leases writes as much to the log as it has changed.
//
//test:norace
func TestStepsOnLongLimitsAreSmall(t *testing.T) {
	f := newFollower(t)
	r := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		l            limit.Limit
		each         int64 // ns between two grants
		grants, most int   // how many a drain, and their bytes
	}{
		{limit.Limit{Algorithm: limit.LOG, Max: 500, Period: 10 * second}, second / 49, 1, 64},
		{limit.Limit{Algorithm: limit.LOG, Max: 500, Period: 10 * second}, second / 49, 50, 350},
		{limit.Limit{Algorithm: limit.LOG, Max: 65536, Period: 14 * second}, second / 4500, 45, 320},
	} {
		key, sum, drains, state := fmt.Sprint("user:", c.l.Max, c.grants), 0, 0, 0
		for i := range 2 * int(c.l.Period/c.each) {
			f.now += c.each - c.each/8 + r.Int64N(c.each/4)
			if f.take(key, &c.l, 1); i%c.grants != 0 || i > 3*int(c.l.Period/c.each)/2 {
				continue
			}
			var log journal.Buffer
			if drain(f.e, &log); i > int(c.l.Period/c.each) {
				sum, drains = sum+len(log.Bytes), drains+1
			}
			if err := replay(f.again, f.now, nil, log.Bytes); err != nil {
				t.Fatal(err)
			}
		}
		_, sp := f.e.find([]byte(key))
		state = len(f.e.shardOf(sp.Hash).table.State(&sp))
		t.Logf("%v, %d grants a drain: %d bytes a grant, of a state of %d", &c.l, c.grants, sum/drains/c.grants, state)
		if f.drain(); sum/drains > c.most {
			t.Errorf("%d bytes a drain, want %d", sum/drains, c.most)
		}
	}
	for _, length := range []int{8, 36} {
		key := fmt.Sprint("job:", length)
		f.lease(key, 1000, length, 60*second)
		t.Logf("1000 holders: %d bytes", f.drain())
		for name, step := range map[string]func(id []byte, state, dst []byte) ([]byte, error){
			"renew": func(id, state, dst []byte) (next []byte, err error) {
				next, _, err = limit.RenewLease(id, 70*second, state, f.now, dst)
				return next, err
			},
			"release": func(id, state, dst []byte) (next []byte, err error) {
				next, _, err = limit.ReleaseLease(id, state, f.now, dst)
				return next, err
			},
			"lease": func(id, state, dst []byte) ([]byte, error) {
				var d limit.Decision
				return limit.TakeLease(&limit.Lease{Limit: 1 << 40, TTL: 65 * second, Weight: 1, ID: append(id, "new"...)}, state, f.now, dst, &d)
			},
		} {
			f.now++
			if err := f.e.Apply(f.now, []byte(key), limit.LEASE, func(_ int64, state, dst []byte) ([]byte, error) {
				return step(fmt.Appendf(nil, "%0*d", length, len(name)*100), state, dst)
			}); err != nil {
				t.Fatal(err)
			}
			n := f.drain()
			if t.Logf("%s of one of them: %d bytes", name, n); n == 0 || n > 128 {
				t.Errorf("%s: %d bytes", name, n)
			}
		}
	}
	for _, segments := range []int64{10, 60, 1024} {
		l := limit.Limit{Algorithm: limit.SEGMENTED, Max: 1 << 40, Period: 60 * second, Segments: segments}
		for range 2 * segments {
			f.now += l.Period / segments
			f.take(fmt.Sprint("segments:", segments), &l, 100)
		}
		f.drain()
		f.take(fmt.Sprint("segments:", segments), &l, 1)
		t.Logf("SEGMENTED in %d: %d bytes", segments, f.drain())
	}
}

// A long state that does not come from the recorded one is recorded whole, even if it looks like a later form of it.
func TestNewLongStatesAreWhole(t *testing.T) {
	l := limit.Limit{Algorithm: limit.LOG, Max: 5000, Period: 60 * second}
	for name, c := range map[string]struct {
		long, gone func(f *follower)
	}{
		"leases that expire": {
			func(f *follower) { f.lease("key", 2, 200, second) },
			func(f *follower) { f.now += 2 * second },
		},
		"leases that go": {
			func(f *follower) { f.lease("key", 2, 200, second) },
			func(f *follower) { f.e.Reset(f.now, []byte("key")) },
		},
		"a LOG that expires": {
			func(f *follower) { f.takes("key", &l, 300) },
			func(f *follower) { f.now += 61 * second },
		},
		"a LOG that goes": {
			func(f *follower) { f.takes("key", &l, 300) },
			func(f *follower) { f.e.Reset(f.now, []byte("key")) },
		},
		"a LOG that gives some back": {
			func(f *follower) { f.takes("key", &l, 300) },
			func(f *follower) { f.refund("key", &l, 320) },
		},
		"a LOG that gets short": {
			func(f *follower) { f.takes("key", &l, 300) },
			func(f *follower) { f.refund("key", &l, 295) },
		},
		"a LOG that gets shorter": {
			func(f *follower) { f.takes("key", &l, 300) },
			func(f *follower) { f.refund("key", &l, 260) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			for when := range 3 {
				f := newFollower(t)
				for range 3 {
					c.long(f)
					f.drain()
				}
				if c.long(f); when > 0 {
					f.e.Cut() // and the drain comes later
				}
				if when == 2 {
					c.long(f)
				}
				c.gone(f)
				if c.long(f); when > 0 {
					f.rest()
				}
				f.drain()
				c.long(f)
				f.drain()
			}
		})
	}
}

// takes takes one unit at a time.
func (f *follower) takes(key string, l *limit.Limit, n int) {
	for range n {
		f.now += second/1000 + f.now%1009*1000
		f.take(key, l, 1)
	}
}

func (f *follower) refund(key string, l *limit.Limit, cost int64) {
	f.t.Helper()
	var d limit.Decision
	if err := f.e.Refund(f.now, []byte(key), l, cost, &d); err != nil {
		f.t.Fatal(err)
	}
}

// What the engine notes of long states between two cuts takes bounded memory, however many keys change. The states beyond
// that are recorded whole.
func TestNotesAreBounded(t *testing.T) {
	f := newFollower(t)
	const keys, holders, length, share = 400, 20, 36, 2000
	if most := maxNotes / len(f.e.shards); f.e.journal.Load().notes != most {
		t.Errorf("a shard notes %d bytes, want %d", f.e.journal.Load().notes, most)
	}
	f.e.journal.Load().notes = share
	for key := range keys {
		f.lease(fmt.Sprint("job:", key), holders, length, 60*second)
	}
	state := f.drain() / keys
	for range 3 {
		for key := range keys {
			f.lease(fmt.Sprint("job:", key), 2, length, 70*second)
		}
		noted, most := 0, 0
		for i := range f.e.shards {
			own := 0
			for _, o := range f.e.shards[i].changes.owed {
				if o.since != nil {
					own += o.since.Noted()
				}
			}
			noted, most = noted+own, max(most, own)
		}
		if noted == 0 || most < share || most > share+2*state {
			t.Errorf("%d bytes are noted, at most %d in a shard", noted, most)
		}
		f.drain()
	}
}
