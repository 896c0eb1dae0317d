package history

import (
	"strings"
	"testing"
	"unsafe"

	"limitdb/internal/stats"
	"limitdb/resp"
	"limitdb/server/handler"
)

// server is what a history reads.
type server struct {
	Figures
	checks []Checks
}

func (s *server) history() *History {
	return &History{Read: func() Figures { return s.Figures }, Checks: func() []Checks {
		return append([]Checks{}, s.checks...)
	}}
}

// reply returns what RL.HISTORY replies.
func reply(h *History, words ...string) string {
	c := &call{Parts: new(handler.Parts), Args: [][]byte{[]byte("RL.HISTORY")}}
	c.Proto = resp.RESP3
	for _, w := range words {
		c.Args = append(c.Args, []byte(w))
	}
	h.show(c)
	return string(c.Out)
}

const second1 = int64(1_600_000_000e9)

func TestSeconds(t *testing.T) {
	s := new(server)
	h := s.history()
	h.Look(second1)
	s.Allowed, s.Limited, s.Keys = 7, 3, 5
	s.Times.Buckets[2] = 10 // 2 to 4 µs
	h.Look(second1 + every - 1)
	if got, _, _ := h.after(0); got != nil {
		t.Errorf("a sample within a second: %+v", got)
	}
	h.Look(second1 + 2*every)
	s.Shadow, s.Allowed = 2, 8
	s.Times.Buckets[10] = 1
	h.Look(second1 + 3*every)
	all, times, last := h.after(0)
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	if a := all[0]; a.at != second1/1e6+2000 || a.took != 2000 || a.allowed != 7 || a.limited != 3 || a.times.Spread(0.5) != 3000 || a.now.Keys != 5 {
		t.Errorf("%+v", a)
	}
	if a := all[1]; a.took != 1000 || a.allowed != 1 || a.limited != 0 || a.shadow != 2 || a.times.Count() != 1 {
		t.Errorf("%+v", a)
	}
	if times.Count() != 11 || last.Allowed != 8 {
		t.Errorf("of the last seconds: %d times, %+v", times.Count(), last)
	}
	if got, _, _ := h.after(second1/1e6 + 2000); len(got) != 1 || got[0].allowed != 1 {
		t.Errorf("after the first: %+v", got)
	}
	if got, _, _ := h.after(second1/1e6 + 3000); got != nil {
		t.Errorf("after the last: %+v", got)
	}

	// Counters that go back, as when another node begins to lead, are no negative counts; times then count anew.
	s.Figures = Figures{Allowed: 1}
	s.Times.Buckets[0] = 2
	h.Look(second1 + 4*every)
	if got, times, _ := h.after(second1/1e6 + 3000); len(got) != 1 || got[0].allowed != 0 || got[0].times.Count() != 2 || times.Count() != 2 {
		t.Errorf("%+v, %d times", got, times.Count())
	}
	// A clock that goes back takes a sample, too.
	h.Look(second1)
	if got := len(h.samples); got != 5 {
		t.Errorf("%d samples", got)
	}
}

// TestBounded checks that memory stays the same for ever, and that the times of the head are those of ten seconds.
func TestBounded(t *testing.T) {
	s := new(server)
	h := s.history()
	for i := range int64(3 * kept) {
		s.Allowed += 2
		s.Times.Buckets[1] += 2
		h.Look(second1 + i*every)
	}
	all, times, _ := h.after(0)
	if len(h.samples) != kept || len(all) != kept-1 || times.Count() != 2*recent {
		t.Errorf("%d samples, %d seconds, %d times", len(h.samples), len(all), times.Count())
	}
	for _, a := range all {
		if a.allowed != 2 {
			t.Fatalf("%+v", a)
		}
	}
}

// TestMinutes checks that 24 hours are kept by the minute, each with all that its seconds had, in bounded memory.
//
//test:norace
func TestMinutes(t *testing.T) {
	const minutes = 2*24*60 + 7
	s := new(server)
	h := s.history()
	for i := range int64(minutes*60 + 59) {
		h.Look(second1 + i*every)
		s.Allowed, s.Limited, s.Keys = s.Allowed+3, s.Limited+1, i
		s.Times.Buckets[uint(i/60)%2*5]++ // up to 1 µs in even minutes, 16 to 32 µs in odd ones
	}
	all := h.minutes.after(0)
	if size := cap(h.minutes) * int(unsafe.Sizeof(sample{})); len(all) != 24*60 || size > 1<<20 {
		t.Fatalf("%d minutes in %d bytes", len(all), size)
	}
	for i := range all {
		a, ended := &all[i], int64(minutes-len(all)+i+1)
		half := int64(500)
		if ended%2 == 0 { // the one that ends is odd
			half = 24_000
		}
		if a.at != second1/1e6+ended*60_000 || a.took != 60_000 || a.allowed != 180 || a.limited != 60 || a.now.Keys != ended*60-1 || a.times.Count() != 60 || a.times.Spread(0.5) != half {
			t.Fatalf("minute %d: %+v, half in %d ns", i, a, a.times.Spread(0.5))
		}
	}
	last := all[len(all)-1].at
	for _, tt := range []struct {
		since int64
		want  int
	}{{last, 0}, {last - 1, 1}, {last - 60_000, 1}, {last - 60_001, 2}, {1, 24 * 60}} {
		if got := len(h.minutes.after(tt.since)); got != tt.want {
			t.Errorf("since %d: %d minutes, want %d", tt.since-last, got, tt.want)
		}
	}
	// A gap, as when the machine slept, is one long minute; a clock that goes back takes a sample.
	now := second1 + minutes*60*every
	h.Look(now + 5*everyMinute)
	h.Look(now)
	all = h.minutes.after(0)
	if a := all[len(all)-2]; len(all) != 24*60 || a.took != 300_000 {
		t.Errorf("after a gap: %d minutes, %+v", len(all), a)
	}
}

