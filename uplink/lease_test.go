package uplink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"limitdb/internal/clock"
	"limitdb/transport"
)

// asker is a Handler whose sessions begin each command that they get, if they may, and note when.
type asker struct {
	elapsed func() int64
	began   map[string]int64
}

type askerSession struct {
	a *asker
	c *Conn
}

func (a *asker) Accept(c transport.Conn) transport.Session { return &askerSession{a, c.(*Conn)} }

func (s *askerSession) Data(b []byte) bool {
	if !s.c.Leased() {
		s.c.CloseAfterFlush(ErrNoLease)
		return false
	}
	s.a.began[string(b)] = s.a.elapsed()
	s.c.Write(b)
	return true
}

func (*askerSession) Resume() bool { return true }
func (*askerSession) EOF() bool    { return true }
func (*askerSession) Closed(error) {}

// teller is a client that notes when it is told that the outcome is unknown.
type teller struct {
	client
	elapsed func() int64
	told    atomic.Int64 // 0: it was not told
}

func (w *teller) Ended(cause Cause) {
	w.client.Ended(cause)
	if cause == Lost && w.text() == "" {
		w.told.Store(w.elapsed())
	}
}

// slowPipe is a network that takes its time: each read of one end gets to the other after the next of the delays, in its
// order, also when its sender has closed the connection.
func slowPipe(delays []time.Duration) (near, far net.Conn) {
	near, in := net.Pipe()
	out, far := net.Pipe()
	carry := func(to, from net.Conn, delays []time.Duration) {
		type chunk struct {
			b   []byte
			due time.Time
		}
		chunks := make(chan chunk, 10_000)
		go func() {
			defer close(chunks)
			for i := 0; ; i++ {
				b := make([]byte, 4<<10)
				n, err := from.Read(b)
				if err != nil {
					return
				}
				chunks <- chunk{b[:n], time.Now().Add(delays[i%len(delays)])}
			}
		}()
		go func() {
			for c := range chunks {
				time.Sleep(time.Until(c.due))
				_, _ = to.Write(c.b)
			}
			_ = to.Close()
		}()
	}
	carry(out, in, delays)
	carry(in, out, delays[len(delays)/2:])
	return near, far
}

// However late bytes are, no command begins more than Lease after its client was told that its outcome is unknown, or
// after its stream was closed; and without delays every command begins.
func TestNoCommandBeginsLate(t *testing.T) {
	late := func(name string, most time.Duration) *rapid.Generator[time.Duration] {
		return rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, name))
		})
	}
	rapid.Check(t, func(rt *rapid.T) {
		delay := late("delay", rapid.SampledFrom([]time.Duration{0, 100 * time.Millisecond, 3 * time.Second, 50 * time.Second}).Draw(rt, "most"))
		delays := rapid.SliceOfN(rapid.OneOf(rapid.Just(time.Duration(0)), delay), 2, 20).Draw(rt, "delays")
		pauses := rapid.SliceOfN(late("pause", 3*time.Second), 1, 12).Draw(rt, "pauses")
		closes := rapid.SliceOfN(rapid.Bool(), len(pauses), len(pauses)).Draw(rt, "closes")
		var wrong error
		synctest.Test(t, func(t *testing.T) { wrong = lateRun(delays, pauses, closes) })
		if wrong != nil {
			rt.Fatal(wrong)
		}
	})
}

func lateRun(delays, pauses []time.Duration, closes []bool) (wrong error) {
	start := time.Now()
	elapsed := func() int64 { return int64(time.Since(start)) + 1 }
	a := &asker{elapsed: elapsed, began: map[string]int64{}}
	near, far := slowPipe(delays)
	var over sync.WaitGroup
	over.Go(func() { _ = NewHost(a, func() {}, clock.NewFake(1), elapsed).Serve(far) })
	l := NewLink(near)
	quick, sent := true, 0
	for _, d := range delays {
		quick = quick && d == 0
	}
	told := map[string]*teller{}
	for i, pause := range pauses {
		w := &teller{elapsed: elapsed}
		name := fmt.Sprint(i)
		told[name] = w
		s := l.Open(&Client{}, w)
		if s != nil && s.Send([]byte(name)) {
			sent++
		}
		time.Sleep(pause + time.Millisecond)
		if s != nil && closes[i] {
			w.told.Store(elapsed())
			s.Close()
		}
	}
	l.Close()
	time.Sleep(time.Hour)
	over.Wait()
	for name, began := range a.began {
		if at := told[name].told.Load(); at != 0 && began > at+Lease {
			wrong = errors.Join(wrong, fmt.Errorf("command %s begins %v too late", name, time.Duration(began-at-Lease)))
		}
	}
	if quick && (sent < len(pauses) || len(a.began) < sent) {
		wrong = errors.Join(wrong, fmt.Errorf("%d of %d commands were sent, %d begin", sent, len(pauses), len(a.began)))
	}
	return wrong
}

// A stamp that was not sent, or that is older than one that has come back, ends the uplink; so does silence.
func TestStamps(t *testing.T) {
	stamp := func(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }
	var l lease
	for i, step := range []struct {
		payload   []byte
		now       int64
		ok, holds bool
	}{
		{nil, 10, false, false},
		{stamp(0), 10, false, false},
		{stamp(11), 10, false, false},
		{stamp(-1), 10, false, false},
		{stamp(10)[:7], 10, false, false},
		{stamp(10), 10, true, true},
		{stamp(9), 10, false, true},
		{stamp(10), 10 + Lease, true, true},
		{stamp(10), 11 + Lease, true, false},
		{stamp(11), 11 + Lease, true, true},
	} {
		if ok := l.extend(step.payload, step.now); ok != step.ok || l.holds(step.now, Lease) != step.holds {
			t.Errorf("step %d: %v, %v", i, ok, !step.holds)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		near, far := net.Pipe()
		go func() { // it takes everything, and says nothing
			b := make([]byte, 100)
			for {
				if _, err := near.Read(b); err != nil {
					return
				}
			}
		}()
		err := NewHost(&echo{}, func() {}, clock.NewFake(1), func() int64 { return int64(time.Since(start)) + 1 }).Serve(far)
		if after := time.Since(start); !errors.Is(err, errSilent) || after <= time.Duration(silence) || after > time.Duration(silence)+2*stampEvery {
			t.Errorf("%v after %v", err, after)
		}
		_ = near.Close()
		synctest.Wait()
	})
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		l := NewLink(near) // nobody answers
		if l.Alive() || l.Open(&Client{}, &client{}) != nil {
			t.Error("an uplink without a lease")
		}
		_ = far.Close()
	})
}
