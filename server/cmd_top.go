package server

import (
	"strings"

	"limitdb/engine"
	"limitdb/resp"
)

// topCommands are the commands that show which keys are being limited now.
func topCommands() []command {
	return []command{{
		name: "RL.TOP", example: "RL.TOP COUNT 20", arity: -1, flags: flagReadonly,
		group: "limiter", since: "1.0.0", complexity: "O(n log n) for n keys that are followed, at most 12 for each shard",
		summary: "Lists the keys that are denied, or asked for, most often now.",
		args: []argument{
			{name: "order", kind: "oneof", token: "BY", optional: true, args: []argument{
				{name: "limited", kind: "pure-token", token: "LIMITED"},
				{name: "requests", kind: "pure-token", token: "REQUESTS"},
			}},
			{name: "count", kind: "integer", token: "COUNT", optional: true},
			{name: "namespace", kind: "string", token: "NS", optional: true},
		},
		run: (*call).rlTop,
	}}
}

const (
	topCount    = 10
	topMaxCount = 1000
	topStep     = 16 // shards in a step
)

func (c *call) rlTop() {
	q, text := parseTop(c.args[1:])
	if text != "" {
		c.fail(text)
		return
	}
	var top []engine.TopKey
	table, shard := c.srv.states(), 0
	c.inSteps(nil, func() bool {
		if top, shard = table.AddTop(top, c.now, q.by, q.count, q.namespace, shard, topStep); shard > 0 {
			return false
		}
		c.array(len(top))
		for _, k := range top {
			c.array(2)
			c.bulk(k.Key)
			c.int(k.Count)
		}
		return true
	})
}

// topQuery holds the arguments of RL.TOP.
type topQuery struct {
	by        engine.TopOrder
	count     int
	namespace []byte // nil: all
}

// parseTop parses the arguments of RL.TOP. If it fails, text is the error.
func parseTop(words [][]byte) (q topQuery, text string) {
	q.count = topCount
	seen := map[string]bool{}
	for ; len(words) > 0; words = words[2:] {
		name := strings.ToUpper(string(words[0]))
		switch name {
		case "BY", "COUNT", "NS":
		default:
			return q, "ERR unknown option " + quoted(words[0]) + " for RL.TOP"
		}
		switch {
		case seen[name]:
			return q, "ERR syntax error: " + name + " is given twice"
		case len(words) < 2:
			return q, "ERR syntax error: " + name + " without its value"
		}
		seen[name] = true
		if text := q.set(name, words[1]); text != "" {
			return q, text
		}
	}
	return q, ""
}

func (q *topQuery) set(name string, value []byte) (text string) {
	switch name {
	case "BY":
		switch {
		case foldEqual(value, "LIMITED"):
			q.by = engine.ByLimited
		case foldEqual(value, "REQUESTS"):
			q.by = engine.ByRequests
		default:
			return "ERR BY must be LIMITED or REQUESTS: " + quoted(value)
		}
	case "COUNT":
		n, ok := resp.ParseInt(value)
		if !ok || n < 1 || n > topMaxCount {
			return "ERR COUNT must be an integer from 1 to 1000: " + quoted(value)
		}
		q.count = int(n)
	case "NS":
		q.namespace = append([]byte{}, value...)
	}
	return ""
}
