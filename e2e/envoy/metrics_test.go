package envoy

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// counted is a domain whose windows are long, with the modes that matter for the figures.
const counted = `domain: counted
descriptors:
  - {key: plain, rate_limit: {unit: year, requests_per_unit: 50}}
  - {key: odd, rate_limit: {unit: year, requests_per_unit: 7}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 20}}
  - {key: quota, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 20}}
  - {key: one, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: none, rate_limit: {unit: year, requests_per_unit: 0}}
  - key: deep
    descriptors:
      - {key: leaf, rate_limit: {unit: year, requests_per_unit: 12}}
`

// figures returns the figures of limits that a server shows to Prometheus, by their names and labels.
func figures(url string) (map[string]string, error) {
	r, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		name, isLimit := strings.CutPrefix(name, "ratelimit_service_rate_limit_")
		// A figure that is 0 may be left out, and so may a label that is empty.
		if ok && isLimit && value != "0" {
			all[strings.ReplaceAll(name, `,key2=""`, "")] = value
		}
	}
	return all, nil
}

// TestMetricsAreAlike sends hits of which some cross the limits to that service and to limitdb. Their figures must be the same.
func TestMetricsAreAlike(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	files := filepath.Join(dir, "ratelimit", "config")
	if err := os.MkdirAll(files, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(files, "counted.yaml"), []byte(counted), 0o644); err != nil {
		t.Fatal(err)
	}
	theirs, ours := freePort(t), freePort(t)
	there := startTheirs(t, dir, "USE_STATSD=false", "USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:"+theirs, "STATS_FLUSH_INTERVAL=50ms")
	here := startOurs(t, dir, files, "--http-port", ours, "--envoy-metrics", "yes")
	total := 0
	for range 400 {
		r := &rls.RateLimitRequest{Domain: "counted"}
		for range 1 + draw.IntN(3) {
			d := &pb.RateLimitDescriptor{}
			key := pick(draw, []string{"plain", "odd", "shadow", "quota", "one", "none", "deep"})
			d.Entries = append(d.Entries, &pb.RateLimitDescriptor_Entry{Key: key, Value: fmt.Sprint(draw.IntN(8))})
			if key == "deep" {
				d.Entries = append(d.Entries, &pb.RateLimitDescriptor_Entry{Key: "leaf", Value: "x"})
			}
			d.HitsAddend = wrapperspb.UInt64(uint64(pick(draw, []int{0, 1, 1, 2, 3, 5, 9, 17, 60})))
			total += int(d.HitsAddend.Value)
			r.Descriptors = append(r.Descriptors, d)
		}
		for _, c := range []rls.RateLimitServiceClient{there, here} {
			if _, err := c.ShouldRateLimit(context.Background(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	var a, b map[string]string
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) { // that service shows them late
		var errA, errB error
		a, errA = figures("http://127.0.0.1:" + theirs + "/metrics")
		b, errB = figures("http://127.0.0.1:" + ours + "/metrics")
		if errA == nil && errB == nil && maps.Equal(a, b) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("there %v %v\nhere  %v %v", a, errA, b, errB)
		}
	}
	for _, name := range []string{"total_hits", "within_limit", "near_limit", "over_limit", "shadow_mode"} {
		if n := strings.Count(fmt.Sprint(a), name+"{"); n == 0 {
			t.Errorf("nothing has %s: %v", name, a)
		}
	}
	t.Logf("%d hits, %d figures", total, len(a))
}
