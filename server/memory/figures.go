package memory

import "limitdb/resp"

// Figures are those of MEMORY STATS, in bytes.
type Figures struct {
	Used     int64 // live objects on the heap, the table among them
	Active   int64 // the heap's pages in use
	Resident int64 // of the process, as the system sees it
	Peak     int64
	Clients  int64 // buffers of all clients
	Table    int64 // keys and their state
	Keys     int64
}

// Stats replies to MEMORY STATS.
func (f *Figures) Stats(c *resp.Reply) {
	ratio := func(a, b int64) float64 { return float64(a) / float64(max(b, 1)) }
	perKey := int64(0)
	if f.Keys > 0 {
		perKey = f.Table / f.Keys
	}
	c.Fields(
		"peak.allocated", f.Peak,
		"total.allocated", f.Used,
		"clients.normal", f.Clients,
		"overhead.total", max(f.Used-f.Table, 0),
		"keys.count", f.Keys,
		"keys.bytes-per-key", perKey,
		"dataset.bytes", f.Table,
		"dataset.percentage", 100*ratio(f.Table, f.Used),
		"peak.percentage", 100*ratio(f.Used, f.Peak),
		"allocator.allocated", f.Used,
		"allocator.active", f.Active,
		"allocator.resident", f.Resident,
		"allocator-fragmentation.ratio", ratio(f.Active, f.Used),
		"allocator-fragmentation.bytes", f.Active-f.Used,
		"fragmentation", ratio(f.Resident, f.Used),
		"fragmentation.bytes", f.Resident-f.Used,
	)
}
