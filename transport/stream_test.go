package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"limitdb/internal/clock"
)

var errTest = errors.New("the test's reason")

func echo(f *funcs) {
	f.data = func(b []byte) bool { f.conn.Write(b); return true }
}

func TestEchoKeepsBytesAndOrder(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		fx := start(t, d, Options{}, echo)
		p, f := fx.dial()
		r := rand.New(rand.NewPCG(1, 2))
		sent := make([]byte, 3<<20)
		for i := range sent {
			sent[i] = byte(r.Uint32())
		}
		go func() {
			for rest := sent; len(rest) > 0; {
				n := min(1+r.IntN(1<<r.IntN(18)), len(rest))
				if _, err := p.Write(rest[:n]); err != nil {
					t.Errorf("write: %v", err)
					return
				}
				rest = rest[n:]
			}
			if err := p.CloseWrite(); err != nil {
				t.Errorf("close: %v", err)
			}
		}()
		got, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, sent) {
			t.Fatalf("%d bytes came back for %d, or others", len(got), len(sent))
		}
		wantReason(t, f, ErrPeerClosed)
		if n := f.conn.Pending(); n != 0 {
			t.Errorf("Pending is %d at the end", n)
		}
	})
}

// A client that writes all its requests before it reads the first reply is served completely, and without a
// pause for each read.
func TestWriteEverythingBeforeReading(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		const requests = 200_000
		reply := []byte("+" + strings.Repeat("x", 97) + "\r\n")
		o := Options{PauseAbove: 64 << 10, StallAfter: 20 * time.Millisecond}
		fx := start(t, d, o, func(f *funcs) {
			var l lines
			var out []byte
			f.data = func(b []byte) bool {
				out = out[:0]
				l.add(b, func([]byte) { out = append(out, reply...) })
				f.conn.Write(out)
				return true
			}
		})
		p, _ := fx.dial()
		begin := time.Now()
		if _, err := p.Write(bytes.Repeat([]byte("PING\r\n"), requests)); err != nil {
			t.Fatal(err)
		}
		t.Logf("written after %v", time.Since(begin))
		got, err := io.ReadAll(io.LimitReader(p, int64(requests*len(reply))))
		if err != nil || len(got) != requests*len(reply) {
			t.Fatalf("got %d bytes of replies, %v; want %d", len(got), err, requests*len(reply))
		}
		if !bytes.Equal(got, bytes.Repeat(reply, requests)) {
			t.Error("the replies are damaged")
		}
	})
}

// A peer that never reads fills the queue until its session closes it.
func TestNeverReadingPeer(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		const bound = 4 << 20
		o := Options{PauseAbove: 64 << 10, StallAfter: time.Millisecond}
		fx := start(t, d, o, func(f *funcs) {
			f.data = func(b []byte) bool {
				f.conn.Write(b)
				if f.conn.Pending() > bound {
					f.conn.Close(errTest)
				}
				return true
			}
		})
		p, f := fx.dial()
		block := make([]byte, 64<<10)
		for {
			if _, err := p.Write(block); err != nil {
				break
			}
		}
		wantReason(t, f, errTest)
		until(t, "nothing is pending", func() bool { return f.conn.Pending() == 0 })
	})
}

// A peer that reads slowly is read from at the same pace.
func TestSlowReaderIsPaused(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		const total = 32 << 20
		var most atomic.Int64
		o := Options{PauseAbove: 128 << 10, StallAfter: time.Hour}
		fx := start(t, d, o, func(f *funcs) {
			f.data = func(b []byte) bool {
				f.conn.Write(b)
				most.Store(max(most.Load(), f.conn.Pending()))
				return true
			}
		})
		p, _ := fx.dial()
		go func() {
			block := make([]byte, 256<<10)
			for range total / len(block) {
				if _, err := p.Write(block); err != nil {
					t.Errorf("write: %v", err)
					return
				}
			}
		}()
		if n, err := io.Copy(io.Discard, io.LimitReader(p, total)); err != nil || n != total {
			t.Fatalf("read %d, %v", n, err)
		}
		if m := most.Load(); m > 128<<10+2*readSize {
			t.Errorf("%d bytes were pending at the most", m)
		}
	})
}

