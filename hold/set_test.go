package hold

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// apply returns the set after an edit of s, and fails if a splice is not of bytes that are there.
func (w *Edit) apply(tb testing.TB, s Set) Set {
	tb.Helper()
	if w.Whole != nil {
		return bytes.Clone(w.Whole)
	}
	next := append(bytes.Clone(w.Head), s[headSize:]...)
	for _, p := range w.Splices {
		at := headSize + p.At
		if p.End {
			if at != len(next) {
				tb.Fatalf("an entry comes at %d of %d", at, len(next))
			}
			next = append(next, p.Ins...)
			continue
		}
		if at < headSize || at+len(p.Ins) > len(next) {
			tb.Fatalf("%d bytes at %d of %d", len(p.Ins), at, len(next))
		}
		copy(next[at:], p.Ins)
	}
	return next
}

// inPlace is apply for a long set: the edit may overwrite s, so it takes no longer than its splices are.
func (w *Edit) inPlace(tb testing.TB, s Set) Set {
	tb.Helper()
	if w.Whole != nil {
		return bytes.Clone(w.Whole)
	}
	size := 0
	for _, p := range w.Splices {
		if size += len(p.Ins); p.End {
			s = append(s, p.Ins...)
		} else {
			copy(s[headSize+p.At:], p.Ins)
		}
	}
	copy(s, w.Head)
	if size > 200 {
		tb.Fatalf("a step of %d bytes", size)
	}
	return s
}

// model is a set once more, in a map.
type model map[string]Entry

func (m model) known(now int64) (n, live int) {
	for _, e := range m {
		if e.Forgotten() > now {
			n++
		}
		if e.Live(now) {
			live++
		}
	}
	return n, live
}

// same fails if s is not what m says, whoever asks.
func (m model) same(tb testing.TB, s Set, now int64) {
	tb.Helper()
	n, _ := m.known(now)
	last := int64(math.MinInt64)
	s.Each(now, func(e *Entry) bool {
		n--
		if want := m[string(e.ID)]; !alike(*e, want) {
			tb.Fatalf("%+v, want %+v", *e, want)
		}
		return true
	})
	for _, want := range m {
		if want.Forgotten() <= now {
			continue
		}
		last = max(last, want.Forgotten())
		var e Entry
		if !s.Find(now, want.ID, &e) || !alike(e, want) {
			tb.Fatalf("found %+v, want %+v", e, want)
		}
	}
	if n != 0 || last > now && s.expires() < last {
		tb.Fatalf("%d entries are missing, or it expires too soon", n)
	}
	due, any := s.Next(now)
	for _, e := range m {
		if e.Forgotten() > now && e.Status == Returning && (!any || due > e.Until) {
			tb.Fatalf("the next is due at %d, %t, want %d", due, any, e.Until)
		}
	}
}

func alike(a, b Entry) bool {
	if a.Settled() && b.Settled() { // only when they are forgotten matters
		a.Until, b.Until, a.Rest, b.Rest = a.Forgotten(), b.Forgotten(), 0, 0
	}
	return bytes.Equal(a.ID, b.ID) && bytes.Equal(a.Limit, b.Limit) && a.Status == b.Status && a.Until == b.Until &&
		a.Rest == b.Rest && a.Back == b.Back && a.Amount == b.Amount
}

func testSeed() uint64 {
	s, _ := strconv.ParseUint(cmp.Or(os.Getenv("RAPID_SEED"), fmt.Sprint(rand.Uint64())), 0, 64)
	return s
}

