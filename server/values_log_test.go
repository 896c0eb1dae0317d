package server

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"limitdb/engine"
	"limitdb/internal/journal"
	"limitdb/internal/testlengths"
	"limitdb/limit"
	"limitdb/value"
)

// replayed is what the engine of a test has recorded, and another engine that replays it.
type replayed struct {
	*testServer
	again *engine.Engine
}

func (ts *testServer) replayed() *replayed {
	ts.engine.StartJournal(0, new(journal.Gate), func() {})
	return &replayed{ts, engine.New(engine.Options{Shards: 4})}
}

// drain replays what was recorded since the last call, and returns its size in bytes.
func (l *replayed) drain() int {
	var b journal.Buffer
	l.engine.Cut()
	for l.engine.Drain(&b, 1<<30) {
	}
	if b.Flushed > 0 {
		l.again = engine.New(engine.Options{Shards: 4})
	}
	for rest := b.Bytes; len(rest) > 0; {
		r, more, err := journal.Parse(rest)
		if err == nil && r.Op != journal.Flush && r.Version >= b.Flushed {
			err = l.again.Restore([]journal.Record{r}, 0, 1)
		}
		if err != nil {
			l.t.Fatal(err)
		}
		rest = more
	}
	return len(b.Bytes)
}

// check reports an error if a key is not the same in both engines.
func (l *replayed) check() {
	l.t.Helper()
	want, got := copied(l.t, l.engine), copied(l.t, l.again)
	if len(want) == 0 || len(want) != len(got) {
		l.t.Errorf("replay gives %d keys, not %d", len(got), len(want))
	}
	for key, state := range want {
		if got[key] != state {
			l.t.Errorf("%s: replay gives %.300q, not %.300q", key, got[key], state)
		}
	}
}

// copied returns what the keys of an engine hold.
func copied(t testing.TB, e *engine.Engine) map[string]string {
	t.Helper()
	var b journal.Buffer
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		cursor = e.Copy(0, cursor, &b)
	}
	out := map[string]string{}
	for rest := b.Bytes; len(rest) > 0; {
		r, more, err := journal.Parse(rest)
		if err != nil {
			t.Fatal(err)
		}
		key := string(r.Key)
		if limit.Kind(r.Kind) == limit.HOLDS {
			key += " and beside it"
		}
		out[key], rest = string(rune(r.Kind))+string(r.State), more
	}
	return out
}

// A change of a long value writes as much to the log as has changed, not the whole value.
func TestChangesOfLongValuesAreSmall(t *testing.T) {
	ts := newTestServer(t)
	c, log := ts.client(), ts.replayed()
	c.do("SET", "text", strings.Repeat("x", 10_000), "EX", "1000")
	for i := range 500 {
		n := strconv.Itoa(i)
		c.do("ZADD", "zset", n, "member:"+n)
		c.do("SADD", "set", "member:"+n)
		c.do("HSET", "hash", "field:"+n, "0123456789")
		c.do("RPUSH", "list", "0123456789")
	}
	log.drain()
	for _, command := range []string{
		"APPEND text more", "APPEND text 1", "SETRANGE text 5000 part", "SETRANGE text 10010 part", "EXPIRE text 500", "PERSIST text", "APPEND text more", "GETEX text EX 5000", "EXPIRE text 300",
		"RPUSH list 1", "LPUSH list 1", "LPOP list", "LTRIM list 1 -1", "EXPIRE list 100", "HSET hash new 1", "HINCRBY hash new 1", "HDEL hash field:50", "PERSIST list",
		"ZADD zset 5 new", "ZREM zset member:7", "ZREMRANGEBYSCORE zset -inf 5", "ZINCRBY zset 1 member:300", "SADD set new", "SREM set member:5",
	} {
		words := strings.Fields(command)
		c.do(words...)
		if n := log.drain(); n == 0 || n > 250 {
			t.Errorf("%s: %d bytes for a change of a few", command, n)
		}
	}
	for _, command := range []string{"LTRIM list 0 -1", "HSET hash field:60 0123456789", "ZADD zset 8 member:8"} {
		c.do(strings.Fields(command)...)
		if n := log.drain(); n > 0 {
			t.Errorf("%s, which changes nothing: %d bytes", command, n)
		}
	}
	log.check()
}

// The same holds for a script that runs in Go.
func TestScriptsChangeLongValuesInParts(t *testing.T) {
	for _, source := range publishedScripts(t, "acquire_moving_window") {
		ts := newTestServer(t)
		c, log, whole := ts.client(), ts.replayed(), 0
		for i := range 1000 {
			now := strconv.FormatInt(ts.clock.Now()/int64(time.Second)+int64(i), 10)
			if got := line(c.do("EVAL", source, "1", "k", now, "900", "100", "1")); got != "1" {
				t.Fatalf("%.60q, call %d: %s", source, i, got)
			}
			n := log.drain()
			if i > 50 && n > 250 {
				whole++
			}
		}
		if whole > 1 { // the list gets another form once
			t.Errorf("%.60q: %d calls have written the whole list", source, whole)
		}
		log.check()
	}
}

