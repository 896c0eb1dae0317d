package server

import (
	"bytes"
	"strings"
	"testing"

	"limitdb/limit"
	"limitdb/server/request"
)

func TestLeases(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"RL.HOLDERS k", "[]"},
		[2]string{"RL.LEASE k 3 10s ID a", "[0 3 2 -1 10000]"},
		[2]string{"rl.lease k 3 5000 weight 2 id b", "[0 3 0 -1 10000]"},
		[2]string{"RL.LEASE k 3 5s ID c", "[1 3 0 5000 10000]"},
		[2]string{"RL.LEASE k 3 5s ID c WEIGHT 3", "[1 3 0 10000 10000]"},
		[2]string{"RL.LEASE k 3 5s ID c WEIGHT 4", "[1 3 0 -1 10000]"},
		[2]string{"RL.HOLDERS k", `[["b" 2 5000] ["a" 1 10000]]`},
		[2]string{"+1s", ""},
		[2]string{"RL.LEASE k 3 10s ID a", "[0 3 0 -1 10000]"}, // renewed, and counted once
		[2]string{"RL.LEASE k 3 10s ID b WEIGHT 1", "[0 3 1 -1 10000]"},
		[2]string{"RL.RENEW k ID b 4s", "1"},
		[2]string{"RL.HOLDERS k", `[["b" 1 4000] ["a" 1 10000]]`},
		[2]string{"TYPE k", "lease"},
		[2]string{"PTTL k", "10000"},
		[2]string{"RL.TAKE k GCRA 5/m", "-" + request.WrongType(limit.LEASE, limit.GCRA.Kind())},
		[2]string{"RL.PEEK k GCRA 5/m", "-" + request.WrongType(limit.LEASE, limit.GCRA.Kind())},
		[2]string{"CL.THROTTLE k 15 30 60", "-" + request.WrongType(limit.LEASE, limit.GCRA.Kind())},
		[2]string{"RL.RELEASE k ID x", `-NOLEASE this ID holds no lease of the key: "x"`},
		[2]string{"RL.RENEW k ID x 1s", `-NOLEASE this ID holds no lease of the key: "x"`},
		[2]string{"RL.RELEASE none ID x", `-NOLEASE this ID holds no lease of the key: "x"`},
		[2]string{"EXISTS none", "0"},
		[2]string{"+4s", ""},
		[2]string{"RL.RELEASE k ID b", `-NOLEASE this ID holds no lease of the key: "b"`},
		[2]string{"RL.HOLDERS k", `[["a" 1 6000]]`},
		[2]string{"RL.RELEASE k ID a", "1"},
		[2]string{"EXISTS k", "0"},
		[2]string{"RL.TAKE k GCRA 5/m", "[0 5 4 -1 12000]"},
		[2]string{"RL.LEASE k 3 10s ID a", "-" + request.WrongType(limit.GCRA.Kind(), limit.LEASE)},
		[2]string{"RL.RENEW k ID a 10s", "-" + request.WrongType(limit.GCRA.Kind(), limit.LEASE)},
		[2]string{"RL.RELEASE k ID a", "-" + request.WrongType(limit.GCRA.Kind(), limit.LEASE)},
		[2]string{"RL.HOLDERS k", "-" + request.WrongType(limit.GCRA.Kind(), limit.LEASE)},
		[2]string{"DEL k", "1"},
		[2]string{"RL.LEASE k 0 10s ID a", "[1 0 0 -1 0]"},
		[2]string{"RL.LEASE k 3 10s ID a WEIGHT 2", "[0 3 1 -1 10000]"},
		[2]string{"SCAN 0 COUNT 10000 TYPE lease", `["0" ["k"]]`},
		[2]string{"SCAN 0 COUNT 10000 TYPE gcra", `["0" []]`},
	)
	got := line(c.do("RL.INFO", "k"))
	if !strings.HasPrefix(got, `["algorithm" "lease" "state" 1600000015000000000 "level" 2 "resets_in" 10000 "memory" `) {
		t.Errorf("RL.INFO: %s", got)
	}
}

