package transport

import (
	"bytes"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"limitdb/internal/clock"
)

// rests checks that the loops sleep and stay asleep: an event that is reported again and again would keep
// them busy.
func (fx *fixture) rests(what string) {
	fx.t.Helper()
	for _, l := range fx.g.loops.all {
		until(fx.t, "the loop rests: "+what, func() bool {
			for range 20 {
				if !l.asleep.Load() {
					return false
				}
				time.Sleep(100 * time.Microsecond) // at least 2 ms in all, a thousand rounds of a busy loop
			}
			return true
		})
	}
}

func TestLoopRests(t *testing.T) {
	for _, d := range drivers() {
		if d.loops <= 0 {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			o := Options{PauseAbove: 1000, StallAfter: time.Hour, FlushTimeout: time.Hour, LingerTime: time.Hour}
			fx := start(t, d, o, func(f *funcs) {
				f.data = func(b []byte) bool {
					switch b[0] {
					case 'p': // park
						return false
					case 'm': // many bytes unsent
						f.conn.Write(make([]byte, 32<<20))
					case 'c':
						f.conn.Write(make([]byte, 32<<20))
						f.conn.CloseAfterFlush(errTest)
					case 'l':
						f.conn.CloseAfterFlush(errTest)
					}
					return true
				}
				f.eof = func() bool { return false }
				f.resume = func() bool { return true }
			})
			fx.rests("nothing to do")
			say := func(what string) (*peer, *funcs) {
				p, f := fx.dial()
				if _, err := io.WriteString(p, what); err != nil {
					t.Fatal(err)
				}
				return p, f
			}
			idle, _ := say("x")
			fx.rests("an idle connection")
			if err := idle.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			fx.rests("parked at the end of input")

			p, _ := say("p")
			_, _ = io.WriteString(p, "more")
			fx.rests("parked with input waiting")
			parked, f := say("p")
			if d.network == "tcp" {
				parked.reset()
			} else {
				_ = parked.Close()
			}
			fx.rests("parked with a broken peer")
			f.conn.Wake()
			if d.network == "tcp" {
				wantReason(t, f, ErrPeerReset)
			}

			p, _ = say("m")
			_, _ = io.WriteString(p, "xxxx")
			fx.rests("paused")
			c, cf := say("c")
			until(t, "flushing", func() bool { return cf.conn.Pending() > 0 })
			fx.rests("flushing to a peer that does not read")
			_ = c.CloseWrite()
			fx.rests("flushing to a peer that has ended")
			l, lf := say("l")
			if _, err := io.ReadAll(l); err != nil {
				t.Error(err)
			}
			fx.rests("lingering")
			_ = l.Close()
			wantReason(t, lf, errTest)
			// Do not wait for a linger of an hour: cut off the rest when the test ends.
			for _, m := range fx.g.all() {
				m.Close(errTest)
			}
		})
	}
}

func TestLoopsShareConnections(t *testing.T) {
	fx := start(t, driver{network: "tcp", loops: 4}, Options{}, echo)
	for range 40 {
		p, _ := fx.dial()
		ping(t, p)
	}
	for i, l := range fx.g.loops.all {
		if n := l.count.Load(); n != 10 {
			t.Errorf("loop %d has %d of 40 connections", i, n)
		}
	}
}

// A connection gets at most one read in a round.
func TestTurnIsBounded(t *testing.T) {
	inside, goOn := make(chan int), make(chan struct{})
	fx := start(t, driver{network: "tcp", loops: 1}, Options{}, func(f *funcs) {
		f.data = func(b []byte) bool {
			inside <- len(b)
			<-goOn
			if bytes.HasPrefix(b, []byte("ping")) {
				f.conn.Write(b)
			}
			return true
		}
	})
	first, _ := fx.dial()
	if _, err := first.Write([]byte("begin")); err != nil {
		t.Fatal(err)
	}
	receive(t, inside)
	// The loop is in the first one's turn. Meanwhile the first sends much, and the second a little.
	if _, err := first.Write(make([]byte, 3*loopReadSize)); err != nil {
		t.Fatal(err)
	}
	second, _ := fx.dial()
	if _, err := io.WriteString(second, "ping"); err != nil {
		t.Fatal(err)
	}
	turns := 0
	for {
		goOn <- struct{}{}
		n := receive(t, inside)
		if n == 4 {
			break
		}
		if n > loopReadSize {
			t.Errorf("%d bytes in one turn", n)
		}
		// Two turns, because the second connection may be taken from the inbox after the next round.
		if turns++; turns > 2 {
			t.Fatal("the second connection waits for more than the first one's turns")
		}
	}
	close(goOn)
	go func() {
		for range inside {
		}
	}()
	var b [4]byte
	if _, err := io.ReadFull(second, b[:]); err != nil {
		t.Error(err)
	}
	_ = first.Close()
	_ = second.Close()
	until(t, "both are closed", func() bool { return fx.g.Stats().Open == 0 })
	close(inside)
}

// AfterInput is called after the sessions have received their input, so that work for many of them can be done
// once.
func TestAfterInput(t *testing.T) {
	for _, d := range drivers() {
		if d.loops <= 0 {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			var asked, done atomic.Int64
			o := Options{AfterInput: func() { done.Store(asked.Load()) }}
			fx := start(t, d, o, func(f *funcs) {
				f.data = func([]byte) bool { asked.Add(1); return true }
			})
			p, f := fx.dial()
			for n := range int64(5) {
				if _, err := io.WriteString(p, "x"); err != nil {
					t.Fatal(err)
				}
				until(t, "the call after the input", func() bool { return done.Load() == n+1 })
			}
			if in, ok := f.conn.(interface{ CallsAfterInput() bool }); !ok || !in.CallsAfterInput() {
				t.Error("a connection of a loop does not say so")
			}
		})
	}
}

