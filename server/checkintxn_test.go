package server

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"limitdb/engine"
)

// TestCheckInTransaction carries out the same checks on one server one by one, and on another in transactions and
// scripts. Their replies, their counters and the callers' states must be the same.
func TestCheckInTransaction(t *testing.T) {
	const text = `version: 1
namespaces:
  a:
    - {name: each, key: [u], limit: 3/m}
    - {name: all, limit: "5/m"}
    - {name: try, key: [u], limit: 2/m, mode: shadow}
    - {name: new, key: [u], limit: SLIDING 4/m, candidate: 1/m}
    - {name: free, match: {u: free}, unlimited: true}
`
	plain, other := withRules(t, text), withRules(t, text)
	one, many := plain.client(), other.client()
	r := rand.New(rand.NewPCG(1, 2))
	check := func() []string {
		words := []string{"RL.CHECK", "a", "1", "u", []string{"x", "y", "free"}[r.IntN(3)], "COST", strconv.Itoa(r.IntN(3))}
		words = append(words, [][]string{nil, nil, nil, {"PEEK"}, {"REFUND"}}[r.IntN(5)]...)
		return append(words, [][]string{nil, {"EXPLAIN"}}[r.IntN(2)]...)
	}
	for range 300 {
		if r.IntN(3) == 0 {
			step := time.Duration(r.IntN(30)) * time.Second
			plain.clock.Advance(step)
			other.clock.Advance(step)
		}
		if r.IntN(4) == 0 {
			words := check()
			got := many.do(append([]string{"EVAL", "return redis.call(unpack(ARGV))", "0"}, words...)...)
			if want := line(one.do(words...)); line(got) != want {
				t.Fatalf("%q in a script\n got %s\nwant %s", words, line(got), want)
			}
			continue
		}
		var want []string
		many.do("MULTI")
		for range 1 + r.IntN(4) {
			words := check()
			want = append(want, line(one.do(words...)))
			if got := line(many.do(words...)); got != "QUEUED" {
				t.Fatal(got)
			}
		}
		if got := line(many.do("EXEC")); got != "["+strings.Join(want, " ")+"]" {
			t.Fatalf("in a transaction\n got %s\nwant %s", got, want)
		}
	}
	if got, want := figures(other), figures(plain); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, words := range [][]string{{"RL.RULES", "INFO", "a", "each", "u", "x"}, {"DBSIZE"}} {
		if got, want := line(many.do(words...)), line(one.do(words...)); got != want {
			t.Errorf("%q\n got %s\nwant %s", words, got, want)
		}
	}
	many.do("MULTI")
	many.do("RL.CHECK", "b", "0")
	if got := line(many.do("EXEC")); !strings.HasPrefix(got, "[-NORULE ") {
		t.Error(got)
	}
}

// EXEC locks the shards of the keys that its checks charge, and no others.
func TestCheckInTransactionLocksItsShards(t *testing.T) {
	ts := withRules(t, "version: 1\nnamespaces: {shop: [{name: x, key: [user], limit: 1/h}, {name: y, limit: 9/h}]}")
	c := ts.client()
	entered, leave, left := make(chan bool), make(chan bool), make(chan bool)
	go func() {
		err := ts.engine.UpdateAt(0, ts.clock.Now(), [][]byte{[]byte("elsewhere")}, func(*engine.Txn) error {
			close(entered)
			<-leave
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		close(left)
	}()
	<-entered
	done := make(chan string)
	go func() {
		c.raw("MULTI\r\nRL.CHECK shop 1 user u\r\nRL.CHECK shop 1 user u REFUND\r\nRL.CHECK shop 1 user u\r\n")
		done <- c.raw("EXEC\r\n")
	}()
	select {
	case got := <-done:
		if want := "*3\r\n"; !strings.HasPrefix(got, want) {
			t.Error(got)
		}
	case <-time.After(2 * time.Minute):
		t.Error("EXEC waits for a shard that it does not need")
	}
	close(leave)
	<-left
}
