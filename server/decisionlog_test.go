package server

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"limitdb/engine"
	"limitdb/internal/decisionlog"
)

// Every command that takes is logged, however it is decided. Peeks, refunds, errors and what was granted before are not logged.
func TestDecisionsAreLogged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log, err := decisionlog.Open(decisionlog.Options{Path: path, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	ts := newTestServer(t)
	ts.parts.Decisions = log
	c := ts.client()
	for _, words := range []string{
		"RL.TAKE a GCRA 2/h", "RL.PEEK a GCRA 2/h", "RL.TAKE a LOG 2/h", "RL.REFUND a GCRA 2/h", "RL.TAKE a GCRA 2/h COST 0",
		"CL.THROTTLE b 0 1 60", "CL.THROTTLE b 0 1 60", "GCRA c 1 1 60", "RL.TAKE d GCRA 2/h COST 5 PARTIAL", "RL.RESERVE e GCRA 2/h COST 3",
		"RL.TAKEALL 2 f g GCRA 1/h GCRA 1/h", "RL.TAKE h GCRA 1/h REPLACE", "RL.TAKE w GCRA 1/h WAIT 1s",
		"RL.HOLD held FIXED 10/d COST 7 TTL 10s ID a", "RL.HOLD held FIXED 10/d COST 7 TTL 10s ID a", // once
		"RL.TAKE once FIXED 10/d ONCE a", "RL.TAKE once FIXED 10/d ONCE a",
		"RL.HOLDALL 2 h1 h2 FIXED 10/d FIXED 10/d TTL 10s ID b", "RL.HOLDALL 2 h1 h2 FIXED 10/d FIXED 10/d TTL 10s ID b",
	} {
		c.raw(string(encode(strings.Fields(words)...)))
	}
	overHTTP(t, ts.Server, "RL.TAKE", "i", "GCRA", "1/h")
	if _, err := ts.rules.Load([]byte("version: 1\nnamespaces: {shop: [{name: x, key: [user], limit: 1/h}, {name: y, limit: 9/h, mode: shadow, candidate: 1/h}]}")); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"RL.CHECK shop 1 user u", "RL.CHECK shop 1 user u PEEK", "RL.CHECK shop 1 user u"} {
		c.raw(string(encode(strings.Fields(words)...)))
	}
	for _, words := range []string{
		"MULTI", "RL.HOLD held FIXED 10/d COST 7 TTL 10s ID a", "RL.HOLD mh FIXED 10/d COST 7 TTL 10s ID a", "RL.TAKE ma GCRA 1/h", "RL.TAKEALL 2 mb ma GCRA 1/h GCRA 1/h", "CL.THROTTLE mc 0 1 60",
		"RL.CHECK shop 1 user m", "RL.CHECK shop 1 user m PEEK", "EXEC",
		"MULTI", "RL.TAKE given-up GCRA 1/h", "RL.CHECK shop 1 user given-up", "DISCARD",
	} {
		c.raw(string(encode(strings.Fields(words)...)))
	}
	c.do("EVAL", "redis.call('RL.TAKE', 's', 'GCRA', '1/h') return redis.call('RL.CHECK', 'shop', '1', 'user', 's')", "0")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	log.Run(ctx)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		_, line, _ = strings.Cut(line, `"key":"`)
		key, rest, _ := strings.Cut(line, `"`)
		if _, rule, ok := strings.Cut(rest, `"rule":"`); ok {
			key = strings.TrimSuffix(rule, "\"}\n")
		}
		if strings.Contains(rest, `"limited":true`) {
			key += "!"
		}
		got = append(got, key)
	}
	if text, want := strings.Join(got, " "), "a b b! c d e f g h w held once h1 h2 i shop/x shop/y shop/x! shop/y"+
		" mh ma mb ma! mc shop/x shop/y s shop/x shop/y"; text != want {
		t.Errorf("%s, want %s", text, want)
	}
}

