package e2e

import (
	"bufio"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"limitdb/resp"
)

// reloadRules is a file of rules. Its text depends on n, its limits do not. Every other file has one more rule.
func reloadRules(n int64) string {
	text := fmt.Sprintf(`version: 1
# number %d
namespaces:
  shop:
    - {name: all, limit: fixed 1000000000/52w}
    - {name: each, key: [user], limit: fixed 100000000/52w}
    - {name: strict, key: [user], match: {path: /strict}, limit: fixed 3/52w}
`, n)
	if n%2 == 1 {
		text += fmt.Sprintf("    - {name: other, match: {path: /other%d}, limit: 1/s}\n", n)
	}
	return text
}

// reloadClients is how many clients check while the rules change, and reloadDepth how many checks each sends at once.
const reloadClients, reloadDepth = 50, 16

// TestThousandReloadsAMinute loads rules a thousand times a minute, by command and from a file, beside 50 clients that
// send pipelines of checks. Each check has the right reply, in its place, and in the end each has been taken and counted
// exactly once. The file that is watched is read when it has been quiet for 200 ms, so it changes more slowly.
func TestThousandReloadsAMinute(t *testing.T) {
	const pace = 60 * time.Millisecond
	for _, test := range []struct {
		name    string
		file    bool
		pace    time.Duration
		command []string // after the file, or instead of it
	}{
		{"by command", false, pace, []string{"RL.RULES", "LOAD"}},
		{"from a file", true, pace, []string{"RL.RULES", "RELOAD"}},
		{"from a file that is watched", true, 5 * pace, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rules.yaml")
			put(t, path, reloadRules(0))
			var args []string
			if test.file {
				args = []string{"--rules-file", path}
			}
			p := start(t, args...)
			admin := dial(t, p.Addr)
			admin.SetDeadline(time.Now().Add(10 * time.Minute))
			change := func(n int64) {
				words := test.command
				if put(t, path, reloadRules(n)); !test.file {
					words = append(words, reloadRules(n))
				}
				if words == nil {
					return
				}
				if got := admin.do(words...); strings.HasPrefix(got, "-") {
					t.Fatal(got)
				}
			}
			if !test.file {
				change(0)
			}
			loads := func() int64 {
				_, after, _ := strings.Cut(one(t, p.Addr, "INFO", "limiter").Text, "rules_loads:")
				n, _, _ := strings.Cut(after, "\r")
				return int64(atoi(t, n))
			}
			before := loads()
			stop := make(chan struct{})
			var clients sync.WaitGroup
			var pipelines atomic.Int64
			for id := range reloadClients {
				clients.Go(func() { checkWhileReloading(t, p.Addr, id, stop, &pipelines) })
			}
			reloads := int64(10 * pace / test.pace)
			if long() {
				reloads = int64(time.Minute / test.pace)
			}
			tick := time.NewTicker(test.pace)
			defer tick.Stop()
			for n := int64(1); n <= reloads; n++ {
				<-tick.C
				change(n)
			}
			if test.command == nil {
				eventually(t, "the file is read", func() bool { return loads() > before })
			} else if n := loads() - before; n < reloads { // a file is also watched, and may be read once more
				t.Errorf("the rules were loaded %d times, want %d or more", n, reloads)
			}
			close(stop)
			clients.Wait()
			total := pipelines.Load() * reloadDepth
			t.Logf("%d checks beside %d reloads", total, loads()-before)
			if total == 0 {
				t.Error("nobody has checked")
			}
			left := one(t, p.Addr, "RL.CHECK", "shop", "0", "COST", "0").Elems[2].Int
			if used := 1000000000 - left; used != total-strictDenied(pipelines.Load()) {
				t.Errorf("%d checks, of which %d are denied; %d are used", total, strictDenied(pipelines.Load()), used)
			}
			for _, r := range one(t, p.Addr, "RL.RULES", "STATS", "shop").Elems {
				name, allowed, limited := r.Elems[3].Text, r.Elems[7].Int, r.Elems[11].Int
				switch {
				case name == "all" && (allowed != 1000000000-left || limited != 0):
					t.Errorf("all: %d allowed, %d limited", allowed, limited)
				case name == "strict" && (allowed != 3*reloadClients || limited != strictDenied(pipelines.Load())):
					t.Errorf("strict: %d allowed, %d limited", allowed, limited)
				}
			}
			p.Stop()
		})
	}
}

// strictDenied returns how many checks the rule strict has denied: of each pipeline one falls under it, and each client
// has three that are granted.
func strictDenied(pipelines int64) int64 { return pipelines - 3*reloadClients }

// checkWhileReloading sends pipelines of checks until stop, at least four, and checks each reply.
func checkWhileReloading(t *testing.T, addr string, id int, stop <-chan struct{}, pipelines *atomic.Int64) {
	c := dial(t, addr)
	c.SetDeadline(time.Now().Add(5 * time.Minute))
	user := fmt.Sprintf("user%d", id)
	var pipeline []byte
	for i := range reloadDepth {
		words := []string{"RL.CHECK", "shop", "1", "user", user}
		if i == reloadDepth/2 {
			words = []string{"RL.CHECK", "shop", "2", "user", user, "path", "/strict"}
		}
		pipeline = append(pipeline, command(words...)...)
	}
	r := bufio.NewReader(c)
	used := int64(0)
	for n := 0; ; n++ {
		select {
		case <-stop:
			if n >= 4 {
				return
			}
		default:
		}
		if _, err := c.Write(pipeline); err != nil {
			t.Error(err)
			return
		}
		for i := range reloadDepth {
			v, err := resp.ReadReply(r, 1<<20)
			want := fmt.Sprintf("0 100000000 %d each", 100000000-used-1)
			switch {
			case i == reloadDepth/2 && n < 3:
				want = fmt.Sprintf("0 3 %d strict", 2-n)
			case i == reloadDepth/2:
				want = "1 3 0 strict"
			}
			if got := flat(v); err != nil || got != want {
				t.Errorf("%s, pipeline %d, reply %d: %q, %v, want %q", user, n, i, got, err, want)
				return
			}
			if want[0] == '0' {
				used++
			}
		}
		pipelines.Add(1)
	}
}
