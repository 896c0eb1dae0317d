package server

import (
	"strconv"

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
			summary:    "Lists the keys that match a pattern. For large tables, use SCAN.",
			args:       []argument{{name: "pattern", kind: "string"}},
			run:        (*session).keys,
		},
		{
			name: "RANDOMKEY", arity: 1, flags: flagReadonly, group: "generic", since: "1.0.0", complexity: "O(1)",
			summary: "Replies with some key, or null.", run: (*session).randomKey,
		},
		{
			name: "DBSIZE", arity: 1, flags: flagReadonly | flagFast, group: "server", since: "1.0.0", complexity: "O(1)",
			summary: "Counts the keys.", run: func(s *session, _ [][]byte) { s.int(s.srv.engine.Stats().Keys) },
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

func (s *session) del(args [][]byte) {
	var n int64
	for _, k := range args[1:] {
		if s.srv.engine.Reset(s.now, k) {
			n++
		}
	}
	s.int(n)
}

func (s *session) exists(args [][]byte) {
	var n int64
	for _, k := range args[1:] {
		if _, ok := s.srv.engine.Info(s.now, k); ok {
			n++
		}
	}
	s.int(n)
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

// scanMost bounds COUNT, so that one call cannot hold a core for long.
const scanMost = 100_000

func (s *session) scan(args [][]byte) {
	cursor, err := strconv.ParseUint(string(args[1]), 10, 64)
	if err != nil {
		s.fail(errInvalidCursor)
		return
	}
	count, match, kind := int64(10), []byte(nil), []byte(nil)
	for i := 2; i < len(args); i += 2 {
		if i+1 == len(args) {
			s.fail(errSyntax)
			return
		}
		switch v := args[i+1]; {
		case foldEqual(args[i], "MATCH"):
			match = v
		case foldEqual(args[i], "TYPE"):
			kind = v
		case foldEqual(args[i], "COUNT"):
			var ok bool
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
	next := s.srv.engine.Range(s.now, cursor, int(min(count, scanMost)), func(key []byte, info engine.Info) {
		if (match == nil || glob.Match(match, key)) && (kind == nil || resp.EqualFold(kind, info.Algorithm.TypeName())) {
			found = resp.AppendBulk(found, key)
			n++
		}
	})
	s.array(2)
	s.text(strconv.FormatUint(next, 10))
	s.array(n)
	s.out = append(s.out, found...)
}

func (s *session) keys(args [][]byte) {
	var found []byte
	n, cursor := 0, uint64(0)
	most := int(s.outputLimit())
	for {
		cursor = s.srv.engine.Range(s.now, cursor, 1000, func(key []byte, _ engine.Info) {
			if len(found) <= most && glob.Match(args[1], key) {
				found = resp.AppendBulk(found, key)
				n++
			}
		})
		if len(found) > most {
			s.fail("ERR the reply to KEYS would be over client-output-buffer-limit: use SCAN")
			return
		}
		if cursor == 0 {
			break
		}
	}
	s.array(n)
	s.out = append(s.out, found...)
}

func (s *session) randomKey([][]byte) {
	key, ok := s.srv.engine.Random(s.now, nil)
	if !ok {
		s.null()
		return
	}
	s.bulk(key)
}

func (s *session) flushAll(args [][]byte) {
	if len(args) > 2 || (len(args) == 2 && !foldEqual(args[1], "ASYNC") && !foldEqual(args[1], "SYNC")) {
		s.fail(errSyntax)
		return
	}
	s.srv.engine.Flush()
	s.ok()
}
