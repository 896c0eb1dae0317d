package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/rulebook"
	"limitdb/server/spec"
)

// later runs a command that works in the background, and returns its reply as line renders it.
func (c *testClient) later(words ...string) string {
	c.t.Helper()
	out := c.raw(string(encode(words...)))
	if out == "" {
		out = c.resume()
	}
	v, err := resp.ReadReply(bufio.NewReader(strings.NewReader(out)), 64<<20)
	if err != nil {
		c.t.Fatalf("%q: %v in %q", words, err, out)
	}
	return line(v)
}

// inTurn runs commands that work in the background, each with its reply.
func (c *testClient) inTurn(table ...[]string) {
	c.t.Helper()
	for _, step := range table {
		words, want := step[:len(step)-1], step[len(step)-1]
		if got := c.later(words...); got != want {
			c.t.Errorf("%q\n got %s\nwant %s", words, got, want)
		}
	}
}

func TestRules(t *testing.T) {
	ts := newTestServer(t)
	var kept []string
	var log strings.Builder
	ts.rules.Log = slog.New(slog.NewTextHandler(&log, nil))
	ts.rules.Source.Keep = func(text []byte, _ [16]byte) error { kept = append(kept, string(text)); return nil }
	c := ts.client()
	c.inTurn(
		[]string{"RL.RULES", "LIST", "[]"},
		[]string{"RL.RULES", "SET", "a", "x", "{limit: 5/m, key: [u], candidate: 9/m}", `["added" ["a/x"] "changed" [] "removed" [] "restarted" [] "same" 0]`},
		[]string{"RL.CHECK", "a", "1", "u", "v", `[0 5 4 -1 12000 "x"]`},
		[]string{"RL.RULES", "SET", "a", "x", `{"limit": "10/m", "key": ["u"]}`, `["added" [] "changed" ["a/x"] "removed" [] "restarted" [] "same" 0]`},
		[]string{"RL.CHECK", "a", "1", "u", "v", `[0 10 8 -1 12000 "x"]`}, // what was used stays used
		[]string{"RL.RULES", "SET", "a", "y", "limit: 1/m\nmatch: {m: GET}", `["added" ["a/y"] "changed" [] "removed" [] "restarted" [] "same" 1]`},
		[]string{"RL.RULES", "MODE", "a", "y", "Shadow", "OK"},
		[]string{"RL.RULES", "LIST", `["a"]`},
		[]string{"RL.RULES", "LIST", "a", `[["name" "x" "mode" "enforce" "limit" "GCRA 10/m" "key" ["u"] "candidate" "" "match" [] "except" [] "plans" [] "overrides" 0 "cost" "" "weights" [] "limit_from" "" "at_most" "" "in_flight" "" "shard_by" ""] ["name" "y" "mode" "shadow" "limit" "GCRA 1/m" "key" [] "candidate" "" "match" ["m" "GET"] "except" [] "plans" [] "overrides" 0 "cost" "" "weights" [] "limit_from" "" "at_most" "" "in_flight" "" "shard_by" ""]]`},
		[]string{"RL.RULES", "GET", "a", "y", `"name: y\nlimit: 1/m\nmatch: {m: GET}\nmode: shadow\n"`},
		[]string{"RL.RULES", "DEL", "a", "y", `["added" [] "changed" [] "removed" ["a/y"] "restarted" [] "same" 1]`},
		[]string{"RL.RULES", "LOAD", "version: 1\nnamespaces: {b: [{name: z, limit: 1/m}]}", `["added" ["b/z"] "changed" [] "removed" ["a/x"] "restarted" [] "same" 0]`},
		[]string{"RL.RULES", "VALIDATE", "version: 1\nnamespaces: {b: [{name: z, limit: 2/m}]}", `["added" [] "changed" ["b/z"] "removed" [] "restarted" [] "same" 0]`},
		[]string{"RL.CHECK", "b", "0", `[0 1 0 -1 60000 "z"]`},
	)
	if len(kept) != 6 || kept[5] != "version: 1\nnamespaces: {b: [{name: z, limit: 1/m}]}" {
		t.Errorf("kept %q", kept)
	}
	many := "{version: 1, namespaces: {b: ["
	for i := range 13 {
		many += fmt.Sprintf("{name: r%d, limit: 1/m},", i)
	}
	c.later("RL.RULES", "LOAD", many+"]}}")
	for _, want := range []string{ // the log names what has changed
		"rules=2 added=[] changed=[a/y] removed=[] restarted=[] same=1\n", "rules=1 added=[b/z] changed=[] removed=[a/x] restarted=[] same=0\n",
		`added="[b/r0 b/r1 b/r2 b/r3 b/r4 b/r5 b/r6 b/r7 b/r8 b/r9 and 3 more]" `,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s\nhas no %s", log.String(), want)
		}
	}
}

