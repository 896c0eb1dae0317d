package observe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestGuesses checks that an address has ten guesses, and gets one more each second.
func TestGuesses(t *testing.T) {
	var g Guesses
	start := time.Unix(1_700_000_000, 0)
	// try returns how many of n guesses are looked at, and the wait for the next one.
	try := func(from string, at time.Duration, n int) (looked, wait int) {
		r := httptest.NewRequest("GET", "/metrics", http.NoBody)
		r.RemoteAddr = from
		for range n {
			if wait = g.Wait(r, start.Add(at)); wait == 0 {
				looked++
				g.Wrong(r, start.Add(at))
			}
		}
		return looked, wait
	}
	for _, test := range []struct {
		from string
		at   time.Duration
		want int
	}{
		{"192.0.2.1:1000", 0, 10},
		{"192.0.2.1:2000", 999 * time.Millisecond, 0}, // another connection
		{"[::ffff:192.0.2.1]:1000", 999 * time.Millisecond, 0},
		{"192.0.2.2:1000", 999 * time.Millisecond, 10}, // another address
		{"192.0.2.1:1000", time.Second, 1},
		{"192.0.2.1:1000", 4 * time.Second, 3},
		{"192.0.2.1:1000", time.Minute, 10},
		{"[2001:db8::1]:1000", 0, 10},
		{"[2001:db8::2]:1000", 0, 0}, // of the same network
		{"[2001:db8:0:1::2]:1000", 0, 10},
	} {
		if got, wait := try(test.from, test.at, 12); got != test.want || wait != 1 {
			t.Errorf("%s at %v: %d guesses, then a wait of %d s", test.from, test.at, got, wait)
		}
	}
	for i := range guessAddresses + 10 {
		r := httptest.NewRequest("GET", "/", http.NoBody)
		r.RemoteAddr = fmt.Sprintf("10.0.%d.%d:1", i/256, i%256)
		g.Wrong(r, start)
	}
	if n := len(g.until); n > guessAddresses {
		t.Errorf("%d addresses are remembered", n)
	}
}