// A change of a value is a command that changes a key, which holds text, or has it as an element.
type valueChange struct {
	command string // K: the key, S: 50 bytes more, L: the length of the text
	// want returns what a string is then; nil: any value, which is only compared with the log's.
	want func(text string) string
}

// valueChanges returns the changes of each type, by the command that makes a value. T is the text.
func valueChanges() map[string][]valueChange {
	more := strings.Repeat("b", 50)
	same := func(text string) string { return text }
	of := map[string][]valueChange{"SET K T": {
		{"APPEND K S", func(text string) string { return text + more }},
		{"APPEND K x", func(text string) string { return text + "x" }},
		{"SETRANGE K L S", func(text string) string { return text + more }},
		{"SETRANGE K 0 x", func(text string) string { return "x" + text[min(1, len(text)):] }},
		{"GETSET K S", func(string) string { return more }},
		{"SET K S KEEPTTL", func(string) string { return more }},
		{"SET K T KEEPTTL", same},
		{"GETEX K EX 5", same},
		{"GETEX K PERSIST", same},
		{"PERSIST K", same},
		{"EXPIRE K 7", same},
		{"PEXPIREAT K 1700000000000", same},
		{"RENAME K other;APPEND other S;RENAME other K", func(text string) string { return text + more }},
		{"COPY K other REPLACE;APPEND other S", same},
		{"EVAL return(redis.call('APPEND',KEYS[1],ARGV[1])) 1 K S", func(text string) string { return text + more }},
		{"MULTI;APPEND K S;SETRANGE K 0 x;APPEND K x;EXEC", func(text string) string { return "x" + (text + more)[1:] + "x" }},
	}}
	for whole, changes := range map[string]string{
		"HSET K f T": "HSET K g S|HSET K f S|HSET K f Tx|HSETNX K g x|HINCRBY K n 5|HINCRBYFLOAT K n 1.5|HDEL K f|HMSET K g S h x|EVAL return(redis.call('HSET',KEYS[1],'g',ARGV[1])) 1 K S",
		"RPUSH K T":  "RPUSH K S|LPUSH K S|RPUSHX K x|LPOP K|RPOP K 1|LTRIM K 1 0|RPUSH K a b c;LTRIM K 1 2|EVAL return(redis.call('LPUSH',KEYS[1],ARGV[1])) 1 K S",
		"SADD K T":   "SADD K S|SADD K x|SREM K T|SADD K S;SREM K T",
		"ZADD K 1 T": "ZADD K 2 S|ZADD K 5 T|ZINCRBY K 1 T|ZINCRBY K 1 S|ZREM K T|ZADD K 2 S;ZREMRANGEBYRANK K 0 0|ZADD K 2 x;ZREMRANGEBYSCORE K 2 2",
	} {
		for _, command := range strings.Split(changes+"|PERSIST K|EXPIRE K 7|RENAME K other;RENAME other K|COPY K other REPLACE", "|") {
			of[whole] = append(of[whole], valueChange{command, nil})
		}
	}
	return of
}

// A value of any type, of every length about a constant of the code, with an expiry and without, can be changed by every command, and
// the log has what it is then. A string is what a plain string would be.
//
//test:norace
func TestValuesOfEveryLength(t *testing.T) {
	by, most := 12, 2000
	if os.Getenv("LIMITDB_LONG") == "1" {
		by, most = 24, value.MaxString-64
	}
	lengths := testlengths.Read(t, most)
	for whole, changes := range valueChanges() {
		ts := newTestServer(t)
		c, log := ts.client(), ts.replayed()
		c.do("SET", "another", "key")
		lengths.Each(by, most, func(n int) {
			text := strings.Repeat("a", n)
			for _, change := range changes {
				for _, until := range []string{"PERSIST K", "EXPIRE K 1000"} {
					words := func(command string) []string {
						all := strings.Fields(command)
						for i, w := range all {
							of := map[string]string{"K": "k", "S": strings.Repeat("b", 50), "T": text, "Tx": text + "x", "L": strconv.Itoa(n)}
							if full, ok := of[w]; ok {
								all[i] = full
							}
						}
						return all
					}
					c.do("DEL", "k")
					for _, command := range strings.Split(whole+";"+until+";"+change.command, ";") {
						if command == "EXEC" {
							log.drain()
						}
						if v := c.do(words(command)...); v.Err() != nil && n > 0 {
							t.Fatalf("%s of %d bytes, %s, %s: %v", whole, n, until, command, v.Err())
						}
					}
					if change.want != nil && n > 0 {
						if got := c.do("GET", "k").Text; got != change.want(text) {
							t.Fatalf("%s of %d bytes, %s, %s: %.300q", whole, n, until, change.command, got)
						}
					}
					log.drain()
					if log.check(); t.Failed() {
						t.Fatalf("%s of %d bytes, %s, %s", whole, n, until, change.command)
					}
				}
			}
		})
	}
}
