package server

import (
	"strings"
	"time"

	"limitdb/internal/stats"
)

// LATENCY: how long commands take.
func latencyCommands() []command {
	sub := func(name string, arity int, f flags, summary string, run func(*call), args ...argument) command {
		return command{
			name: name, arity: arity, flags: f | flagLoading | flagStale, group: "server", since: "1.0.0",
			complexity: "O(1)", summary: summary, args: args, run: run,
		}
	}
	event := argument{name: "event", kind: "string"}
	histogram := sub("HISTOGRAM", -2, flagAdmin, "Returns each command's number of calls and the cumulated distribution of their latencies.", (*call).latencyHistogram,
		argument{name: "command", kind: "string", optional: true, multiple: true})
	histogram.complexity = "O(n) for n commands"
	return []command{{
		name: "LATENCY", arity: -2, group: "server", since: "1.0.0", complexity: "Depends on subcommand.",
		summary: "Container for commands about latency.",
		subs: []command{
			histogram,
			sub("LATEST", 2, flagAdmin, "Returns each event's name, the Unix time of its latest occurrence in seconds, and how long that one and the longest one took, in milliseconds. Events are command and fast-command; those of latency-monitor-threshold or more are recorded.", (*call).latencyLatest),
			sub("HISTORY", 3, flagAdmin, "Returns the latest 160 occurrences of an event: when, and how long each took in milliseconds; of each second, the longest.", (*call).latencyHistory, event),
			sub("RESET", -2, flagAdmin, "Forgets events, or all of them; returns how many there were.", (*call).latencyReset,
				argument{name: "event", kind: "string", optional: true, multiple: true}),
			sub("GRAPH", 3, flagAdmin, "Returns an error: limitdb draws no graphs; HISTORY has the figures.", func(c *call) {
				c.fail("ERR No samples available for event '" + plainCut(c.args[2]) + "'")
			}, event),
			sub("DOCTOR", 2, flagAdmin, "Describes which commands take long.", (*call).latencyDoctor),
			sub("HELP", 2, 0, "Lists the subcommands.", (*call).help),
		},
	}}
}

// latencyHistogram replies, for every command that was called, with its calls and a map from
// microseconds to the number of calls that took no longer. It leaves out a bound that adds no
// calls, as Redis does.
func (c *call) latencyHistogram() {
	all := c.called()
	if len(c.args) > 2 {
		wanted := make(map[*command]bool)
		for _, name := range c.args[2:] {
			cmd := c.srv.table.findFull(name)
			if cmd == nil {
				continue
			}
			wanted[cmd] = true
			for i := range cmd.subs {
				wanted[&cmd.subs[i]] = true
			}
		}
		kept := all[:0]
		for _, t := range all {
			if wanted[t.cmd] {
				kept = append(kept, t)
			}
		}
		all = kept
	}
	c.mapOf(len(all))
	for i := range all {
		c.text(all[i].cmd.fullName())
		c.mapOf(2)
		c.text("calls")
		c.int(int64(all[i].Calls()))
		c.text("histogram_usec")
		points := all[i].cumulative()
		c.mapOf(len(points))
		for _, p := range points {
			c.int(p.us)
			c.int(int64(p.calls))
		}
	}
}

// called returns the totals of the commands that have run, in the table's order.
func (c *call) called() []totals {
	all := c.srv.commandTotals()
	kept := all[:0]
	for _, t := range all {
		if t.Calls() > 0 {
			kept = append(kept, t)
		}
	}
	return kept
}

// A latencyPoint says that calls took us microseconds or less.
type latencyPoint struct {
	us    int64
	calls uint64
}

// cumulative returns the histogram as points. The last point counts all calls.
func (t *totals) cumulative() []latencyPoint {
	var points []latencyPoint
	var calls uint64
	for i, n := range t.Latency.Buckets {
		if n > 0 {
			calls += n
			points = append(points, latencyPoint{stats.Bound(i) / int64(time.Microsecond), calls})
		}
	}
	return points
}

// slowCall is the duration from which LATENCY DOCTOR calls a command slow. It equals the
// default threshold of the slow log.
const slowCall = 10 * time.Millisecond

func (c *call) latencyDoctor() {
	var b strings.Builder
	for _, t := range c.called() {
		if p := time.Duration(t.Latency.Quantile(0.999)); p >= slowCall {
			b.WriteString("- " + t.cmd.fullName() + ": one call in a thousand takes " + p.String() + " or more.\n")
		}
	}
	if b.Len() == 0 {
		c.verbatim("Every command answers within " + slowCall.String() +
			", but for at most one call in a thousand. LATENCY HISTOGRAM has the figures.\n")
		return
	}
	c.verbatim("Some commands take long:\n" + b.String() +
		"SLOWLOG GET shows single calls, LATENCY HISTOGRAM the figures. Commands that look at many keys (KEYS, FLUSHALL, SCAN with a large COUNT)\n" +
		"take time in proportion; for all others look at the machine's CPU first.\n")
}
