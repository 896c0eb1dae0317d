package keys

import (
	"bytes"
	"strconv"

	"limitdb/engine"
	"limitdb/internal/glob"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

// ErrOtherCursor is the error for the cursor of another table.
const ErrOtherCursor = handler.ErrCursor + ": it belongs to the table of another node, or to an earlier one. Begin again with 0"

// The handlers' t is nil outside of a transaction. In a transaction or a script, such a command is one atomic step of all
// shards, for tables of up to a million keys, and there are no cursors.

const (
	scanMost = 100_000 // the most of COUNT
	// WalkStep is how many slots of the table a step visits, under a shard's lock.
	WalkStep = 32
	// matchStep is the cost of the keys that a step matches with a pattern.
	matchStep = 256 << 10
)

// slots returns how many slots a step visits that matches keys with a pattern, which may be nil.
func slots(c *call, match *glob.Pattern) int {
	if match == nil {
		return WalkStep
	}
	return max(1, min(WalkStep, matchStep/match.Cost(int(c.Settings.MaxKeyLen.Get()))))
}

// wants reports whether SCAN returns a key.
func wants(a *handler.ScanArgs, key []byte, kind limit.Kind) bool {
	return (a.Match == nil || a.Match.Match(key)) && (a.Type == "" || a.Type == kind.TypeName())
}

// markBits is how many bits of a cursor say whose it is. Each node's table has the keys in other places.
const markBits = 15

// parseCursor parses the cursor of SCAN. In a cluster, it is the cursor of one table: with that of another, keys
// would be missed, so it is an error. text is the error.
func parseCursor(c *call, arg []byte) (cursor uint64, text string) {
	cursor, err := strconv.ParseUint(string(arg), 10, 64)
	switch {
	case err != nil:
		return 0, handler.ErrCursor
	case !c.Clustered || cursor == 0:
		return cursor, ""
	case cursor&(1<<markBits-1) != mark(c):
		return 0, ErrOtherCursor
	}
	return cursor >> markBits, ""
}

// mark is the part of a cursor that identifies its table.
func mark(c *call) uint64 { return uint64(c.States().Mark() >> (16 - markBits)) }

// cursorText returns the text of a cursor that SCAN replies with.
func cursorText(c *call, cursor uint64) string {
	if c.Clustered && cursor != 0 {
		cursor = cursor<<markBits | mark(c)
	}
	return strconv.FormatUint(cursor, 10)
}

func scan(c *call, t *txn) {
	cursor, text := parseCursor(c, c.Args[1])
	if text != "" {
		c.Fail(text)
		return
	}
	a, text := handler.ParseScan(c.Args[2:], true)
	if text != "" {
		c.Fail(text)
		return
	}
	if t != nil { // all keys at once: nothing may change between two calls
		c.Array(2)
		c.Text("0")
		eachKey(c, t, &a)
		return
	}
	var found []byte
	n, few := 0, slots(c, a.Match)
	visit := func(key []byte, info engine.Info) {
		if wants(&a, key, info.Kind) {
			found = resp.AppendBulk(found, key)
			n++
		}
	}
	left := int(min(a.Count, scanMost))
	c.InSteps(nil, func() bool {
		cursor = c.States().Range(c.Now, cursor, min(left, few), visit)
		c.Holds = int64(cap(found))
		if left -= few; left > 0 && cursor != 0 {
			return false
		}
		c.Array(2)
		c.Text(cursorText(c, cursor))
		c.Array(n)
		c.Out = append(c.Out, found...)
		return true
	})
}

func list(c *call, t *txn) {
	pattern, ok := glob.Compile(c.Args[1])
	if !ok {
		c.Fail(spec.ErrPatternTooLong)
		return
	}
	if t != nil {
		eachKey(c, t, &handler.ScanArgs{Match: pattern})
		return
	}
	var found []byte
	n, few, cursor, most := 0, slots(c, pattern), uint64(0), int(c.OutputLimit())
	visit := func(key []byte, _ engine.Info) {
		if len(found) <= most && pattern.Match(key) {
			found = resp.AppendBulk(found, key)
			n++
		}
	}
	c.InSteps(nil, func() bool {
		cursor = c.States().Range(c.Now, cursor, few, visit)
		c.Holds = int64(cap(found))
		switch {
		case len(found) > most:
			c.Fail("ERR the reply to KEYS would be over client-output-buffer-limit: use SCAN")
		case cursor != 0:
			return false
		default:
			c.Array(n)
			c.Out = append(c.Out, found...)
		}
		return true
	})
}

func random(c *call, t *txn) {
	if t != nil {
		randomIn(c, t)
		return
	}
	key, begin, ok := c.States().Random(c.Now, nil)
	if ok {
		c.Bulk(key)
		return
	}
	// Of many keys, few or none are left: take the first one from here on.
	visit := func(k []byte, _ engine.Info) {
		if !ok {
			key, ok = append(key[:0], k...), true
		}
	}
	cursor, wrapped := begin, false
	c.InSteps(nil, func() bool {
		cursor = c.States().Range(c.Now, cursor, WalkStep, visit)
		wrapped = wrapped || cursor == 0
		switch {
		case ok:
			c.Bulk(key)
		case wrapped && cursor >= begin:
			c.Null()
		default:
			return false
		}
		return true
	})
}

// flushEach removes the keys one by one. A Flush removes them shard by shard, and the followers
// of a node have other shards.
func flushEach(c *call) {
	var found [][]byte
	cursor := uint64(0)
	e := c.States()
	c.InSteps(nil, func() bool {
		found = found[:0]
		cursor = e.Range(c.Now, cursor, WalkStep, func(key []byte, _ engine.Info) {
			found = append(found, bytes.Clone(key))
		})
		for _, key := range found {
			e.Reset(c.Now, key)
		}
		if cursor != 0 {
			return false
		}
		c.OK()
		return true
	})
}

// eachKey replies with the keys that a wants.
func eachKey(c *call, t *txn, a *handler.ScanArgs) {
	var found []byte
	n, most, cost := 0, int(c.OutputLimit()), 0
	t.Each(func(key []byte, kind limit.Kind) bool {
		if a.Match != nil {
			cost += a.Match.Cost(len(key))
		}
		if cost > handler.MatchMost {
			t.End(engine.ErrTooMany)
			return false
		}
		if wants(a, key, kind) {
			found = resp.AppendBulk(found, key)
			n++
		}
		return len(found) <= most
	})
	if len(found) > most {
		c.Fail("ERR the reply would be over client-output-buffer-limit")
		return
	}
	c.Array(n)
	c.Out = append(c.Out, found...)
}

func randomIn(c *call, t *txn) {
	var some []byte
	t.Each(func(key []byte, _ limit.Kind) bool {
		some = bytes.Clone(key)
		return false
	})
	if some == nil {
		c.Null()
		return
	}
	c.Bulk(some)
}

func count(c *call, t *txn) {
	if t == nil {
		Sum(c, c.States(), func(sum *engine.Stats) { c.Int(sum.Keys) })
		return
	}
	n := int64(0)
	t.Each(func([]byte, limit.Kind) bool { n++; return true })
	c.Int(n)
}

// flushStep is how many shards are emptied in a step.
const flushStep = 8

func flushAll(c *call, t *txn) {
	switch {
	case len(c.Args) > 2 || len(c.Args) == 2 && !resp.EqualFold(c.Args[1], "ASYNC") && !resp.EqualFold(c.Args[1], "SYNC"):
		c.Fail(spec.ErrSyntax)
		return
	case t != nil:
		flushIn(c, t)
		return
	case c.Clustered:
		flushEach(c)
		return
	}
	flush := c.States().BeginFlush()
	c.InSteps(nil, func() bool {
		if !flush.Step(flushStep) {
			return false
		}
		c.OK()
		return true
	})
}

func flushIn(c *call, t *txn) {
	var keys [][]byte
	t.Each(func(key []byte, _ limit.Kind) bool {
		keys = append(keys, bytes.Clone(key))
		return len(keys) <= engine.MaxTxn
	})
	if len(keys) > engine.MaxTxn {
		t.End(engine.ErrTooMany)
		return
	}
	for _, key := range keys {
		t.Remove(key)
	}
	c.OK()
}