// TestRulesErrors checks that mistakes leave the rules as they are.
func TestRulesErrors(t *testing.T) {
	ts := withRules(t, "version: 1\nnamespaces: {a: [{name: x, limit: 1/m}]}")
	kept := 0
	ts.rules.Source.Keep = func([]byte, [16]byte) error { kept++; return nil }
	c := ts.client()
	c.inTurn(
		[]string{"RL.RULES", "LOAD", "version: 1\nnamespaces: {a: [{name: x, limit: 1/q}]}", `-ERR the rules stay as they are: line 2, column 35: period must be positive milliseconds, or have a unit (ms s m h d w): "q"`},
		[]string{"RL.RULES", "VALIDATE", "b", "w", "limit: 3/m", `["added" ["b/w"] "changed" [] "removed" [] "restarted" [] "same" 1]`},
		[]string{"RL.RULES", "VALIDATE", "b", "w", "limit: 3/q", `-ERR the rules stay as they are: line 1, column 8: period must be positive milliseconds, or have a unit (ms s m h d w): "q"`},
		[]string{"RL.RULES", "VALIDATE", "b", "w", "-ERR wrong number of arguments for 'rl.rules|validate' command"},
		[]string{"RL.RULES", "VALIDATE", "[", "-ERR the rules stay as they are: line 1, column 1: did not find expected node content"},
		[]string{"RL.RULES", "SET", "a", "x", "{name: y, limit: 1/m}", "-ERR the rule has another name"},
		[]string{"RL.RULES", "SET", "a", "y", "{limits: 1/m}", `-ERR the rules stay as they are: line 1, column 2: a rule has no field "limits"; did you mean "limit"?`},
		[]string{"RL.RULES", "SET", "a b", "y", "{limit: 1/m}", "-ERR a namespace's name must be a letter, digit or _, then any of these or of . / -, at most 64 in all"},
		[]string{"RL.RULES", "SET", "a", "y", "{key: [u],\n  limit: 1/q}", `-ERR the rules stay as they are: line 2, column 10: period must be positive milliseconds, or have a unit (ms s m h d w): "q"`},
		[]string{"RL.RULES", "DEL", "a", "y", "-NORULE there is no such rule"},
		[]string{"RL.RULES", "GET", "b", "-NORULE there is no such rule"},
		[]string{"RL.RULES", "MODE", "a", "x", "on", `-ERR mode must be enforce, shadow or off: "on"`},
		[]string{"RL.RULES", "MODE", "a", "y", "off", "-NORULE there is no such rule"},
		[]string{"RL.RULES", "RELOAD", "-ERR there is no rules-file and no envoy-rules-dir: use RL.RULES LOAD or SET"},
		[]string{"RL.RULES", "LIST", "b", `-NORULE no rules are in that namespace: "b"`},
		[]string{"RL.CHECK", "a", "0", `[0 1 0 -1 60000 "x"]`},
	)
	if kept > 0 {
		t.Errorf("kept %d times", kept)
	}
}

