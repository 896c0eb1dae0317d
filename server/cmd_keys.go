package server

import (
	"strconv"
	"strings"

	"limitdb/engine"
	"limitdb/internal/glob"
	"limitdb/limit"
	"limitdb/resp"
)

// Keys of every kind.
func keyCommands() []command {
	key := []argument{{name: "key", kind: "key"}}
	keys := []argument{{name: "key", kind: "key", multiple: true}}
	pattern := argument{name: "pattern", kind: "string", token: "MATCH", optional: true}
	flush := []argument{{name: "flush-type", kind: "oneof", optional: true, args: []argument{
		{name: "async", kind: "pure-token", token: "ASYNC"},
		{name: "sync", kind: "pure-token", token: "SYNC"},
	}}}
	many := func(name, summary string, f flags, run func(*session, [][]byte)) command {
		return command{
			name: name, arity: -2, flags: f | flagFast | flagWide, firstKey: 1, lastKey: -1, step: 1,
			group: "generic", since: "1.0.0", complexity: "O(n) for n keys", summary: summary, args: keys, run: run,
		}
	}
	one := func(name, summary string, run func(*session, [][]byte)) command {
		return command{
			name: name, arity: 2, flags: flagReadonly | flagFast, firstKey: 1, lastKey: 1, step: 1,
			group: "generic", since: "1.0.0", complexity: "O(1)", summary: summary, args: key, run: run,
		}
	}
	return []command{
		removing(many("DEL", "Forgets keys; replies how many there were.", flagWrite, (*session).del)),
		removing(many("UNLINK", "Forgets keys; replies how many there were.", flagWrite, (*session).del)),
		many("EXISTS", "Counts the keys that there are; one named twice counts twice.", flagReadonly, (*session).exists),
		many("TOUCH", "Counts the keys that there are. Being asked for changes nothing in a key.", flagReadonly, (*session).exists),
		one("TTL", "Tells the seconds until a key is as if never used; -2: no such key.", func(s *session, a [][]byte) { s.ttl(a, limit.Seconds) }),
		one("PTTL", "Tells the milliseconds until a key is as if never used; -2: no such key.", func(s *session, a [][]byte) { s.ttl(a, limit.Milliseconds) }),
		one("TYPE", "Tells a key's algorithm in lower case, or none.", (*session).typeOf),
		{
			name: "SCAN", arity: -2, flags: flagReadonly, group: "generic", since: "1.0.0",
			complexity: "O(1) for each call, O(n) for a whole iteration",
			summary:    "Iterates over the keys. A key that stays is seen at least once.",
			args: []argument{
				{name: "cursor", kind: "integer"},
				pattern,
				{name: "count", kind: "integer", token: "COUNT", optional: true},
				{name: "type", kind: "string", token: "TYPE", optional: true},
			},
			run: (*session).scan,
		},
		{
			name: "KEYS", arity: 2, flags: flagReadonly | flagDangerous, group: "generic", since: "1.0.0",
			complexity: "O(n) for n keys in the table",
			summary:    "Lists the keys that match a pattern, of at most 1024 bytes. Others are served meanwhile; for large tables, use SCAN.",
			args:       []argument{{name: "pattern", kind: "string"}},
			run:        (*session).keys,
		},
		{
			name: "RANDOMKEY", arity: 1, flags: flagReadonly, group: "generic", since: "1.0.0", complexity: "O(1)",
			summary: "Replies with some key, or null.", run: (*session).randomKey,
		},
		{
			name: "DBSIZE", arity: 1, flags: flagReadonly | flagFast, group: "server", since: "1.0.0", complexity: "O(1)",
			summary: "Counts the keys.", run: (*session).dbSize,
		},
		{
			name: "FLUSHALL", arity: -1, flags: flagWrite | flagDangerous, group: "server", since: "1.0.0", complexity: "O(1)",
			summary: "Forgets every key.", args: flush, run: (*session).flushAll,
		},
		{
			name: "FLUSHDB", arity: -1, flags: flagWrite | flagDangerous, group: "server", since: "1.0.0", complexity: "O(1)",
			summary: "Forgets every key.", args: flush, run: (*session).flushAll,
		},
	}
}

// keysStep is how many keys a step looks up.
const keysStep = 64

// eachKey runs do for every key of the command, and then replies the number that do returned true for.
func (s *session) eachKey(keys [][]byte, do func(key []byte) bool) {
	n := int64(0)
	count := func(i int) {
		if do(keys[i]) {
			n++
		}
	}
	lasting := func(from int) {
		keys = append(make([][]byte, from), cloneArgs(keys[from:])...)
		for _, k := range keys {
			s.stepHolds += int64(len(k)) + 24
		}
	}
	s.eachStep(len(keys), keysStep, lasting, count, func() { s.int(n) })
}

func (s *session) del(args [][]byte) {
	s.eachKey(args[1:], func(key []byte) bool { return s.srv.engine.Reset(s.now, key) })
}