// A set is what a map would be, whatever happens in whatever order, at all sizes about those of the code.
//
//test:norace
func TestSetModel(t *testing.T) {
	seed := testSeed()
	var seen [statuses]int
	wholes, edits, ends, briefs, afterReset := 0, 0, 0, 0, 0
	for round := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, round))
		ids := []int{1, 2, few - 1, few, few + 1, 28, 29, 56, 57, 300}[r.IntN(10)]
		units := []int64{1, 1e6}[r.IntN(2)] // of times
		step := []int64{1, 10, 1000}[r.IntN(3)]
		lengths := []int{8, MaxLimit}[r.IntN(2)] // of some limits
		var s Set
		var w Edit
		m := model{}
		now := int64(1.7e18)
		for i := range 400 {
			at := fmt.Sprintf("RAPID_SEED=%d, round %d, step %d", seed, round, i)
			now += r.Int64N(3*step) * units
			for k := 0; s.Due(now); k++ {
				if k > 2*ids+20 {
					t.Fatalf("%s: it is still due", at)
				}
				s.Return(&w, now, false, func(e *Entry) {
					old, ok := m[string(e.ID)]
					if !ok || old.Status != Returning || old.Until > now {
						t.Fatalf("%s: %+v goes back, and is %+v", at, *e, old)
					}
					e.Amount /= 2
					old.Amount /= 2
					old.Status = Returned
					m[string(e.ID)] = old
					ends++
				})
				s = w.apply(t, s)
			}
			for id, e := range m {
				if e.Forgotten() <= now {
					delete(m, id)
				} else if e.Status == Returning && e.Until <= now {
					t.Fatalf("%s: %+v has not gone back", at, e)
				}
			}
			id := fmt.Appendf(nil, "%0*d", []int{1, 61, MaxID}[r.IntN(3)], r.IntN(ids))
			var e Entry
			known := s.Find(now, id, &e)
			if _, want := m[string(id)]; known != want {
				t.Fatalf("%s: %q is known: %t", at, id, known)
			}
			switch {
			case !known:
				none := e
				ttl := (1 + r.Int64N(step*int64(1+r.IntN(2*ids)))) * units
				e = Entry{ID: id, Status: Status(r.IntN(2)), Until: now + ttl, Rest: ttl, Back: now + r.Int64N(4*ttl)/units*units, Amount: r.Int64() >> r.IntN(64), Limit: bytes.Repeat([]byte("l"), []int{0, 7, 7, 7, r.IntN(20), lengths}[r.IntN(6)])}
				switch r.IntN(9) {
				case 0:
					e.Status = Cancelled
				case 1, 2:
					if e.Status, e.Rest = Once, 0; r.IntN(4) > 0 { // nearly brief
						e.Back, e.Amount, e.Limit = int64(max(0, r.IntN(5)-3)), r.Int64N(1<<8+2)-1, []byte("12345678"[:8-r.IntN(5)/4])
						if e.Back == 0 && e.Amount >= 0 && e.Amount < 1<<8 && len(e.Limit) == 8 {
							briefs++
						}
					}
				}
				if r.IntN(2) == 0 {
					e.Place(&none)
				}
				if void := s.Void(); e.Status <= Returning && e.Taken() <= void { // after a reset at the same time
					afterReset++
					for id, old := range m {
						if old.Status <= Returning && old.Taken() <= void {
							old.Back = min(old.Back, void)
							m[id] = old
						}
					}
				}
				if err := s.Add(&w, now, &e, r.Uint64()); err != nil {
					t.Fatal(err)
				}
			case r.IntN(20) == 0:
				if s.Reset(&w, now); w.apply(t, s).Void() != now {
					t.Fatalf("%s: reset, and %d", at, s.Void())
				}
			case !e.Settled() && e.Status != Once && r.IntN(2) == 0:
				e.Status, e.Rest, e.Back, e.Amount = Committed+Status(r.IntN(2)), now-e.Until+(r.Int64N(3*step)+1)*units, r.Int64()>>r.IntN(64), -r.Int64()>>r.IntN(64)
				s.Change(&w, now, &e)
			default:
				continue
			}
			if w.Whole != nil {
				wholes++
			} else {
				edits++
			}
			seen[e.Status]++
			e.ID, e.Limit = bytes.Clone(e.ID), bytes.Clone(e.Limit)
			s = w.apply(t, s)
			if err := s.Check(); err != nil {
				t.Fatalf("%s: %v", at, err)
			}
			m[string(e.ID)] = e
			m.same(t, s, now)
		}
	}
	if wholes < 1000 || edits < 1000 || ends < 1000 || afterReset < 20 || min(briefs, seen[Kept], seen[Returning], seen[Committed], seen[Cancelled], seen[Once]) < 1000 {
		t.Errorf("%d written anew, %d edits, %d ends, %d brief, %d after a reset, %v", wholes, edits, ends, briefs, afterReset, seen)
	}
}

