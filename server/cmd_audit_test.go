package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"limitdb/config"
	"limitdb/internal/origin"
	"limitdb/server/audit"
)

// audited is a server with an audit log.
type audited struct {
	*testServer
	path string
	seen int // lines that lines has returned
}

func newAudited(t *testing.T, directives ...string) *audited {
	a := &audited{path: filepath.Join(t.TempDir(), "audit")}
	a.testServer = newTestServerWith(t, func(o *Options) {
		log, err := audit.Open(audit.Options{Path: a.path, MaxBytes: 1 << 20, Strict: o.Settings.AuditLogStrict.Get})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = log.Close() })
		o.Audit = log
	}, directives...)
	return a
}

// lines returns the new lines of the log, as "user@addr way command args before" and "result after"; an end is for the beginning with its number.
func (a *audited) lines() string {
	a.t.Helper()
	b, err := os.ReadFile(a.path)
	if err != nil {
		a.t.Fatal(err)
	}
	var out []string
	all := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(b) == 0 {
		all = nil
	}
	for _, text := range all[min(a.seen, len(all)):] {
		var l struct {
			User, Addr, Way, Command, Result string
			Args                             []string
			Before, After                    json.RawMessage
		}
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			a.t.Fatalf("%q: %v", text, err)
		}
		if l.Result != "" {
			out = append(out, strings.TrimSpace(l.Result+" "+string(l.After)))
			continue
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s@%s %s %s %q %s", l.User, l.Addr, l.Way, l.Command, l.Args, l.Before)))
	}
	a.seen = len(all)
	return strings.Join(out, "\n")
}

