package e2e

import (
	"regexp"
	"strings"
	"testing"
)

func TestRedisBenchmark(t *testing.T) {
	t.Parallel()
	bench := need(t, "redis-benchmark")
	p := start(t)
	const throttle = "CL.THROTTLE user:__rand_int__ 15 30 60"
	tests := []struct {
		name string
		args string
		runs int // lines with a result
	}{
		{"default", "-n 20000 -r 1000 -q " + throttle, 1},
		{"pipelined", "-n 200000 -r 1000 -P 64 -q " + throttle, 1},
		{"deeply pipelined", "-n 200000 -r 1000 -P 1000 -c 10 -q " + throttle, 1},
		{"threads", "-n 50000 -r 1000 -P 16 --threads 2 -q " + throttle, 1},
		{"native", "-n 20000 -r 1000 -P 16 -q RL.TAKE user:__rand_int__ GCRA 30/m", 1},
		{"RESP3", "-3 -n 20000 -r 1000 -P 16 -q " + throttle, 1},
		{"a connection for each request", "-n 2000 -k 0 -r 1000 -q " + throttle, 1},
		{"ping", "-n 20000 -q -t ping", 2},
	}
	result := regexp.MustCompile(`: [0-9.]+ requests per second, p50=`)
	for _, tt := range tests {
		r := run(t, "", bench, append([]string{"-p", p.Port()}, strings.Fields(tt.args)...)...)
		if got := len(result.FindAllString(r.Stdout, -1)); r.Code != 0 || got != tt.runs {
			t.Errorf("%s: redis-benchmark %s ended with %d, printed %d results, want %d:\n%s%s",
				tt.name, tt.args, r.Code, got, tt.runs, tail(r.Stdout, 1000), tail(r.Stderr, 1000))
		}
	}

	// The server is not a cluster: redis-benchmark says so and ends; it does not hang.
	r := run(t, "", bench, "-p", p.Port(), "--cluster", "-n", "100", "PING")
	if r.Code != 1 || !strings.Contains(r.Stderr, "ERR This instance has cluster support disabled") {
		t.Errorf("--cluster ended with %d and printed\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	r = run(t, "", bench, "-p", p.Port(), "-n", "100", "-q", "NOPE", "x")
	if r.Code != 1 || !strings.Contains(r.Stderr, "ERR unknown command 'NOPE', with args beginning with: 'x'") {
		t.Errorf("an unknown command ended with %d and printed\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}
