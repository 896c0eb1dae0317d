package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"limitdb/resp"
)

// shown writes a reply as the steps of a client do, and an error by its code.
func shown(v resp.Value) string {
	switch {
	case v.Err() != nil:
		code, _, _ := strings.Cut(v.Text, " ")
		return "-" + code
	case v.Kind == ':':
		return fmt.Sprint(v.Int)
	case v.Elems == nil:
		return fmt.Sprintf("%q", v.Text)
	}
	var parts []string
	for _, e := range v.Elems {
		parts = append(parts, shown(e))
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// What is held over HTTP, in the words of package httpapi, is what a client holds: each may settle what the other has held, under the same ids
// and with the same rights.
func TestHoldsByDo(t *testing.T) {
	ts := withRules(t, modelRules+strings.TrimPrefix(flightRules, "\nversion: 1\nnamespaces:\n"))
	c := ts.client()
	c.do("ACL", "SETUSER", "app", "on", ">pw", "+@all", "~app:*", "~rl:llm:*")
	app := ts.Accounts().SignIn("app", "pw").In(t.Context())
	c.do("RL.HOLD", "app:u", "FIXED", "100/d", "FIRST", "COST", "7", "TTL", "1m", "ID", "by-client")
	c.do("RL.HOLD", "u", "FIXED", "100/d", "FIRST", "COST", "7", "TTL", "1m", "ID", "by-client")
	for i, s := range [][2]string{
		{"RL.HOLD app:u FIXED 100/d FIRST COST 40 TTL 60000 ID r1 ONEXPIRE keep", "[0 100 53 -1 86400000]"},
		{"RL.HOLD app:u FIXED 100/d FIRST COST 40 TTL 60000 ID r1 ONEXPIRE keep", "[0 100 53 -1 86400000]"}, // sent again
		{"RL.HOLD app:u FIXED 100/d FIRST COST 41 TTL 60000 ID r1 ONEXPIRE keep", "-HELD"},
		{"RL.HOLD app:u FIXED 100/d FIRST COST 54 TTL 60000 ID r2 ONEXPIRE return", "[1 100 53 86400000 86400000]"},
		{"RL.COMMIT app:u ID r2", "-NOHOLD"},
		{"RL.COMMIT app:u ID r1 COST 50", "[10 0 100 43 86400000]"},
		{"RL.COMMIT app:u ID r1 COST 50", "[10 0 100 43 86400000]"},
		{"RL.CANCEL app:u ID by-client", "7"},
		{"RL.CANCEL app:u ID early", "0"},
		{"RL.HOLD app:u FIXED 100/d FIRST COST 1 TTL 60000 ID early ONEXPIRE keep", "-CANCELLED"},
		{"RL.HOLD u FIXED 100/d FIRST COST 1 TTL 60000 ID r1 ONEXPIRE keep", "-NOPERM"},
		{"RL.COMMIT u ID by-client", "-NOPERM"},
		{"RL.CANCEL u ID by-client", "-NOPERM"},
		{"RL.CHECK shop 0 CANCEL r1", "-NOPERM"},
		{"RL.CHECK llm 2 tenant a tokens 400 COST 1 HOLD 60000 ID r1 ONEXPIRE return", `[0 10 9 -1 3600000 "requests"]`},
		{"RL.CHECK llm 2 tenant a tokens 401 COST 1 HOLD 60000 ID r1 ONEXPIRE return", "-HELD"},
		{"RL.CHECK llm 2 tenant a tokens 9000 COST 1 HOLD 60000 ID r2 ONEXPIRE keep", `[1 1000 600 -1 3600000 "tokens"]`},
		{"RL.CHECK llm 1 tokens 150 COMMIT r1 COST 2 EXPLAIN", `[1 0 10 8 3600000 "requests" [[-250 0 1000 850 3600000 "tokens"] [1 0 10 8 3600000 "requests"]]]`},
		{"RL.CHECK llm 0 COMMIT r2", "-NOHOLD"},
		{"RL.CHECK llm 0 CANCEL r3", `[0 0 -1 -1 0 ""]`},
		{"RL.CHECK llm 2 tenant a tokens 4 COST 1 HOLD 60000 ID r3 ONEXPIRE keep", "-CANCELLED"},
		{"RL.CHECK llm 2 tenant b tokens 4 COST 1 HOLD 10000 ID r4 ONEXPIRE return", `[0 10 9 -1 3600000 "requests"]`},
	} {
		var args [][]byte
		for _, w := range strings.Split(s[0], " ") {
			args = append(args, []byte(w))
		}
		b, err := ts.Do(app, args...)
		if err != nil {
			t.Fatal(err)
		}
		if got := shown(parsed(t, b)); got != s[1] {
			t.Errorf("step %d, %s: %s, want %s", i, s[0], got, s[1])
		}
	}
	// What is in flight has the id of the hold, and is given back with it.
	for _, s := range [][2]string{
		{"RL.CHECK n 1 user u COST 1 HOLD 60000 ID f1 ONEXPIRE keep", `[0 2 1 -1 60000 "both" "f1"]`},
		{"RL.CHECK n 1 user u COST 1 ONCE f2", `[0 2 0 -1 60000 "both" "f2"]`},
		{"RL.CHECK n 1 user u COST 1 ONCE f2", `[0 2 0 -1 60000 "both" "f2"]`},
		{"RL.CHECK n 0 CANCEL f1", `[-1 0 5 4 2000000 "both"]`},
		{"RL.CHECK n 1 user u COST 1 RELEASE f2", "1"},
		{"RL.CHECK n 1 user u COST 1 RELEASE f1", "0"},
	} {
		if got := shown(overHTTP(t, ts.Server, strings.Fields(s[0])...)); got != s[1] {
			t.Errorf("%s: %s, want %s", s[0], got, s[1])
		}
	}
	// A client settles what was held by Do; the time of a hold is over for both.
	c.steps(ts,
		[2]string{"RL.HOLDS u COUNT 9", `[["by-client" "held" 7 60000 "FIXED 100/d FIRST"]]`},
		[2]string{"RL.CHECK llm 1 tokens 3 COMMIT r4 EXPLAIN", `[0 0 10 9 3600000 "requests" [[-1 0 1000 997 3600000 "tokens"] [0 0 10 9 3600000 "requests"]]]`},
	)
	ts.clock.Advance(2 * time.Minute)
	if got := shown(overHTTP(t, ts.Server, "RL.COMMIT", "u", "ID", "by-client")); got != "-NOHOLD" {
		t.Errorf("a commit after twice the time: %s", got)
	}
}
