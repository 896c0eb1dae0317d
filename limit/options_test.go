package limit

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// Options lists the options that the parser takes for an algorithm.
func TestOptionsAreWhatTheParserTakes(t *testing.T) {
	heads := map[Algorithm]string{}
	for _, a := range Algorithms() {
		heads[a] = a.String() + " 10/m"
	}
	for _, o := range Options() {
		values := []string{""}
		switch {
		case o.Integer:
			values = []string{" 2", " 1000"}
		case o.Value == "time":
			values = []string{" 10s"}
		case o.Value == "unit":
			values = []string{" day"}
		case o.Value == "zone":
			values = []string{" Europe/Berlin"}
		}
		for _, a := range Algorithms() {
			for _, v := range values {
				spelling := heads[a] + " " + o.Name + v
				switch o.Name {
				case "CALENDAR":
					spelling = a.String() + " 10 CALENDAR" + v
				case "TZ":
					spelling = a.String() + " 10 CALENDAR day TZ" + v
				}
				if o.Name == "UPTO" {
					spelling = heads[a] + " BLOCK 1s UPTO" + v
				}
				if a == SEGMENTED && o.Name != "SEGMENTS" {
					spelling += " SEGMENTS 6"
				}
				_, err := Parse(spelling)
				if known := slices.Contains(o.Algorithms, a); known != (err == nil) {
					t.Errorf("%s: %v, and Options says that %s has %s: %v", spelling, err, a, o.Name, known)
				}
			}
		}
	}
}

// The ranges of the table are those of the parser and of Validate.
func TestOptionRanges(t *testing.T) {
	for _, c := range []struct {
		spelling string
		is       error
	}{
		{"SEGMENTED 10/m SEGMENTS 1", ErrSegments},
		{"SEGMENTED 10/m SEGMENTS 2", nil},
		{"SEGMENTED 10/m SEGMENTS 1024", nil},
		{"SEGMENTED 10/m SEGMENTS 1025", ErrSegments},
		{"WARMUP 10/m COLD 0", ErrCold},
		{"WARMUP 10/m COLD 1", nil},
		{"WARMUP 10/m COLD 1000", nil},
		{"WARMUP 10/m COLD 1001", ErrCold},
		{"GCRA 10/m BURST 0", ErrBurst},
		{"GCRA 10/m BURST 1", nil},
		{"GCRA 10/m BLOCK 0", ErrBlock},
		{"GCRA 10/m BLOCK 1", nil},
		{"GCRA 10/m BLOCK 262980h", nil},
		{"GCRA 10/m BLOCK 262981h", ErrBlock},
		{"GCRA 10/m UPTO 1m", ErrUpto},
		{"GCRA 10/m BLOCK 1m UPTO 59s", ErrUpto},
		{"GCRA 10/m BLOCK 1m UPTO 60s", nil},
		{"GCRA 10/m UPTO 262980h BLOCK 1m", nil},
		{"GCRA 10/m UPTO 262981h BLOCK 1m", ErrUpto},
	} {
		if _, err := Parse(c.spelling); !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %v", c.spelling, err, c.is)
		}
	}
	for _, o := range []struct {
		opt         option
		bad         error
		least, most int64
		set         func(*Limit, int64)
	}{
		{optSegments, ErrSegments, minSegments, MaxSegments, func(l *Limit, n int64) { l.Segments = n }},
		{optCold, ErrCold, minCold, MaxCold, func(l *Limit, n int64) { l.Cold = n }},
	} {
		spelling := "SEGMENTED 10/m SEGMENTS 6"
		if o.opt == optCold {
			spelling = "WARMUP 10/m"
		}
		l := mustParse(t, spelling)
		r := o.opt.row()
		for _, n := range []int64{o.least - 1, o.least, o.most, o.most + 1} {
			o.set(&l, n)
			if err := l.Validate(); errors.Is(err, o.bad) == (o.least <= n && n <= o.most) {
				t.Errorf("%s %d: %v", r.name, n, err)
			}
		}
		if !strings.Contains(o.bad.Error(), r.name) {
			t.Errorf("%q does not name %s", o.bad, r.name)
		}
	}
}
