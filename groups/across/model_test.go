package across

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"limitdb/engine"
	"limitdb/hold"
	"limitdb/limit"
)

const (
	second = int64(1e9)
	start  = 1_600_000_000 * second
)

// fakeGroup is a group: an engine, and the log of what was done to it, of which a part is durable. What is not is lost when the leader dies.
type fakeGroup struct {
	w       *world
	e       *engine.Engine
	log     []func(e *engine.Engine)
	durable int
	waits   []*message // for the log to be durable up to their at
	leads   bool
}

// message is a call on its way to a group, or its answer on the way back.
type message struct {
	a        *attempt
	part     int
	call     Call
	answered bool
	at       int // in the log
	answer   Answer
}

// attempt is a request under way: the coordinator's side, and what is true of it.
type attempt struct {
	w       *world
	name    string
	id      []byte
	check   Check
	parts   []asked
	dead    bool // its coordinator
	verdict *Verdict
	counts  Counters // of this request alone
}

// asked is a part of a request.
type asked struct {
	g        *fakeGroup
	keys     [][]byte
	limits   []limit.Limit
	costs    []int64
	soft     []bool
	rows     []int
	granted  int  // where in the log it was taken; -1: it was not
	denied   int  // where it was denied
	lost     bool // whether a call to give back was given up
	answered [3]bool
}

// world is some groups, and what is on its way between them.
type world struct {
	t      testing.TB
	r      *rand.Rand
	now    int64
	groups []*fakeGroup
	all    []*attempt
	asked  int // requests
	queue  []func()
	flight []*message
	calm   bool // nothing fails, and answers come at once
	hasty  bool // calls to give back are given up at once, as if it were too late
	looks  bool // requests take nothing
	tale   []string
}

func (w *world) says(format string, args ...any) {
	w.tale = append(w.tale, fmt.Sprintf(format, args...))
}

func (w *world) fails(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(w.tale, "\n"))
}

func newWorld(t testing.TB, seed uint64, groups int) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 1)), now: start}
	for range groups {
		w.groups = append(w.groups, &fakeGroup{w: w, e: engine.New(engine.Options{Seed: 1, Shards: 2}), leads: true})
	}
	return w
}

// do does something to the engine of a group and logs it.
func (g *fakeGroup) do(now int64, keys [][]byte, fn func(t *engine.Txn) error) (err error) {
	step := func(e *engine.Engine) { err = e.UpdateAt(0, now, keys, fn) }
	step(g.e)
	g.log = append(g.log, step)
	return err
}

// dies has the leader die: what was not durable is gone, and nobody knows what became of it.
func (g *fakeGroup) dies() {
	g.w.says("group %d loses its leader, and %d of %d entries", g.index(), len(g.log)-g.durable, len(g.log))
	g.log, g.leads = g.log[:g.durable], false
	g.e = g.until(g.durable)
	waits := g.waits
	g.waits = nil
	for _, p := range g.parts() {
		if p.granted >= g.durable {
			p.granted = -1
		}
		if p.denied >= g.durable {
			p.denied = -1
		}
	}
	for _, m := range waits {
		m.tell(Answer{Outcome: Unknown})
	}
}

// until returns an engine with the first n entries of the log.
func (g *fakeGroup) until(n int) *engine.Engine {
	e := engine.New(engine.Options{Seed: 1, Shards: 2})
	for _, step := range g.log[:n] {
		step(e)
	}
	return e
}

func (g *fakeGroup) parts() (all []*asked) {
	for _, a := range g.w.all {
		for i := range a.parts {
			if a.parts[i].g == g {
				all = append(all, &a.parts[i])
			}
		}
	}
	return all
}

func (g *fakeGroup) index() int { return slices.Index(g.w.groups, g) }

// syncs makes everything durable and answers whoever has waited for that.
func (g *fakeGroup) syncs() {
	g.durable = len(g.log)
	waits := g.waits
	g.waits = nil
	for _, m := range waits {
		if g.w.calm {
			m.tell(m.answer)
			continue
		}
		g.w.later(func() { m.tell(m.answer) })
	}
}

func (w *world) later(fn func()) { w.queue = append(w.queue, fn) }

// together returns the request of a part to an engine.
func (p *asked) together() *engine.Together {
	return &engine.Together{
		Keys: p.keys, Limits: p.limits, Costs: p.costs, Soft: p.soft, Decisions: make([]limit.Decision, len(p.keys)), CountDenied: true,
	}
}

// Look, Take, GiveBack and Reply implement Groups.

