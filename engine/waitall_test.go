package engine

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"limitdb/limit"
)

// parsed parses limits.
func parsed(tb testing.TB, spellings ...string) (all []limit.Limit) {
	tb.Helper()
	for _, s := range spellings {
		l, err := limit.Parse(s)
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

// askFor returns a request for one of each limit, of the keys that the letters of names
// say. The limit of key a is limits[0].
func askFor(limits []limit.Limit, names string, until int64, owner Waker) *Waiter {
	all := new(Together)
	for _, name := range []byte(names) {
		all.Keys, all.Limits, all.Costs = append(all.Keys, []byte{name}), append(all.Limits, limits[name-'a']), append(all.Costs, 1)
	}
	all.Decisions = make([]limit.Decision, len(names))
	return &Waiter{All: all, Until: until, Owner: owner}
}

// outcomeOf names the outcome of a request.
func outcomeOf(w *Waiter) string {
	switch _, _, err := w.Result(); {
	case !w.Done():
		return "waits"
	case err != nil:
		return err.Error()
	case w.All.At >= 0:
		return fmt.Sprintf("denied by %s for %d", w.All.Keys[w.All.At], w.All.Decisions[w.All.At].Wait)
	}
	var out strings.Builder
	out.WriteString("granted")
	for i := range w.All.Decisions {
		if d := &w.All.Decisions[i]; d.Wait != limit.Never {
			fmt.Fprintf(&out, ", %s in %d", w.All.Keys[i], d.Wait)
		}
	}
	return out.String()
}

// TestWaitForAllSteps goes through what the head of waitall.go says. A step is a request
// ("1 ab 500" is request 1, of a and b, and waits for 500 ns), "+50" (the clock moves, and
// Wake is called), "1 leaves", "1 cut", "take a", "refund a", "reset a", "flush" or
// "close"; then the outcomes of the requests.
func TestWaitForAllSteps(t *testing.T) {
	for _, test := range []struct {
		name, limits, steps string
	}{
		{"the slowest", "GCRA 1/100ns, GCRA 1/30ns", "1 ab 500: granted; 2 ab 500: waits; +99: 2 waits; +1: 2 granted"},
		{"too late", "GCRA 1/100ns, GCRA 1/30ns", "1 ab 500: granted; 2 ab 99: waits; +98: 2 waits; +1: 2 denied by a for 1"},
		{"not at all", "GCRA 1/100ns, GCRA 1/30ns", "1 ab 500: granted; 2 ab 0: denied by a for 100"},
		{"for ever", "GCRA 1/100ns, GCRA 0/30ns", "1 ab 500: denied by b for -1"},
		{"a turn that comes first", "GCRA 1/100ns, QUEUE 1/30ns BURST 5", "1 ab 500: granted; 2 ab 500: waits; +100: 2 granted"},
		{"a turn that comes later", "GCRA 2/100ns, QUEUE 1/70ns BURST 5", "1 ab 500: granted; 2 ab 500: waits; +69: 2 waits; +1: 2 granted"},
		{"a turn too late", "GCRA 2/100ns, QUEUE 1/70ns BURST 5", "1 ab 500: granted; 2 ab 69: denied by b for 1"},
		{"who leaves before its turn", "GCRA 2/100ns, QUEUE 1/70ns BURST 5", "1 ab 500: granted; 2 ab 500: waits; +30: 2 waits; 2 leaves: granted, b in 40; 3 b 0: denied by b for 110"},
		{"no turn left", "QUEUE 1/70ns BURST 0", "1 a 500: granted; 2 a 500: denied by a for 70"},
		{"nobody else is held up", "GCRA 1/100ns, GCRA 2/40ns", "1 ab 500: granted; 2 ab 500: waits; 3 b 0: granted; +100: 2 granted"},
		{"in the order of asking", "GCRA 1/100ns, GCRA 1/30ns", "1 ab 500: granted; 2 ab 500: waits; 3 a 500: waits; 4 ab 500: waits; +100: 2 granted, 3 waits; +100: 3 granted, 4 waits; +100: 4 granted"},
		{
			"to its place in another queue", "GCRA 1/100ns, GCRA 1/80ns",
			"1 a 500: granted; 2 ab 500: waits; +60: 2 waits; take b: granted; 3 b 500: waits; +40: 2 waits, 3 waits; +40: 2 granted, 3 waits; +80: 3 granted",
		},
		{"one that cannot in time steps aside", "GCRA 1/100ns, GCRA 1/30ns", "1 ab 500: granted; 2 ab 50: waits; 3 a 500: waits; +50: 2 denied by a for 1000000, 3 waits; +50: 3 granted"},
		{"what is given back", "GCRA 1/100ns, GCRA 1/30ns", "1 a 500: granted; 2 ab 500: waits; refund a; +0: 2 granted"},
		{"what is forgotten", "GCRA 1/100ns, GCRA 1/30ns", "1 a 500: granted; 2 ab 500: waits; reset a; +0: 2 granted"},
		{"all is forgotten", "GCRA 1/100ns, GCRA 1/30ns", "1 ab 500: granted; 2 ab 500: waits; flush; +0: 2 granted"},
		{"who leaves", "GCRA 1/100ns, GCRA 1/30ns", "1 ab 500: granted; 2 ab 500: waits; 3 a 500: waits; 2 leaves: denied by a for 1000000; +100: 3 granted"},
		{"who leaves when it could go", "GCRA 1/100ns, GCRA 1/30ns", "1 ab 500: granted; 2 ab 500: waits; sleep 100; 2 leaves: denied by a for 1; take a: granted"},
		{"who is cut off", "GCRA 1/100ns, GCRA 1/30ns", "1 ab 500: granted; 2 ab 500: waits; 2 cut: left; take a: denied"},
		{"the end", "GCRA 1/100ns, QUEUE 1/30ns BURST 5", "1 ab 500: granted; 2 ab 500: waits; 3 b 500: waits; close: 2 engine: closed, 3 engine: closed; 4 ab 0: engine: closed"},
		{"one key twice", "GCRA 1/100ns", "1 aa 500: engine: a key is given twice"},
		{"another family", "GCRA 1/100ns, LOG 1/100ns", "1 a 500: granted; 2 ab 500: waits; other a; +0: 2 engine: key holds another kind of state"},
	} {
		var order []string
		limits := parsed(t, strings.Split(test.limits, ", ")...)
		e := New(Options{Shards: 8, Seed: 1})
		now, waiters := int64(start), map[string]*Waiter{}
		for step := range strings.SplitSeq(test.steps, "; ") {
			what, want, _ := strings.Cut(step, ": ")
			f := strings.Fields(what)
			got := ""
			var d limit.Decision
			switch {
			case what[0] == '+' || f[0] == "sleep":
				var by int64
				fmt.Sscan(strings.TrimPrefix(f[len(f)-1], "+"), &by)
				if now += by; what[0] == '+' {
					e.Wake(now)
				}
			case f[0] == "take":
				if err := e.Take(now, []byte(f[1]), &limits[f[1][0]-'a'], 1, &d); err != nil {
					t.Fatal(err)
				}
				got = map[bool]string{false: "granted", true: "denied"}[d.Limited]
			case f[0] == "other":
				err := e.Update(now, nil, func(tx *Txn) error { return tx.Put([]byte(f[1]), limit.LEASE, stateOf(now+second, 8, 1)) })
				if err != nil {
					t.Fatal(err)
				}
			case f[0] == "refund":
				if err := e.Refund(now, []byte(f[1]), &limits[f[1][0]-'a'], 1, &d); err != nil {
					t.Fatal(err)
				}
			case f[0] == "reset":
				e.Reset(now, []byte(f[1]))
			case f[0] == "flush":
				e.Flush()
			case f[0] == "close":
				e.Close()
			case f[1] == "leaves" || f[1] == "cut":
				if !e.Cancel(now, waiters[f[0]], map[string]error{"cut": errLeft}[f[1]]) {
					t.Errorf("%s: %s: it has been decided", test.name, step)
				}
				got = outcomeOf(waiters[f[0]])
			default:
				var wait int64
				fmt.Sscan(f[2], &wait)
				w := askFor(limits, f[1], now+wait, bell{f[0], &order})
				if waiters[f[0]] = w; e.AskAll(now, w) == w.Done() {
					t.Errorf("%s: %s: waits and is done", test.name, step)
				}
				got = outcomeOf(w)
			}
			if what[0] == '+' || f[0] == "close" {
				var all []string
				for part := range strings.SplitSeq(want, ", ") {
					if who, _, found := strings.Cut(part, " "); found {
						all = append(all, who+" "+outcomeOf(waiters[who]))
					}
				}
				got = strings.Join(all, ", ")
			}
			if e.check(); got != want {
				t.Errorf("%s: %s: %s", test.name, step, got)
			}
		}
		if st := e.Stats(); st.Waiting != 0 && !strings.HasSuffix(test.steps, "waits") {
			t.Errorf("%s: %+v", test.name, st)
		}
	}
}

// allModel checks what an engine does with requests for several limits: it has the state of
// each key in plain Go, and the requests that wait.
type allModel struct {
	e       *Engine
	now     int64
	limits  []limit.Limit // of each key
	states  map[string][]byte
	waiting map[int]*allWaiter
	decided []*allWaiter // since settle, in the order of their decisions
	asked   int
	granted int
}

type allWaiter struct {
	*Waiter
	id     int
	before []allBefore // earlier requests that waited for what it took when it was decided
	m      *allModel
}

// allBefore is a request, and the key that it waited for at some moment.
type allBefore struct {
	*allWaiter
	key []byte
}

// Wake notes that the request has been decided, at this moment.
func (w *allWaiter) Wake() {
	w.m.decided = append(w.m.decided, w)
	for _, other := range w.m.waiting {
		i := w.All.index(other.Key())
		if other.id < w.id && !other.Done() && i >= 0 && w.All.Costs[i] > 0 && !w.All.soft(i) {
			w.before = append(w.before, allBefore{other, other.Key()})
		}
	}
}

// grants reports whether a limit grants a cost at now.
func (m *allModel) grants(key []byte, cost int64) bool {
	var d limit.Decision
	l := &m.limits[key[0]-'a']
	return limit.Peek(l, m.state(key), m.now, cost, &d) == nil && !d.Limited
}

func (m *allModel) state(key []byte) []byte {
	s := m.states[string(key)]
	if limit.Expires(m.limits[key[0]-'a'].Algorithm.Kind(), s) <= m.now {
		return nil
	}
	return bytes.Clone(s)
}

// take takes all that a request asks for, or names the limit that does not grant it.
func (m *allModel) take(r *Together) error {
	for i, key := range r.Keys {
		if !m.grants(key, r.Costs[i]) && !r.soft(i) {
			return fmt.Errorf("at %d %s has not %d", m.now, key, r.Costs[i])
		}
	}
	for i, key := range r.Keys {
		var d limit.Decision
		l := r.Limits[i]
		if l.CountDenied = false; r.soft(i) && r.Decisions[i].Limited {
			continue // of a key that others wait for, perhaps
		}
		next, err := limit.Take(&l, m.state(key), m.now, r.Costs[i], nil, &d)
		if err != nil || d.Limited != r.Decisions[i].Limited {
			return fmt.Errorf("at %d %s: %+v, want %+v, %v", m.now, key, r.Decisions[i], d, err)
		}
		if next != nil && !d.Limited {
			m.states[string(key)] = next
		}
	}
	m.granted++
	return nil
}

// mayGo reports whether all limits of a request grant, and no earlier request waits for one of
// its keys, unless in vain.
func (m *allModel) mayGo(w *allWaiter) bool {
	for i, key := range w.All.Keys {
		if !w.All.soft(i) && !m.grants(key, w.All.Costs[i]) {
			return false
		}
		for _, other := range m.waiting {
			if other.id < w.id && bytes.Equal(key, other.Key()) && !m.vain(other, key) {
				return false
			}
		}
	}
	return true
}

// vain reports whether a request cannot be granted in time by a key that it waits for.
func (m *allModel) vain(w *allWaiter, key []byte) bool {
	var d limit.Decision
	i := w.All.index(key)
	err := limit.Peek(&m.limits[key[0]-'a'], m.state(key), m.now, w.All.Costs[i], &d)
	return err == nil && d.Limited && (d.Wait == limit.Never || m.now+d.Wait > w.Until)
}

// settle notes the decided requests. None takes what an earlier one waits for, unless that waits in vain.
func (m *allModel) settle() error {
	for _, w := range m.decided {
		_, _, err := w.Result()
		switch {
		case !w.Done() || m.waiting[w.id] != w:
			return fmt.Errorf("at %d request %d is told of a decision", m.now, w.id)
		case err != nil:
			return err
		case w.All.At < 0:
			for _, other := range w.before {
				if !m.vain(other.allWaiter, other.key) {
					return fmt.Errorf("at %d request %d goes before %d", m.now, w.id, other.id)
				}
			}
			if err := m.take(w.All); err != nil {
				return fmt.Errorf("request %d: %w", w.id, err)
			}
		case w.Until > m.now:
			return fmt.Errorf("at %d request %d is denied, until %d: %s", m.now, w.id, w.Until, outcomeOf(w.Waiter))
		}
		delete(m.waiting, w.id)
	}
	m.decided = m.decided[:0]
	for id, w := range m.waiting {
		switch {
		case w.Until < m.now:
			return fmt.Errorf("at %d request %d waits, until %d", m.now, id, w.Until)
		case w.Done():
			return fmt.Errorf("at %d request %d is decided, and not told", m.now, id)
		}
	}
	for id, w := range m.waiting {
		if m.mayGo(w) {
			return fmt.Errorf("at %d request %d waits for %s, and nothing is in its way", m.now, id, w.Key())
		}
	}
	for key := 'a'; key < 'd'; key++ {
		kind := m.limits[key-'a'].Algorithm.Kind()
		got, want := stateIn(m.e, []byte{byte(key)}), m.state([]byte{byte(key)})
		if limit.Expires(kind, got) > m.now && !bytes.Equal(got, want) || limit.Expires(kind, got) <= m.now && want != nil {
			return fmt.Errorf("at %d %c holds %x, want %x", m.now, key, got, want)
		}
	}
	m.e.check()
	return nil
}

// TestWaitForAllModel asks, gives back and cancels at random. Requests that wait for several limits are granted as soon
// as all of them grant and no request before them is in the way. They take from all or none, and end in time. The clock
// stops at each nanosecond.
func TestWaitForAllModel(t *testing.T) {
	limits := waitLimits(t)
	limits = slices.DeleteFunc(limits, func(l limit.Limit) bool { return l.Algorithm == limit.QUEUE || l.CountDenied })
	rapid.Check(t, func(t *rapid.T) {
		m := &allModel{e: New(Options{Shards: 4}), now: start, states: map[string][]byte{}, waiting: map[int]*allWaiter{}}
		for range 3 {
			m.limits = append(m.limits, limits[rapid.IntRange(0, len(limits)-1).Draw(t, "limit")])
		}
		pass := func(ns int64) error {
			for range ns {
				m.now++
				if next := m.e.Wake(m.now); next <= m.now {
					return fmt.Errorf("the next deadline is %d, at %d", next, m.now)
				}
				if err := m.settle(); err != nil {
					return err
				}
			}
			return nil
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "draws"), 1))
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if err := m.step(r, pass); err != nil {
				t.Fatal(err)
			}
		}
		if err := pass(250); err != nil {
			t.Fatal(err)
		}
		st := m.e.Stats()
		if len(m.waiting) > 0 || st.Waiting != 0 || st.WaitingKeys != 0 || m.e.Wake(m.now) != math.MaxInt64 {
			t.Fatalf("%d wait for ever: %+v", len(m.waiting), st)
		}
	})
}

