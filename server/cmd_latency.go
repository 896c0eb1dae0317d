package server

import (
	"strings"
	"time"

	"limitdb/internal/stats"
	"limitdb/resp"
	"limitdb/server/latency"
	"limitdb/server/spec"
)

// LATENCY: how long commands take.
func latencyCommands() []command {
	sub := rows("server", "O(1)", spec.Loading|spec.Stale)
	event := spec.Text("event")
	histogram := sub("HISTOGRAM", -2, spec.Admin, "Returns each command's number of calls and the cumulated distribution of their latencies.", (*call).latencyHistogram,
		spec.Argument{Name: "command", Kind: "string", Optional: true, Multiple: true})
	histogram.Complexity = "O(n) for n commands"
	return []command{{
		Command: spec.Command{
			Name: "LATENCY", Arity: -2, Group: "server", Complexity: "Depends on subcommand.",
			Summary: "Container for commands about latency.",
		},
		subs: []command{
			histogram,
			sub("LATEST", 2, spec.Admin, "Returns each event's name, the Unix time of its latest occurrence in seconds, and how long that one and the longest one took, in milliseconds. Events are command and fast-command; those of latency-monitor-threshold or more are recorded.", (*call).latencyLatest),
			sub("HISTORY", 3, spec.Admin, "Returns the latest 160 occurrences of an event: when, and how long each took in milliseconds; of each second, the longest.", (*call).latencyHistory, event),
			sub("RESET", -2, spec.Admin, "Forgets events, or all of them; returns how many there were.", (*call).latencyReset,
				spec.Argument{Name: "event", Kind: "string", Optional: true, Multiple: true}),
			sub("GRAPH", 3, spec.Admin, "Returns an error: limitdb draws no graphs; HISTORY has the figures.", func(c *call) {
				c.Fail("ERR No samples available for event '" + resp.Excerpt(c.Args[2]) + "'")
			}, event),
			sub("DOCTOR", 2, spec.Admin, "Describes which commands take long.", (*call).latencyDoctor),
			sub("HELP", 2, 0, "Lists the subcommands.", (*call).help),
		},
	}}
}

// latencyHistogram replies, for every command that was called, with its calls and a map from
// microseconds to the number of calls that took no longer. It leaves out a bound that adds no
// calls, as Redis does.
func (c *call) latencyHistogram() {
	all := c.called()
	if len(c.Args) > 2 {
		wanted := make(map[*spec.Command]bool)
		for _, name := range c.Args[2:] {
			cmd := c.srv.table.FindFull(name)
			if cmd == nil {
				continue
			}
			wanted[cmd] = true
			for _, sub := range cmd.Subs {
				wanted[sub] = true
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
	c.Map(len(all))
	for i := range all {
		c.Text(all[i].cmd.Full)
		c.Map(2)
		c.Text("calls")
		c.Int(int64(all[i].Calls()))
		c.Text("histogram_usec")
		points := all[i].cumulative()
		c.Map(len(points))
		for _, p := range points {
			c.Int(p.us)
			c.Int(int64(p.calls))
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
			b.WriteString("- " + t.cmd.Full + ": one call in a thousand takes " + p.String() + " or more.\n")
		}
	}
	if b.Len() == 0 {
		c.Verbatim("Every command answers within " + slowCall.String() +
			", but for at most one call in a thousand. LATENCY HISTOGRAM has the figures.\n")
		return
	}
	c.Verbatim("Some commands take long:\n" + b.String() +
		"SLOWLOG GET shows single calls, LATENCY HISTOGRAM the figures. Commands that look at many keys (KEYS, FLUSHALL, SCAN with a large COUNT)\n" +
		"take time in proportion; for all others look at the machine's CPU first.\n")
}

// The events, by Redis' names.
const (
	eventCommand     = "command"
	eventFastCommand = "fast-command"
)

// offerLatency records that cmd took that many nanoseconds, if that reaches the threshold.
func (srv *Server) offerLatency(cmd *command, now, took int64) {
	least, ms := srv.set.LatencyThreshold.Get(), took/int64(time.Millisecond)
	if least == 0 || ms < least {
		return
	}
	name := eventCommand
	if cmd.Flags&spec.Fast != 0 {
		name = eventFastCommand
	}
	srv.latency.Add(name, latency.Sample{At: now / int64(time.Second), MS: ms})
}

func (c *call) latencyLatest() {
	all := c.srv.latency.Latest()
	c.Array(len(all))
	for _, e := range all {
		c.Array(4)
		c.Text(e.Name)
		c.Int(e.At)
		c.Int(e.MS)
		c.Int(e.Max)
	}
}

func (c *call) latencyHistory() {
	all := c.srv.latency.History(string(c.Args[2]))
	c.Array(len(all))
	for _, e := range all {
		c.Array(2)
		c.Int(e.At)
		c.Int(e.MS)
	}
}

func (c *call) latencyReset() {
	var names []string
	for _, a := range c.Args[2:] {
		names = append(names, string(a))
	}
	c.Int(int64(c.srv.latency.Reset(names...)))
}
