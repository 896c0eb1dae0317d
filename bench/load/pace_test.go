package load

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// naps runs test with both kinds of nap, on the real clock.
func naps(t *testing.T, test func(t *testing.T, newNap func(context.Context) (nap, error))) {
	t.Run("of Go", func(t *testing.T) { test(t, newGoNap) })
	t.Run("of the system", func(t *testing.T) { test(t, newNap) })
}

func TestNapEndsNoEarlier(t *testing.T) {
	naps(t, func(t *testing.T, newNap func(context.Context) (nap, error)) {
		n, err := newNap(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer n.close()
		due := time.Now()
		for i := range 300 {
			// Some are already due, and some are over before the sleep begins.
			due = due.Add(time.Duration(i%7-1) * 20 * time.Microsecond)
			if err := n.until(due); err != nil {
				t.Fatal(err)
			}
			if early := time.Until(due); early > 0 {
				t.Fatalf("nap %d ended %v early", i, early)
			}
		}
	})
}

func TestNapEndsWithTheRun(t *testing.T) {
	naps(t, func(t *testing.T, newNap func(context.Context) (nap, error)) {
		ctx, cancel := context.WithCancel(t.Context())
		n, err := newNap(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer n.close()
		time.AfterFunc(time.Millisecond, cancel)
		for range 2 { // the second begins after the end
			_ = n.until(time.Now().Add(time.Hour)) // otherwise the test takes an hour
		}
	})
}

// With the system's timer, an open loop sends every request, and stops when its context ends.
func TestOpenLoopInRealTime(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var arrived atomic.Pointer[context.CancelFunc] // called when a request arrives
	f := &fake{answer: func(int, []string) string {
		if cancel := arrived.Load(); cancel != nil {
			(*cancel)()
		}
		return granted
	}}
	f.listen(l)
	c := Config{Addr: l.Addr().String(), Connections: 3, Pipeline: 2, Rate: 4000, Requests: 600}
	res, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if res.Requests != 600 || res.SendLag == nil {
		t.Errorf("%+v", res)
	}
	c.Rate, c.Requests = 1, 1_000_000 // would take 11 days
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	arrived.Store(&cancel)
	if res, err = Run(ctx, c); err != nil || res.Requests == c.Requests {
		t.Errorf("%+v, %v", res, err)
	}
	l.Close()
	f.wg.Wait()
}

// brokenNap fails after some naps.
type brokenNap struct{ left int }

func (n *brokenNap) until(time.Time) error {
	if n.left--; n.left < 0 {
		return errors.New("no timer")
	}
	return nil
}

func (n *brokenNap) close() {}

func TestFailedNapEndsTheRun(t *testing.T) {
	for left := range 3 {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{answer: always(granted, 0)}
			_, err := Run(t.Context(), Config{
				Dial: f.pipe, Connections: 2, Rate: 10, Duration: time.Hour,
				newNap: func(context.Context) (nap, error) {
					if left == 0 {
						return nil, errors.New("no timer")
					}
					return &brokenNap{left}, nil
				},
			})
			if err == nil || err.Error() != "open loop: no timer" {
				t.Errorf("%v", err)
			}
			f.wg.Wait()
		})
	}
}

// The pacer wakes a worker at the exact instant.
func TestPacerIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: always(granted, 0)}
		start := time.Now()
		res, err := runFake(t.Context(), Config{Dial: f.pipe, Connections: 7, Pipeline: 3, Rate: 999, Requests: 999})
		if err != nil {
			t.Fatal(err)
		}
		f.wg.Wait()
		// The last of 333 pipelines is due after 332 times 3 requests.
		if d := time.Since(start); d != 332*3*time.Second/999 || res.Requests != 999 {
			t.Errorf("%d requests in %v", res.Requests, d)
		}
		if res.SendLag.Max > 100 || res.Latency.Max > 100 {
			t.Errorf("late by %v, latency %v", res.SendLag, res.Latency)
		}
	})
}
