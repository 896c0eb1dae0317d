package server

import (
	"bytes"
	"strings"

	"limitdb/engine"
	"limitdb/internal/glob"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/spec"
	"limitdb/server/values"
)

// Keys of every kind.
func keyCommands() []command {
	keys := []spec.Argument{{Name: "key", Kind: "key", Multiple: true}}
	pattern := spec.Argument{Name: "pattern", Kind: "string", Token: "MATCH", Optional: true}
	flush := func(name string) command {
		return command{
			Command: spec.Command{
				Name: name, Arity: -1, Flags: spec.Write | spec.Quorum | spec.Dangerous, Group: "server", Complexity: "O(1)",
				Summary: "Forgets every key.", Args: []spec.Argument{spec.OneOf("flush-type", spec.Word("ASYNC"), spec.Word("SYNC"))},
			},
			run: (*call).flushAll, atomic: (*call).flushAllIn,
		}
	}
	many := func(name, summary string, f spec.Flags, run func(*call), atomic func(*call, *values.Txn)) command {
		return command{
			Command: spec.Command{
				Name: name, Arity: -2, Flags: f | spec.Fast | spec.Wide, FirstKey: 1, LastKey: -1, Step: 1,
				Group: "generic", Complexity: "O(n) for n keys", Summary: summary, Args: keys,
			},
			run: run, atomic: atomic,
		}
	}
	return []command{
		removing(many("DEL", "Forgets keys; returns how many existed.", spec.Write, (*call).del, (*call).delIn)),
		removing(many("UNLINK", "Forgets keys; returns how many existed.", spec.Write, (*call).del, (*call).delIn)),
		many("EXISTS", "Counts the keys that exist; a key named twice counts twice.", spec.Readonly|spec.StaleRead, (*call).exists, (*call).existsIn),
		many("TOUCH", "Counts the keys that exist. This does not change a key.", spec.Readonly|spec.StaleRead, (*call).exists, (*call).existsIn),
		{
			Command: spec.Command{
				Name: "SCAN", Arity: -2, Flags: spec.Readonly | spec.StaleRead, Group: "generic",
				Complexity: "O(1) for each call, O(n) for a whole iteration",
				Summary:    "Iterates over the keys. A key that exists throughout is returned at least once.",
				Args: []spec.Argument{
					{Name: "cursor", Kind: "integer"},
					pattern,
					{Name: "count", Kind: "integer", Token: "COUNT", Optional: true},
					{Name: "type", Kind: "string", Token: "TYPE", Optional: true},
				},
			},
			run: (*call).scan, atomic: (*call).scanIn,
		},
		{
			Command: spec.Command{
				Name: "KEYS", Arity: 2, Flags: spec.Readonly | spec.StaleRead | spec.Dangerous, Group: "generic",
				Complexity: "O(n) for n keys in the table",
				Summary:    "Lists the keys that match a pattern of at most 1024 bytes. Other clients are served meanwhile; for large tables, use SCAN.",
				Args:       []spec.Argument{{Name: "pattern", Kind: "string"}},
			},
			run: (*call).keys, atomic: (*call).keysIn,
		},
		{
			Command: spec.Command{
				Name: "RANDOMKEY", Arity: 1, Flags: spec.Readonly | spec.StaleRead, Group: "generic", Complexity: "O(1)",
				Summary: "Returns some key, or null.",
			},
			run: (*call).randomKey, atomic: (*call).randomKeyIn,
		},
		{
			Command: spec.Command{
				Name: "DBSIZE", Arity: 1, Flags: spec.Readonly | spec.StaleRead | spec.Fast, Group: "server", Complexity: "O(1)",
				Summary: "Counts the keys.",
			},
			run: (*call).dbSize, atomic: (*call).dbSizeIn,
		},
		flush("FLUSHALL"),
		flush("FLUSHDB"),
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
	c.eachStep(len(keys), keysStep, lasting, count, func() { c.Int(n) })
}

func (c *call) del() {
	c.eachKey(c.Args[1:], func(key []byte) bool { return c.srv.states().Reset(c.Now, key) })
}

func (c *call) exists() {
	c.eachKey(c.Args[1:], func(key []byte) bool {
		_, ok := c.states().Info(c.Now, key)
		return ok
	})
}

// delIn is del in a transaction.
func (c *call) delIn(t *values.Txn) {
	n := int64(0)
	for _, key := range c.Args[1:] {
		if t.Remove(key) {
			n++
		}
	}
	c.Int(n)
}

// existsIn is exists in a transaction.
func (c *call) existsIn(t *values.Txn) {
	n := int64(0)
	for _, key := range c.Args[1:] {
		if kind, _ := t.Get(key); kind != 0 {
			n++
		}
	}
	c.Int(n)
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
			return a, spec.ErrSyntax
		}
		var ok bool
		switch v := words[1]; {
		case resp.EqualFold(words[0], "MATCH"):
			if a.match, ok = glob.Compile(v); !ok {
				return a, errPatternTooLong
			}
		case resp.EqualFold(words[0], "TYPE"):
			a.kind = strings.ToLower(string(v))
		case resp.EqualFold(words[0], "COUNT"):
			if a.count, ok = resp.ParseInt(v); !ok {
				return a, spec.ErrNotInt
			}
			if a.count < 1 {
				return a, spec.ErrSyntax
			}
		default:
			return a, spec.ErrSyntax
		}
	}
	return a, ""
}

