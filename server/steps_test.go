package server

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/server/clients"
	"limitdb/server/handler"
	"limitdb/server/monitor"
	"limitdb/server/pubsub"
	"limitdb/server/slowlog"
	"limitdb/server/spec"
	"limitdb/transport"
)

// tiny gives the client turns that end at once, so that it yields wherever it can.
func (c *testClient) tiny() *testClient {
	c.conn.turn = 0
	return c
}

// all sends in, gives the session turns until it has finished, and returns the output.
// It overwrites the input after the first turn, as a transport does.
func (c *testClient) all(in string) string {
	c.t.Helper()
	b := []byte(in)
	more := c.s.Data(b)
	for i := range b {
		b[i] = 'X'
	}
	for turns := 0; c.s.yielded && c.s.life.Open(); turns++ {
		if more {
			c.t.Fatal("a session that has yielded wants to be read from")
		}
		if turns > 100_000 {
			c.t.Fatal("it yields for ever")
		}
		more = c.s.Resume()
	}
	return string(c.conn.take())
}

func TestPipelineYieldsAndGoesOn(t *testing.T) {
	c := newTestServer(t).client().tiny()
	var in, want strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&in, "ECHO %d\r\n", i)
		text := fmt.Sprint(i)
		fmt.Fprintf(&want, "$%d\r\n%s\r\n", len(text), text)
	}
	if got := c.all(in.String()); got != want.String() {
		t.Errorf("replies differ: %.200q", got)
	}
	if c.conn.yields != 1000/handler.LookAtClock {
		t.Errorf("it yielded %d times", c.conn.yields)
	}
}

// Decisions wait in a queue for the ones behind them.
func TestPipelineOfDecisionsYields(t *testing.T) {
	c := newTestServer(t).client().tiny()
	in := strings.Repeat(string(encode("CL.THROTTLE", "k", "999", "1000", "60")), 500)
	got := c.all(in)
	if n := strings.Count(got, "*5\r\n:0\r\n:1000\r\n"); n != 500 || !strings.Contains(got, ":1000\r\n:500\r\n") {
		t.Errorf("%d replies; the last ones are %.100q", n, got[max(0, len(got)-100):])
	}
	if c.conn.yields != 500/aheadMost {
		t.Errorf("it yielded %d times", c.conn.yields)
	}
}

func TestOneShortCommandNeverYields(t *testing.T) {
	c := newTestServer(t).client().tiny()
	for range 3 * handler.LookAtClock {
		c.all("PING\r\n")
	}
	if c.conn.yields != 0 {
		t.Errorf("it yielded %d times", c.conn.yields)
	}
}

// Once a connection is closed, none of its commands runs, not even one that was
// read already.
func TestNothingRunsAfterTheEnd(t *testing.T) {
	many := strings.Repeat("ECHO x\r\n", 1000)
	for name, c := range map[string]struct {
		close func(*testServer, *testClient)
		want  error
	}{
		"reset by the peer": {func(_ *testServer, c *testClient) { c.conn.Close(transport.ErrPeerReset) }, transport.ErrPeerReset},
		"killed": {func(ts *testServer, c *testClient) {
			ts.client().do("CLIENT", "KILL", "ID", fmt.Sprint(c.s.pub.ID))
		}, clients.ErrKilled},
		"replies not read": {func(_ *testServer, c *testClient) { c.conn.setPending(1 << 40) }, clients.ErrOutput},
		"the server stops": {func(_ *testServer, c *testClient) { c.conn.CloseAfterFlush(transport.ErrStopped) }, transport.ErrStopped},
	} {
		t.Run(name, func(t *testing.T) {
			ts := newTestServer(t)
			cl := ts.client().tiny()
			cl.s.Data([]byte(many))
			before := ts.callsOf("echo")
			if !cl.s.yielded || before == 0 || before == 1000 {
				t.Fatalf("%d commands ran in the first turn", before)
			}
			c.close(ts, cl)
			for range 3 {
				cl.s.Resume()
				cl.s.Data([]byte(many))
			}
			ran := ts.callsOf("echo") - before
			if most := uint64(0); c.want == clients.ErrOutput {
				most = handler.LookAtClock // it is found when they are written
				if ran > most {
					t.Errorf("%d more commands ran", ran)
				}
			} else if ran != 0 {
				t.Errorf("%d more commands ran", ran)
			}
			if got := cl.conn.reason(); !errors.Is(got, c.want) {
				t.Errorf("closed for %v", got)
			}
		})
	}
}

