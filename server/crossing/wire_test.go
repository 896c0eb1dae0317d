package crossing

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"limitdb/engine"
	"limitdb/groups/across"
	"limitdb/limit"
	"limitdb/server/group"
	"limitdb/server/handler"
	"limitdb/server/request"
)

// partOf returns the part of a request that is all of it.
func partOf(r *engine.Together, each handler.Each) *part {
	d := &group.Group{}
	p := &New(r, each, func([]byte) *group.Group { return d }).parts[0].part
	p.each = each // it is not the only part
	return p
}

// What a node asks for, the other one reads as it is.
func TestCallsAreRead(t *testing.T) {
	r := together("0a FIXED 2/h BLOCK 5m", "0b FIXED 9 CALENDAR MONTH TZ Europe/Berlin", "0c WARMUP 9/m WARM 7s COLD 5", "0d LEASE {id}", "0e LOG 30/h COUNTDENIED")
	r.Soft[2], r.Costs[1], r.Costs[4] = true, 1<<40, 0
	var zones limit.Zones
	berlin, err := zones.Find([]byte("Europe/Berlin"))
	if err != nil {
		t.Fatal(err)
	}
	r.Limits[1].Zone = berlin
	for _, each := range []handler.Each{{}, {How: handler.Refunds}, {How: handler.Releases, ID: []byte("l1")}, {How: handler.Singly}, {How: handler.Whole}} {
		for _, free := range []bool{false, true} {
			if r.Free = nil; free && each.How == handler.Singly {
				r.Free = make([]limit.Decision, len(r.Keys))
			}
			for call := across.Look; call <= across.GiveBack; call++ {
				if each.How != handler.All && call != across.Take {
					continue
				}
				p := partOf(r, each)
				got, err := Parse(p.ask(call), &zones)
				if err != nil {
					t.Fatal(err)
				}
				if got.call != call || got.each.How != each.How || each.ID != nil && !bytes.Equal(got.each.ID, each.ID) || got.r.CountDenied != p.r.CountDenied ||
					(got.r.Free != nil) != (p.r.Free != nil) || !slices.Equal(got.r.Costs, p.r.Costs) || !slices.Equal(got.r.Soft, p.r.Soft) ||
					!slices.EqualFunc(got.r.Keys, p.r.Keys, bytes.Equal) || !slices.EqualFunc(got.hard, p.hard, bytes.Equal) {
					t.Fatalf("%+v\nis %+v", p, got)
				}
				for i, l := range p.r.Leases {
					switch {
					case (l != nil) != (got.r.Leases[i] != nil):
						t.Error("a lease is lost")
					case l != nil && (got.r.Leases[i].Limit != l.Limit || got.r.Leases[i].TTL != l.TTL || got.r.Leases[i].Weight != l.Weight):
						t.Errorf("%+v is %+v", l, got.r.Leases[i])
					case l == nil && each.How != handler.Releases && got.r.Limits[i] != p.r.Limits[i]:
						t.Errorf("%v is %v", &p.r.Limits[i], &got.r.Limits[i])
					}
				}
				if each.How == handler.All && (!bytes.Equal(got.hold.ID, p.hold.ID) || !bytes.Equal(got.hold.List, p.hold.List) || !slices.EqualFunc(got.hold.Notes, p.hold.Notes, bytes.Equal)) {
					t.Errorf("%+v is %+v", p.hold, got.hold)
				}
			}
		}
	}
}