// Every change is in the log, whatever way it comes, with what was before and after, and without secrets. What changes nothing is not.
func TestAudit(t *testing.T) {
	a := newAudited(t)
	a.rules.Source.Keep = func([]byte, [16]byte) error { return nil }
	c := a.client()
	const me = "default@127.0.0.1:40000 "
	for _, test := range []struct {
		words []string
		want  string
	}{
		{[]string{"RL.RULES", "SET", "n", "r", "{limit: 5/m, key: [u]}"}, me + `resp rl.rules|set ["RL.RULES" "SET" "n" "r" "{limit: 5/m, key: [u]}"] null` + "\n" +
			`OK {"mode":"enforce","limit":"GCRA 5/m","key":["u"]}`},
		{[]string{"RL.RULES", "MODE", "n", "r", "shadow"}, me + `resp rl.rules|mode ["RL.RULES" "MODE" "n" "r" "shadow"] {"mode":"enforce","limit":"GCRA 5/m","key":["u"]}` + "\n" +
			`OK {"mode":"shadow","limit":"GCRA 5/m","key":["u"]}`},
		{[]string{"RL.RULES", "SET", "n", "r", "{limit: none}"}, me + `resp rl.rules|set ["RL.RULES" "SET" "n" "r" "{limit: none}"] {"mode":"shadow","limit":"GCRA 5/m","key":["u"]}` + "\n" +
			`ERR the rules stay as they are: line 1, column 9: limit must be`},
		{[]string{"RL.RULES", "DEL", "n", "none"}, me + `resp rl.rules|del ["RL.RULES" "DEL" "n" "none"] null` + "\nNORULE there is no such rule null"},
		{[]string{"RL.RULES", "RESET", "n", "r", "u", "x"}, me + `resp rl.rules|reset ["RL.RULES" "RESET" "n" "r" "u" "x"]` + "\nOK"},
		{[]string{"RL.RULES", "RELOAD"}, me + `resp rl.rules|reload ["RL.RULES" "RELOAD"] {"rules":1,"sum":"SUM"}` + "\n" + `ERR there is no rules-file and no envoy-rules-dir: use RL.RULES LOAD or SET {"rules":1,"sum":"SUM"}`},
		{[]string{"RL.RESET", "a", "b"}, me + `resp rl.reset ["RL.RESET" "a" "b"]` + "\nOK"},
		{[]string{"FLUSHALL"}, me + `resp flushall ["FLUSHALL"] {"keys":0}` + "\n" + `OK {"keys":0}`},
		{[]string{"CONFIG", "SET", "maxclients", "77", "loglevel", "debug"}, me + `resp config|set ["CONFIG" "SET" "maxclients" "77" "loglevel" "debug"] {"loglevel":"notice","maxclients":"10000"}` + "\n" +
			`OK {"loglevel":"debug","maxclients":"77"}`},
		{[]string{"CONFIG", "SET", "maxclients", "many"}, me + `resp config|set ["CONFIG" "SET" "maxclients" "many"] {"maxclients":"77"}` + "\nERR CONFIG SET failed"},
		{[]string{"CONFIG", "SET", "no-such", "SECRET"}, me + `resp config|set ["CONFIG" "SET" "(redacted)" "(redacted)"] {}` + "\nERR Unknown option or number of arguments for CONFIG SET - '"},
		{[]string{"CONFIG", "SET", "requirepass", "SECRET"}, me + `resp config|set ["CONFIG" "SET" "requirepass" "(redacted)"] {"requirepass":"(redacted)"}` + "\n" + `OK {"requirepass":"(redacted)"}`},
		{[]string{"CONFIG", "SET", "requirepass", ""}, me + `resp config|set ["CONFIG" "SET" "requirepass" "(redacted)"] {"requirepass":"(redacted)"}` + "\n" + `OK {"requirepass":"(redacted)"}`},
		{[]string{"ACL", "SETUSER", "app", "on", ">SECRET", "~shop:*", "+@limit"}, me + `resp acl|setuser ["ACL" "SETUSER" "app" "on" "(redacted)" "~shop:*" "+@limit"] []` + "\n" + `OK ["user app on #(redacted) ~shop:* resetchannels -@all +@limit"]`},
		{[]string{"ACL", "DELUSER", "app", "none"}, me + `resp acl|deluser ["ACL" "DELUSER" "app" "none"] ["user app on #(redacted) ~shop:* resetchannels -@all +@limit"]` + "\n" + `OK []`},
		{[]string{"RL.CLOCK", "ADOPT"}, me + `resp rl.clock ["RL.CLOCK" "ADOPT"]` + "\nOK"},
		{[]string{"RL.RULES", "SET", "n"}, ""},
		{[]string{"RL.CLOCK"}, ""},
		{[]string{"RL.RULES", "LIST"}, ""},
		{[]string{"RL.TAKE", "a", "GCRA", "5/m"}, ""},
		{[]string{"CONFIG", "GET", "*"}, ""},
		{[]string{"EVAL", "return redis.call('RL.RESET', 'a')", "0"}, me + `script rl.reset ["RL.RESET" "a"]` + "\nOK"},
		{[]string{"EVAL", "for i = 1, 2 do redis.call('RL.RESET', 'a') end redis.call('FLUSHALL')", "0"}, me + `script rl.reset ["RL.RESET" "a"]` + "\n" + me + `script rl.reset ["RL.RESET" "a"]` + "\n" +
			me + `script flushall ["FLUSHALL"]` + "\nOK\nOK\nOK"},
		{[]string{"EVAL", "redis.call('RL.RESET', 'a') error('x')", "0"}, me + `script rl.reset ["RL.RESET" "a"]` + "\nERR user_script:1: x"},
	} {
		c.later(test.words...)
		got := a.lines()
		for _, sum := range strings.Split(got, `"sum":"`)[1:] {
			sum, _, _ = strings.Cut(sum, `"`)
			got = strings.ReplaceAll(got, sum, "SUM")
		}
		if test.want == "" && got != "" || !strings.HasPrefix(got, test.want) || strings.Contains(got, "SECRET") {
			t.Errorf("%q\n got %s\nwant %s", test.words, got, test.want)
		}
	}
}

// The commands of a transaction are in the log before it begins; a transaction that is given up changes nothing.
func TestAuditOfTransactions(t *testing.T) {
	a := newAudited(t)
	c := a.client()
	c.do("SET", "w", "1")
	c.steps(a.testServer, [2]string{"MULTI", "OK"}, [2]string{"RL.RESET a", "QUEUED"}, [2]string{"FLUSHALL", "QUEUED"}, [2]string{"SET b 1", "QUEUED"})
	if got := a.lines(); got != "" {
		t.Errorf("before EXEC: %s", got)
	}
	c.steps(a.testServer, [2]string{"EXEC", "[0 OK OK]"})
	if got, want := a.lines(), `default@127.0.0.1:40000 exec rl.reset ["RL.RESET" "a"]`+"\n"+`default@127.0.0.1:40000 exec flushall ["FLUSHALL"] {"keys":1}`+"\nOK\n"+`OK {"keys":1}`; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	c.steps(a.testServer, [2]string{"MULTI", "OK"}, [2]string{"RL.RESET a", "QUEUED"}, [2]string{"DISCARD", "OK"})
	if got := a.lines(); got != "" {
		t.Errorf("after DISCARD: %s", got)
	}
}

