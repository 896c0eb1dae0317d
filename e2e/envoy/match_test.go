package envoy

import (
	"context"
	"fmt"
	"limitdb/rules"
	"math/rand/v2"
	"os"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/config"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	gostats "github.com/lyft/gostats"
)

// long reports whether tests are to take their time.
func long() bool { return os.Getenv("LIMITDB_LONG") != "" }

// theirs loads a file as that service does.
func theirs(text string) (c config.RateLimitConfig, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	manager := stats.NewStatManager(gostats.NewStore(gostats.NewNullSink(), false), settings.Settings{})
	file := config.RateLimitConfigToLoad{Name: "f", ConfigYaml: config.ConfigFileContentToYaml("f", text)}
	return config.NewRateLimitConfigImpl([]config.RateLimitConfigToLoad{file}, manager, false), nil
}

// TestTreesFindAlike compares what that service's own code finds in random trees with what ours does: the limit, its flags, its name, what it
// replaces, which values share a counter, and the name of its metrics.
func TestTreesFindAlike(t *testing.T) {
	trees := 2_000
	if long() {
		trees = 50_000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	found := 0
	for i := range trees {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, uint64(i))), alphabet: crossed()}
		text := g.file("d")
		want, err := theirs(text)
		ds, own := rules.ParseDomains([]rules.File{{Name: "f", Text: []byte(text)}}, nil)
		if (err == nil) != (own == nil) {
			t.Fatalf("%s\n%v, but here %v", text, err, own)
		}
		if err != nil {
			continue
		}
		var l rules.Lookup
		for range 20 {
			entries := g.entries()
			theirs := &pb.RateLimitDescriptor{}
			ours := rules.Descriptor{Hits: 1}
			for _, e := range entries {
				theirs.Entries = append(theirs.Entries, &pb.RateLimitDescriptor_Entry{Key: e.key, Value: e.value})
				ours.Entries = append(ours.Entries, rules.Entry{Key: e.key, Value: e.value})
			}
			if err := l.Find(ds.Domain("d"), []rules.Descriptor{ours}); err != nil {
				t.Fatal(err)
			}
			a, b := ofTheirs(want.GetLimit(context.Background(), "d", theirs), entries), ofOurs(&l)
			if a != b {
				t.Fatalf("%s\n%v: there %s, here %s", text, entries, a, b)
			}
			if a != "nothing" {
				found++
			}
		}
	}
	t.Logf("%d trees, %d lookups, %d limits", trees, 20*trees, found)
}

func ofTheirs(r *config.RateLimit, entries []entry) string {
	switch {
	case r == nil:
		return "nothing"
	case r.Unlimited:
		return "unlimited"
	}
	var values []string
	for i, e := range entries {
		if i < len(r.ShareThresholdKeyPattern) && r.ShareThresholdKeyPattern[i] != "" {
			e.value = r.ShareThresholdKeyPattern[i]
		}
		values = append(values, e.value)
	}
	return fmt.Sprintf("%d %s %q shadow %v quota %v of %q as %q", r.Limit.RequestsPerUnit, r.Limit.Unit, r.Name, r.ShadowMode, r.QuotaMode, values, r.FullKey)
}

func ofOurs(l *rules.Lookup) string {
	m := &l.Matches[0]
	switch {
	case m.Unlimited:
		return "unlimited"
	case m.Limit == nil:
		return "nothing"
	}
	caller, _ := rules.ParseKey(m.Key)
	return fmt.Sprintf("%d %s %q shadow %v quota %v of %q as %q", m.Rate.PerUnit, m.Rate.Unit, m.Name, m.Shadow, m.Quota, caller.Values, l.AppendMetric(nil, 0))
}