// What a node answers, the one that has asked reads as it is; of any other bytes, it knows nothing.
func TestRepliesAreRead(t *testing.T) {
	r := together("0a FIXED 2/h", "0b FIXED 9/h")
	p := partOf(r, handler.Each{})
	rows := []limit.Decision{{Limited: true, Limit: 1 << 60, Remaining: 3, Wait: limit.Never, Reset: 1}, {Limit: 9, Wait: 5}}
	granted := answer{Answer: across.Answer{Outcome: across.Granted, Rows: rows, Free: rows[:2:2]}, blocks: []engine.BlockOutcome{engine.BlockBegun, engine.NoBlock}, at: -1}
	denied, taken, back := granted, granted, answer{Answer: across.Answer{Outcome: across.Granted}, at: -1}
	denied.Outcome, denied.Free, taken.Free = across.Denied, nil, nil
	bulk := func(a *answer) []byte {
		b := p.encode(a)
		return append(append([]byte("$"+string(rune('0'+len(b)/10))+string(rune('0'+len(b)%10))+"\r\n"), b...), "\r\n"...)
	}
	for i, test := range []struct {
		call  across.Call
		reply []byte
		want  answer
	}{
		{across.Look, bulk(&granted), granted},
		{across.Look, bulk(&denied), denied},
		{across.Take, bulk(&taken), taken},
		{across.Take, bulk(&denied), denied},
		{across.GiveBack, []byte("$2\r\n\x01\x00\r\n"), back},
		{across.Take, AppendFailed(nil, 1, "OOM"), answer{Answer: across.Answer{Outcome: across.Failed, Err: request.Told("OOM")}, at: 1}},
		{across.Take, AppendFailed(nil, -1, "LOADING"), answer{Answer: across.Answer{Outcome: across.Failed, Err: request.Told("LOADING")}, at: -1}},
	} {
		got := p.reads(test.call, test.reply, false)
		if got.Outcome != test.want.Outcome || got.at != test.want.at || got.Err != test.want.Err || !slices.Equal(got.Rows, test.want.Rows) || !slices.Equal(got.Free, test.want.Free) ||
			test.want.blocks != nil && !slices.Equal(got.blocks, test.want.blocks) {
			t.Errorf("%d: %+v, want %+v", i, got, test.want)
		}
		for n := range test.reply {
			if a := p.reads(test.call, test.reply[:n], false); a.Outcome != across.Unknown {
				t.Errorf("%d: %d bytes of it are %+v", i, n, a)
			}
		}
	}
	for _, text := range []string{"", "-ERR unknown command", "+OK\r\n", "$-1\r\n", "$0\r\n\r\n", "$2\r\n\x05\x00\r\n", "$2\r\n\x04\x00\r\n", "$2\r\n\x01\x00\r\n", "$2\r\n\x02\x00\r\n", "$3\r\n\x03\x00\x09\r\n", "$2\r\n\x01\x00\r\n\r\n"} {
		if a := p.reads(across.Take, []byte(text), false); a.Outcome != across.Unknown {
			t.Errorf("%q is %+v", text, a)
		}
	}
	if a := p.reads(across.Take, nil, true); a.Outcome != across.Leaderless {
		t.Error(a)
	}
	if a := p.reads(across.GiveBack, bulk(&taken), false); a.Outcome != across.Unknown {
		t.Error(a)
	}
}

// FuzzParse reads any words as a call, or refuses them; what it reads, a group can carry out.
func FuzzParse(f *testing.F) {
	for _, each := range []handler.Each{{}, {How: handler.Refunds}, {How: handler.Releases, ID: []byte("l1")}, {How: handler.Singly}} {
		words := partOf(together("0a FIXED 2/h BLOCK 5m", "0d LEASE {id}"), each).ask(across.Take)
		f.Add(words[0], words[1], words[2], words[3], words[4])
	}
	d := newNode(f, 1)
	f.Fuzz(func(t *testing.T, head, key, row, key2, row2 []byte) {
		words := [][]byte{head, key, row, key2, row2}
		for _, words := range [][][]byte{words, words[:3], words[:2], words[:1]} {
			p, err := Parse(words, new(limit.Zones))
			if err != nil {
				continue
			}
			if out, begun := p.Append(nil, d.groups[0], func(err error, _ []byte, _ *limit.Limit) string { return err.Error() }); begun && p.reads(p.call, out, false).Outcome == across.Unknown {
				t.Fatalf("%q: %q", words, out)
			}
		}
	})
}

// message is a call on its way to another node.
type message struct {
	words [][]byte
	g     *group.Group
	told  func(reply []byte, refused bool) // nil: it was told
}

func (m *message) tell(reply []byte, refused bool) {
	if told := m.told; told != nil {
		m.told = nil
		told(reply, refused)
	}
}

