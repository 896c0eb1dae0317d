package server

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"limitdb/internal/testlengths"
	"limitdb/resp"
)

// Random commands on keys of every kind, on scripts and on the connection, for the differential test.

func (g *twins) keyspace() twin {
	k := g.key()
	switch g.IntN(13) {
	case 0:
		return plain(g.pick("DEL", "UNLINK"), k)
	case 1:
		return plain(g.pick("DEL", "UNLINK"), k, g.key())
	case 2:
		return plain("EXISTS", k, g.key(), k)
	case 3, 4:
		return plain("TYPE", k)
	case 5:
		return plain("RENAME", k, g.key())
	case 6:
		return plain("RENAMENX", k, g.key())
	case 7:
		w := plain("COPY", k, g.key())
		for g.IntN(2) == 0 {
			w = w.with(g.pick("REPLACE", "replace", "foo", "DB"), g.pick("REPLACE", "0", "99", "-1", "x"))
		}
		return w.with(g.maybe(g.pick("REPLACE", "REPLACE", "DB"))...)
	case 8:
		return plain("TOUCH", k, g.key())
	case 9:
		return plain("EXISTS", "a", "b", "c", "d", "e", "f")
	case 10:
		return g.object(k)
	case 11:
		return g.walk()
	}
	return g.general()
}

// object is OBJECT. Redis does not turn a collection back to its small form. It shares small integers, and counts how often a
// key is used under some policies only.
func (g *twins) object(k string) twin {
	sub := g.pick("ENCODING", "ENCODING", "encoding", "IDLETIME", "REFCOUNT", "FREQ", "foo")
	w := plain("OBJECT", sub, k)
	w.render = func(v resp.Value, _ int64) string {
		switch {
		case sub == "FREQ" && !v.Null:
			return "not counted"
		case v.Kind == ':':
			return "some number"
		}
		return strings.NewReplacer("skiplist", "listpack", "hashtable", "listpack", "intset", "listpack").Replace(line(v))
	}
	return w
}

// walk is a command that finds keys.
func (g *twins) walk() twin {
	pattern := g.pick("*", "?", "z*", "[a-c]", "[^a-c]", "h[12]", "?1", `\a`, "x", "", "[")
	switch g.IntN(3) {
	case 0:
		w := plain("RANDOMKEY")
		w.render = func(v resp.Value, _ int64) string {
			if v.Null || v.Kind == '-' {
				return line(v)
			}
			return "a key"
		}
		return w
	case 1:
		w := plain("KEYS", pattern)
		w.render = anyOrder
		return w
	}
	w := g.scan(g.pick("0", "0", "0", "x"))
	w.render = func(v resp.Value, _ int64) string {
		if len(v.Elems) == 2 {
			return "some keys" // what an iteration finds is compared by scans
		}
		return line(v)
	}
	return w
}

// scan is SCAN, often with options.
func (g *twins) scan(cursor string) twin {
	w := plain("SCAN", cursor)
	for g.IntN(2) == 0 {
		w = w.with(g.pick("MATCH", "match", "TYPE"), g.pick("*", "?", "z*", "[^a-c]", "string", "zset", "LIST", "foo"))
	}
	return w.with(g.maybe("COUNT", g.pick("1", "3", "1000", "0", "-1", "x"))...).with(g.maybe(g.maybe(g.maybe("foo", "1")...)...)...)
}

// scans compares what an iteration over the keys finds.
func (d *differential) scans(g *twins, seed uint64) {
	d.t.Helper()
	words := g.scan("0").ours
	iterate := func(do func(words ...string) resp.Value) string {
		found := map[string]bool{}
		for words := slices.Clone(words); ; {
			v := do(words...)
			if len(v.Elems) != 2 {
				return line(v)
			}
			for _, e := range v.Elems[1].Elems {
				found[e.Text] = true
			}
			if words[1] = v.Elems[0].Text; words[1] == "0" {
				return strings.Join(slices.Sorted(maps.Keys(found)), " ")
			}
		}
	}
	there := func(words ...string) resp.Value { return d.redis.do(words)[0] }
	ours, redis := iterate(d.ours.do), iterate(there)
	if ours == redis { // EXISTS removes what has expired in Redis, where DBSIZE counts it
		there(append([]string{"EXISTS"}, allKeys()...)...)
		words = []string{"DBSIZE"}
		ours, redis = line(d.ours.do(words...)), line(there(words...))
	}
	if ours != redis {
		d.t.Fatalf("seed %d: %q\n  ours  %s\n  Redis %s", seed, words, ours, redis)
	}
}

