package server

import (
	"bytes"

	"limitdb/internal/glob"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/values"
)

// Commands on all keys in a transaction or a script: one atomic step of all shards, for tables of
// up to a million keys. They have no cursors.

// found replies with the keys for which wants returns true.
func (c *call) found(t *values.Txn, wants func(key []byte, kind limit.Kind) bool) {
	var found []byte
	n, most := 0, int(c.outputLimit())
	t.Each(func(key []byte, kind limit.Kind) bool {
		if wants(key, kind) {
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

func (c *call) keysIn(t *values.Txn) {
	pattern, ok := glob.Compile(c.Args[1])
	if !ok {
		c.Fail(errPatternTooLong)
		return
	}
	c.found(t, func(key []byte, _ limit.Kind) bool { return pattern.Match(key) })
}

// scanIn returns all keys at once: nothing may change between two calls.
func (c *call) scanIn(t *values.Txn) {
	if !isCursor(c.Args[1]) {
		c.Fail(errInvalidCursor)
		return
	}
	a, text := parseScan(c.Args[2:])
	if text != "" {
		c.Fail(text)
		return
	}
	c.Array(2)
	c.Text("0")
	c.found(t, a.wants)
}

// isCursor reports whether b is a number of digits.
func isCursor(b []byte) bool {
	return len(b) > 0 && len(bytes.Trim(b, "0123456789")) == 0
}

func (c *call) randomKeyIn(t *values.Txn) {
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

func (c *call) dbSizeIn(t *values.Txn) {
	n := int64(0)
	t.Each(func([]byte, limit.Kind) bool { n++; return true })
	c.Int(n)
}

func (c *call) flushAllIn(t *values.Txn) {
	if text := flushError(c.Args); text != "" {
		c.Fail(text)
		return
	}
	var keys [][]byte
	t.Each(func(key []byte, _ limit.Kind) bool {
		keys = append(keys, bytes.Clone(key))
		return true
	})
	for _, key := range keys {
		t.Remove(key)
	}
	c.OK()
}
