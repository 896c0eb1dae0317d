package observe

import (
	"bytes"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"limitdb/internal/stats"
)

var update = flag.Bool("update", false, "write the golden files anew")

// sample has a different number in every field, so that swapped fields show.
func sample() Snapshot {
	s := Snapshot{
		Server: stats.Server{
			Version: "1.2.3",
			Uptime:  90*time.Second + 500*time.Millisecond,
			Clients: stats.Clients{
				Connected: 11, Max: 10_000, Blocked: 12, Paused: 13, Monitors: 14,
				BufferBytes: 15, BufferBytesMax: 256 << 20,
				Accepted:     16,
				Rejected:     []stats.Count{{Name: "maxclients", N: 17}, {Name: "protected-mode", N: 18}},
				Closed:       []stats.Count{{Name: "client", N: 19}, {Name: "idle", N: 20}},
				AcceptErrors: 21, AuthFailures: 22, ProtocolErrors: 23, Panics: 24,
			},
			Traffic: stats.Traffic{In: 25, Out: 26},
			Commands: []stats.Command{
				{Name: "cl.throttle", Failed: 1, Rejected: 1},
				{Name: "client|list"},
			},
			SlowlogEntries: 38,
			SlowCommands:   39,
			Crossings:      stats.Crossings{Requests: 49, Results: []stats.Count{{Name: "granted", N: 53}}, DeniedLate: 50, GivenBack: 51, Left: 52, ToGiveBack: 54},
		},
		ClockOffset: -250 * time.Microsecond,
		MaxMemory:   34,
		Engine: stats.Engine{
			Allowed: 28, Limited: 29, Peeked: 30, Refunded: 31,
			Keys: 32, Bytes: 33, Expired: 35, Evicted: 36,
			Waiting: 40, WaitingKeys: 41, Waited: 42,
			HoldsTaken: 43, HoldsSettled: 44, HoldsOver: 45, HoldsReturned: 46,
			OnceRepeated: 47, Blocks: 48,
		},
		Config: Config{
			Reloads: 37, ReloadFailures: 3, LastReloadOK: true,
			LastReload: time.UnixMilli(1_700_000_000_250),
		},
		Durability: stats.Durability{
			Kept: true, Loading: true, LogBytes: 43, BaseBytes: 44, BytesWritten: 45, Writes: 46, Syncs: 47, Failures: 48,
			LastSync: 1_700_000_001_250e6, UnsyncedAge: 54e6, Waiting: 49, Snapshotting: true,
			Snapshots: 50, SnapshotErrors: 51, LastSnapshot: 1_700_000_002_250e6, LastSnapshotTook: 52e9, LastSnapshotFailed: true,
		},
		Replication: stats.Replication{
			On: true, Leads: true, Term: 55, Last: 56, Committed: 57, Applied: 58, LastContact: 59e6, Epochs: 60, Ignored: 61, Rebuilds: 62,
			Member: true, Voter: true, Members: 63, Voters: 64, Answering: 65, Refused: 66, Differ: []string{"maxmemory of n2"},
		},
		Groups: []Group{{Number: 0, LeaderKnown: true, Term: 92}, {
			Number: 64, Leads: true, LeaderKnown: true, Term: 93, Last: 94, Committed: 95, Applied: 96, Keys: 97, Bytes: 98, Decisions: 99, Expired: 100, Evicted: 101,
		}},
		TopLimited: []stats.Count{
			{Name: "user:1", N: 63}, {Name: "bad \xff", N: 64}, {Name: strings.Repeat("k", 200) + "1", N: 65}, {Name: strings.Repeat("k", 200) + "2", N: 66},
		},
		Rules: []Rule{
			{"shop", "user-api", "enforce", stats.Rule{Allowed: 69, Near: 70, Limited: 71, ShadowLimited: 72, CandidateLimited: 73, Blocks: 74, Blocked: 75}},
			{"shop", "login", "shadow", stats.Rule{}},
		},
		Checks: []Checks{{Namespace: "unused"}, {"shop", 74, 75, stats.Histogram{Buckets: [stats.Buckets]uint64{1, 2}, Sum: 4500}}},
		EnvoyLimits: map[string]stats.EnvoyLimit{
			"edge.ip":           {Total: 81, Within: 82, Near: 83, Over: 84, Shadow: 85},
			"edge.path_/a.ip":   {Total: 86, Within: 87, Near: 88, Over: 89, Shadow: 90},
			"edge.path_/a.ip.x": {Total: 1, Within: 1, Near: 1, Over: 1, Shadow: 1}, // counts with the one before
			"edge.bad \xff":     {Total: 91},
		},
		RulesProblem: true,
		DecisionLog:  true, DecisionsLogged: 67, DecisionsDropped: 68,
		AuditLog: true, ChangesLogged: 76, ChangesMissing: 77,
		Refusing:     true,
		Certificates: []Certificate{{"tls-cert-file", 86400 * time.Second}, {"raft-tls-ca-cert-file", -90 * time.Second}},
		Backups:      Backups{Made: 12, Failed: 3, Last: 1_700_000_000_500_000_000, Every: 3600e9},
	}
	h := &s.Commands[0].Latency
	for _, ns := range []int64{0, 900, 1000, 1001, 3000, 1_048_576_000, 1_048_576_001, int64(time.Hour)} {
		h.Buckets[stats.Bucket(ns)]++
		h.Sum += uint64(ns)
	}
	return s
}