// general is a command on scripts, on the connection or on all keys.
func (g *twins) general() twin {
	const script = "return redis.call('INCRBY', KEYS[1], ARGV[1])"
	const sha = "7a1ce29fe3d6e85e4ab5ab68f6a4c3a4f5a7d1f1" // of no script
	switch g.IntN(12) {
	case 0:
		w := plain(g.pick("EVAL", "EVAL_RO"), script)
		if g.IntN(5) == 0 {
			return w.with("2", g.key(), g.key()) // a longer text would be over max-key-len
		}
		return w.with(g.pick("1", "1", "-1", "x"), g.key(), g.text())
	case 1:
		return plain(g.pick("EVALSHA", "EVALSHA_RO"), sha, "1", g.key(), g.text())
	case 2:
		return plain("SCRIPT", g.pick("EXISTS", "LOAD", "foo"), script)
	case 3:
		return plain("PING").with(g.maybe(g.text())...)
	case 4:
		return plain("ECHO", g.text())
	case 5:
		return plain("SELECT", g.pick("0", "99", "x"))
	case 6:
		if g.IntN(20) == 0 {
			return plain(g.pick("FLUSHALL", "FLUSHDB")).with(g.maybe(g.pick("ASYNC", "SYNC", "foo"))...)
		}
	}
	return plain(g.pick("GET", "SET", "INCR", "EXPIRE", "COPY", "GETRANGE", "PERSIST", "SETEX", "ZADD", "HSET"), g.key())
}

// mangled is a command with words removed or added, which is often an error.
func (g *twins) mangled() twin {
	w := g.one()
	n := 1 + g.IntN(len(w.ours))
	if name := w.ours[0]; n == 3 && (name == "HSCAN" || name == "SSCAN" || name == "ZSCAN") {
		n = 2 // without its COUNT, Redis may stop anywhere
	}
	w.ours, w.redis = slices.Clone(w.ours[:n]), slices.Clone(w.redis[:n])
	if g.IntN(2) == 0 {
		return w.with(g.key())
	}
	return w
}

// notCompared are the commands that the differential test leaves out of the groups that it covers, and why.
func notCompared() map[string]string {
	return map[string]string{
		"increx":      "Redis 7.0 lacks it; a model holds it",
		"object|help": "it lists what this server has",
		"script|help": "it lists what this server has",
		"script|kill": "no script runs when it comes", "script|flush": "both say OK",
	}
}

// The differential test has every command that Redis has too.
func TestDifferentialHasEveryCommand(t *testing.T) {
	ts := newTestServer(t)
	g := &twins{Rand: rand.New(rand.NewPCG(1, 1)), lengths: testlengths.Read(t, longest), now: 1, other: time.Now().Unix()}
	seen := map[string]bool{}
	for range 20_000 {
		for _, w := range g.next() {
			if cmd := ts.table.find([]byte(w.ours[0])); cmd != nil {
				if cmd, text := cmd.resolve(toBytes(w.ours)); text == "" {
					seen[cmd.Full] = true
				}
			}
		}
	}
	groups := strings.Fields("generic string sorted-set hash set list transactions scripting")
	for _, cmd := range ts.table.All {
		if cmd.Parent != nil && cmd.Parent.Name == "FUNCTION" { // this server has none
			continue
		}
		if slices.Contains(groups, cmd.Group) && len(cmd.Subs) == 0 && seen[cmd.Full] == (notCompared()[cmd.Full] != "") {
			t.Errorf("%s (%s): compared %v", cmd.Full, cmd.Group, seen[cmd.Full])
		}
	}
}

func toBytes(words []string) (out [][]byte) {
	for _, w := range words {
		out = append(out, []byte(w))
	}
	return out
}