// step does something at random.
func (m *allModel) step(r *rand.Rand, pass func(int64) error) error {
	switch n := r.IntN(10); {
	case n < 6: // asks, and may wait
		names := []string{"a", "b", "ab", "ba", "abc", "bc", "c", "cab"}[r.IntN(8)]
		w := &allWaiter{Waiter: askFor(m.limits, names, m.now+r.Int64N(200), nil), id: m.asked, m: m}
		w.Owner = w
		m.asked++
		for i := range w.All.Costs {
			w.All.Costs[i] = r.Int64N(4)
		}
		if r.IntN(3) == 0 && len(names) > 1 {
			w.All.Soft = make([]bool, len(names))
			w.All.Soft[r.IntN(len(names))] = true
		}
		if m.waiting[w.id] = w; !m.e.AskAll(m.now, w.Waiter) {
			if w.All.At >= 0 && w.Until > m.now && w.All.Decisions[w.All.At].Wait != limit.Never {
				return fmt.Errorf("at %d request %d does not wait: %s", m.now, w.id, outcomeOf(w.Waiter))
			}
			if delete(m.waiting, w.id); w.All.At < 0 {
				return m.take(w.All)
			}
		}
	case n == 6: // gives back, or forgets
		key := []byte{'a' + byte(r.IntN(3))}
		l := &m.limits[key[0]-'a']
		if r.IntN(3) == 0 {
			m.e.Reset(m.now, key)
			delete(m.states, string(key))
		} else {
			var d limit.Decision
			cost := 1 + r.Int64N(2)
			next, err := limit.Refund(l, m.state(key), m.now, cost, nil, &d)
			if next != nil {
				m.states[string(key)] = next
			}
			if err := errors.Join(err, m.e.Refund(m.now, key, l, cost, &d)); err != nil {
				return err
			}
		}
	case n == 7 && len(m.waiting) > 0: // leaves
		id := slices.Sorted(maps.Keys(m.waiting))[r.IntN(len(m.waiting))]
		if w := m.waiting[id]; !m.e.Cancel(m.now, w.Waiter, nil) || w.All.At < 0 {
			return fmt.Errorf("at %d request %d has not left: %s", m.now, id, outcomeOf(w.Waiter))
		}
		delete(m.waiting, id)
	default:
		return pass(r.Int64N(60))
	}
	m.e.Wake(m.now)
	return m.settle()
}

