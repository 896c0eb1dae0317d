package info

import (
	"fmt"
	"strings"

	"limitdb/internal/english"
	"limitdb/resp"
)

// Memory holds the figures of MEMORY STATS and DOCTOR, in bytes.
type Memory struct {
	Used     int64 // live objects on the heap, the table among them
	Active   int64 // the heap's pages in use
	Idle     int64 // the heap's pages that are free and could go back to the system
	Resident int64 // of the process, as the system sees it
	Peak     int64
	Clients  int64 // buffers of all clients
	Table    int64 // keys and their state
	Keys     int64
}

// Stats replies to MEMORY STATS.
func (f *Memory) Stats(c *resp.Reply) {
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

// Advice says in words what the figures mean. maxKeys is maxmemory and maxClients is
// maxmemory-clients, in bytes, 0 for no limit.
func (f *Memory) Advice(maxKeys, maxClients int64) string {
	size := func(n int64) string { return Human(uint64(n)) }
	var advice []string
	if maxKeys > 0 && f.Table > maxKeys/10*9 {
		advice = append(advice, fmt.Sprintf("The keys take %s of the %s that maxmemory allows. Raise it, or use limits that reset sooner: a key goes when its limit is as if never used.", size(f.Table), size(maxKeys)))
	}
	if maxClients > 0 && f.Clients > maxClients/2 {
		advice = append(advice, fmt.Sprintf("The clients' buffers hold %s of the %s that maxmemory-clients allows; over it the largest client is closed. CLIENT LIST shows who does not read its replies (omem) or sends much at once (qbuf).", size(f.Clients), size(maxClients)))
	}
	if f.Idle > f.Active && f.Idle > 64<<20 {
		advice = append(advice, fmt.Sprintf("The process holds %s, of which %s lie idle. They go back to the system in time; MEMORY PURGE does it now.", size(f.Resident), size(f.Idle)))
	}
	if len(advice) == 0 {
		return fmt.Sprintf("Nothing to worry about: memory for %s %s, for the clients' buffers %s, of the process %s.\n",
			english.Count(int(f.Keys), "key"), size(f.Table), size(f.Clients), size(f.Resident))
	}
	return "- " + strings.Join(advice, "\n- ") + "\n"
}
