package memory

import (
	"runtime/debug"
	"runtime/metrics"

	"limitdb/engine"
	"limitdb/resp"
	"limitdb/server/clients"
	"limitdb/server/handler"
	"limitdb/server/keys"
	"limitdb/server/spec"
)

type (
	call = handler.Call
	row  = handler.Row[call]
)

// Rows returns MEMORY, which says what the keys, the clients and the process hold.
func (m *Reading) Rows(of *clients.Set) []row {
	sub := handler.Rows[call]("server", "O(1)", 0)
	usage := sub("USAGE", -3, spec.Readonly, "Returns the bytes that a key uses, or null. SAMPLES changes nothing: the figure is exact.", keyUsage,
		spec.Key("key"), spec.Argument{Name: "count", Kind: "integer", Token: "SAMPLES", Optional: true})
	usage.FirstKey, usage.LastKey, usage.Step, usage.KeyFlags = 2, 2, 1, []string{"RO"}
	return []row{handler.Container("MEMORY", "server", "A container for commands about memory.",
		usage,
		sub("STATS", 2, 0, "Returns statistics of the process's memory.", func(c *call) { m.figures(c, of, func(f *Figures) { f.Stats(&c.Reply) }) }),
		sub("PURGE", 2, spec.Client, "Collects garbage and returns free memory to the system.", purge),
	)}
}

func keyUsage(c *call) {
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
	info, ok := c.Keyspace().Info(c.Args[2])
	if !ok {
		c.Null()
		return
	}
	c.Int(info.Bytes)
}

// figures calls reply with the figures. It walks the shards in steps.
func (m *Reading) figures(c *call, of *clients.Set, reply func(*Figures)) {
	keys.Sum(c, func(table *engine.Stats) {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
		metrics.Read(sample)
		f := Figures{
			Used:     int64(sample[0].Value.Uint64()),
			Resident: int64(ResidentBytes()),
			Clients:  of.Bytes.Load(),
			Table:    table.Bytes,
			Keys:     table.Keys,
		}
		f.Active = f.Used + int64(sample[1].Value.Uint64())
		f.Peak = max(f.Used, int64(m.peak.Load()))
		reply(&f)
	})
}

// purge collects garbage in its own goroutine, since the collection of a large heap would
// delay every client that shares this one's goroutine.
func purge(c *call) {
	c.Client.Background(func() error { debug.FreeOSMemory(); return nil }, func(error) { c.OK() })
}