// A connection says which loop alone runs its session, or that none does.
func TestConnectionsNameTheirLoop(t *testing.T) {
	for _, d := range drivers() {
		t.Run(d.name, func(t *testing.T) {
			fx := start(t, d, Options{}, func(f *funcs) {})
			seen := map[int]bool{}
			for range 4 * max(1, d.loops) {
				_, f := fx.dial()
				seen[f.conn.Loop()] = true
			}
			for loop := range seen {
				if (loop < 0) != (d.loops <= 0) || loop >= max(1, d.loops) {
					t.Errorf("one of %d loops calls itself %d", d.loops, loop)
				}
			}
			if len(seen) != max(1, d.loops) {
				t.Errorf("%d of %d loops have connections", len(seen), d.loops)
			}
		})
	}
}

// eager is a clock on which a millisecond passes between two reads.
type eager struct{ ns atomic.Int64 }

func (e *eager) Now() int64 { return e.ns.Add(int64(time.Millisecond)) }

// A loop that never runs out of work calls AfterInput as well.
func TestBusyLoopCallsAfterInput(t *testing.T) {
	for _, d := range drivers() {
		if d.loops <= 0 {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			const flood = 64 << 20
			var asked, served atomic.Int64
			o := Options{Clock: &eager{}, AfterInput: func() { served.Store(asked.Load()) }}
			got := 0
			fx := start(t, d, o, func(f *funcs) {
				f.data = func(b []byte) bool {
					if n := asked.Load() - served.Load(); n > 0 {
						t.Errorf("the loop went on for %d rounds", n)
					}
					asked.Add(1)
					got += len(b)
					return got < flood
				}
			})
			p, _ := fx.dial()
			b := make([]byte, 1<<20)
			for range flood / len(b) {
				if _, err := p.Write(b); err != nil {
					t.Fatal(err)
				}
			}
			until(t, "the call after the input", func() bool { return served.Load() == asked.Load() })
		})
	}
}

// A loop whose session does not return is stuck; a loop that waits is not.
func TestStuck(t *testing.T) {
	fake := clock.NewFake(int64(time.Hour))
	release, inside := make(chan struct{}), newOnce()
	fx := start(t, driver{network: "tcp", loops: 1}, Options{Clock: fake}, func(f *funcs) {
		f.data = func([]byte) bool {
			inside.signal()
			<-release
			return true
		}
	})
	p, _ := fx.dial()
	until(t, "the loop waits", func() bool {
		fake.Advance(time.Second)
		return fx.g.Stuck() == 0
	})
	_, _ = io.WriteString(p, "x")
	receive(t, inside.c)
	before := fx.g.Stuck()
	fake.Advance(10 * time.Second)
	if got := fx.g.Stuck() - before; got != int64(10*time.Second) {
		t.Errorf("stuck for %v more after 10 s", time.Duration(got))
	}
	close(release)
	until(t, "the loop waits again", func() bool { return fx.g.Stuck() == 0 })
}

// While a loop is busy for long, new connections are served beside it.
func TestConnectionsBesideABusyLoop(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			fake := clock.NewFake(int64(time.Hour))
			release, inside := make(chan struct{}), newOnce()
			fx := start(t, driver{network: network, loops: 1}, Options{Clock: fake}, func(f *funcs) {
				f.data = func(b []byte) bool {
					if b[0] == 'x' {
						inside.signal()
						<-release
					}
					f.conn.Write(b)
					return true
				}
			})
			p, _ := fx.dial()
			_, _ = io.WriteString(p, "x")
			receive(t, inside.c)
			fake.Advance(time.Duration(busyFor))
			other, f := fx.dial()
			if f.conn.Loop() >= 0 {
				t.Error("the busy loop gets a connection")
			}
			var b [1]byte
			for range 2 {
				_, _ = io.WriteString(other, "y")
				if _, err := io.ReadFull(other, b[:]); err != nil || b[0] != 'y' {
					t.Fatalf("%q, %v", b, err)
				}
			}
			close(release)
			if _, err := io.ReadFull(p, b[:]); err != nil {
				t.Fatal(err)
			}
			until(t, "the loop waits again", func() bool { return fx.g.Stuck() == 0 })
			if _, f := fx.dial(); f.conn.Loop() != 0 {
				t.Error("the loop does nothing, and gets no connection")
			}
		})
	}
}

// What a peer sent before it reset the connection is not run.
func TestNothingIsReadAfterAReset(t *testing.T) {
	held, goOn := make(chan struct{}), make(chan struct{})
	var ran atomic.Bool
	fx := start(t, driver{name: "loop tcp", network: "tcp", loops: 1}, Options{}, func(f *funcs) {
		f.data = func(b []byte) bool {
			if string(b) == "hold" {
				close(held)
				<-goOn
			} else {
				ran.Store(true)
			}
			return true
		}
	})
	busy, _ := fx.dial()
	p, f := fx.dial()
	_, _ = io.WriteString(busy, "hold")
	<-held // the loop is busy while the other sends and resets
	_, _ = io.WriteString(p, "command")
	p.reset()
	close(goOn)
	wantReason(t, f, ErrPeerReset)
	if ran.Load() {
		t.Error("a command of a connection that was reset has run")
	}
}
