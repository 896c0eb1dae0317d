package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// walker scans all keys, page by page.
type walker struct {
	name   string
	page   func(cursor uint64) (keys []string, next uint64, err error)
	cursor uint64
	seen   map[string]bool
	begun  int // how often it began with 0
}

// step asks for the next page, and reports whether it was the last one.
func (w *walker) step(t *testing.T) (done bool) {
	t.Helper()
	if w.cursor == 0 {
		w.seen, w.begun = map[string]bool{}, w.begun+1
	}
	var keys []string
	eventually(t, w.name+" gets a page", func() bool {
		k, next, err := w.page(w.cursor)
		switch {
		case err == nil:
			keys, w.cursor = k, next
			return true
		case strings.Contains(err.Error(), "invalid cursor"):
			w.cursor = 0 // as the error says
			w.seen, w.begun = map[string]bool{}, w.begun+1
		}
		return false // no leader yet, or none that the library knows
	})
	for _, k := range keys {
		w.seen[k] = true
	}
	return w.cursor == 0
}

// scansOverAFailover are of clients that have seen some keys when the leader is killed. Either they are told to begin again, or they
// see all keys: a key is never missed in silence. Nobody has made other keys before.
func scansOverAFailover(t *testing.T, f *failover) (after func()) {
	ctx := context.Background()
	var addrs []string
	for _, n := range f.nodes {
		addrs = append(addrs, n.Addr)
	}
	const keys = 300
	pipe := goredis.NewClient(&goredis.Options{Addr: f.at.Addr})
	defer func() { _ = pipe.Close() }()
	if _, err := pipe.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for i := range keys {
			p.Do(ctx, "RL.TAKE", fmt.Sprint("key:", i), "GCRA", "1/d")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	const count = 20
	single := func(n *raftNode, first string) *goredis.Client {
		c := goredis.NewClient(&goredis.Options{
			Addr: n.Addr, MaxRetries: -1, ReadTimeout: deadline, PoolSize: 1,
			OnConnect: func(ctx context.Context, c *goredis.Conn) error {
				if first == "" {
					return nil
				}
				return c.Do(ctx, first).Err()
			},
		})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	scan := func(c *goredis.Client) func(uint64) ([]string, uint64, error) {
		return func(cursor uint64) ([]string, uint64, error) { return c.Scan(ctx, cursor, "", count).Result() }
	}
	gr := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addrs, ClusterStateReloadInterval: 0, DialerRetries: 1})
	t.Cleanup(func() { _ = gr.Close() })
	walkers := []*walker{
		{name: "a plain client", page: scan(single(f.others[0], ""))},
		{name: "a client that reads at a node", page: scan(single(f.others[0], "READONLY"))},
		{name: "a client that reads at the other node", page: scan(single(f.others[1], "READONLY"))},
		{name: "a cluster client", page: func(cursor uint64) (keys []string, next uint64, err error) {
			gr.ReloadState(ctx)
			failed := gr.ForEachMaster(ctx, func(ctx context.Context, c *goredis.Client) (err error) {
				keys, next, err = c.Scan(ctx, cursor, "", count).Result()
				return err
			})
			return keys, next, failed
		}},
	}
	for _, n := range f.others {
		c := single(n, "READONLY")
		eventually(t, n.id+" has all keys", func() bool { return c.DBSize(ctx).Val() == keys })
	}
	for _, w := range walkers {
		for range 3 {
			if w.step(t) {
				t.Fatalf("%s has seen all already", w.name)
			}
		}
	}
	return func() {
		for _, w := range walkers {
			for !w.step(t) {
			}
			for i := range keys {
				if !w.seen[fmt.Sprint("key:", i)] {
					t.Errorf("%s misses key:%d", w.name, i)
					break
				}
			}
			t.Logf("%s: began %d times", w.name, w.begun)
		}
	}
}