func TestLeaseErrorsNameTheArgument(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	for _, test := range []struct{ in, names string }{
		{"RL.LEASE k x 10s ID a", `limit must be an integer from 0 to 9223372036854775807: "x"`},
		{"RL.LEASE k -1 10s ID a", `"-1"`},
		{"RL.LEASE k 3 soon ID a", `ttl: a time must be 0 or more milliseconds, or have a unit (ms s m h d w): "soon"`},
		{"RL.LEASE k 3 0 ID a", `ttl must be positive milliseconds, or have a unit (ms s m h d w): "0"`},
		{"RL.LEASE k 3 99999999999w ID a", `"99999999999w"`},
		{"RL.LEASE k 3 9223372036854775807ns ID a", "292 years"},
		{"RL.LEASE k 3 10s ID", "wrong number of arguments"},
		{"RL.LEASE k 3 10s WEIGHT 2", "needs ID token"},
		{"RL.LEASE k 3 10s ID a ID b", "ID is given twice"},
		{"RL.LEASE k 3 10s ID a WEIGHT", "a value is missing after \"WEIGHT\""},
		{"RL.LEASE k 3 10s ID a WEIGHT 0", `WEIGHT must be an integer from 1 to 9223372036854775807: "0"`},
		{"RL.LEASE k 3 10s ID a WEIGHT x", `"x"`},
		{"RL.LEASE k 3 10s ID a WAIT x", `WAIT: a time must be`},
		{"RL.LEASE k 3 10s ID a COST 2", `unknown option "COST" for RL.LEASE`},
		{"RL.LEASE k 3 10s ID " + strings.Repeat("x", 256), "ID must have 1 to 255 bytes"},
		{"RL.RENEW k TO a 10s", `ID token is expected, not "TO"`},
		{"RL.RENEW k ID a 0", "ttl must be positive"},
		{"RL.RENEW k ID a never", `"never"`},
		{"RL.RELEASE k a b", `not "a"`},
		{"RL.RELEASE k ID " + strings.Repeat("x", 256), "ID must have 1 to 255 bytes"},
	} {
		got := line(c.do(strings.Fields(test.in)...))
		if !strings.HasPrefix(got, "-ERR ") || !strings.Contains(got, test.names) {
			t.Errorf("%s: %s, should name %s", test.in, got, test.names)
		}
	}
	if got := line(c.do("RL.RELEASE", "k", "ID", "")); !strings.Contains(got, "1 to 255 bytes") {
		t.Errorf("an empty id: %s", got)
	}
	if got := line(c.do("DBSIZE")); got != "0" {
		t.Errorf("errors left %s keys", got)
	}
}

// FuzzLeaseArgs checks that no words panic, that an error is one line, and that
// arguments without an error are valid.
func FuzzLeaseArgs(f *testing.F) {
	for _, s := range []string{"3 10s ID a", "3 10000 weight 2 id b wait 1s", "0 1ns ID a WAIT 0", "3 10s ID a ID b", "x y z", "1 1 ID \x00 WEIGHT 9223372036854775807", "1 1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		words := bytes.Split(in, []byte(" "))
		if len(words) < 4 {
			return // arity
		}
		var a request.LeaseArgs
		text := request.ParseLease(words, &a)
		if text != "" {
			if !strings.HasPrefix(text, "ERR ") || strings.ContainsAny(text, "\r\n") {
				t.Fatalf("%q: %q", in, text)
			}
			return
		}
		if err := a.Validate(); err != nil {
			t.Fatalf("%q is read as %+v: %v", in, a, err)
		}
		if a.Wait < -1 {
			t.Fatalf("%q waits for %d", in, a.Wait)
		}
		var d limit.Decision
		if _, err := limit.TakeLease(&a.Lease, nil, testStart, nil, &d); err != nil && err != limit.ErrOverflow {
			t.Fatalf("%q: %v", in, err)
		}
	})
}

// TestLeaseWaitsItsTurn checks that no lease passes one that waits, by itself, in EXEC or in a script.
func TestLeaseWaitsItsTurn(t *testing.T) {
	ts := newTestServer(t)
	first, large, small := ts.client(), ts.client(), ts.client()
	first.do("RL.LEASE", "k", "2", "1m", "ID", "first")
	large.raw("RL.LEASE k 2 1m ID large WEIGHT 2 WAIT 1h\r\n")
	words := []string{"RL.LEASE", "k", "2", "1m", "ID", "small"}
	for way, run := range map[string]func() string{
		"by itself": func() string { return line(small.do(words...)) },
		"in EXEC": func() string {
			small.do("MULTI")
			small.do(words...)
			return line(small.do("EXEC"))
		},
		"in a script": func() string {
			return line(small.do(append([]string{"EVAL", "return redis.call(unpack(ARGV))", "1", "k"}, words...)...))
		},
	} {
		if got := run(); !strings.Contains(got, "[1 2 ") {
			t.Errorf("%s: %s", way, got)
		}
	}
}
