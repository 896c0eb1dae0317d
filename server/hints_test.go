package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"limitdb/server/spec"
)

// Each error suggests what was meant, after the words that clients know.
func TestErrorsSayWhatWasMeant(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.do("RL.TAKE", "held", "FIXED", "10/m")
	c.do("RL.LEASE", "leased", "1", "10s", "ID", "a")
	const syntax = "[CALENDAR unit]"
	for _, tt := range []struct{ call, begins, has string }{
		{"RL.TAEK a GCRA 5/m", "-ERR unknown command 'RL.TAEK', with args beginning with: 'a' 'GCRA' '5/m' (", "did you mean 'RL.TAKE'?"},
		{"PIGN", "-ERR unknown command 'PIGN', with args beginning with: (", "did you mean 'PING'?"},
		{"blpop a 0", "-ERR unknown command 'blpop', with args beginning with: 'a' '0' (", "RL.TAKE key QUEUE"},
		{"FCALL a 0", "-ERR unknown command 'FCALL', with args beginning with: 'a' '0' (", "RL.TAKE key GCRA"},
		{"CLIENT LITS", "-ERR unknown subcommand 'LITS'. Try CLIENT HELP.", "did you mean 'LIST'?"},
		{"COMMAND DOSC", "-ERR unknown subcommand 'DOSC'. Try COMMAND HELP.", "did you mean 'DOCS'?"},
		{"CONFIG SET maxcleints 5", "-ERR Unknown option or number of arguments for CONFIG SET - 'maxcleints'", "did you mean 'maxclients'?"},
		{"RL.TAKE a 100/m", "-ERR wrong number of arguments for 'rl.take' command", syntax},
		{"RL.TAKE a 100/m", "-ERR wrong number of arguments for 'rl.take' command", "Example: RL.TAKE user:17 GCRA 100/m"},
		{"RL.LEASE a", "-ERR wrong number of arguments for 'rl.lease' command", "Example: RL.LEASE jobs 10 30s ID worker-1"},
		{"RL.TAKE a 100/m COST 2", `-ERR unknown algorithm: "100/m"`, "the algorithm comes first"},
		{"RL.TAKE a TOEKN 5/m", `-ERR unknown algorithm: "TOEKN"`, "did you mean 'TOKEN'?"},
		{"RL.TAKE a TOEKN 5/m", `-ERR unknown algorithm: "TOEKN"`, "GCRA, TOKEN, LEAKY, QUEUE, WARMUP, FIXED, SLIDING, SEGMENTED, LOG"},
		{"RL.TAKE a GCRA 5/m BRUST 7", `-ERR unknown option "BRUST" for GCRA`, "did you mean 'BURST'?"},
		{"RL.TAKE a GCRA 5/m CSOT 7", `-ERR unknown option "CSOT" for GCRA`, "did you mean 'COST'?"},
		{"RL.TAKE a GCRA 5/m SEGMENTS 7", `-ERR unknown option "SEGMENTS" for GCRA`, "it is an option of SEGMENTED"},
		{"RL.TAKE held GCRA 10/m", "-" + spec.ErrWrongType, "it holds FIXED, not GCRA; RL.RESET forgets it"},
		{"RL.TAKE held GCRA 10/m WAIT 1s", "-" + spec.ErrWrongType, "it holds FIXED, not GCRA; RL.RESET forgets it"},
		{"RL.TAKE held GCRA 10/m PARTIAL", "-" + spec.ErrWrongType, "it holds FIXED, not GCRA; RL.RESET forgets it"},
		{"RL.TAKE leased GCRA 10/m", "-" + spec.ErrWrongType, "it holds LEASE, not GCRA; RL.RESET forgets it"},
		{"RL.HOLDERS held", "-" + spec.ErrWrongType, "it holds FIXED, not LEASE; RL.RESET forgets it"},
		{"CL.THROTTLE held 15 30 60", "-" + spec.ErrWrongType, "it holds FIXED, not GCRA; RL.RESET forgets it"},
		{"GCRA held 15 30 60", "-" + spec.ErrWrongType, "it holds FIXED, not GCRA; RL.RESET forgets it"},
		{"RL.TAKEALL 2 new held GCRA 10/m TOKEN 10/m", "-" + spec.ErrWrongType, `it holds FIXED, not TOKEN; RL.RESET forgets it: "held"`},
	} {
		got := line(c.do(strings.Fields(tt.call)...))
		if !strings.HasPrefix(got, tt.begins) || !strings.Contains(got, tt.has) {
			t.Errorf("%s\n got %s\nwant %s … %s", tt.call, got, tt.begins, tt.has)
		}
	}
	// Without a similar name, nothing is added.
	c.steps(ts,
		[2]string{"NOSUCHTHING a", "-ERR unknown command 'NOSUCHTHING', with args beginning with: 'a' "},
		[2]string{"CLIENT NOSUCHTHING", "-ERR unknown subcommand 'NOSUCHTHING'. Try CLIENT HELP."},
		[2]string{"PING a b", "-ERR wrong number of arguments for 'ping' command"},
	)
}