// wants reports whether SCAN returns a key.
func (a *scanArgs) wants(key []byte, kind limit.Kind) bool {
	return (a.match == nil || a.match.Match(key)) && (a.kind == "" || a.kind == kind.TypeName())
}

func (c *call) scan() {
	cursor, text := c.scanCursor(c.Args[1])
	if text != "" {
		c.Fail(text)
		return
	}
	a, text := parseScan(c.Args[2:])
	if text != "" {
		c.Fail(text)
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
		cursor = c.states().Range(c.Now, cursor, min(left, walkStep), visit)
		c.holds = int64(cap(found))
		if left -= walkStep; left > 0 && cursor != 0 {
			return false
		}
		c.Array(2)
		c.Text(c.scanText(cursor))
		c.Array(n)
		c.Out = append(c.Out, found...)
		return true
	})
}

func (c *call) keys() {
	pattern, ok := glob.Compile(c.Args[1])
	if !ok {
		c.Fail(errPatternTooLong)
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
		cursor = c.states().Range(c.Now, cursor, walkStep, visit)
		c.holds = int64(cap(found))
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

func (c *call) randomKey() {
	key, begin, ok := c.states().Random(c.Now, nil)
	if ok {
		c.Bulk(key)
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
		cursor = c.states().Range(c.Now, cursor, walkStep, visit)
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

// flushStep is how many shards are emptied in a step.
const flushStep = 8

// flushError returns the error for wrong arguments of FLUSHALL, or "".
func flushError(args [][]byte) string {
	if len(args) > 2 || len(args) == 2 && !resp.EqualFold(args[1], "ASYNC") && !resp.EqualFold(args[1], "SYNC") {
		return spec.ErrSyntax
	}
	return ""
}

func (c *call) flushAll() {
	if text := flushError(c.Args); text != "" {
		c.Fail(text)
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
		c.OK()
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
		cursor = e.Range(c.Now, cursor, walkStep, func(key []byte, _ engine.Info) {
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

// statsStep is how many shards' counters are added up in a step.
const statsStep = 1024

func (c *call) dbSize() {
	var sum engine.Stats
	shard := 0
	c.inSteps(nil, func() bool {
		if shard = c.states().AddStats(&sum, shard, statsStep); shard != 0 {
			return false
		}
		c.Int(sum.Keys)
		return true
	})
}
