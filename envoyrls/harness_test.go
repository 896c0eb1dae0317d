package envoyrls

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"limitdb/transport"
)

const patience = 20 * time.Second

// granted is the reply for one descriptor that is granted.
const granted = "*2\r\n:0\r\n*1\r\n*6\r\n:0\r\n:3\r\n$6\r\nMINUTE\r\n$2\r\nip\r\n:2\r\n:40\r\n"

// fakeGuest keeps what the port tells the server of a connection.
type fakeGuest struct {
	mu     sync.Mutex // guards all below
	now    int64
	waits  int64
	holds  int64
	most   int64
	left   bool
	denies error
	asked  []string
	names  []string // of certificates
}

func (g *fakeGuest) May(user, password []byte, given bool) (context.Context, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if given {
		g.asked = append(g.asked, string(user)+":"+string(password))
	} else {
		g.asked = append(g.asked, "nothing")
	}
	return context.Background(), g.denies
}

func (g *fakeGuest) Certified(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.names = append(g.names, name)
}

func (g *fakeGuest) Begins() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now++
	return g.now
}

func (g *fakeGuest) Waits(since int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waits = since
}

func (g *fakeGuest) Holds(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds, g.most = n, max(g.most, n)
}

func (g *fakeGuest) Leave(error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = true
}

// until waits until a condition on the guest holds.
func (g *fakeGuest) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		g.mu.Lock()
		yes := ok()
		g.mu.Unlock()
		if yes {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: waits %d, holds %d, left %v", what, g.waits, g.holds, g.left)
		}
	}
}

// port is a running port with fakes behind it.
type port struct {
	*Server
	t     *testing.T
	addr  string
	guest *fakeGuest // of all connections
	mu    sync.Mutex // guards ran
	ran   []string   // the commands
	now   atomic.Int64
}

// open opens a port whose options are changed first.
func open(t *testing.T, change func(*Options)) *port {
	t.Helper()
	return openTLS(t, nil, change)
}

// openTLS is open for a port that speaks TLS.
func openTLS(t *testing.T, secure *transport.TLS, change func(*Options)) *port {
	t.Helper()
	p := &port{t: t, guest: &fakeGuest{}}
	o := Options{
		Begin: func(_ context.Context, args [][]byte) ([]byte, func(context.Context) ([]byte, error)) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.ran = append(p.ran, string(bytes.Join(args, []byte(" "))))
			return []byte(granted), nil
		},
		Enter:   func(transport.Conn) (Guest, error) { return p.guest, nil },
		Longest: func() (int64, int64) { return 64 << 10, 1 << 20 },
		Ready:   func() error { return nil },
		Now:     func() int64 { return p.now.Load() },
	}
	if change != nil {
		change(&o)
	}
	p.Server = New(o, transport.Options{})
	if err := p.Listen("tcp", "127.0.0.1:0", secure); err != nil {
		t.Fatal(err)
	}
	p.addr = p.Addrs()[0].String()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.Shutdown(ctx) // it may have ended already
	})
	return p
}

// commands returns how many commands have run.
func (p *port) commands() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ran)
}

// dial returns a connection to the port.
func (p *port) dial(c credentials.TransportCredentials) *grpc.ClientConn {
	p.t.Helper()
	conn, err := grpc.NewClient(p.addr, grpc.WithTransportCredentials(c), grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (p *port) plain() rls.RateLimitServiceClient {
	return rls.NewRateLimitServiceClient(p.dial(insecure.NewCredentials()))
}

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// wait is what Options.Begin returns for a command that waits until its context ends, or end is closed.
func wait(end chan struct{}) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		select {
		case <-end:
			return []byte(granted), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
