package server

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"limitdb/config"
	"limitdb/engine"
	"limitdb/internal/clock"
	"limitdb/resp"
	"limitdb/server/group"
	"limitdb/server/spec"
	"limitdb/transport"
)

// testStart is the time at which a test's clock starts: 2020-09-13 12:26:40 UTC.
const testStart = 1_600_000_000 * int64(time.Second)

// testServer is a server without sockets, on a clock that the test advances.
type testServer struct {
	*Server
	t      testing.TB
	engine *engine.Engine
	clock  *clock.Fake
	stops  []bool // what SHUTDOWN asked for
	mu     sync.Mutex
}

// newTestServer starts a server with directives given as "name value".
func newTestServer(t testing.TB, directives ...string) *testServer {
	t.Helper()
	return newTestServerWith(t, func(*Options) {}, directives...)
}

// newTestServerWith is newTestServer for a server whose options are changed first.
func newTestServerWith(t testing.TB, change func(*Options), directives ...string) *testServer {
	t.Helper()
	registry, set := config.New()
	var args []string
	for _, d := range directives {
		name, value, _ := strings.Cut(d, " ")
		args = append(args, "--"+name, value)
	}
	if err := registry.Load(config.Sources{Args: args}); err != nil {
		t.Fatal(err)
	}
	ts := &testServer{t: t, clock: clock.NewFake(testStart), engine: engine.New(engine.Options{Seed: 1})}
	o := Options{
		Settings: set, Registry: registry, Engine: ts.engine, Clock: ts.clock, Version: "test",
		Shutdown: func(now bool) {
			ts.mu.Lock()
			ts.stops = append(ts.stops, now)
			ts.mu.Unlock()
		},
	}
	change(&o)
	ts.Server = New(o)
	return ts
}

// states returns the engine in force.
func (ts *testServer) states() *engine.Engine { return ts.group.Engine.Load() }

// A scope is a part of a test that takes back what it has made before the test ends.
type scope struct {
	testing.TB
	ends []func()
}

// Cleanup arranges for fn to be called when the scope ends.
func (s *scope) Cleanup(fn func()) { s.ends = append(s.ends, fn) }

// server starts a server that ends with the scope.
func (s *scope) server(directives ...string) *testServer {
	ts := newTestServer(s, directives...)
	s.Cleanup(func() { ts.engine.Close() })
	return ts
}

// end ends the scope.
func (s *scope) end() {
	for len(s.ends) > 0 {
		last := len(s.ends) - 1
		fn := s.ends[last]
		s.ends = s.ends[:last]
		fn()
	}
}

// in runs a command that belongs to no client in a group.
func (ts *testServer) in(g *group.Group, words ...string) string {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	c := httpCall{call: ts.newCall(g, ts.clock.Now(), resp.RESP2, args)}
	early := uint32(0)
	if _, leads := g.Keeper.Leading(); !leads {
		early = specialFollowing
	}
	c.runAlone(g.Special.Load() | early)
	return string(c.Out)
}

// newGroups starts a server that leads n groups with keys. It stands alone.
func newGroups(t testing.TB, n int, directives ...string) *testServer {
	t.Helper()
	return newGroupsOf(t, n, alone, directives...)
}

// newGroupsOf is newGroups for a node.
func newGroupsOf(t testing.TB, n int, replication func(g int) *Replication, directives ...string) *testServer {
	t.Helper()
	ts := newTestServerWith(t, func(o *Options) {
		for i := range n + 1 {
			o.Groups = append(o.Groups, GroupOptions{Engine: engine.New(engine.Options{Seed: uint64(1 + i)}), Replication: replication(i)})
		}
		o.Engine, o.Replication = o.Groups[0].Engine, o.Groups[0].Replication
	}, directives...)
	t.Cleanup(func() {
		for _, g := range ts.Groups() {
			g.Engine.Load().Close()
		}
	})
	return ts
}

// keyIn returns a key of the group with that number.
func (ts *testServer) keyIn(number int) string {
	for i := 0; ; i++ {
		if key := "k" + strconv.Itoa(i); ts.groupOf([]byte(key)) == ts.every[number] {
			return key
		}
	}
}

// keysOf returns the keys of a command, with several groups, and otherwise none.
func (ts *testServer) keysOf(words []string) (keys []string) {
	if !ts.several() {
		return nil
	}
	c := ts.newCall(ts.group, ts.clock.Now(), resp.RESP2, toBytes(words))
	cmd, _ := c.resolve()
	cmd.Keys(c.Args, func(i int) { keys = append(keys, words[i]) })
	if len(keys) == 0 && cmd.Flags&spec.Across != 0 {
		if p, text := cmd.Prepare(&c); text == "" {
			for _, key := range p.Keys() {
				keys = append(keys, string(key))
			}
			p.Free()
		}
	}
	return keys
}

// alone is the replication of a server that stands alone.
func alone(int) *Replication { return nil }

// newGroupsKept is newGroups for a node that keeps the replies of each group.
func newGroupsKept(t testing.TB, n int, replication func(g int) *Replication) (*testServer, []*primary) {
	ts := newGroupsOf(t, n, replication)
	var all []*primary
	for _, g := range ts.Groups() {
		p := &primary{turn: 1}
		p.holds.Store(true)
		g.Keeper.Source = p.source()
		all = append(all, p)
	}
	return ts, all
}

// allCommands returns the command table without a server.
func allCommands() *commands { return new(Server).newCommands() }

// testClient drives one session the way a transport does.
type testClient struct {
	t    testing.TB
	s    *session
	conn *fakeConn
}

