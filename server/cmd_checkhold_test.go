package server

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// modelRules are those of a gateway of language models: tokens by a field, requests by COST, and a trial.
const modelRules = `version: 1
namespaces:
  llm:
    - name: tokens
      key: [tenant]
      limit: fixed 1000/h first
      cost: tokens
    - name: requests
      key: [tenant]
      limit: fixed 10/h first
      overrides:
        - {match: {tenant: big}, unlimited: true}
    - name: trial
      key: [tenant]
      limit: fixed 2/h first
      mode: shadow
`

// A check holds what all rules take, and settles what it has held, whatever the rules say by then.
func TestCheckHold(t *testing.T) {
	ts := withRules(t, modelRules)
	c := ts.client()
	const used = "-HELD this ID is that of another hold, or of one that is over; use a new ID for each request"
	const noHold = "-NOHOLD nothing is known of this ID: it was never held, was settled over 30 s ago, or twice its TTL has passed"
	c.steps(ts,
		[2]string{"RL.CHECK llm 2 tenant a tokens 400 HOLD 1m ID r1", `[0 10 9 -1 3600000 "requests"]`},
		[2]string{"RL.CHECK llm 2 tokens 400 tenant a ID r1 COST 1 HOLD 60000", `[0 10 9 -1 3600000 "requests"]`}, // sent again
		[2]string{"RL.CHECK llm 2 tenant a tokens 401 HOLD 1m ID r1", used},
		[2]string{"RL.CHECK llm 2 tenant b tokens 400 HOLD 1m ID r1", used},
		[2]string{"RL.CHECK llm 2 tenant a tokens 400 HOLD 1m ID r1 ONEXPIRE return", used},
		[2]string{"RL.CHECK llm 2 tenant a tokens 700 HOLD 1m ID r2", `[1 1000 600 3600000 3600000 "tokens"]`},
		[2]string{"RL.CHECK llm 0 COMMIT r2", noHold}, // the denial has held nothing
		[2]string{"RL.CHECK llm 2 tenant a tokens 0 PEEK", `[0 10 8 -1 3600000 "requests"]`},
		[2]string{"DBSIZE", "3"},
		[2]string{"RL.CHECK llm 2 tokens 150 tokens 151 COMMIT r1", `-ERR field "tokens": given twice`},
		// The fields of a commit say what it has cost; what is not given stays as it was estimated.
		[2]string{"RL.CHECK llm 1 tokens 150 COMMIT r1 EXPLAIN", `[0 0 10 9 3600000 "requests" [[-250 0 1000 850 3600000 "tokens"] [0 0 10 9 3600000 "requests"]]]`},
		[2]string{"RL.CHECK llm 1 tokens 999 COMMIT r1", `[0 0 10 9 3600000 "requests"]`}, // the first has settled it
		[2]string{"RL.CHECK llm 0 CANCEL r1 EXPLAIN", `[0 0 10 9 3600000 "requests" [[-250 0 1000 850 3600000 "tokens"] [0 0 10 9 3600000 "requests"]]]`},
		[2]string{"RL.CHECK llm 2 tenant a tokens 400 HOLD 1m ID r1", used},
		[2]string{"+30s", ""},
		[2]string{"RL.CHECK llm 0 COMMIT r1", noHold},
		// COST is for the rules without a field. What is over is told first.
		[2]string{"RL.CHECK llm 2 tenant a tokens 10 HOLD 1m ID r1", `[0 10 8 -1 3570000 "requests"]`},
		[2]string{"RL.CHECK llm 1 tokens 1000 COMMIT r1 COST 2", `[990 150 1000 0 3570000 "tokens"]`},
		[2]string{"RL.CHECK llm 1 tenant a COST 0", `[1 1000 0 3570000 3570000 "tokens"]`},
		// Cancelled, before and after.
		[2]string{"RL.CHECK llm 2 tenant c tokens 10 HOLD 1m ID r3", `[0 10 9 -1 3600000 "requests"]`},
		[2]string{"RL.CHECK llm 0 CANCEL r3", `[-1 0 10 10 0 "requests"]`},
		[2]string{"RL.CHECK llm 0 CANCEL r4", `[0 0 -1 -1 0 ""]`},
		[2]string{"RL.CHECK llm 2 tenant c tokens 10 HOLD 1m ID r4", "-CANCELLED this ID was cancelled before it was held"},
		[2]string{"RL.CHECK llm 0 COMMIT r4", `[0 0 -1 -1 0 ""]`},
		// A rule that is unlimited holds nothing; nor does a request that none limits.
		[2]string{"RL.CHECK llm 2 tenant big tokens 10 HOLD 1m ID r5", `[0 1000 990 -1 3600000 "tokens"]`},
		[2]string{"RL.CHECK llm 0 COMMIT r5 COST 7 EXPLAIN", `[-3 0 1000 993 3600000 "tokens" [[-3 0 1000 993 3600000 "tokens"]]]`},
		[2]string{"RL.CHECK llm 0 HOLD 1m ID r6", `[0 -1 -1 -1 0 ""]`},
		[2]string{"RL.CHECK llm 0 HOLD 1m ID r6", `[0 -1 -1 -1 0 ""]`},
		[2]string{"RL.CHECK llm 0 COMMIT r6", `[0 0 -1 -1 0 ""]`},
		// A time that is over.
		[2]string{"RL.CHECK llm 2 tenant d tokens 1000 HOLD 10s ID r7 ONEXPIRE return", `[0 1000 0 -1 3600000 "tokens"]`},
		[2]string{"+10s", ""},
		[2]string{"RL.CHECK llm 2 tenant d tokens 1000 HOLD 10s ID r8", `[0 1000 0 -1 3600000 "tokens"]`},
		[2]string{"RL.CHECK llm 1 tokens 1 COMMIT r7", `[1 1 1000 0 3600000 "tokens"]`},
		[2]string{"+20s", ""},
		[2]string{"RL.CHECK llm 1 tokens 1 COMMIT r8", noHold},
		// In a step with others.
		[2]string{"MULTI", "OK"},
		[2]string{"RL.CHECK llm 2 tenant e tokens 5 HOLD 10s ID r9", "QUEUED"},
		[2]string{"RL.CHECK llm 1 tokens 7 COMMIT r9", "QUEUED"},
		[2]string{"EXEC", `[[0 10 9 -1 3600000 "requests"] [0 0 10 9 3600000 "requests"]]`},
		// An id belongs to its namespace; the rules may have gone.
		[2]string{"RL.CHECK llm 2 tenant f tokens 5 HOLD 1m ID x", `[0 10 9 -1 3600000 "requests"]`},
		[2]string{"RL.CHECK ll 0 COMMIT mx", noHold},
	)
	if _, err := ts.rules.Load([]byte("version: 1\nnamespaces:\n  other:\n    - name: a\n      limit: fixed 1/h\n")); err != nil {
		t.Fatal(err)
	}
	c.steps(ts,
		[2]string{"RL.CHECK llm 1 tokens 3 COMMIT x COST 2 EXPLAIN", `[1 0 10 8 3600000 "requests" [[-2 0 1000 997 3600000 "tokens"] [1 0 10 8 3600000 "requests"]]]`},
	)
}

