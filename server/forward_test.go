package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"limitdb/config"
	"limitdb/resp"
	"limitdb/server/forward"
	"limitdb/server/spec"
	"limitdb/uplink"
)

// twoNodes are a node that leads and one that does not, with an uplink between them.
type twoNodes struct {
	t                *testing.T
	leader, follower *testServer
	primary, other   *primary // what each of them keeps its replies for
	link             atomic.Pointer[uplink.Link]
	host             *uplink.Host
	far              net.Conn // the leader's end
}

func newTwoNodes(t *testing.T) *twoNodes {
	n := &twoNodes{t: t}
	n.leader, n.primary = newNode(t)
	n.follower, n.other = newNode(t)
	n.other.turn, n.other.leader = 0, "127.0.0.1:7"
	n.follower.opts.Replication.Uplink = func(int) *uplink.Link { return n.link.Load() }
	n.follower.Follow()
	n.primary.holds.Store(false)
	n.host = uplink.NewHost(n.leader.Server, func() {}, n.leader.clock)
	n.connect()
	return n
}

// connect replaces the uplink.
func (n *twoNodes) connect() {
	near, far := net.Pipe()
	n.far = far
	l := uplink.NewLink(near)
	n.t.Cleanup(l.Close)
	go func() { _ = n.host.Serve(far) }()
	n.link.Store(l)
	n.follower.LeaderChanged()
}

// cut ends the uplink, so that there is none.
func (n *twoNodes) cut() {
	n.link.Swap(nil).Close()
}

// send sends bytes as the client, and returns the given number of replies.
func (c *testClient) send(in string, replies int) []string {
	c.t.Helper()
	c.conn.take()
	c.s.Data([]byte(in))
	return c.receive(replies)
}

// receive runs the session as the transport would until it has sent the given number of replies, and renders them.
func (c *testClient) receive(replies int) (got []string) {
	c.t.Helper()
	r := bufio.NewReader(&pump{c})
	for range replies {
		v, err := resp.ReadReply(r, 64<<20)
		if err != nil {
			return append(got, "end")
		}
		got = append(got, line(v))
	}
	if n := r.Buffered(); n > 0 {
		b, _ := r.Peek(n)
		c.t.Fatalf("more than %d replies: %q", replies, b)
	}
	return got
}

// pump reads what the session writes, and resumes it when it is woken.
type pump struct{ *testClient }

func (p *pump) Read(b []byte) (int, error) {
	late := time.After(time.Minute)
	for {
		if out := p.conn.take(); len(out) > 0 {
			n := copy(b, out)
			p.conn.putBack(out[n:])
			return n, nil
		}
		if p.conn.reason() != nil {
			return 0, io.EOF
		}
		select {
		case <-p.conn.woken:
			p.s.Resume()
		case <-time.After(houseEvery):
			p.s.srv.leaderless.Wake() // as the housekeeper does
		case <-late:
			p.t.Fatal("no reply comes")
		}
	}
}

func (f *fakeConn) putBack(b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out = append(append([]byte(nil), b...), f.out...)
}

func (c *testClient) gets(in string, want ...string) {
	c.t.Helper()
	if got := c.send(in, len(want)); strings.Join(got, "\n") != strings.Join(want, "\n") {
		c.t.Errorf("%q:\n got %q\nwant %q", in, got, want)
	}
}

// A client of a node that does not lead gets the replies of the leader, one for each command, in their order.
func TestForwarding(t *testing.T) {
	n := newTwoNodes(t)
	c := n.follower.client()
	c.gets("RL.TAKE a GCRA 1/m\r\n", "[0 1 0 -1 60000]")
	c.gets("RL.TAKE a GCRA 1/m\r\nPING\r\nRL.TAKE b GCRA 1/m\r\nnonsense\r\nDBSIZE\r\nRL.TAKE\r\nPING x\r\n",
		"[1 1 0 60000 60000]", "PONG", "[0 1 0 -1 60000]",
		"-ERR unknown command 'nonsense', with args beginning with: ", "2", "-"+n.leader.table.find([]byte("RL.TAKE")).WrongArity(), `"x"`)
	if n.follower.engine.Stats().Keys != 0 || n.leader.engine.Stats().Keys != 2 {
		t.Error("the follower decides")
	}
	c.gets("KEYS a*\r\nRL.INFO none\r\n*x\r\n", `["a"]`, "nil", "-ERR Protocol error: invalid multibulk length")
}

