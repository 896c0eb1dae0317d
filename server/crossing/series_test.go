package crossing

import (
	"fmt"
	"slices"
	"testing"

	"limitdb/engine"
	"limitdb/groups/across"
	"limitdb/server/handler"
)

// series returns requests, each of them as words of together.
func series(all ...[]string) (asks []handler.Asked) {
	for _, words := range all {
		asks = append(asks, handler.Asked{Together: together(words...)})
	}
	return asks
}

// begin begins a series.
func (d *node) begin(asks []handler.Asked) *Series {
	s := NewSeries(asks, d.of)
	s.Begin(d.ways(), func() {})
	return s
}

// results returns the outcomes of all requests.
func (s *Series) results() (all []across.Outcome) {
	for i := range s.all {
		all = append(all, s.Result(i).Outcome)
	}
	return all
}

// TestSeries decides on requests that have a key in common in their order, and on others at the same time.
func TestSeries(t *testing.T) {
	const granted, denied = across.Granted, across.Denied
	d := newNode(t, 2)
	for _, k := range d.keeps {
		k.holds = true
	}
	asks := series([]string{"0a FIXED 1/h", "1b FIXED 9/h"}, []string{"1b FIXED 9/h", "0c FIXED 9/h"}, []string{"0a FIXED 1/h"}, []string{"1d FIXED 9/h"})
	s := d.begin(asks)
	if s.Resume() || !slices.Equal(s.running, []int{0, 3}) {
		t.Fatalf("%v are under way", s.running)
	}
	for range 2 {
		if s.Resume() {
			t.Fatal("it is not durable")
		}
		for _, k := range d.keeps {
			k.end(nil)
		}
	}
	if !s.Resume() || s.Outcome() != granted || !slices.Equal(s.results(), []across.Outcome{granted, granted, denied, granted}) {
		t.Fatalf("%v %v", s.Outcome(), s.results())
	}
	if r := s.Result(2); r.At != 0 {
		t.Errorf("%d denies", r.At)
	}
	if got := []int64{asks[0].Decisions[1].Remaining, asks[1].Decisions[0].Remaining, asks[2].Decisions[0].Remaining}; !slices.Equal(got, []int64{8, 7, 0}) {
		t.Errorf("%v are left", got)
	}
	if d.counts.Left.Load()+d.counts.GivenBack.Load()+d.counts.DeniedLate.Load() > 0 {
		t.Error("one that only one group has is one step there")
	}
}

// TestSeriesIsBounded begins only some of many requests.
func TestSeriesIsBounded(t *testing.T) {
	d := newNode(t, 2)
	d.keeps[0].holds = true
	var all [][]string
	for i := range 3*mostAtOnce + 1 {
		all = append(all, []string{fmt.Sprint("0a", i, " FIXED 9/h")})
	}
	s := d.begin(series(all...))
	for n := 0; !s.Resume(); {
		if n += len(s.running); len(s.running) > mostAtOnce || n > len(all) {
			t.Fatalf("%d are under way", len(s.running))
		}
		d.keeps[0].end(nil)
	}
	if got := s.results(); s.Outcome() != across.Granted || len(got) != len(all) || slices.ContainsFunc(got, func(o across.Outcome) bool { return o != across.Granted }) {
		t.Errorf("%v %v", s.Outcome(), got)
	}
}

// TestSeriesEnds begins no other request once one has failed, and says what is known of all.
func TestSeriesEnds(t *testing.T) {
	const none = across.Outcome(0)
	for _, test := range []struct {
		does func(d *node, r *engine.Together)
		want across.Outcome
		all  []across.Outcome
	}{
		{func(d *node, r *engine.Together) { d.take(r.Keys[0], together("1x LOG 9/h").Limits[0]) }, across.Failed, []across.Outcome{across.Granted, across.Failed, none, across.Granted}},
		{func(d *node, _ *engine.Together) { d.keeps[1].turn = 0 }, across.Unknown, []across.Outcome{across.Granted, across.Leaderless, none, across.Granted}},
		{func(d *node, _ *engine.Together) { d.keeps[0].turn, d.keeps[1].turn = 0, 0 }, across.Leaderless, []across.Outcome{across.Leaderless, across.Leaderless, none, across.Leaderless}},
	} {
		d := newNode(t, 2)
		asks := series([]string{"0a FIXED 9/h"}, []string{"1b LEASE x"}, []string{"1b LEASE y"}, []string{"0c FIXED 9/h"})
		test.does(d, asks[1].Together)
		s := d.begin(asks)
		if !s.Resume() || s.Outcome() != test.want || !slices.Equal(s.results(), test.all) {
			t.Errorf("%v %v, want %v %v", s.Outcome(), s.results(), test.want, test.all)
		}
	}
}
