package server

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/server/request"
	"limitdb/server/spec"
)

func TestTakeAll(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"RL.TAKEALL 1 a GCRA 5/m", "[0 -1 [0 5 4 -1 12000]]"},
		[2]string{"rl.takeall 2 a b gcra 5/m cost 2 burst 5 gcra 2 60000", "[0 -1 [0 5 2 -1 36000] [0 2 1 -1 30000]]"},
		[2]string{"RL.TAKEALL 2 b a GCRA 2/m COST 2 GCRA 5/m COST 3", "[1 0 [1 2 1 30000 30000] [1 5 2 12000 36000]]"},
		[2]string{"RL.TAKEALL 3 a b c GCRA 5/m GCRA 2/m COST 2 GCRA 9/m", "[1 1 [0 5 2 -1 36000] [1 2 1 30000 30000] [0 9 9 -1 0]]"},
		[2]string{"RL.TAKEALL 2 b a GCRA 2/m COST 2 GCRA 5/m COST 6", "[1 1 [1 2 1 30000 30000] [1 5 2 -1 36000]]"},
		[2]string{"RL.TAKEALL 2 a b GCRA 5/m COST 0 GCRA 2/m COST 0", "[0 -1 [0 5 2 -1 36000] [0 2 1 -1 30000]]"},
		[2]string{"EXISTS a b c", "2"},
		[2]string{"+29999ms", ""},
		[2]string{"RL.TAKEALL 2 a b GCRA 5/m GCRA 2/m COST 2", "[1 1 [0 5 4 -1 6001] [1 2 1 1 1]]"},
		[2]string{"+1ms", ""},
		[2]string{"RL.TAKEALL 2 a b GCRA 5/m GCRA 2/m COST 2", "[0 -1 [0 5 3 -1 18000] [0 2 0 -1 60000]]"},
		[2]string{"RL.TAKE a GCRA 5/m", "[0 5 2 -1 30000]"},
		[2]string{"COMMAND GETKEYS RL.TAKEALL 2 a b GCRA 5/m GCRA 2/m", `["a" "b"]`},
		[2]string{"COMMAND GETKEYS RL.TAKEALL x a b GCRA", "-ERR Invalid arguments specified for command"},
		[2]string{"COMMAND GETKEYSANDFLAGS RL.TAKEALL 1 a b GCRA", `[["a" [RW access update]]]`},
	)
	if got := line(c.do("COMMAND", "INFO", "RL.TAKEALL")); !strings.HasPrefix(got, `[["rl.takeall" -5 [write fast movablekeys] 0 0 0 [`) ||
		!strings.Contains(got, `"spec" ["index" 1]] "find_keys" ["type" "keynum" "spec" ["keynumidx" 0 "firstkey" 1 "keystep" 1]]`) {
		t.Error(got)
	}
}