// The example of every command works, and every limiter command has one.
func TestExamplesWork(t *testing.T) {
	ts := withRules(t, shopRules(t))
	c := ts.client()
	for _, cmd := range ts.table.ByName {
		if cmd.Example == "" {
			if cmd.Group == "limiter" {
				t.Errorf("%s has no example", cmd.Name)
			}
			continue
		}
		c.do("FLUSHALL")
		if strings.HasPrefix(cmd.Example, "RL.RE") { // RL.RENEW and RL.RELEASE want a lease
			c.do("RL.LEASE", "jobs", "10", "30s", "ID", "worker-1")
		}
		if strings.HasPrefix(cmd.Name, "RL.COMMIT") {
			for _, key := range []string{"tokens:acme", "tpm:acme", "tpd:acme"} {
				c.do("RL.HOLD", key, "FIXED", "9/d", "TTL", "1m", "ID", "request-1")
			}
		}
		words := strings.Fields(cmd.Example)
		if got := line(c.do(words...)); words[0] != cmd.Name || strings.HasPrefix(got, "-") {
			t.Errorf("%s: %s", cmd.Example, got)
		}
	}
}

// Each unsupported command of Redis has a hint that names what to use instead. The commands in the hints
// must exist, and a command that exists must have no hint.
func TestInsteadOfNamesNoCommandOfOurs(t *testing.T) {
	ts := newTestServer(t)
	for _, name := range ts.table.ByName {
		if use := spec.InsteadOf([]byte(name.Name)); use != "" {
			t.Errorf("%s exists: remove its line in spec.InsteadOf", name.Name)
		}
	}
	for _, name := range []string{"FCALL", "blpop", "XADD", "replicaof"} {
		use := spec.InsteadOf([]byte(name))
		if use == "" {
			t.Errorf("%s: the hint names no command", name)
		}
		for _, word := range strings.FieldsFunc(use, func(r rune) bool { return strings.ContainsRune(" :,;", r) }) {
			if strings.HasPrefix(word, "RL.") && ts.table.find([]byte(word)) == nil {
				t.Errorf("%s: %s names %s, which is no command", name, use, word)
			}
		}
	}
}

// A log line shows a client's bytes escaped once, and cut.
func TestLogQuotesOnce(t *testing.T) {
	var out bytes.Buffer
	ts := newTestServer(t, "requirepass right")
	ts.log = slog.New(slog.NewTextHandler(&out, nil))
	ts.client().do("AUTH", "a b\n"+strings.Repeat("x", 500), "wrong")
	want := `user="a b\n` + strings.Repeat("x", maxLogged-4) + `..."` + "\n"
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("got %s\nwant … %s", out.String(), want)
	}
}
