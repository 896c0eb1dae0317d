package transport

import (
	"io"
	"sync/atomic"
	"testing"
	"time"
)

// Sessions that always have more to do do not keep others from being answered.
func TestYieldingSessionsLetOthersIn(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		var turns atomic.Int64
		fx := start(t, d, Options{}, func(f *funcs) {
			more := func() bool {
				turns.Add(1)
				if f.conn.Turn() <= 0 {
					t.Error("no time at all")
				}
				f.conn.Yield()
				return false
			}
			f.data = func(b []byte) bool {
				if b[0] == 'm' {
					return more()
				}
				f.conn.Write(b)
				return true
			}
			f.resume = more
		})
		for range 50 {
			p, _ := fx.dial()
			if _, err := io.WriteString(p, "m"); err != nil {
				t.Fatal(err)
			}
		}
		until(t, "all are busy", func() bool { return turns.Load() > 200 })
		good, _ := fx.dial()
		for range 50 {
			ping(t, good)
		}
		for _, m := range fx.g.all() {
			m.Close(errTest)
		}
	})
}

// Sessions that have yielded get their turns one after the other.
func TestTurnsAreFair(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		const clients = 8
		var counts [clients]atomic.Int64
		var next atomic.Int64
		fx := start(t, d, Options{}, func(f *funcs) {
			me := &counts[next.Add(1)-1]
			more := func() bool {
				me.Add(1)
				f.conn.Yield()
				return false
			}
			f.data = func([]byte) bool { return more() }
			f.resume = more
		})
		for range clients {
			p, _ := fx.dial()
			_, _ = io.WriteString(p, "m")
		}
		until(t, "each has had a hundred turns", func() bool {
			for i := range counts {
				if counts[i].Load() < 100 {
					return false
				}
			}
			return true
		})
		for _, m := range fx.g.all() {
			m.Close(errTest)
		}
	})
}

// A peer that resets the connection gets no more turns, even if nothing is read or written.
func TestNoTurnAfterAReset(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		if d.network != "tcp" {
			return // a unix socket has no reset
		}
		fx := start(t, d, Options{}, func(f *funcs) {
			more := func() bool {
				f.conn.Yield()
				return false
			}
			f.data = func([]byte) bool { return more() }
			f.resume = more
		})
		p, f := fx.dial()
		if _, err := io.WriteString(p, "m"); err != nil {
			t.Fatal(err)
		}
		until(t, "it has begun", func() bool { return f.conn.Progress() > 0 })
		p.reset()
		wantReason(t, f, ErrPeerReset)
		if f.conn.Life().Open() {
			t.Error("its life is open")
		}
	})
}

// A Wake does not give a session that has yielded a turn before the others.
func TestWakeIsNoTurn(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		fx := start(t, d, Options{}, func(f *funcs) {
			left := 100
			more := func() bool {
				if left--; left < 0 {
					f.conn.Write([]byte("."))
					return true
				}
				f.conn.Yield()
				f.conn.Wake()
				return false
			}
			f.data = func([]byte) bool { return more() }
			f.resume = func() bool {
				if left < 0 {
					return true
				}
				return more()
			}
		})
		p, _ := fx.dial()
		_, _ = io.WriteString(p, "m")
		if _, err := io.ReadFull(p, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTurnOf(t *testing.T) {
	for _, c := range []struct {
		n    int
		want time.Duration
	}{{0, longTurn}, {1, longTurn}, {10, longTurn}, {50, 200 * time.Microsecond}, {100, 100 * time.Microsecond}, {10_000, leastTurn}} {
		if got := turnOf(c.n); got != c.want {
			t.Errorf("of %d: %v, want %v", c.n, got, c.want)
		}
	}
}

func TestLife(t *testing.T) {
	a, b := io.EOF, io.ErrClosedPipe
	type move struct {
		do   func(*Life, error) bool
		name string
	}
	moves := []move{{(*Life).Drain, "drain"}, {(*Life).Flush, "flush"}, {(*Life).End, "end"}}
	for i, first := range moves {
		for j, second := range moves {
			var l Life
			if !l.Open() || !l.Serving() || l.Reason() != nil {
				t.Fatal("a new one is not open")
			}
			if !first.do(&l, a) || l.Open() {
				t.Errorf("%s did nothing", first.name)
			}
			if got := second.do(&l, b); got != (j > i) {
				t.Errorf("%s after %s: %v", second.name, first.name, got)
			}
			if l.Reason() != a {
				t.Errorf("the reason is %v", l.Reason())
			}
			if furthest := max(i, j); l.Serving() != (furthest == 0) || l.Draining() != (furthest == 0) {
				t.Errorf("%s, %s: serving %v", first.name, second.name, l.Serving())
			}
		}
	}
}