func (s *session) exists(args [][]byte) {
	s.eachKey(args[1:], func(key []byte) bool {
		_, ok := s.srv.engine.Info(s.now, key)
		return ok
	})
}

func (s *session) ttl(args [][]byte, unit func(int64) int64) {
	info, ok := s.srv.engine.Info(s.now, args[1])
	if !ok {
		s.int(-2)
		return
	}
	s.int(unit(info.Expires - s.now))
}

func (s *session) typeOf(args [][]byte) {
	info, _ := s.srv.engine.Info(s.now, args[1])
	s.simple(info.Algorithm.TypeName())
}

// Walks of the table.
const (
	scanMost = 100_000 // the most of COUNT
	walkStep = 32      // slots of the table in a step: they are matched under a shard's lock
)

func (s *session) scan(args [][]byte) {
	cursor, err := strconv.ParseUint(string(args[1]), 10, 64)
	if err != nil {
		s.fail(errInvalidCursor)
		return
	}
	count, match, kind := int64(10), (*glob.Pattern)(nil), ""
	for i := 2; i < len(args); i += 2 {
		if i+1 == len(args) {
			s.fail(errSyntax)
			return
		}
		var ok bool
		switch v := args[i+1]; {
		case foldEqual(args[i], "MATCH"):
			if match, ok = glob.Compile(v); !ok {
				s.fail(errPatternTooLong)
				return
			}
		case foldEqual(args[i], "TYPE"):
			kind = strings.ToLower(string(v))
		case foldEqual(args[i], "COUNT"):
			if count, ok = resp.ParseInt(v); !ok {
				s.fail(errNotInt)
				return
			}
			if count < 1 {
				s.fail(errSyntax)
				return
			}
		default:
			s.fail(errSyntax)
			return
		}
	}
	var found []byte
	n := 0
	visit := func(key []byte, info engine.Info) {
		if (match == nil || match.Match(key)) && (kind == "" || kind == info.Algorithm.TypeName()) {
			found = resp.AppendBulk(found, key)
			n++
		}
	}
	left := int(min(count, scanMost))
	s.inSteps(nil, func() bool {
		cursor = s.srv.engine.Range(s.now, cursor, min(left, walkStep), visit)
		s.stepHolds = int64(cap(found))
		if left -= walkStep; left > 0 && cursor != 0 {
			return false
		}
		s.array(2)
		s.text(strconv.FormatUint(cursor, 10))
		s.array(n)
		s.out = append(s.out, found...)
		return true
	})
}

func (s *session) keys(args [][]byte) {
	pattern, ok := glob.Compile(args[1])
	if !ok {
		s.fail(errPatternTooLong)
		return
	}
	var found []byte
	n, cursor, most := 0, uint64(0), int(s.outputLimit())
	visit := func(key []byte, _ engine.Info) {
		if len(found) <= most && pattern.Match(key) {
			found = resp.AppendBulk(found, key)
			n++
		}
	}
	s.inSteps(nil, func() bool {
		cursor = s.srv.engine.Range(s.now, cursor, walkStep, visit)
		s.stepHolds = int64(cap(found))
		switch {
		case len(found) > most:
			s.fail("ERR the reply to KEYS would be over client-output-buffer-limit: use SCAN")
		case cursor != 0:
			return false
		default:
			s.array(n)
			s.out = append(s.out, found...)
		}
		return true
	})
}

func (s *session) randomKey([][]byte) {
	key, begin, ok := s.srv.engine.Random(s.now, nil)
	if ok {
		s.bulk(key)
		return
	}
	// Few keys are left of many, or none: the first one from there on.
	visit := func(k []byte, _ engine.Info) {
		if !ok {
			key, ok = append(key[:0], k...), true
		}
	}
	cursor, wrapped := begin, false
	s.inSteps(nil, func() bool {
		cursor = s.srv.engine.Range(s.now, cursor, walkStep, visit)
		wrapped = wrapped || cursor == 0
		switch {
		case ok:
			s.bulk(key)
		case wrapped && cursor >= begin:
			s.null()
		default:
			return false
		}
		return true
	})
}

// flushStep is how many shards are emptied in a step.
const flushStep = 8

func (s *session) flushAll(args [][]byte) {
	if len(args) > 2 || (len(args) == 2 && !foldEqual(args[1], "ASYNC") && !foldEqual(args[1], "SYNC")) {
		s.fail(errSyntax)
		return
	}
	flush := s.srv.engine.BeginFlush()
	s.inSteps(nil, func() bool {
		if !flush.Step(flushStep) {
			return false
		}
		s.ok()
		return true
	})
}

// statsStep is how many shards' counters are added up in a step.
const statsStep = 1024

func (s *session) dbSize([][]byte) {
	var sum engine.Stats
	shard := 0
	s.inSteps(nil, func() bool {
		if shard = s.srv.engine.AddStats(&sum, shard, statsStep); shard != 0 {
			return false
		}
		s.int(sum.Keys)
		return true
	})
}
