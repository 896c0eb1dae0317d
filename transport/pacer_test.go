package transport

import (
	"testing"
	"time"
)

func TestPacer(t *testing.T) {
	const ms = int64(time.Millisecond)
	type step struct {
		unsent, sent, now int64
		ok                bool
		wait              int64 // ms
	}
	for name, steps := range map[string][]step{
		"below the bound": {
			{0, 0, 0, true, 0},
			{100, 5, 1, true, 0},
		},
		"a peer that reads waits for as long as it does": {
			{101, 10, 0, false, 100},
			{101, 11, 99, false, 100},
			{101, 12, 198, false, 100},
			{101, 12, 200, false, 98},
			{100, 13, 201, true, 0},
		},
		"one that does not is read from, without further pauses": {
			{101, 10, 0, false, 100},
			{101, 10, 60, false, 40},
			{101, 10, 100, true, 0},
			{500, 10, 101, true, 0},
			{900, 10, 102, true, 0},
		},
		"until it begins to read": {
			{101, 10, 0, false, 100},
			{101, 10, 100, true, 0},
			{900, 10, 110, true, 0},
			{899, 11, 111, false, 100},
			{899, 11, 211, true, 0},
			{899, 12, 212, false, 100},
		},
		"below the bound a stall is not forgotten without a byte sent": {
			{101, 10, 0, false, 100},
			{101, 10, 100, true, 0},
			{50, 10, 101, true, 0},
			{101, 10, 102, true, 0},
		},
		"a pause begins anew": {
			{101, 10, 0, false, 100},
			{100, 11, 50, true, 0},
			{101, 11, 90, false, 100},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := pacer{above: 100, after: 100 * time.Millisecond}
			for i, s := range steps {
				ok, wait := p.read(s.unsent, s.sent, s.now*ms)
				if ok != s.ok || wait != time.Duration(s.wait*ms) {
					t.Fatalf("step %d: %v, %v; want %v, %d ms", i, ok, wait, s.ok, s.wait)
				}
			}
		})
	}
}