// TestNothingIsExceededOrLeftAfar runs requests at once over groups that this node or another one leads, and that change their leader. What is sent is
// late, lost, decided twice, and refused, replies are lost, and coordinators die. Then it counts: what was granted is within every limit, and what was taken
// beyond that is of a coordinator that has died. Only where nothing is given back in time, it is also of parts that are counted as left.
func TestNothingIsExceededOrLeftAfar(t *testing.T) {
	outcomes := map[across.Outcome]int{}
	left, dead := uint64(0), 0
	for seed := range uint64(600) {
		w := newFarWorld(t, seed)
		w.run()
		for _, q := range w.all {
			if outcomes[q.x.Result().Outcome]++; q.dead {
				dead++
			}
		}
		w.count()
		for _, q := range w.all {
			left += q.counts.Left.Load()
		}
	}
	t.Log(outcomes, left, dead)
	for o := across.Granted; o <= across.Unknown; o++ {
		if outcomes[o] == 0 && o != across.Failed {
			t.Errorf("no outcome is %d", o)
		}
	}
	if left == 0 || dead == 0 {
		t.Error("nothing was left, or nobody has died")
	}
}

// farWorld is a node, groups of which it leads some, and what is on its way to the node that leads the others.
type farWorld struct {
	t      *testing.T
	r      *rand.Rand
	d      *node
	flight []*message
	late   []*message // told to be lost, and perhaps not
	all    []*farRequest
	fails  bool
	slow   bool // nothing is given back again in time
}

// farRequest is a request under way.
type farRequest struct {
	x      *Crossing
	r      *engine.Together
	counts across.Counters
	again  Returns
	woken  bool
	done   bool
	dead   bool // its coordinator
}

func newFarWorld(t *testing.T, seed uint64) *farWorld {
	w := &farWorld{t: t, r: rand.New(rand.NewPCG(seed, 3)), d: newNode(t, 3)}
	w.fails, w.slow = seed%3 > 0, seed%8 == 7
	if seed%2 > 0 {
		w.d.waiting = &waiting{most: 3}
	}
	for g := range w.d.groups {
		w.move(g)
	}
	return w
}

// move has this node lead a group, or another one.
func (w *farWorld) move(g int) {
	if k := w.d.keeps[g]; w.r.IntN(2) == 0 {
		k.turn = 0
	} else {
		k.turn = uint64(len(w.all)) + 1
	}
}

// far implements Far.
func (w *farWorld) far(g *group.Group, words [][]byte, told func(reply []byte, refused bool)) bool {
	if w.fails && w.r.IntN(30) == 0 {
		return false
	}
	w.flight = append(w.flight, &message{words: words, g: g, told: told})
	return true
}

// arrive has the other node carry out a call, unless this one leads, and reports whether it may come again. What was refused, or denied, is over.
func (w *farWorld) arrive(m *message) (again bool) {
	if w.d.keeps[slices.Index(w.d.groups, m.g)].turn != 0 {
		m.tell(nil, true)
		return false
	}
	p, err := Parse(m.words, new(limit.Zones))
	if err != nil {
		w.t.Fatal(err)
	}
	out, _ := p.Append(nil, m.g, func(err error, _ []byte, _ *limit.Limit) string { return err.Error() })
	if w.fails && w.r.IntN(12) == 0 {
		m.tell(nil, false) // the reply is lost
		return false
	}
	b, _ := bulkOf(out)
	m.tell(out, false)
	return across.Outcome(b[0]) == across.Granted
}

func (w *farWorld) ask() {
	texts := []string{"0a FIXED 9/h FIRST", "0b LEASE", "1c FIXED 7/h FIRST", "1d LEASE", "2e FIXED 12/h FIRST", "2f FIXED 5/h FIRST"}
	var words []string
	for _, text := range texts {
		if w.r.IntN(2) == 0 {
			words = append(words, strings.Replace(text, "LEASE", "LEASE id"+string(rune('A'+len(w.all))), 1))
		}
	}
	if len(words) < 2 || words[0][0] == words[len(words)-1][0] {
		return
	}
	q := &farRequest{r: together(words...)}
	for i := range q.r.Costs {
		q.r.Costs[i] = w.r.Int64N(3)
	}
	w.all = append(w.all, q)
	q.x = New(q.r, handler.Each{}, w.d.of)
	ways := w.d.ways()
	ways.Counts, ways.Returns = &q.counts, &q.again
	ways.Far = func(g *group.Group, words [][]byte, told func(reply []byte, refused bool)) bool {
		return w.far(g, words, func(reply []byte, refused bool) {
			if !q.dead {
				told(reply, refused)
			}
		})
	}
	q.x.Begin(ways, func() { q.woken = true })
	q.woken = true
}