// Over HTTP and on other nodes, a change has the origin's address. The leader writes what it carries out.
func TestAuditOfOrigins(t *testing.T) {
	a := newAudited(t)
	ctx := origin.With(t.Context(), &origin.Origin{User: "ops", Addr: "10.9.8.7:65000"})
	if _, err := a.Do(ctx, encodeArgs("RL.RESET", "a")...); err != nil {
		t.Fatal(err)
	}
	if got, want := a.lines(), "ops@10.9.8.7:65000 http rl.reset [\"RL.RESET\" \"a\"]\nOK"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	n := newTwoNodes(t)
	path := filepath.Join(t.TempDir(), "audit")
	log, err := audit.Open(audit.Options{Path: path, MaxBytes: 1 << 20, Strict: func() bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	n.leader.opts.Audit = log
	far := n.follower.clientFrom("127.0.0.1:41234")
	far.gets("RL.RESET a\r\n", "0")
	if _, err := n.follower.Do(origin.With(t.Context(), &origin.Origin{User: "default", Addr: "127.0.0.1:45678"}), encodeArgs("RL.RESET", "b")...); err != nil {
		t.Fatal(err)
	}
	there := audited{testServer: n.leader, path: path}
	if got, want := there.lines(), "default@127.0.0.1:41234 resp rl.reset [\"RL.RESET\" \"a\"]\nOK\ndefault@127.0.0.1:45678 resp rl.reset [\"RL.RESET\" \"b\"]\nOK"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// A strict log that cannot be written refuses what would change something, before it does, in every way. One that is not strict stops nobody.
func TestStrictAudit(t *testing.T) {
	a := newAudited(t, "audit-log-strict yes")
	c := a.client()
	c.do("RL.TAKE", "a", "GCRA", "1/d")
	// A folder is in the place of the file.
	if err := errors.Join(a.opts.Audit.Close(), os.Remove(a.path), os.Mkdir(a.path, 0o700)); err != nil {
		t.Fatal(err)
	}
	const refused = "MISCONF the audit log cannot be written, so nothing is changed (audit-log-strict): "
	has := func(what, got, want string) {
		t.Helper()
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", what, got)
		}
	}
	has("by itself", line(c.do("RL.RESET", "a")), "-"+refused)
	has("CONFIG", line(c.do("CONFIG", "SET", "maxclients", "5")), "-"+refused)
	has("HTTP", line(overHTTP(t, a.Server, "RL.RESET", "a")), "-"+refused)
	has("a script", line(c.do("EVAL", "redis.call('SET', 's', '1') return redis.call('RL.RESET', 'a')", "0")), "-"+refused)
	c.do("MULTI")
	c.do("SET", "x", "1")
	c.do("RL.RESET", "a")
	has("EXEC", line(c.do("EXEC")), "-EXECABORT Transaction discarded because of: "+refused)
	a.rules.Source.Read = func() ([]byte, error) { return nil, errors.New("it was read") }
	if err := a.ReloadRules("file", a.Rules().ReloadFile); err == nil || !strings.HasPrefix(err.Error(), "audit-log: ") {
		t.Errorf("the file: %v", err)
	}
	c.steps(a.testServer,
		[2]string{"RL.TAKE a GCRA 1/d", "[1 1 0 86400000 86400000]"},
		[2]string{"CONFIG GET maxclients", `["maxclients" "10000"]`},
		[2]string{"EXISTS x", "0"})
	if err := a.registry.Set(config.Pair{Name: "audit-log-strict", Value: "no"}); err != nil {
		t.Fatal(err)
	}
	c.steps(a.testServer, [2]string{"RL.RESET a", "1"})
	if written, failed := a.opts.Audit.Counts(); written != 0 || failed != 8 {
		t.Errorf("%d lines written, %d failed", written, failed)
	}
}

// A client that goes while its change is made leaves an end that says so.
func TestAuditOfAClientThatGoes(t *testing.T) {
	a := newAudited(t)
	block := make(chan bool)
	a.rules.Source.Keep = func([]byte, [16]byte) error { <-block; return nil }
	c := a.client()
	c.say("RL.RULES SET n r limit:5/m")
	c.hangUp(errors.New("gone"))
	close(block)
	if got := a.lines(); !strings.HasSuffix(got, "\nnot known: the client has gone null") {
		t.Errorf("%s", got)
	}
}

// names of commands that are audited exist.
func TestAuditedCommandsExist(t *testing.T) {
	there := 0
	for _, c := range allCommands().rows {
		if c.audited {
			there++
		}
	}
	if want := audit.Count(); there != want {
		t.Errorf("%d of %d commands exist", there, want)
	}
}
