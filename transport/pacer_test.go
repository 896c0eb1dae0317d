package transport

import (
	"testing"
	"time"
)

func TestPacer(t *testing.T) {
	const ms = int64(time.Millisecond)
	type step struct {
		unsent, taken, now int64
		ok                 bool
		wait               int64 // ms
	}
	for name, steps := range map[string][]step{
		"below the bound": {
			{0, 0, 0, true, 0},
			{100, 5, 1, true, 0},
		},
		"a peer that reads waits for as long as it does": {
			{101, 10, 0, false, 100},
			{101, 11, 99, false, 198},
			{101, 12, 198, false, 198},
			{101, 12, 200, false, 196},
			{100, 13, 201, true, 0},
		},
		"one that does not is read from, twice as much each time": {
			{101, 10, 0, false, 100},
			{101, 10, 60, false, 40},
			{101, 10, 100, true, 0},
			{199, 10, 101, true, 0},
			{200, 10, 102, false, 98},
			{200, 10, 200, true, 0},
			{399, 10, 299, true, 0},
			{400, 10, 299, false, 1},
			{400, 10, 300, true, 0},
		},
		"up to the most": {
			{101, 10, 0, false, 100},
			{800, 10, 1000, true, 0},
			{801, 10, 1000, false, 100},
			{801, 10, 50_000, false, 100},
			{790, 11, 50_001, false, 5000},
		},
		"a silence that ends was no stall": {
			{101, 10, 0, false, 100},
			{101, 10, 100, true, 0},
			{300, 10, 150, false, 50},
			{299, 11, 300, false, 600},
			{299, 12, 899, false, 1198},
			{299, 12, 2096, false, 1},
			{101, 12, 2097, true, 0},
		},
		"who has caught up begins anew": {
			{101, 10, 0, false, 100},
			{101, 11, 90, false, 180},
			{100, 12, 91, true, 0},
			{101, 12, 200, false, 100},
			{101, 12, 300, true, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := pacer{above: 100, after: 100 * time.Millisecond, most: func() int64 { return 800 }}
			for i, s := range steps {
				ok, wait := p.read(s.unsent, s.taken, s.now*ms)
				if ok != s.ok || wait != time.Duration(s.wait*ms) {
					t.Fatalf("step %d: %v, %v; want %v, %d ms", i, ok, wait, s.ok, s.wait)
				}
			}
		})
	}
}
