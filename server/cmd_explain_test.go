package server

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"limitdb/resp"
)

func TestExplain(t *testing.T) {
	ts := withRules(t, `
version: 1
plans: {free: {api: 2/m}, pro: {api: 20/m}}
namespaces:
  shop:
    - {name: login, match: {path: /login}, key: [ip], limit: 5/m}
    - {name: user, key: [user], cost: units, plan: {field: plan, limit: api, default: free}, candidate: 1/m}
    - {name: all, limit: 100/m, mode: shadow}
  free:
    - {name: none, unlimited: true}
`)
	c := ts.client()
	key := func(rule string, values ...string) string {
		for _, k := range c.do("KEYS", "*").Elems {
			if strings.Contains(k.Text, ":"+rule) && strings.HasSuffix(k.Text, strings.Join(values, ":")) {
				return k.Text
			}
		}
		return ""
	}
	const in = "RL.RULES EXPLAIN shop 3 user u path /cart colour red"
	user := func(limit, cost, d, candidate, from string) string {
		return `["name" "user" "mode" "enforce" "applies" 1 "why" "" "field" "" "has" "" "wants" "" "from" "` + from + `" "limits" [` +
			`["role" "enforce" "limit" "` + limit + `" "cost" ` + cost + ` "key" KEY "decision" ` + d + `] ` +
			`["role" "candidate" "limit" "GCRA 1/m" "cost" ` + cost + ` "key" KEY "decision" ` + candidate + `]]]`
	}
	all := func(cost, d string) string {
		return `["name" "all" "mode" "shadow" "applies" 1 "why" "" "field" "" "has" "" "wants" "" "from" "" "limits" [["role" "shadow" "limit" "GCRA 100/m" "cost" ` + cost + ` "key" KEY "decision" ` + d + `]]]`
	}
	login := `["name" "login" "mode" "enforce" "applies" 0 "why" "the field ip of its key is missing" "field" "ip" "has" "" "wants" "" "from" "" "limits" []]`
	c.steps(ts,
		[2]string{"RL.CHECK shop 1 user u", `[0 2 1 -1 30000 "user"]`},
		[2]string{"CONFIG SET recent-denials 100", "OK"})
	before := line(c.do("RL.RULES", "STATS"))
	for _, test := range []struct{ in, want string }{
		{in, `["decision" [0 2 0 -1 60000] "rule" "user" "ignored" ["colour"] "rules" 3 "matched" 2 "explained" [` +
			user("GCRA 2/m", "1", "[0 2 0 -1 60000]", "[1 1 0 60000 60000]", "plan free") + " " + all("1", "[0 100 98 -1 1200]") + " " + login + "]]"},
		{in + " COST 2 COUNT 1", `["decision" [1 2 1 30000 30000] "rule" "user" "ignored" ["colour"] "rules" 3 "matched" 2 "explained" [` +
			user("GCRA 2/m", "2", "[1 2 1 30000 30000]", "[1 1 0 -1 60000]", "plan free") + "]]"},
		{"RL.RULES EXPLAIN shop 3 user u plan pro units 3 COUNT 1", `["decision" [0 20 16 -1 12000] "rule" "user" "ignored" [] "rules" 3 "matched" 2 "explained" [` +
			user("GCRA 20/m", "3", "[0 20 16 -1 12000]", "[1 1 0 -1 60000]", "plan pro") + "]]"},
		{"RL.RULES EXPLAIN shop 2 path /loginx ip 10.0.0.1 COUNT 2", `["decision" [0 -1 -1 -1 0] "rule" "" "ignored" [] "rules" 3 "matched" 1 "explained" [` +
			all("1", "[0 100 98 -1 1200]") + ` ["name" "login" "mode" "enforce" "applies" 0 "why" "path is \"/loginx\", not /login" "field" "path" "has" "/loginx" "wants" "/login" "from" "" "limits" []]]]`},
		{"RL.RULES EXPLAIN free 0", `["decision" [0 -1 -1 -1 0] "rule" "none" "ignored" [] "rules" 1 "matched" 1 "explained" [["name" "none" "mode" "enforce" "applies" 1 "why" "" "field" "" "has" "" "wants" "" "from" "" "limits" []]]]`},
	} {
		got := strings.ReplaceAll(line(c.do(strings.Fields(test.in)...)), `\"`, `"`)
		for rest := got; ; {
			_, after, ok := strings.Cut(rest, `"key" "`)
			if !ok {
				break
			}
			k, _, _ := strings.Cut(after, `" "slot"`)
			raw, err := strconv.Unquote(`"` + k + `"`)
			if err != nil {
				t.Fatal(err)
			}
			got, rest = strings.Replace(got, fmt.Sprintf(`"%s" "slot" %d`, k, resp.Slot([]byte(raw))), "KEY", 1), after
		}
		if want := strings.ReplaceAll(test.want, `\"`, `"`); got != want {
			t.Errorf("%s\n got %s\nwant %s", test.in, got, want)
		}
	}
	if after := line(c.do("RL.RULES", "STATS")); after != before {
		t.Errorf("it was counted:\n%s\n%s", before, after)
	}
	c.steps(ts,
		[2]string{"RL.DENIALS", "[]"},
		[2]string{"RL.CHECK shop 1 user u", `[0 2 0 -1 60000 "user"]`},
		[2]string{"RL.RULES EXPLAIN none 0", `-NORULE no rules are in that namespace: "none"`},
		[2]string{"RL.RULES EXPLAIN shop x", `-ERR numfields must be an integer from 0 to 64: "x"`},
		[2]string{"RL.RULES EXPLAIN shop 1 user", "-ERR numfields is 1: 2 words must follow, a name and a value for each field, not 1"},
		[2]string{"RL.RULES EXPLAIN shop 0 PEEK", `-ERR unknown option "PEEK" for RL.RULES EXPLAIN`},
		[2]string{"RL.RULES EXPLAIN shop 0 COUNT 0", `-ERR COUNT must be an integer from 1 to 10000: "0"`},
		[2]string{"RL.RULES EXPLAIN shop 0 COST -1", "-ERR COST is negative"},
		[2]string{"RL.RULES EXPLAIN shop 2 user u units x", `-ERR field "units": the cost must be an integer from 0 to 9223372036854775807`})
	if k := key("user", "u"); k == "" {
		t.Error("the caller has no key")
	}
}

// Ten thousand rules are explained in many turns, while the client's input is overwritten.
//
//test:norace
func TestExplainManyRules(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\nnamespaces:\n  n:\n")
	for i := range 10_000 {
		fmt.Fprintf(&b, "    - {name: r%d, match: {path: \"/p%d*\"}, key: [user], limit: 5/m}\n", i, i)
	}
	ts := withRules(t, b.String())
	c := ts.client().tiny()
	value := "/p77" + strings.Repeat("x", 8000)
	out := c.all(string(encode("RL.RULES", "EXPLAIN", "n", "2", "user", "u", "path", value, "COUNT", "10000")))
	if got := strings.Count(out, `path is "/p77xxx`); c.conn.yields < 100 || got != 9_998 || len(out) > 8<<20 {
		t.Errorf("%d turns, %d rules say why not, %d bytes", c.conn.yields, got, len(out))
	}
}
