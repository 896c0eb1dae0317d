package server

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"limitdb/limit"
	"limitdb/server/clients"
	"limitdb/transport"
)

func TestPipelineIsAnsweredInOrder(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	var in, want strings.Builder
	for i := range 500 {
		fmt.Fprintf(&in, "ECHO %d\r\n", i)
		text := fmt.Sprint(i)
		fmt.Fprintf(&want, "$%d\r\n%s\r\n", len(text), text)
	}
	if got := c.raw(in.String()); got != want.String() {
		t.Errorf("replies differ: %.200q", got)
	}
}

func TestAnyCutOfTheStreamGivesTheSameReplies(t *testing.T) {
	stream := string(encode("CL.THROTTLE", "k", "15", "30", "60")) + "PING\r\n" + string(encode("RL.TAKE", "k2", "GCRA", "5/m", "COST", "2"))
	want := newTestServer(t).client().raw(stream)
	for cut := 1; cut < len(stream); cut++ {
		c := newTestServer(t).client()
		if got := c.raw(stream[:cut]) + c.raw(stream[cut:]); got != want {
			t.Fatalf("cut at %d: %q, want %q", cut, got, want)
		}
	}
}

func TestProtocolErrorAnswersWhatCameBefore(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	got := c.raw("PING\r\n*1\r\n$9223372036854775807\r\nPING\r\n")
	if want := "+PONG\r\n-ERR Protocol error: invalid bulk length\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(c.conn.reason(), clients.ErrProtocol) || !c.conn.flushed {
		t.Errorf("closed for %v, flushed %v", c.conn.reason(), c.conn.flushed)
	}
	if more := c.raw("PING\r\n"); more != "" {
		t.Errorf("answered after the error: %q", more)
	}
}

func TestOtherProtocolsCloseTheConnection(t *testing.T) {
	for _, in := range []string{
		"POST / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "Host: example.org\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "\x16\x03\x03\x00\x01",
	} {
		ts := newTestServer(t)
		c := ts.client()
		if got := c.raw(in); got != "" {
			t.Errorf("%q: answered %q", in, got)
		}
		if !errors.Is(c.conn.reason(), clients.ErrCross) || ts.counters.crossProtocol.Load() != 1 {
			t.Errorf("%q: closed for %v", in, c.conn.reason())
		}
	}
}

func TestUnknownCommandIsQuotedAndCut(t *testing.T) {
	c := newTestServer(t).client()
	if got, want := line(c.do("NOSUCH", "a\r\nb", "c")), `-ERR unknown command 'NOSUCH', with args beginning with: 'a\r\nb' 'c' `; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := line(c.do(strings.Repeat("x", 10_000))); len(got) > 300 {
		t.Errorf("%d bytes of error", len(got))
	}
}

func TestPanicClosesItsConnectionOnly(t *testing.T) {
	ts := newTestServer(t)
	ts.table.find([]byte("ECHO")).Run = func(*call) { panic("planted") }
	good, bad := ts.client(), ts.client()
	if got := bad.raw("PING\r\nECHO x\r\nPING\r\n"); got != "+PONG\r\n-"+errInternal+"\r\n" {
		t.Errorf("got %q", got)
	}
	if !errors.Is(bad.conn.reason(), clients.ErrPanic) || ts.counters.panics.Load() != 1 {
		t.Errorf("closed for %v, counted %d", bad.conn.reason(), ts.counters.panics.Load())
	}
	if got := line(good.do("PING")); got != "PONG" {
		t.Errorf("the good client got %s", got)
	}
}

func TestReplyModes(t *testing.T) {
	c := newTestServer(t).client()
	got := c.raw("CLIENT REPLY SKIP\r\nECHO dropped\r\nECHO a\r\nCLIENT REPLY OFF\r\nECHO b\r\nNOSUCH\r\nCLIENT REPLY ON\r\nECHO c\r\n")
	if want := "$1\r\na\r\n+OK\r\n$1\r\nc\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPauseHoldsCommandsBack(t *testing.T) {
	ts := newTestServer(t)
	admin, c := ts.client(), ts.client()
	admin.do("CLIENT", "PAUSE", "100000", "WRITE")
	if got := c.raw("PING\r\nRL.TAKE k GCRA 5/m\r\nPING\r\n"); got != "+PONG\r\n" {
		t.Fatalf("before the end: %q", got)
	}
	if c.s.Data([]byte("ECHO more\r\n")); string(c.conn.take()) != "" {
		t.Fatal("answered while parked")
	}
	if n := ts.pause.Held.Len(); n != 1 {
		t.Fatalf("%d held", n)
	}
	admin.do("CLIENT", "UNPAUSE")
	want := "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:12000\r\n+PONG\r\n$4\r\nmore\r\n"
	if got := c.resume(); got != want {
		t.Errorf("after the end: %q, want %q", got, want)
	}
}