func TestTakeAllErrorsNameTheArgument(t *testing.T) {
	ts := newTestServer(t, "max-key-len 20")
	c := ts.client()
	c.do("RL.TAKE", "live", "GCRA", "5/m")
	c.do("RL.TAKE", "counter", "FIXED", "5/m")
	before := line(c.do("RL.PEEK", "live", "GCRA", "5/m"))
	for _, test := range []struct{ in, want string }{
		{"RL.TAKEALL 1 k GCRA", ts.table.find([]byte("RL.TAKEALL")).WrongArity()},
		{"RL.TAKEALL x k GCRA 5/m", `ERR numkeys must be an integer from 1 to 128: "x"`},
		{"RL.TAKEALL 0 k GCRA 5/m", `ERR numkeys must be an integer from 1 to 128: "0"`},
		{"RL.TAKEALL -1 k GCRA 5/m", `ERR numkeys must be an integer from 1 to 128: "-1"`},
		{"RL.TAKEALL 129 k GCRA 5/m", `ERR numkeys must be an integer from 1 to 128: "129"`},
		{"RL.TAKEALL 4 k GCRA 5/m", "ERR numkeys is 4, but 3 words follow"},
		{"RL.TAKEALL 3 k GCRA 5/m", "ERR 3 keys and 0 limits: give as many limits as keys"},
		{"RL.TAKEALL 2 live k GCRA 5/m", "ERR 2 keys and 1 limit: give as many limits as keys"},
		{"RL.TAKEALL 1 live GCRA 5/m GCRA 6/m", `ERR 1 key and one more limit: give as many limits as keys: "GCRA"`},
		{"RL.TAKEALL 2 live GCRA 5/m GCRA 6/m", `ERR limit 1 of 2: unknown algorithm: "5/m"; there are GCRA, TOKEN, LEAKY, QUEUE, WARMUP, FIXED, SLIDING, SEGMENTED, LOG (the algorithm comes first, as in GCRA 100/m)`},
		{"RL.TAKEALL 2 live k GCRA 5/m NOSUCH 6/m", `ERR limit 1 of 2: unknown option "NOSUCH" for GCRA`},
		{"RL.TAKEALL 2 live k GCRA 5/m GCRA 6/q", `ERR limit 2 of 2: period must be positive milliseconds, or have a unit (ms s m h d w): "q"`},
		{"RL.TAKEALL 2 live k GCRA 5/m COST GCRA 6/m", `ERR limit 1 of 2: COST must be an integer: "GCRA"`},
		{"RL.TAKEALL 2 live k GCRA 5/m COST -1 GCRA 6/m", "ERR limit 1 of 2: COST is negative"},
		{"RL.TAKEALL 2 live k GCRA 5/m COST 1 COST 1 GCRA 6/m", "ERR limit 1 of 2: syntax error: COST is given twice"},
		{"RL.TAKEALL 2 live k GCRA 5/m GCRA 6/m PARTIAL", `ERR limit 2 of 2: unknown option "PARTIAL" for GCRA`},
		{"RL.TAKEALL 3 live k live GCRA 5/m GCRA 6/m GCRA 5/m", `ERR a key is given twice: "live"`},
		{"RL.TAKEALL 3 live counter k GCRA 5/m GCRA 5/m GCRA 5/m", request.WrongType(limit.FIXED.Kind(), limit.GCRA.Kind()) + `: "counter"`},
		{"RL.TAKEALL 2 live counter GCRA 5/m COST 99 GCRA 5/m", request.WrongType(limit.FIXED.Kind(), limit.GCRA.Kind()) + `: "counter"`}, // rather than a denial
		{"RL.TAKEALL 2 live 123456789012345678901 GCRA 5/m GCRA 6/m", "ERR key is longer than max-key-len allows"},
	} {
		if got := line(c.do(strings.Fields(test.in)...)); got != "-"+test.want {
			t.Errorf("%s\n got %s\nwant -%s", test.in, got, test.want)
		}
	}
	if after := line(c.do("RL.PEEK", "live", "GCRA", "5/m")); after != before || line(c.do("DBSIZE")) != "2" {
		t.Errorf("errors changed %s to %s", before, after)
	}
	ts.engine.SetMaxMemory(1, engine.NoEviction)
	if got := line(c.do(strings.Fields("RL.TAKEALL 2 live k GCRA 5/m GCRA 6/m")...)); got != "-"+spec.ErrOOM {
		t.Error(got)
	}
	if got := line(c.do("RL.PEEK", "live", "GCRA", "5/m")); got != before {
		t.Errorf("OOM changed %s to %s", before, got)
	}
}