// A long pipeline is sent in several batches, and other clients are served in between.
func TestForwardedPipeline(t *testing.T) {
	n := newTwoNodes(t)
	c := n.follower.client()
	const many = 5000
	got := c.send(strings.Repeat("RL.TAKE a GCRA 3000/h BURST 3000\r\nPING\r\n", 3)+strings.Repeat("RL.TAKE a GCRA 3000/h BURST 3000\r\n", many), many+6)
	granted := 0
	for _, g := range got {
		if strings.HasPrefix(g, "[0 ") {
			granted++
		}
	}
	if granted != 3000 || got[1] != "PONG" || got[5] != "PONG" {
		t.Errorf("%d granted", granted)
	}
}

// The modes of a client's connection apply wherever its commands run.
func TestForwardingKeepsModes(t *testing.T) {
	n := newTwoNodes(t)
	c := n.follower.client()
	c.send("RL.INFO none\r\nHELLO 3\r\n", 2)
	c.conn.take()
	c.s.Data([]byte("RL.INFO none\r\n"))
	<-c.conn.woken
	c.s.Resume()
	if got := string(c.conn.take()); got != "_\r\n" {
		t.Errorf("RESP3: %q", got)
	}
	c.send("HELLO 2\r\n", 1)
	c.gets("CLIENT REPLY OFF\r\nRL.TAKE a GCRA 9/h\r\nRL.TAKE a GCRA 9/h\r\nCLIENT REPLY ON\r\nRL.PEEK a GCRA 9/h\r\n",
		"OK", "[0 9 6 -1 1200000]")
	c.gets("RL.TAKE b GCRA 9/h\r\nCLIENT REPLY SKIP\r\nRL.TAKE b GCRA 9/h\r\nRL.PEEK b GCRA 9/h\r\nCLIENT REPLY SKIP\r\nPING\r\nPING\r\n",
		"[0 9 8 -1 400000]", "[0 9 6 -1 1200000]", "PONG")
	name := strings.Fields(line(c.do("CLIENT", "INFO")))[1]
	c.gets("CLIENT SETNAME me\r\nRL.PEEK a GCRA 9/h\r\n", "OK", "[0 9 6 -1 1200000]")
	list := n.leader.client().do("CLIENT", "LIST").Text
	if !strings.Contains(list, " name=me ") || !strings.Contains(list, name) {
		t.Errorf("the leader's CLIENT LIST is %s, the client's %s", list, name)
	}
}

// When the leader closes a forwarded client, the client's own node closes it too.
func TestForwardedClientIsKilled(t *testing.T) {
	n := newTwoNodes(t)
	c := n.follower.clientFrom("127.0.0.1:40001")
	c.gets("RL.TAKE a GCRA 1/m\r\n", "[0 1 0 -1 60000]")
	c.s.Data([]byte("RL.TAKE a GCRA 1/m WAIT 1d\r\n"))
	admin := n.leader.client()
	for !strings.Contains(admin.do("CLIENT", "LIST").Text, "flags=b ") {
		runtime.Gosched()
	}
	if got := line(admin.do("CLIENT", "KILL", "ADDR", "127.0.0.1:40001")); got != "1" {
		t.Fatal(got)
	}
	if got := c.receive(1); got[0] != "end" || !errors.Is(c.conn.reason(), errClosedByLead) {
		t.Errorf("%q, %v", got, c.conn.reason())
	}
}

