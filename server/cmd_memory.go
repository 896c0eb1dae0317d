package server

import (
	"fmt"
	"runtime/debug"
	"runtime/metrics"
	"strings"

	"limitdb/engine"
	"limitdb/resp"
	"limitdb/server/keys"
	"limitdb/server/spec"
)

// MEMORY: what the keys, the clients and the process hold.
func memoryCommands() []command {
	sub := rows("server", "O(1)", 0)
	usage := sub("USAGE", -3, spec.Readonly, "Returns the bytes that a key uses, or null. SAMPLES changes nothing: the figure is exact.", (*call).memoryUsage,
		spec.Key("key"), spec.Argument{Name: "count", Kind: "integer", Token: "SAMPLES", Optional: true})
	usage.FirstKey, usage.LastKey, usage.Step, usage.KeyFlags = 2, 2, 1, []string{"RO"}
	return []command{{
		Command: spec.Command{
			Name: "MEMORY", Arity: -2, Group: "server", Complexity: "Depends on subcommand.",
			Summary: "Container for commands about memory.",
		},
		subs: []command{
			usage,
			sub("STATS", 2, 0, "Returns statistics of the process's memory.", (*call).memoryStats),
			sub("DOCTOR", 2, 0, "Gives advice about memory.", (*call).memoryDoctor),
			sub("PURGE", 2, spec.Client, "Collects garbage and returns free memory to the system.", (*call).memoryPurge),
			sub("MALLOC-STATS", 2, 0, "Returns statistics of Go's memory classes.", (*call).memoryClasses),
			sub("HELP", 2, spec.Loading|spec.Stale, "Lists the subcommands.", (*call).help),
		},
	}}
}

func (c *call) memoryUsage() {
	for i := 3; i < len(c.Args); i += 2 {
		if i+1 == len(c.Args) || !resp.EqualFold(c.Args[i], "SAMPLES") {
			c.Fail(spec.ErrSyntax)
			return
		}
		n, ok := resp.ParseInt(c.Args[i+1])
		if !ok {
			c.Fail(spec.ErrNotInt)
			return
		}
		if n < 0 {
			c.Fail(spec.ErrSyntax)
			return
		}
	}
	info, ok := c.srv.states().Info(c.Now, c.Args[2])
	if !ok {
		c.Null()
		return
	}
	c.Int(info.Bytes)
}

// memoryFigures holds the figures of MEMORY STATS and DOCTOR, in bytes.
type memoryFigures struct {
	used     int64 // live objects on the heap, the table among them
	active   int64 // the heap's pages in use
	idle     int64 // the heap's pages that are free and could go back to the system
	resident int64 // of the process, as the system sees it
	peak     int64
	clients  int64 // buffers of all clients
	table    int64 // keys and their state
	keys     int64
}

// withFigures calls reply with the figures. It walks the shards in steps.
func (c *call) withFigures(reply func(*memoryFigures)) {
	keys.Sum(c.inner(), c.srv.states(), func(sum *engine.Stats) {
		f := c.srv.memoryFigures(sum)
		reply(&f)
	})
}

func (srv *Server) memoryFigures(table *engine.Stats) memoryFigures {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(sample)
	f := memoryFigures{
		used:     int64(sample[0].Value.Uint64()),
		idle:     int64(sample[2].Value.Uint64()),
		resident: int64(residentBytes()),
		clients:  srv.clientBytes.Load(),
		table:    table.Bytes,
		keys:     table.Keys,
	}
	f.active = f.used + int64(sample[1].Value.Uint64())
	f.peak = max(f.used, srv.peakBytes.Load())
	return f
}

func (c *call) memoryStats() { c.withFigures(c.figures) }

func (c *call) figures(f *memoryFigures) {
	ratio := func(a, b int64) float64 { return float64(a) / float64(max(b, 1)) }
	perKey := int64(0)
	if f.keys > 0 {
		perKey = f.table / f.keys
	}
	figures := []struct {
		name  string
		value any
	}{
		{"peak.allocated", f.peak},
		{"total.allocated", f.used},
		{"clients.normal", f.clients},
		{"overhead.total", max(f.used-f.table, 0)},
		{"keys.count", f.keys},
		{"keys.bytes-per-key", perKey},
		{"dataset.bytes", f.table},
		{"dataset.percentage", 100 * ratio(f.table, f.used)},
		{"peak.percentage", 100 * ratio(f.used, f.peak)},
		{"allocator.allocated", f.used},
		{"allocator.active", f.active},
		{"allocator.resident", f.resident},
		{"allocator-fragmentation.ratio", ratio(f.active, f.used)},
		{"allocator-fragmentation.bytes", f.active - f.used},
		{"fragmentation", ratio(f.resident, f.used)},
		{"fragmentation.bytes", f.resident - f.used},
	}
	c.Map(len(figures))
	for _, v := range figures {
		c.Text(v.name)
		switch n := v.value.(type) {
		case int64:
			c.Int(n)
		case float64:
			c.Double(n)
		}
	}
}

func (c *call) memoryDoctor() {
	c.withFigures(func(f *memoryFigures) {
		c.Verbatim(memoryAdvice(f, c.srv.set.MaxMemory.Get(), c.srv.clientsBudget()))
	})
}

// memoryAdvice says in words what the figures mean. maxKeys is maxmemory and maxClients is
// maxmemory-clients, in bytes, 0 for no limit.
func memoryAdvice(f *memoryFigures, maxKeys, maxClients int64) string {
	size := func(n int64) string { return human(uint64(n)) }
	var advice []string
	if maxKeys > 0 && f.table > maxKeys/10*9 {
		advice = append(advice, fmt.Sprintf("The keys take %s of the %s that maxmemory allows. Raise it, or use limits that reset sooner: a key goes when its limit is as if never used.", size(f.table), size(maxKeys)))
	}
	if maxClients > 0 && f.clients > maxClients/2 {
		advice = append(advice, fmt.Sprintf("The clients' buffers hold %s of the %s that maxmemory-clients allows; over it the largest client is closed. CLIENT LIST shows who does not read its replies (omem) or sends much at once (qbuf).", size(f.clients), size(maxClients)))
	}
	if f.idle > f.active && f.idle > 64<<20 {
		advice = append(advice, fmt.Sprintf("The process holds %s, of which %s lie idle. They go back to the system in time; MEMORY PURGE does it now.", size(f.resident), size(f.idle)))
	}
	if len(advice) == 0 {
		return fmt.Sprintf("Nothing to worry about: %d keys take %s, the clients' buffers %s, the process %s.\n",
			f.keys, size(f.table), size(f.clients), size(f.resident))
	}
	return "- " + strings.Join(advice, "\n- ") + "\n"
}

// memoryPurge collects garbage in its own goroutine, since the collection of a large heap would
// delay every client that shares this one's goroutine.
func (c *call) memoryPurge() {
	c.inBackground(func() error { debug.FreeOSMemory(); return nil }, c.okOrFail)
}

func (c *call) memoryClasses() {
	var samples []metrics.Sample
	for _, d := range metrics.All() {
		if d.Kind == metrics.KindUint64 && strings.HasPrefix(d.Name, "/memory/classes/") {
			samples = append(samples, metrics.Sample{Name: d.Name})
		}
	}
	metrics.Read(samples)
	var b strings.Builder
	for _, m := range samples {
		name := strings.TrimSuffix(strings.TrimPrefix(m.Name, "/memory/classes/"), ":bytes")
		fmt.Fprintf(&b, "%-30s %14d bytes\n", name, m.Value.Uint64())
	}
	c.Verbatim(b.String())
}