// TestRulesFromAFile checks which commands work when the rules come from a file.
func TestRulesFromAFile(t *testing.T) {
	ts := newTestServer(t)
	text, err := "version: 1\nnamespaces: {a: [{name: x, limit: 1/m}]}", error(nil)
	ts.rules.Source.Read = func() ([]byte, error) { return []byte(text), err }
	c := ts.client()
	c.inTurn(
		[]string{"RL.RULES", "RELOAD", `["added" ["a/x"] "changed" [] "removed" [] "restarted" [] "same" 0]`},
		[]string{"RL.RULES", "SET", "a", "x", "limit: 2/m", "-ERR " + rulebook.ErrFromFile.Error()},
		[]string{"RL.RULES", "DEL", "a", "x", "-ERR " + rulebook.ErrFromFile.Error()},
		[]string{"RL.RULES", "LOAD", text, "-ERR " + rulebook.ErrFromFile.Error()},
		[]string{"RL.RULES", "MODE", "a", "x", "off", "OK"},
		[]string{"RL.CHECK", "a", "0", `[0 -1 -1 -1 0 ""]`},
		[]string{"RL.RULES", "RELOAD", `["added" [] "changed" ["a/x"] "removed" [] "restarted" [] "same" 0]`},
		[]string{"RL.CHECK", "a", "0", `[0 1 0 -1 60000 "x"]`},
	)
	err = errors.New("it is gone")
	c.inTurn([]string{"RL.RULES", "RELOAD", "-ERR reading rules-file: it is gone"})
	if st := ts.rules.Status(); st.Problem != "it is gone" || st.Failed != 1 || st.Loaded != 3 || len(ts.rules.Figures()) != 1 || !st.FromFile {
		t.Errorf("%+v", st)
	}
	text, err = "version: 2", nil
	c.inTurn([]string{"RL.RULES", "RELOAD", `-ERR the rules stay as they are: line 1, column 1: the file has no "namespaces" (and 1 more)`},
		[]string{"RL.CHECK", "a", "0", `[1 1 0 60000 60000 "x"]`})
}

// TestLongRules loads a file that is larger than an argument may be.
//
//test:norace
func TestLongRules(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	text := "version: 1\nnamespaces: {a: [{name: x, limit: 1/m}]}\n" + strings.Repeat("# "+strings.Repeat("x", 98)+"\n", 30_000)
	c.inTurn(
		[]string{"RL.RULES", "LOAD", text, `["added" ["a/x"] "changed" [] "removed" [] "restarted" [] "same" 0]`},
		[]string{"RL.RULES", "VALIDATE", text + "z: 1", `-ERR the rules stay as they are: line 30003, column 1: the file has no field "z"`},
	)
	if got := line(c.do("INFO", "limiter")); !strings.Contains(got, `rules:1\r\nrules_source:command\r\nrules_sum:`) ||
		!strings.Contains(got, `rules_last_load_status:ok\r\n`) {
		t.Error(got)
	}
	if got := line(c.do("RL.RULES", "LOAD", strings.Repeat("x", 4<<20+1))); got != "-ERR an argument may have at most 65536 bytes (proto-max-bulk-len), a file of rules 4194304" {
		t.Error(got)
	}
}

// TestWorkOnALargeFileHoldsUpNobody checks that commands that parse the whole file do so in the background, one at a time.
func TestWorkOnALargeFileHoldsUpNobody(t *testing.T) {
	const text = "version: 1\nnamespaces: {a: [{name: x, limit: 1/m}]}"
	ts := withRules(t, text)
	other := ts.client()
	for _, words := range [][]string{
		{"GET", "a"},
		{"GET", "a", "x"},
		{"VALIDATE", text},
		{"LOAD", text},
		{"SET", "a", "y", "limit: 1/m"},
		{"DEL", "a", "y"},
		{"MODE", "a", "x", "off"},
	} {
		c := ts.client()
		words = append([]string{"RL.RULES"}, words...)
		begun, end := make(chan bool), make(chan bool)
		ts.rules.Source.Keep = func([]byte, [16]byte) error {
			ts.rules.Source.Keep = nil
			close(begun)
			<-end
			return nil
		}
		other.raw(string(encode("RL.RULES", "SET", "a", "z", "limit: 1/m")))
		<-begun // another's change is being kept
		got := c.raw(string(encode(words...)))
		close(end)
		if reply := c.resume(); got != "" || reply == "" || reply[0] == '-' {
			t.Errorf("%s: %q at once, then %q", words, got, reply)
		}
		other.resume()
	}
}