// A client that goes away gives up its place at the leader.
func TestForwardedClientGoesAway(t *testing.T) {
	n := newTwoNodes(t)
	for name, leave := range map[string]func(*testClient){
		"half-closed": func(c *testClient) { c.s.EOF() },
		"closed":      func(c *testClient) { c.hangUp(errEOF) },
	} {
		c := n.follower.client()
		c.send("RL.RESET a\r\n", 1)
		c.gets("RL.TAKE a GCRA 1/m\r\n", "[0 1 0 -1 60000]")
		c.s.Data([]byte("RL.TAKE a GCRA 1/m WAIT 1d\r\n"))
		for n.leader.engine.Stats().Waiting == 0 {
			runtime.Gosched()
		}
		leave(c)
		for n.leader.engine.Stats().Waiting != 0 {
			runtime.Gosched()
		}
		if name == "half-closed" {
			if got := c.receive(1); got[0] != "[1 1 0 60000 60000]" {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
}

// When an uplink ends, its replies are lost: each command that was sent gets an error that says so, and commands that
// were not sent are sent over the next uplink.
func TestUplinkThatEnds(t *testing.T) {
	n := newTwoNodes(t)
	n.primary.holds.Store(true)
	c := n.follower.client()
	c.s.Data([]byte("RL.TAKE a GCRA 1/m\r\nRL.TAKE b GCRA 1/m\r\nPING\r\nRL.TAKE c GCRA 1/m\r\n"))
	for n.leader.engine.Stats().Keys < 2 {
		runtime.Gosched()
	}
	n.cut()
	if got := c.receive(3); strings.Join(got, " ") != "-"+errUnknownOutcome+" -"+errUnknownOutcome+" PONG" {
		t.Errorf("%q", got)
	}
	n.primary.holds.Store(false)
	n.connect()
	if got := c.receive(1); got[0] != "[0 1 0 -1 60000]" {
		t.Errorf("%q", got)
	}
	if info := c.do("INFO", "replication").Text; !strings.Contains(info, "raft_forwarded_commands:3\r\nraft_unknown_outcomes:2\r\n") {
		t.Errorf("%s", info)
	}
}

// A node that no longer leads has begun none of the commands that it does not answer. They wait, and are decided once.
func TestLeaderThatSteppedDown(t *testing.T) {
	n := newTwoNodes(t)
	n.primary.holds.Store(true)
	c := n.follower.client()
	c.s.Data([]byte("RL.TAKE a GCRA 1/m\r\n"))
	for !n.primary.owes() {
		runtime.Gosched()
	}
	n.leader.Follow()
	n.primary.endWaits(errors.New("abdicated"))
	if got := c.receive(1); got[0] != "-"+errUnknownOutcome {
		t.Errorf("%q", got)
	}
	// The other node refuses the next commands. Then this node leads.
	c.s.Data([]byte("RL.TAKE b GCRA 1/m\r\nRL.TAKE b GCRA 1/m\r\nPING\r\n"))
	n.refused(c)
	if got := c.conn.take(); len(got) > 0 {
		t.Fatalf("%q", got)
	}
	n.other.turn = 1
	n.other.holds.Store(false)
	n.link.Store(nil)
	n.follower.Lead(n.follower.engine)
	n.follower.LeaderChanged()
	if got := strings.Join(c.receive(3), " "); got != "[0 1 0 -1 60000] [1 1 0 60000 60000] PONG" {
		t.Errorf("%q", got)
	}
}

// A leader that stops has handed over, and begins nothing that other nodes send it.
func TestLeaderThatStops(t *testing.T) {
	n := newTwoNodes(t)
	n.leader.Stopping()
	c := n.follower.client()
	c.s.Data([]byte("RL.TAKE a GCRA 1/m\r\n"))
	n.refused(c)
	n.other.turn = 1
	n.other.holds.Store(false)
	n.link.Store(nil)
	n.follower.Lead(n.follower.engine)
	n.follower.LeaderChanged()
	if got := c.receive(1); got[0] != "[0 1 0 -1 60000]" {
		t.Errorf("%q", got)
	}
}

// Other nodes may learn of a new leader before it decides. A command that it refuses meanwhile is soon sent again, without
// waiting for the housekeeper.
func TestNodeThatIsAboutToLead(t *testing.T) {
	n := newTwoNodes(t)
	n.leader.Follow()
	c := n.follower.client()
	c.s.Data([]byte("RL.TAKE a GCRA 1/m\r\n"))
	n.refused(c)
	n.leader.Lead(n.leader.engine)
	out := c.conn.take()
	for ; len(out) == 0; out = c.conn.take() {
		<-c.conn.woken
		c.s.Resume()
	}
	c.conn.putBack(out)
	if got := c.receive(1); got[0] != "[0 1 0 -1 60000]" {
		t.Errorf("%q", got)
	}
}

// Without a leader, commands wait and are then refused.
func TestWaitForALeader(t *testing.T) {
	n := newTwoNodes(t)
	n.cut()
	n.other.leader = ""
	c := n.follower.client()
	down := "-" + spec.ErrNoLeader
	look := func(by time.Duration) {
		n.follower.clock.Advance(by)
		n.follower.LeaderChanged()
		<-c.conn.woken
		c.s.Resume()
	}
	c.s.Data([]byte("PING\r\nRL.TAKE a GCRA 1/m\r\nRL.TAKE a GCRA 1/m\r\nPING\r\n"))
	look(leaderWait - 1)
	if got := string(c.conn.take()); got != "+PONG\r\n" {
		t.Errorf("%q", got)
	}
	look(1)
	if got := strings.Join(c.receive(3), " "); got != down+" "+down+" PONG" {
		t.Errorf("%q", got)
	}
	// Later commands wait by themselves.
	c.s.Data([]byte("RL.TAKE a GCRA 1/m\r\n"))
	look(leaderWait / 2)
	n.connect()
	if got := c.receive(1); got[0] != "[0 1 0 -1 60000]" {
		t.Errorf("%q", got)
	}
	if n.follower.leaderless.Len() != 0 {
		t.Error("a client still waits")
	}
	// A node that refuses commands for that long counts as no leader.
	n.leader.Follow()
	c.s.Data([]byte("RL.TAKE a GCRA 1/m\r\n"))
	for range 3 {
		n.refused(c)
		look(leaderWait / 3)
	}
	if got := c.receive(1); got[0] != down {
		t.Errorf("%q", got)
	}
	// The queue is bounded.
	n.cut()
	for range forward.MaxLeaderless {
		n.follower.leaderless.Add(make(forward.Waker, 1))
	}
	c.gets("RL.TAKE a GCRA 1/m\r\n", down)
}

// A client that knows clusters is told the leader's address.
func TestClientsThatKnowClusters(t *testing.T) {
	n := newTwoNodes(t)
	moved := "-MOVED 12182 127.0.0.1:7"
	for _, word := range []string{"CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES", "READONLY", "READWRITE"} {
		c := n.follower.client()
		c.send("RL.TAKE foo GCRA 1/m\r\n", 1)
		c.send(word+"\r\n", 1)
		c.gets("RL.TAKE foo GCRA 1/m\r\nPING\r\n", moved, "PONG")
		c.send("RESET\r\n", 1)
		if got := c.send("RL.PEEK foo GCRA 1/m\r\n", 1); !strings.HasPrefix(got[0], "[") {
			t.Errorf("after %s and RESET: %q", word, got)
		}
	}
	c := n.follower.client()
	c.gets("CONFIG SET raft-redirect moved\r\nRL.TAKE foo GCRA 1/m\r\n", "OK", moved)
}

// The leader runs the whole transaction of another node's client. If that node does not lead, the transaction is queued again.
func TestForwardedTransaction(t *testing.T) {
	n := newTwoNodes(t)
	c := n.follower.client()
	c.gets("RL.TAKE a GCRA 1/m\r\nMULTI\r\nRL.TAKE a GCRA 1/m\r\nPING\r\nRL.TAKE b GCRA 1/m\r\nEXEC\r\nPING\r\n",
		"[0 1 0 -1 60000]", "OK", "QUEUED", "QUEUED", "QUEUED", "[[1 1 0 60000 60000] PONG [0 1 0 -1 60000]]", "PONG")
	c.gets("MULTI\r\nPING\r\nEXEC\r\nMULTI\r\nRL.TAKE\r\nEXEC\r\n",
		"OK", "QUEUED", "[PONG]", "OK", "-"+n.leader.table.find([]byte("RL.TAKE")).WrongArity(), "-EXECABORT Transaction discarded because of previous errors.")

	// The uplink ends, and the client gets one reply.
	n.primary.holds.Store(true)
	c.s.Data([]byte("MULTI\r\nRL.TAKE c GCRA 1/m\r\nEXEC\r\n"))
	for n.leader.engine.Stats().Keys < 3 {
		runtime.Gosched()
	}
	n.cut()
	if got := strings.Join(c.receive(3), " "); got != "OK QUEUED -"+errUnknownOutcome {
		t.Errorf("%q", got)
	}
	// The other node stops leading, and this node leads.
	n.primary.holds.Store(false)
	n.connect()
	n.leader.Follow()
	c.s.Data([]byte("MULTI\r\nRL.TAKE d GCRA 1/m\r\nEXEC\r\nPING\r\n"))
	n.refused(c)
	n.other.turn = 1
	n.other.holds.Store(false)
	n.link.Store(nil)
	n.follower.Lead(n.follower.engine)
	n.follower.LeaderChanged()
	if got := strings.Join(c.receive(4), " "); got != "OK QUEUED [[0 1 0 -1 60000]] PONG" {
		t.Errorf("%q", got)
	}
}

// asks runs a command by Do, and returns the channel of its reply.
func (n *twoNodes) asks(words ...string) <-chan string {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	reply := make(chan string, 1)
	go func() {
		b, err := n.follower.Do(n.t.Context(), args...)
		if err != nil {
			reply <- err.Error()
			return
		}
		v, err := resp.ReadReply(bufio.NewReader(bytes.NewReader(b)), 1<<20)
		if err != nil {
			reply <- err.Error()
			return
		}
		reply <- line(v)
	}()
	return reply
}

// refused runs the session until it waits for a leader.
func (n *twoNodes) refused(c *testClient) {
	for {
		if _, waits := n.follower.leaderless.Until(c.conn); waits {
			return
		}
		<-c.conn.woken
		c.s.Resume()
	}
}

// awaits waits until the given number of clients wait for a leader at the follower.
func (n *twoNodes) awaits(many int) {
	for n.follower.leaderless.Len() != many {
		runtime.Gosched()
	}
}

// Commands without a connection are forwarded like clients' commands: they wait for a leader, are then refused, and have an unknown outcome if
// the uplink ends.
func TestForwardingDirect(t *testing.T) {
	n := newTwoNodes(t)
	is := func(reply <-chan string, want string) {
		t.Helper()
		for {
			select {
			case got := <-reply:
				if got != want {
					t.Errorf("%s, want %s", got, want)
				}
				return
			case <-time.After(houseEvery):
				n.follower.leaderless.Wake() // as the housekeeper does
			}
		}
	}
	take := func(key string) <-chan string { return n.asks("RL.TAKE", key, "GCRA", "1/m") }
	is(take("a"), "[0 1 0 -1 60000]")
	is(take("a"), "[1 1 0 60000 60000]")
	is(n.asks("RL.INFO", "none"), "nil")
	is(n.asks("RL.TAKE", "a"), "-"+n.leader.table.find([]byte("RL.TAKE")).WrongArity())
	is(n.asks("MONITOR"), "-ERR monitor needs a connection of its own")
	if kept := n.follower.direct.Kept(); kept != 1 || n.leader.clients.count() != 1 {
		t.Errorf("%d streams are kept, the leader has %d sessions", kept, n.leader.clients.count())
	}

	// Without a leader, the command waits.
	n.cut()
	waits := take("b")
	n.awaits(1)
	n.connect()
	is(waits, "[0 1 0 -1 60000]")
	n.cut()
	waits = take("b")
	n.awaits(1)
	n.follower.clock.Advance(leaderWait)
	n.follower.LeaderChanged()
	is(waits, "-"+spec.ErrNoLeader)
	n.awaits(0)

	// The leader steps down without having begun the command. Then this node leads.
	n.connect()
	n.leader.Follow()
	waits = take("c")
	n.awaits(1)
	n.leader.Lead(n.leader.engine)
	n.follower.LeaderChanged()
	is(waits, "[0 1 0 -1 60000]")

	// The uplink ends while the leader owes the reply.
	n.primary.holds.Store(true)
	waits = take("d")
	for !n.primary.owes() {
		runtime.Gosched()
	}
	n.primary.holds.Store(false)
	n.cut()
	n.connect()
	is(waits, "-"+errUnknownOutcome)

	// The caller does not wait any longer.
	n.primary.holds.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() {
		_, err := n.follower.Do(ctx, []byte("RL.TAKE"), []byte("e"), []byte("GCRA"), []byte("1/m"))
		over <- err
	}()
	for n.leader.engine.Stats().Keys < 5 {
		runtime.Gosched()
	}
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := n.follower.registry.Set(config.Pair{Name: "raft-redirect", Value: "moved"}); err != nil {
		t.Fatal(err)
	}
	is(take("foo"), "-MOVED 12182 127.0.0.1:7")
	n.other.turn = 1
	n.other.holds.Store(false)
	n.follower.Lead(n.follower.engine)
	is(take("a"), "[0 1 0 -1 60000]")
}

// slowConn is a connection from which nothing is read while somebody else has what is in its gate.
type slowConn struct {
	net.Conn
	gate chan struct{}
}

func (c *slowConn) Read(b []byte) (int, error) {
	c.gate <- <-c.gate
	return c.Conn.Read(b[:min(len(b), 4<<10)]) // so that it looks at the gate soon
}

// A command without a client finds the uplink full, and a stream that was kept. That stream is not forgotten.
func TestForwardingDirectOverAFullUplink(t *testing.T) {
	n := newTwoNodes(t)
	n.cut()
	near, far := net.Pipe()
	slow := &slowConn{far, make(chan struct{}, 1)}
	slow.gate <- struct{}{}
	l := uplink.NewLink(near)
	t.Cleanup(l.Close)
	go func() { _ = n.host.Serve(slow) }()
	n.link.Store(l)
	if got := <-n.asks("RL.INFO", "none"); got != "nil" {
		t.Fatal(got)
	}
	kept := n.follower.direct.Take(l)
	n.follower.direct.Put(kept)
	full := l.Open(&uplink.Client{}, &forward.Inbox{Wake: func() {}})
	token := <-slow.gate
	for full.Send([]byte(strings.Repeat("PING\r\n", 10_000))) {
	}
	d := n.follower.decideDirect([][]byte{[]byte("RL.INFO"), []byte("none")})
	if _, begun, err := n.follower.forwardDirect(t.Context(), l, &d.call); begun || err != nil {
		t.Errorf("begun: %v, %v", begun, err)
	}
	full.Close()
	slow.gate <- token
	for l.Open(&uplink.Client{}, &forward.Inbox{Wake: func() {}}) == nil {
		runtime.Gosched()
	}
	if kept.Send(nil) {
		t.Error("the stream that was kept is neither kept nor closed")
	}
}

// untilEnd half-closes the client's connection, and returns the replies up to its end.
func (c *testClient) untilEnd() (got []string) {
	c.t.Helper()
	c.s.EOF()
	r := bufio.NewReader(&pump{c})
	for {
		v, err := resp.ReadReply(r, 1<<20)
		if err != nil {
			return got
		}
		got = append(got, line(v))
	}
}

// A client gets one reply for each command, in order, and each command is counted once: with a leader, with a leader that comes later, and if the
// uplink ends meanwhile, when the outcome is unknown.
func TestForwardedCommandsAreAnsweredOnce(t *testing.T) {
	const in = "RL.TAKE a GCRA 9/h\r\nRL.TAKE a GCRA 9/h\r\nPING 1\r\nRL.TAKE a GCRA 9/h\r\nPING 2\r\n"
	const taken = "[0 9 8 -1 400000] [0 9 7 -1 800000]"
	unknown := "-" + errUnknownOutcome
	for name, c := range map[string]struct {
		before, after func(n *twoNodes)
		want          string
	}{
		"a leader": {func(*twoNodes) {}, func(*twoNodes) {}, taken + ` "1" [0 9 6 -1 1200000] "2"`},
		"a leader that comes later": {
			func(n *twoNodes) { n.cut() },
			func(n *twoNodes) { n.awaits(1); n.connect() }, taken + ` "1" [0 9 6 -1 1200000] "2"`,
		},
		"an uplink that ends": {
			func(n *twoNodes) { n.primary.holds.Store(true) },
			func(n *twoNodes) {
				for !n.primary.owes() {
					runtime.Gosched()
				}
				n.primary.holds.Store(false)
				n.cut()
				n.connect()
			}, unknown + " " + unknown + ` "1" [0 9 6 -1 1200000] "2"`,
		},
	} {
		n := newTwoNodes(t)
		client := n.follower.client()
		c.before(n)
		client.s.Data([]byte(in))
		c.after(n)
		if got := strings.Join(client.untilEnd(), " "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
		if got := line(n.leader.client().do("RL.PEEK", "a", "GCRA", "9/h")); got != "[0 9 5 -1 1600000]" {
			t.Errorf("%s: the leader says %s", name, got)
		}
	}
}
