package server

import (
	"math"

	"limitdb/resp"
	"limitdb/value"
)

// Sorted sets, in a plain form: a change takes time in proportion to the size of the set.
func sortedSetCommands() []command {
	members := argument{name: "member", kind: "string", multiple: true}
	bounds := func(kind string) []argument {
		return []argument{{name: "min", kind: kind}, {name: "max", kind: kind}}
	}
	limitWord := optional(argument{name: "limit", kind: "block", token: "LIMIT", args: []argument{integer("offset"), integer("count")}})
	row := func(name string, arity int, f flags, summary string, step func(*call, *txn), args ...argument) command {
		return onKey(name, arity, f, "sorted-set", summary, step, args...)
	}
	return []command{
		row("ZADD", -4, flagWrite|flagFast, "Adds members to a sorted set, or changes their scores.", (*call).zAdd,
			oneOf("condition", word("NX"), word("XX")), oneOf("comparison", word("GT"), word("LT")), optional(word("CH")), optional(word("INCR")),
			argument{name: "data", kind: "block", multiple: true, args: []argument{{name: "score", kind: "double"}, text("member")}}),
		row("ZINCRBY", 4, flagWrite|flagFast, "Adds to the score of a member of a sorted set.", (*call).zIncrBy, argument{name: "increment", kind: "double"}, text("member")),
		row("ZREM", -3, flagWrite|flagFast, "Removes members of a sorted set.", (*call).zRem, members),
		row("ZREMRANGEBYSCORE", 4, flagWrite, "Removes the members of a sorted set with scores in a range.", (*call).zRemRangeByScore, bounds("double")...),
		row("ZREMRANGEBYRANK", 4, flagWrite, "Removes the members of a sorted set with ranks in a range.", (*call).zRemRangeByRank, integer("start"), integer("stop")),
		row("ZCARD", 2, flagReadonly|flagFast, "Counts the members of a sorted set.", (*call).zCard),
		row("ZCOUNT", 4, flagReadonly|flagFast, "Counts the members of a sorted set with scores in a range.", (*call).zCount, bounds("double")...),
		row("ZSCORE", 3, flagReadonly|flagFast, "Returns the score of a member of a sorted set.", (*call).zScore, text("member")),
		row("ZMSCORE", -3, flagReadonly|flagFast, "Returns the scores of members of a sorted set.", (*call).zMScore, members),
		row("ZRANK", 3, flagReadonly|flagFast, "Returns the rank of a member of a sorted set.", (*call).zRank, text("member")),
		row("ZREVRANK", 3, flagReadonly|flagFast, "Returns the rank of a member of a sorted set, from the highest score.", (*call).zRevRank, text("member")),
		row("ZRANGE", -4, flagReadonly, "Returns members of a sorted set, by rank or by score.", func(c *call, t *txn) { c.zRange(t, zRangeArgs{options: 4}) },
			text("start"), text("stop"), optional(word("BYSCORE")), optional(word("REV")), limitWord, optional(word("WITHSCORES"))),
		row("ZREVRANGE", -4, flagReadonly, "Returns members of a sorted set by rank, from the highest score.", func(c *call, t *txn) { c.zRange(t, zRangeArgs{fixed: true, reverse: true, options: 4}) },
			integer("start"), integer("stop"), optional(word("WITHSCORES"))),
		row("ZRANGEBYSCORE", -4, flagReadonly, "Returns the members of a sorted set with scores in a range.", func(c *call, t *txn) { c.zRange(t, zRangeArgs{fixed: true, byScore: true, options: 4}) },
			append(bounds("double"), optional(word("WITHSCORES")), limitWord)...),
		row("ZREVRANGEBYSCORE", -4, flagReadonly, "Returns the members of a sorted set with scores in a range, from the highest score.", func(c *call, t *txn) {
			c.zRange(t, zRangeArgs{fixed: true, byScore: true, reverse: true, options: 4})
		},
			argument{name: "max", kind: "double"}, argument{name: "min", kind: "double"}, optional(word("WITHSCORES")), limitWord),
	}
}

// A collection that a command has opened.
type collection interface {
	Body() []byte
	Err() error
	Changed() bool
	Splices() []value.Splice
}

// putCollection makes the command's key hold what a collection has become, and reports whether
// it could. If not, it replies with the error.
func (c *call) putCollection(t *txn, it *item, typ value.Type, e collection) bool {
	if e.Err() != nil {
		c.fail(errCollectionTooLarge)
		return false
	}
	if e.Changed() || c.cmd.flags&flagTouches != 0 && it.exists() {
		c.put(t, c.args[1], &item{typ: typ, expires: it.expires, body: e.Body()})
	}
	return true
}

// score replies with a score.
func (c *call) score(x float64) {
	if c.proto == resp.RESP2 {
		var buf [32]byte
		c.bulk(value.AppendScore(buf[:0], x))
		return
	}
	c.out = append(value.AppendScore(append(c.out, ','), x), "\r\n"...)
}

