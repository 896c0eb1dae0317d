package server

import (
	"strconv"
	"strings"
	"sync"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/spec"
)

// takeAllCommands are the commands that take from several limits in one step, from all or none.
func takeAllCommands() []command {
	return []command{{
		Command: spec.Command{
			Name: "RL.TAKEALL", Example: "RL.TAKEALL 2 user:17 all GCRA 100/m GCRA 5000/m", Arity: -5, Flags: spec.Write | spec.Fast | spec.MovableKeys, NumKeys: 1,
			Group: "limiter", Since: "1.0.0", Complexity: "O(n log n) for n keys",
			Summary: "Takes from several limits at once, from all or from none.",
			Args: []spec.Argument{
				{Name: "numkeys", Kind: "integer"},
				{Name: "key", Kind: "key", Multiple: true},
				{Name: "limits", Kind: "block", Multiple: true, Args: limitWords(costWord())},
			},
		},
		run: (*call).rlTakeAll, atomic: (*call).rlTakeAllIn,
	}}
}

// together holds the limits and the decisions of an RL.TAKEALL, without its keys.
type together struct {
	limits [engine.MaxAll]limit.Limit
	costs  [engine.MaxAll]int64
	ds     [engine.MaxAll]limit.Decision
}

// togetherPool lends a together for one command.
type togetherPool struct{ pool sync.Pool }

func (p *togetherPool) get() *together {
	if t, ok := p.pool.Get().(*together); ok {
		return t
	}
	return new(together)
}

func (p *togetherPool) put(t *together) { p.pool.Put(t) }

func (c *call) rlTakeAll() {
	n, text := numKeys(c.Args[1:])
	if text != "" {
		c.Fail(text)
		return
	}
	keys, words := c.Args[2:2+n], c.Args[2+n:]
	t := c.srv.together.get()
	defer c.srv.together.put(t)
	if text := t.parse(&c.srv.zones, n, words); text != "" {
		c.Fail(text)
		return
	}
	at, err := c.srv.states().TakeAll(c.Now, keys, t.limits[:n], t.costs[:n], t.ds[:n])
	c.worked(int64(n))
	if err != nil {
		c.Fail(c.takeAllError(err, at, keys, t.limits[:n]))
		return
	}
	for i := range n {
		if c.srv.decisions != nil {
			c.log(keys[i], t.costs[i], &t.ds[i])
		}
	}
	c.Array(2 + n)
	if at < 0 {
		c.Int(0)
	} else {
		c.Int(1)
	}
	c.Int(int64(at))
	for i := range n {
		c.decisionMillis(&t.ds[i])
	}
}

// numKeys parses the number of keys and checks that as many words follow.
func numKeys(words [][]byte) (n int, text string) {
	many, ok := resp.ParseInt(words[0])
	switch {
	case !ok || many < 1 || many > engine.MaxAll:
		return 0, "ERR numkeys must be an integer from 1 to " + strconv.Itoa(engine.MaxAll) + ": " + resp.Quote(words[0])
	case many > int64(len(words)-1):
		return 0, "ERR numkeys is " + strconv.Itoa(int(many)) + ", but " + strconv.Itoa(len(words)-1) + " words follow"
	}
	return int(many), ""
}

// parse parses n limits. Each extends from its algorithm's name to that of the next.
func (t *together) parse(zones *limit.Zones, n int, words [][]byte) (text string) {
	for i := range n {
		if len(words) == 0 {
			return "ERR " + plural(n, "key") + " and " + plural(i, "limit") + ": give as many limits as keys"
		}
		var a limitArgs
		used, text := parseLimit(zones, words, ownCost, &a)
		words = words[used:]
		if text == "" && len(words) > 0 {
			if _, ok := limit.Lookup(words[0]); !ok {
				text = errUnknownOption(words[0], &a, ownCost)
			}
		}
		if text != "" {
			return "ERR limit " + strconv.Itoa(i+1) + " of " + strconv.Itoa(n) + ": " + strings.TrimPrefix(text, "ERR ")
		}
		t.limits[i], t.costs[i] = a.limit, a.cost
	}
	if len(words) > 0 {
		return "ERR " + plural(n, "key") + " and one more limit: give as many limits as keys: " + resp.Quote(words[0])
	}
	return ""
}

// takeAllError returns the reply for an error of the key or the limit at index at.
func (c *call) takeAllError(err error, at int, keys [][]byte, limits []limit.Limit) string {
	text := limitError(err)
	switch {
	case at < 0 || text == errOOM:
		return text
	case err == engine.ErrDuplicate:
		return "ERR a key is given twice: " + resp.Quote(keys[at])
	}
	return c.limitErrorOf(err, keys[at], limits[at].Algorithm.Kind()) + ": " + resp.Quote(keys[at])
}

// plural returns a number and a noun: 1 key, 2 keys.
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