// MONITOR shows the command, and it is the same in RESP3.
func TestTakeAllElsewhere(t *testing.T) {
	ts := newTestServer(t)
	m, c := ts.client(), ts.client()
	m.do("MONITOR")
	c.do("HELLO", "3")
	m.conn.take()
	if got := c.raw("RL.TAKEALL 1 k GCRA 5/m\r\n"); got != "*3\r\n:0\r\n:-1\r\n*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:12000\r\n" {
		t.Errorf("%q", got)
	}
	if got := string(m.conn.take()); !strings.HasSuffix(got, `] "RL.TAKEALL" "1" "k" "GCRA" "5/m"`+"\r\n") {
		t.Errorf("%q", got)
	}
	var words []string
	for i := range engine.MaxAll {
		words = append(words, fmt.Sprint("key", i))
	}
	words = append([]string{"RL.TAKEALL", "128"}, words...)
	words = append(words, strings.Fields(strings.Repeat("GCRA 5/m COST 2 ", engine.MaxAll))...)
	if got := line(c.do(words...)); got != "[0 -1"+strings.Repeat(" [0 5 3 -1 24000]", engine.MaxAll)+"]" {
		t.Error(got)
	}
}

// FuzzTakeAllWords compares the parser of the limits with one that first splits the words
// at the names of algorithms.
func FuzzTakeAllWords(f *testing.F) {
	f.Add("2 GCRA 5/m COST 2 gcra 1 60000 BURST 5")
	f.Add("1 GCRA 5/m GCRA 5/m")
	f.Add("3 GCRA 5/m COST GCRA 5/m")
	f.Fuzz(func(t *testing.T, in string) {
		words := bytes.Fields([]byte(in))
		if len(words) == 0 {
			return
		}
		n, text := request.NumKeys(append(words[:1:1], make([][]byte, engine.MaxAll)...))
		if text != "" {
			return
		}
		words = words[1:]
		got := new(request.Together)
		var zones limit.Zones
		text = got.Parse(&zones, n, words)

		var cut [][][]byte
		for i, w := range words {
			if _, ok := limit.Lookup(w); ok || i == 0 {
				cut = append(cut, nil)
			}
			cut[len(cut)-1] = append(cut[len(cut)-1], w)
		}
		good := len(cut) == n
		for i := 0; good && i < n; i++ {
			var a request.Args
			used, text := request.ParseLimit(&zones, cut[i], request.OwnCost, &a)
			good = text == "" && used == len(cut[i])
			if good && text == "" && (a.Limit != got.Limits[i] || a.Cost != got.Costs[i]) {
				t.Fatalf("%q: limit %d is %v cost %d, want %v cost %d", in, i, got.Limits[i], got.Costs[i], a.Limit, a.Cost)
			}
		}
		if good != (text == "") {
			t.Fatalf("%q: %q, but the parts are good: %v", in, text, good)
		}
		if text != "" && (!strings.HasPrefix(text, "ERR ") || strings.ContainsAny(text, "\r\n")) {
			t.Fatalf("%q: %q", in, text)
		}
	})
}

// TestTakeAllAfterRaiseInTransactions checks that the wait of a denial in a transaction or a script is true as well after a
// limit was raised.
func TestTakeAllAfterRaiseInTransactions(t *testing.T) {
	for _, way := range []string{"MULTI", "EVAL"} {
		ts := newTestServer(t)
		c := ts.client()
		ask := func() string {
			words := []string{"RL.TAKEALL", "2", "used", "new", "GCRA", "1000/h", "BURST", "10", "GCRA", "1000/h", "BURST", "10"}
			if way == "EVAL" {
				return line(c.do(append([]string{"EVAL", "return redis.call(unpack(ARGV))", "0"}, words...)...))
			}
			c.do("MULTI")
			c.do(words...)
			return strings.Trim(line(c.do("EXEC")), "[]")
		}
		c.do("RL.TAKE", "used", "GCRA", "10/h", "COST", "10")
		first := ask()
		ts.clock.Advance(3600 * time.Millisecond)
		if second := ask(); !strings.Contains(first, "1 10 0 3600 36000") || !strings.Contains(second, "0 10 0 -1 36000") {
			t.Errorf("%s: %s, and after its wait %s", way, first, second)
		}
	}
}
