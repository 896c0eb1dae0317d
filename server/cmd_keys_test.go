package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"limitdb/server/handler"
	"limitdb/server/spec"
)

func TestKeyCommands(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"TTL k", "-2"},
		[2]string{"TYPE k", "none"},
		[2]string{"RANDOMKEY", "nil"},
		[2]string{"RL.TAKE k GCRA 5/m", "[0 5 4 -1 12000]"},
		[2]string{"TTL k", "12"},
		[2]string{"PTTL k", "12000"},
		[2]string{"TYPE k", "gcra"},
		[2]string{"RANDOMKEY", `"k"`},
		[2]string{"EXISTS k k nobody", "2"},
		[2]string{"TOUCH k", "1"},
		[2]string{"KEYS *", `["k"]`},
		[2]string{"KEYS x*", "[]"},
		[2]string{"DBSIZE", "1"},
		[2]string{"+11999999999ns", ""},
		[2]string{"PTTL k", "1"},
		[2]string{"TTL k", "1"},
		[2]string{"+1ns", ""}, // the state no longer matters: gone for every command
		[2]string{"PTTL k", "-2"},
		[2]string{"EXISTS k", "0"},
		[2]string{"TYPE k", "none"},
		[2]string{"KEYS *", "[]"},
		[2]string{"RANDOMKEY", "nil"},
		[2]string{"DEL k", "0"},
		[2]string{"RL.TAKE a GCRA 5/m", "[0 5 4 -1 12000]"},
		[2]string{"RL.TAKE b GCRA 5/m", "[0 5 4 -1 12000]"},
		[2]string{"UNLINK a a", "1"},
		[2]string{"FLUSHALL NOW", "-" + spec.ErrSyntax},
		[2]string{"FLUSHALL ASYNC", "OK"},
		[2]string{"DBSIZE", "0"},
		[2]string{"SCAN x", "-" + handler.ErrCursor},
		[2]string{"SCAN -1", "-" + handler.ErrCursor},
		[2]string{"SCAN 0 COUNT", "-" + spec.ErrSyntax},
		[2]string{"SCAN 0 COUNT 0", "-" + spec.ErrSyntax},
		[2]string{"SCAN 0 COUNT x", "-" + spec.ErrNotInt},
		[2]string{"SCAN 0 NOSUCH x", "-" + spec.ErrSyntax},
	)
	if got := line(c.do("RL.TAKE", strings.Repeat("k", 4097), "GCRA", "5/m")); got != "-"+errKeyTooLong {
		t.Errorf("a long key: %s", got)
	}
	if got := line(c.do("RL.TAKE", strings.Repeat("k", 4096), "GCRA", "5/m")); got != "[0 5 4 -1 12000]" {
		t.Errorf("the longest key: %s", got)
	}
	if got := line(c.do("DEL", "a", strings.Repeat("k", 4097))); got != "-"+errKeyTooLong {
		t.Errorf("a long key among others: %s", got)
	}
	if got := line(c.do("RL.TAKE", "\xff\x00\r\n", "GCRA", "5/m")); got != "[0 5 4 -1 12000]" {
		t.Errorf("a key that is no text: %s", got)
	}
}

func TestScanSeesEveryKey(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	for i := range 3000 {
		c.do("RL.TAKE", fmt.Sprintf("key:%d", i), "GCRA", "5/m")
	}
	seen := map[string]bool{}
	cursor, calls := "0", 0
	for {
		v := c.do("SCAN", cursor, "COUNT", "100", "MATCH", "key:*7", "TYPE", "GCRA")
		for _, e := range v.Elems[1].Elems {
			seen[e.Text] = true
		}
		if cursor = v.Elems[0].Text; cursor == "0" {
			break
		}
		if calls++; calls > 10_000 {
			t.Fatal("the iteration does not end")
		}
	}
	if len(seen) != 300 {
		t.Errorf("%d keys, want 300", len(seen))
	}
	v := c.do("KEYS", "key:29?9")
	var got []string
	for _, e := range v.Elems {
		got = append(got, e.Text)
	}
	slices.Sort(got)
	if want := "key:2909 key:2919 key:2929 key:2939 key:2949 key:2959 key:2969 key:2979 key:2989 key:2999"; strings.Join(got, " ") != want {
		t.Errorf("KEYS: %v", got)
	}
}
