package server

import (
	"bytes"
	"strings"

	"limitdb/engine"
	"limitdb/internal/glob"
	"limitdb/limit"
	"limitdb/resp"
)

// Keys of every kind.
func keyCommands() []command {
	keys := []argument{{name: "key", kind: "key", multiple: true}}
	pattern := argument{name: "pattern", kind: "string", token: "MATCH", optional: true}
	flush := []argument{{name: "flush-type", kind: "oneof", optional: true, args: []argument{
		{name: "async", kind: "pure-token", token: "ASYNC"},
		{name: "sync", kind: "pure-token", token: "SYNC"},
	}}}
	many := func(name, summary string, f flags, run func(*call), atomic func(*call, *txn)) command {
		return command{
			name: name, arity: -2, flags: f | flagFast | flagWide, firstKey: 1, lastKey: -1, step: 1,
			group: "generic", since: "1.0.0", complexity: "O(n) for n keys", summary: summary, args: keys, run: run, atomic: atomic,
		}
	}
	return []command{
		removing(many("DEL", "Forgets keys; returns how many existed.", flagWrite, (*call).del, (*call).delIn)),
		removing(many("UNLINK", "Forgets keys; returns how many existed.", flagWrite, (*call).del, (*call).delIn)),
		many("EXISTS", "Counts the keys that exist; a key named twice counts twice.", flagReadonly|flagStaleRead, (*call).exists, (*call).existsIn),
		many("TOUCH", "Counts the keys that exist. This does not change a key.", flagReadonly|flagStaleRead, (*call).exists, (*call).existsIn),
		{
			name: "SCAN", arity: -2, flags: flagReadonly | flagStaleRead, group: "generic", since: "1.0.0",
			complexity: "O(1) for each call, O(n) for a whole iteration",
			summary:    "Iterates over the keys. A key that exists throughout is returned at least once.",
			args: []argument{
				{name: "cursor", kind: "integer"},
				pattern,
				{name: "count", kind: "integer", token: "COUNT", optional: true},
				{name: "type", kind: "string", token: "TYPE", optional: true},
			},
			run: (*call).scan, atomic: (*call).scanIn,
		},
		{
			name: "KEYS", arity: 2, flags: flagReadonly | flagStaleRead | flagDangerous, group: "generic", since: "1.0.0",
			complexity: "O(n) for n keys in the table",
			summary:    "Lists the keys that match a pattern of at most 1024 bytes. Other clients are served meanwhile; for large tables, use SCAN.",
			args:       []argument{{name: "pattern", kind: "string"}},
			run:        (*call).keys, atomic: (*call).keysIn,
		},
		{
			name: "RANDOMKEY", arity: 1, flags: flagReadonly | flagStaleRead, group: "generic", since: "1.0.0", complexity: "O(1)",
			summary: "Returns some key, or null.", run: (*call).randomKey, atomic: (*call).randomKeyIn,
		},
		{
			name: "DBSIZE", arity: 1, flags: flagReadonly | flagStaleRead | flagFast, group: "server", since: "1.0.0", complexity: "O(1)",
			summary: "Counts the keys.", run: (*call).dbSize, atomic: (*call).dbSizeIn,
		},
		{
			name: "FLUSHALL", arity: -1, flags: flagWrite | flagQuorum | flagDangerous, group: "server", since: "1.0.0", complexity: "O(1)",
			summary: "Forgets every key.", args: flush, run: (*call).flushAll, atomic: (*call).flushAllIn,
		},
		{
			name: "FLUSHDB", arity: -1, flags: flagWrite | flagQuorum | flagDangerous, group: "server", since: "1.0.0", complexity: "O(1)",
			summary: "Forgets every key.", args: flush, run: (*call).flushAll, atomic: (*call).flushAllIn,
		},
	}
}

// keysStep is how many keys a step looks up.
const keysStep = 64

// eachKey calls do for every key of the command, and replies with the number of keys for which
// do returned true.
func (c *call) eachKey(keys [][]byte, do func(key []byte) bool) {
	n := int64(0)
	count := func(i int) {
		if do(keys[i]) {
			n++
		}
	}
	lasting := func(from int) {
		keys = append(make([][]byte, from), cloneArgs(keys[from:])...)
		for _, k := range keys {
			c.holds += int64(len(k)) + 24
		}
	}
	c.eachStep(len(keys), keysStep, lasting, count, func() { c.int(n) })
}

func (c *call) del() {
	c.eachKey(c.args[1:], func(key []byte) bool { return c.srv.states().Reset(c.now, key) })
}

func (c *call) exists() {
	c.eachKey(c.args[1:], func(key []byte) bool {
		_, ok := c.states().Info(c.now, key)
		return ok
	})
}

// delIn is del in a transaction.
func (c *call) delIn(t *txn) {
	n := int64(0)
	for _, key := range c.args[1:] {
		if t.remove(key) {
			n++
		}
	}
	c.int(n)
}

// existsIn is exists in a transaction.
func (c *call) existsIn(t *txn) {
	n := int64(0)
	for _, key := range c.args[1:] {
		if kind, _ := t.get(key); kind != 0 {
			n++
		}
	}
	c.int(n)
}

// Walks of the table.
const (
	scanMost = 100_000 // the most of COUNT
	walkStep = 32      // slots of the table in a step, which are matched under a shard's lock
)