func (a *attempt) Look(part int)     { a.send(part, Look) }
func (a *attempt) Take(part int)     { a.send(part, Take) }
func (a *attempt) GiveBack(part int) { a.send(part, GiveBack) }

func (a *attempt) send(part int, call Call) {
	p := &a.parts[part]
	if p.answered[call] {
		a.w.fails("%s: part %d is asked twice: call %d", a.name, part, call)
	}
	p.answered[call] = true
	a.goes(part, call)
}

// goes sends a call.
func (a *attempt) goes(part int, call Call) {
	m := &message{a: a, part: part, call: call}
	a.w.flight = append(a.w.flight, m)
	if a.w.calm || a.w.r.IntN(4) == 0 { // a group that this node leads
		m.arrives()
		return
	}
	a.w.later(m.arrives)
}

// tell tells the answer to the coordinator, unless that has given up or is dead.
func (m *message) tell(answer Answer) {
	if m.answered {
		return
	}
	m.answered = true
	m.a.w.flight = slices.DeleteFunc(m.a.w.flight, func(o *message) bool { return o == m })
	if m.a.dead {
		return
	}
	if m.call == GiveBack && answer.Outcome != Granted {
		if !m.a.w.hasty {
			m.a.goes(m.part, GiveBack)
			return
		}
		m.a.parts[m.part].lost = true
	}
	m.a.w.says("%s: call %d of part %d: outcome %d", m.a.name, m.call, m.part, answer.Outcome)
	m.a.check.Told(m.part, m.call, answer)
}

// arrives carries out a call.
func (m *message) arrives() {
	p := &m.a.parts[m.part]
	w, g := m.a.w, p.g
	if !g.leads {
		m.tell(Answer{Outcome: Leaderless})
		return
	}
	if m.call == Look {
		m.tell(p.look(w))
		return
	}
	m.at = len(g.log)
	if m.call == Take {
		m.answer = p.take(w.now, m.a.id)
		switch m.answer.Outcome {
		case Granted:
			p.granted = m.at
		case Denied:
			p.denied = m.at
		}
	} else {
		m.answer = p.giveBack(w.now, m.a.id)
	}
	w.says("%s: group %d carries out call %d: outcome %d", m.a.name, g.index(), m.call, m.answer.Outcome)
	g.waits = append(g.waits, m)
	if w.calm {
		g.syncs()
	}
}

// look looks at the group's state. Somebody who led it once may answer with an old one.
func (p *asked) look(w *world) Answer {
	e := p.g.e
	if !w.calm && w.r.IntN(3) == 0 {
		e = p.g.until(w.r.IntN(len(p.g.log) + 1))
	}
	r, at := p.together(), -1
	r.Peek, r.Free = true, make([]limit.Decision, len(p.keys))
	err := e.UpdateAt(0, w.now, p.keys, func(t *engine.Txn) (err error) {
		at, err = t.Together(r)
		return err
	})
	switch {
	case err != nil:
		return Answer{Outcome: Failed, Err: err}
	case at >= 0:
		return Answer{Outcome: Denied, Rows: r.Decisions}
	}
	return Answer{Outcome: Granted, Rows: r.Decisions, Free: r.Free}
}

func (p *asked) take(now int64, id []byte) Answer {
	r, at := p.together(), -1
	r.Hold = &engine.Hold{ID: id, TTL: TTL}
	err := p.g.do(now, p.keys, func(t *engine.Txn) (err error) {
		at, err = t.Together(r)
		return err
	})
	switch {
	case err != nil:
		return Answer{Outcome: Failed, Err: err}
	case at >= 0:
		return Answer{Outcome: Denied, Rows: r.Decisions}
	}
	return Answer{Outcome: Granted, Rows: r.Decisions}
}

// hard returns the keys of the limits that can deny, which are held.
func (p *asked) hard() (keys [][]byte) {
	for i, key := range p.keys {
		if !p.soft[i] {
			keys = append(keys, key)
		}
	}
	return keys
}

func (p *asked) giveBack(now int64, id []byte) Answer {
	keys := p.hard()
	err := p.g.do(now, keys, func(t *engine.Txn) error {
		_, err := engine.GiveUpAll(t, keys, id, make([]engine.Settlement, len(keys)))
		return err
	})
	if err != nil {
		return Answer{Outcome: Failed, Err: err}
	}
	return Answer{Outcome: Granted}
}

