package server

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"limitdb/known/knowntest"
)

// No change is lost if clients run transactions, scripts in Lua, a script in Go and WATCH at the same time: the sum of the
// accounts stays the same, and every call is counted.
func TestTransactionsAndScriptsTogether(t *testing.T) {
	const accounts, clients, rounds = 4, 4, 200
	ts := newTestServer(t)
	setup := ts.client()
	for i := range accounts {
		setup.do("SET", fmt.Sprint("account", i), "1000")
	}
	counts, transfer := "", "redis.call('DECRBY', KEYS[1], ARGV[1]) return redis.call('INCRBY', KEYS[2], ARGV[1])"
	for _, spec := range knowntest.Specs() {
		if spec.SHA == "f74233f556d3f99c50b61169cf8aa8d5deb63fb2" { // ulule/limiter
			source, err := spec.Source("..", "")
			if err != nil {
				t.Fatal(err)
			}
			counts = line(setup.do("SCRIPT", "LOAD", source))
			counts = counts[1 : len(counts)-1]
		}
	}
	var wg sync.WaitGroup
	counted := make([]int, clients)
	for id := range clients {
		c, r := ts.client(), rand.New(rand.NewPCG(uint64(id), 1))
		wg.Go(func() {
			for range rounds {
				from, amount := r.IntN(accounts), strconv.Itoa(r.IntN(10))
				a, b := fmt.Sprint("account", from), fmt.Sprint("account", (from+1+r.IntN(accounts-1))%accounts)
				switch r.IntN(4) {
				case 0:
					c.do("MULTI")
					c.do("DECRBY", a, amount)
					c.do("EVALSHA", counts, "1", "calls", "1", "100000000")
					c.do("EVAL", "return redis.call('INCRBY', KEYS[1], ARGV[1])", "1", b, amount)
					c.do("EXEC")
					counted[id]++
				case 1:
					c.do("EVAL", transfer, "2", a, b, amount)
				case 2:
					c.do("WATCH", a, b)
					x, y := number(c, a), number(c, b)
					c.do("MULTI")
					c.do("SET", a, strconv.Itoa(x-1))
					c.do("SET", b, strconv.Itoa(y+1))
					c.do("EXEC")
				case 3:
					c.do("EVALSHA", counts, "1", "calls", "1", "100000000")
					counted[id]++
				}
			}
		})
	}
	wg.Wait()
	sum, calls := 0, 0
	for i := range accounts {
		sum += number(setup, fmt.Sprint("account", i))
	}
	for _, n := range counted {
		calls += n
	}
	if got := number(setup, "calls"); sum != accounts*1000 || got != calls {
		t.Errorf("the accounts hold %d, want %d; %d calls are counted of %d", sum, accounts*1000, got, calls)
	}
}

// number returns the integer that a key holds.
func number(c *testClient, key string) int {
	n, _ := strconv.Atoi(c.do("GET", key).Text)
	return n
}