// callsOf counts the calls of a command.
func (ts *testServer) callsOf(name string) uint64 {
	for _, c := range ts.table.Totals(ts.counts) {
		if c.Name == name {
			return c.Calls()
		}
	}
	return 0
}

// A command that runs in steps replies what it would reply at once.
//
//test:norace
func TestStepsReplyTheSame(t *testing.T) {
	keys := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("key:%d", i))
		}
		return out
	}
	for _, words := range [][]string{
		append([]string{"DEL"}, keys(2000)...),
		append([]string{"UNLINK"}, keys(1000)...),
		append([]string{"EXISTS"}, keys(2000)...),
		append([]string{"TOUCH"}, keys(1000)...),
		append([]string{"RL.RESET"}, keys(1000)...),
		{"KEYS", "*"},
		{"KEYS", "key:1*"},
		{"KEYS", "[^k]*"},
		{"SCAN", "0", "COUNT", "100000", "MATCH", "*7*"},
		{"SCAN", "0", "COUNT", "100000", "TYPE", "GCRA"},
		{"SCAN", "0", "COUNT", "500"},
		{"DBSIZE"},
		{"FLUSHALL"},
		{"FLUSHDB", "ASYNC"},
		{"COMMAND"},
		{"COMMAND", "DOCS"},
		{"COMMAND", "INFO", "ping", "nosuch", "client"},
		{"RL.TOP", "BY", "REQUESTS", "COUNT", "100"},
		{"PUBSUB", "CHANNELS"},
		{"PUBSUB", "SHARDCHANNELS", "s*3"},
		{"SLOWLOG", "GET", "-1"},
		{"SLOWLOG", "GET", "100"},
		{"RL.RULES", "LIST", "n"},
		{"RL.RULES", "STATS"},
	} {
		t.Run(words[0], func(t *testing.T) {
			var replies [2]string
			for i := range replies {
				ts := newTestServer(t)
				for _, k := range keys(1500) {
					ts.client().do("RL.TAKE", k, "GCRA", "5/h")
				}
				for i := range 200 {
					sub := ts.client()
					sub.do("SSUBSCRIBE", fmt.Sprint("shard:", i%40))
					sub.raw(fmt.Sprintf("SUBSCRIBE b:%d a:%d same\r\n", i, i))
					ts.slowlog.Add(1000, slowlog.Entry{At: int64(i), Args: []string{"a", fmt.Sprint(i)}})
				}
				if words[0] == "RL.RULES" {
					if _, err := ts.rules.Load([]byte(thousandRules())); err != nil {
						t.Fatal(err)
					}
				}
				c := ts.client()
				if i == 1 {
					c.tiny()
				}
				replies[i] = c.all(string(encode(words...)) + "PING\r\n")
				if yields := c.conn.yields; i == 1 && yields == 0 && words[0] != "DBSIZE" {
					t.Error("it never yielded")
				}
				if n := ts.callsOf(strings.ToLower(words[0])); n != 1 && !slices.Contains([]string{"COMMAND", "PUBSUB", "SLOWLOG", "RL.RULES"}, words[0]) {
					t.Errorf("counted %d times", n)
				}
				if words[0] == "FLUSHALL" && ts.engine.Stats().Keys != 0 {
					t.Error("keys are left")
				}
			}
			if replies[0] != replies[1] || !strings.HasSuffix(replies[1], "+PONG\r\n") {
				t.Errorf("in steps %.300q\nat once  %.300q", replies[1], replies[0])
			}
		})
	}
}

func TestRandomKeyInSteps(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client().tiny()
	if got := c.all("RANDOMKEY\r\n"); got != "$-1\r\n" || c.conn.yields == 0 {
		t.Errorf("of none: %q after %d turns", got, c.conn.yields)
	}
	c.all("RL.TAKE only GCRA 5/h\r\n")
	if got := c.all("RANDOMKEY\r\n"); got != "$4\r\nonly\r\n" {
		t.Errorf("of one: %q", got)
	}
}

