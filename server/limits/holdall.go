package limits

import (
	"sync"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/request"
	"limitdb/server/spec"
)

// holdAllRows are the commands of holds on several keys under one id: all of them or none.
func holdAllRows() []row {
	held := severalKeys("RL.HOLDALL", "tpm:acme tpd:acme SLIDING 90000/m COST 4000 FIXED 2000000/d COST 4000 TTL 2m ID request-1", -9,
		"Takes an estimate from several limits at once, from all or from none.", nil,
		append([]spec.Argument{
			{Name: "limits", Kind: "block", Multiple: true, Args: request.Words(request.CostWord())},
			{Name: "ttl", Kind: "string", Token: "TTL"},
		}, heldWords()...)...)
	pool := new(sync.Pool)
	held.Prepare, held.Do = func(c *call) (handler.Prepared, string) { return prepareAll(c, pool, true) }, takeAll
	id := heldWords()[0]
	costs := spec.Argument{Name: "costs", Kind: "block", Token: "COST", Optional: true, Args: []spec.Argument{spec.Several(spec.Integer("cost"))}}
	return []row{
		held,
		severalKeys("RL.COMMITALL", "tpm:acme tpd:acme ID request-1 COST 2950", -5, "Settles a hold of several keys, on all or on none.", commitAll, id, costs),
		severalKeys("RL.CANCELALL", "tpm:acme tpd:acme ID request-1", -5, "Gives a hold of several keys back; returns how much of each.", cancelAll, id),
	}
}

// heldWords describe ID and ONEXPIRE.
func heldWords() []spec.Argument {
	return []spec.Argument{
		{Name: "id", Kind: "string", Token: "ID"},
		{Name: "onexpire", Kind: "oneof", Token: "ONEXPIRE", Optional: true, Args: []spec.Argument{spec.Word("KEEP"), spec.Word("RETURN")}},
	}
}

// severalKeys makes the row of a command on holds of several keys. words are what follows their number, 2, in an example.
func severalKeys(name, words string, arity int, summary string, do func(*call, *txn), args ...spec.Argument) row {
	r := handler.Rows[call]("limiter", "O(n log n) for n keys", spec.Write|spec.Fast|spec.MovableKeys|spec.Across|spec.Quorum|spec.Decides)(
		name, arity, 0, summary, nil, append([]spec.Argument{spec.Integer("numkeys"), spec.Several(spec.Key("key"))}, args...)...)
	r.Example, r.NumKeys, r.Do = name+" 2 "+words, 1, do
	return r
}

// settling is a parsed RL.COMMITALL or RL.CANCELALL.
type settling struct {
	keys  [][]byte
	id    []byte
	costs []int64
	done  []engine.Settlement
}

// parseSettling parses RL.COMMITALL or, if cancels is set, RL.CANCELALL.
func parseSettling(c *call, cancels bool) (s *settling, text string) {
	n, text := request.NumKeys(c.Args[1:])
	if text != "" {
		return nil, text
	}
	words := c.Args[2+n:]
	s = &settling{keys: c.Args[2 : 2+n], costs: make([]int64, n), done: make([]engine.Settlement, n)}
	if cancels && len(words) > 2 {
		return nil, "ERR syntax error: nothing follows ID id: " + resp.Quote(words[2])
	}
	s.id, text = request.ParseSettle(words, c.Command.Name, s.costs)
	return s, text
}

// settles parses a command that settles holds of several keys, has settle do so, and replies with what tell says of each.
func settles(c *call, t *txn, cancels bool, settle func(s *settling) (at int, err error), tell func(s *engine.Settlement)) {
	s, text := parseSettling(c, cancels)
	if text != "" {
		c.Fail(text)
		return
	}
	c.Worked(2 * int64(len(s.keys)))
	at, err := settle(s)
	if err != nil {
		if t.Note(err) != nil {
			c.Fail(takeAllError(t, err, at, &engine.Together{Keys: s.keys, Limits: limitsOf(s.done)}))
		}
		return
	}
	c.Array(len(s.keys))
	for i := range s.done {
		NoteSettled(c, s.keys[i], s.id, cancels, "", &s.done[i])
		tell(&s.done[i])
	}
}

// limitsOf returns the limits of settlements.
func limitsOf(all []engine.Settlement) []limit.Limit {
	limits := make([]limit.Limit, len(all))
	for i := range all {
		limits[i] = all[i].Limit
	}
	return limits
}

func commitAll(c *call, t *txn) {
	settles(c, t, false, func(s *settling) (int, error) { return engine.SettleAll(t.Txn, s.keys, s.id, s.costs, s.done) }, func(s *engine.Settlement) {
		c.Array(5)
		FiveSettled(c, s)
	})
}

func cancelAll(c *call, t *txn) {
	settles(c, t, true, func(s *settling) (int, error) { return engine.GiveUpAll(t.Txn, s.keys, s.id, s.done) }, func(s *engine.Settlement) {
		c.Int(max(0, -s.Charged))
	})
}

// FiveSettled replies with how a hold was settled: five integers, times in milliseconds rounded up.
func FiveSettled(c *call, s *engine.Settlement) {
	b := resp.AppendInt(c.Out, s.Charged)
	b = resp.AppendInt(b, s.Over)
	b = resp.AppendInt(b, s.Decision.Limit)
	b = resp.AppendInt(b, s.Decision.Remaining)
	c.Out = resp.AppendInt(b, limit.Milliseconds(s.Decision.Reset))
}
