package transport

import (
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestHalfCloseThenRead(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		fx := start(t, d, Options{}, echo)
		p, f := fx.dial()
		if _, err := io.WriteString(p, "last words"); err != nil {
			t.Fatal(err)
		}
		if err := p.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(p); err != nil || string(b) != "last words" {
			t.Errorf("read %q, %v", b, err)
		}
		wantReason(t, f, ErrPeerClosed)
	})
}

// A session that is parked when the peer ends answers later and closes the connection itself.
func TestEOFParks(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		eof := newOnce()
		fx := start(t, d, Options{}, func(f *funcs) {
			f.eof = func() bool { eof.signal(); return false }
			f.resume = func() bool {
				f.conn.Write([]byte("late"))
				f.conn.CloseAfterFlush(errTest)
				return true
			}
		})
		p, f := fx.dial()
		if d.tls { // the handshake is the client's first write
			_, _ = p.Write([]byte("x"))
		}
		if err := p.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		receive(t, eof.c)
		f.conn.Wake()
		if b, err := io.ReadAll(p); err != nil || string(b) != "late" {
			t.Errorf("read %q, %v", b, err)
		}
		wantReason(t, f, errTest)
	})
}

func TestReset(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		if d.network != "tcp" {
			return // unix sockets have no reset
		}
		got := newOnce()
		fx := start(t, d, Options{}, func(f *funcs) {
			f.data = func([]byte) bool { got.signal(); return true }
		})
		p, f := fx.dial()
		if _, err := io.WriteString(p, "half a comm"); err != nil {
			t.Fatal(err)
		}
		receive(t, got.c)
		p.reset()
		wantReason(t, f, ErrPeerReset)
	})
}

// The peer can read the last reply even if the server did not read everything that the peer sent.
func TestCloseAfterFlushLetsThePeerReadIt(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		fx := start(t, d, Options{LingerTime: deadline}, func(f *funcs) {
			f.data = func([]byte) bool {
				f.conn.Write([]byte("-ERR no\r\n"))
				f.conn.CloseAfterFlush(errTest)
				f.conn.Write([]byte("dropped"))
				return true
			}
		})
		p, f := fx.dial()
		sent := make(chan error, 1)
		go func() {
			_, err := p.Write(make([]byte, 2<<20))
			sent <- err
		}()
		if b, err := io.ReadAll(p); err != nil || string(b) != "-ERR no\r\n" {
			t.Errorf("read %q, %v", b, err)
		}
		if err := receive(t, sent); err != nil {
			t.Errorf("write: %v", err)
		}
		_ = p.Close()
		wantReason(t, f, errTest)
	})
}

// A connection that was no longer read from, since its peer does not read, is read from again while it closes. Otherwise a
// peer that writes first and then reads would wait for ever.
func TestCloseAfterFlushReadsOn(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		const size = 16 << 20
		var once sync.Once
		fx := start(t, d, Options{PauseAbove: 64 << 10, StallAfter: time.Hour, FlushTimeout: time.Minute, LingerBytes: 2 * size}, func(f *funcs) {
			f.data = func([]byte) bool {
				once.Do(func() { f.conn.Write(make([]byte, size)) })
				return true
			}
		})
		p, f := fx.dial()
		_, _ = p.Write([]byte("x"))
		until(t, "replies are pending", func() bool { return f.conn.Pending() > 0 })
		f.conn.CloseAfterFlush(errTest)
		if _, err := p.Write(make([]byte, size)); err != nil {
			t.Errorf("write: %v", err)
		}
		if n, err := io.Copy(io.Discard, p); err != nil || n != size {
			t.Errorf("read %d bytes, %v", n, err)
		}
		_ = p.Close()
		wantReason(t, f, errTest)
	})
}

func TestCloseIsAtOnceAndTheFirstReasonWins(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		fx := start(t, d, Options{}, func(*funcs) {})
		p, f := fx.dial()
		f.conn.Close(errTest)
		f.conn.Close(io.EOF)
		f.conn.CloseAfterFlush(io.EOF)
		if _, err := io.ReadAll(p); err != nil {
			t.Logf("read: %v", err) // a reset is fine, too
		}
		wantReason(t, f, errTest)
	})
}

