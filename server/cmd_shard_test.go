package server

import (
	"strings"
	"testing"

	"limitdb/resp"
)

const shardRules = `version: 1
namespaces:
  llm:
    shard_by: tenant
    rules:
      - {name: all, limit: fixed 1000/h first}
      - {name: tokens, key: [tenant], limit: fixed 100/h first, cost: tokens}
      - {name: model, key: [model, tenant], limit: fixed 10/h first, in_flight: 5, lease: 1m}
`

// With shard_by, all that the server keeps of a caller is in one slot: what the rules count, its leases, its holds and its ids.
func TestShardBy(t *testing.T) {
	ts := withRules(t, shardRules)
	c := ts.client()
	const lacks = "-ERR the namespace has shard_by tenant: HOLD, COMMIT and CANCEL need that field"
	const noHold = "-NOHOLD nothing is known of this ID: it was never held, was settled over 30 s ago, or twice its TTL has passed"
	c.steps(ts,
		[2]string{"RL.CHECK llm 3 tenant a}b model m tokens 40 HOLD 1m ID {x}", `[0 5 4 -1 60000 "model" "{x}"]`},
		[2]string{"RL.CHECK llm 2 model m tokens 40 HOLD 1m ID {x}", lacks},
		[2]string{"RL.CHECK llm 1 tokens 4 COMMIT {x}", lacks},
		[2]string{"RL.CHECK llm 0 CANCEL {x}", lacks},
		[2]string{"RL.CHECK llm 2 tenant b tokens 4 COMMIT {x}", noHold},
		[2]string{"RL.CHECK llm 3 tenant a}b model m tokens 5 ONCE {y}", `[0 5 3 -1 60000 "model" "{y}"]`},
		[2]string{"RL.CHECK llm 3 tokens 5 tenant a}b model m ONCE {y}", `[0 5 3 -1 60000 "model" "{y}"]`},
		[2]string{"RL.CHECK llm 3 tenant a}b model m tokens 6 ONCE {y}", "-IDUSED this ID is that of another request; use a new ID for each request, and the same only to send it again"})
	slot, all, elsewhere := resp.Slot([]byte("a%7Db")), copied(t, ts.engine), []string(nil)
	for key := range all {
		key, _, _ := strings.Cut(key, " and beside it")
		if resp.Slot([]byte(key)) != slot && !strings.HasSuffix(key, ":llm:all") {
			elsewhere = append(elsewhere, key)
		}
	}
	if len(all) < 9 || len(elsewhere) > 0 {
		t.Errorf("of %d keys, those in another slot are %q", len(all), elsewhere)
	}
	c.steps(ts,
		[2]string{"RL.CHECK llm 2 tenant a}b tokens 30 COMMIT {x} EXPLAIN", `[0 0 10 8 3600000 "model" [[0 0 1000 998 3600000 "all"] [-10 0 100 65 3600000 "tokens"] [0 0 10 8 3600000 "model"]]]`},
		[2]string{"RL.CHECK llm 3 tenant a}b model m tokens 0 PEEK", `[0 5 3 -1 60000 "model" ""]`},
		[2]string{"RL.CHECK llm 1 tenant c CANCEL r1", `[0 0 -1 -1 0 ""]`},
		[2]string{"RL.CHECK llm 1 tenant c HOLD 1m ID r1", "-CANCELLED this ID was cancelled before it was held"})
}

// TestShardByLive adds shard_by to rules in force: their callers begin with a full limit, the rest stays as it was.
func TestShardByLive(t *testing.T) {
	ts := withRules(t, "version: 1\nnamespaces: {a: [{name: all, limit: fixed 9/h first}, {name: u, key: [u], limit: fixed 9/h first}]}")
	c := ts.client()
	const sharded = "version: 1\nnamespaces: {a: {shard_by: u, rules: [{name: all, limit: fixed 9/h first}, {name: u, key: [u], limit: fixed 9/h first}]}}"
	c.steps(ts, [2]string{"RL.CHECK a 1 u x COST 5", `[0 9 4 -1 3600000 "all"]`})
	c.inTurn(
		[]string{"RL.RULES", "VALIDATE", sharded, `["added" [] "changed" ["a/u"] "removed" [] "restarted" ["a/u"] "same" 1]`},
		[]string{"RL.RULES", "LOAD", sharded, `["added" [] "changed" ["a/u"] "removed" [] "restarted" ["a/u"] "same" 1]`})
	c.steps(ts,
		[2]string{"RL.CHECK a 1 u x PEEK", `[0 9 3 -1 3600000 "all"]`},
		[2]string{"RL.RULES INFO a u u x", "nil"},
		[2]string{"RL.CHECK a 1 u x COST 3", `[0 9 1 -1 3600000 "all"]`},
		[2]string{"RL.RULES RESET a u u x", "1"})
}
