package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"limitdb/config"
	"limitdb/engine"
	"limitdb/internal/clock"
	"limitdb/server"
	"limitdb/transport"
)

// served is a server in the test's process, whose time only the test moves.
type served struct {
	addr  string
	clock *clock.Fake
	c     *goredis.Client
}

func serveAt(t *testing.T, now int64) *served {
	t.Helper()
	registry, set := config.New()
	if err := registry.Load(config.Sources{}); err != nil {
		t.Fatal(err)
	}
	s := &served{clock: clock.NewFake(now)}
	e := engine.New(engine.Options{Seed: 1})
	group := transport.New(server.New(server.Options{Settings: set, Registry: registry, Engine: e, Clock: s.clock, Version: "test"}), transport.Options{})
	if err := group.Listen("tcp", "127.0.0.1:0", nil); err != nil {
		t.Fatal(err)
	}
	s.addr = group.Addrs()[0].String()
	s.c = goredis.NewClient(&goredis.Options{Addr: s.addr, ReadTimeout: deadline})
	t.Cleanup(func() {
		s.c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		if err := group.Close(ctx); err != nil {
			t.Error(err)
		}
		e.Close()
	})
	return s
}

// do sends a command and returns its reply in one line.
func (s *served) do(t *testing.T, words ...any) string {
	t.Helper()
	reply, err := s.c.Do(context.Background(), words...).Result()
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return fmt.Sprint(reply)
}

// TestGatewayGuide runs the gateway of docs/holds.md three times. One is killed while it has requests in flight:
// they end with their time, and the others go on.
func TestGatewayGuide(t *testing.T) {
	t.Parallel()
	files := guide(t, "holds.md")
	dir := t.TempDir()
	main, err := os.ReadFile(filepath.Join("testdata", "guide", "gateway_main.go"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"main.go": string(main), "gateway.go": strings.Replace(files["gateway.go"], "package gateway\n", "package main\n", 1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program := goRun(t, dir)

	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC).UnixNano()
	s := serveAt(t, noon)
	s.do(t, "RL.RULES", "LOAD", files["llm.yaml"])
	var gateways []*driver
	for range 3 {
		gateways = append(gateways, drive(t, append(program, s.addr, "2m")))
	}
	say := func(gateway int, line, want string) {
		t.Helper()
		if got := gateways[gateway].take(t, line); got != want {
			t.Errorf("gateway %d, %s: %s, want %s", gateway, line, got, want)
		}
	}
	// left checks the tokens that are left of the minute and of the day, and how many requests are in flight.
	left := func(minute, day, flights int) {
		t.Helper()
		peek := s.do(t, "RL.CHECK", "llm", 2, "tenant", "acme", "tokens", 0, "PEEK", "EXPLAIN")
		for _, want := range []string{fmt.Sprintf("90000/m 0 [0 90000 %d ", minute), fmt.Sprintf("CALENDAR DAY 0 [0 2000000 %d ", day)} {
			if !strings.Contains(peek, want) {
				t.Errorf("%s, want %s", peek, want)
			}
		}
		if want := fmt.Sprintf("in flight, each for 2m at most 1 [%d 10 %d ", flights/10, max(0, 9-flights)); !strings.Contains(peek, want) {
			t.Errorf("%s, want %s", peek, want)
		}
	}

	for i := range 10 { // the first has four of them
		say(i%3, fmt.Sprintf("begin r%d acme 6000", i), "began")
	}
	left(30_000, 1_940_000, 10)
	say(1, "begin more acme 1", "denied by requests-in-flight 2m0s")
	say(1, "begin other globex 6000", "began") // another tenant has limits of its own
	say(1, "end other 6000", "ended")

	say(0, "end r0 2950", "ended") // less than was estimated
	say(1, "end r1 7000", "ended") // more
	left(32_050, 1_942_050, 8)
	say(1, "begin large acme 40000", "denied by tokens-a-minute 1m8.232s")
	left(32_050, 1_942_050, 8) // the denial has left nothing behind

	gateways[2].kill()
	s.clock.Advance(time.Minute)
	for _, r := range []struct{ gateway, request int }{{0, 3}, {0, 6}, {0, 9}, {1, 4}, {1, 7}} {
		say(r.gateway, fmt.Sprintf("end r%d 6000", r.request), "ended")
	}
	say(0, "begin long acme 100", "began")
	s.clock.Advance(time.Minute)
	left(89_900, 1_941_950, 1) // those of the killed gateway are over, and their estimates stay taken
	for i := range 9 {
		say(i%2, fmt.Sprintf("begin s%d acme 1000", i), "began")
	}
	say(1, "begin t acme 1000", "denied by requests-in-flight 1m0s")
	say(0, "end long 50", "ended")
	left(80_950, 1_933_000, 9)
}
