package values

import (
	"math"

	"limitdb/resp"
	"limitdb/server/spec"
	"limitdb/value"
)

// Sorted sets, in a plain form: a change takes time in proportion to the size of the set.
func sortedSetRows() []Row {
	members := spec.Several(spec.Text("member"))
	bounds := func(kind string) []spec.Argument {
		return []spec.Argument{{Name: "min", Kind: kind}, {Name: "max", Kind: kind}}
	}
	limitWord := spec.Optional(spec.Argument{Name: "limit", Kind: "block", Token: "LIMIT", Args: []spec.Argument{spec.Integer("offset"), spec.Integer("count")}})
	row := func(name string, arity int, f spec.Flags, summary string, step func(*Call, *Txn), args ...spec.Argument) Row {
		return onKey(name, arity, f, "sorted-set", summary, step, args...)
	}
	return []Row{
		row("ZADD", -4, spec.Write|spec.Fast|spec.Wide, "Adds members to a sorted set, or changes their scores.", zAdd,
			spec.OneOf("condition", spec.Word("NX"), spec.Word("XX")), spec.OneOf("comparison", spec.Word("GT"), spec.Word("LT")), spec.Optional(spec.Word("CH")), spec.Optional(spec.Word("INCR")),
			spec.Argument{Name: "data", Kind: "block", Multiple: true, Args: []spec.Argument{{Name: "score", Kind: "double"}, spec.Text("member")}}).Uses("RW update"),
		row("ZINCRBY", 4, spec.Write|spec.Fast, "Adds to the score of a member of a sorted set.", zIncrBy, spec.Argument{Name: "increment", Kind: "double"}, spec.Text("member")),
		row("ZREM", -3, spec.Write|spec.Fast|spec.Wide, "Removes members of a sorted set.", zRem, members).Uses("RW delete"),
		row("ZREMRANGEBYSCORE", 4, spec.Write|spec.Ahead, "Removes the members of a sorted set with scores in a range.", zRemRangeByScore, bounds("double")...).Uses("RW delete"),
		row("ZREMRANGEBYRANK", 4, spec.Write|spec.Ahead, "Removes the members of a sorted set with ranks in a range.", zRemRangeByRank, spec.Integer("start"), spec.Integer("stop")).Uses("RW delete"),
		row("ZPOPMIN", -2, spec.Write|spec.Fast, "Removes members of a sorted set, from the lowest score, and returns them.", func(c *Call, t *Txn) { zPop(c, t, false) }, spec.Optional(spec.Integer("count"))).Uses("RW access delete"),
		row("ZPOPMAX", -2, spec.Write|spec.Fast, "Removes members of a sorted set, from the highest score, and returns them.", func(c *Call, t *Txn) { zPop(c, t, true) }, spec.Optional(spec.Integer("count"))).Uses("RW access delete"),
		scanRow("ZSCAN", "sorted-set", "Returns the members of a sorted set and their scores, by a pattern.", value.SortedSet, func(body []byte, reply func(name, other []byte)) {
			z := value.OpenSortedSet(body)
			z.Each(z.ByRank(0, -1), func(member []byte, score float64) bool {
				reply(member, value.AppendScore(nil, score))
				return true
			})
		}),
		row("ZCARD", 2, spec.Readonly|spec.Fast, "Counts the members of a sorted set.", zCard).Uses("RO"),
		row("ZCOUNT", 4, spec.Readonly|spec.Fast, "Counts the members of a sorted set with scores in a range.", zCount, bounds("double")...),
		row("ZSCORE", 3, spec.Readonly|spec.Fast, "Returns the score of a member of a sorted set.", zScore, spec.Text("member")),
		row("ZMSCORE", -3, spec.Readonly|spec.Fast|spec.Wide, "Returns the scores of members of a sorted set.", zMScore, members),
		row("ZRANK", 3, spec.Readonly|spec.Fast, "Returns the rank of a member of a sorted set.", zRank, spec.Text("member")),
		row("ZREVRANK", 3, spec.Readonly|spec.Fast, "Returns the rank of a member of a sorted set, from the highest score.", zRevRank, spec.Text("member")),
		row("ZRANGE", -4, spec.Readonly, "Returns members of a sorted set, by rank or by score.", func(c *Call, t *Txn) { zRange(c, t, zRangeArgs{options: 4}) },
			spec.Text("start"), spec.Text("stop"), spec.Optional(spec.Word("BYSCORE")), spec.Optional(spec.Word("REV")), limitWord, spec.Optional(spec.Word("WITHSCORES"))),
		row("ZREVRANGE", -4, spec.Readonly, "Returns members of a sorted set by rank, from the highest score.", func(c *Call, t *Txn) { zRange(c, t, zRangeArgs{fixed: true, reverse: true, options: 4}) },
			spec.Integer("start"), spec.Integer("stop"), spec.Optional(spec.Word("WITHSCORES"))),
		row("ZRANGEBYSCORE", -4, spec.Readonly, "Returns the members of a sorted set with scores in a range.", func(c *Call, t *Txn) { zRange(c, t, zRangeArgs{fixed: true, byScore: true, options: 4}) },
			append(bounds("double"), spec.Optional(spec.Word("WITHSCORES")), limitWord)...),
		row("ZREVRANGEBYSCORE", -4, spec.Readonly, "Returns the members of a sorted set with scores in a range, from the highest score.", func(c *Call, t *Txn) {
			zRange(c, t, zRangeArgs{fixed: true, byScore: true, reverse: true, options: 4})
		},
			spec.Argument{Name: "max", Kind: "double"}, spec.Argument{Name: "min", Kind: "double"}, spec.Optional(spec.Word("WITHSCORES")), limitWord),
	}
}

