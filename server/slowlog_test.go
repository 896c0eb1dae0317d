package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"limitdb/server/redact"
	"limitdb/server/slowlog"
)

// slow runs a command that takes d.
func (c *testClient) slow(d time.Duration, words ...string) {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	cmd := c.s.srv.table.find(args[0])
	if len(cmd.subs) > 0 {
		cmd = cmd.sub(args[1])
	}
	c.s.call.Now = c.s.srv.clock.Now()
	c.s.logSlow(cmd, args, c.s.call.Now, int64(d))
}

func TestSlowlog(t *testing.T) {
	ts := newTestServer(t, "slowlog-log-slower-than 10000", "slowlog-max-len 3")
	c := ts.client()
	c.steps(ts, [2]string{"SLOWLOG GET", "[]"}, [2]string{"SLOWLOG LEN", "0"})

	c.slow(10*time.Millisecond-1, "KEYS", "*") // not slow
	c.slow(10*time.Millisecond, "KEYS", "a*")
	ts.clock.Advance(2 * time.Second)
	c.do("CLIENT", "SETNAME", "worker")
	c.slow(25*time.Millisecond, "RL.TAKE", "k", "GCRA", "1/s")
	c.steps(ts,
		[2]string{"SLOWLOG LEN", "2"},
		[2]string{"SLOWLOG GET", `[[1 1600000002 25000 ["RL.TAKE" "k" "GCRA" "1/s"] "127.0.0.1:40000" "worker"] [0 1600000000 10000 ["KEYS" "a*"] "127.0.0.1:40000" ""]]`},
		[2]string{"SLOWLOG GET 1", `[[1 1600000002 25000 ["RL.TAKE" "k" "GCRA" "1/s"] "127.0.0.1:40000" "worker"]]`},
		[2]string{"SLOWLOG GET 0", "[]"},
		[2]string{"SLOWLOG GET -2", "-ERR count should be greater than or equal to -1"},
		[2]string{"SLOWLOG GET x", "-ERR count should be greater than or equal to -1"},
		[2]string{"SLOWLOG GET 1 2", "-ERR wrong number of arguments for 'slowlog|get' command"},
		[2]string{"SLOWLOG NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try SLOWLOG HELP."},
	)
	for i := range 20 {
		c.slow(time.Second, "TTL", strconv.Itoa(i))
	}
	if got := c.do("SLOWLOG", "GET", "-1"); len(got.Elems) != 3 || got.Elems[0].Elems[0].Int != 21 || got.Elems[2].Elems[3].Elems[1].Text != "17" {
		t.Errorf("not the last three: %s", line(got))
	}
	if n := ts.slowlog.Total(); n != 22 {
		t.Errorf("total %d", n)
	}
	c.steps(ts, [2]string{"SLOWLOG RESET", "OK"}, [2]string{"SLOWLOG LEN", "0"})
	c.slow(time.Second, "TTL", "x")
	c.steps(ts,
		[2]string{"SLOWLOG GET", `[[22 1600000002 1000000 ["TTL" "x"] "127.0.0.1:40000" "worker"]]`}, // numbers go on
		[2]string{"CONFIG SET slowlog-max-len 0", "OK"},
	)
	c.slow(time.Second, "TTL", "x")
	c.steps(ts, [2]string{"SLOWLOG LEN", "0"}, [2]string{"CONFIG SET slowlog-max-len 3 slowlog-log-slower-than -1", "OK"})
	c.slow(time.Hour, "TTL", "x")
	c.steps(ts, [2]string{"SLOWLOG LEN", "0"})
}

// The default is ten entries.
func TestSlowlogDefaultCount(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	for range 15 {
		c.slow(time.Second, "TTL", "x")
	}
	if n := len(c.do("SLOWLOG", "GET").Elems); n != 10 {
		t.Errorf("%d entries", n)
	}
	if n := len(c.do("SLOWLOG", "GET", "-1").Elems); n != 15 {
		t.Errorf("%d entries of all", n)
	}
}