// sortedSet opens the sorted set of the command's key.
func (c *call) sortedSet(t *txn) (z *value.SortedSetOf, it item, ok bool) {
	it, ok = c.of(t, c.args[1], value.SortedSet)
	return value.OpenSortedSet(it.body), it, ok
}

// zAddOption is a set of ZADD's options.
type zAddOption uint8

const (
	zAddNX zAddOption = 1 << iota
	zAddXX
	zAddGT
	zAddLT
	zAddCH
	zAddIncr
)

func zAddOptionOf(w []byte) zAddOption {
	switch {
	case foldEqual(w, "NX"):
		return zAddNX
	case foldEqual(w, "XX"):
		return zAddXX
	case foldEqual(w, "GT"):
		return zAddGT
	case foldEqual(w, "LT"):
		return zAddLT
	case foldEqual(w, "CH"):
		return zAddCH
	case foldEqual(w, "INCR"):
		return zAddIncr
	}
	return 0
}

// check returns the error for options that do not go together, or "".
func (o zAddOption) check(pairs int) string {
	switch {
	case o&zAddNX != 0 && o&zAddXX != 0:
		return "ERR XX and NX options at the same time are not compatible"
	case o&zAddNX != 0 && o&(zAddGT|zAddLT) != 0, o&zAddGT != 0 && o&zAddLT != 0:
		return "ERR GT, LT, and/or NX options at the same time are not compatible"
	case o&zAddIncr != 0 && pairs > 1:
		return "ERR INCR option supports a single increment-element pair"
	}
	return ""
}

func (c *call) zAdd(t *txn) { c.zAddWith(t, 0) }

func (c *call) zIncrBy(t *txn) { c.zAddWith(t, zAddIncr) }

func (c *call) zAddWith(t *txn, o zAddOption) {
	words := c.args[2:]
	for len(words) > 0 {
		option := zAddOptionOf(words[0])
		if option == 0 {
			break
		}
		o |= option
		words = words[1:]
	}
	if len(words) == 0 || len(words)%2 != 0 {
		c.fail(errSyntax)
		return
	}
	if text := o.check(len(words) / 2); text != "" {
		c.fail(text)
		return
	}
	scores := make([]float64, len(words)/2)
	for i := range scores {
		var err error
		if scores[i], err = value.ParseScore(words[2*i]); err != nil {
			c.fail(errNotFloat)
			return
		}
	}
	z, it, ok := c.sortedSet(t)
	if !ok {
		return
	}
	changed, processed := 0, false
	score := 0.0
	for i := range scores {
		added, updated, nop := false, false, false
		if score, added, updated, nop = o.apply(z, words[2*i+1], scores[i]); math.IsNaN(score) {
			c.failState("ERR resulting score is not a number (NaN)")
			return
		}
		if added || updated && o&zAddCH != 0 {
			changed++
		}
		processed = processed || !nop
	}
	switch {
	case !c.putCollection(t, &it, value.SortedSet, z):
	case o&zAddIncr == 0:
		c.int(int64(changed))
	case processed:
		c.score(score)
	default:
		c.null()
	}
}

// apply adds a member with a score as the options say. A score that is NaN has changed nothing.
func (o zAddOption) apply(z *value.SortedSetOf, member []byte, x float64) (score float64, added, updated, nop bool) {
	old, there := z.Score(member)
	switch {
	case there && o&zAddNX != 0, !there && o&zAddXX != 0:
		return x, false, false, true
	case !there:
		z.Set(member, x)
		return x, true, false, false
	}
	if o&zAddIncr != 0 {
		if x += old; math.IsNaN(x) {
			return x, false, false, true
		}
	}
	if o&zAddLT != 0 && x >= old || o&zAddGT != 0 && x <= old {
		return x, false, false, true
	}
	z.Set(member, x)
	return x, false, x != old, false
}

func (c *call) zRem(t *txn) {
	z, it, ok := c.sortedSet(t)
	if !ok {
		return
	}
	n := int64(0)
	for _, m := range c.args[2:] {
		if z.Remove(m) {
			n++
		}
	}
	if c.putCollection(t, &it, value.SortedSet, z) {
		c.int(n)
	}
}

// parseScores parses a range of scores. It returns the text of the error, or "".
func parseScores(low, high []byte) (r value.Scores, text string) {
	var err1, err2 error
	r.Min, r.MinOpen, err1 = value.ParseBound(low)
	r.Max, r.MaxOpen, err2 = value.ParseBound(high)
	if err1 != nil || err2 != nil {
		return r, "ERR min or max is not a float"
	}
	return r, ""
}

func (c *call) zRemRangeByScore(t *txn) {
	r, text := parseScores(c.args[2], c.args[3])
	if text != "" {
		c.fail(text)
		return
	}
	if z, it, ok := c.sortedSet(t); ok {
		c.removeSpan(t, &it, z, z.ByScore(r))
	}
}

// ranks parses two ranks. If it fails, it replies with the error.
func (c *call) ranks(low, high []byte) (start, stop int64, ok bool) {
	start, ok1 := resp.ParseInt(low)
	stop, ok2 := resp.ParseInt(high)
	if !ok1 || !ok2 {
		c.fail(errNotInt)
	}
	return start, stop, ok1 && ok2
}