// No key has more holds than the bounds, and those that are over make room for others. A step touches some bytes, not
// the whole.
func TestSetBounds(t *testing.T) {
	var s Set
	var w Edit
	now := int64(1.7e18)
	add := func(i int, status Status) error {
		e := Entry{ID: fmt.Appendf(nil, "%d", i), Status: status, Until: now + 1e9, Rest: 1e9, Back: now + 1e9, Amount: 1}
		err := s.Add(&w, now, &e, 7)
		if err == nil {
			s = w.inPlace(t, s)
		}
		return err
	}
	for i := range MaxLive {
		if err := add(i, Status(i%2)); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := add(MaxLive, Kept); err != ErrLive {
		t.Fatalf("%v", err)
	}
	if per := float64(len(s))/MaxLive - 5; per > 64 {
		t.Errorf("%.1f bytes for each", per)
	}
	for i := range MaxKnown - MaxLive {
		if err := add(MaxLive+i, Cancelled); err != nil {
			t.Fatal(i, err)
		}
	}
	if s.live() < MaxLive { // ids that are forgotten may still be there
		t.Fatal(s.live())
	}
	for i := 0; ; i++ {
		if err := add(1<<20+i, Cancelled); err == ErrKnown {
			break
		} else if err != nil || i > most-MaxKnown {
			t.Fatal(i, err)
		}
	}
	now += 1e9 // the times are over
	goBack := 0
	for s.Due(now) {
		s.Return(&w, now, false, func(*Entry) { goBack++ })
		s = w.apply(t, s)
	}
	if goBack != MaxLive/2 {
		t.Errorf("%d have gone back", goBack)
	}
	now += 1e9 // and all are forgotten
	if err := add(0, Kept); err != nil || len(s) > 60 {
		t.Errorf("%d bytes, %v", len(s), err)
	}
}

// TestFullIsRemembered checks that a set that was found full is not walked over again at once, and that it has room when it is.
func TestFullIsRemembered(t *testing.T) {
	var s Set
	var w Edit
	now := int64(1.7e18)
	for i := range MaxLive {
		e := Entry{ID: fmt.Appendf(nil, "%d", i), Until: now + 1e9 + int64(i), Rest: 1e9, Amount: 1}
		if err := s.Add(&w, now, &e, 7); err != nil {
			t.Fatal(i, err)
		}
		s = w.inPlace(t, s)
	}
	var f Full
	more, tomb := Entry{Until: now + 5e9, Rest: 5e9}, Entry{Status: Cancelled, Until: now + 5e9}
	if err := s.Room(now, &more, &f); err != ErrLive {
		t.Fatal(err)
	}
	empty := append(Set(nil), s...) // whoever walks over this finds nothing
	clear(empty[empty.entries():])
	for i := range 3 {
		if err := empty.Room(now+int64(i)*lookAgain/3, &more, &f); err != ErrLive {
			t.Fatalf("after %d: %v: it has walked", i, err)
		}
	}
	if err := s.Room(now, &tomb, &f); err != nil {
		t.Errorf("an id that holds nothing: %v", err)
	}
	if err := s.Room(now+lookAgain, &more, &f); err != ErrLive {
		t.Errorf("when none is over: %v", err)
	}
	if err := s.Room(now+1e9, &more, &f); err != nil {
		t.Errorf("when the first is over: %v", err)
	}
	f = Full{}
	if err := s.Room(now, &more, &f); err != ErrLive {
		t.Error(err)
	}
	var e Entry
	if !s.Find(now, []byte("77"), &e) {
		t.Fatal("77 is lost")
	}
	e.Status = Committed
	s.Change(&w, now, &e)
	if s = w.inPlace(t, s); s.Room(now, &more, &f) != nil {
		t.Error("there is no room when one is settled")
	}
}

// TestStepsOfALongSetAreCheap checks that steps on a key with many ids neither write its set anew each time nor look at all of it.
// What they write and look at is counted in bytes.
//
//test:norace
func TestStepsOfALongSetAreCheap(t *testing.T) {
	type run struct {
		s         Set
		w         Edit
		f         Full
		now       int64
		next      int
		size      int // bytes that were written or looked at
		ok, fails int
	}
	add := func(r *run, id int, status Status, ttl int64) {
		e := Entry{ID: fmt.Appendf(nil, "request:%d", id), Status: status, Until: r.now + ttl, Rest: ttl, Amount: 1, Limit: []byte("12345678")}
		if status == Once {
			e.Rest = 0
		}
		again := r.f.again
		err := r.s.Room(r.now, &e, &r.f)
		if r.f.again != again {
			r.size += len(r.s)
		}
		if err == nil {
			if err = r.s.Add(&r.w, r.now, &e, 7); err != nil {
				t.Fatal(err)
			}
			r.size += len(r.w.Whole)
			r.s, r.ok = r.w.inPlace(t, r.s), r.ok+1
			return
		}
		r.fails++
	}
	settle := func(r *run, id int) {
		var e Entry
		if !r.s.Find(r.now, fmt.Appendf(nil, "request:%d", id), &e) {
			return
		}
		e.Status, e.Back, e.Rest = Committed, 0, r.now+30e9-e.Until
		r.s.Change(&r.w, r.now, &e)
		r.s = r.w.inPlace(t, r.s)
	}
	const ttl = 60e9
	for _, c := range []struct {
		name        string
		fill        int
		status      Status
		apart       int64 // the time between two of those
		from        int64 // when the steps begin, after the last
		steps       int
		step        func(r *run, i int)
		ok, atMost  int // how many are added at least, and at most
		bytesAtMost int // for each step
	}{
		{"the time of one is over at each step", MaxLive, Kept, 1e6, ttl - MaxLive*1e6, 2_000, func(r *run, i int) {
			r.now += 1e6
			add(r, r.next, Kept, ttl)
		}, 1_890, 2_000, 64 << 10},
		{"one is settled at each step", MaxLive, Kept, 0, 0, 60_000, func(r *run, i int) {
			settle(r, i)
			add(r, r.next, Kept, ttl)
		}, MaxKnown - MaxLive, most - MaxLive, 1 << 10},
		{"one that goes back is settled at each step", MaxLive, Returning, 0, 0, 60_000, func(r *run, i int) {
			settle(r, i)
			add(r, r.next, Returning, ttl)
		}, MaxKnown - MaxLive, most - MaxLive, 1 << 10},
		{"an id is forgotten and comes again", 100_000, Once, 1e6, ttl - 100_000*1e6, 50_000, func(r *run, i int) {
			r.now += 1e6
			add(r, i, Once, ttl)
		}, 50_000, 50_000, 1 << 10},
		{"ids are known, and one is held and settled", 60_000, Once, 0, 0, 3_000, func(r *run, i int) {
			add(r, r.next, Returning, ttl)
			settle(r, r.next)
		}, 3_000, 3_000, 2 << 10},
		{"all ids that a key may have", most, Once, 4e5, ttl - most*4e5, 20_000, func(r *run, i int) {
			r.now += 4e5
			add(r, r.next, Once, ttl)
		}, 3_000, 20_000, 16 << 10},
	} {
		r := &run{now: 1.7e18}
		for ; r.next < c.fill; r.next++ {
			add(r, r.next, c.status, ttl)
			r.now += c.apart
		}
		r.now += c.from
		r.size, r.ok, r.fails = 0, 0, 0
		for i := range c.steps {
			c.step(r, i)
			r.next++
		}
		if per := r.size / c.steps; per > c.bytesAtMost {
			t.Errorf("%s: a step writes and looks at %d bytes", c.name, per)
		}
		if r.ok < c.ok || r.ok > c.atMost {
			t.Errorf("%s: %d are added, %d are not", c.name, r.ok, r.fails)
		}
		if n := r.s.count(); n > most {
			t.Errorf("%s: %d ids", c.name, n)
		}
		t.Logf("%s: %d bytes a step; %d added, %d not", c.name, r.size/c.steps, r.ok, r.fails)
	}
}

// TestIDThatComesAgain checks that of an id that was forgotten and is used again only the new entry counts, also for a node whose clock
// is behind that of the one which made it, and that the set is not written anew for it.
func TestIDThatComesAgain(t *testing.T) {
	const now = int64(1.7e18)
	for _, c := range []struct {
		name string
		e    Entry
		to   Status
	}{
		{"a brief one", Entry{Status: Once, Until: now + 10, Amount: 1, Limit: []byte("12345678")}, Once},
		{"one that says more", Entry{Status: Once, Until: now + 10, Amount: 1, Back: now + 5, Limit: []byte("12345678")}, Once},
		{"one that was kept", Entry{Status: Kept, Until: now + 5, Rest: 5, Amount: 1}, Kept},
		{"one that was settled", Entry{Status: Returning, Until: now + 50, Rest: 50, Amount: 1}, Committed},
		{"one that went back", Entry{Status: Returning, Until: now + 5, Rest: 5, Amount: 1}, Returned},
	} {
		var s Set
		var w Edit
		add := func(now int64, e Entry) {
			t.Helper()
			if err := s.Add(&w, now, &e, 7); err != nil {
				t.Fatal(c.name, err)
			}
			s = w.apply(t, s)
		}
		for i := range 40 {
			add(now, Entry{ID: fmt.Append(nil, i), Status: Returning, Until: now + 40 + int64(i), Rest: 1e9})
		}
		c.e.ID = []byte("again")
		add(now, c.e)
		var e Entry
		switch c.to {
		case Committed:
			s.Find(now, c.e.ID, &e)
			e.Status, e.Rest = Committed, now+10-e.Until
			s.Change(&w, now, &e)
			s = w.inPlace(t, s)
		case Returned:
			s.Return(&w, now+5, true, func(*Entry) {})
			s = w.inPlace(t, s)
		}
		if s.Find(now+9, c.e.ID, &e); e.Status != c.to || !s.Find(now+9, c.e.ID, &e) || s.Find(now+10, c.e.ID, &e) {
			t.Fatalf("%s: %+v", c.name, e)
		}
		again := Entry{ID: c.e.ID, Status: Kept, Until: now + 1e6, Rest: 1e6, Amount: 2}
		if err := s.Add(&w, now+20, &again, 7); err != nil || w.Whole != nil {
			t.Fatalf("%s: %v, or it is written anew", c.name, err)
		}
		if s = w.inPlace(t, s); s.Check() != nil {
			t.Error(c.name, s.Check())
		}
		for range 2 {
			n := 0
			s.Each(now, func(e *Entry) bool {
				if string(e.ID) == "again" {
					n++
				}
				return true
			})
			if !s.Find(now, c.e.ID, &e) || e.Amount != 2 || n != 1 {
				t.Errorf("%s: %d are known, and %+v is found", c.name, n, e)
			}
			s.rewrite(&w, now, &changes{seed: 7, void: never})
			s = bytes.Clone(w.Whole)
		}
		for i, k := 0, 0; i < 40; k++ { // all others go back in their order
			if k > 50 || !s.Due(now+40+int64(i)) {
				t.Fatalf("%s: %d is not due", c.name, i)
			}
			s.Return(&w, now+40+int64(i), true, func(*Entry) { i++ })
			s = w.apply(t, s)
		}
	}
}

// Bytes of any kind are an answer or nothing.
func FuzzSet(f *testing.F) {
	var s Set
	var w Edit
	for i := range few + 4 {
		e := Entry{ID: fmt.Appendf(nil, "%d", i), Status: Status(i % int(statuses)), Until: 9, Rest: 9, Back: 9, Limit: []byte("l")}
		if err := s.Add(&w, 1, &e, 7); err != nil {
			f.Fatal(err)
		}
		s = w.apply(f, s)
		f.Add([]byte(s), int64(i), []byte("3"))
	}
	for i := range few + 4 {
		e := Entry{ID: fmt.Appendf(nil, "o%d", i), Status: Once, Until: 9, Amount: 9, Limit: []byte("12345678")}
		if err := s.Add(&w, 1, &e, 7); err != nil {
			f.Fatal(err)
		}
		s = w.apply(f, s)
		f.Add([]byte(s), int64(i), []byte("o3"))
	}
	f.Fuzz(func(t *testing.T, b []byte, now int64, id []byte) {
		s := Set(b)
		s.Check()
		id = id[:min(len(id), MaxID)]
		var e Entry
		var w Edit
		if known := s.Find(now, id, &e); known && e.Status == Once {
			_ = e.Forgotten()
		} else if known {
			e.Status = Committed
			s.Change(&w, now, &e)
			w.apply(t, s)
		} else if e := (Entry{ID: id, Until: now, Rest: 5}); s.Add(&w, now, &e, 7) == nil {
			w.apply(t, s)
		}
		for range 3 {
			if s.Due(now) {
				s.Return(&w, now, false, func(*Entry) {})
				s = w.inPlace(t, s)
			}
		}
		s.Void()
	})
}

// TestLiveIsNeverTooFew checks that the count of live holds leaves none out, also when those are settled whose time was over when the set
// was written anew.
func TestLiveIsNeverTooFew(t *testing.T) {
	var s Set
	var w Edit
	now := int64(1.7e18)
	for i := range 40 {
		e := Entry{ID: fmt.Appendf(nil, "%d", i), Until: now + 1e9 + int64(i%2)*1e12, Rest: 1e12, Amount: 1}
		if err := s.Add(&w, now, &e, 7); err != nil {
			t.Fatal(i, err)
		}
		s = w.inPlace(t, s)
	}
	now += 2e9
	s.rewrite(&w, now, &changes{seed: 7, void: never})
	s = append(Set(nil), w.Whole...)
	for i := 0; i < 40; i += 2 {
		var e Entry
		if !s.Find(now, fmt.Appendf(nil, "%d", i), &e) {
			t.Fatal(i, "is lost")
		}
		e.Status = Committed
		s.Change(&w, now, &e)
		s = w.inPlace(t, s)
	}
	if s.live() < 20 {
		t.Errorf("%d of 20 are counted", s.live())
	}
}

// TestCheck checks that a set whose entries do not fill it is found.
func TestCheck(t *testing.T) {
	for i, n := range []int{1, few, few + 1, 1, few, few + 1} {
		once := i > 2
		var s Set
		var w Edit
		for i := range n {
			e := Entry{ID: fmt.Appendf(nil, "%d", i), Until: 1e18, Rest: 1e9, Back: 1e18 + 7, Limit: []byte("limit")}
			if once {
				e = Entry{ID: e.ID, Status: Once, Until: 1e18, Limit: []byte("12345678")}
			}
			if err := s.Add(&w, 1, &e, 7); err != nil {
				t.Fatal(err)
			}
			s = w.apply(t, s)
		}
		if err := s.Check(); err != nil {
			t.Errorf("%d entries: %v", n, err)
		}
		for _, damaged := range []Set{nil, s[:12], s[:len(s)-1], append(bytes.Clone(s), 0), append(bytes.Clone(s[:len(s)-20]), bytes.Repeat([]byte{0xff}, 20)...)} {
			if damaged.Check() == nil {
				t.Errorf("%d entries: %x passes", n, damaged)
			}
		}
	}
}