// A threshold of 0 logs every command.
func TestSlowlogTakesAll(t *testing.T) {
	ts := newTestServer(t, "slowlog-log-slower-than 0")
	c := ts.client()
	c.do("RL.TAKE", "k", "GCRA", "1/s")
	c.do("AUTH", "default", "hunter2")
	c.do("HELLO", "2", "AUTH", "default", "hunter2", "SETNAME", "n")
	c.do("CONFIG", "SET", "maxclients", "100", "requirepass", "hunter2")
	c.do("CONFIG", "SET", "maxclients", "REQUIREPASS", "hunter2") // a value was forgotten
	c.raw(string(encode("DEBUG", "SLEEP", "0.001")))
	c.resume()
	got := line(c.do("SLOWLOG", "GET"))
	if n := strings.Count(got, `"SLEEP"`); n != 1 {
		t.Errorf("a command that parked is there %d times: %s", n, got)
	}
	for _, want := range []string{
		`["RL.TAKE" "k" "GCRA" "1/s"]`,
		`["AUTH" "(redacted)" "(redacted)"]`,
		`["HELLO" "2" "AUTH" "(redacted)" "(redacted)" "SETNAME" "n"]`,
		`["CONFIG" "SET" "maxclients" "100" "requirepass" "(redacted)"]`,
		`["CONFIG" "SET" "maxclients" "REQUIREPASS" "(redacted)"]`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if strings.Contains(got, "hunter2") {
		t.Errorf("a password in the slow log: %s", got)
	}
}

func TestCutArgs(t *testing.T) {
	t.Parallel()
	var args [][]byte
	for i := range 40 {
		args = append(args, fmt.Appendf(nil, "a%d", i))
	}
	for _, step := range []struct {
		n, want int
		last    string
	}{
		{1, 1, "a0"},
		{31, 31, "a30"},
		{32, 32, "a31"},
		{33, 32, "... (2 more arguments)"},
		{40, 32, "... (9 more arguments)"},
	} {
		got := slowlog.Cut(args[:step.n])
		if len(got) != step.want || got[len(got)-1] != step.last {
			t.Errorf("%d arguments: %d, the last %q", step.n, len(got), got[len(got)-1])
		}
	}
	long := []byte(strings.Repeat("x", 129))
	if got := slowlog.Cut([][]byte{long[:128], long}); got[0] != string(long[:128]) || got[1] != string(long[:128])+"... (1 more bytes)" {
		t.Errorf("%q", got)
	}
}

// redact leaves its argument as it was: the handler may be about to read it.
func TestRedactCopies(t *testing.T) {
	ts := newTestServer(t)
	args := [][]byte{[]byte("AUTH"), []byte("secret")}
	if got := ts.redact.Args(&ts.table.find(args[0]).Command, args); string(got[1]) != redact.Text || string(args[1]) != "secret" {
		t.Errorf("%q, and the original is %q", got, args)
	}
	for _, tc := range []struct{ in, want string }{
		{"HELLO", "HELLO"},
		{"HELLO 3 AUTH", "HELLO 3 AUTH"},
		{"HELLO 3 auth u", "HELLO 3 auth (redacted)"},
		{"HELLO 3 auth u p SETNAME n", "HELLO 3 auth (redacted) (redacted) SETNAME n"},
		{"HELLO 3 SETNAME n AUTH AUTH p x", "HELLO 3 SETNAME n AUTH (redacted) (redacted) (redacted)"},
		{"HELLO 3 AUHT u p", "HELLO 3 (redacted) (redacted) (redacted)"},
		{"HELLO AUTH u p", "HELLO AUTH (redacted) (redacted)"},
		{"HELLO u p", "HELLO (redacted) (redacted)"},
		{"HELLO 3 AUTH p SETNAME n", "HELLO 3 AUTH (redacted) (redacted) (redacted)"},
		{"HELLO 12345678", "HELLO (redacted)"},
		{"AUTH", "AUTH"},
		{"AUTH a b c", "AUTH (redacted) (redacted) (redacted)"},
		{"CONFIG SET requirepass", "CONFIG SET requirepass"},
		{"CONFIG SET port 1 RequirePass p dir d", "CONFIG SET port 1 RequirePass (redacted) dir d"},
		{"CONFIG SET requirepas p", "CONFIG SET (redacted) (redacted)"},
		{"CONFIG SET port 1 requirepass: p dir d", "CONFIG SET port 1 (redacted) (redacted) dir d"},
		{"CONFIG SET port 1 p requirepass", "CONFIG SET port 1 (redacted) (redacted)"},
		{"CONFIG SET p port 1", "CONFIG SET (redacted) (redacted) (redacted)"},
		{"CONFIG SET masterauth p", "CONFIG SET (redacted) (redacted)"},
		{"CONFIG SET port requirepass p", "CONFIG SET port requirepass (redacted)"},
		{"CONFIG SET http-password p port 1 2", "CONFIG SET http-password (redacted) port 1 (redacted)"},
		{"CONFIG GET requirepass x", "CONFIG GET requirepass (redacted)"},
		{"CONFIG GET port REQUIREPASS", "CONFIG GET port REQUIREPASS"},
		{"SET requirepass p", "SET requirepass (redacted)"},
		{"MSET a 1 masterauth p b 2", "MSET a 1 masterauth (redacted) (redacted) (redacted)"},
		{"SET auth p", "SET auth p"},
		{"RL.TAKE auth GCRA 1/s", "RL.TAKE auth GCRA 1/s"},
		{"RL.CHECK shop 1 password x", "RL.CHECK shop 1 password x"},
		{"PING AUTH p", "PING AUTH (redacted)"},
		{"CLIENT KILL USER default PASS p", "CLIENT KILL USER default PASS (redacted)"},
		{"COMMAND GETKEYS AUTH p", "COMMAND GETKEYS AUTH (redacted)"},
		{"COMMAND GETKEYS AUHT u p", "COMMAND GETKEYS AUHT (redacted) (redacted)"},
		{"COMMAND GETKEYSANDFLAGS CONFIG SET requirepass p", "COMMAND GETKEYSANDFLAGS CONFIG SET requirepass (redacted)"},
		{"COMMAND GETKEYS CONFIG SETT requirepass p", "COMMAND GETKEYS CONFIG (redacted) (redacted) (redacted)"},
		{"COMMAND GETKEYS MIGRATE h 1 k 0 0 AUTH p", "COMMAND GETKEYS MIGRATE (redacted) (redacted) (redacted) (redacted) (redacted) (redacted) (redacted)"},
		{"COMMAND GETKEYS RL.TAKE k GCRA 1/s", "COMMAND GETKEYS RL.TAKE k GCRA 1/s"},
		{"EVAL redis.call('AUTH',ARGV[1]) 0 p", "EVAL (redacted) (redacted) (redacted)"},
		{`EVAL redis.call("config","set","requirepass","p") 0`, "EVAL (redacted) (redacted)"},
		{"SCRIPT LOAD redis.call([[auth]],'p')", "SCRIPT LOAD (redacted)"},
		{"EVAL redis.call('get','author'..KEYS[1]) 1 k", "EVAL redis.call('get','author'..KEYS[1]) 1 k"},
	} {
		var args [][]byte
		for _, w := range strings.Fields(tc.in) {
			args = append(args, []byte(w))
		}
		cmd := ts.table.find(args[0])
		if len(cmd.subs) > 0 {
			cmd = cmd.sub(args[1])
		}
		if got := strings.Join(slowlog.Cut(ts.redact.Args(&cmd.Command, args)), " "); got != tc.want {
			t.Errorf("%s: %s", tc.in, got)
		}
	}
}

// A command that has nothing to do with the configuration hides what follows the name of a directive with a secret.
func TestSecretNames(t *testing.T) {
	ts := newTestServer(t)
	set := &ts.table.find([]byte("SET")).Command
	for _, p := range ts.registry.Get("*") {
		if p.Name == "user" { // too common a word, and a directive of files alone
			continue
		}
		args := ts.redact.Args(set, [][]byte{[]byte("SET"), []byte(p.Name), []byte("v")})
		secret := ts.registry.Secret(p.Name) && p.Name != "user" // which is data nearly everywhere, as in RL.CHECK
		if hidden := string(args[2]) != "v"; hidden != secret {
			t.Errorf("%s: hidden %v", p.Name, hidden)
		}
	}
}

// TestSecretsAreShownNowhere has clients give secrets in commands that are right, misspelt or refused, in every way in which
// commands arrive, and looks for them wherever the server shows commands.
func TestSecretsAreShownNowhere(t *testing.T) {
	const secret = "hunter2"
	var log bytes.Buffer
	ts := newTestServerWith(t, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}, "requirepass "+secret, "slowlog-log-slower-than 0", "slowlog-max-len 1000", "latency-monitor-threshold 1")
	spy, c, multi := ts.client(), ts.client(), ts.client()
	for _, one := range []*testClient{spy, c, multi} {
		one.do("AUTH", secret)
	}
	spy.do("MONITOR")
	commands := [][]string{
		{"AUTH", secret},
		{"AUTH", secret, "default"},
		{"AUTH", "x", "y", secret},
		{"AUHT", secret},
		{"auth" + secret},
		{"HELLO", "3", "AUTH", "default", secret},
		{"HELLO", "2", "AUTH", secret, "default"},
		{"HELLO", "2", "AUHT", "default", secret},
		{"HELLO", "AUTH", "default", secret},
		{"HELLO", secret},
		{"HELLO", "2", "SETNAME", "AUTH", "default", secret},
		{"CONFIG", "SET", "requirepas", secret},
		{"CONFIG", "SET", "port", "1", "masterauth", secret},
		{"CONFIG", "SET", secret, "requirepass"},
		{"CONFIG", "SET", "requirepass", secret, "hz"},
		{"CONFIG", "SET", "hz", "requirepass", secret},
		{"CONFIG", "SETT", "requirepass", secret},
		{"CONFIG", "GET", "requirepass", secret},
		{"CONFIG", "SET", "requirepass=" + secret, "1"},
		{"ACL", "SETUSER", "default", ">" + secret},
		{"ACL", "GETUSER", "default", "password", secret},
		{"MIGRATE", "h", "1", "k", "0", "1", "AUTH", secret},
		{"COMMAND", "GETKEYS", "MIGRATE", "h", "1", "k", "0", "1", "AUTH", secret},
		{"COMMAND", "GETKEYS", "AUTH", secret},
		{"COMMAND", "GETKEYSANDFLAGS", "HELLO", "3", "AUTH", "u", secret},
		{"SET", "requirepass", secret},
		{"CLIENT", "SETINFO", "AUTH", secret},
		{"REPLICAOF", "h", "1", "AUTH", secret},
		{"PING", "AUTH", secret},
		{"DEBUG", "AUTH", secret},
		{"EVAL", "return redis.call('AUTH', ARGV[1])", "0", secret},
		{"EVAL", "return redis.pcall('CONFIG', 'SET', 'requirepass', '" + secret + "')", "0"},
		{"SCRIPT", "LOAD", "redis.call('AUTH', '" + secret + "')"},
	}
	var seen strings.Builder
	for _, words := range commands {
		c.raw(string(encode(words...)))
		for ts.passAuth(time.Minute); c.s.pending != nil; {
			c.resume()
		}
		multi.raw("MULTI\r\nGET k\r\n" + string(encode(words...)) + "EXEC\r\n")
		for ts.passAuth(time.Minute); multi.s.pending != nil; {
			multi.resume()
		}
		var args [][]byte
		for _, w := range words {
			args = append(args, []byte(w))
		}
		_, _ = ts.Do(t.Context(), args...)
		seen.Write(spy.conn.take())
	}
	look := ts.client()
	look.do("AUTH", secret)
	for _, words := range [][]string{{"SLOWLOG", "GET", "-1"}, {"CLIENT", "LIST"}, {"INFO", "everything"}, {"LATENCY", "LATEST"}, {"LATENCY", "HISTOGRAM"}, {"CONFIG", "GET", "*"}, {"ACL", "LIST"}} {
		seen.WriteString(line(look.do(words...)))
	}
	seen.WriteString(log.String())
	text := seen.String()
	if at := strings.Index(text, secret); at >= 0 {
		t.Fatalf("a secret is shown: …%s…", text[max(0, at-200):min(len(text), at+40)])
	}
	if !strings.Contains(text, `"HELLO" "3" "AUTH" "(redacted)"`) || !strings.Contains(text, "AUTH failed") {
		t.Errorf("nothing is shown: %.2000s", text)
	}
}
