package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"limitdb/dashboard"
	"limitdb/rules"
)

// topSample has what one look at a server finds.
type topSample struct {
	at     time.Time
	info   map[string]string // the fields of INFO
	times  map[int64]int64   // decisions by their time: how many took at most so many µs
	calls  int64             // decisions that were timed
	denied []topKey          // keys, the most denied first
	rules  []topRule         // in the order of the file
	nodes  []dashboard.Node  // of the cluster

	// On a node that does not lead:
	leader      string             // whose figures these are, "" for this node's
	rates       map[string]float64 // how fast the leader's counters grow, a second
	median, p99 int64              // times of its decisions in ns, 0 if it made none
}

// topRule is a rule with its counters: allowed, limited, and would have been limited.
type topRule struct {
	namespace, name, mode string
	counts                [3]int64
}

// topKey is a key and how often it was denied.
type topKey struct {
	key   string
	count int64
}

// topView draws the samples of a server.
type topView struct {
	address   string
	last, now *topSample
	rates     []float64 // decisions a second, the oldest first
	problem   error     // why there is no sample
}

// add takes the next sample.
func (v *topView) add(s *topSample) {
	v.problem = nil
	v.last, v.now = v.now, s
	if v.last != nil {
		v.rates = append(v.rates, v.rate("decisions_allowed")+v.rate("decisions_limited"))
		v.rates = v.rates[max(0, len(v.rates)-60):]
	}
}

// number returns a field of INFO as a number, or 0 if it is not one.
func (s *topSample) number(field string) int64 {
	n, _ := strconv.ParseInt(s.info[field], 10, 64)
	return n
}

// rate returns how fast a counter grows, a second.
func (v *topView) rate(field string) float64 {
	if rate, ok := v.now.rates[field]; ok {
		return rate
	}
	if v.last == nil {
		return 0
	}
	return v.perSecond(v.now.number(field) - v.last.number(field))
}

// perSecond returns what a difference to the last sample is a second.
func (v *topView) perSecond(n int64) float64 {
	return max(0, float64(n)) / max(v.now.at.Sub(v.last.at).Seconds(), 0.001)
}

// ruleRates returns the rules with how fast their counters grow, those that limit most first.
func (v *topView) ruleRates() (all []ruleRate) {
	before := map[[2]string][3]int64{}
	if v.last != nil {
		for _, r := range v.last.rules {
			before[[2]string{r.namespace, r.name}] = r.counts
		}
	}
	for _, r := range v.now.rules {
		rate := ruleRate{topRule: r}
		if was, ok := before[[2]string{r.namespace, r.name}]; ok {
			for i := range was {
				rate.rates[i] = v.perSecond(r.counts[i] - was[i])
			}
		}
		all = append(all, rate)
	}
	slices.SortStableFunc(all, func(a, b ruleRate) int { return cmp.Compare(b.rates[1]+b.rates[2], a.rates[1]+a.rates[2]) })
	return all
}

// ruleRate is a rule with how fast its counters grow, a second.
type ruleRate struct {
	topRule
	rates [3]float64
}

// quantile returns the time in µs within which a share of the decisions since the last sample were made; ok is
// false if there were none.
func (v *topView) quantile(q float64) (us int64, ok bool) {
	before := map[int64]int64{}
	calls := v.now.calls
	if v.last != nil {
		before, calls = v.last.times, calls-v.last.calls
	}
	if calls <= 0 {
		return 0, false
	}
	want := int64(math.Ceil(q * float64(calls)))
	for _, b := range slices.Sorted(maps.Keys(v.now.times)) {
		if v.now.times[b]-atMost(before, b) >= want {
			return b, true
		}
	}
	return 0, false
}

// atMost returns the cumulative count of the last bound that is not above b. Bounds without a decision of
// their own are left out.
func atMost(times map[int64]int64, b int64) int64 {
	var best, n int64 = -1, 0
	for bound, count := range times {
		if bound <= b && bound > best {
			best, n = bound, count
		}
	}
	return n
}