func TestStepsAndReplyModes(t *testing.T) {
	c := newTestServer(t).client().tiny()
	got := c.all("CLIENT REPLY SKIP\r\nKEYS *\r\nECHO a\r\nCLIENT REPLY OFF\r\nKEYS *\r\nDBSIZE\r\nCLIENT REPLY ON\r\nECHO b\r\n")
	if want := "$1\r\na\r\n+OK\r\n$1\r\nb\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A client that half-closes after its last command gets its replies, however many turns they take.
func TestYieldedClientThatHalfClosesIsAnswered(t *testing.T) {
	c := newTestServer(t).client().tiny()
	c.s.Data([]byte("KEYS *\r\nECHO a\r\n"))
	if c.s.EOF() {
		t.Fatal("the session let itself be closed")
	}
	if got := c.all(""); got != "*0\r\n$1\r\na\r\n" {
		t.Errorf("got %q", got)
	}
	if !errors.Is(c.conn.reason(), clients.ErrEOF) || !c.conn.flushed {
		t.Errorf("closed for %v", c.conn.reason())
	}
}

// The slow log has one entry for a command that runs in steps, with its arguments.
func TestStepsInTheSlowLog(t *testing.T) {
	ts := newTestServer(t, "slowlog-log-slower-than 0")
	c := ts.client().tiny()
	c.all("KEYS pattern*\r\n")
	n := 0
	for _, e := range ts.slowlog.Last(-1) {
		if e.Args[0] == "KEYS" && e.Args[1] == "pattern*" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d entries: %+v", n, ts.slowlog.Last(-1))
	}
}

// The longer keys and the pattern are, the fewer keys a step matches, and a transaction ends when it has matched too much.
//
//test:norace
func TestMatchingIsBounded(t *testing.T) {
	ts := newTestServer(t)
	gcra, d := limit.Limit{Algorithm: limit.GCRA, Max: 1, Burst: 1, Period: int64(time.Hour)}, limit.Decision{}
	const keys = 2000
	for i := range keys {
		if err := ts.engine.TakeAt(0, testStart, fmt.Appendf(nil, "%04096d", i), &gcra, 1, &d); err != nil {
			t.Fatal(err)
		}
	}
	long, yields := strings.Repeat("?", 1000), map[string]int{}
	for _, words := range [][]string{{"KEYS", "x*"}, {"KEYS", long}, {"SCAN", "0", "COUNT", "100000", "MATCH", "x*"}, {"SCAN", "0", "COUNT", "100000", "MATCH", long}} {
		c := ts.client().tiny()
		c.all(string(encode(words...)))
		yields[words[0]+" "+words[len(words)-1][:2]] = c.conn.yields
	}
	if yields["KEYS ??"] < 2*yields["KEYS x*"] || yields["SCAN ??"] < 2*yields["SCAN x*"] {
		t.Errorf("turns: %v", yields)
	}
	c := ts.client()
	for _, words := range [][]string{{"KEYS", long}, {"SCAN", "0", "MATCH", long}} {
		c.do("MULTI")
		c.do(words...)
		if got := line(c.do("EXEC")); got != "-"+spec.ErrTooMany {
			t.Errorf("%.10s: %.100s", words, got)
		}
	}
}

func TestPatternsAreBounded(t *testing.T) {
	c := newTestServer(t).client()
	long := "*[" + strings.Repeat("b-c", 20_000) + "]"
	want := "-" + spec.ErrPatternTooLong
	for _, words := range [][]string{
		{"KEYS", long},
		{"SCAN", "0", "MATCH", long},
		{"CONFIG", "GET", long},
		{"COMMAND", "LIST", "FILTERBY", "PATTERN", long},
		{"PUBSUB", "CHANNELS", long},
		{"PSUBSCRIBE", long},
		append([]string{"CONFIG", "GET"}, strings.Fields(strings.Repeat(strings.Repeat("?", 1000)+" ", 17))...),
	} {
		if got := line(c.do(words...)); got != want {
			t.Errorf("%.40q: %.200s", words, got)
		}
	}
}

// Lists of clients are walked in steps, in the order of their ids, over any gaps.
func TestClientListInSteps(t *testing.T) {
	ts := newTestServer(t)
	var all []*testClient
	for range 5 * clients.Few {
		all = append(all, ts.client())
	}
	for i, c := range all {
		if i%3 != 0 {
			c.hangUp(transport.ErrPeerClosed)
		}
	}
	c := ts.client().tiny()
	got := c.all("CLIENT LIST\r\n")
	var want strings.Builder
	for i, other := range all {
		if i%3 == 0 {
			want.Write(append(other.s.pub.AppendLine(nil, ts.clock.Now()), '\n'))
		}
	}
	if _, list, _ := strings.Cut(got, "\r\n"); !strings.HasPrefix(list, want.String()+fmt.Sprintf("id=%d ", c.s.pub.ID)) { // its own memory varies
		t.Errorf("got  %.300q\nwant %.300q", list, want.String())
	}
	if c.conn.yields < 2 {
		t.Errorf("in %d turns", c.conn.yields)
	}
	// The client kills itself, too. The reply comes first.
	if got := c.all("CLIENT KILL TYPE normal SKIPME no\r\nPING\r\n"); got != fmt.Sprintf(":%d\r\n", strings.Count(want.String(), "\n")+1) {
		t.Errorf("killed %q", got)
	}
	for i, other := range all {
		if i%3 == 0 && !errors.Is(other.conn.reason(), clients.ErrKilled) {
			t.Fatalf("client %d: %v", i, other.conn.reason())
		}
	}
	if !errors.Is(c.conn.reason(), clients.ErrKilled) || !c.conn.flushed {
		t.Errorf("the killer: %v", c.conn.reason())
	}
}

func TestInfoInSteps(t *testing.T) {
	ofProcess := regexp.MustCompile(`^(\$|used_cpu|used_memory|mem_fragmentation|allocator)`) // these differ each time, and so may the length
	for _, words := range [][]string{{"INFO"}, {"INFO", "everything"}, {"INFO", "keyspace", "limiter"}} {
		var replies [2]string
		for i := range replies {
			ts := newTestServer(t, "shards 4096")
			ts.runID = "x"
			c := ts.client()
			c.do("RL.TAKE", "k", "GCRA", "5/h")
			c.conn.take()
			if i == 1 {
				c.tiny()
			}
			for line := range strings.Lines(c.all(string(encode(words...)))) {
				if !ofProcess.MatchString(line) {
					replies[i] += line
				}
			}
			if i == 1 && c.conn.yields == 0 {
				t.Error("it never yielded")
			}
		}
		if replies[0] != replies[1] {
			t.Errorf("%q: in steps %q\nat once %q", words, replies[1], replies[0])
		}
	}
}

// INFO counts clients as they change, and all counts return to 0 when they go.
func TestClientFigures(t *testing.T) {
	ts := newTestServer(t)
	c, admin := ts.client(), ts.client()
	c.raw("SUBSCRIBE a b\r\nPSUBSCRIBE p*\r\n")
	w := ts.client()
	w.raw("RL.TAKE k GCRA 1/h\r\nRL.TAKE k GCRA 1/h WAIT 1h\r\n")
	figures := func(want string) {
		t.Helper()
		got := fmt.Sprint(ts.clients.Parked.Load(), ts.clients.Subscribed.Load(), ts.clients.Tracking.Load(), ts.clients.Watching.Load(), ts.topics.Len(pubsub.Channel), ts.topics.Len(pubsub.Pattern))
		if got != want {
			t.Errorf("waiting, subscribed, tracking, watching, channels, patterns: %s, want %s", got, want)
		}
	}
	figures("1 1 0 0 2 1")
	m := ts.client()
	m.raw("CLIENT TRACKING ON OPTIN\r\nCLIENT TRACKING ON OPTIN\r\nWATCH a\r\nWATCH b c\r\n")
	figures("1 1 1 1 2 1")
	m.raw("MULTI\r\nEXEC\r\nCLIENT TRACKING OFF\r\n")
	figures("1 1 0 0 2 1")
	m.raw("WATCH a\r\nCLIENT TRACKING ON OPTIN\r\n")
	figures("1 1 1 1 2 1")
	m.raw("RESET\r\nWATCH a\r\nCLIENT TRACKING ON OPTIN\r\n")
	figures("1 1 1 1 2 1")
	m.hangUp(transport.ErrPeerClosed)
	admin.raw("SUBSCRIBE a\r\n")
	figures("1 2 0 0 2 1")
	c.raw("UNSUBSCRIBE b\r\n")
	figures("1 2 0 0 1 1")
	c.hangUp(transport.ErrPeerClosed)
	w.hangUp(transport.ErrPeerClosed)
	figures("0 1 0 0 1 0")
	admin.hangUp(transport.ErrPeerClosed)
	figures("0 0 0 0 0 0")
}

func BenchmarkClientList(b *testing.B) {
	ts := newTestServer(b)
	for range 9_999 {
		ts.client()
	}
	c := ts.client()
	cmd := encode("CLIENT", "LIST")
	b.ReportAllocs()
	for b.Loop() {
		c.s.Data(cmd)
		c.conn.take()
	}
}

func BenchmarkInfo(b *testing.B) {
	ts := newTestServer(b)
	c := ts.client()
	cmd := encode("INFO")
	b.ReportAllocs()
	for b.Loop() {
		c.s.Data(cmd)
		c.conn.take()
	}
}

// The memory of a command that has yielded counts towards maxmemory-clients.
func TestStepsAreAccounted(t *testing.T) {
	ts := newTestServer(t)
	for i := range 2000 {
		ts.client().do("RL.TAKE", fmt.Sprintf("key:%d", i), "GCRA", "5/h")
	}
	for _, words := range [][]string{{"KEYS", "*"}, append([]string{"EXISTS"}, strings.Fields(strings.Repeat("key:1 ", 1000))...)} {
		c := ts.client().tiny()
		before := ts.clients.Bytes.Load()
		c.s.Data(encode(words...))
		for range 8 {
			c.s.Resume()
		}
		if got := ts.clients.Bytes.Load() - before; !c.s.yielded || got < 200 {
			t.Errorf("%s: %d bytes are counted in the midst", words[0], got)
		}
		c.all("")
		if got := ts.clients.Bytes.Load() - before; got > 1000 {
			t.Errorf("%s: %d bytes are still counted", words[0], got)
		}
	}
}

// A turn ends in time even if many monitors receive its commands.
func TestMonitorsAreBounded(t *testing.T) {
	ts := newTestServer(t)
	var monitors []*testClient
	for range monitor.Most {
		m := ts.client()
		if got := m.raw("MONITOR\r\n"); !strings.HasPrefix(got, "+OK\r\n") {
			t.Fatal(got)
		}
		monitors = append(monitors, m)
	}
	late := ts.client()
	if got, want := line(late.do("MONITOR")), "-ERR MONITOR is refused: 32 clients monitor already"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := monitors[1].raw("MONITOR\r\n"); !strings.HasPrefix(got, "+OK\r\n") {
		t.Errorf("a second MONITOR of one client: %s", got)
	}
	monitors[0].hangUp(transport.ErrPeerClosed)
	if got := late.raw("MONITOR\r\n"); !strings.HasPrefix(got, "+OK\r\n") {
		t.Errorf("after one has gone: %s", got)
	}
	late.conn.take()
	c := ts.client()
	c.do(append([]string{"DEL"}, strings.Fields(strings.Repeat(strings.Repeat("k", 1000)+" ", 100))...)...)
	if got, want := string(late.conn.take()), " more arguments)\r\n"; !strings.HasSuffix(got, want) || len(got) > monitor.LineMost+1000 {
		t.Errorf("a line with many arguments: %d bytes, %q", len(got), got[max(0, len(got)-100):])
	}
}

// Many names, and the figures of many shards, take several turns.
func TestFiguresInSteps(t *testing.T) {
	ts := newTestServer(t)
	ts.group.Engine.Store(engine.New(engine.Options{Shards: 4096}))
	for _, words := range [][]string{{"MEMORY", "STATS"}, {"RL.TOP"}} {
		c := ts.client().tiny()
		if c.all(string(encode(words...))); c.conn.yields == 0 || c.s.pending != nil {
			t.Errorf("%q never yielded", words)
		}
	}
	ts = newTestServer(t, "client-output-buffer-limit normal 64kb 0 0")
	for i := range 200 {
		ts.client().do("SUBSCRIBE", fmt.Sprint(strings.Repeat("channel", 60), i))
	}
	if got := line(ts.client().do("PUBSUB", "CHANNELS")); got != "-ERR the reply would be over client-output-buffer-limit: use a pattern" {
		t.Errorf("over the limit: %.100s", got)
	}
}

// The more work a command of a pipeline does, the sooner the client's turn ends.
func TestLongCommandsEndTheTurnSooner(t *testing.T) {
	ts := newTestServer(t)
	for i := range 2000 {
		ts.client().do("RL.LEASE", "many", "5000", "1h", "ID", fmt.Sprint("holder-number-", i))
	}
	keys := strings.Fields(strings.Repeat("x ", 64))
	for i := range keys {
		keys[i] = fmt.Sprint("key:", i)
	}
	for i := range 300 {
		ts.client().do("HSET", "hash", fmt.Sprint("field:", i), strings.Repeat("x", 60))
	}
	all := append(append([]string{"RL.TAKEALL", "64"}, keys...), strings.Fields(strings.Repeat("GCRA 100/h ", 64))...)
	for _, words := range [][]string{
		all,
		{"RL.LEASE", "many", "5000", "1h", "ID", "holder-number-7"},
		{"RL.RENEW", "many", "ID", "holder-number-7", "1h"},
		{"RL.RELEASE", "many", "ID", "nobody"},
		{"RL.HOLDERS", "many"},
		{"INCRBY", "n", "x"},
		{"HGET", "hash", "field:1"},
		{"nosuchcommand"},
		{"CLIENT", "nosuchsubcommand"},
	} {
		c := ts.client().tiny()
		c.all(strings.Repeat(string(encode(words...)), 40))
		if c.conn.yields < 9 {
			t.Errorf("40 of %s: %d turns", words[0], c.conn.yields)
		}
	}
}
