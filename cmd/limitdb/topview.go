package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"limitdb/resp"
)

// topSample has what one look at a server finds.
type topSample struct {
	at     time.Time
	info   map[string]string // the fields of INFO
	times  map[int64]int64   // decisions by their time: how many took at most so many µs
	calls  int64             // decisions that were timed
	denied []topKey          // keys, the most denied first
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
	if v.last == nil {
		return 0
	}
	seconds := v.now.at.Sub(v.last.at).Seconds()
	return max(0, float64(v.now.number(field)-v.last.number(field))) / max(seconds, 0.001)
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
	line("Decisions   %.0f/s   allowed %.0f   limited %.0f (%.1f %%)", allowed+limited, allowed, limited, share)
	line("            %s", spark(v.rates))
	line("Time        %s", v.times())
	memory := bytesText(s.number("table_bytes"))
	if most := s.number("maxmemory"); most > 0 {
		memory += " of " + bytesText(most)
	}
	line("Keys        %d   %s   %d expired   %d evicted", s.number("keys"), memory, s.number("expired_keys"), s.number("evicted_keys"))
	line("Clients     %d of %d   %d waiting", s.number("connected_clients"), s.number("maxclients"), s.number("waiting"))
	line("Log         %s", logText(s))
	line("")
	line("LIMITED MOST NOW")
	if len(s.denied) == 0 {
		line("nobody")
	}
	for i, k := range s.denied {
		if i >= height-11 {
			break
		}
		bar := strings.Repeat("█", int(10*k.count/max(1, s.denied[0].count)))
		line("%9d %-10s %s", k.count, bar, plainKey(k.key))
	}
	return b.String()
}

// times describes how long decisions took.
func (v *topView) times() string {
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

// plainKey returns a key that cannot do anything to a terminal.
func plainKey(key string) string {
	quoted := string(resp.AppendQuoted(nil, []byte(key)))
	if quoted[1:len(quoted)-1] == key {
		return key
	}
	return quoted
}

// fit cuts a line to a width in characters.
func fit(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	return string(r[:max(0, width-1)]) + "…"
}