func TestPauseEndsByTheClock(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.do("CLIENT", "PAUSE", "500")
	c.raw("PING\r\n")
	ts.clock.Advance(499 * time.Millisecond)
	ts.pause.Expire(ts.clock.Now())
	if ts.pause.Held.Len() != 1 {
		t.Fatal("ended too early")
	}
	ts.clock.Advance(time.Millisecond)
	ts.pause.Expire(ts.clock.Now())
	if got := c.resume(); got != "+PONG\r\n" {
		t.Errorf("got %q", got)
	}
}

// Of two pauses, the later end and the stronger kind apply.
func TestPausesCombine(t *testing.T) {
	for _, test := range []struct{ first, second string }{{"200 ALL", "20 WRITE"}, {"20 WRITE", "200 ALL"}, {"20 ALL", "200 WRITE"}} {
		ts := newTestServer(t)
		admin, c := ts.client(), ts.client()
		for _, args := range []string{test.first, test.second} {
			admin.do(append([]string{"CLIENT", "PAUSE"}, strings.Fields(args)...)...)
		}
		if got := c.raw("PING\r\n"); got != "" {
			t.Errorf("%s, %s: PING runs: %q", test.first, test.second, got)
		}
		ts.clock.Advance(199 * time.Millisecond)
		ts.pause.Expire(ts.clock.Now())
		if ts.pause.Held.Len() != 1 {
			t.Errorf("%s, %s: ended too early", test.first, test.second)
		}
		ts.clock.Advance(time.Millisecond)
		ts.pause.Expire(ts.clock.Now())
		if got := c.resume(); got != "+PONG\r\n" {
			t.Errorf("%s, %s: %q", test.first, test.second, got)
		}
		// A pause that is over does not count.
		admin.do("CLIENT", "PAUSE", "100", "WRITE")
		if got := c.raw("PING\r\n"); got != "+PONG\r\n" {
			t.Errorf("%s, %s, then WRITE: %q", test.first, test.second, got)
		}
	}
}

func TestRepliesAreSkippedUnderPause(t *testing.T) {
	ts := newTestServer(t)
	admin, c := ts.client(), ts.client()
	for _, test := range []struct{ in, want string }{
		{"CLIENT REPLY SKIP\r\nECHO a\r\nECHO b\r\n", "$1\r\nb\r\n"},
		{"CLIENT REPLY SKIP\r\nRL.TAKE k GCRA 1/h WAIT 1ms\r\nECHO b\r\n", "$1\r\nb\r\n"},
		{"CLIENT REPLY OFF\r\nECHO a\r\nECHO b\r\nCLIENT REPLY ON\r\nECHO c\r\n", "+OK\r\n$1\r\nc\r\n"},
	} {
		admin.do("CLIENT", "PAUSE", "1000000000")
		if got := c.raw(test.in); got != "" {
			t.Errorf("%q: %q before the end", test.in, got)
		}
		admin.do("CLIENT", "UNPAUSE")
		if got := c.resume(); got != test.want {
			t.Errorf("%q: %q, want %q", test.in, got, test.want)
		}
	}
}

func TestReplySkip(t *testing.T) {
	c := newTestServer(t).client()
	for _, test := range []struct{ in, want string }{
		{"CLIENT REPLY SKIP\r\nECHO a\r\nECHO b\r\n", "$1\r\nb\r\n"},
		{"CLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nECHO a\r\nECHO b\r\n", "$1\r\nb\r\n"},
		{"CLIENT REPLY SKIP\r\nCLIENT REPLY ON\r\nECHO b\r\n", "+OK\r\n$1\r\nb\r\n"},
		{"CLIENT REPLY OFF\r\nCLIENT REPLY SKIP\r\nECHO a\r\nECHO b\r\nCLIENT REPLY ON\r\n", "+OK\r\n"},
		{"CLIENT REPLY SKIP\r\nCLIENT REPLY maybe\r\nECHO b\r\n", "$1\r\nb\r\n"},
	} {
		if got := c.raw(test.in); got != test.want {
			t.Errorf("%q: %q, want %q", test.in, got, test.want)
		}
	}
}