func (c *call) zRemRangeByRank(t *txn) {
	start, stop, ok := c.ranks(c.args[2], c.args[3])
	if !ok {
		return
	}
	if z, it, ok := c.sortedSet(t); ok {
		c.removeSpan(t, &it, z, z.ByRank(start, stop))
	}
}

func (c *call) removeSpan(t *txn, it *item, z *value.SortedSetOf, s value.Span) {
	z.RemoveSpan(s)
	if c.putCollection(t, it, value.SortedSet, z) {
		c.int(int64(s.Count))
	}
}

func (c *call) zCard(t *txn) {
	if z, _, ok := c.sortedSet(t); ok {
		c.int(int64(z.Len()))
	}
}

func (c *call) zCount(t *txn) {
	r, text := parseScores(c.args[2], c.args[3])
	if text != "" {
		c.fail(text)
		return
	}
	if z, _, ok := c.sortedSet(t); ok {
		c.int(int64(z.ByScore(r).Count))
	}
}

func (c *call) zScore(t *txn) {
	if z, _, ok := c.sortedSet(t); ok {
		c.scoreOf(z, c.args[2])
	}
}

// scoreOf replies with a member's score, or null.
func (c *call) scoreOf(z *value.SortedSetOf, member []byte) {
	if x, ok := z.Score(member); ok {
		c.score(x)
		return
	}
	c.null()
}

func (c *call) zMScore(t *txn) {
	z, _, ok := c.sortedSet(t)
	if !ok {
		return
	}
	c.array(len(c.args) - 2)
	for _, m := range c.args[2:] {
		c.scoreOf(z, m)
	}
}

func (c *call) zRank(t *txn) { c.rank(t, false) }

func (c *call) zRevRank(t *txn) { c.rank(t, true) }

func (c *call) rank(t *txn, reverse bool) {
	z, _, ok := c.sortedSet(t)
	if !ok {
		return
	}
	switch n := z.Rank(c.args[2]); {
	case n < 0:
		c.null()
	case reverse:
		c.int(int64(z.Len() - 1 - n))
	default:
		c.int(int64(n))
	}
}

// zRangeArgs is what ZRANGE and its relatives ask for.
type zRangeArgs struct {
	fixed            bool // the command's name says all but the options of the reply
	byScore, reverse bool
	withScores       bool
	options          int // where the options begin
	offset, count    int64
}

// parse parses the options. It returns the text of the error, or "".
func (a *zRangeArgs) parse(words [][]byte) string {
	a.count = -1
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case foldEqual(w, "WITHSCORES"):
			a.withScores = true
		case foldEqual(w, "LIMIT") && i+2 < len(words):
			var ok1, ok2 bool
			a.offset, ok1 = resp.ParseInt(words[i+1])
			a.count, ok2 = resp.ParseInt(words[i+2])
			if !ok1 || !ok2 {
				return errNotInt
			}
			i += 2
		case foldEqual(w, "REV") && !a.fixed && !a.reverse:
			a.reverse = true
		case foldEqual(w, "BYSCORE") && !a.fixed && !a.byScore:
			a.byScore = true
		case foldEqual(w, "BYLEX") && !a.fixed:
			return "ERR limitdb has no BYLEX"
		default:
			return errSyntax
		}
	}
	if a.count != -1 && !a.byScore {
		return "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
	}
	return ""
}

func (c *call) zRange(t *txn, a zRangeArgs) {
	if text := a.parse(c.args[a.options:]); text != "" {
		c.fail(text)
		return
	}
	if !a.byScore {
		start, stop, ok := c.ranks(c.args[2], c.args[3])
		if !ok {
			return
		}
		if z, _, ok := c.sortedSet(t); ok {
			if a.reverse {
				start, stop = -1-stop, -1-start
			}
			a.offset = 0
			c.members(z, z.ByRank(start, stop), &a)
		}
		return
	}
	low, high := c.args[2], c.args[3]
	if a.reverse {
		low, high = high, low
	}
	r, text := parseScores(low, high)
	if text != "" {
		c.fail(text)
		return
	}
	if z, _, ok := c.sortedSet(t); ok {
		c.members(z, z.ByScore(r), &a)
	}
}

// members replies with the members of a span, as far as offset and count allow.
func (c *call) members(z *value.SortedSetOf, s value.Span, a *zRangeArgs) {
	skip, n := a.offset, int64(s.Count)
	if skip < 0 || skip >= n {
		skip = n
	}
	n -= skip
	if a.count >= 0 {
		n = min(n, a.count)
	}
	if size := int(n); a.withScores && c.proto == resp.RESP2 {
		c.array(2 * size)
	} else {
		c.array(size)
	}
	each := z.Each
	if a.reverse {
		each = z.EachBack
	}
	each(s, func(member []byte, score float64) bool {
		if skip > 0 {
			skip--
			return true
		}
		if n == 0 {
			return false
		}
		n--
		if a.withScores && c.proto != resp.RESP2 {
			c.array(2)
		}
		c.bulk(member)
		if a.withScores {
			c.score(score)
		}
		return true
	})
}
