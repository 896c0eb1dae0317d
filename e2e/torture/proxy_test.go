package torture

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// network is what lies between the Raft ports of the nodes. Each ordered pair of nodes has a proxy: whatever node i sends to the port of
// node j comes to the proxy of i and j, by a rule of the firewall that knows the node by its user.
type network struct {
	mu    sync.Mutex
	moved *sync.Cond // a way has changed
	ways  [maxNodes][maxNodes]way
	conns map[net.Conn][2]int
	ports [maxNodes][maxNodes]string // of the proxies
}

// way is what happens to the bytes from one node to another.
type way struct {
	cut   bool
	delay time.Duration
}

func newNetwork() *network {
	w := &network{conns: map[net.Conn][2]int{}}
	w.moved = sync.NewCond(&w.mu)
	return w
}

// set changes the way from one node to another.
func (w *network) set(from, to int, v way) {
	w.mu.Lock()
	w.ways[from][to] = v
	w.mu.Unlock()
	w.moved.Broadcast()
}

// heal makes all ways whole.
func (w *network) heal() {
	w.mu.Lock()
	w.ways = [maxNodes][maxNodes]way{}
	w.mu.Unlock()
	w.moved.Broadcast()
}

// reset breaks all connections between two nodes: what a lossy network does to them in the end.
func (w *network) reset(a, b int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c, ends := range w.conns {
		if ends == [2]int{a, b} || ends == [2]int{b, a} {
			_ = c.Close()
		}
	}
}

// proxy serves the connections that node from makes to node to.
func (w *network) proxy(listener net.Listener, from, to int, target string) {
	for {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = c.Close() }()
			out, err := net.DialTimeout("tcp", target, time.Second)
			if err != nil {
				return
			}
			defer func() { _ = out.Close() }()
			w.mu.Lock()
			w.conns[c] = [2]int{from, to}
			w.mu.Unlock()
			done := make(chan struct{}, 2)
			go w.pump(out, c, from, to, done)
			go w.pump(c, out, to, from, done)
			<-done
			w.mu.Lock()
			delete(w.conns, c)
			w.mu.Unlock()
		}()
	}
}

// pump carries bytes one way. While that is cut, they wait, as those that TCP sends again and again.
func (w *network) pump(to io.Writer, from io.Reader, a, b int, done chan struct{}) {
	defer func() { done <- struct{}{} }()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			w.mu.Lock()
			for w.ways[a][b].cut {
				w.moved.Wait()
			}
			delay := w.ways[a][b].delay
			w.mu.Unlock()
			if delay > 0 {
				time.Sleep(delay/2 + rand.N(delay))
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