func TestParkedClientThatHalfClosesIsAnswered(t *testing.T) {
	ts := newTestServer(t)
	admin, c := ts.client(), ts.client()
	admin.do("CLIENT", "PAUSE", "100000")
	c.raw("PING\r\nPING\r\n")
	if c.s.EOF() {
		t.Fatal("the parked session was closed")
	}
	admin.do("CLIENT", "UNPAUSE")
	if got := c.resume(); got != "+PONG\r\n+PONG\r\n" {
		t.Errorf("got %q", got)
	}
	if !errors.Is(c.conn.reason(), clients.ErrEOF) {
		t.Errorf("closed for %v", c.conn.reason())
	}
}

func TestParkedClientStopsBeingReadAtTheQueryLimit(t *testing.T) {
	ts := newTestServer(t)
	admin, c := ts.client(), ts.client()
	admin.do("CLIENT", "PAUSE", "100000")
	chunk := bytes.Repeat([]byte("PING\r\n"), 10_000)
	total := 0
	for c.s.Data(chunk) {
		if total += len(chunk); total > 10<<20 {
			t.Fatal("the session reads without a bound")
		}
	}
	if limit := int(ts.Server.set.ClientQueryBufferLimit.Get()); total+len(chunk) < limit || c.s.rd.Buffered() > limit+len(chunk) {
		t.Errorf("stopped at %d bytes, limit %d", c.s.rd.Buffered(), limit)
	}
}

func TestOutputLimit(t *testing.T) {
	ts := newTestServer(t, "client-output-buffer-limit 1mb")
	c := ts.client()
	c.conn.pending = 2 << 20
	c.raw("PING\r\n")
	if !errors.Is(c.conn.reason(), clients.ErrOutput) {
		t.Errorf("closed for %v", c.conn.reason())
	}
}

func TestDeadlines(t *testing.T) {
	for _, test := range []struct {
		name       string
		directives []string
		send       string
		pending    int64
		after      time.Duration
		want       error
	}{
		{"silent before AUTH", []string{"requirepass x"}, "", 0, 10 * time.Second, clients.ErrAuthTime},
		{"half a command", nil, "*2\r\n$4\r\nECHO\r\n", 0, 10 * time.Second, clients.ErrCommandTime},
		{"replies not read", nil, "PING\r\n", 100, 60 * time.Second, clients.ErrWriteTime},
		{"idle", []string{"timeout 30"}, "PING\r\n", 0, 30 * time.Second, clients.ErrIdle},
	} {
		t.Run(test.name, func(t *testing.T) {
			ts := newTestServer(t, test.directives...)
			c := ts.client()
			c.raw(test.send)
			c.conn.pending, c.conn.progress = test.pending, testStart
			ts.clock.Advance(test.after)
			ts.clients.Check(ts.clock.Now())
			if r := c.conn.reason(); r != nil {
				t.Fatalf("closed too early, for %v", r)
			}
			ts.clock.Advance(1)
			ts.clients.Check(ts.clock.Now())
			if r := c.conn.reason(); !errors.Is(r, test.want) {
				t.Errorf("closed for %v, want %v", r, test.want)
			}
			c.hangUp(test.want)
			if n := ts.clients.Closed.Of(clients.ErrIdle, clients.ErrAuthTime, clients.ErrCommandTime, clients.ErrWriteTime); n != 1 {
				t.Errorf("%d counted", n)
			}
		})
	}
}

// A client whose deep pipeline always ends in the middle of a command is not a slow client.
func TestDeepPipelineIsNotCut(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	for range 100 {
		c.raw("NG\r\nPI"[map[bool]int{true: 4, false: 0}[ts.clock.Now() == testStart]:])
		ts.clock.Advance(time.Second)
		ts.clients.Check(ts.clock.Now())
		if r := c.conn.reason(); r != nil {
			t.Fatalf("closed for %v", r)
		}
	}
}