// Bytes that the peer reads are progress, even while the system's buffer is too full to take more.
func TestProgressIsWhatThePeerTakes(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // this system does not report what the peer has taken
	}
	eachDriver(t, func(t *testing.T, d driver) {
		fake := clock.NewFake(1)
		fx := start(t, d, Options{Clock: fake}, func(f *funcs) {
			f.data = func([]byte) bool {
				f.conn.Write(make([]byte, 32<<20))
				return true
			}
		})
		p, f := fx.dial()
		if _, err := p.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		var unsent int64
		same := 0
		until(t, "the system takes no more", func() bool {
			before := unsent
			unsent = f.conn.Pending()
			if same++; unsent == 0 || unsent != before {
				same = 0
			}
			return same == 10
		})
		f.conn.Progress()
		fake.Advance(time.Hour)
		if got := f.conn.Progress(); got != 1 {
			t.Fatalf("progress at %d without any", got)
		}
		for f.conn.Progress() == 1 {
			if _, err := io.ReadFull(p, make([]byte, 16<<10)); err != nil {
				t.Fatal(err)
			}
		}
		if got := f.conn.Progress(); got != 1+int64(time.Hour) {
			t.Errorf("progress at %d", got)
		}
		t.Logf("seen with %d of %d bytes unsent", f.conn.Pending(), unsent)
	})
}

// The server stops reading from a peer that does not read, above a bound. Whenever the peer reads, it is
// served completely.
func TestSilentPeerIsPausedAtTheMost(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		const bound = 1 << 20
		o := Options{PauseAbove: 64 << 10, PauseMost: func() int64 { return bound }, StallAfter: time.Millisecond}
		var most atomic.Int64
		fx := start(t, d, o, func(f *funcs) {
			f.data = func(b []byte) bool {
				f.conn.Write(b)
				most.Store(max(most.Load(), f.conn.Pending()))
				return true
			}
		})
		p, _ := fx.dial()
		block := bytes.Repeat([]byte("0123456789abcdef"), 4<<10)
		n := 0
		for {
			_ = p.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
			k, err := p.Write(block[n%len(block):])
			n += k
			if err != nil {
				break // the server does not read from it, or the machine is slow
			}
		}
		if _, err := io.CopyN(io.Discard, p, int64(n)); err != nil {
			t.Fatal(err)
		}
		if m := most.Load(); m > bound+2*readSize {
			t.Errorf("%d bytes were pending at the most", m)
		}
	})
}

func TestParkedSessionIsNotGivenData(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		got := make(chan string, 16)
		resumed := make(chan bool) // the results of Resume
		fx := start(t, d, Options{}, func(f *funcs) {
			f.data = func(b []byte) bool { got <- string(b); return false }
			f.resume = func() bool { return <-resumed }
		})
		p, f := fx.dial()
		for i := range 4 {
			msg := fmt.Sprintf("message %d", i)
			if _, err := io.WriteString(p, msg); err != nil {
				t.Fatal(err)
			}
			if b := receive(t, got); b != msg {
				t.Fatalf("got %q, want %q", b, msg)
			}
			if i == 3 {
				break
			}
			f.conn.Wake()
			resumed <- false
			f.conn.Wake()
			resumed <- true
		}
		if _, err := io.WriteString(p, "too early"); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			f.conn.Wake()
			resumed <- false
		}
		if len(got) != 0 {
			t.Errorf("a parked session was given %q", <-got)
		}
		f.conn.Wake()
		resumed <- true
		if b := receive(t, got); b != "too early" {
			t.Errorf("got %q", b)
		}
	})
}

// If a Resume parks the session while there is no input, later input waits.
func TestResumeParks(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		got := make(chan string, 16)
		resumed := make(chan bool)
		fx := start(t, d, Options{}, func(f *funcs) {
			f.data = func(b []byte) bool { got <- string(b); return true }
			f.resume = func() bool { return <-resumed }
		})
		p, f := fx.dial()
		for range 50 {
			f.conn.Wake()
			resumed <- false
			if _, err := io.WriteString(p, "early"); err != nil {
				t.Fatal(err)
			}
			f.conn.Wake()
			resumed <- false
			if len(got) != 0 {
				t.Fatal("a parked session was given data")
			}
			f.conn.Wake()
			resumed <- true
			if b := receive(t, got); b != "early" {
				t.Fatalf("got %q", b)
			}
		}
	})
}