// client connects from a loopback address.
func (ts *testServer) client() *testClient { return ts.clientFrom("127.0.0.1:40000") }

// clientFrom connects from addr.
func (ts *testServer) clientFrom(addr string) *testClient {
	ts.t.Helper()
	remote, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		ts.t.Fatal(err)
	}
	conn := &fakeConn{turn: time.Millisecond, remote: remote, local: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6379}, woken: make(chan struct{}, 1)}
	s := ts.Accept(conn).(*session)
	c := &testClient{t: ts.t, s: s, conn: conn}
	ts.t.Cleanup(func() { c.hangUp(transport.ErrPeerClosed) })
	return c
}

// hangUp ends the connection once.
func (c *testClient) hangUp(reason error) {
	if !c.conn.gone {
		c.conn.gone = true
		c.s.Closed(reason)
	}
}

// encode writes words as a RESP command.
func encode(words ...string) []byte { return resp.AppendCommand(nil, words...) }

// do sends one command and returns its one reply.
func (c *testClient) do(words ...string) resp.Value {
	c.t.Helper()
	c.conn.take()
	heavy := c.s.heavy
	c.s.Data(encode(words...))
	if heavy {
		c.s.Resume() // its turn comes
	}
	r := bufio.NewReader(bytes.NewReader(c.conn.take()))
	v, err := resp.ReadReply(r, 64<<20)
	if err != nil {
		c.t.Fatalf("%q: no reply: %v", words, err)
	}
	if rest, _ := io.ReadAll(r); len(rest) > 0 {
		c.t.Fatalf("%q: more than one reply: %q", words, rest)
	}
	return v
}

// raw sends bytes as they are and returns all that was written.
func (c *testClient) raw(in string) string {
	c.conn.take()
	c.s.Data([]byte(in))
	return string(c.conn.take())
}

// resume runs the session if it was woken, as the transport would, and
// returns what it wrote. It waits for the wake-up.
func (c *testClient) resume() string {
	c.t.Helper()
	select {
	case <-c.conn.woken:
	case <-time.After(2 * time.Minute):
		c.t.Fatal("the session was never woken")
	}
	c.s.Resume()
	return string(c.conn.take())
}

// line renders a reply on one line, much as redis-cli shows it: 1 "text" [..] -ERR OK nil.
func line(v resp.Value) string {
	switch {
	case v.Null:
		return "nil"
	case v.Kind == '-' || v.Kind == '!':
		return "-" + v.Text
	case v.Kind == '+':
		return v.Text
	case v.Kind == ':':
		return strconv.FormatInt(v.Int, 10)
	case v.Kind == '#':
		return map[int64]string{0: "false", 1: "true"}[v.Int]
	case v.Elems != nil || strings.IndexByte("*%~>", v.Kind) >= 0:
		var out []string
		for _, e := range v.Elems {
			out = append(out, line(e))
		}
		return "[" + strings.Join(out, " ") + "]"
	}
	return strconv.Quote(v.Text)
}

// steps runs commands and compares each reply, as line renders it, with the expected one.
// A command "+500ms" moves the clock.
func (c *testClient) steps(ts *testServer, table ...[2]string) {
	c.t.Helper()
	for i, step := range table {
		if d, ok := strings.CutPrefix(step[0], "+"); ok {
			by, err := time.ParseDuration(d)
			if err != nil {
				c.t.Fatal(err)
			}
			ts.clock.Advance(by)
			continue
		}
		if got := line(c.do(strings.Fields(step[0])...)); got != step[1] {
			c.t.Fatalf("step %d: %s\n got %s\nwant %s", i, step[0], got, step[1])
		}
	}
}

// fakeConn is a transport.Conn that keeps the bytes written to it.
type fakeConn struct {
	mu            sync.Mutex // guards all below
	out           []byte
	pending       int64 // what Pending answers, set by tests
	progress      int64
	closed        error
	flushed       bool // closed by CloseAfterFlush
	remote, local net.Addr
	woken         chan struct{}
	gone          bool
	life          transport.Life
	turn          time.Duration
	yields        int // calls of Yield
	writes        int // calls of Write
	loop          int
}

func (f *fakeConn) Write(p []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out = append(f.out, p...)
	f.writes++
}

func (f *fakeConn) take() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.out
	f.out = nil
	return out
}

func (f *fakeConn) Pending() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pending
}

func (f *fakeConn) setPending(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = n
}

func (f *fakeConn) Queue() (buffers, memory int64) {
	n := f.Pending()
	return (n + 1<<16 - 1) >> 16, n
}

func (f *fakeConn) Progress() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.progress
}

func (f *fakeConn) Wake() {
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

func (f *fakeConn) CloseAfterFlush(reason error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.life.Flush(reason) {
		f.closed, f.flushed = f.life.Reason(), true
	}
}

func (f *fakeConn) Close(reason error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.life.End(reason) {
		return false
	}
	f.closed = f.life.Reason()
	return true
}

func (f *fakeConn) Life() *transport.Life { return &f.life }

func (f *fakeConn) Turn() time.Duration { return f.turn }

func (f *fakeConn) Yield() {
	f.yields++
	f.Wake()
}

// reason returns why the connection was closed, or nil.
func (f *fakeConn) reason() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

func (f *fakeConn) Loop() int            { return f.loop }
func (f *fakeConn) RemoteAddr() net.Addr { return f.remote }
func (f *fakeConn) LocalAddr() net.Addr  { return f.local }
func (f *fakeConn) FD() int              { return 9 }
func (f *fakeConn) TLS() bool            { return false }
