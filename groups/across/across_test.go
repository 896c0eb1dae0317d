package across

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"limitdb/engine"
	"limitdb/limit"
)

// TestSameAsOneGroup asks for the same in several groups and in one. If nothing fails, all answers are the same: the verdict, the limit that denies,
// and the decisions on all limits.
func TestSameAsOneGroup(t *testing.T) {
	var limits []limit.Limit
	for _, text := range []string{
		"GCRA 9/m BURST 4", "TOKEN 9/m", "LEAKY 9/m", "FIXED 9/m", "FIXED 9/m FIRST COUNTDENIED", "SLIDING 9/m", "SEGMENTED 9/m SEGMENTS 3", "LOG 9/m",
		"LOG 9/m COUNTDENIED", "GCRA 9/m BLOCK 20s UPTO 5m", "FIXED 5/m BLOCK 10s", "FIXED 0/m",
	} {
		limits = append(limits, mustParse(t, text))
	}
	outcomes := map[Outcome]int{}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		w := newWorld(t, seed, 2+int(seed%3))
		w.calm = true
		one := engine.New(engine.Options{Seed: 1, Shards: 2})
		for range 150 {
			w.now += r.Int64N(r.Int64N(4*second) + 1)
			var keys []string
			var ls []limit.Limit
			var costs []int64
			var soft []bool
			for g := range w.groups {
				for range 1 + r.IntN(3) {
					k := r.IntN(len(limits))
					key := fmt.Sprintf("%d %d %d", g, k, r.IntN(2))
					if slices.Contains(keys, key) {
						continue
					}
					keys, ls, costs = append(keys, key), append(ls, limits[k]), append(costs, r.Int64N(3))
					soft = append(soft, !limits[k].CountDenied && limits[k].Block == 0 && r.IntN(4) == 0)
				}
			}
			r.Shuffle(len(keys), func(i, j int) {
				keys[i], keys[j], ls[i], ls[j], costs[i], costs[j] = keys[j], keys[i], ls[j], ls[i], costs[j], costs[i]
				soft[i], soft[j] = soft[j], soft[i]
			})
			all := engine.Together{Limits: ls, Costs: costs, Soft: soft, Decisions: make([]limit.Decision, len(keys)), CountDenied: true, Peek: r.IntN(4) == 0}
			for _, key := range keys {
				all.Keys = append(all.Keys, []byte(key))
			}
			at := -1
			err := one.UpdateAt(0, w.now, all.Keys, func(t *engine.Txn) (err error) {
				at, err = t.Together(&all)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			w.looks = all.Peek
			a := w.ask(keys, ls, costs, soft)
			want := Verdict{Outcome: Granted, At: -1}
			if at >= 0 {
				want = Verdict{Outcome: Denied, At: at}
			}
			outcomes[want.Outcome]++
			if *a.verdict != want || !slices.Equal(a.check.Rows, all.Decisions) || !a.check.Done() {
				w.fails("%q of %v: %+v, want %+v\n got %+v\nwant %+v", keys, costs, *a.verdict, want, a.check.Rows, all.Decisions)
			}
			if a.counts.DeniedLate.Load()+a.counts.GivenBack.Load()+a.counts.Left.Load() > 0 || a.counts.Requests.Load() != 1 {
				w.fails("something was given back")
			}
			w.all, w.tale = nil, nil
		}
	}
	if outcomes[Granted] < 1000 || outcomes[Denied] < 1000 {
		t.Error(outcomes)
	}
}

// script is a Groups whose answers a test gives. It writes down what it is asked.
type script struct {
	asked []string
	at    map[string]func() // what is done within a call
}

func (s *script) call(name string, part int) {
	text := fmt.Sprint(name, " ", part)
	s.asked = append(s.asked, text)
	if fn := s.at[text]; fn != nil {
		fn()
	}
}

func (s *script) Look(part int)     { s.call("look", part) }
func (s *script) Take(part int)     { s.call("take", part) }
func (s *script) GiveBack(part int) { s.call("give", part) }
func (s *script) Reply(v Verdict) {
	text := [...]string{"", "granted", "denied", "failed", "leaderless", "unknown"}[v.Outcome]
	if v.Outcome == Failed {
		text += fmt.Sprintf(" %d %v", v.Part, v.Err)
	}
	s.asked = append(s.asked, text)
}

// TestSteps says what is sent, and when, for each order of answers. A step is an answer: a letter for the call, the part, and the outcome.
func TestSteps(t *testing.T) {
	const looks = "look 0, look 1, look 2; "
	outcomes := map[byte]Outcome{'g': Granted, 'd': Denied, 'f': Failed, 'l': Leaderless, 'u': Unknown}
	calls := map[byte]Call{'L': Look, 'T': Take, 'G': GiveBack}
	for answers, want := range map[string]string{
		"L0g L1g L2g T0g T1g T2g":         "take 0, take 1, take 2; granted",
		"L2g L0g L1g T2g T0g T1g":         "take 0, take 1, take 2; granted",
		"L0g L1g L2g T1d T0g T2g G0g G2g": "take 0, take 1, take 2; denied, give 0, give 2",
		"L0g L1g L2g T0g T1d T2d G0g G2g": "take 0, take 1, take 2; denied, give 0, give 2",
		"L0g L1g L2g T1u T0g T2g G0g G1g": "take 0, take 1, take 2; unknown, give 0, give 1, give 2",
		"L0g L1g L2g T0g T1l G0g":         "take 0, take 1, take 2; unknown, give 0, give 2",
		"L0g L1g L2g T1f T0g":             "take 0, take 1, take 2; failed 1 no, give 0, give 2",
		"L0g L1g L2f":                     "failed 2 no",
		"L0l L1f L2d":                     "failed 1 no",
		"L0g L1g L2l":                     "leaderless",
		"L0u L1d L2g":                     "leaderless",
		"L0g L1d L2g T1d":                 "take 1; denied",
		"L0d L1d L2g T1d T0d":             "take 0, take 1; denied",
		"L0d L1d L2g T1d T0g":             "take 0, take 1; denied, give 0",
		"L0d L1d L2g T1d T0u":             "take 0, take 1; denied, give 0",
		"L0d L1d L2g T1d T0f":             "take 0, take 1; denied",
		"L0d L1d L2g T1f T0g":             "take 0, take 1; failed 1 no, give 0",
		"L0d L1d L2g T1l T0l":             "take 0, take 1; leaderless",
		"L0d L1d L2g T1l T0g":             "take 0, take 1; unknown, give 0",
		"L0d L1g L2g T0g T1g T2g":         "take 0; take 1, take 2; granted",
		"L0d L1g L2g T0g T2d T1g":         "take 0; take 1, take 2; denied, give 0, give 1",
	} {
		s := &script{}
		var c Check
		var counts Counters
		r := Request{Costs: make([]int64, 3)}
		for i := range 3 {
			r.Parts = append(r.Parts, Part{Rows: []int{i}})
		}
		c.Begin(r, s, &counts)
		got, from := strings.Join(s.asked, ", "), len(s.asked)
		for word := range strings.FieldsSeq(answers) {
			c.Told(int(word[1]-'0'), calls[word[0]], Answer{Outcome: outcomes[word[2]], Rows: make([]limit.Decision, 1), Err: errors.New("no")})
			if len(s.asked) > from {
				got += "; " + strings.Join(s.asked[from:], ", ")
			}
			from = len(s.asked)
		}
		if got != looks+want {
			t.Errorf("%s:\n got %s\nwant %s", answers, got, looks+want)
		}
	}
}

// TestEach has every group do its part by itself.
func TestEach(t *testing.T) {
	for answers, want := range map[string]string{
		"gg": "granted", "gu": "unknown", "ug": "unknown", "gl": "unknown", "ll": "leaderless", "fg": "failed 0 no", "uf": "failed 1 no",
	} {
		s := &script{}
		var c Check
		c.Begin(Request{Parts: []Part{{Rows: []int{0}}, {Rows: []int{1}}}, Costs: []int64{1, 1}, Each: true}, s, new(Counters))
		for i, o := range []byte(answers) {
			if c.Done() || len(s.asked) != 2 {
				t.Errorf("%s: done before all have answered", answers)
			}
			c.Told(i, Take, Answer{Outcome: map[byte]Outcome{'g': Granted, 'f': Failed, 'l': Leaderless, 'u': Unknown}[o], Err: errors.New("no")})
		}
		if got := strings.Join(s.asked, ", "); got != "take 0, take 1, "+want || !c.Done() {
			t.Errorf("%s: %s, want %s", answers, got, want)
		}
	}
}

// TestWithin has groups answer from within each call, as those that this node leads may.
func TestWithin(t *testing.T) {
	var c Check
	var counts Counters
	s := &script{at: map[string]func(){}}
	tell := func(name string, part int, call Call, o Outcome) {
		s.at[fmt.Sprint(name, " ", part)] = func() { c.Told(part, call, Answer{Outcome: o, Rows: make([]limit.Decision, 1)}) }
	}
	for i := range 2 {
		tell("look", i, Look, Granted)
		tell("give", i, GiveBack, Granted)
	}
	tell("take", 0, Take, Granted)
	tell("take", 1, Take, Denied)
	for range 2 { // the second time, the Check is used again
		s.asked = nil
		c.Begin(Request{Parts: []Part{{Rows: []int{0}}, {Rows: []int{1}}}, Costs: []int64{1, 1}}, s, &counts)
		if got := strings.Join(s.asked, ", "); got != "look 0, look 1, take 0, take 1, denied, give 0" || !c.Done() {
			t.Errorf("%s, done: %v", got, c.Done())
		}
	}
	if counts.DeniedLate.Load() != 2 || counts.GivenBack.Load() != 2 || counts.Left.Load() != 0 || counts.Requests.Load() != 2 {
		t.Errorf("%d, %d, %d", counts.DeniedLate.Load(), counts.GivenBack.Load(), counts.Left.Load())
	}
}

// TestAllocatesNothing checks that a Check that is used again allocates nothing.
func TestAllocatesNothing(t *testing.T) {
	var c Check
	var counts Counters
	rows := make([]limit.Decision, 1)
	g := &answering{check: &c, answer: Answer{Outcome: Granted, Rows: rows, Free: rows}}
	r := Request{Parts: []Part{{Rows: []int{0}}, {Rows: []int{1}}}, Costs: []int64{1, 1}}
	if n := testing.AllocsPerRun(100, func() { c.Begin(r, g, &counts) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// answering is a Groups that gives one answer to all calls.
type answering struct {
	check  *Check
	answer Answer
}

func (g *answering) Look(part int)     { g.check.Told(part, Look, g.answer) }
func (g *answering) Take(part int)     { g.check.Told(part, Take, g.answer) }
func (g *answering) GiveBack(part int) { g.check.Told(part, GiveBack, g.answer) }
func (g *answering) Reply(Verdict)     {}