// scanArgs are the options of SCAN.
type scanArgs struct {
	count int64
	match *glob.Pattern // nil: any key
	kind  string        // "": any
}

// parseScan parses the options of SCAN. It returns the text of the error, or "".
func parseScan(words [][]byte) (a scanArgs, text string) {
	a.count = 10
	for ; len(words) > 0; words = words[2:] {
		if len(words) == 1 {
			return a, errSyntax
		}
		var ok bool
		switch v := words[1]; {
		case foldEqual(words[0], "MATCH"):
			if a.match, ok = glob.Compile(v); !ok {
				return a, errPatternTooLong
			}
		case foldEqual(words[0], "TYPE"):
			a.kind = strings.ToLower(string(v))
		case foldEqual(words[0], "COUNT"):
			if a.count, ok = resp.ParseInt(v); !ok {
				return a, errNotInt
			}
			if a.count < 1 {
				return a, errSyntax
			}
		default:
			return a, errSyntax
		}
	}
	return a, ""
}

// wants reports whether SCAN returns a key.
func (a *scanArgs) wants(key []byte, kind limit.Kind) bool {
	return (a.match == nil || a.match.Match(key)) && (a.kind == "" || a.kind == kind.TypeName())
}

func (c *call) scan() {
	cursor, text := c.scanCursor(c.args[1])
	if text != "" {
		c.fail(text)
		return
	}
	a, text := parseScan(c.args[2:])
	if text != "" {
		c.fail(text)
		return
	}
	var found []byte
	n := 0
	visit := func(key []byte, info engine.Info) {
		if a.wants(key, info.Kind) {
			found = resp.AppendBulk(found, key)
			n++
		}
	}
	left := int(min(a.count, scanMost))
	c.inSteps(nil, func() bool {
		cursor = c.states().Range(c.now, cursor, min(left, walkStep), visit)
		c.holds = int64(cap(found))
		if left -= walkStep; left > 0 && cursor != 0 {
			return false
		}
		c.array(2)
		c.text(c.scanText(cursor))
		c.array(n)
		c.out = append(c.out, found...)
		return true
	})
}

func (c *call) keys() {
	pattern, ok := glob.Compile(c.args[1])
	if !ok {
		c.fail(errPatternTooLong)
		return
	}
	var found []byte
	n, cursor, most := 0, uint64(0), int(c.outputLimit())
	visit := func(key []byte, _ engine.Info) {
		if len(found) <= most && pattern.Match(key) {
			found = resp.AppendBulk(found, key)
			n++
		}
	}
	c.inSteps(nil, func() bool {
		cursor = c.states().Range(c.now, cursor, walkStep, visit)
		c.holds = int64(cap(found))
		switch {
		case len(found) > most:
			c.fail("ERR the reply to KEYS would be over client-output-buffer-limit: use SCAN")
		case cursor != 0:
			return false
		default:
			c.array(n)
			c.out = append(c.out, found...)
		}
		return true
	})
}

func (c *call) randomKey() {
	key, begin, ok := c.states().Random(c.now, nil)
	if ok {
		c.bulk(key)
		return
	}
	// Few keys are left of many, or none: take the first one from here on.
	visit := func(k []byte, _ engine.Info) {
		if !ok {
			key, ok = append(key[:0], k...), true
		}
	}
	cursor, wrapped := begin, false
	c.inSteps(nil, func() bool {
		cursor = c.states().Range(c.now, cursor, walkStep, visit)
		wrapped = wrapped || cursor == 0
		switch {
		case ok:
			c.bulk(key)
		case wrapped && cursor >= begin:
			c.null()
		default:
			return false
		}
		return true
	})
}

// flushStep is how many shards are emptied in a step.
const flushStep = 8

// flushError returns the error for wrong arguments of FLUSHALL, or "".
func flushError(args [][]byte) string {
	if len(args) > 2 || len(args) == 2 && !foldEqual(args[1], "ASYNC") && !foldEqual(args[1], "SYNC") {
		return errSyntax
	}
	return ""
}

func (c *call) flushAll() {
	if text := flushError(c.args); text != "" {
		c.fail(text)
		return
	}
	if c.srv.opts.Replication != nil {
		c.flushEach()
		return
	}
	flush := c.srv.states().BeginFlush()
	c.inSteps(nil, func() bool {
		if !flush.Step(flushStep) {
			return false
		}
		c.ok()
		return true
	})
}

// flushEach removes the keys one by one. A Flush removes them shard by shard, and the followers
// of a node have other shards.
func (c *call) flushEach() {
	var found [][]byte
	cursor := uint64(0)
	e := c.srv.states()
	c.inSteps(nil, func() bool {
		found = found[:0]
		cursor = e.Range(c.now, cursor, walkStep, func(key []byte, _ engine.Info) {
			found = append(found, bytes.Clone(key))
		})
		for _, key := range found {
			e.Reset(c.now, key)
		}
		if cursor != 0 {
			return false
		}
		c.ok()
		return true
	})
}

// statsStep is how many shards' counters are added up in a step.
const statsStep = 1024

func (c *call) dbSize() {
	var sum engine.Stats
	shard := 0
	c.inSteps(nil, func() bool {
		if shard = c.states().AddStats(&sum, shard, statsStep); shard != 0 {
			return false
		}
		c.int(sum.Keys)
		return true
	})
}