// run runs requests until nothing is on its way.
func (w *farWorld) run() {
	rests := func(q *farRequest) bool { return q.dead || q.done && q.again.Len() == 0 }
	for asked := 0; asked < 16 || len(w.flight)+len(w.late) > 0 || slices.ContainsFunc(w.all, func(q *farRequest) bool { return !rests(q) }); {
		switch n := w.r.IntN(20); {
		case n < 3 && asked < 16:
			asked++
			w.ask()
		case n == 3 && w.fails:
			w.move(w.r.IntN(len(w.d.groups)))
		case n == 4 && w.fails && w.d.clock.now < start+2e9:
			w.d.clock.now += w.r.Int64N(4e8)
		case n == 5 && asked == 16 && w.slow && len(w.flight)+len(w.late) == 0:
			w.d.clock.now += across.TTL
			fallthrough
		case n == 5 && !w.slow:
			for _, q := range w.all {
				if !q.dead {
					q.again.Again()
				}
			}
		case n == 6 && w.d.waiting != nil:
			w.d.waiting.Wake()
		case n == 7 && w.fails && len(w.all) > 0 && w.r.IntN(9) == 0:
			if q := w.all[w.r.IntN(len(w.all))]; !q.done {
				q.dead = true
			}
		case n < 9:
			for _, q := range w.all {
				if q.woken && !q.done && !q.dead {
					q.woken, q.done = false, q.x.Resume()
				}
			}
		case n < 11 && len(w.late) > 0:
			m := w.late[0]
			w.late = w.late[1:]
			w.arrive(m)
		case len(w.flight) > 0:
			i := w.r.IntN(len(w.flight))
			m := w.flight[i]
			w.flight = slices.Delete(w.flight, i, i+1)
			if w.fails && w.r.IntN(10) == 0 { // the stream is lost
				m.tell(nil, false)
				if w.r.IntN(2) == 0 {
					w.late = append(w.late, m) // though it arrives
				}
				continue
			}
			if w.arrive(m) && w.fails && w.r.IntN(10) == 0 {
				w.late = append(w.late, m) // again
			}
		}
	}
}

// count compares what is taken of every key with what was granted.
func (w *farWorld) count() {
	used, most := map[string]int64{}, map[string]int64{}
	perhaps := map[string]int64{}
	for _, q := range w.all {
		granted := q.x.Result().Outcome == across.Granted
		if !granted && !q.dead && !q.x.check.Done() {
			w.t.Fatal("it is not done")
		}
		for i, key := range q.r.Keys {
			cost := q.r.Costs[i]
			if q.r.Leases[i] != nil {
				cost, most[string(key)] = 1, q.r.Leases[i].Limit
			} else {
				most[string(key)] = q.r.Limits[i].Max
			}
			if granted {
				used[string(key)] += cost
			} else if q.dead || w.slow && q.counts.Left.Load() > 0 {
				perhaps[string(key)] += cost
			}
		}
	}
	for _, q := range w.all {
		for i, left := range w.d.left(q.r) {
			key := string(q.r.Keys[i])
			taken := most[key] - left
			switch {
			case used[key] > most[key]:
				w.t.Fatalf("%s: %d of %d were granted", key, used[key], most[key])
			case taken < used[key]:
				w.t.Fatalf("%s: %d are taken, though %d were granted", key, taken, used[key])
			case taken > used[key]+perhaps[key]:
				w.t.Fatalf("%s: %d are taken, though %d were granted, and %d may be left", key, taken, used[key], perhaps[key])
			}
		}
	}
}

// An error that another node has told is told as it is.
func TestToldErrors(t *testing.T) {
	if got := request.ErrorText(errors.Join(request.Told("NOPERM no"))); got != "NOPERM no" {
		t.Error(got)
	}
}
