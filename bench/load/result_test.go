package load

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s changed; run with -update if that is meant (-want +got):\n%s", name, d)
	}
}

// sampleRun returns a run with made-up figures.
func sampleRun(rate uint64) *Result {
	c, err := Config{Rate: rate, Pipeline: 16, Seed: 3}.withDefaults()
	if err != nil {
		panic(err)
	}
	r := &run{Config: c, stats: newStats(1)}
	for i := range 10_000 {
		r.stats.shard(0).record(time.Duration(i)*time.Microsecond, got{replies: 10, limited: 2}, "")
	}
	if rate > 0 {
		r.stats.shard(0).record(2*time.Second, got{replies: 1, errors: 1}, `"OOM <no> memory"`)
		r.stats.shard(0).recordLag(70 * time.Microsecond)
	}
	r.stats.collect()
	return r.result(r.measureFrom.Add(2500*time.Millisecond), cpuUsed{
		server: 58 * time.Millisecond, client: 35 * time.Millisecond, haveServer: rate > 0, measured: true,
	})
}

func TestResultIsGolden(t *testing.T) {
	for name, r := range map[string]*Result{"closed": sampleRun(0), "open": sampleRun(40_000)} {
		var j, table bytes.Buffer
		if err := r.WriteJSON(&j); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".json", j.Bytes())
		if err := r.WriteTable(&table); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", table.Bytes())
		var back Result
		if err := json.Unmarshal(j.Bytes(), &back); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(r, &back); d != "" {
			t.Errorf("%s: read back:\n%s", name, d)
		}
	}
}

func TestNothingMeasured(t *testing.T) {
	r := &run{stats: newStats(1)}
	res := r.result(time.Time{}, cpuUsed{measured: true})
	if d := cmp.Diff(&Result{}, res); d != "" {
		t.Error(d)
	}
	if err := res.WriteJSON(&bytes.Buffer{}); err != nil {
		t.Error(err)
	}
}

func TestFigures(t *testing.T) {
	for ns, want := range map[int64]string{
		0: "0 ns", 999: "999 ns", 1000: "1.00 µs", 12_345: "12.3 µs", 123_456: "123 µs",
		1_234_567: "1.23 ms", 59_000_000_000: "59.0 s", 3_600_000_000_000: "3600 s",
	} {
		if got := span(ns); got != want {
			t.Errorf("span(%d) = %q, want %q", ns, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0.00", 999: "999", 1234: "1.23 k", 2_600_000: "2.60 M", 5e12: "5000 G"} {
		if got := amount(v); got != want {
			t.Errorf("amount(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestProgressLine(t *testing.T) {
	for want, p := range map[string]Progress{
		"warming up 2 s  0.00 requests":                                {Warming: true, Elapsed: 2 * time.Second},
		"3 s  1.50 M requests  500 k/s  p50 90.0 µs  p99 2.00 ms":      {Elapsed: 3 * time.Second, Requests: 1_500_000, PerSecond: 500_000, P50: 90_000, P99: 2_000_000},
		"1 s  10.0 requests  10.0/s  p50 1.00 s  p99 1.00 s  errors 4": {Elapsed: time.Second, Requests: 10, Errors: 4, PerSecond: 10, P50: time.Second, P99: time.Second},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