// A request for several limits that are one is decided exactly as a request for that one.
func TestWaitForAllOfOne(t *testing.T) {
	limits := waitLimits(t)
	limits = slices.DeleteFunc(limits, func(l limit.Limit) bool { return l.Algorithm == limit.QUEUE })
	rapid.Check(t, func(t *rapid.T) {
		one, all := New(Options{Shards: 1}), New(Options{Shards: 1})
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "draws"), 1))
		var order, orderAll []string
		now := int64(start)
		type pair struct{ one, all *Waiter }
		var pairs []pair
		wake := func(to int64) {
			for _, e := range []*Engine{one, all} {
				for {
					next := e.Wake(now)
					if next > to {
						break
					}
					e.Wake(next)
				}
			}
			now = to
			one.Wake(now)
			all.Wake(now)
		}
		for id := range rapid.IntRange(1, 50).Draw(t, "steps") {
			l := limits[r.IntN(min(len(limits), 1+r.IntN(3)*5))]
			switch n := r.IntN(8); {
			case n < 5:
				req := Request{Limit: l, Cost: r.Int64N(5)}
				until := now + r.Int64N(200)
				a := &Waiter{Request: req, Until: until, Owner: bell{fmt.Sprint(id), &order}}
				b := &Waiter{Until: until, Owner: bell{fmt.Sprint(id), &orderAll}, All: &Together{
					Keys: [][]byte{[]byte("k")}, Limits: []limit.Limit{l}, Costs: []int64{req.Cost}, Decisions: make([]limit.Decision, 1), CountDenied: true,
				}}
				one.Ask(now, []byte("k"), a)
				all.AskAll(now, b)
				pairs = append(pairs, pair{a, b})
			case n == 5:
				var x, y limit.Decision
				errX, errY := one.Refund(now, []byte("k"), &l, 1, &x), all.Refund(now, []byte("k"), &l, 1, &y)
				if x != y || errX != errY {
					t.Fatalf("%+v, %v, want %+v, %v", y, errY, x, errX)
				}
			case n == 6 && len(pairs) > 0:
				p := pairs[r.IntN(len(pairs))]
				if a, b := one.Cancel(now, p.one, nil), all.Cancel(now, p.all, nil); a != b {
					t.Fatalf("cancelled: %v, want %v", b, a)
				}
			default:
				wake(now + r.Int64N(50))
			}
			wake(now)
			one.check()
			all.check()
			for i, p := range pairs {
				if p.one.Done() != p.all.Done() {
					t.Fatalf("request %d: %v, want %v", i, p.all.Done(), p.one.Done())
				}
				if !p.one.Done() {
					continue
				}
				d, _, err := p.one.Result()
				if d.Limited { // one side may not know yet whether those that stay can go in time
					d.Wait, p.all.All.Decisions[0].Wait = 0, 0
				}
				if _, _, errAll := p.all.Result(); errAll != err || err == nil && p.all.All.Decisions[0] != d {
					t.Fatalf("request %d: %+v, %v, want %+v, %v", i, p.all.All.Decisions[0], errAll, d, err)
				}
			}
			pairs = slices.DeleteFunc(pairs, func(p pair) bool { return p.one.Done() })
			a, b := one.Stats(), all.Stats()
			a.Bytes, b.Bytes = 0, 0
			if a != b {
				t.Fatalf("%+v, want %+v", b, a)
			}
		}
	})
}

