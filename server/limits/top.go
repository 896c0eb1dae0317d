package limits

import (
	"limitdb/engine"
	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/request"
	"limitdb/server/spec"
)

// topRows are the commands that show which keys are being limited now.
func topRows() []row {
	top := handler.Rows[call]("limiter", "O(n log n) for n keys that are followed, at most 12 for each shard", 0)(
		"RL.TOP", -1, spec.Readonly, "Lists the keys that are now denied, or asked for, most often.", topKeys,
		spec.Argument{Name: "order", Kind: "oneof", Token: "BY", Optional: true, Args: []spec.Argument{spec.Word("LIMITED"), spec.Word("REQUESTS")}},
		spec.Argument{Name: "count", Kind: "integer", Token: "COUNT", Optional: true},
		spec.Argument{Name: "namespace", Kind: "string", Token: "NS", Optional: true})
	top.Example = "RL.TOP COUNT 20"
	return []row{top}
}

const (
	topCount    = 10
	topMaxCount = 1000
	topStep     = 16 // shards in a step
)

func topKeys(c *call) {
	q, text := parseTop(c.Args[1:])
	if text != "" {
		c.Fail(text)
		return
	}
	var top []engine.TopKey
	table, shard := c.States(), 0
	c.InSteps(nil, func() bool {
		if top, shard = table.AddTop(top, c.Now, q.by, q.count, q.namespace, shard, topStep); shard > 0 {
			return false
		}
		c.Array(len(top))
		for _, k := range top {
			c.Array(2)
			c.Bulk(k.Key)
			c.Int(k.Count)
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
	text = request.Options(words, "RL.TOP", q.set, "BY", "COUNT", "NS")
	return q, text
}

func (q *topQuery) set(name string, value []byte) (text string) {
	switch name {
	case "BY":
		switch {
		case resp.EqualFold(value, "LIMITED"):
			q.by = engine.ByLimited
		case resp.EqualFold(value, "REQUESTS"):
			q.by = engine.ByRequests
		default:
			return "ERR BY must be LIMITED or REQUESTS: " + resp.Quote(value)
		}
	case "COUNT":
		n, ok := resp.ParseInt(value)
		if !ok || n < 1 || n > topMaxCount {
			return "ERR COUNT must be an integer from 1 to 1000: " + resp.Quote(value)
		}
		q.count = int(n)
	case "NS":
		q.namespace = append([]byte{}, value...)
	}
	return ""
}
