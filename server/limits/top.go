package limits

import (
	"cmp"
	"slices"
	"strings"

	"limitdb/engine"
	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/handler"
	"limitdb/server/request"
	"limitdb/server/spec"
)

// topRows are the commands that show which keys are being limited now.
func topRows() []row {
	top := handler.Rows[call]("limiter", "O(n log n) for n keys that are followed, at most 12 for each shard", 0)(
		"RL.TOP", -1, spec.Readonly|spec.AllGroups, "Lists the keys that are now denied, or asked for, most often.", topKeys,
		spec.Argument{Name: "order", Kind: "oneof", Token: "BY", Optional: true, Args: []spec.Argument{spec.Word("LIMITED"), spec.Word("REQUESTS")}},
		spec.Argument{Name: "count", Kind: "integer", Token: "COUNT", Optional: true},
		spec.Argument{Name: "namespace", Kind: "string", Token: "NS", Optional: true},
		spec.Argument{Name: "rule", Kind: "string", Token: "RULE", Optional: true})
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
	in := q.filter()
	var top []engine.TopKey
	type table struct {
		*engine.Engine
		now int64
	}
	var of []table
	c.Engines(func(e *engine.Engine, now int64) { of = append(of, table{e, now}) })
	shard := 0
	if c.CostToHide(1) > 0 {
		asked := in
		in = func(key []byte, length int) bool {
			if cut := length > len(key); cut && c.HiddenCut(key) || !cut && c.Hidden(key) {
				return false
			}
			return asked == nil || asked(key, length)
		}
	}
	c.InSteps(nil, func() bool {
		if len(of) == 0 {
			c.Array(len(top))
			for _, k := range top {
				c.Array(2)
				c.Bulk(k.Key)
				c.Int(k.Count)
			}
			return true
		}
		if top, shard = of[0].AddTop(top, of[0].now, q.by, q.count, in, shard, topStep); shard > 0 {
			return false
		}
		of = of[1:]
		return false
	})
}

// JoinTop replies with what several nodes have replied to a command with these words.
func JoinTop(c *call, words [][]byte, all []resp.Value) {
	q, _ := parseTop(words[1:]) // it was parsed before
	slices.SortFunc(all, func(a, b resp.Value) int {
		return cmp.Or(cmp.Compare(b.Elems[1].Int, a.Elems[1].Int), strings.Compare(a.Elems[0].Text, b.Elems[0].Text))
	})
	all = all[:min(len(all), q.count)]
	c.Array(len(all))
	for _, v := range all {
		c.Array(2)
		c.Bulk([]byte(v.Elems[0].Text))
		c.Int(v.Elems[1].Int)
	}
}

// topQuery holds the arguments of RL.TOP.
type topQuery struct {
	by        engine.TopOrder
	count     int
	namespace []byte // nil: all
	rule      string // whose callers to list; "": all keys
}

// filter returns what AddTop needs to leave out other keys.
func (q *topQuery) filter() func(key []byte, length int) bool {
	switch ns := string(q.namespace); {
	case q.rule != "":
		return func(key []byte, _ int) bool { return rules.IsOf(key, ns, q.rule) }
	case q.namespace != nil:
		return engine.InNamespace(q.namespace)
	}
	return nil
}

// parseTop parses the arguments of RL.TOP. If it fails, text is the error.
func parseTop(words [][]byte) (q topQuery, text string) {
	q.count = topCount
	text = request.Options(words, "RL.TOP", q.set, "BY", "COUNT", "NS", "RULE")
	if text == "" && q.rule != "" && q.namespace == nil {
		text = "ERR RULE needs NS, the namespace of the rule"
	}
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
		q.count, text = parseCount(value)
		return text
	case "RULE":
		if q.rule = string(value); q.rule == "" {
			return "ERR RULE must be the name of a rule"
		}
	case "NS":
		q.namespace = append([]byte{}, value...)
	}
	return ""
}

// parseCount parses the value of COUNT. If it fails, text is the error.
func parseCount(word []byte) (n int, text string) {
	count, ok := resp.ParseInt(word)
	if !ok || count < 1 || count > topMaxCount {
		return 0, "ERR COUNT must be an integer from 1 to 1000: " + resp.Quote(word)
	}
	return int(count), ""
}