// Many goroutines ask, leave and give back at once, and one wakes: each request ends, no grant exceeds what was
// there, and no request stays.
func TestWaitForAllTorture(t *testing.T) {
	e := New(Options{Shards: 8})
	limits := parsed(t, "FIXED 40/1h", "FIXED 25/1h", "FIXED 60/1h")
	var mu sync.Mutex
	granted, errs := 0, 0
	stop := make(chan bool)
	var wakers, askers sync.WaitGroup
	for range 2 {
		wakers.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-e.Sooner():
					e.Wake(start)
				}
			}
		})
	}
	for id := range 8 {
		askers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(id), 1))
			for range 300 {
				done := make(chanOwner)
				w := askFor(limits, []string{"ab", "ba", "abc", "c", "cb"}[r.IntN(5)], start+second, done)
				waits := e.AskAll(start, w)
				if waits && r.IntN(2) == 0 {
					e.Refund(start, []byte{'a' + byte(r.IntN(3))}, &limits[0], 0, new(limit.Decision))
				}
				if waits && !e.Cancel(start, w, errLeft) {
					<-done
				}
				mu.Lock()
				if _, _, err := w.Result(); err != nil {
					errs++
				} else if w.All.At < 0 && len(w.All.Keys) > 1 {
					granted++
				}
				mu.Unlock()
			}
		})
	}
	askers.Wait()
	close(stop)
	wakers.Wait()
	e.check()
	if granted != 25 { // all but those of c alone take from b
		t.Errorf("%d granted", granted)
	}
	if st := e.Stats(); st.Waiting != 0 || st.WaitingKeys != 0 || errs == 0 {
		t.Errorf("%d left, %+v", errs, st)
	}
}