// A collection that a command has opened.
type collection interface {
	Body() []byte
	Err() error
	Changed() bool
	Splices() []value.Splice
	Late() bool
}

// putCollection puts the changed collection at the command's key, and reports whether it could.
// If not, it replies with the error.
func (c *Call) putCollection(t *Txn, it *Item, typ value.Type, e collection) bool {
	if e.Err() != nil {
		c.Fail(errCollectionTooLarge)
		return false
	}
	switch {
	case e.Changed():
		to := Item{Type: typ, Expires: it.Expires, Body: e.Body(), Late: e.Late()}
		if splices := e.Splices(); splices != nil {
			c.Change(t, c.Args[1], &to, splices)
		} else {
			c.Put(t, c.Args[1], &to)
		}
	case c.Command.Flags&spec.Touches != 0 && it.Exists():
		t.Touch(c.Args[1])
	}
	return true
}

// score replies with a score.
func (c *Call) score(x float64) {
	if c.Proto == resp.RESP2 {
		var buf [32]byte
		c.Bulk(value.AppendScore(buf[:0], x))
		return
	}
	c.Out = append(value.AppendScore(append(c.Out, ','), x), "\r\n"...)
}

// sortedSet opens the sorted set of the command's key.
func (c *Call) sortedSet(t *Txn) (z *value.SortedSetOf, it Item, ok bool) {
	it, ok = c.of(t, c.Args[1], value.SortedSet)
	return value.OpenSortedSet(it.Body), it, ok
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
	case resp.EqualFold(w, "NX"):
		return zAddNX
	case resp.EqualFold(w, "XX"):
		return zAddXX
	case resp.EqualFold(w, "GT"):
		return zAddGT
	case resp.EqualFold(w, "LT"):
		return zAddLT
	case resp.EqualFold(w, "CH"):
		return zAddCH
	case resp.EqualFold(w, "INCR"):
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

func zAdd(c *Call, t *Txn) { zAddWith(c, t, 0) }

func zIncrBy(c *Call, t *Txn) { zAddWith(c, t, zAddIncr) }

func zAddWith(c *Call, t *Txn, o zAddOption) {
	words := c.Args[2:]
	for len(words) > 0 {
		option := zAddOptionOf(words[0])
		if option == 0 {
			break
		}
		o |= option
		words = words[1:]
	}
	if len(words) == 0 || len(words)%2 != 0 {
		c.Fail(spec.ErrSyntax)
		return
	}
	if text := o.check(len(words) / 2); text != "" {
		c.Fail(text)
		return
	}
	scores := make([]float64, len(words)/2)
	for i := range scores {
		var err error
		if scores[i], err = value.ParseScore(words[2*i]); err != nil {
			c.Fail(errNotFloat)
			return
		}
	}
	z, it, ok := c.sortedSet(t)
	if !ok {
		return
	}
	changed, processed := 0, false
	score := 0.0
	members := z.Find(words[1:], 2)
	for i := range scores {
		added, updated, nop := false, false, false
		if score, added, updated, nop = o.apply(&members[members[i].Same], scores[i]); math.IsNaN(score) {
			c.Fail("ERR resulting score is not a number (NaN)")
			return
		}
		if added || updated && o&zAddCH != 0 {
			changed++
		}
		processed = processed || !nop
	}
	z.Put(members)
	switch {
	case !c.putCollection(t, &it, value.SortedSet, z):
	case o&zAddIncr == 0:
		c.Int(int64(changed))
	case processed:
		c.score(score)
	default:
		c.Null()
	}
}

// apply gives a member a score as the options say. A score that is NaN has changed nothing.
func (o zAddOption) apply(p *value.Place, x float64) (score float64, added, updated, nop bool) {
	switch {
	case p.There && o&zAddNX != 0, !p.There && o&zAddXX != 0:
		return x, false, false, true
	case !p.There:
		p.There, p.Score = true, x
		return x, true, false, false
	}
	if o&zAddIncr != 0 {
		if x += p.Score; math.IsNaN(x) {
			return x, false, false, true
		}
	}
	if o&zAddLT != 0 && x >= p.Score || o&zAddGT != 0 && x <= p.Score {
		return x, false, false, true
	}
	updated = x != p.Score
	p.Score = x
	return x, false, updated, false
}

func zRem(c *Call, t *Txn) {
	z, it, ok := c.sortedSet(t)
	if !ok {
		return
	}
	n := z.Remove(c.Args[2:]...)
	if c.putCollection(t, &it, value.SortedSet, z) {
		c.Int(int64(n))
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

func zRemRangeByScore(c *Call, t *Txn) {
	r, text := parseScores(c.Args[2], c.Args[3])
	if text != "" {
		c.Fail(text)
		return
	}
	if z, it, ok := c.sortedSet(t); ok {
		removeSpan(c, t, &it, z, z.ByScore(r))
	}
}

// ranks parses two ranks. If it fails, it replies with the error.
func (c *Call) ranks(low, high []byte) (start, stop int64, ok bool) {
	start, ok1 := resp.ParseInt(low)
	stop, ok2 := resp.ParseInt(high)
	if !ok1 || !ok2 {
		c.Fail(spec.ErrNotInt)
	}
	return start, stop, ok1 && ok2
}

func zRemRangeByRank(c *Call, t *Txn) {
	start, stop, ok := c.ranks(c.Args[2], c.Args[3])
	if !ok {
		return
	}
	if z, it, ok := c.sortedSet(t); ok {
		removeSpan(c, t, &it, z, z.ByRank(start, stop))
	}
}

func removeSpan(c *Call, t *Txn, it *Item, z *value.SortedSetOf, s value.Span) {
	z.RemoveSpan(s)
	if c.putCollection(t, it, value.SortedSet, z) {
		c.Int(int64(s.Count))
	}
}

func zPop(c *Call, t *Txn, highest bool) {
	count, many := int64(1), len(c.Args) == 3
	if len(c.Args) > 3 {
		c.Fail(spec.ErrSyntax)
		return
	}
	if many {
		var ok bool
		if count, ok = resp.ParseInt(c.Args[2]); !ok || count < 0 {
			c.Fail("ERR value is out of range, must be positive")
			return
		}
	}
	z, it, ok := c.sortedSet(t)
	if !ok {
		return
	}
	count = min(count, int64(z.Len()))
	span := z.ByRank(0, count-1)
	if highest {
		span = z.ByRank(-count, -1)
	}
	if count == 0 {
		span = value.Span{}
	}
	nested := many && c.Proto != resp.RESP2
	if n := int(count); nested {
		c.Array(n)
	} else {
		c.Array(2 * n)
	}
	each := z.Each
	if highest {
		each = z.EachBack
	}
	each(span, func(member []byte, score float64) bool {
		if nested {
			c.Array(2)
		}
		c.Bulk(member)
		c.score(score)
		return true
	})
	if c.Worked(count); count > 0 {
		z.RemoveSpan(span)
		c.putCollection(t, &it, value.SortedSet, z)
	}
}

func zCard(c *Call, t *Txn) {
	if z, _, ok := c.sortedSet(t); ok {
		c.Int(int64(z.Len()))
	}
}

func zCount(c *Call, t *Txn) {
	r, text := parseScores(c.Args[2], c.Args[3])
	if text != "" {
		c.Fail(text)
		return
	}
	if z, _, ok := c.sortedSet(t); ok {
		c.Int(int64(z.ByScore(r).Count))
	}
}

func zScore(c *Call, t *Txn) {
	if z, _, ok := c.sortedSet(t); ok {
		c.scoreOf(&z.Find(c.Args[2:], 1)[0])
	}
}

// scoreOf replies with a member's score, or null.
func (c *Call) scoreOf(p *value.Place) {
	if p.There {
		c.score(p.Score)
		return
	}
	c.Null()
}

func zMScore(c *Call, t *Txn) {
	z, _, ok := c.sortedSet(t)
	if !ok {
		return
	}
	members := z.Find(c.Args[2:], 1)
	c.Array(len(members))
	for i := range members {
		c.scoreOf(&members[members[i].Same])
	}
}

func zRank(c *Call, t *Txn) { rank(c, t, false) }

func zRevRank(c *Call, t *Txn) { rank(c, t, true) }

func rank(c *Call, t *Txn, reverse bool) {
	z, _, ok := c.sortedSet(t)
	if !ok {
		return
	}
	switch n := z.Rank(c.Args[2]); {
	case n < 0:
		c.Null()
	case reverse:
		c.Int(int64(z.Len() - 1 - n))
	default:
		c.Int(int64(n))
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
		case resp.EqualFold(w, "WITHSCORES"):
			a.withScores = true
		case resp.EqualFold(w, "LIMIT") && i+2 < len(words):
			var ok1, ok2 bool
			a.offset, ok1 = resp.ParseInt(words[i+1])
			a.count, ok2 = resp.ParseInt(words[i+2])
			if !ok1 || !ok2 {
				return spec.ErrNotInt
			}
			i += 2
		case resp.EqualFold(w, "REV") && !a.fixed && !a.reverse:
			a.reverse = true
		case resp.EqualFold(w, "BYSCORE") && !a.fixed && !a.byScore:
			a.byScore = true
		case resp.EqualFold(w, "BYLEX") && !a.fixed:
			return "ERR limitdb has no BYLEX"
		default:
			return spec.ErrSyntax
		}
	}
	if a.count != -1 && !a.byScore {
		return "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
	}
	return ""
}

func zRange(c *Call, t *Txn, a zRangeArgs) {
	if text := a.parse(c.Args[a.options:]); text != "" {
		c.Fail(text)
		return
	}
	if !a.byScore {
		start, stop, ok := c.ranks(c.Args[2], c.Args[3])
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
	low, high := c.Args[2], c.Args[3]
	if a.reverse {
		low, high = high, low
	}
	r, text := parseScores(low, high)
	if text != "" {
		c.Fail(text)
		return
	}
	if z, _, ok := c.sortedSet(t); ok {
		c.members(z, z.ByScore(r), &a)
	}
}

// members replies with the members of a span, as far as offset and count allow.
func (c *Call) members(z *value.SortedSetOf, s value.Span, a *zRangeArgs) {
	skip, n := a.offset, int64(s.Count)
	if skip < 0 || skip >= n {
		skip = n
	}
	n -= skip
	if a.count >= 0 {
		n = min(n, a.count)
	}
	if size := int(n); a.withScores && c.Proto == resp.RESP2 {
		c.Array(2 * size)
	} else {
		c.Array(size)
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
		if a.withScores && c.Proto != resp.RESP2 {
			c.Array(2)
		}
		c.Bulk(member)
		if a.withScores {
			c.score(score)
		}
		return true
	})
}