// Clients with CLIENT NO-EVICT and the others each have maxmemory-clients to themselves: hogs of one kind
// close none of the other.
func TestLargestClientsAreEvicted(t *testing.T) {
	for _, tt := range []struct {
		ordinary, exempt []int64 // what each client holds, in MB
		closed           string
	}{
		{[]int64{1, 6}, []int64{8}, ""},
		{[]int64{1, 6, 4}, []int64{8}, "ordinary 6"},
		{[]int64{1, 6, 9}, nil, "ordinary 9"},
		{[]int64{1, 2}, []int64{3, 9, 1, 8}, "exempt 9, exempt 8"},
		{[]int64{8, 7}, []int64{6, 7}, "ordinary 8, exempt 7"},
	} {
		ts := newTestServer(t, "maxmemory-clients 10mb")
		all := map[string]*testClient{}
		for what, held := range map[string][]int64{"ordinary": tt.ordinary, "exempt": tt.exempt} {
			for _, mb := range held {
				c := ts.client()
				if what == "exempt" {
					c.do("CLIENT", "NO-EVICT", "ON")
				}
				c.conn.pending, c.conn.progress = mb<<20, testStart
				all[fmt.Sprintf("%s %d", what, mb)] = c
			}
		}
		ts.clients.Check(ts.clock.Now())
		for name, c := range all {
			if is, want := errors.Is(c.conn.reason(), clients.ErrEvicted), strings.Contains(tt.closed, name); is != want {
				t.Errorf("%v: %s is closed: %v, want %v", tt, name, is, want)
			}
		}
	}
}

// The bytes of clients with CLIENT NO-EVICT are counted apart, whenever it is set and ended, so that only
// buffers of which some may be given up wake the housekeeper.
func TestExemptBytesFollowTheClients(t *testing.T) {
	ts := newTestServer(t, "maxmemory-clients 1mb")
	hog, c := ts.client(), ts.client()
	grow := func(c *testClient, n int64) {
		c.conn.pending = n
		c.s.pub.Charge()
	}
	counted := func(all, exempt int64) {
		t.Helper()
		near := func(n, want int64) bool { return n == want || want > 0 && n > want && n < want+1<<10 } // with the command
		if a, e := ts.clients.Bytes.Load(), ts.clients.Exempt.Load(); !near(a, all) || !near(e, exempt) {
			t.Errorf("%d bytes counted, %d of them exempt; want %d and %d", a, e, all, exempt)
		}
	}
	kicked := func(want bool) {
		t.Helper()
		select {
		case <-ts.clients.Kicked():
			if !want {
				t.Error("the housekeeper was woken")
			}
		default:
			if want {
				t.Error("the housekeeper was not woken")
			}
		}
	}
	grow(hog, 900<<10)
	counted(900<<10, 0)
	hog.do("CLIENT", "NO-EVICT", "ON")
	hog.do("CLIENT", "NO-EVICT", "ON")
	counted(900<<10, 900<<10)
	grow(c, 800<<10) // 1.7 MB together
	counted(1700<<10, 900<<10)
	kicked(false)
	hog.do("RESET")
	counted(1700<<10, 0)
	hog.do("CLIENT", "NO-EVICT", "ON")
	grow(hog, 1100<<10)
	kicked(true)
	hog.hangUp(transport.ErrPeerReset)
	counted(800<<10, 0)
	grow(c, 1100<<10)
	kicked(true)
	if v := c.do("CONFIG", "SET", "maxmemory-clients", "0"); v.Text != "OK" {
		t.Fatal(line(v))
	}
	grow(c, 5<<20)
	kicked(false)
}

func TestClientBytesFollowTheClients(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.raw("*2\r\n$4\r\nECHO\r\n$1000\r\n" + strings.Repeat("x", 500))
	if n := ts.clients.Bytes.Load(); n < 500 || n > 4096 {
		t.Errorf("%d bytes counted", n)
	}
	c.hangUp(transport.ErrPeerReset)
	if n := ts.clients.Bytes.Load(); n != 0 {
		t.Errorf("%d bytes counted after the end", n)
	}
}

func TestMaxClients(t *testing.T) {
	ts := newTestServer(t, "maxclients 2")
	a, _, refused := ts.client(), ts.client(), ts.client()
	if got := string(refused.conn.take()); got != "-ERR max number of clients reached\r\n" {
		t.Errorf("got %q", got)
	}
	if refused.conn.reason() == nil || refused.raw("PING\r\n") != "" {
		t.Error("the third client is served")
	}
	a.hangUp(transport.ErrPeerClosed)
	if got := line(ts.client().do("PING")); got != "PONG" {
		t.Errorf("after one has left: %s", got)
	}
	if n := ts.counters.rejected.Load(); n != 1 {
		t.Errorf("%d counted", n)
	}
}