// text returns the picture, at most so many columns wide and lines high.
func (v *topView) text(width, height int) string {
	var b strings.Builder
	line := func(format string, args ...any) {
		b.WriteString(fit(fmt.Sprintf(format, args...), width) + "\n")
	}
	if v.now == nil {
		line("limitdb top  %s", v.address)
		if v.problem != nil {
			line("no answer: %s", v.problem)
		}
		return b.String()
	}
	s := v.now
	state := "ready"
	switch {
	case s.number("loading") == 1:
		state = "loading"
	case s.info["raft_id"] != "" && s.info["role"] == "master":
		state = "leads"
	case s.leader != "":
		state = "follows " + s.leader + ", whose figures these are"
	case s.info["raft_id"] != "" && s.info["raft_leader"] == "":
		state = "no node leads"
	case s.info["raft_id"] != "":
		state = "follows " + s.info["raft_leader"]
	}
	line("limitdb %s  %s  %s  up %s", s.info["limitdb_version"], v.address, state, (time.Duration(s.number("uptime_in_seconds")) * time.Second).String())
	if v.problem != nil {
		line("no answer: %s", v.problem)
	} else {
		line("")
	}
	allowed, limited := v.rate("decisions_allowed"), v.rate("decisions_limited")
	share := 0.0
	if all := allowed + limited; all > 0 {
		share = 100 * limited / all
	}
	rates := v.ruleRates()
	shadowed := ""
	if len(rates) > 0 {
		shadowed = fmt.Sprintf("   shadow %.0f", v.rate("decisions_shadow_limited"))
	}
	line("Decisions   %.0f/s   allowed %.0f   limited %.0f (%.1f %%)%s", allowed+limited, allowed, limited, share, shadowed)
	line("            %s", spark(v.rates))
	line("Time        %s", v.times())
	memory := bytesText(s.number("table_bytes"))
	if most := s.number("maxmemory"); most > 0 {
		memory += " of " + bytesText(most)
	}
	line("Keys        %d   %s   %d expired   %d evicted", s.number("keys"), memory, s.number("expired_keys"), s.number("evicted_keys"))
	line("Clients     %d of %d   %d waiting", s.number("connected_clients"), s.number("maxclients"), s.number("waiting"))
	line("Log         %s", logText(s))
	if s.info["raft_id"] != "" {
		line("Cluster     %sterm %d   %d entries to apply", reached(s.nodes), s.number("raft_term"), s.number("raft_commit_index")-s.number("raft_applied_index"))
		for _, n := range s.nodes {
			line("            %-20s %-23s %s", nodeName(&n), nodeRole(&n), nodeState(&n))
		}
	}
	line("")
	left := func() int { return height - strings.Count(b.String(), "\n") - 1 }
	if len(rates) > 0 {
		line("%-32s %-8s %10s %10s %10s", "RULES", "MODE", "ALLOWED/s", "LIMITED/s", "SHADOW/s")
		for _, r := range rates[:min(len(rates), max(1, left()/2-1))] {
			line("%-32s %-8s %10.0f %10.0f %10.0f", fit(r.namespace+"/"+r.name, 32), r.mode, r.rates[0], r.rates[1], r.rates[2])
		}
		line("")
	}
	line("LIMITED MOST NOW")
	if len(s.denied) == 0 {
		line("nobody")
	}
	for _, k := range s.denied[:min(len(s.denied), max(0, left()))] {
		bar := strings.Repeat("█", int(10*k.count/max(1, s.denied[0].count)))
		line("%9d %-10s %s", k.count, bar, rules.KeyText(k.key))
	}
	return b.String()
}

// reached says how many nodes answer.
func reached(nodes []dashboard.Node) string {
	if len(nodes) == 0 {
		return ""
	}
	answer := 0
	for i := range nodes {
		if nodes[i].Answers {
			answer++
		}
	}
	return fmt.Sprintf("%d of %d nodes   ", answer, len(nodes))
}

func nodeName(n *dashboard.Node) string {
	name := fit(rules.KeyText(n.ID), 20)
	if n.Self {
		name = fit(rules.KeyText(n.ID), 8) + " (this node)"
	}
	return name
}

func nodeRole(n *dashboard.Node) string {
	switch {
	case n.Leads:
		return "leads"
	case n.Votes:
		return "follows"
	}
	return "follows, without a vote"
}

// nodeState says whether a node answers, and how far it is behind the one that leads.
func nodeState(n *dashboard.Node) string {
	switch {
	case !n.Answers && n.Contact < 0:
		return "does not answer"
	case !n.Answers:
		return "silent for " + (time.Duration(n.Contact) * time.Millisecond).Round(time.Second).String()
	case n.Behind < 0:
		return "answers"
	case n.Behind == 0:
		return "up to date"
	case n.Behind == 1:
		return "1 entry behind"
	}
	return fmt.Sprintf("%d entries behind", n.Behind)
}

// times describes how long decisions took.
func (v *topView) times() string {
	if v.now.leader != "" {
		if v.now.p99 == 0 {
			return "no decisions"
		}
		about := func(ns int64) string { return time.Duration(ns).Round(100 * time.Nanosecond).String() }
		return "median about " + about(v.now.median) + "   99 % about " + about(v.now.p99)
	}
	var parts []string
	for _, q := range []struct {
		name string
		q    float64
	}{{"median", 0.5}, {"99 %", 0.99}, {"99.9 %", 0.999}} {
		us, ok := v.quantile(q.q)
		if !ok {
			return "no decisions"
		}
		parts = append(parts, q.name+" ≤ "+(time.Duration(us)*time.Microsecond).String())
	}
	return strings.Join(parts, "   ")
}

// logText describes the log and the snapshots.
func logText(s *topSample) string {
	switch {
	case s.info["aof_last_write_status"] == "err":
		return "cannot be written: changes are refused"
	case s.number("aof_enabled") == 1:
		return bytesText(s.number("aof_current_size")) + ", oldest unsynced byte " + strconv.FormatInt(s.number("aof_unsynced_age_ms"), 10) + " ms"
	case s.info["raft_id"] != "":
		return "of the cluster"
	}
	return "none"
}

// spark draws values as bars of eight heights.
func spark(values []float64) string {
	const bars = "▁▂▃▄▅▆▇█"
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range values {
		i := 0
		if most > 0 {
			i = int(v / most * 7.99)
		}
		b.WriteRune([]rune(bars)[i])
	}
	return b.String()
}

// bytesText returns a size for people.
func bytesText(n int64) string {
	f, unit := float64(n), 0
	for f >= 1024 && unit < 4 {
		f, unit = f/1024, unit+1
	}
	if unit == 0 {
		return strconv.FormatInt(n, 10) + " B"
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + " " + [...]string{"B", "kB", "MB", "GB", "TB"}[unit]
}

// fit cuts a line to a width in characters.
func fit(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	return string(r[:max(0, width-1)]) + "…"
}
