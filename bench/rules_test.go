package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"limitdb/resp"
)

// The load of BenchmarkRulesBesideRedis: connections, checks that each sends at once, checks of one measurement, and callers.
const (
	ruleClients = 50
	ruleDepth   = 16
	ruleChecks  = 48_000
	ruleUsers   = 20_000
	ruleRounds  = 3
)

// BenchmarkRulesBesideRedis compares a check under 1, 3 and 5 rules with what Envoy's ratelimit service does for as many
// descriptors, INCRBY and EXPIRE for each in one pipeline, on Redis, and with one RL.TAKE. It prints the server's CPU time for each check and
// the checks a second, medians of rounds in turn. It needs redis-server.
//
//	go test ./bench -run '^$' -bench RulesBesideRedis -benchtime 1x
func BenchmarkRulesBesideRedis(b *testing.B) {
	dir := b.TempDir()
	bin := filepath.Join(dir, "limitdb")
	if out, err := exec.Command("go", "build", "-o", bin, "../cmd/limitdb").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	var text strings.Builder
	text.WriteString("version: 1\nnamespaces:\n")
	levels := []int{1, 3, 5}
	for _, n := range levels {
		fmt.Fprintf(&text, "  l%d:\n", n)
		for i := range n {
			fmt.Fprintf(&text, "    - {name: level%d, key: [user, f%d], limit: fixed 1000000/m}\n", i, i)
		}
	}
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		b.Fatal(err)
	}
	limitdb := benchServer(b, bin, "--rules-file", file, "--http-port", "0", "--appendonly", "no", "--save", "", "--dir", dir)
	redis := benchServer(b, "redis-server", "--appendonly", "no", "--save", "", "--dir", dir)

	type row struct {
		name    string
		server  *benched
		request func(buf []byte, user string) ([]byte, int) // and how many replies it has
		cpu     []float64
		rate    []float64
	}
	rows := []*row{{name: "limitdb, RL.TAKE", server: limitdb, request: func(buf []byte, user string) ([]byte, int) {
		return words(buf, "RL.TAKE", "take:"+user, "FIXED", "1000000/m"), 1
	}}}
	for _, n := range levels {
		rows = append(rows, &row{name: fmt.Sprintf("limitdb, RL.CHECK, levels: %d", n), server: limitdb, request: func(buf []byte, user string) ([]byte, int) {
			all := []string{"RL.CHECK", fmt.Sprintf("l%d", n), strconv.Itoa(n + 1), "user", user}
			for i := range n {
				all = append(all, "f"+strconv.Itoa(i), "value")
			}
			return words(buf, all...), 1
		}})
	}
	for _, n := range levels {
		rows = append(rows, &row{name: fmt.Sprintf("Redis, INCRBY and EXPIRE, levels: %d", n), server: redis, request: func(buf []byte, user string) ([]byte, int) {
			for i := range n {
				key := fmt.Sprintf("l%d_user_%s_f%d_value_29000000", n, user, i)
				buf = words(buf, "INCRBY", key, "1")
				buf = words(buf, "EXPIRE", key, "60")
			}
			return buf, 2 * n
		}})
	}
	for b.Loop() {
		for _, r := range rows { // makes the keys
			load(b, r.server.addr, r.request)
		}
		for round := range ruleRounds {
			for i := range rows {
				r := rows[i]
				if round%2 == 1 {
					r = rows[len(rows)-1-i]
				}
				before, began := r.server.cpu(b), time.Now()
				load(b, r.server.addr, r.request)
				r.rate = append(r.rate, ruleChecks/time.Since(began).Seconds())
				r.cpu = append(r.cpu, (r.server.cpu(b)-before)*1e6/ruleChecks)
			}
		}
	}
	fmt.Printf("\n| | checks/s | server CPU, µs a check |\n|---|---|---|\n")
	for _, r := range rows {
		fmt.Printf("| %s | %.0f | %.2f |\n", r.name, median(r.rate), median(r.cpu))
	}
	b.ReportMetric(0, "ns/op")
}

func median[T cmp.Ordered](all []T) T {
	slices.Sort(all)
	return all[len(all)/2]
}

func words(buf []byte, all ...string) []byte {
	buf = resp.AppendArray(buf, len(all))
	for _, w := range all {
		buf = resp.AppendBulkString(buf, w)
	}
	return buf
}

// load sends ruleChecks requests for users at random, and reads the replies.
func load(b *testing.B, addr string, request func(buf []byte, user string) ([]byte, int)) {
	var clients sync.WaitGroup
	for id := range ruleClients {
		clients.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			rd := bufio.NewReaderSize(c, 1<<16)
			r := rand.New(rand.NewPCG(uint64(id), 1))
			var buf []byte
			for range ruleChecks / ruleClients / ruleDepth {
				buf = buf[:0]
				replies := 0
				for range ruleDepth {
					var n int
					buf, n = request(buf, fmt.Sprintf("%08d", r.IntN(ruleUsers)))
					replies += n
				}
				if _, err := c.Write(buf); err != nil {
					b.Error(err)
					return
				}
				for range replies {
					if v, err := resp.ReadReply(rd, 1<<16); err != nil || v.Kind == '-' {
						b.Errorf("%v, %v", v, err)
						return
					}
				}
			}
		})
	}
	clients.Wait()
}

// benched is a server that is measured.
type benched struct {
	addr string
	pid  int
}

// benchServer starts a server on a free port, until the benchmark ends.
func benchServer(b *testing.B, name string, args ...string) *benched {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	addr := l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	_ = l.Close()
	cmd := exec.Command(name, append(args, "--port", port, "--bind", "127.0.0.1")...)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
			return &benched{addr, cmd.Process.Pid}
		}
		if time.Since(begin) > time.Minute {
			b.Fatal(err)
		}
	}
}

// cpu returns the CPU time of the server's threads, in seconds.
func (s *benched) cpu(b *testing.B) float64 {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := bytes.Cut(stat, []byte(") "))
	f := strings.Fields(string(after))
	user, err1 := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	if err1 != nil || err2 != nil {
		b.Fatal(err1, err2)
	}
	return float64(user+system) / 100
}
