package keys

import (
	"bytes"
	"math"
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

// A walk by itself locks nothing between two parts of the table. In a transaction or a script, it is one atomic step of all
// shards, for tables of up to a million keys, and there are no cursors.

const (
	scanMost = 100_000 // the most of COUNT
	// WalkStep is how many slots of the table a step visits, under a shard's lock.
	WalkStep = 32
	// matchStep is the cost of the keys that a step matches with a pattern.
	matchStep = 256 << 10
)

// markBits returns how many bits of a cursor say whose it is. Each node's table has the keys in other places.
func markBits(c *call) int {
	if len(c.Groups) > 0 {
		return 16 - handler.GroupBits
	}
	return 15
}

// parseCursor parses the cursor of SCAN. In a cluster, it is the cursor of one table: with that of another, keys
// would be missed, so it is an error. text is the error.
func parseCursor(c *call, arg []byte) (_ uint64, text string) {
	cursor, err := strconv.ParseUint(string(arg), 10, 64)
	switch {
	case err != nil:
		return 0, handler.ErrCursor
	case len(c.Groups) > 0:
		i := cursor & (1<<handler.GroupBits - 1)
		if i >= uint64(len(c.Groups)) {
			return 0, ErrOtherCursor
		}
		cursor, ok := unmarked(c, cursor>>handler.GroupBits, c.Groups[i])
		if !ok {
			return 0, ErrOtherCursor
		}
		return cursor<<handler.GroupBits | i, ""
	}
	cursor, ok := unmarked(c, cursor, c.Group)
	if !ok {
		return 0, ErrOtherCursor
	}
	return cursor, ""
}

// unmarked returns the cursor of a group's table without its mark, and false if it is another table's. Its beginning is any table's.
func unmarked(c *call, cursor uint64, g *handler.Group) (uint64, bool) {
	if !c.Clustered || cursor == 0 {
		return cursor, true
	}
	bits := markBits(c)
	return cursor >> bits, g != nil && cursor&(1<<bits-1) == mark(c, g)
}

// mark is the part of a cursor that identifies its table.
func mark(c *call, g *handler.Group) uint64 {
	e := c.Table
	if e == nil {
		e = g.Engine.Load()
	}
	return uint64(e.Mark() >> (16 - markBits(c)))
}

// cursorText returns the text of a cursor that SCAN replies with.
func cursorText(c *call, cursor uint64) string {
	marked := func(cursor uint64, g *handler.Group) uint64 {
		if c.Clustered && cursor != 0 {
			cursor = cursor<<markBits(c) | mark(c, g)
		}
		return cursor
	}
	if len(c.Groups) > 0 {
		i := cursor & (1<<handler.GroupBits - 1)
		cursor = marked(cursor>>handler.GroupBits, c.Groups[i])<<handler.GroupBits | i
	} else {
		cursor = marked(cursor, c.Group)
	}
	return strconv.FormatUint(cursor, 10)
}

// found collects the keys that a walk is for, as a reply.
type found struct {
	*call
	keys keyspace
	want handler.ScanArgs
	b    []byte
	n    int
	most int // bytes of b
}

// visit is for Keyspace.Range.
func (f *found) visit(key []byte, kind limit.Kind) (more bool) {
	switch m := f.want.Match; {
	case len(f.b) > f.most, !f.keys.Spend(f.cost(len(key))):
		return false
	case m != nil && !m.Match(key), f.Hidden(key), f.want.Type != "" && f.want.Type != kind.TypeName():
		return true
	}
	f.b = resp.AppendBulk(f.b, key)
	f.n++
	return true
}

// cost returns about how long it takes to match a key of n bytes with the pattern that is asked for, and with those of the user.
func (f *found) cost(n int) (cost int) {
	if f.want.Match != nil {
		cost = f.want.Match.Cost(n)
	}
	return cost + f.CostToHide(n)
}

// reply replies with the keys.
func (f *found) reply() {
	f.Array(f.n)
	f.Out = append(f.Out, f.b...)
}

// slots returns how many slots a step visits.
func (f *found) slots() int {
	return max(1, min(WalkStep, matchStep/max(1, f.cost(int(f.Settings.MaxKeyLen.Get())))))
}

// walk visits about count slots from a cursor on, in steps, and then replies: with the next cursor first if that is to be told.
func (f *found) walk(cursor uint64, count int, tell bool) {
	c, few := f.call, f.slots()
	f.most = int(c.OutputLimit())
	c.InSteps(nil, func() bool {
		before := cursor
		cursor = f.keys.Range(cursor, min(count, few), f.visit)
		c.Holds = int64(cap(f.b))
		switch count -= few; {
		case len(f.b) > f.most:
			c.Fail("ERR the reply would be over client-output-buffer-limit: use SCAN by itself, with a smaller COUNT")
			return true
		case count > 0 && cursor != 0 && !(tell && nextGroup(c, before, cursor)):
			return false
		}
		if tell {
			c.Array(2)
			c.Text(cursorText(c, cursor))
		}
		f.reply()
		return true
	})
}

// nextGroup reports whether a walk has come to the next group, which another node may lead.
func nextGroup(c *call, before, after uint64) bool {
	return len(c.Groups) > 0 && (before^after)&(1<<handler.GroupBits-1) != 0
}

func scan(c *call, keys keyspace) {
	cursor, text := parseCursor(c, c.Args[1])
	if text != "" {
		c.Fail(text)
		return
	}
	f := found{call: c, keys: keys}
	if f.want, text = handler.ParseScan(c.Args[2:], true); text != "" {
		c.Fail(text)
		return
	}
	f.walk(cursor, int(min(f.want.Count, scanMost)), true)
}

func list(c *call, keys keyspace) {
	f := found{call: c, keys: keys}
	var ok bool
	if f.want.Match, ok = glob.Compile(c.Args[1]); !ok {
		c.Fail(spec.ErrPatternTooLong)
		return
	}
	f.walk(0, math.MaxInt, false)
}

func random(c *call, keys keyspace) {
	key, begin, ok := keys.Random()
	if ok && c.Hidden(key) { // one that the user may read comes after it
		key, ok = nil, false
	}
	if ok {
		c.Bulk(key)
		return
	}
	// Of many keys, few or none are left: take the first one from here on.
	visit := func(k []byte, _ limit.Kind) bool {
		if !keys.Spend(c.CostToHide(len(k))) {
			return false
		}
		if c.Hidden(k) {
			return true
		}
		key, ok = append(key[:0], k...), true
		return false
	}
	cursor, wrapped := begin, false
	c.InSteps(nil, func() bool {
		cursor = keys.Range(cursor, WalkStep, visit)
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

func count(c *call, keys keyspace) {
	all, part := int64(0), 0
	c.InSteps(nil, func() bool {
		n, next := keys.CountKeys(part)
		all, part = all+n, next
		if part == 0 {
			c.Int(all)
		}
		return part == 0
	})
}

// flushStep is how many shards are emptied in a step.
const flushStep = 8

func flushAll(c *call, keys keyspace) {
	if len(c.Args) > 2 || len(c.Args) == 2 && !resp.EqualFold(c.Args[1], "ASYNC") && !resp.EqualFold(c.Args[1], "SYNC") {
		c.Fail(spec.ErrSyntax)
		return
	}
	free, ok := keys.Flush()
	if !ok {
		flushEach(c, keys)
		return
	}
	c.InSteps(nil, func() bool {
		if !free(flushStep) {
			return false
		}
		c.OK()
		return true
	})
}

// flushEach forgets the keys one by one, with the ids beside them.
func flushEach(c *call, keys keyspace) {
	var found [][]byte
	cursor := uint64(0)
	c.InSteps(nil, func() bool {
		found = found[:0]
		cursor = keys.Records(cursor, WalkStep, func(key []byte, _ limit.Kind) bool {
			found = append(found, bytes.Clone(key))
			return len(found) <= engine.MaxTxn // a step can remove as many
		})
		for _, key := range found {
			keys.Forget(key)
		}
		if cursor != 0 {
			return false
		}
		c.OK()
		return true
	})
}
