package server

import "testing"

// A check by networks, with weights, and with a limit that the request brings: taken, given back, explained.
func TestCheckFields(t *testing.T) {
	ts := withRules(t, `
version: 1
namespaces:
  n:
    - {name: net, match: {ip: [10.0.0.0/8, 2001:db8::/32]}, key: [ip], limit: 10/m}
  w:
    - {name: calls, limit: 10/m, weights: {path: {/chat: 5}}}
  q:
    - {name: brought, key: [user], limit: fixed 2/m, limit_from: quota, at_most: fixed 5/m}
`)
	c := ts.client()
	c.steps(ts,
		[2]string{"RL.CHECK n 1 ip 10.1.2.3", `[0 10 9 -1 6000 "net"]`},
		[2]string{"RL.CHECK n 1 ip ::ffff:11.1.2.3", `[0 -1 -1 -1 0 ""]`},
		[2]string{"RL.CHECK w 1 path /chat", `[0 10 5 -1 30000 "calls"]`},
		[2]string{"RL.CHECK w 1 path /chat COST 2", `[1 10 5 30000 30000 "calls"]`},
		[2]string{"RL.CHECK w 1 path /other COST 2 EXPLAIN", `[0 10 3 -1 42000 "calls" [["calls" "enforce" "GCRA 10/m" 2 [0 10 3 -1 42000]]]]`},
		[2]string{"RL.CHECK w 1 path /chat REFUND", `[0 10 8 -1 12000 "calls"]`},
		[2]string{"RL.CHECK w 1 path /chat COST 9223372036854775807", `-ERR field "path": its weight, multiplied by the cost, is above 9223372036854775807`},
		// One state, whatever the request brings: what was used stays used.
		[2]string{"RL.CHECK q 2 user u quota 4", `[0 4 3 -1 20000 "brought"]`},
		[2]string{"RL.CHECK q 2 user u quota 9/m", `[0 5 3 -1 20000 "brought"]`},
		[2]string{"RL.CHECK q 1 user u", `[1 2 0 20000 20000 "brought"]`},
		[2]string{"RL.CHECK q 2 user u quota 3", `[0 3 0 -1 20000 "brought"]`},
		[2]string{"RL.CHECK q 2 user u quota x", `-ERR field "quota": the limit must be a count or a rate, such as 100 or 100/m, not "x"`},
		[2]string{"MULTI", "OK"},
		[2]string{"RL.CHECK q 2 user v quota 4", "QUEUED"},
		[2]string{"RL.CHECK q 2 user v quota 3", "QUEUED"},
		[2]string{"EXEC", `[[0 4 3 -1 20000 "brought"] [0 3 1 -1 20000 "brought"]]`},
		[2]string{"RL.RULES LIST q", `[["name" "brought" "mode" "enforce" "limit" "FIXED 2/m" "key" ["user"] "candidate" "" "match" [] "except" [] "plans" [] "overrides" 0 "cost" "" "weights" [] "limit_from" "quota" "at_most" "FIXED 5/m" "in_flight" "" "shard_by" ""]]`},
	)
}
