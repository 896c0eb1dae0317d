package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// Collections and strings that change in parts, by commands, EXEC and scripts, are the same on all nodes: after one was away while a snapshot
// was made, and after the leader was killed. What was answered is there.
func TestValuesInACluster(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	want := 0 // changes that were answered
	change := func(n *raftNode, times int) {
		t.Helper()
		c := goredis.NewClient(&goredis.Options{Addr: n.Addr, ReadTimeout: deadline})
		defer func() { _ = c.Close() }()
		ctx := context.Background()
		for range times {
			element := fmt.Sprintf("%06d-%s", want, strings.Repeat("x", rand.IntN(40)))
			pipe := c.TxPipeline()
			pipe.RPush(ctx, "list", element)
			pipe.ZAdd(ctx, "sorted", goredis.Z{Score: float64(rand.IntN(100)), Member: element})
			pipe.HSet(ctx, "hash", fmt.Sprint("field", rand.IntN(50)), element)
			pipe.Append(ctx, "string", "12345678")
			if _, err := pipe.Exec(ctx); err != nil {
				t.Fatal(err)
			}
			script := "redis.call('SADD', KEYS[1], ARGV[1]) if redis.call('LLEN', KEYS[2]) > 50 then redis.call('LPOP', KEYS[2]) end return redis.call('RPUSH', KEYS[2], ARGV[1])"
			if err := c.Eval(ctx, script, []string{"set", "window"}, element).Err(); err != nil {
				t.Fatal(err)
			}
			if err := c.ZRemRangeByRank(ctx, "sorted", 0, int64(-60)).Err(); err != nil {
				t.Fatal(err)
			}
			want++
		}
	}
	state := func(n *raftNode) string {
		c := goredis.NewClient(&goredis.Options{Addr: n.Addr, ReadTimeout: deadline, OnConnect: func(ctx context.Context, c *goredis.Conn) error { return c.ReadOnly(ctx).Err() }})
		defer func() { _ = c.Close() }()
		ctx := context.Background()
		return fmt.Sprint(c.LRange(ctx, "list", 0, -1), c.ZRangeWithScores(ctx, "sorted", 0, -1), c.HGet(ctx, "hash", "field7"), c.HLen(ctx, "hash"), c.StrLen(ctx, "string"), c.SCard(ctx, "set"), c.LRange(ctx, "window", 0, -1))
	}
	agree := func(when string) {
		t.Helper()
		eventually(t, "one state "+when, func() bool {
			first := state(nodes[0])
			return first == state(nodes[1]) && first == state(nodes[2])
		})
		eventually(t, "one hash "+when, func() bool {
			hashes := map[string]bool{}
			for _, n := range nodes {
				hash := n.field(t, "raft_state_hash")
				if strings.Trim(hash, "0") == "" { // none, or that of an empty table
					return false
				}
				hashes[n.field(t, "raft_state_hash_index")+" "+hash] = true
			}
			return len(hashes) == 1
		})
		for key, command := range map[string]string{"list": "LLEN", "set": "SCARD"} {
			if got := nodes[2].ask(t, command, key); got != fmt.Sprint(want) {
				t.Errorf("%s: %s %s replies %s after %d changes", when, command, key, got, want)
			}
		}
		if got := nodes[1].ask(t, "STRLEN", "string"); got != fmt.Sprint(8*want) {
			t.Errorf("%s: the string has %s bytes after %d changes", when, got, want)
		}
	}
	change(nodes[1], 30)
	nodes[2].Kill()
	leader(t, nodes[:2])
	change(nodes[0], 30)
	if got := nodes[0].ask(t, "RAFT", "SNAPSHOT"); got != "OK" {
		t.Error(got)
	}
	change(nodes[1], 20)
	nodes[2].restart(t)
	agree("after a node was away")

	at := leader(t, nodes)
	at.Kill()
	others := slices.DeleteFunc(slices.Clone(nodes), func(n *raftNode) bool { return n == at })
	leader(t, others)
	for _, n := range others {
		change(n, 20)
	}
	at.restart(t)
	agree("after the leader was killed")
}