// TestStrangersGiveWay checks that with a password, clients that have not given it keep nobody out: the oldest of them goes.
func TestStrangersGiveWay(t *testing.T) {
	ts := newTestServer(t, "maxclients 3", "requirepass secret")
	in := func() *testClient {
		c := ts.client()
		if got := line(c.do("AUTH", "secret")); got != "OK" {
			t.Fatal(got)
		}
		return c
	}
	// goes checks that a client has been closed, and lets it go.
	goes := func(c *testClient) {
		t.Helper()
		if !errors.Is(c.conn.reason(), clients.ErrGaveWay) {
			t.Fatalf("closed for %v", c.conn.reason())
		}
		c.hangUp(c.conn.reason())
	}
	first, silent, reset := in(), ts.client(), in()
	reset.do("RESET") // it is the newest stranger now
	second := ts.client()
	goes(silent)
	second.do("AUTH", "secret")
	in()
	goes(reset)
	full := ts.client()
	if got := string(full.conn.take()); got != "-"+errMaxClients+"\r\n" {
		t.Errorf("three clients with the password, and a fourth gets %q", got)
	}
	for _, c := range []*testClient{first, second} {
		if got := line(c.do("PING")); got != "PONG" {
			t.Errorf("a client with the password gets %s", got)
		}
	}
	if n := ts.clients.Closed.Of(clients.ErrGaveWay); n != 2 {
		t.Errorf("%d counted", n)
	}
	// Clients that give way, but are not gone yet, are bounded.
	ts = newTestServer(t, "maxclients 100", "requirepass secret")
	served := 0
	for range 300 {
		if c := ts.client(); c.conn.reason() == nil {
			served++
		}
	}
	if n := ts.clients.Len(); n != 100+clients.GivingWay || served != n || ts.clients.Strangers() != 100 {
		t.Errorf("%d clients, %d served, %d strangers", n, served, ts.clients.Strangers())
	}
}

func TestProtectedMode(t *testing.T) {
	for _, test := range []struct {
		directive, from string
		served          bool
	}{
		{"protected-mode yes", "127.0.0.1:1000", true},
		{"protected-mode yes", "[::1]:1000", true},
		{"protected-mode yes", "192.0.2.1:1000", false},
		{"protected-mode no", "192.0.2.1:1000", true},
		{"requirepass secret", "192.0.2.1:1000", true},
	} {
		c := newTestServer(t, test.directive).clientFrom(test.from)
		out := string(c.conn.take())
		if served := out == ""; served != test.served {
			t.Errorf("%s from %s: %q", test.directive, test.from, out)
		}
		if !test.served && !strings.HasPrefix(out, "-DENIED ") {
			t.Errorf("%s from %s: %q", test.directive, test.from, out)
		}
	}
}

//test:norace
func TestNoAllocationFromReadToReply(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.conn.out = make([]byte, 0, 1<<20)
	commands := [][]string{
		{"CL.THROTTLE", "user123", "1000000", "30", "60"},
		{"RL.TAKE", "user123", "GCRA", "100/m", "BURST", "1000000"},
		{"RL.PEEK", "user123", "GCRA", "100/m", "COST", "3"},
		{"RL.TAKE", "denied", "GCRA", "0/m"},
		{"RL.TAKE", "user123", "GCRA", "100/m", "COST", "3", "PARTIAL"},
		{"RL.TAKEALL", "3", "one", "two", "three", "GCRA", "1000000/s", "GCRA", "1000000/s", "COST", "2", "GCRA", "1000000/s"},
		{"RL.RESERVE", "other", "GCRA", "100/m", "MAXWAIT", "1h"},
		{"RL.REFUND", "user123", "GCRA", "100/m", "BURST", "1000000"},
		{"RL.INFO", "user123"},
		{"PING"},
	}
	for _, a := range limit.Algorithms() {
		words := []string{"RL.TAKE", a.String(), a.String(), "100/m"}
		switch a {
		case limit.SEGMENTED:
			words = append(words, "SEGMENTS", "6")
		case limit.QUEUE:
			words = append(words, "BURST", "9")
		}
		commands = append(commands, words)
	}
	for _, words := range commands {
		plain := slices.Contains([]string{"CL.THROTTLE", "RL.TAKE", "RL.INFO", "PING"}, words[0]) && !slices.Contains(words, "PARTIAL")
		if raceDetector && !plain {
			continue // each of the 16 borrows from pools
		}
		batch := bytes.Repeat(encode(words...), 16)
		c.s.Data(batch)
		if n := testing.AllocsPerRun(1000, func() {
			c.conn.out = c.conn.out[:0]
			c.s.Data(batch)
		}); n != 0 {
			t.Errorf("%s: %v allocations for 16 commands", words, n)
		}
	}
}
