package server

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"limitdb/engine"
	"limitdb/internal/journal"
)

// replayed is what the engine of a test has recorded, and another engine that replays it.
type replayed struct {
	*testServer
	again *engine.Engine
}

func (ts *testServer) replayed() *replayed {
	ts.engine.StartJournal(0, new(journal.Gate), func() {})
	return &replayed{ts, engine.New(engine.Options{})}
}

// drain replays what was recorded since the last call, and returns its size in bytes.
func (l *replayed) drain() int {
	var b journal.Buffer
	l.engine.Cut()
	for l.engine.Drain(&b, 1<<30) {
	}
	for rest := b.Bytes; len(rest) > 0; {
		r, more, err := journal.Parse(rest)
		if err == nil {
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
		out[string(r.Key)], rest = string(rune(r.Kind))+string(r.State), more
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

// A string of any length about the least that changes in parts may be changed, and the log has what it is then.
func TestStringsAboutTheLengthThatChangesInParts(t *testing.T) {
	for n := journal.MinChanged - 20; n <= journal.MinChanged+4; n++ {
		for _, by := range []int{1, 5, 50} {
			for _, until := range []string{"", "EX 1000", "KEEPTTL"} {
				ts := newTestServer(t)
				c, log := ts.client(), ts.replayed()
				text, more := strings.Repeat("a", n), strings.Repeat("b", by)
				c.do(append([]string{"SET", "k", text}, strings.Fields(until)...)...)
				c.steps(ts,
					[2]string{"APPEND k " + more, strconv.Itoa(n + by)},
					[2]string{"GET k", strconv.Quote(text + more)},
					[2]string{"SETRANGE k " + strconv.Itoa(n+by+3) + " " + more, strconv.Itoa(n + by + 3 + by)},
					[2]string{"PEXPIRE k 5000", "1"},
					[2]string{"SETRANGE k 1 c", strconv.Itoa(n + by + 3 + by)},
					[2]string{"PERSIST k", "1"},
				)
				log.drain()
				log.check()
			}
		}
	}
}