// A Wake during Resume causes another Resume.
func TestWakeDuringResume(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		begun := make(chan struct{})
		fx := start(t, d, Options{}, func(f *funcs) {
			n := 0
			f.resume = func() bool {
				begun <- struct{}{}
				if n++; n == 1 {
					f.conn.Wake()
				}
				return true
			}
		})
		_, f := fx.dial()
		f.conn.Wake()
		receive(t, begun)
		receive(t, begun)
	})
}

// Wakes from many goroutines are merged, but a Resume begins after each of them.
func TestWakeIsCoalescedAndNeverLost(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		var asked, seen, resumes atomic.Int64
		fx := start(t, d, Options{}, func(f *funcs) {
			f.resume = func() bool { seen.Store(asked.Load()); resumes.Add(1); return true }
		})
		_, f := fx.dial()
		const wakes = 20_000
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range wakes / 4 {
					asked.Add(1)
					f.conn.Wake()
				}
			})
		}
		wg.Wait()
		until(t, "the last wake is seen", func() bool { return seen.Load() == wakes })
		t.Logf("%d wakes, %d resumes", wakes, resumes.Load())
	})
}

// What several goroutines write stays whole and in each one's order.
func TestConcurrentWriters(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		const writers, each = 8, 600
		fx := start(t, d, Options{}, func(*funcs) {})
		p, f := fx.dial()
		if d.tls {
			_, _ = p.Write([]byte("x"))
		}
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					f.conn.Write(fmt.Appendf(nil, "%d %d %s\n", w, i, strings.Repeat("=", i%300)))
				}
			})
		}
		var next [writers]int
		var l lines
		buf := make([]byte, 1000)
		for left := writers * each; left > 0; {
			n, err := p.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			l.add(buf[:n], func(line []byte) {
				var w, i int
				var tail string
				_, _ = fmt.Sscan(string(line), &w, &i, &tail)
				if i != next[w] || len(tail) != i%300 {
					t.Fatalf("line %q, want number %d of writer %d", line, next[w], w)
				}
				next[w]++
				left--
			})
		}
		wg.Wait()
	})
}

// An idle connection holds no buffers.
func TestIdleMemory(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		const conns = 300
		fx := start(t, d, Options{}, echo)
		heap := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.GC() // the second run empties the pools
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before := heap()
		var peers []*peer
		for range conns {
			p, _ := fx.dial()
			ping(t, p)
			peers = append(peers, p)
		}
		each := (heap() - before) / conns
		bound := int64(4 << 10)
		if d.tls {
			bound = 48 << 10 // both ends' crypto/tls
		}
		if each > bound {
			t.Errorf("%d bytes for each idle connection", each)
		}
		runtime.KeepAlive(peers)
	})
}

// A session that always has more to do does not make the others wait.
func TestBusySessionIsFair(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		var busy atomic.Int64
		fx := start(t, d, Options{}, func(f *funcs) {
			echo(f)
			f.resume = func() bool { busy.Add(1); f.conn.Wake(); return false }
		})
		_, f := fx.dial()
		f.conn.Wake()
		p, _ := fx.dial()
		for range 20 {
			ping(t, p)
		}
		was := busy.Load()
		until(t, "the busy one goes on", func() bool { return busy.Load() > was })
	})
}

// A connection that floods the server does not make the others wait.
func TestFloodIsFair(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		fx := start(t, d, Options{}, func(f *funcs) {
			flood := false
			f.data = func(b []byte) bool {
				if flood = flood || b[0] == 'F'; !flood {
					f.conn.Write(b)
				}
				return true
			}
		})
		p, f := fx.dial()
		var wg sync.WaitGroup
		wg.Go(func() {
			for block := bytes.Repeat([]byte("F"), 1<<20); ; {
				if _, err := p.Write(block); err != nil {
					return
				}
			}
		})
		q, _ := fx.dial()
		for range 20 {
			ping(t, q)
		}
		f.conn.Close(errTest)
		wg.Wait()
	})
}