// A check that holds waits as others do, and is granted when an estimate goes back.
// A script settles in its own step: a second step would wait for the first for ever. It may hold what it settles.
func TestCheckHoldInSteps(t *testing.T) {
	ts := withRules(t, modelRules)
	c := ts.client()
	const noHold = "-NOHOLD nothing is known of this ID: it was never held, was settled over 30 s ago, or twice its TTL has passed"
	for _, keys := range []string{"0", "1 some"} {
		eval := func(words string) string {
			return line(c.do(append([]string{"EVAL", "return redis.pcall(unpack(ARGV))"}, strings.Fields(keys+" "+words)...)...))
		}
		for _, tt := range [][2]string{
			{"RL.CHECK llm 0 COMMIT r1", noHold},
			{"RL.CHECK llm 2 tenant a" + keys[:1] + " tokens 400 HOLD 1m ID r1", `[0 10 9 -1 3600000 "requests"]`},
			{"RL.CHECK llm 1 tokens 150 COMMIT r1 EXPLAIN", `[0 0 10 9 3600000 "requests" [[-250 0 1000 850 3600000 "tokens"] [0 0 10 9 3600000 "requests"]]]`},
			{"RL.CHECK llm 0 CANCEL r2" + keys[:1], `[0 0 -1 -1 0 ""]`},
		} {
			if got := eval(tt[0]); got != tt[1] {
				t.Errorf("%s: %s, want %s", tt[0], got, tt[1])
			}
		}
		if got := eval("RL.RULES EXPLAIN llm 1 tenant a"); got != "-ERR This Redis command is not allowed from script" {
			t.Error(got) // it looks in a step of its own
		}
		ts.clock.Advance(time.Hour)
	}
}

