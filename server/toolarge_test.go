package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"limitdb/resp"
)

// A command that is too large gets an error that names the bound, and the connection stays.
func TestCommandsThatAreTooLarge(t *testing.T) {
	const (
		long = "-ERR an argument may have at most 65536 bytes (proto-max-bulk-len), a file of rules 4194304"
		many = "-ERR a command may have at most 1024 arguments, one on many keys or elements 65536"
	)
	text := func(n int) string { return strings.Repeat("x", n) }
	words := func(n int, first ...string) []string {
		for i := range n - len(first) {
			first = append(first, fmt.Sprint(i))
		}
		return first
	}
	ts := newTestServer(t)
	for _, step := range []struct {
		words []string
		want  string
	}{
		{[]string{"ECHO", text(65_536)}, fmt.Sprintf("%q", text(65_536))},
		{[]string{"SET", "k", text(65_537)}, long},
		{[]string{"SET", "k", text(1 << 20)}, long},
		{[]string{"SET", "k", text(5 << 20)}, long},
		{[]string{"SET", text(65_537), "x"}, long},
		{[]string{text(65_537)}, long},
		{words(1025, "PING"), many},
		{words(65_536, "HMSET", "hash"), "OK"},
		{words(65_537, "HMSET", "hash"), many},
		{words(20_002, "HSET", "hash2"), "10000"},
		{words(20_002, "ZADD", "zset"), "10000"},
		{words(3000, "RPUSH", "list"), "2998"},
		{words(3000, "SADD", "set"), "2998"},
		{words(1025, "SISMEMBER", "set"), many},
		{[]string{"GET", "k"}, "nil"},
	} {
		for _, c := range []*testClient{ts.client(), ts.client()} {
			in := string(encode(step.words...))
			got := ""
			if c.do("DEL", "hash", "hash2", "zset", "list"); got == "" {
				got = line(c.do(step.words...))
			}
			if step.words[0] == "SADD" {
				c.do("DEL", "set")
			}
			if got != step.want {
				t.Errorf("%.60q, %d bytes: %.200s, want %s", step.words, len(in), got, step.want)
			}
			if got := line(c.do("PING")); got != "PONG" {
				t.Errorf("after %.60q: %s", step.words, got)
			}
		}
	}
}

// The same holds in a pipeline, in a transaction, and when the reply is not wanted.
func TestCommandsThatAreTooLargeInOrder(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	big := []string{"SET", "k", strings.Repeat("x", 70_000)}
	var commands [][]string
	for i := range 100 { // they are read ahead
		commands = append(commands, []string{"INCR", "n"})
		if i%10 == 5 {
			commands = append(commands, big)
		}
	}
	n := 0
	for i, v := range c.pipeline(commands...) {
		want := "-ERR an argument may have at most 65536 bytes"
		if commands[i][0] == "INCR" {
			n++
			want = fmt.Sprint(n)
		}
		if got := line(v); !strings.HasPrefix(got, want) {
			t.Fatalf("reply %d: %.99s, want %s", i, got, want)
		}
	}
	c.steps(ts, [2]string{"MULTI", "OK"}, [2]string{"INCR n", "QUEUED"})
	if got := line(c.do(big...)); !strings.HasPrefix(got, "-ERR an argument") {
		t.Error(got)
	}
	c.steps(ts, [2]string{"EXEC", "-EXECABORT Transaction discarded because of previous errors."}, [2]string{"GET n", `"100"`})
	got := c.raw(string(slices.Concat(encode("CLIENT", "REPLY", "SKIP"), encode(big...), encode("PING"))))
	if got != "+PONG\r\n" {
		t.Errorf("CLIENT REPLY SKIP: %q", got)
	}
	for _, name := range []string{resp.TooLong, resp.TooMany} { // a client that sends this itself
		if got := line(c.do(name)); !strings.HasPrefix(got, "-ERR a") || strings.Contains(got, "unknown") {
			t.Error(got)
		}
	}
}

// What a client sends of it is not held, however slowly it comes, and it counts as a command that has begun.
func TestCommandsThatAreTooLargeHoldNothing(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	in := string(encode("SET", "k", strings.Repeat("x", 10<<20)))
	for len(in) > 0 {
		k := min(50_000, len(in))
		out := c.raw(in[:k])
		if in = in[k:]; len(in) > 0 && (out != "" || c.s.pub.QueryMemory.Load() > 64<<10 || c.s.pub.Buffered.Load() > 64<<10 || c.s.pub.PartialSince.Load() == 0) {
			t.Fatalf("%d bytes to come: %q, %d bytes held", len(in), out, c.s.pub.QueryMemory.Load())
		}
		if len(in) == 0 && !strings.HasPrefix(out, "-ERR an argument") {
			t.Error(out)
		}
	}
	if c.s.pub.PartialSince.Load() != 0 {
		t.Error("the command counts as incomplete")
	}
}

// Before AUTH, the bounds are tight, and the connection ends.
func TestCommandsThatAreTooLargeBeforeAuth(t *testing.T) {
	for _, words := range [][]string{{"SET", "k", strings.Repeat("x", 17_000)}, strings.Fields(strings.Repeat("PING ", 11))} {
		c := newTestServer(t, "requirepass secret").client()
		if got := c.raw(string(encode(words...))); !strings.HasPrefix(got, "-ERR Protocol error: unauthenticated") || c.conn.reason() == nil {
			t.Errorf("%.60q: %.99q, closed for %v", words, got, c.conn.reason())
		}
	}
}
