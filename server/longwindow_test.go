package server

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"limitdb/engine"
	"limitdb/limit"
)

// TestLongMovingWindows checks that the moving window of the limits package holds a million requests, and that its list
// is one for every other command.
func TestLongMovingWindows(t *testing.T) {
	const most, batch = 1_000_000, 1000 // requests in a window, and of a call
	for _, source := range publishedScripts(t, "acquire_moving_window") {
		ts := newTestServer(t)
		c := ts.client()
		hit := func(at float64, amount int) string {
			return line(c.do("EVAL", source, "1", "w", strconv.FormatFloat(at, 'f', 7, 64), fmt.Sprint(most), "3600", fmt.Sprint(amount)))
		}
		start := 1_800_000_000.25
		at := func(i int) float64 { return start + float64(i)/1024 }
		for i := range most / batch {
			if got := hit(at(i), batch); got != "1" {
				t.Fatalf("after %d requests: %s", i*batch, got)
			}
		}
		if got := hit(at(most/batch), 1); got != "nil" {
			t.Errorf("one too many: %s", got)
		}
		late := start + 3601
		for i := range batch { // the first hour is over for them
			if got := hit(late+float64(i), 1); got != "1" {
				t.Fatalf("after an hour: %s", got)
			}
		}
		for _, q := range []struct{ command, want string }{
			{"TYPE w", "list"},
			{"LLEN w", fmt.Sprint(most)},
			{"TTL w", "3600"},
			{"LINDEX w 0", fmt.Sprintf("\"%.17g\"", late+batch-1)},
			{"LINDEX w 999", fmt.Sprintf("\"%.17g\"", late)},
			{"LINDEX w 1000", fmt.Sprintf("\"%.17g\"", at(most/batch-1))},
			{"LINDEX w -1", fmt.Sprintf("\"%.17g\"", at(1))},
			{"RENAME w v", "OK"},
			{"LLEN v", fmt.Sprint(most)},
			{"LPUSH v other", "-ERR a sorted set, hash, list or set may have at most 1 MB, a list of numbers 1024000 elements"},
			{"DEL v", "1"},
		} {
			if got := line(c.do(strings.Fields(q.command)...)); got != q.want {
				t.Errorf("%s: %s, want %s", q.command, got, q.want)
			}
		}
	}
}

// A hit of a long window writes as few bytes to the log as one of a short window.
func TestLogOfMovingWindows(t *testing.T) {
	source := publishedScripts(t, "acquire_moving_window")[0]
	for _, most := range []int{1000, 40_000, 1_000_000} {
		ts := newTestServer(t)
		c, log := ts.client(), ts.replayed()
		at := 1_800_000_000.25
		hit := func(amount int) {
			at += 2.001
			if got := line(c.do("EVAL", source, "1", "caller:1234567", strconv.FormatFloat(at, 'f', 7, 64), fmt.Sprint(most), "1", fmt.Sprint(amount))); got != "1" {
				t.Fatal(got)
			}
		}
		for range most / 1000 {
			hit(1000)
		}
		hit(1) // the last of them expires
		log.drain()
		const hits = 200
		n := 0
		for range hits {
			hit(1)
			n += log.drain()
		}
		t.Logf("%d bytes for each of %d hits, of a window of %d", n/hits, hits, most)
		if n/hits > 80 {
			t.Errorf("%d bytes for each hit of a window of %d", n/hits, most)
		}
		log.check()
	}
}

// TestMovingWindowsAgainstRedis compares calls of the scripts on windows of very different sizes, and other commands on
// their lists, with Redis. Half of the calls run in Lua.
//
//test:norace
func TestMovingWindowsAgainstRedis(t *testing.T) {
	redis := startRedis(t)
	ts := newTestServer(t)
	c := ts.client()
	take, get := publishedScripts(t, "acquire_moving_window")[0], publishedScripts(t, "moving_window")[0]
	rnd := rand.New(rand.NewPCG(20, 1))
	sizes := []string{"1", "7", "400", "900", "2500", "30000"}
	at, packed := 1_800_000_000.0, 0 // no list expires during the test
	for i := range 4000 {
		key := "w" + sizes[rnd.IntN(len(sizes))]
		at += rnd.Float64() * 2
		now := strconv.FormatFloat(at, 'g', -1, 64)
		blank := strings.Repeat(" ", rnd.IntN(2)) // the script in Lua
		words := []string{"EVAL", take + blank, "1", key, now, key[1:], strconv.Itoa(300 + rnd.IntN(300)), strconv.Itoa(1 + rnd.IntN(3)*rnd.IntN(400))}
		switch from, to := strconv.Itoa(rnd.IntN(3000)-1500), strconv.Itoa(rnd.IntN(3000)-1500); rnd.IntN(30) {
		case 0, 1, 2:
			words = []string{"EVAL", get + blank, "1", key, strconv.FormatFloat(at-rnd.Float64()*300, 'f', 6, 64), key[1:]}
		case 3:
			words = []string{"LRANGE", key, from, to}
		case 4:
			words = []string{"LINDEX", key, from}
		case 5:
			words = []string{"LPUSH", key, now, "5"}
		case 6:
			words = []string{"RPUSH", key, now, "-2.5"}
		case 7:
			words = []string{"LPOP", key, strconv.Itoa(rnd.IntN(20))}
		case 8:
			words = []string{"RPOP", key, strconv.Itoa(rnd.IntN(20))}
		case 9:
			words = []string{"LTRIM", key, strconv.Itoa(rnd.IntN(9)), strconv.Itoa(-1 - rnd.IntN(9))}
		case 10:
			words = []string{"RENAME", key, "w" + sizes[rnd.IntN(len(sizes))]}
		case 11:
			if rnd.IntN(3) == 0 {
				words = []string{"LPUSH", key, "1e3"} // not as a number prints
			}
		case 12:
			words = []string{"LPOP", key}
		case 13:
			words = []string{"PERSIST", key}
		}
		for _, words := range [][]string{words, {"LLEN", key}, {"LINDEX", key, "0"}, {"LINDEX", key, "-1"}, {"TYPE", key}} {
			if got, want := line(c.do(words...)), line(redis.do(words)[0]); got != want && !strings.Contains(want, "NOSCRIPT") {
				t.Fatalf("command %d, %.200q: %.300s, Redis %.300s", i, words, got, want)
			}
		}
		kind, _, err := kindAndState(ts, key)
		if err == nil && kind&^1 == limit.NUMBERS {
			packed++
		}
	}
	if packed < 500 {
		t.Errorf("only %d lists had the form of long lists of numbers", packed)
	}
}

// kindAndState returns what a key holds in the engine.
func kindAndState(ts *testServer, key string) (kind limit.Kind, state []byte, err error) {
	err = ts.engine.UpdateAt(0, ts.clock.Now(), [][]byte{[]byte(key)}, func(t *engine.Txn) error {
		kind, state, err = t.Get([]byte(key))
		return err
	})
	return kind, state, err
}
