package limit

import (
	"math"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for _, a := range Algorithms() {
		if a.String() != strings.ToUpper(a.Kind().TypeName()) || a.Kind().TypeName() != strings.ToLower(a.String()) {
			t.Errorf("%d: %q and %q", a, a.String(), a.Kind().TypeName())
		}
		for _, name := range []string{a.String(), a.Kind().TypeName(), a.String()[:1] + a.Kind().TypeName()[1:]} {
			if got, ok := Lookup([]byte(name)); got != a || !ok {
				t.Errorf("Lookup(%q) = %v, %t", name, got, ok)
			}
		}
		if optionsOf[a] == 0 {
			t.Errorf("%v has no options", a)
		}
	}
	for _, name := range []string{"", "G", "GCR", "GCRAX", "GCR\xc1", "GCR!", "none", "ＧＣＲＡ"} {
		if got, ok := Lookup([]byte(name)); got != None || ok {
			t.Errorf("Lookup(%q) = %v, %t", name, got, ok)
		}
	}
	if None.String() != "Algorithm(0)" || None.Kind().TypeName() != "none" || Algorithm(255).Kind().TypeName() != "none" {
		t.Errorf("none is %q, %q", None.String(), None.Kind().TypeName())
	}
}

func TestLevel(t *testing.T) {
	tests := []struct {
		a     Algorithm
		state []byte
		now   int64
		want  int64
	}{
		{GCRA, nil, 0, 0},
		{GCRA, stateAt(5), 5, 0},
		{GCRA, stateAt(5), 3, 2},
		{GCRA, stateAt(5), math.MinInt64, math.MaxInt64},
		{GCRA, stateAt(math.MaxInt64), -1, math.MaxInt64},
		{GCRA, stateAt(math.MaxInt64), 0, math.MaxInt64},
		{GCRA, stateAt(math.MinInt64), math.MaxInt64, 0},
		{GCRA, []byte{1}, 0, 0},
		{TOKEN, append(stateAt(5), 1), 3, 2},
		{LEAKY, stateAt(5), 3, 2},
		{QUEUE, stateAt(5), 3, 2},
		{None, stateAt(5), 3, 0},
		{FIXED, nil, 0, 0},
		{FIXED, append(stateAt(5), 0x01, 0x07), 4, 7},
		{FIXED, append(stateAt(5), 0x01, 0x07), 5, 0},
		{FIXED, append(stateAt(5), 0x01, 0x07), math.MinInt64, 7},
		{FIXED, stateAt(5), 4, 0},
		{SLIDING, append(stateAt(60e9), 0x1e, 5, 7), 15e9, 10},    // half of 5, and 7
		{SLIDING, append(stateAt(60e9), 0x1e, 5, 7), 30e9 - 1, 8}, // next to nothing of 5
		{SLIDING, append(stateAt(60e9), 0x1e, 5, 7), 50e9, 3},     // a third of 7
		{SLIDING, append(stateAt(60e9), 0x1e, 5, 7), -9e9, 12},    // before it has begun
		{SLIDING, append(stateAt(60e9), 0x1e, 5, 7), math.MinInt64, 12},
		{SLIDING, append(stateAt(60e9), 0x1e, 5, 7), 60e9, 0},
		{SLIDING, append(stateAt(60e9), 0x3f, 5, 7), 0, 0},
		{SLIDING, stateAt(5), 4, 0},
		{SEGMENTED, segmentState(3e9, 0x03, 3, 0, 4, 0, 7), 0, 11},
		{SEGMENTED, segmentState(3e9, 0x03, 3, 0, 4, 0, 7), 1e9 - 1, 11},
		{SEGMENTED, segmentState(3e9, 0x03, 3, 0, 4, 0, 7), 1e9, 7},
		{SEGMENTED, segmentState(3e9, 0x03, 3, 0, 4, 0, 7), 3e9 - 1, 7},
		{SEGMENTED, segmentState(3e9, 0x03, 3, 0, 4, 0, 7), 3e9, 0},
		{SEGMENTED, segmentState(3e9, 0x03, 3, 0, 4, 0, 7), math.MinInt64, 11},
		{SEGMENTED, segmentState(3e9, 0x03, 3, 1, 0, 1, 7, 0), 0, 263},
		{SEGMENTED, segmentState(3e9, 0x03, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0x80), 0, 0},
		{SEGMENTED, stateAt(5), 4, 0},
	}
	for _, tt := range tests {
		if got := Level(tt.a.Kind(), tt.state, tt.now); got != tt.want {
			t.Errorf("Level(%v, %x, %d) = %d, want %d", tt.a, tt.state, tt.now, got, tt.want)
		}
	}
}

func TestLookupAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := Lookup([]byte{'g', 'c', 'r', 'a'}); !ok {
			t.Fatal("not found")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