// TestTooMuchWorkOnRules checks that only a few commands may wait with a file of rules.
func TestTooMuchWorkOnRules(t *testing.T) {
	const text = "version: 1\nnamespaces: {a: [{name: x, limit: 1/m}]}"
	ts := withRules(t, text)
	begun, end := make(chan bool), make(chan bool)
	ts.rules.Source.Keep = func([]byte, [16]byte) error {
		ts.rules.Source.Keep = nil
		close(begun)
		<-end
		return nil
	}
	var waiting []*testClient
	for i := range 16 {
		c := ts.client()
		waiting = append(waiting, c)
		if got := c.raw(string(encode("RL.RULES", "LOAD", text))); got != "" {
			t.Fatal(got)
		}
		if i == 0 {
			<-begun // the first change is being kept
		}
	}
	c := ts.client()
	for _, words := range [][]string{{"LOAD", text}, {"VALIDATE", text}, {"GET", "a"}, {"MODE", "a", "x", "off"}} {
		if got := line(c.do(append([]string{"RL.RULES"}, words...)...)); got != "-ERR too many commands work on the rules: try again later" {
			t.Errorf("%s: %s", words[0], got)
		}
	}
	close(end)
	for _, w := range waiting {
		if got := w.resume(); !strings.HasPrefix(got, "*10\r\n$5\r\nadded\r\n") {
			t.Error(got)
		}
	}
	c.inTurn([]string{"RL.RULES", "LOAD", text, `["added" [] "changed" [] "removed" [] "restarted" [] "same" 1]`})
}

// TestDomains checks where domains come from, and what commands on rules say of them.
func TestDomains(t *testing.T) {
	const tree = "descriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]"
	ts := withRules(t, "version: 1\nnamespaces: {r: [{name: x, limit: 1/m}], both: {"+tree+"}}")
	var log strings.Builder
	ts.rules.Log = slog.New(slog.NewTextHandler(&log, nil))
	files, err := []rules.File{{Name: "a.yaml", Text: []byte("domain: both\n")}, {Name: "b.yaml", Text: []byte("domain: b\n" + tree)}}, error(nil)
	ts.rules.Source.ReadDomains = func() ([]rules.File, error) { return files, err }
	c := ts.client()
	c.inTurn(
		[]string{"RL.RULES", "RELOAD", `["added" ["both" "b"] "changed" [] "removed" [] "restarted" [] "same" 0]`},
		[]string{"RL.RULES", "LIST", `["r" "both" "b"]`},
		[]string{"RL.RULES", "LIST", "b", `-NORULE that namespace has a tree of descriptors, which is for requests over gRPC: "b"`},
		[]string{"RL.CHECK", "both", "0", `-NORULE that namespace has a tree of descriptors, which is for requests over gRPC: "both"`},
		[]string{"RL.RULES", "GET", "both", `"` + strings.ReplaceAll("{"+tree+"}", `"`, `\"`) + `\n"`},
		[]string{"RL.RULES", "SET", "both", "x", "limit: 1/m", "-ERR the namespace has a tree of descriptors, so it has no rules: change the whole file, with RL.RULES LOAD"},
		[]string{"RL.RULES", "DEL", "both", "x", "-NORULE there is no such rule"},
	)
	if d := ts.rules.Domain("both"); d == nil || d.Limits() != 1 {
		t.Error("the rules' own domain does not come first")
	}
	sum := ts.rules.DomainsSum()
	files[1].Text = []byte("domain: b\ndescriptors: 1")
	c.inTurn([]string{"RL.RULES", "RELOAD", `-ERR the rules stay as they are: b.yaml: line 2, column 14: descriptors must be a list, not "1"`})
	if st := ts.rules.Status(); st.Problem == "" || st.Failed != 1 || st.Loaded != 2 || ts.rules.Domain("b").Limits() != 1 || ts.rules.DomainsSum() != sum {
		t.Errorf("%+v", st)
	}
	files[1].Text = []byte("domain: both")
	c.inTurn([]string{"RL.RULES", "RELOAD", `-ERR b.yaml: the domain \"both\" is in a.yaml already: put both trees into one file`})
	files = []rules.File{{Name: "c.yaml", Text: []byte("domain: b\ndescriptors: [{key: k, rate_limit: {unit: day, shadow_mode: true}}]")}}
	c.inTurn([]string{"RL.RULES", "RELOAD", `["added" [] "changed" ["b"] "removed" ["both"] "restarted" [] "same" 0]`})
	if st := ts.rules.Status(); st.Problem != "" || ts.rules.DomainsSum() == sum || !strings.Contains(log.String(), "c.yaml: line 2: shadow_mode has no effect in rate_limit") {
		t.Errorf("%+v %s", st, log.String())
	}
	err = errors.New("it is gone")
	c.inTurn([]string{"RL.RULES", "RELOAD", "-ERR reading envoy-rules-dir: it is gone"})
}