// TestChecks checks that the times of checks are those of the last minutes, not since the start.
func TestChecks(t *testing.T) {
	took := func(n ...uint64) (h stats.Histogram) {
		copy(h.Buckets[:], n)
		return h
	}
	s := new(server)
	h := s.history()
	s.checks = []Checks{{"a", took(0, 0, 8)}}
	want := func(when string, all ...Checks) {
		t.Helper()
		got := h.checked()
		if len(got) != len(all) {
			t.Fatalf("%s: %+v", when, got)
		}
		for i := range all {
			if got[i] != all[i] {
				t.Errorf("%s: %+v, want %+v", when, got[i], all[i])
			}
		}
	}
	want("before the first sample", s.checks...)
	for i := range int64(kept + checksEvery) {
		h.Look(second1 + i*every)
	}
	s.checks = []Checks{{"a", took(0, 4, 8)}, {"new", took(2)}}
	want("later", Checks{"a", took(0, 4)}, Checks{"new", took(2)})
	s.checks = []Checks{{"a", took(0, 0, 0, 1)}}
	want("after the namespace was away", s.checks...)
}

func TestReply(t *testing.T) {
	s := new(server)
	h := s.history()
	if got, want := reply(h), "%18\r\n$4\r\nnode\r\n$0\r\n\r\n$4\r\ntime\r\n:0\r\n"; got[:len(want)] != want {
		t.Errorf("before the first sample: %q", got)
	}
	h.Node = func() string { return "n1" }
	h.Look(second1)
	s.Allowed, s.Limited, s.Keys, s.Bytes, s.Clients, s.Waiting, s.MaxBytes = 5, 4, 3, 2, 1, 9, 8
	s.checks = []Checks{{"shop", s.Times}}
	h.Look(second1 + every)
	for _, test := range []struct {
		words []string
		want  string
	}{
		{nil, "%18\r\n$4\r\nnode\r\n$2\r\nn1\r\n$4\r\ntime\r\n:1600000001000\r\n$7\r\nallowed\r\n:5\r\n$7\r\nlimited\r\n:4\r\n$6\r\nshadow\r\n:0\r\n$7\r\nexpired\r\n:0\r\n$7\r\nevicted\r\n:0\r\n" +
			"$11\r\nholds_taken\r\n:0\r\n$13\r\nholds_settled\r\n:0\r\n$10\r\nholds_over\r\n:0\r\n$14\r\nholds_returned\r\n:0\r\n$6\r\nblocks\r\n:0\r\n$9\r\nmaxmemory\r\n:8\r\n$10\r\nmaxclients\r\n:0\r\n$8\r\np50_nsec\r\n:0\r\n$8\r\np99_nsec\r\n:0\r\n" +
			"$7\r\nsamples\r\n*1\r\n*12\r\n:1600000001000\r\n:1000\r\n:5\r\n:4\r\n:0\r\n:0\r\n:0\r\n:0\r\n:3\r\n:2\r\n:1\r\n:9\r\n" +
			"$6\r\nchecks\r\n*1\r\n*4\r\n$4\r\nshop\r\n:0\r\n:0\r\n:0\r\n"},
		{[]string{"SINCE", "-1"}, "-ERR SINCE must be a Unix time in milliseconds: \"-1\"\r\n"},
		{[]string{"SINCE", "x"}, "-ERR SINCE must be a Unix time in milliseconds: \"x\"\r\n"},
		{[]string{"BY", "hour"}, "-ERR BY must be SECOND or MINUTE: \"hour\"\r\n"},
		{[]string{"BY", "second", "by", "MINUTE"}, "-ERR syntax error: BY is given twice\r\n"},
		{[]string{"SINCE"}, "-ERR syntax error: a value is missing after \"SINCE\"\r\n"},
		{[]string{"5"}, "-ERR unknown option \"5\" for RL.HISTORY\r\n"},
	} {
		if got := reply(h, test.words...); got != test.want {
			t.Errorf("%q: %q", test.words, got)
		}
	}
}

// TestReplyByMinute checks that BY chooses the series.
func TestReplyByMinute(t *testing.T) {
	s := new(server)
	h := s.history()
	for range 61 {
		s.Allowed++
		h.Look(second1 + int64(s.Allowed)*every)
	}
	for _, tt := range []struct {
		words []string
		want  string
	}{
		{nil, "$7\r\nsamples\r\n*60\r\n*12\r\n:1600000002000\r\n:1000\r\n:1\r\n"},
		{[]string{"BY", "Second"}, "$7\r\nsamples\r\n*60\r\n"},
		{[]string{"by", "minute"}, "$7\r\nsamples\r\n*1\r\n*12\r\n:1600000061000\r\n:60000\r\n:60\r\n"},
		{[]string{"BY", "MINUTE", "SINCE", "1600000060999"}, "$7\r\nsamples\r\n*1\r\n"},
		{[]string{"SINCE", "1600000061000", "BY", "MINUTE"}, "$7\r\nsamples\r\n*0\r\n"},
	} {
		if got := reply(h, tt.words...); !strings.Contains(got, tt.want) {
			t.Errorf("%q: %q", tt.words, got)
		}
	}
}
