package server

import (
	"fmt"
	"runtime/debug"
	"runtime/metrics"
	"strings"

	"limitdb/engine"
	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/info"
	"limitdb/server/keys"
	"limitdb/server/spec"
)

// MEMORY: what the keys, the clients and the process hold.
func memoryRows() []row {
	sub := handler.Rows[call]("server", "O(1)", 0)
	usage := sub("USAGE", -3, spec.Readonly, "Returns the bytes that a key uses, or null. SAMPLES changes nothing: the figure is exact.", (*call).memoryUsage,
		spec.Key("key"), spec.Argument{Name: "count", Kind: "integer", Token: "SAMPLES", Optional: true})
	usage.FirstKey, usage.LastKey, usage.Step, usage.KeyFlags = 2, 2, 1, []string{"RO"}
	return []row{handler.Container("MEMORY", "server", "A container for commands about memory.",
		usage,
		sub("STATS", 2, 0, "Returns statistics of the process's memory.", (*call).memoryStats),
		sub("DOCTOR", 2, 0, "Gives advice about memory.", (*call).memoryDoctor),
		sub("PURGE", 2, spec.Client, "Collects garbage and returns free memory to the system.", (*call).memoryPurge),
		sub("MALLOC-STATS", 2, 0, "Returns statistics of Go's memory classes.", (*call).memoryClasses),
	)}
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

// withFigures calls reply with the figures. It walks the shards in steps.
func (c *call) withFigures(reply func(*info.Memory)) {
	keys.Sum(c.inner(), c.srv.states(), func(sum *engine.Stats) {
		f := c.srv.memoryFigures(sum)
		reply(&f)
	})
}

func (srv *Server) memoryFigures(table *engine.Stats) info.Memory {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(sample)
	f := info.Memory{
		Used:     int64(sample[0].Value.Uint64()),
		Idle:     int64(sample[2].Value.Uint64()),
		Resident: int64(info.ResidentBytes()),
		Clients:  srv.clientBytes.Load(),
		Table:    table.Bytes,
		Keys:     table.Keys,
	}
	f.Active = f.Used + int64(sample[1].Value.Uint64())
	f.Peak = max(f.Used, srv.peakBytes.Load())
	return f
}

func (c *call) memoryStats() { c.withFigures(func(f *info.Memory) { f.Stats(&c.Reply) }) }

func (c *call) memoryDoctor() {
	c.withFigures(func(f *info.Memory) { c.Verbatim(f.Advice(c.srv.set.MaxMemory.Get(), c.srv.clientsBudget())) })
}

// memoryPurge collects garbage in its own goroutine, since the collection of a large heap would
// delay every client that shares this one's goroutine.
func (c *call) memoryPurge() {
	c.client.Background(func() error { debug.FreeOSMemory(); return nil }, c.okOrFail)
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