// Reply checks the verdict against what is true.
func (a *attempt) Reply(v Verdict) {
	a.w.says("%s: is told %+v", a.name, v)
	if a.verdict != nil {
		a.w.fails("%s: a second verdict, %+v", a.name, v)
	}
	a.verdict = &v
	denied := false
	for i := range a.parts {
		p := &a.parts[i]
		denied = denied || p.denied >= 0 && p.denied < p.g.durable
		if v.Outcome == Granted && !a.w.looks && (p.granted < 0 || p.granted >= p.g.durable) {
			a.w.fails("%s: granted, but part %d is not taken for good", a.name, i)
		}
	}
	if v.Outcome == Denied && !denied && !a.w.looks {
		a.w.fails("%s: denied, but no group has denied it", a.name)
	}
	if v.Outcome == Denied && (v.At < 0 || !a.check.Rows[v.At].Limited) {
		a.w.fails("%s: denied by limit %d of %+v", a.name, v.At, a.check.Rows)
	}
}

// ask begins a request for some keys, each of the group that its first byte names.
func (w *world) ask(keys []string, limits []limit.Limit, costs []int64, soft []bool) *attempt {
	w.asked++
	a := &attempt{w: w, name: fmt.Sprint("request ", w.asked), id: fmt.Append(nil, "id", w.asked)}
	for i, key := range keys {
		g := w.groups[key[0]-'0']
		at := slices.IndexFunc(a.parts, func(p asked) bool { return p.g == g })
		if at < 0 {
			at = len(a.parts)
			a.parts = append(a.parts, asked{g: g, granted: -1, denied: -1})
		}
		p := &a.parts[at]
		p.keys, p.limits, p.costs, p.soft = append(p.keys, []byte(key)), append(p.limits, limits[i]), append(p.costs, costs[i]), append(p.soft, soft[i])
		p.rows = append(p.rows, i)
	}
	r := Request{Costs: costs, Soft: soft, Looks: w.looks}
	for i := range a.parts {
		r.Parts = append(r.Parts, Part{Rows: a.parts[i].rows})
	}
	w.all = append(w.all, a)
	w.says("%s asks for %v of %q", a.name, costs, keys)
	a.check.Begin(r, a, &a.counts)
	return a
}

