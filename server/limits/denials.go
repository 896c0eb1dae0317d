package limits

import (
	"strconv"

	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/denials"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

// denialRows are the commands that show why callers were denied.
func denialRows() []row {
	r := handler.Rows[call]("limiter", "O(n log n) for n denials that are kept, O(1) for those of a key", 0)(
		"RL.DENIALS", -1, spec.Readonly, "Lists the last denials, of a key or of all, the newest first.", listDenials,
		spec.Optional(spec.Text("key")),
		spec.Argument{Name: "count", Kind: "integer", Token: "COUNT", Optional: true})
	r.Example = "RL.DENIALS user:17"
	return []row{r}
}

// denialSets is how many sets of denials a step looks at.
const denialSets = 64

func listDenials(c *call) {
	key, n, text := parseDenials(c)
	log := c.Denials.Load()
	switch {
	case text != "":
		c.Fail(text)
		return
	case log == nil:
		c.Fail("ERR no denials are kept: set recent-denials to the number to keep")
		return
	case key != nil && c.Hidden(key):
		replyDenials(c, nil)
		return
	case key != nil:
		replyDenials(c, log.Of(key, n))
		return
	}
	var found []denials.Found
	set, sets, hidden := 0, denialSets, hiddenDenials(c)
	if hidden != nil {
		sets = max(1, sets/(1+c.CostToHide(1)))
	}
	c.InSteps(nil, func() bool {
		if found, set = log.AddLast(found, n, set, sets, hidden); set > 0 {
			return false
		}
		replyDenials(c, found)
		return true
	})
}

// hiddenDenials returns what reports which denials the client may not be shown: those of keys that it may not read. It returns nil if there are none.
func hiddenDenials(c *call) func(f denials.Found) bool {
	if c.CostToHide(1) == 0 {
		return nil
	}
	return func(f denials.Found) bool {
		if f.Own < len(f.Key) {
			return c.HiddenCut(f.Key[:f.Own])
		}
		return c.Hidden(f.Key)
	}
}

// parseDenials parses the arguments of RL.DENIALS. Their number tells a key from COUNT. If it fails, text is the error.
func parseDenials(c *call) (key []byte, n int, text string) {
	words := c.Args[1:]
	if len(words)%2 == 1 {
		key, words = words[0], words[1:]
	}
	switch {
	case len(words) == 0:
		return key, topCount, ""
	case len(words) > 2:
		return nil, 0, c.Command.WrongArity()
	case !resp.EqualFold(words[0], "COUNT"):
		return nil, 0, "ERR unknown option " + resp.Quote(words[0]) + " for RL.DENIALS"
	}
	n, text = parseCount(words[1])
	return key, n, text
}

func replyDenials(c *call, found []denials.Found) {
	c.Array(len(found))
	for i := range found {
		f := &found[i]
		c.Fields("time", f.At/1e6, "since", f.Since/1e6, "times", f.Times, "key", func() { c.Bulk(f.Key) },
			"namespace", f.Namespace, "rule", f.Rule, "limit", spelling(f), "cost", f.Cost, "left", f.Left,
			"wait", limit.Milliseconds(f.Wait), "why", f.Why.String(), "addr", f.From.Addr, "user", f.From.User)
	}
}

// spelling returns the limit that has denied, as a request would spell it.
func spelling(f *denials.Found) string {
	if f.Lease {
		return "LEASE " + strconv.FormatInt(f.Limit.Max, 10)
	}
	return f.Limit.String()
}