// Each hold that is settled has one line, however it is settled. What was settled before has no other, nor has a cancel of what was never held.
func TestSettlementsAreLogged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log, err := decisionlog.Open(decisionlog.Options{Path: path, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	ts := withRules(t, modelRules)
	ts.parts.Decisions = log
	c := ts.client()
	for _, words := range []string{
		"RL.HOLD k FIXED 10/d FIRST COST 7 TTL 10s ID a", "RL.COMMIT k ID a COST 3", "RL.COMMIT k ID a COST 4", "RL.CANCEL k ID a",
		"RL.HOLD k FIXED 10/d FIRST COST 5 TTL 10s ID b", "RL.COMMIT k ID b COST 12", "RL.CANCEL k ID never", "RL.COMMIT k ID neither",
		"RL.HOLD l FIXED 10/d FIRST COST 5 TTL 10s ID c", "RL.COMMIT l ID c",
		"RL.HOLDALL 2 m n FIXED 10/d FIRST COST 5 FIXED 10/d FIRST COST 6 TTL 10s ID d", "RL.COMMITALL 2 m n ID d COST 1",
		"RL.HOLDALL 2 m n FIXED 10/d FIRST COST 3 FIXED 10/d FIRST COST 4 TTL 10s ID e", "RL.CANCELALL 2 m n ID e",
		"RL.CHECK llm 2 tenant a tokens 400 HOLD 1m ID f", "RL.CHECK llm 1 tokens 150 COMMIT f", "RL.CHECK llm 0 COMMIT f",
		"RL.CHECK llm 2 tenant a tokens 400 HOLD 1m ID g", "RL.CHECK llm 0 CANCEL g",
		"RL.HOLD o FIXED 10/d FIRST COST 7 TTL 10s ID h", "MULTI", "RL.COMMIT o ID h COST 1", "EXEC",
		"RL.HOLD p FIXED 10/d FIRST COST 7 TTL 10s ID i ONEXPIRE return",
	} {
		c.raw(string(encode(strings.Fields(words)...)))
	}
	c.steps(ts, [2]string{"+15s", ""})
	c.raw(string(encode("RL.COMMIT", "p", "ID", "i"))) // its time was over, and the estimate is charged
	for _, words := range []string{
		"RL.HOLD q FIXED 10/d FIRST COST 7 TTL 10s ID j ONEXPIRE return", "RL.HOLD q FIXED 10/d FIRST COST 2 TTL 10s ID k",
		"RL.HOLD r FIXED 10/5s FIRST COST 7 TTL 10s ID l ONEXPIRE return", "RL.CHECK llm 2 tenant b tokens 300 HOLD 10s ID m ONEXPIRE return",
	} {
		c.raw(string(encode(strings.Fields(words)...)))
	}
	c.steps(ts, [2]string{"+15s", ""})
	for _, words := range []string{"RL.HOLDS q", "RL.HOLDS q", "RL.TAKE r FIXED 10/5s FIRST", "RL.CHECK llm 2 tenant b tokens 1"} {
		c.raw(string(encode(strings.Fields(words)...)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	log.Run(ctx)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for line := range strings.Lines(string(text)) {
		if _, line, ok := strings.Cut(line, `"settled":`); ok {
			got.WriteString(line)
		}
	}
	want := `"commit","id":"a","estimate":7,"actual":3,"charged":-4,"over":0}
"commit","id":"b","estimate":5,"actual":12,"charged":7,"over":5}
"commit","id":"c","estimate":5,"actual":5,"charged":0,"over":0}
"commit","id":"d","estimate":5,"actual":1,"charged":-4,"over":0}
"commit","id":"d","estimate":6,"actual":1,"charged":-5,"over":0}
"cancel","id":"e","estimate":3,"actual":0,"charged":-3,"over":0}
"cancel","id":"e","estimate":4,"actual":0,"charged":-4,"over":0}
"commit","id":"f","estimate":400,"actual":150,"charged":-250,"over":0,"rule":"llm/tokens"}
"commit","id":"f","estimate":1,"actual":1,"charged":0,"over":0,"rule":"llm/requests"}
"cancel","id":"g","estimate":400,"actual":0,"charged":-400,"over":0,"rule":"llm/tokens"}
"cancel","id":"g","estimate":1,"actual":0,"charged":-1,"over":0,"rule":"llm/requests"}
"commit","id":"h","estimate":7,"actual":1,"charged":-6,"over":0}
"return","id":"i","estimate":7,"actual":0,"charged":-7,"over":0}
"commit","id":"i","estimate":7,"actual":7,"charged":7,"over":0}
"return","id":"j","estimate":7,"actual":0,"charged":-7,"over":0}
"return","id":"l","estimate":7,"actual":0,"charged":0,"over":0}
"return","id":"m","estimate":300,"actual":0,"charged":-300,"over":0,"rule":"llm/tokens"}
"return","id":"m","estimate":1,"actual":0,"charged":-1,"over":0,"rule":"llm/requests"}
`
	if line := `"key":"q","cost":2,"limited":false,"limit":10,"remaining":1,"held":"k","until":1600000025000000000,"on_expire":"keep"}`; !strings.Contains(string(text), line) {
		t.Errorf("no %s in\n%s", line, text)
	}
	if n := strings.Count(string(text), `"held":"g","until":`); n != 2 { // of two rules
		t.Errorf("the hold of a check is in %d lines", n)
	}
	for _, id := range []string{"d", "h", "m"} {
		if !strings.Contains(string(text), `"held":"`+id+`","until":`) {
			t.Errorf("no decision has the hold %s", id)
		}
	}

	if sorted(got.String()) != sorted(want) { // the keys of a step have their turns by their hashes
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

// sorted sorts the lines of a text.
func sorted(text string) string {
	lines := strings.SplitAfter(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// A node that begins to lead gives back what is due, and logs it.
func TestReturnsAreLoggedByWhoLeads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log, err := decisionlog.Open(decisionlog.Options{Path: path, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	ts := newTestServer(t)
	ts.parts.Decisions = log
	next := engine.New(engine.Options{Seed: 1})
	defer next.Close()
	ts.group.Follow()
	ts.group.Lead(next, 0)
	c := ts.client()
	c.steps(ts,
		[2]string{"RL.HOLD k FIXED 10/h FIRST COST 4 TTL 10s ID a ONEXPIRE return", "[0 10 6 -1 3600000]"},
		[2]string{"+11s", ""},
		[2]string{"RL.PEEK k FIXED 10/h FIRST", "[0 10 9 -1 3600000]"},
	)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	log.Run(ctx)
	text, err := os.ReadFile(path)
	if err != nil || strings.Count(string(text), `"settled":"return","id":"a","estimate":4,"actual":0,"charged":-4,`) != 1 {
		t.Errorf("%v\n%s", err, text)
	}
}