func mustParse(t testing.TB, text string) limit.Limit {
	t.Helper()
	l, err := (&limit.Parser{}).Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestNothingIsExceededOrLeft runs requests over several groups at once, in which messages are delayed, overtake one another and are lost, leaders and
// coordinators die, and calls are carried out late. Calls to give back are tried again. Then it counts: what was granted is within every limit, and all that
// was taken beyond that is of a coordinator that has died. Only where calls are not tried again, it is also of one that was lost, which was counted.
func TestNothingIsExceededOrLeft(t *testing.T) {
	runs := 1500
	if os.Getenv("LIMITDB_LONG") != "" {
		runs = 50_000
	}
	verdicts := map[Outcome]int{}
	late, left := uint64(0), uint64(0)
	for seed := range runs {
		w := newWorld(t, uint64(seed), 2+seed%3)
		w.episode()
		for _, a := range w.all {
			if a.verdict != nil {
				verdicts[a.verdict.Outcome]++
			}
			late, left = late+a.counts.DeniedLate.Load(), left+a.counts.Left.Load()
		}
	}
	t.Log(verdicts, late, left)
	for o := Granted; o <= Unknown; o++ {
		if verdicts[o] == 0 && o != Failed {
			t.Errorf("no verdict is %d", o)
		}
	}
	if late == 0 || left == 0 {
		t.Error("nothing was denied late, or nothing was left")
	}
}

// episode runs some requests until nothing is on its way any more, and checks what has become of them.
func (w *world) episode() {
	limits := []limit.Limit{mustParse(w.t, "FIXED 9/h FIRST"), mustParse(w.t, "LOG 7/h"), mustParse(w.t, "FIXED 12/h FIRST COUNTDENIED")}
	failing := w.r.IntN(3) > 0
	w.hasty = w.r.IntN(4) == 0
	for began := 0; began < 14 || len(w.queue) > 0 || len(w.flight) > 0; {
		switch n := w.r.IntN(20); {
		case n < 2 && began < 14:
			began++
			w.random(limits)
		case n == 2 && failing && w.now < start+3*second:
			w.now += w.r.Int64N(second / 2)
		case n == 3 && failing && began < 14:
			w.groups[w.r.IntN(len(w.groups))].dies()
		case n < 6:
			w.groups[w.r.IntN(len(w.groups))].leads = true
		case n < 9:
			w.groups[w.r.IntN(len(w.groups))].syncs()
		case n == 9 && failing && len(w.flight) > 0: // given up, though it may still arrive
			w.flight[w.r.IntN(len(w.flight))].tell(Answer{Outcome: Unknown})
		case n == 10 && failing && len(w.all) > 0 && w.r.IntN(4) == 0:
			w.kill(w.all[w.r.IntN(len(w.all))])
		case len(w.queue) > 0:
			i := w.r.IntN(len(w.queue))
			fn := w.queue[i]
			w.queue = slices.Delete(w.queue, i, i+1)
			if failing && w.r.IntN(30) == 0 {
				w.says("a message is lost")
				continue // whoever waits for it gives up one day
			}
			fn()
		case began == 14:
			for _, g := range w.groups {
				g.syncs()
			}
			if len(w.queue) == 0 && len(w.flight) > 0 {
				w.flight[0].tell(Answer{Outcome: Unknown})
			}
		}
	}
	w.counts(limits)
}

// kill has a coordinator die.
func (w *world) kill(a *attempt) {
	if a.verdict == nil || !a.check.Done() {
		w.says("%s: its coordinator dies", a.name)
		a.dead = true
	}
}

// random begins a random request. A key has the limit of its last byte.
func (w *world) random(limits []limit.Limit) {
	var keys []string
	var ls []limit.Limit
	var costs []int64
	var soft []bool
	for g := range w.groups {
		for k := range len(limits) {
			if w.r.IntN(5) > 1 {
				continue
			}
			keys, ls, costs = append(keys, fmt.Sprint(g, k)), append(ls, limits[k]), append(costs, w.r.Int64N(4))
			soft = append(soft, k == 1 && g == 0)
		}
	}
	w.r.Shuffle(len(keys), func(i, j int) {
		keys[i], keys[j], ls[i], ls[j], costs[i], costs[j] = keys[j], keys[i], ls[j], ls[i], costs[j], costs[i]
		soft[i], soft[j] = soft[j], soft[i]
	})
	of := func(i int) byte { return keys[i][0] }
	for i := range keys {
		if of(i) != of(0) {
			w.ask(keys, ls, costs, soft)
			return
		}
	}
}

// counts compares what is taken of every key with what was granted.
func (w *world) counts(limits []limit.Limit) {
	used, left := map[string]int64{}, map[string]int64{}
	for _, a := range w.all {
		if a.verdict == nil && !a.dead {
			w.fails("%s has no verdict", a.name)
		}
		if !a.dead && !a.check.Done() {
			w.fails("%s is not done", a.name)
		}
		granted := a.verdict != nil && a.verdict.Outcome == Granted
		parts := 0
		for i := range a.parts {
			p := &a.parts[i]
			stays := false
			for j, key := range p.keys {
				if p.soft[j] {
					continue
				}
				live := p.g.holds(w, key, a.id)
				stays = stays || live
				switch {
				case granted && !live:
					w.fails("%s was granted, and %s of it was given back", a.name, key)
				case granted:
					used[string(key)] += p.costs[j]
				case live:
					left[string(key)] += p.costs[j]
				}
			}
			if stays && !granted && !a.dead && !p.lost {
				w.fails("%s: part %d stays taken after %+v", a.name, i, a.verdict)
			}
			if stays && !granted && !a.dead {
				parts++
			}
		}
		if n := a.counts.Left.Load(); uint64(parts) > n && !a.dead {
			w.fails("%s: %d parts are left, and %d are counted", a.name, parts, n)
		}
	}
	for g, group := range w.groups {
		for k := range limits {
			key := fmt.Sprint(g, k)
			if k == 1 && g == 0 || limits[k].CountDenied {
				continue
			}
			l := limits[k]
			if l.Max < used[key] {
				w.fails("%s: %d of %d were granted", key, used[key], l.Max)
			}
			var d limit.Decision
			if err := group.e.UpdateAt(0, w.now, [][]byte{[]byte(key)}, func(t *engine.Txn) error { return t.Peek([]byte(key), &l, 0, &d) }); err != nil {
				w.fails("%v", err)
			}
			if taken := l.Max - d.Remaining; taken != used[key]+left[key] {
				w.fails("%s: %d are taken, but %d were granted and %d are left", key, taken, used[key], left[key])
			}
		}
	}
}

// holds reports whether a key is held under an id.
func (g *fakeGroup) holds(w *world, key, id []byte) (live bool) {
	err := g.e.UpdateAt(0, w.now, [][]byte{key}, func(t *engine.Txn) error {
		return engine.Holds(t, key, func(h *engine.Held) bool {
			live = live || slices.Equal(h.ID, id) && h.Status == hold.Kept
			return true
		})
	})
	if err != nil {
		w.fails("%v", err)
	}
	return live
}
