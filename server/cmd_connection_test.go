package server

import (
	"errors"
	"strings"
	"testing"

	"limitdb/resp"
	"limitdb/server/clients"
	"limitdb/server/spec"
)

func TestAuth(t *testing.T) {
	ts := newTestServer(t, "requirepass secret")
	c := ts.client()
	c.steps(ts,
		[2]string{"PING", "-" + errUnauthenticated},
		[2]string{"CL.THROTTLE k 1 1 1", "-" + errUnauthenticated},
		[2]string{"AUTH wrong", "-" + errWrongPass},
		[2]string{"AUTH someone secret", "-" + errWrongPass},
		[2]string{"AUTH a b c", "-" + spec.ErrSyntax},
		[2]string{"HELLO 3", "-" + errHelloNoAuth},
		[2]string{"AUTH secret", "OK"},
		[2]string{"PING", "PONG"},
		[2]string{"RESET", "RESET"},
		[2]string{"PING", "-" + errUnauthenticated},
		[2]string{"AUTH default secret", "OK"},
		[2]string{"EXISTS k", "0"},
	)
}

func TestAuthWithoutPassword(t *testing.T) {
	ts := newTestServer(t)
	ts.client().steps(ts,
		[2]string{"AUTH x", "-" + errNoPassword},
		[2]string{"AUTH default x", "OK"},
		[2]string{"AUTH someone x", "-" + errWrongPass},
	)
}

func TestLimitsBeforeAuth(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"*11\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n"},
		{"*1048576\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n"},
		{"*2\r\n$4\r\nAUTH\r\n$1048576\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"},
		{strings.Repeat("x", 5000), "-ERR Protocol error: too big inline request\r\n"},
	} {
		c := newTestServer(t, "requirepass secret").client()
		if got := c.raw(test.in); got != test.want {
			t.Errorf("%.40q: %q, want %q", test.in, got, test.want)
		}
		if c.conn.reason() == nil {
			t.Errorf("%.40q: not closed", test.in)
		}
	}
}

func TestLimitsGrowWithinOnePipeline(t *testing.T) {
	c := newTestServer(t, "requirepass secret").client()
	in := string(encode("AUTH", "secret")) + string(encode(append([]string{"EXISTS"}, strings.Fields(strings.Repeat("k ", 20))...)...))
	if got := c.raw(in); got != "+OK\r\n:0\r\n" {
		t.Errorf("got %q", got)
	}
}

func TestUnreadRepliesBeforeAuth(t *testing.T) {
	c := newTestServer(t, "requirepass secret").client()
	c.conn.pending = 65 << 10
	c.raw("PING\r\n")
	if !errors.Is(c.conn.reason(), clients.ErrOutput) {
		t.Errorf("closed for %v", c.conn.reason())
	}
}

func TestHello(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	v := c.do("HELLO", "3", "SETNAME", "me")
	if v.Kind != '%' || len(v.Elems) != 14 {
		t.Fatalf("HELLO 3: kind %c, %d elements", v.Kind, len(v.Elems))
	}
	var names []string
	for i := 0; i < len(v.Elems); i += 2 {
		names = append(names, v.Elems[i].Text)
	}
	if got := strings.Join(names, " "); got != "server version proto id mode role modules" {
		t.Errorf("fields %s", got)
	}
	if got := line(c.do("CLIENT", "GETNAME")); got != `"me"` {
		t.Errorf("name %s", got)
	}
	if v := c.do("RANDOMKEY"); v.Kind != '_' {
		t.Errorf("null in RESP3 is %c", v.Kind)
	}
	if v := c.do("HELLO", "2"); v.Kind != '*' {
		t.Errorf("HELLO 2: kind %c", v.Kind)
	}
	c.steps(ts,
		[2]string{"HELLO 4", "-" + errNoProto},
		[2]string{"HELLO x", "-" + errProtoNotInt},
		[2]string{"HELLO 3 AUTH default", "-ERR Syntax error in HELLO option 'AUTH'"},
		[2]string{"HELLO 3 NOSUCH", "-ERR Syntax error in HELLO option 'NOSUCH'"},
		[2]string{"HELLO 3 AUTH someone x", "-" + errWrongPass},
	)
	if c.s.call.Proto != resp.RESP2 {
		t.Error("a failed HELLO changed the protocol")
	}
}

func TestSmallConnectionCommands(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"PING", "PONG"},
		[2]string{"ping hello", `"hello"`},
		[2]string{"PING a b", "-ERR wrong number of arguments for 'ping' command"},
		[2]string{"ECHO a", `"a"`},
		[2]string{"ECHO", "-ERR wrong number of arguments for 'echo' command"},
		[2]string{"SELECT 0", "OK"},
		[2]string{"SELECT 15", "OK"},
		[2]string{"SELECT 16", "-" + spec.ErrDBIndex},
		[2]string{"SELECT x", "-" + spec.ErrNotInt},
		[2]string{"TIME", `["1600000000" "0"]`},
		[2]string{"QUIT", "OK"},
	)
	if !errors.Is(c.conn.reason(), clients.ErrQuit) || !c.conn.flushed {
		t.Errorf("QUIT: closed for %v", c.conn.reason())
	}
}

// QUIT closes the connection after all replies, and sends nothing to a client that wants no replies.
func TestQuitClosesBehindTheReplies(t *testing.T) {
	for in, want := range map[string]string{
		"PING\r\nQUIT\r\nPING\r\n":             "+PONG\r\n+OK\r\n",
		"CLIENT REPLY OFF\r\nQUIT\r\nPING\r\n": "",
	} {
		c := newTestServer(t).client()
		if got := c.raw(in); got != want || c.conn.reason() != clients.ErrQuit || !c.conn.flushed {
			t.Errorf("%q: %q, closed for %v", in, got, c.conn.reason())
		}
	}
}
