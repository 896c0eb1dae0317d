package server

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"limitdb/known"
	"limitdb/known/knowntest"
)

// scriptPipelines loads known scripts into ts, and returns a pipeline of 16 calls of each by its name, and one
// of INCR for comparison.
func scriptPipelines(t testing.TB, ts *testServer) map[string][]byte {
	args := map[string]string{
		"go-redis/redis_rate allowN":      "1000000 1000000 3600 1",
		"rate-limiter-flexible incrTtl":   "1 3600",
		"rate-limit-redis increment":      "3600000",
		"@fastify/rate-limit rateLimit":   "3600000 1000 false false",
		"ulule/limiter incr":              "1 3600000",
		"limits (Python) incr_expire":     "3600 1",
		"Laravel Redis::throttle acquire": "1800000000.5 1800000000 3600 1000",
		"redis-py Lock release":           "me",
		"Laravel cache releaseLock":       "me",
	}
	pipelines := map[string][]byte{"INCR": bytes.Repeat(encode("INCR", "user:1"), 16)}
	for _, spec := range knowntest.Specs() {
		s := known.Find(spec.SHA)
		name := s.Library + " " + s.Name
		words, ok := args[name]
		if !spec.Published() || !ok {
			continue
		}
		source, err := spec.Source("..", *scriptTexts)
		if err != nil {
			continue // TestNativeScripts fails for it
		}
		if got := line(ts.client().do("SCRIPT", "LOAD", source)); !strings.Contains(got, spec.SHA) {
			t.Fatal(got)
		}
		call := append([]string{"EVALSHA", spec.SHA, "1", fmt.Sprint("key:", spec.SHA[:4])}, strings.Fields(words)...)
		pipelines[name] = bytes.Repeat(encode(call...), 16)
	}
	return pipelines
}

// BenchmarkKnownScripts measures a call of a known script in a pipeline, on a key that is in the caches.
func BenchmarkKnownScripts(b *testing.B) {
	ts := newTestServer(b)
	for name, batch := range scriptPipelines(b, ts) {
		b.Run(name, func(b *testing.B) {
			c := ts.client()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%16 == 0 {
					c.conn.out = c.conn.out[:0]
					c.s.Data(batch)
				}
			}
		})
	}
}

// A call of a known script allocates nothing, except for collections.
func TestKnownScriptsAllocateNothing(t *testing.T) {
	ts := newTestServer(t)
	for name, batch := range scriptPipelines(t, ts) {
		c := ts.client()
		run := func() {
			c.conn.out = c.conn.out[:0]
			c.s.Data(batch)
		}
		run()
		if n := testing.AllocsPerRun(100, run); n > 0 && !raceDetector && !strings.Contains(name, "throttle") {
			t.Errorf("%s: %v allocations in 16 calls", name, n)
		}
	}
}