// Without a data directory there are no metrics of it.
func TestNothingKept(t *testing.T) {
	s := sample()
	s.Durability, s.Replication, s.Groups = stats.Durability{}, stats.Replication{}, nil
	for _, name := range []string{"limitdb_log_", "limitdb_snapshot", "limitdb_loading", "limitdb_raft_", "limitdb_group_", "limitdb_writes_refused"} {
		if strings.Contains(scrape(t, s), name) {
			t.Errorf("there is %s…", name)
		}
	}
}

// scrape reads /metrics of a registry that has only our collector.
func scrape(t *testing.T, s Snapshot) string {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(newCollector(func() Snapshot { return s })); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(w.Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("status %d, %v: %s", w.Code, err, body)
	}
	return string(body)
}

func TestExpositionIsGolden(t *testing.T) {
	got := strings.ReplaceAll(scrape(t, sample()), runtime.Version(), "GO")
	path := filepath.Join("testdata", "metrics.txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("the exposition changed; run with -update if that is meant (-want +got):\n%s", d)
	}
}

func TestExpositionFollowsConventions(t *testing.T) {
	for name, s := range map[string]Snapshot{"sample": sample(), "zero": {}} {
		problems, err := promlint.New(bytes.NewReader([]byte(scrape(t, s)))).Lint()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s: %s", name, p.Metric, p.Text)
		}
	}
}

func TestEveryMetricIsOurs(t *testing.T) {
	s := sample()
	s.EnvoyLimits = nil // they have the names of another service
	for line := range strings.Lines(scrape(t, s)) {
		name := strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE ")
		if !strings.HasPrefix(name, "limitdb_") {
			t.Errorf("a line without the prefix: %q", line)
		}
	}
}

// A file with very many rules makes a bounded number of series.
func TestRulesAreBounded(t *testing.T) {
	s := Snapshot{}
	for i := range 5 * maxRules {
		s.Rules = append(s.Rules, Rule{Namespace: "n", Name: strconv.Itoa(i)})
	}
	page := scrape(t, s)
	if n := strings.Count(page, "limitdb_rule_decisions_total{"); n != 4*maxRules || !strings.Contains(page, "limitdb_rules 5000\n") {
		t.Errorf("%d series of decisions", n)
	}
}

// A label that cannot be written fails the scrape, not the process.
func TestBadLabelFailsTheScrape(t *testing.T) {
	for name, s := range map[string]Snapshot{
		"not UTF-8": {Server: stats.Server{Clients: stats.Clients{Closed: []stats.Count{{Name: "\xff", N: 1}}}}},
		"twice":     {Server: stats.Server{Commands: []stats.Command{{Name: "ping"}, {Name: "ping"}}}},
	} {
		reg := prometheus.NewRegistry()
		reg.MustRegister(newCollector(func() Snapshot { return s }))
		if _, err := reg.Gather(); err == nil {
			t.Errorf("%s: gathered without an error", name)
		}
	}
}

func TestNoTimeOfReloadBeforeTheFirst(t *testing.T) {
	s := sample()
	s.Config.LastReload = time.Time{}
	if strings.Contains(scrape(t, s), "reload_success_timestamp_seconds") {
		t.Error("a reload that never was has a time")
	}
}