// TestRulesInAClusterWait checks that the reply to a change of the rules waits for a majority of the nodes, also with
// raft-ack leader, and that a node that no longer leads changes nothing.
func TestRulesInAClusterWait(t *testing.T) {
	ts, p := newNode(t)
	ts.durable.AckLeader.Store(true)
	var refusal error
	ts.rules.Source.Keep = func([]byte, [16]byte) error { return refusal }
	c := ts.client()
	set := string(encode("RL.RULES", "SET", "a", "x", "limit: 5/m"))
	for _, test := range []struct {
		lost error
		want string
	}{
		{nil, "*10\r\n$5\r\nadded\r\n"},
		{errors.New("abdicated"), unknown},
	} {
		if got := c.raw(set) + c.resume(); got != "" {
			t.Fatalf("%q left before a majority had the rules", got)
		}
		p.endWaits(test.lost)
		if got := c.resume(); !strings.HasPrefix(got, test.want) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
	refusal, p.leader = ErrNotLeading, "127.0.0.1:7"
	if got := c.later("RL.RULES", "SET", "a", "y", "limit: 1/m"); got != "-MOVED 0 127.0.0.1:7" {
		t.Error(got)
	}
	if len(ts.rules.Set().Rules()) != 1 {
		t.Error("rules that are not kept are in force")
	}
}

// TestRulesOverHTTP changes rules as the dashboard does: the change is durable when Do returns.
func TestRulesOverHTTP(t *testing.T) {
	ts, p := newNode(t)
	if _, err := ts.rules.Load([]byte("version: 1\nnamespaces: {a: [{name: x, limit: 1/m}]}")); err != nil {
		t.Fatal(err)
	}
	mode := func(ctx context.Context, mode string) (string, error) {
		out, err := ts.Do(ctx, []byte("RL.RULES"), []byte("MODE"), []byte("a"), []byte("x"), []byte(mode))
		return string(out), err
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := mode(ctx, "shadow"); !errors.Is(err, context.Canceled) {
		t.Errorf("the change did not wait: %q, %v", got, err)
	}
	p.endWaits(nil)
	p.holds.Store(false)
	if got, err := mode(t.Context(), "off"); err != nil || got != "+OK\r\n" {
		t.Error(got, err)
	}
	if got := overHTTP(t, ts.Server, "RL.RULES", "GET", "a", "x"); got.Text != "{name: x, limit: 1/m, mode: off}\n" {
		t.Errorf("%q", got.Text)
	}
	if got := overHTTP(t, ts.Server, "RL.RULES", "MODE", "a", "x", "no"); got.Text != `ERR mode must be enforce, shadow or off: "no"` {
		t.Errorf("%q", got.Text)
	}
	p.turn = 0
	if got, err := mode(t.Context(), "enforce"); err != nil || got != "-"+spec.ErrNoLeader+"\r\n" {
		t.Error(got, err)
	}
	if got := ts.rules.Set().Rules()[0].Mode; got != rules.Off {
		t.Error(got)
	}
}