func TestCheckHoldWaits(t *testing.T) {
	ts := withRules(t, modelRules)
	c, other := ts.client(), ts.client()
	c.steps(ts, [2]string{"RL.CHECK llm 2 tenant a tokens 900 HOLD 10s ID a ONEXPIRE return", `[0 10 9 -1 3600000 "requests"]`})
	other.saysAfter(ts, "a check", "RL.CHECK llm 2 tenant a tokens 300 HOLD 1m ID b WAIT 1m", 10*time.Second, `[0 10 9 -1 3600000 "requests"]`)
	c.steps(ts, [2]string{"RL.CHECK llm 1 tokens 100 COMMIT b", `[0 0 10 9 3600000 "requests"]`})
	c.steps(ts, [2]string{"RL.CHECK llm 1 tenant a COST 0", `[0 10 9 -1 3600000 "requests"]`})
}

func TestCheckHoldErrorsNameTheArgument(t *testing.T) {
	ts := withRules(t, modelRules)
	c := ts.client()
	for _, tt := range [][2]string{
		{"RL.CHECK llm 0 HOLD 1m", "-ERR syntax error: HOLD needs ID id"},
		{"RL.CHECK llm 0 ID x", "-ERR syntax error: ID and ONEXPIRE are for HOLD"},
		{"RL.CHECK llm 0 HOLD 2h ID x", "-ERR HOLD is above hold-max-ttl, 3600 s"},
		{"RL.CHECK llm 0 HOLD 1m HOLD 1m ID x", "-ERR syntax error: HOLD is given twice"},
		{"RL.CHECK llm 0 HOLD 1m ID x ONEXPIRE", "-ERR syntax error: a value is missing after \"ONEXPIRE\""},
		{"RL.CHECK llm 0 HOLD 1m ID x PEEK", "-ERR syntax error: HOLD is for a check that takes, and its ID does what ONCE does"},
		{"RL.CHECK llm 0 HOLD 1m ID x ONCE y", "-ERR syntax error: HOLD is for a check that takes, and its ID does what ONCE does"},
		{"RL.CHECK llm 0 HOLD 1m ID x COST 0", "-ERR COST must be 1 or more: a hold takes an estimate"},
		{"RL.CHECK llm 0 HOLD 1m COMMIT x", "-ERR syntax error: \"HOLD\" does not go with COMMIT or CANCEL"},
		{"RL.CHECK llm 0 COMMIT", "-ERR syntax error: a value is missing after \"COMMIT\""},
		{"RL.CHECK llm 0 COMMIT x COMMIT y", "-ERR syntax error: COMMIT or CANCEL is given twice"},
		{"RL.CHECK llm 0 CANCEL x COST 1", "-ERR syntax error: COST is for COMMIT"},
		{"RL.CHECK llm 0 COMMIT x COST -1", "-ERR COST is negative"},
		{"RL.CHECK llm 0 COMMIT " + strings.Repeat("x", 129), "-ERR ID must have 1 to 128 bytes: "},
		{"RL.CHECK none 0 HOLD 1m ID x", "-NORULE "},
	} {
		if got := line(c.do(strings.Fields(tt[0])...)); !strings.HasPrefix(got, tt[1]) {
			t.Errorf("%.70s: %s, want %s", tt[0], got, tt[1])
		}
	}
	c.steps(ts,
		[2]string{"RL.CHECK llm 2 tenant a tokens 4 HOLD 1m ID COMMIT", `[0 10 9 -1 3600000 "requests"]`},
		[2]string{"RL.CHECK llm 1 tokens x COMMIT COMMIT", `-ERR field "tokens": the cost must be an integer from 0 to 9223372036854775807`},
		[2]string{"RL.CHECK llm 1 tokens 4 COMMIT COMMIT", `[0 0 10 9 3600000 "requests"]`},
	)
}

