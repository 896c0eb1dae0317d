package latency

import (
	"slices"
	"strings"
	"time"

	"limitdb/internal/stats"
	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

type (
	call = handler.Call
	row  = handler.Row[call]
)

// Rows returns LATENCY, which says how long commands take.
func (m *Monitor) Rows() []row {
	sub := handler.Rows[call]("server", "O(1)", spec.Admin|spec.Loading|spec.Stale)
	event := spec.Text("event")
	return []row{handler.Container("LATENCY", "server", "A container for commands about latency.",
		sub("HISTOGRAM", -2, 0, "Returns each command's number of calls and the cumulated distribution of their latencies.", m.histogram,
			spec.Optional(spec.Several(spec.Text("command")))).Takes("O(n) for n commands"),
		sub("LATEST", 2, 0, "Returns each event's name, the Unix time of its latest occurrence in seconds, and how long that one and the longest one took, in milliseconds. Events are command and fast-command; those of latency-monitor-threshold or more are recorded.", m.latest),
		sub("HISTORY", 3, 0, "Returns the latest 160 occurrences of an event, at most the longest of each second: the Unix time, and how many milliseconds it took.", m.history, event),
		sub("RESET", -2, 0, "Forgets events, or all of them; returns how many there were.", m.reset, spec.Optional(spec.Several(event))),
	)}
}

// histogram replies, for every command that was called, with its calls and a map from
// microseconds to the number of calls that took no longer. It leaves out a bound that adds no
// calls, as Redis does.
func (m *Monitor) histogram(c *call) {
	all := called(m.Commands())
	if len(c.Args) > 2 {
		all = slices.DeleteFunc(all, func(t stats.Command) bool {
			parent, _, _ := strings.Cut(t.Name, "|")
			return !slices.ContainsFunc(c.Args[2:], func(name []byte) bool { return resp.EqualFold(name, t.Name) || resp.EqualFold(name, parent) })
		})
	}
	c.Map(len(all))
	for i := range all {
		c.Text(all[i].Name)
		c.Fields("calls", all[i].Calls(), "histogram_usec", func() {
			points := cumulative(&all[i].Latency)
			c.Map(len(points))
			for _, p := range points {
				c.Int(p.us)
				c.Int(int64(p.calls))
			}
		})
	}
}

// called returns the commands that have run.
func called(all []stats.Command) []stats.Command {
	return slices.DeleteFunc(all, func(t stats.Command) bool { return t.Calls() == 0 })
}

// A point is the number of calls that took us microseconds or less.
type point struct {
	us    int64
	calls uint64
}

// cumulative returns the histogram as points. The last point counts all calls.
func cumulative(l *stats.Histogram) []point {
	var points []point
	var calls uint64
	for i, n := range l.Buckets {
		if n > 0 {
			calls += n
			points = append(points, point{stats.Bound(i) / int64(time.Microsecond), calls})
		}
	}
	return points
}

func (m *Monitor) latest(c *call) {
	all := m.Latest()
	c.Array(len(all))
	for _, e := range all {
		c.Array(4)
		c.Text(e.Name)
		c.Int(e.At)
		c.Int(e.MS)
		c.Int(e.Max)
	}
}

func (m *Monitor) history(c *call) {
	all := m.History(string(c.Args[2]))
	c.Array(len(all))
	for _, e := range all {
		c.Array(2)
		c.Int(e.At)
		c.Int(e.MS)
	}
}

func (m *Monitor) reset(c *call) {
	var names []string
	for _, a := range c.Args[2:] {
		names = append(names, string(a))
	}
	c.Int(int64(m.Reset(names...)))
}