// A peer that does not read cannot keep a closing connection open.
func TestFlushTimeout(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		o := Options{FlushTimeout: 20 * time.Millisecond}
		fx := start(t, d, o, func(f *funcs) {
			f.data = func([]byte) bool {
				f.conn.Write(make([]byte, 16<<20))
				f.conn.CloseAfterFlush(errTest)
				return true
			}
		})
		p, f := fx.dial()
		_, _ = p.Write([]byte("x"))
		wantReason(t, f, errTest)
	})
}

// Neither can a peer that does not end.
func TestLingerTime(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		fx := start(t, d, Options{LingerTime: 20 * time.Millisecond}, func(f *funcs) {
			f.data = func([]byte) bool { f.conn.CloseAfterFlush(errTest); return true }
		})
		p, f := fx.dial()
		_, _ = p.Write([]byte("x"))
		wantReason(t, f, errTest)
	})
}

// The harness's checks hold while everything happens at the same time from many goroutines.
func TestCloseRaces(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		o := Options{LingerTime: time.Millisecond, FlushTimeout: 10 * time.Millisecond, PauseAbove: 1 << 10, StallAfter: time.Millisecond}
		fx := start(t, d, o, func(f *funcs) {
			r := rand.New(rand.NewPCG(uint64(f.conn.FD()), 7))
			f.data = func(b []byte) bool { f.conn.Write(b); return r.IntN(8) != 0 }
			f.resume = func() bool { return r.IntN(4) != 0 }
			f.eof = func() bool { return r.IntN(2) == 0 }
		})
		var wg sync.WaitGroup
		for i := range 60 {
			p, f := fx.dial()
			stop := make(chan struct{})
			wg.Go(func() {
				_, _ = p.Write(make([]byte, 4000))
				if i%5 == 0 {
					_ = p.CloseWrite()
				}
				_, _ = io.Copy(io.Discard, p)
				_ = p.Close()
			})
			wg.Go(func() {
				for {
					f.conn.Wake()
					f.conn.Write([]byte("push"))
					_ = f.conn.Pending()
					select {
					case <-stop:
						return
					default:
						runtime.Gosched() // leave time to the code under test
					}
				}
			})
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), 3))
				for range r.IntN(2000) {
					_ = f.conn.Progress()
				}
				if r.IntN(2) == 0 {
					f.conn.CloseAfterFlush(errTest)
				} else {
					f.conn.Close(errTest)
				}
				receive(t, f.closed)
				close(stop)
			})
		}
		wg.Wait()
	})
}

func TestRefusedByTheHandler(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		fx := start(t, d, Options{}, func(f *funcs) {
			f.conn.Write([]byte("-ERR max number of clients reached\r\n"))
			f.conn.CloseAfterFlush(errTest)
		})
		p, f := fx.dial()
		b, err := io.ReadAll(p)
		if d.tls {
			if p.Conn.(*tls.Conn).ConnectionState().HandshakeComplete {
				t.Error("a handshake was done for a refused connection")
			}
		} else if err != nil || !strings.HasPrefix(string(b), "-ERR max") {
			t.Errorf("read %q, %v", b, err)
		}
		_ = p.Close()
		wantReason(t, f, errTest)
	})
}

// Close cuts the peer off before it returns, even while the goroutine that drives the connection is busy:
// nothing that is written afterwards reaches the peer.
func TestCloseCutsOffAtOnce(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		busy, release := make(chan struct{}), make(chan struct{})
		fx := start(t, d, Options{}, func(f *funcs) {
			f.data = func([]byte) bool {
				close(busy)
				<-release
				return true
			}
		})
		defer close(release)
		p, f := fx.dial()
		if _, err := io.WriteString(p, "x"); err != nil {
			t.Fatal(err)
		}
		<-busy
		f.conn.Close(errTest)
		if b, err := io.ReadAll(p); len(b) > 0 || isTimeout(err) {
			t.Errorf("read %q, %v", b, err)
		}
	})
}

func isTimeout(err error) bool {
	ne, ok := err.(net.Error)
	return ok && ne.Timeout()
}