// A commit weighs what it has cost as the check has weighed its estimate.
func TestCheckHoldWeighs(t *testing.T) {
	ts := withRules(t, "version: 1\nnamespaces:\n  llm:\n  - {name: units, key: [tenant], cost: tokens, limit: fixed 1000/h first, weights: {model: {large: 10}}}\n")
	ts.client().steps(ts,
		[2]string{"RL.CHECK llm 3 tenant a model large tokens 40 HOLD 1m ID r1", `[0 1000 600 -1 3600000 "units"]`},
		[2]string{"RL.CHECK llm 1 tokens 9223372036854775807 COMMIT r1", `-ERR field "tokens": its weight, multiplied by the cost, is above 9223372036854775807`},
		[2]string{"RL.CHECK llm 1 tokens 15 COMMIT r1", `[-250 0 1000 850 3600000 "units"]`},
		[2]string{"RL.CHECK llm 2 tenant b tokens 40 HOLD 1m ID r2", `[0 1000 960 -1 3600000 "units"]`},
		[2]string{"RL.CHECK llm 1 model large COMMIT r2 COST 15", `[-25 0 1000 985 3600000 "units"]`},
		[2]string{"RL.CHECK llm 3 tenant a model large tokens 1 HOLD 1m ID r3", `[0 1000 840 -1 3600000 "units"]`},
		[2]string{"RL.CHECK llm 0 COMMIT r3", `[0 0 1000 840 3600000 "units"]`},
	)
}

// Who may not use a namespace may not settle what others hold in it.
func TestCheckHoldOfUsers(t *testing.T) {
	ts := withRules(t, modelRules)
	c := ts.client()
	const noPerm = "-NOPERM this user has no permissions to access one of the keys used as arguments (user other lacks a pattern ~ that matches \"rl:llm:\", the callers of the namespace)"
	c.steps(ts,
		[2]string{"ACL SETUSER app on >pw +@all ~rl:llm:*", "OK"},
		[2]string{"ACL SETUSER other on >pw +@all ~rl:shop:*", "OK"},
		[2]string{"AUTH app pw", "OK"},
		[2]string{"RL.CHECK llm 2 tenant a tokens 400 HOLD 1m ID r1", `[0 10 9 -1 3600000 "requests"]`},
		[2]string{"AUTH other pw", "OK"},
		[2]string{"RL.CHECK llm 1 tokens 150 COMMIT r1", noPerm},
		[2]string{"RL.CHECK llm 0 CANCEL r1", noPerm},
		[2]string{"RL.CHECK llm 2 tenant b tokens 400 HOLD 1m ID r2", noPerm},
		[2]string{"AUTH app pw", "OK"},
		[2]string{"RL.CHECK llm 1 tokens 150 COMMIT r1", `[0 0 10 9 3600000 "requests"]`},
		[2]string{"RL.CHECK llm 0 CANCEL r9", `[0 0 -1 -1 0 ""]`},
	)
}

// The page about holds counts money in millionths, by commands and by the weights of rules.
func TestMoneyOfThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/holds.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Money and fractions\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, rules, _ := strings.Cut(section, "```yaml money.yaml\n")
	rules, _, _ = strings.Cut(rules, "```")
	c := withRules(t, rules).client()
	var got []string
	for _, l := range strings.Split(section, "\n") {
		if strings.HasPrefix(l, "RL.") {
			v := c.do(strings.Fields(l)...)
			if v.Err() != nil {
				t.Fatalf("%s: %s", l, v.Text)
			}
			got = append(got, fmt.Sprint(v.Elems[0].Int, v.Elems[2].Int, v.Elems[3].Int))
		}
	}
	// limited, remaining and wait of a hold; charged, limit and remaining of a commit
	if want := []string{"0 24880000 -1", "-39545 25000000 24919545", "0 24940000 -1", "-15750 25000000 24955750"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if v := c.do("RL.TAKE", "k", "GCRA", "300000000/s"); v.Err() == nil {
		t.Error("a bucket takes a rate that it cannot keep")
	}
}
